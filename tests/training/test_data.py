"""Batches by index: every piece once an epoch, and nothing but (corpus, seed, n) decides what batch n holds."""

import itertools
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.data import open_corpus
from seqdiff.training.data import InMemory, TokenBatches, make_batches, segment_ids
from seqdiff.training.packing import pack

LAYOUTS: dict[str, dict[str, Any]] = {
    "pad": {"layout": "pad"},
    "bucket": {"layout": "bucket", "buckets": (5, 11)},
    "pack": {"layout": "pack"},
}
LENGTH = 23


def sequences(number: int, longest: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 20, rng.integers(1, longest + 1)).astype(np.int32) for _ in range(number)]


def batches(found: list[np.ndarray], **options: Any) -> TokenBatches:
    fields: dict[str, Any] = {"length": LENGTH, "batch": 4, "seed": 7, "process": 0, "processes": 1} | options
    return make_batches(InMemory(found), PROTEIN, **fields)


def pieces(tokens: np.ndarray, frame: bool = True) -> list[tuple[int, ...]]:
    """The sequences of a batch, each without frame and padding."""
    rows = ([int(token) for token in row if token != PROTEIN.pad] for row in tokens)
    if not frame:
        return [tuple(row) for row in rows if row]
    parts = []
    for row in rows:
        starts = [i for i, token in enumerate(row) if token == PROTEIN.begin or i == 0]
        parts += [tuple(row[a:b]) for a, b in itertools.pairwise([*starts, len(row)])]
    return parts


def stripped(part: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(token for token in part if token < 20)


@settings(max_examples=40, deadline=None)
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    number=st.integers(1, 60),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    epoch=st.integers(0, 3),
)
def test_an_epoch_holds_each_sequence_once(layout: str, number: int, batch: int, seed: int, epoch: int):
    found = sequences(number, LENGTH - 2, seed=number)
    made = batches(found, batch=batch, seed=seed, **LAYOUTS[layout])
    if len(made.shapes) > 1:
        span = int(made.per_epoch)
        parts = [part for n in range(epoch * span, (epoch + 1) * span) for part in pieces(made[n])]
    else:
        # Batches run on over the end of an epoch, so rows are counted.
        rows = round(made.per_epoch * batch)
        held = np.concatenate([made[n] for n in range(epoch * rows // batch, (epoch + 1) * rows // batch + 1)])
        skip = epoch * rows - epoch * rows // batch * batch
        parts = pieces(held[skip : skip + rows])
    assert Counter(map(stripped, parts)) == Counter(tuple(sequence.tolist()) for sequence in found)
    assert all(part[0] == PROTEIN.begin and part[-1] == PROTEIN.end for part in parts)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_sequences_are_cut_to_windows_that_move(layout: str):
    found = [np.arange(20, dtype=np.int32).repeat(5), *sequences(9, 12)]
    made = batches(found, batch=1, **LAYOUTS[layout])
    full = [PROTEIN.begin, *found[0].tolist(), PROTEIN.end]
    text = ",".join(map(str, full))
    rows = round(made.per_epoch)
    epochs = []
    for epoch in range(2):
        cut = [row for n in range(epoch * rows, (epoch + 1) * rows) for row in made[n].tolist() if len(row) == LENGTH]
        cut = sorted(",".join(map(str, row)) for row in cut if ",".join(map(str, row)) in text)
        assert len(cut) == -(-len(full) // LENGTH)
        epochs.append(cut)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_rows_of_the_same_batches(layout: str, processes: int):
    found = sequences(50, 40)
    whole = batches(found, batch=6, **LAYOUTS[layout])
    shards = [batches(found, batch=6, process=p, processes=processes, **LAYOUTS[layout]) for p in range(processes)]
    for n in range(2 * int(whole.per_epoch) + 1):
        np.testing.assert_array_equal(np.concatenate([shard[n] for shard in shards]), whole[n])
    assert {shard.shapes for shard in shards} == {tuple((rows // processes, size) for rows, size in whole.shapes)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_resumed_stream_goes_on_and_threads_change_nothing(layout: str):
    found = sequences(50, 40)
    expected = [batches(found, **LAYOUTS[layout])[n] for n in range(30)]
    for start, threads in ((0, 0), (0, 1), (0, 8), (13, 4), (29, 2)):
        stream = batches(found, **LAYOUTS[layout]).stream(start, 30, threads=threads, ahead=3)
        for tokens, wanted in zip(stream, expected[start:], strict=True):
            np.testing.assert_array_equal(tokens, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_an_indexed_file_travel_to_worker_processes(tmp_path: Path, layout: str):
    path, found = tmp_path / "s.fasta", sequences(50, 40)
    path.write_text("".join(f">s{i}\n{PROTEIN.decode(sequence)}\n" for i, sequence in enumerate(found)))
    corpus = open_corpus(path, whole=0)
    made = make_batches(corpus, PROTEIN, length=LENGTH, batch=4, seed=7, process=0, processes=1, **LAYOUTS[layout])
    travelled = pickle.loads(pickle.dumps(made))
    for n in range(9):
        np.testing.assert_array_equal(travelled[n], made[n])
        np.testing.assert_array_equal(travelled[n], batches(found, **LAYOUTS[layout])[n])


@pytest.mark.parametrize("total", [1, 2, 17, 1 << 14, (1 << 14) + 1, 20_011])
def test_shuffles_are_permutations(total: int):
    from seqdiff.training.data import _shuffled

    places = [_shuffled(i, total, 3, 1, 0) for i in range(total)]
    assert sorted(places) == list(range(total))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_seeds_and_epochs_differ_and_shapes_are_those_promised(layout: str):
    found = sequences(60, 40)
    made, other = batches(found, **LAYOUTS[layout]), batches(found, seed=8, **LAYOUTS[layout])
    epoch = int(np.ceil(made.per_epoch))
    first = np.concatenate([made[n].ravel() for n in range(epoch)])
    for different in ([made[n + epoch] for n in range(epoch)], [other[n] for n in range(epoch)]):
        flat = np.concatenate([tokens.ravel() for tokens in different])
        assert flat.shape != first.shape or (flat != first).any()
    assert {made[n].shape for n in range(3 * epoch)} == set(made.shapes)
    assert all(made[n].dtype == np.int32 for n in range(3))


def test_batches_of_buckets_have_as_many_tokens_and_little_padding():
    found = sequences(3000, 62)
    padded = batches(found, length=64, batch=4)
    made = batches(found, length=64, batch=4, layout="bucket", buckets=(16, 32))
    packed = batches(found, length=64, batch=4, layout="pack")
    assert made.shapes == ((16, 16), (8, 32), (4, 64))
    share = [
        np.mean(np.concatenate([kind[n].ravel() for n in range(int(kind.per_epoch))]) != PROTEIN.pad)
        for kind in (padded, made, packed)
    ]
    assert share[0] < 0.6 < 0.7 < share[1] < 0.98 < share[2]


def test_networks_without_a_frame_see_letters_only():
    found = sequences(30, LENGTH)
    made = batches(found, frame=False)
    parts = [part for n in range(9) for part in pieces(made[n], frame=False)][:30]
    assert Counter(parts) == Counter(tuple(sequence.tolist()) for sequence in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=12, max_size=12))
def test_packing_places_every_piece_once(counts: list[int]):
    histogram = np.array([0, *counts])
    patterns = pack(histogram, 12)
    placed = Counter()
    for rows, sizes in patterns:
        assert rows > 0
        assert sum(sizes) <= 12
        placed.update({size: rows * number for size, number in Counter(sizes).items()})
    assert placed == Counter({size: number for size, number in enumerate(histogram.tolist()) if number})
    assert sum(pattern.rows for pattern in patterns) <= 1 + 2 * int(histogram @ np.arange(13)) // 12  # any fit's bound


def test_segments_count_from_one_sequence_to_the_next():
    b, e, p = PROTEIN.begin, PROTEIN.end, PROTEIN.pad
    tokens = jnp.array([[b, 1, e, b, 2, 3, e, p], [4, 5, 6, 7, 8, 9, 1, 2]], jnp.int32)
    assert segment_ids(tokens, b).tolist() == [[1, 1, 1, 2, 2, 2, 2, 2], [0] * 8]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "packed"}, "did you mean 'pack'"),
        ({"layout": "bucket"}, "needs lengths"),
        ({"buckets": (8,)}, "others have none"),
        ({"layout": "bucket", "buckets": (8, LENGTH)}, "which is the last bucket"),
        ({"layout": "pack", "frame": False}, "frame tokens"),
        ({"processes": 3}, "do not divide among 3 processes"),
        ({"length": 0}, "length=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_values_that_do_not_fit_are_refused(options: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
        batches(sequences(5, 9), **options)


def test_a_corpus_needs_sequences():
    with pytest.raises(InputError, match="no training sequences"):
        batches([])
    with pytest.raises(IndexError):
        batches(sequences(5, 9))[-1]
