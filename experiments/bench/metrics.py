"""How far a sample is from the law it should have, and how natural it looks where no law is known.

Against a known law (``seqdiff.models.oracles``): total variation of pairs of letters, negative log-likelihood, and,
where all texts can be listed, total variation and divergence of whole texts. A finite sample differs from its own law,
so each comes with what a true sample of that size would show. Low negative log-likelihood alone is no merit: a sampler
that repeats itself goes *below* the entropy of the law.

Without a law: entropy of the letters, repeats, diversity and the perplexity under a scorer from held-out data. They
say something only beside their values on real sequences.

A sample is a sequence of texts: strings, or arrays of letter ids (the rows of a matrix where lengths are equal).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

Sample = Sequence[str] | Sequence[np.ndarray] | np.ndarray


class Law(Protocol):
    """What is asked of a law; the oracles have it."""

    def log_prob(self, tokens: Any, /) -> Any:
        """Log-probability of each row [n, L]."""
        ...

    def sample(self, key: Any, n: int, length: int) -> Any:
        """True draws [n, L]."""
        ...

    def pair_marginals(self, length: int, lag: int = 1) -> Any:
        """Law of each pair of letters at a distance [L - lag, V, V]."""
        ...


class Scorer(Protocol):
    """A model of sequences, such as ``seqdiff.experiments.baselines.Trigram``."""

    def nats(self, sequence: np.ndarray) -> float:
        """Negative log-probability of a sequence of letter ids."""
        ...


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What true samples of the same size show.

    Attributes:
        mean: over the samples.
        deviation: standard deviation of one sample.
    """

    mean: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A sample of whole texts against their law.

    Attributes:
        variation: total variation between the frequencies of the sample and the law.
        expected_variation: its mean over true samples of that size.
        kl: sum of f log(f / p) over the texts seen, f their frequencies, in nats; infinite if one has p = 0.
        expected_kl: its mean over true samples to first order, (texts - 1) / (2 n) (Miller 1955): for n well above the
            number of texts with p > 0.
    """

    variation: float
    expected_variation: float
    kl: float
    expected_kl: float


def pair_variation(tokens: Int[np.ndarray, "n L"], law: Law, lag: int = 1) -> float:
    """Total variation between the pairs of letters ``lag`` apart, pooled over positions, and the law's; 1: bigrams."""
    wanted = np.asarray(law.pair_marginals(tokens.shape[1], lag), float).mean(axis=0)
    found = np.zeros_like(wanted)
    np.add.at(found, (tokens[:, :-lag], tokens[:, lag:]), 1.0 / (len(tokens) * (tokens.shape[1] - lag)))
    return float(0.5 * np.abs(found - wanted).sum())


def pair_variation_floor(law: Law, n: int, length: int, lag: int = 1, *, seed: int = 0, samples: int = 20) -> Floor:
    """:func:`pair_variation` of true samples, by drawing them: the pairs of one text depend on each other."""
    keys = jax.random.split(jax.random.key(seed), samples)
    found = [pair_variation(np.asarray(law.sample(key, n, length)), law, lag) for key in keys]
    return Floor(mean=float(np.mean(found)), deviation=float(np.std(found, ddof=1)))


def mean_nll(tokens: Int[np.ndarray, "n L"], law: Law) -> tuple[float, float]:
    """Negative log-likelihood per token under the law, in nats, and its standard error over texts.

    For a true sample it is the law's entropy per token.
    """
    nats = -np.asarray(law.log_prob(tokens), float) / tokens.shape[1]
    return float(nats.mean()), float(nats.std(ddof=1) / np.sqrt(len(nats)))


def divergence(tokens: Int[np.ndarray, "n L"], p: Float[np.ndarray, "*vocab"]) -> Divergence:
    """A sample against the table of all texts.

    Args:
        tokens: the sample.
        p: probability of each text, one axis per position.
    """
    n = len(tokens)
    counts = np.bincount(np.ravel_multi_index(tuple(tokens.T), p.shape), minlength=p.size)
    p = np.asarray(p, float).ravel()
    f = counts / n
    seen = counts > 0
    with np.errstate(divide="ignore"):
        kl = np.sum(f[seen] * (np.log(f[seen]) - np.log(p[seen])))
    return Divergence(
        variation=float(0.5 * np.abs(f - p).sum()),
        expected_variation=expected_variation(p, n),
        kl=float(kl),
        expected_kl=(np.count_nonzero(p) - 1) / (2 * n),
    )


def expected_variation(p: Float[np.ndarray, "*outcomes"], n: int) -> float:
    """Mean total variation between a law and the frequencies of n independent draws from it, exactly.

    Each count is binomial and its mean deviation is ``2 m C(n, m) p^m (1 - p)^(n - m + 1)`` with
    ``m = floor(n p) + 1`` (de Moivre 1730).
    """
    p = np.asarray(p, float).ravel()
    p = p[(p > 0) & (p < 1)]
    m = np.minimum(np.floor(n * p) + 1, n)
    log_choose = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    deviation = 2 * m * np.exp(log_choose + m * np.log(p) + (n - m + 1) * np.log1p(-p))
    return float(0.5 * deviation.sum() / n)


def unigram_entropy(sample: Sample) -> float:
    """Entropy of the letters of all texts together, in nats."""
    _, counts = np.unique(np.concatenate(list(_codes(sample))), return_counts=True)
    f = counts / counts.sum()
    return float(-(f * np.log(f)).sum())


def repeat_fraction(sample: Sample, *, period: int = 3, copies: int = 3) -> float:
    """Share of the positions, over all texts, that lie in a tandem repeat; see :func:`repeats`."""
    inside = np.concatenate([repeats(codes, period=period, copies=copies) for codes in _codes(sample)])
    return float(inside.mean()) if inside.size else 0.0


def repeats(codes: Int[np.ndarray, "L"], *, period: int = 3, copies: int = 3) -> Bool[np.ndarray, "L"]:
    """Positions inside a tandem repeat.

    A stretch repeats with period q if every letter of it equals the one q places on, as far as the stretch goes. It
    counts if it holds at least ``copies`` whole copies, so its length is at least ``copies * q``, for any q up to
    ``period``; a last, partial copy belongs to it. Period 1 is a run: AAA counts, AA does not; ABABAB, ABABABA and
    ABCABCABC count whole, ABABA and ABCABC do not.
    """
    inside = np.zeros(len(codes), bool)
    for q in range(1, period + 1):
        need = (copies - 1) * q
        # Padded by zeros, edges of stretches of equality stand where neighbours differ.
        edges = np.flatnonzero(np.diff(np.concatenate([[0], codes[:-q] == codes[q:], [0]])))
        for first, end in edges.reshape(-1, 2):
            if end - first >= need:
                inside[first : end + q] = True
    return inside


def diversity(sample: Sample, *, pairs: int = 2000, seed: int = 0) -> float:
    """Mean Hamming distance between two different texts of the sample, as a share of the length.

    Over random pairs of places, or all pairs where there are no more. Texts of unequal length are compared from the
    left and what only the longer one has counts as different, over its length.
    """
    texts = list(_codes(sample))
    n = len(texts)
    if n < 2:
        raise ValueError(f"diversity compares texts with one another and got {n}")
    first, second = np.triu_indices(n, 1) if n * (n - 1) // 2 <= pairs else _random_pairs(n, pairs, seed)
    return float(np.mean([_distance(texts[i], texts[j]) for i, j in zip(first, second, strict=True)]))


def unique_fraction(sample: Sample) -> float:
    """Number of distinct texts over the number of texts."""
    return len({codes.tobytes() for codes in _codes(sample)}) / len(sample)


def perplexity(sequences: Sequence[np.ndarray] | np.ndarray, scorer: Scorer) -> float:
    """Exponential of a scorer's negative log-probability per letter, over all sequences together."""
    return float(np.exp(sum(scorer.nats(sequence) for sequence in sequences) / sum(map(len, sequences))))


def _codes(sample: Sample) -> Iterator[Int[np.ndarray, "L"]]:
    """One array of integers per text."""
    for text in sample:
        yield np.fromiter(map(ord, text), np.int64, len(text)) if isinstance(text, str) else text.astype(np.int64)


def _random_pairs(n: int, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n, pairs)
    return first, (first + rng.integers(1, n, pairs)) % n


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    short, long = sorted((len(one), len(other)))
    if not long:
        return 0.0
    return (np.count_nonzero(one[:short] != other[:short]) + long - short) / long
