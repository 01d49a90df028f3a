"""The absorbing process: schedules, corruption, times and the weighted loss, against their definitions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.process.noise import Process, low_discrepancy_times
from seqdiff.process.losses import masked_cross_entropy, weighted_loss
from seqdiff.process.schedules import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_weight_is_the_log_derivative(name: str):
    schedule = SCHEDULES[name]()
    t = jnp.linspace(0.1, 0.95, 12)
    slope = jax.vmap(jax.grad(lambda x: schedule.alpha(x)))(t)
    np.testing.assert_allclose(schedule.weight(t), -slope / (1 - schedule.alpha(t)), rtol=2e-4)
    alpha = np.asarray(schedule.alpha(jnp.array([0.0, 0.5, 1.0])))
    assert alpha[0] == pytest.approx(1.0, abs=2e-4)
    assert alpha[2] == pytest.approx(0.0, abs=1e-6)
    assert 0 < alpha[1] < 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_corruption_masks_open_positions_at_the_stated_rate(name: str):
    process = Process(mask=4, schedule=SCHEDULES[name]())
    x0 = jnp.tile(jnp.arange(4), 5000)
    open = jnp.arange(20_000) < 16_000
    noisy = np.asarray(process.corrupt(jax.random.key(2), x0, jnp.float32(0.6), open))
    masked = noisy == 4
    assert (noisy[~masked] == np.asarray(x0)[~masked]).all()
    assert not masked[16_000:].any()
    rate = 1 - float(process.schedule.alpha(jnp.float32(0.6)))
    # Five standard deviations of a binomial share: fails for a right sampler with probability 6e-7.
    assert abs(masked[:16_000].mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / 16_000) + 1e-6


def test_times_fill_every_stratum():
    for seed in range(20):
        times = np.sort(low_discrepancy_times(jax.random.key(seed), 16, 0.2, 0.6))
        assert (np.floor((times - 0.2) / 0.4 * 16 + 1e-4).astype(int) == np.arange(16)).all() or np.all(
            np.abs(np.diff(times) - 0.4 / 16) < 1e-5
        )
        assert times.min() >= 0.2
        assert times.max() < 0.6


def test_mean_weighted_loss_is_the_bound():
    """Integrating over times and masks by hand gives the any-order bound of a context-dependent toy model."""
    rng = np.random.default_rng(0)
    length, letters = 3, 3
    table = rng.normal(size=(2**length, length, letters))
    x0 = np.array([[0, 2, 1]])
    masks = [np.array(m, bool) for m in itertools.product([0, 1], repeat=length)]

    def nats(mask: np.ndarray) -> float:
        logits = jnp.asarray(table[int("".join(map(str, mask.astype(int))), 2)][None], jnp.float32)
        return float(masked_cross_entropy(logits, jnp.asarray(x0), jnp.asarray(mask[None])).sum())

    # Any-order form: each size m is equally likely, each subset of that size too, weight L / m.
    exact = np.mean(
        [np.mean([nats(mask) * length / m for mask in masks if mask.sum() == m]) for m in range(1, length + 1)]
    )
    times = (np.arange(2000) + 0.5) / 2000
    total = 0.0
    for mask in masks[1:]:
        m = mask.sum()
        total += nats(mask) * np.mean(times ** (m - 1) * (1 - times) ** (length - m))
    assert total == pytest.approx(exact, rel=1e-5)

    parts = weighted_loss(
        jnp.asarray(table[5][None], jnp.float32),
        jnp.asarray(x0),
        jnp.asarray([[True, False, True]]),
        jnp.ones((1, 3), bool),
        jnp.array([2.0]),
    )
    assert float(parts.nats) == pytest.approx(2 * nats(np.array([1, 0, 1], bool)), rel=1e-6)
    assert float(parts.tokens) == 3
    assert float(parts.masked) == 2


@pytest.mark.parametrize("name", SCHEDULES)
def test_reverse_step_undoes_the_forward_one(name: str):
    """Masked at s is masked at t; of those masked at t, ``1 - reveal_probability`` were masked at s already (Bayes)."""
    process = Process(mask=4, schedule=SCHEDULES[name]())
    s, t = jnp.float32(0.3), jnp.float32(0.7)
    kept = (1 - process.reveal_probability(t, s)) * (1 - process.schedule.alpha(t))
    assert float(kept) == pytest.approx(float(1 - process.schedule.alpha(s)), rel=1e-5)
    assert (process.prior(jax.random.key(0), (3, 5)) == 4).all()
