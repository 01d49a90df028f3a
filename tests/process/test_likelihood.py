"""Likelihoods against enumeration, and their independence of batch and padding."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.process.likelihood import (
    by_mask_rate,
    gather_bounds,
    mutation_scores,
    perplexity,
    pseudo_log_likelihood,
    sample_bounds,
    single_site_log_probabilities,
)
from tests.helpers import Neighbours

MASK = 3
TABLE = np.random.default_rng(1).normal(size=(4, 4, 3)).astype(np.float32)
DENOISER = Neighbours(jnp.asarray(TABLE))
LOG_P = np.asarray(jax.nn.log_softmax(jnp.asarray(TABLE)))


def _log_p(canvas: np.ndarray, i: int) -> np.ndarray:
    padded = np.concatenate([[MASK], canvas, [MASK]])
    return LOG_P[padded[i], padded[i + 2]]


def _exact_bound(x: np.ndarray) -> float:
    length, total = len(x), 0.0
    for m in range(1, length + 1):
        subsets = list(itertools.combinations(range(length), m))
        for subset in subsets:
            canvas = x.copy()
            canvas[list(subset)] = MASK
            nats = -sum(_log_p(canvas, i)[x[i]] for i in subset)
            total += nats * length / m / len(subsets) / length
    return total


def test_bound_is_unbiased():
    x = np.array([0, 2, 1, 1])
    _, found = next(sample_bounds(DENOISER, [x] * 256, mask=MASK, samples=32, tokens_per_batch=64 * 256, seed=5))
    draws = found.bound.mean(axis=1)
    error = draws.std() / np.sqrt(len(draws))
    # Five standard errors: a right estimator fails with probability 6e-7.
    assert abs(draws.mean() - _exact_bound(x)) < 5 * error
    assert error < 0.02


def test_a_sequence_scores_the_same_in_any_company():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 3, n) for n in (5, 70, 9, 33)]
    options = {"mask": MASK, "samples": 3, "seed": 1}
    one = gather_bounds(list(sample_bounds(DENOISER, sequences, tokens_per_batch=1, **options)))
    many = gather_bounds(list(sample_bounds(DENOISER, sequences, tokens_per_batch=512, **options)))
    np.testing.assert_allclose(one.bound, many.bound, rtol=1e-5)
    np.testing.assert_array_equal(one.masked, many.masked)
    assert one.length.tolist() == [5, 70, 9, 33]


def test_single_sites_and_mutations():
    x = np.array([0, 2, 1, 1, 0])
    expected = np.stack([_log_p(x, i) for i in range(5)])
    np.testing.assert_allclose(single_site_log_probabilities(DENOISER, x, mask=MASK, batch=2), expected, atol=1e-5)
    wild = expected[np.arange(5), x]
    assert pseudo_log_likelihood(DENOISER, x, mask=MASK) == pytest.approx(wild.sum(), abs=1e-4)
    np.testing.assert_allclose(mutation_scores(DENOISER, x, mask=MASK), expected - wild[:, None], atol=1e-5)


def test_perplexity_of_a_uniform_model_is_the_alphabet():
    uniform = Neighbours(jnp.zeros((4, 4, 3)))
    sequences = [np.zeros(n, int) for n in (4, 6, 9)]
    found = gather_bounds(list(sample_bounds(uniform, sequences, mask=MASK)))
    result = perplexity(found)
    assert result.perplexity == pytest.approx(3.0, abs=1e-5)
    assert result.nats_error == pytest.approx(0.0, abs=1e-6)
    means = [mean for _, _, mean in by_mask_rate(found) if not np.isnan(mean)]
    np.testing.assert_allclose(means, np.log(3), atol=1e-5)


def test_standard_error_covers_the_truth():
    """Resampling sequences: the true rate lies within two standard errors about 95 times in 100."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        lengths = rng.integers(20, 200, 60)
        rates = rng.normal(2.8, 0.1, 60)
        nats = (rates * lengths)[:, None]
        bounds = partial(_bounds, nats, lengths)()
        result = perplexity(bounds)
        inside += abs(result.nats - 2.8) < 2 * result.nats_error
    # 190 expected; 175 or fewer has probability below 1e-4.
    assert inside > 175


def _bounds(nats: np.ndarray, lengths: np.ndarray):
    from seqdiff.process.likelihood import BoundSamples

    return BoundSamples(nats, nats, np.ones_like(nats, int), lengths)
