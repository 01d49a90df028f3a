"""Metrics on cases small enough to work out by hand, and floors against true samples."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from seqdiff.experiments.baselines import Unigram
from seqdiff.experiments.bench import metrics
from seqdiff.models.oracles import MarkovLaw, joint_of, stationary

TRANSITION = jnp.asarray([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
CHAIN = MarkovLaw(stationary(TRANSITION), TRANSITION)
CYCLE = MarkovLaw(jnp.asarray([1.0, 0.0]), jnp.asarray([[0.0, 1.0], [1.0, 0.0]]))


def draw(n: int, length: int, seed: int = 1) -> np.ndarray:
    return np.asarray(CHAIN.sample(jax.random.key(seed), n, length))


def test_pair_variation_by_hand():
    right = np.array([[0, 1, 0, 1, 0]])
    assert metrics.pair_variation(right, CYCLE) == 0.0
    assert metrics.pair_variation(right, CYCLE, 2) == 0.0
    # Pairs 00, 01, 10, 00 against half 01, half 10.
    assert metrics.pair_variation(np.array([[0, 0, 1, 0, 0]]), CYCLE) == pytest.approx(0.5)
    assert metrics.pair_variation(np.array([[0, 0, 0, 0, 0]]), CYCLE) == pytest.approx(1.0)


@pytest.mark.parametrize("lag", [1, 3])
def test_true_samples_lie_on_the_floor(lag: int):
    floor = metrics.pair_variation_floor(CHAIN, 200, 16, lag)
    found = metrics.pair_variation(draw(200, 16), CHAIN, lag)
    assert abs(found - floor.mean) < 5 * floor.deviation
    shuffled = np.random.default_rng(0).permuted(draw(200, 16), axis=1)
    assert metrics.pair_variation(shuffled, CHAIN) > 0.1 > 3 * floor.mean


def test_mean_nll():
    # The cycle is certain; anything else is impossible.
    assert metrics.mean_nll(np.array([[0, 1, 0], [0, 1, 0]]), CYCLE) == (0.0, 0.0)
    nats, error = metrics.mean_nll(draw(2000, 12), CHAIN)
    start, transition = np.asarray(CHAIN.start, float), np.asarray(TRANSITION, float)
    rate = -(start[:, None] * transition * np.log(transition)).sum()
    entropy = (-(start * np.log(start)).sum() + 11 * rate) / 12
    assert abs(nats - entropy) < 5 * error
    assert error < 0.01
    assert metrics.mean_nll(np.zeros((2, 12), int), CHAIN)[0] < rate


def test_divergence_by_hand():
    p = np.array([[0.5, 0.25], [0.25, 0.0]])
    found = metrics.divergence(np.array([[0, 0], [0, 0], [0, 1], [0, 1]]), p)
    assert found.variation == pytest.approx(0.25)
    assert found.kl == pytest.approx(0.5 * np.log(2))
    assert found.expected_kl == pytest.approx(2 / 8)
    assert metrics.divergence(np.array([[1, 1]]), p).kl == np.inf
    assert metrics.divergence(np.array([[0, 0], [0, 0], [0, 1], [1, 0]]), p).variation == 0.0


def test_divergence_of_true_samples():
    p = np.exp(np.asarray(joint_of(CHAIN, 4).table, float))
    found = [metrics.divergence(draw(3000, 4, seed), p) for seed in range(8)]
    # Means of 8 samples; the deviation of one is below a fifth of its mean.
    assert np.mean([one.variation for one in found]) == pytest.approx(found[0].expected_variation, rel=0.2)
    assert np.mean([one.kl for one in found]) == pytest.approx(found[0].expected_kl, rel=0.25)


@pytest.mark.parametrize("n", [1, 2, 7, 400])
def test_expected_variation_is_exact(n: int):
    p = np.array([0.5, 0.3, 0.2 - 1e-4, 1e-4, 0.0])
    counts = np.arange(n + 1)
    wanted = sum((binom.pmf(counts, n, one) * np.abs(counts / n - one)).sum() for one in p) / 2
    assert metrics.expected_variation(p, n) == pytest.approx(wanted, rel=1e-9)
    assert metrics.expected_variation(np.array([1.0, 0.0]), n) == 0.0


def test_unigram_entropy():
    assert metrics.unigram_entropy(["AAAA"]) == 0.0
    assert metrics.unigram_entropy(["AB", "CD"]) == pytest.approx(np.log(4))
    assert metrics.unigram_entropy([np.array([0, 0]), np.array([0, 0, 1, 1, 1, 1])]) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("", ""),
        ("A", "."),
        ("AA", ".."),
        ("AAA", "xxx"),
        ("BAAAAC", ".xxxx."),
        ("ABABAB", "xxxxxx"),
        ("CABABABAD", ".xxxxxxx."),
        ("ABABA", "....."),
        ("ABCABC", "......"),
        ("DABCABCABCD", ".xxxxxxxxx."),
        ("ABCABCABCAB", "xxxxxxxxxxx"),
        ("ABCDABCDABCD", "............"),
        ("AAABABAB", "xxxxxxxx"),
        ("AABBAABB", "........"),
    ],
)
def test_repeats(text: str, inside: str):
    found = metrics.repeats(np.array(list(map(ord, text)), int))
    assert "".join(".x"[int(one)] for one in found) == inside


def test_repeats_against_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(200):
        codes = rng.integers(0, 2, rng.integers(1, 14))
        wanted = np.zeros(len(codes), bool)
        for q, first in itertools.product((1, 2, 3), range(len(codes))):
            for end in range(first + 3 * q, len(codes) + 1):
                if all(codes[i] == codes[i + q] for i in range(first, end - q)):
                    wanted[first:end] = True
        assert (metrics.repeats(codes) == wanted).all()


def test_repeat_fraction_pools_positions():
    assert metrics.repeat_fraction(["AAA", "B", "CDEFG", ""]) == pytest.approx(3 / 9)
    assert metrics.repeat_fraction(np.array([[0, 0, 0, 1], [0, 1, 2, 1]])) == pytest.approx(3 / 8)
    assert metrics.repeat_fraction([""]) == 0.0


def test_diversity():
    assert metrics.diversity(["AAAA", "AAAB", "BBBB"]) == pytest.approx((1 / 4 + 1 + 3 / 4) / 3)
    assert metrics.diversity(["AB", "ABCD"]) == pytest.approx(0.5)
    many = np.random.default_rng(0).integers(0, 4, (300, 50))
    assert metrics.diversity(many) == pytest.approx(0.75, abs=0.01)
    assert metrics.unique_fraction(["AB", "AB", "A", "BA"]) == pytest.approx(0.75)
    with pytest.raises(ValueError, match="got 1"):
        metrics.diversity(["A"])


def test_perplexity():
    scorer = Unigram([np.array([0, 0, 1, 2])], 3)
    assert metrics.perplexity([np.array([0, 0]), np.array([0])], scorer) == pytest.approx(2.0)
    assert metrics.perplexity([np.array([0, 1, 2]), np.array([1])], scorer) == pytest.approx(2 ** (7 / 4))
