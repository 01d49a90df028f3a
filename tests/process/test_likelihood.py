"""Likelihoods against enumeration, and their independence of batch and padding."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.process import readout
from seqdiff.process.likelihood import (
    BoundSamples,
    by_mask_rate,
    gather_bounds,
    path_log_probability,
    perplexity,
    sample_bounds,
)
from seqdiff.process.pseudo import (
    mutant_log_odds,
    mutation_scan,
    pseudo_log_likelihood,
    single_site_log_probabilities,
    site_sets,
)
from tests.helpers import Neighbours

MASK = 3
TABLE = np.random.default_rng(1).normal(size=(4, 4, 3)).astype(np.float32)
DENOISER = Neighbours(jnp.asarray(TABLE))
LOG_P = np.asarray(jax.nn.log_softmax(jnp.asarray(TABLE)))
NETWORK = init_denoiser(
    TransformerConfig(num_letters=3, num_tokens=7, width=16, depth=1, heads=2, hidden=24, time_conditioning=True),
    Alphabet("three", "ABC"),
    seed=1,
)


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


def _naive(denoiser, canvas: np.ndarray, hidden: list[int]) -> np.ndarray:
    """Log-probabilities of one canvas, not padded, in a call of its own."""
    shown = canvas.copy()
    shown[hidden] = MASK
    return np.asarray(_alone(denoiser, shown[None], np.array([len(hidden) / len(canvas)], np.float32)))


@jax.jit
def _alone(denoiser, canvas, level):
    return jax.nn.log_softmax(denoiser(canvas, jnp.ones(canvas.shape, bool), level)[0])


def _naive_path(denoiser, x: np.ndarray, order: np.ndarray) -> float:
    return sum(float(_naive(denoiser, x, list(order[k:]))[i, x[i]]) for k, i in enumerate(order))


def test_a_path_is_a_law_over_sequences():
    """The chain rule: for one order the probabilities of all sequences sum to one, consistent model or not."""
    every = np.array(list(itertools.product(range(3), repeat=4)), np.int32)
    for denoiser in (DENOISER, NETWORK):
        for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
            log_p = path_log_probability(denoiser, list(every), mask=MASK, given=[np.array(order)] * len(every))
            assert log_p.shape == (81, 1)
            assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-5)


def test_paths_over_all_orders_average_to_the_bound():
    x = np.array([0, 2, 1, 1])
    orders = np.array(list(itertools.permutations(range(4))))
    log_p = path_log_probability(DENOISER, [x], mask=MASK, given=[orders])[0]
    np.testing.assert_allclose(log_p, [_naive_path(DENOISER, x, order) for order in orders], atol=1e-5)
    assert -log_p.mean() == pytest.approx(_exact_bound(x), abs=1e-5)
    assert log_p.std() > 0.1
    # Random orders sample that mean. Five standard errors.
    drawn = path_log_probability(DENOISER, [x], mask=MASK, orders=400, seed=3)[0]
    assert abs(drawn.mean() - log_p.mean()) < 5 * drawn.std() / 20


def test_orders_belong_to_seed_sequence_and_draw():
    x = np.array([0, 2, 1, 1, 0, 2, 0])
    found = path_log_probability(NETWORK, [x, x], mask=MASK, orders=3, seed=1)
    assert len(np.unique(found.round(4))) == 6
    alone = path_log_probability(NETWORK, [x], mask=MASK, orders=2, seed=1)
    np.testing.assert_allclose(alone, found[:1, :2], rtol=1e-5)
    assert abs(path_log_probability(NETWORK, [x], mask=MASK, seed=2) - found[0, 0]) > 1e-4


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3]])
def test_an_order_that_is_none_is_refused(order: list[int]):
    with pytest.raises(InputError, match="each of the positions"):
        path_log_probability(DENOISER, [np.array([0, 1, 2])], mask=MASK, given=[np.array(order)])


def test_scores_are_those_of_a_loop_in_any_batches():
    rng = np.random.default_rng(2)
    sequences = [rng.integers(0, 3, n).astype(np.int32) for n in (5, 37, 3)]
    expected = [sum(_naive(NETWORK, x, [i])[i, x[i]] for i in range(len(x))) for x in sequences]
    for tokens_per_batch in (7 * 64, 4096):
        options = {"mask": MASK, "tokens_per_batch": tokens_per_batch}
        np.testing.assert_allclose(pseudo_log_likelihood(NETWORK, sequences, **options), expected, rtol=1e-4)
    few, many = (path_log_probability(NETWORK, sequences, mask=MASK, orders=2, tokens_per_batch=n) for n in (128, 4096))
    np.testing.assert_allclose(few, many, rtol=1e-4)
    assert pseudo_log_likelihood(NETWORK, [], mask=MASK).shape == (0,)
    assert path_log_probability(NETWORK, [], mask=MASK, orders=2).shape == (0, 2)


def test_calls_are_full_and_few():
    x = np.zeros(70, np.int32)
    done: list[int] = []
    pseudo_log_likelihood(DENOISER, [x, x[:9], x], mask=MASK, tokens_per_batch=128 * 16, progress=done.append)
    assert done == [9, *[16] * 8, 12]
    # A call of the same size compiles nothing.
    compiled = readout._log_letters._cache_size()
    pseudo_log_likelihood(DENOISER, [x] * 3, mask=MASK, tokens_per_batch=128 * 16)
    assert readout._log_letters._cache_size() == compiled


MUTANTS = [[(1, 0)], [], [(4, 2), (0, 1)], [(1, 2)], [(0, 2), (4, 1)], [(2, 1)], [(0, 1), (2, 0), (3, 2)]]


def test_mutants_grouped_by_their_sites_score_as_one_by_one():
    x = np.array([0, 2, 1, 1, 0], np.int32)
    masked, visible = [], []
    for mutant in MUTANTS:
        blind, seen = _naive(NETWORK, x, [place for place, _ in mutant]), _naive(NETWORK, x, [])
        masked.append(sum(float(blind[i, a] - blind[i, x[i]]) for i, a in mutant))
        visible.append(sum(float(seen[i, a] - seen[i, x[i]]) for i, a in mutant))
    rows: list[int] = []
    for tokens_per_batch in (64, 4096):
        options = {"mask": MASK, "tokens_per_batch": tokens_per_batch}
        found = mutant_log_odds(NETWORK, x, MUTANTS, progress=rows.append, **options)
        np.testing.assert_allclose(found, masked, atol=1e-5)
        found = mutant_log_odds(NETWORK, x, MUTANTS, marginal="wild_type", **options)
        np.testing.assert_allclose(found, visible, atol=1e-5)
    assert site_sets(MUTANTS) == [(0, 2, 3), (0, 4), (1,), (2,)]
    assert rows == [1, 1, 1, 1, 4]
    assert mutant_log_odds(NETWORK, x, [[], []], mask=MASK).tolist() == [0, 0]


def test_a_scan_holds_every_single_mutant():
    x = np.array([0, 2, 1, 1, 0], np.int32)
    expected = np.stack([_log_p(x, i) for i in range(5)])
    np.testing.assert_allclose(single_site_log_probabilities(DENOISER, x, mask=MASK), expected, atol=1e-5)
    singles = [[(i, a)] for i in range(5) for a in range(3)]
    for marginal in ("masked", "wild_type"):
        scan = mutation_scan(NETWORK, x, mask=MASK, marginal=marginal)
        assert (scan[np.arange(5), x] == 0).all()
        odds = mutant_log_odds(NETWORK, x, singles, mask=MASK, marginal=marginal)
        np.testing.assert_allclose(scan.ravel(), odds, atol=1e-6)


class _Remembers:
    """A self-conditioning denoiser: what it saw last is added to what it says."""

    self_conditioning = True

    def __call__(self, canvas, valid, time, conditions=None, *, previous):
        return DENOISER(canvas, valid, time) + previous


def test_a_self_conditioning_network_scores_as_at_its_first_step():
    jax.tree_util.register_static(_Remembers)
    x = np.array([0, 2, 1, 1, 0], np.int32)
    options = {"mask": MASK}
    expected = pseudo_log_likelihood(DENOISER, [x], **options)
    np.testing.assert_allclose(pseudo_log_likelihood(_Remembers(), [x], **options), expected, rtol=1e-6)
    one, other = (gather_bounds(list(sample_bounds(d, [x], **options))).bound for d in (DENOISER, _Remembers()))
    np.testing.assert_allclose(one, other, rtol=1e-6)


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
    return BoundSamples(nats, nats, np.ones_like(nats, int), lengths)
