"""Planners: quota, the entropy bound, random ties, and no dependence on padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.sampling.planners import PLANNERS, Confidence, EntropyBound, Random

B, L, V = 7, 13, 5


def _case(seed: int = 0):
    keys = jax.random.split(jax.random.key(seed), B)
    marginals = jax.nn.softmax(3 * jax.random.normal(jax.random.key(seed + 1), (B, L, V)))
    open = jax.random.uniform(jax.random.key(seed + 2), (B, L)) < 0.7
    quota = jnp.minimum(jnp.arange(B), jnp.sum(open, axis=1))
    return keys, marginals, open, quota


@pytest.mark.parametrize("name", PLANNERS)
def test_quota_and_padding(name: str):
    planner = PLANNERS[name]()
    keys, marginals, open, quota = _case()
    commit = planner.plan(keys, marginals, open, quota)
    assert not np.any(commit & ~open)
    count = np.sum(commit, axis=1)
    assert (count >= quota).all()
    if name != "entropy_bound":
        assert (count == quota).all()
    wider = jnp.pad(marginals, ((0, 0), (0, 4), (0, 0))), jnp.pad(open, ((0, 0), (0, 4)))
    same_keys = _case()[0]
    np.testing.assert_array_equal(planner.plan(same_keys, *wider, quota)[:, :L], commit)


def test_confidence_takes_the_likeliest():
    keys, marginals, open, quota = _case()
    commit = np.asarray(Confidence().plan(keys, marginals, open, quota))
    best = np.where(open, np.max(marginals, axis=-1), np.nan)
    for row in range(B):
        taken, left = best[row][commit[row]], best[row][np.asarray(open)[row] & ~commit[row]]
        assert not len(taken) or not len(left) or taken.min() >= left.max()


def test_entropy_bound_is_the_largest_set_within_gamma():
    keys, marginals, open, _ = _case()
    commit = np.asarray(EntropyBound(gamma=0.8).plan(keys, marginals, open, jnp.ones((B,), jnp.int32)))
    entropy = -np.sum(np.asarray(marginals) * np.log(marginals), axis=-1)
    for row in range(B):
        ordered = np.sort(entropy[row][np.asarray(open)[row]])
        sizes = [n for n in range(1, len(ordered) + 1) if ordered[: n - 1].sum() <= 0.8]
        assert commit[row].sum() == max(sizes)


def test_ties_break_at_random():
    marginals = jnp.full((400, 4, 2), 0.5)
    for seed, planner in enumerate((Random(), Confidence(), EntropyBound(gamma=0.0))):
        keys = jax.random.split(jax.random.key(seed), 400)
        commit = planner.plan(keys, marginals, jnp.ones((400, 4), bool), jnp.ones((400,), jnp.int32))
        # 100 expected at each place; a count off by 45 has probability below 1e-6.
        assert np.abs(np.sum(commit, axis=0) - 100).max() < 45


def test_gamma_must_not_be_negative():
    with pytest.raises(InputError, match="gamma=-1"):
        EntropyBound(gamma=-1)
