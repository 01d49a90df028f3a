"""Batches of fixed length cut from sequences, by index: batch ``n`` depends on (seed, n) only, so a run resumes.

Sequences are framed by BEGIN and END, if the network reads a frame, then cut into windows whose number grows with the
length, so that every residue is seen about once an epoch. grain shuffles, jitters and batches.
"""

from collections.abc import Sequence

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, missing_extra


def crop_batches(
    sequences: Sequence[np.ndarray], alphabet: Alphabet, *, length: int, batch: int, seed: int, frame: bool = True
):
    """A grain dataset whose item ``n`` is an int32 batch [batch, length]; epochs follow one another without end.

    Args:
        sequences: letter ids of each sequence.
        alphabet: gives the frame and padding ids.
        length: tokens per row, frame tokens included.
        batch: rows per batch.
        seed: order of the windows and their jitter.
        frame: whether the network reads frame tokens.
    """
    try:
        import grain
    except ImportError:
        raise missing_extra("grain", "train") from None
    if not sequences:
        raise InputError("no training sequences")
    # One window per started ``length`` tokens; (sequence, window, windows) in flat arrays, not Python objects.
    begin, end = ([alphabet.begin], [alphabet.end]) if frame else ([], [])
    sizes = np.array([len(begin) + len(sequence) + len(end) for sequence in sequences])
    windows = -(-sizes // length)
    owner = np.repeat(np.arange(len(sequences)), windows)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(windows) - windows, windows)

    def cut(index: int, rng: np.random.Generator) -> np.ndarray:
        sequence = sequences[owner[index]]
        framed = np.concatenate([begin, sequence, end]).astype(np.int32)
        spare = len(framed) - length
        if spare <= 0:
            return np.pad(framed, (0, -spare), constant_values=alphabet.pad)
        start = int((rank[index] + rng.random()) / windows[owner[index]] * (spare + 1))
        return framed[start : start + length]

    dataset = grain.MapDataset.range(len(owner)).seed(seed).shuffle().repeat()
    return dataset.random_map(cut).batch(batch)
