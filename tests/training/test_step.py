"""One step: what the network is told, which losses fall, and the two passes of self-conditioning."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqdiff.core.errors import InputError
from seqdiff.process.losses import OBJECTIVES, Objective, check_objective
from seqdiff.process.noise import Process
from seqdiff.process.schedules import SCHEDULES
from seqdiff.training.step import Loss, StepInfo, corrupt, init_state, make_step

pytestmark = pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")
V, PAD = 5, 6
TOKENS = jnp.asarray(np.random.default_rng(0).choice(V, (32, 12), p=[0.6, 0.2, 0.1, 0.06, 0.04]), jnp.int32)
PADDED = TOKENS.at[:, 9:].set(PAD)


def apply(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: jax.Array | None) -> jax.Array:
    """Letter frequencies, and what stands at the place."""
    seen = params["seen"][jnp.minimum(tokens, V)]
    return seen + jnp.broadcast_to(params["bias"], seen.shape)


def start() -> dict[str, jax.Array]:
    return {"seen": jnp.zeros((V + 1, V)), "bias": jnp.zeros((1, 1, V))}


def loss_of(loss: Loss, params: Any, key: jax.Array, tokens: jax.Array) -> jax.Array:
    draw = loss.draw(key, tokens)
    return loss.total(loss.parts(params, draw)) / loss.count(draw)


def cases() -> list[tuple[Objective, float]]:
    found = []
    for objective in OBJECTIVES:
        for uniform in (0.0, 0.2, 1.0):
            try:
                check_objective(objective, Process(mask=V, uniform=uniform))
            except InputError:
                continue
            found.append((objective, uniform))
    return found


DRAWS = range(1, 17)


def _loss(objective: Objective, info: StepInfo) -> float:
    loss = info.loss
    if objective in ("masked", "cross_entropy"):
        return float(loss.cross_nats / loss.scored)
    return float(loss.nats / loss.tokens)


@pytest.mark.parametrize(("objective", "uniform"), cases())
def test_every_objective_lowers_its_loss(objective: Objective, uniform: float):
    process = Process(mask=V, uniform=uniform)
    options = {"apply": apply, "process": process, "pad": PAD, "times": (0.05, 1.0), "objective": objective}
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an int power
        optimizer = optax.adam(0.1)
        step = jax.jit(make_step(optimizer=optimizer, ema_decay=0.9, **options))
        state = init_state(start(), optimizer)
        for _ in range(30):
            state, _ = step(state, jax.random.key(0), PADDED)
        # The same noise before and after: 16 fixed draws.
        before, after = (
            np.mean(
                [_loss(objective, step(init_state(params, optimizer), jax.random.key(k), PADDED)[1]) for k in DRAWS]
            )
            for params in (start(), state.params)
        )
    assert np.isfinite(after)
    assert after < before - 0.05
    # Letters are independent: no loss in nats per token is below the entropy of their frequencies (less 0.15 for the
    # levels that the range of times leaves out and for chance).
    share = np.bincount(np.asarray(TOKENS[:, :9]).ravel()) / (32 * 9)
    if objective in ("any_order", "score_entropy", "bound"):
        assert after > -(share * np.log(share)).sum() - 0.15


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("uniform", [0.0, 0.3])
def test_the_network_is_told_the_noise_level(schedule: str, uniform: float):
    process = Process(mask=V, uniform=uniform, schedule=SCHEDULES[schedule]())
    told = []

    def spy(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: None) -> jax.Array:
        told.append((tokens, time))
        return apply(params, tokens, attend, time, previous)

    tokens = jnp.tile(TOKENS, (1, 100))
    options = {"apply": spy, "process": process, "pad": PAD, "times": (0.1, 1.0), "objective": "bound"}

    @jax.jit
    def run(params: Any) -> tuple[jax.Array, jax.Array]:
        loss_of(Loss(**options), params, jax.random.key(3), tokens)
        return told[0]

    noisy, level = map(np.asarray, run(start()))
    grid = np.asarray(process.schedule.alpha(jnp.linspace(0.1, 1.0, 200)))
    assert level.min() >= 1 - grid[0] - 1e-6
    # Each row shows as much noise as the network is told: five standard deviations of a binomial share.
    changed = (noisy != np.asarray(tokens)).mean(axis=1)
    same = np.asarray(TOKENS)[:, None, :] == np.arange(V)[None, :, None]
    visible = 1 - uniform / V * same.any(axis=1).mean(axis=1)
    assert (np.abs(changed - level * visible) < 5 * np.sqrt(0.25 / tokens.shape[1])).all()


def test_any_order_masks_stratified_counts():
    process = Process(mask=V)
    tokens, open = PADDED, PADDED < V
    draw = jax.jit(jax.vmap(lambda key: corrupt(process, "any_order", key, tokens, open, (0.0, 1.0))))
    found = jax.tree.map(lambda leaf: leaf[0], draw(jax.random.split(jax.random.key(0), 200)))
    masked = np.asarray(found.tokens == V)
    count = masked.sum(axis=1)
    assert not masked[:, 9:].any()
    np.testing.assert_allclose(found.level, count / 9, rtol=1e-6)
    np.testing.assert_allclose(found.weight, 9 / count, rtol=1e-6)
    # 32 strata over 9 counts: each comes up three or four times, up to one more for a boundary that falls in a stratum.
    assert np.bincount(count, minlength=10)[1:].min() >= 3
    assert np.bincount(count, minlength=10)[1:].max() <= 5
    # Places are even: 200 draws of 160 masked letters or so, five standard deviations.
    drawn = draw(jax.random.split(jax.random.key(1), 200)).tokens
    share = (np.asarray(drawn) == V).mean(axis=(0, 1))[:9]
    assert np.abs(share - share.mean()).max() < 5 * np.sqrt(0.25 / 6400)


def test_any_order_is_the_bound_in_expectation():
    params = start() | {"bias": jnp.asarray([[[0.5, 0.1, -0.3, 0.0, 0.2]]])}
    means = []
    for objective in ("bound", "any_order"):
        loss = Loss(apply=apply, process=Process(mask=V), pad=PAD, times=(1e-3, 1.0), objective=objective)
        keys = jax.random.split(jax.random.key(2), 300)
        values = np.asarray(jax.jit(jax.vmap(lambda key, loss=loss: loss_of(loss, params, key, PADDED)))(keys))
        means.append((values.mean(), values.std() / np.sqrt(300)))
    (bound, error), (counted, counted_error) = means
    # Five standard errors; the range of times leaves out a thousandth.
    assert abs(bound - counted) < 5 * np.hypot(error, counted_error) + 2e-3
    assert counted_error < error


def test_self_conditioning_takes_two_passes_and_one_gradient():
    seen: list[jax.Array] = []

    def network(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: jax.Array) -> jax.Array:
        seen.append(previous)
        return apply(params, tokens, attend, time, previous) + previous @ params["previous"]

    params = start() | {"previous": jnp.eye(V)}
    options = {"process": Process(mask=V, uniform=1.0), "pad": PAD, "times": (0.1, 1.0), "objective": "bound"}
    key = jax.random.key(5)
    conditioned = Loss(apply=network, self_conditioning=True, **options)

    @jax.jit
    def run(params: Any) -> tuple[jax.Array, list[jax.Array]]:
        return loss_of(conditioned, params, jax.random.clone(key), PADDED), list(seen)

    value, (first, second) = jax.tree.map(np.asarray, run(params))
    assert not first.any()
    shown = second.any(axis=(1, 2))
    # Half of 32 rows by coin: 6 to 26 has probability above 0.9999.
    assert 6 <= shown.sum() <= 26
    np.testing.assert_allclose(second[shown, :9].sum(axis=-1), 1, rtol=1e-5)
    assert not second[:, 9:].any()

    # The gradient is that of the second pass with the first one's prediction held fixed.
    def held(params: Any) -> jax.Array:
        def fixed(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: Any) -> jax.Array:
            return apply(params, tokens, attend, time, None) + jnp.asarray(second) @ params["previous"]

        return loss_of(Loss(apply=fixed, **options), params, jax.random.clone(key), PADDED)

    def passes(params: Any) -> jax.Array:
        return loss_of(conditioned, params, jax.random.clone(key), PADDED)

    assert float(jax.jit(held)(params)) == pytest.approx(float(value), rel=1e-5)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6),
        jax.jit(jax.grad(passes))(params),
        jax.jit(jax.grad(held))(params),
    )


def test_a_process_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="counts masked letters"):
        make_step(
            apply=apply,
            process=Process(mask=V, uniform=1.0),
            optimizer=optax.sgd(0.1),
            pad=PAD,
            times=(0.1, 1.0),
            objective="any_order",
            ema_decay=0.9,
        )
