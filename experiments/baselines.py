"""Counting baselines of a protein model: what letter frequencies and neighbours alone explain."""

from collections.abc import Iterable, Sequence

import numpy as np

DISCOUNT = 0.75


class Unigram:
    """Letter frequencies of a training set."""

    name = "unigram"

    def __init__(self, sequences: Iterable[np.ndarray], letters: int):
        counts = sum((np.bincount(sequence, minlength=letters) for sequence in sequences), np.zeros(letters, int))
        self._log_p = np.log(counts / counts.sum())

    def nats(self, sequence: np.ndarray) -> float:
        """Negative log-probability of a sequence."""
        return float(-self._log_p[sequence].sum())


class Trigram:
    """The two letters before, with absolute discounting down to the unigram (Ney et al. 1994)."""

    name = "trigram"

    def __init__(self, sequences: Sequence[np.ndarray], letters: int):
        start = letters
        unigram = np.zeros(letters)
        pairs = np.zeros((letters + 1, letters))
        triples = np.zeros((letters + 1, letters + 1, letters))
        for sequence in sequences:
            padded = np.concatenate([[start, start], sequence])
            np.add.at(unigram, sequence, 1)
            np.add.at(pairs, (padded[1:-1], sequence), 1)
            np.add.at(triples, (padded[:-2], padded[1:-1], sequence), 1)
        one = unigram / unigram.sum()
        two = _discounted(pairs, np.broadcast_to(one, pairs.shape))
        self._start = start
        self._log_p = np.log(_discounted(triples, np.broadcast_to(two[None], triples.shape)))

    def nats(self, sequence: np.ndarray) -> float:
        """Negative log-probability of a sequence, its start given."""
        padded = np.concatenate([[self._start, self._start], sequence])
        return float(-self._log_p[padded[:-2], padded[1:-1], sequence].sum())


def _discounted(counts: np.ndarray, lower: np.ndarray) -> np.ndarray:
    total = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    seen = np.count_nonzero(counts, axis=-1, keepdims=True)
    left = np.where(seen > 0, DISCOUNT * seen / total, 1.0)
    return np.maximum(counts - DISCOUNT, 0) / total + left * lower
