"""Schedules, corruption, times and the exact steps back of all processes, against their definitions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.process.losses import bound_integrand, masked_cross_entropy
from seqdiff.process.noise import Process, low_discrepancy_times
from seqdiff.process.schedules import SCHEDULES, Geometric, schedule_name


@pytest.mark.parametrize("name", SCHEDULES)
def test_weight_is_the_log_derivative(name: str):
    schedule = SCHEDULES[name]()
    t = jnp.linspace(0.1, 0.95, 12)
    slope = jax.vmap(jax.grad(lambda x: schedule.alpha(x)))(t)
    np.testing.assert_allclose(schedule.weight(t), -slope / (1 - schedule.alpha(t)), rtol=2e-4)
    np.testing.assert_allclose(schedule.slope(t), -slope, rtol=2e-4)
    np.testing.assert_allclose(schedule.noise_level(t), 1 - schedule.alpha(t), rtol=1e-4)
    assert schedule_name(schedule) == name
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

    found = bound_integrand(
        Process(mask=letters),
        jnp.asarray(table[5][None], jnp.float32),
        jnp.asarray([[letters, 2, letters]]),
        jnp.asarray(x0),
        jnp.array([0.5]),
        jnp.ones((1, 3), bool),
    )
    assert float(found.sum()) == pytest.approx(2 * nats(np.array([1, 0, 1], bool)), rel=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_reverse_step_undoes_the_forward_one(name: str):
    """Masked at s is masked at t; of those masked at t, ``1 - reveal_probability`` were masked at s already (Bayes)."""
    process = Process(mask=4, schedule=SCHEDULES[name]())
    s, t = jnp.float32(0.3), jnp.float32(0.7)
    kept = (1 - process.reveal_probability(t, s)) * (1 - process.schedule.alpha(t))
    assert float(kept) == pytest.approx(float(1 - process.schedule.alpha(s)), rel=1e-5)
    assert (process.prior(jax.random.key(0), (3, 5)) == 4).all()


def test_schedules_without_a_name_are_refused():
    with pytest.raises(InputError, match="default parameters"):
        schedule_name(Geometric(low=1e-3))


# The steps back, against enumeration over the tokens of one position. Draws: 60,000 per case.

DRAWS, V = 60_000, 4


def _table(uniform: float, alpha: float) -> np.ndarray:
    """The law of z given x as [letter, token]."""
    pi = np.array([uniform / V] * V + [1 - uniform])
    return alpha * np.eye(V, V + 1) + (1 - alpha) * pi


def _frequencies(tokens: jax.Array) -> np.ndarray:
    return np.bincount(np.asarray(tokens).ravel(), minlength=V + 1) / tokens.size


def _close(found: np.ndarray, expected: np.ndarray, draws: int = DRAWS, slack: float = 0.0) -> bool:
    """Within five standard deviations of a binomial share in every cell: a right sampler fails with p below 1e-5."""
    return bool((np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / draws) + slack + 1e-7).all())


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
def test_corruption_and_prior_have_the_stated_law(uniform: float):
    process = Process(mask=V, uniform=uniform)
    x0 = jnp.full(DRAWS, 2)
    noisy = process.corrupt(jax.random.key(1), x0, jnp.float32(0.7), jnp.ones(DRAWS, bool))
    assert _close(_frequencies(noisy), _table(uniform, 0.3)[2])
    assert _close(_frequencies(process.prior(jax.random.key(2), (DRAWS,))), _table(uniform, 0.0)[2])
    np.testing.assert_allclose(process.noise_probability(jnp.arange(V + 1)), _table(uniform, 0.0)[2], rtol=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("alpha_t", "alpha_s"), [(0.2, 0.6), (0.0, 0.3), (0.5, 1.0)])
def test_posterior_is_that_of_bayes(uniform: float, alpha_t: float, alpha_s: float):
    process = Process(mask=V, uniform=uniform)
    step = alpha_t / alpha_s
    forward = step * np.eye(V + 1) + (1 - step) * _table(uniform, 0.0)[0]
    joint = _table(uniform, alpha_s)[:, :, None] * forward[None]
    for z, x in itertools.product((0, 1, V), (1,)):
        mass = joint[x, :, z].sum()
        if mass == 0:
            continue
        drawn = process.posterior(
            jax.random.key(3),
            jnp.full(DRAWS, z),
            jnp.full(DRAWS, x),
            jnp.float32(alpha_t),
            jnp.float32(alpha_s),
        )
        assert _close(_frequencies(drawn), joint[x, :, z] / mass), (z, x)


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", ["posterior", "flow", "churn"])
def test_steps_back_keep_the_marginals(uniform: float, step: str):
    """From z_t ~ q(. | x) each step gives z_s ~ q(. | x); flow with churn in the limit of small steps."""
    process = Process(mask=V, uniform=uniform)
    x0 = jnp.full(DRAWS, 2)
    levels = np.linspace(0.2, 0.8, 2 if step != "churn" else 61)

    def walk(key: jax.Array) -> jax.Array:
        start, onward = jax.random.split(key)
        keys = jax.random.split(onward, len(levels) - 1)
        z = process.corrupt(start, x0, jnp.float32(1 - levels[0]), jnp.ones(DRAWS, bool))

        def move(z: jax.Array, inputs: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            step_key, before, after = inputs
            if step == "posterior":
                return process.posterior(step_key, z, x0, before, after), None
            return process.flow(step_key, z, x0, before, after, 2.0 if step == "churn" else 0.0), None

        alphas = jnp.asarray(levels, jnp.float32)
        return jax.lax.scan(move, z, (keys, alphas[:-1], alphas[1:]))[0]

    found = _frequencies(jax.jit(walk)(jax.random.key(4)))
    # Churn: 60 steps of 0.01 leave an error of the order of the step.
    assert _close(found, _table(uniform, 0.8)[2], slack=0.01 if step == "churn" else 0.0)
