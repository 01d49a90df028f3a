"""One optimisation step as a pure function, and the record it carries.

The loop in ``seqdiff.training.loop`` owns files and progress; this file owns arithmetic. The key of step ``n`` is
the run's key folded with ``n``, so a run that resumes continues exactly as it would have.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.process.losses import (
    LossParts,
    Objective,
    bound_integrand,
    check_objective,
    masked_cross_entropy,
)
from seqdiff.process.noise import Process, low_discrepancy_times
from seqdiff.process.score_entropy import Output, clean_logits, log_score, score_entropy

Params = Any


class Apply(Protocol):
    """The network as a pure function of its parameters."""

    def __call__(
        self,
        params: Params,
        tokens: Int[Array, "batch length"],
        attend: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        previous: Float[Array, "batch length vocab"] | None,
    ) -> Float[Array, "batch length vocab"]:
        """The network's output at every token.

        ``time`` is the noise level; ``previous`` an earlier prediction of the same canvas (probabilities, zero in rows
        without one), None where the network is not self-conditioned.
        """
        ...


class TrainState(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        step: steps done, int32 [].
        params: network parameters.
        average: exponential moving average of the parameters.
        optimizer: optax state.
        frozen: parameters that do not train, such as those that adapters are added to; in no checkpoint.
    """

    step: Int[Array, ""]
    params: Params
    average: Params
    optimizer: optax.OptState
    frozen: Params = None


class StepInfo(NamedTuple):
    """What a step reports: the loss sums and the gradient's norm."""

    loss: LossParts
    grad_norm: Float[Array, ""]


def init_state(params: Params, optimizer: optax.GradientTransformation, frozen: Params = None) -> TrainState:
    """The state before the first step; the average starts at the parameters."""
    copy = jax.tree.map(jnp.copy, params)
    return TrainState(jnp.zeros((), jnp.int32), params, copy, optimizer.init(params), frozen)


def output_of(objective: Objective) -> Output:
    """What a network that is trained on ``objective`` puts out."""
    return "scores" if objective == "score_entropy" else "letters"


class Corrupted(NamedTuple):
    """A corrupted batch.

    Attributes:
        tokens: noisy tokens.
        time: of each row.
        level: noise level that the network is told.
        weight: of the summed masked cross-entropy of each row; read by ``any_order`` only.
    """

    tokens: Int[Array, "batch length"]
    time: Float[Array, "batch"]
    level: Float[Array, "batch"]
    weight: Float[Array, "batch"]


def corrupt(
    process: Process,
    objective: Objective,
    key: Key[Array, ""],
    tokens: Int[Array, "batch length"],
    open: Bool[Array, "batch length"],
    times: tuple[float, float],
) -> Corrupted:
    """Corrupt a batch; times (or shares of masked letters) are stratified over its rows.

    ``any_order`` draws a number of masked letters and then their places, instead of a rate and a coin per letter
    (Hoogeboom et al. 2022): the same expectation with less variance. Row keys are the key folded with the row's index,
    so a row's corruption does not depend on how the batch is sharded.
    """
    time_key, noise_key = jax.random.split(key)
    t = low_discrepancy_times(time_key, tokens.shape[0], *times)
    row_keys = jax.vmap(partial(jax.random.fold_in, noise_key))(jnp.arange(tokens.shape[0]))
    if objective != "any_order":
        noisy = jax.vmap(process.corrupt)(row_keys, tokens, t, open)
        return Corrupted(noisy, t, process.schedule.noise_level(t), jnp.ones_like(t))
    total = jnp.maximum(jnp.sum(open.astype(jnp.float32), axis=1), 1.0)
    count = jnp.clip(jnp.ceil(t * total), 1.0, total)
    noise = jax.vmap(partial(jax.random.uniform, shape=tokens.shape[1:]))(row_keys)
    rank = jnp.argsort(jnp.argsort(jnp.where(open, noise, 2.0), axis=1), axis=1)
    noisy = jnp.where(open & (rank < count.astype(jnp.int32)[:, None]), process.mask, tokens)
    return Corrupted(noisy, t, count / total, total / count)


def loss_fn(
    params: Params,
    key: Key[Array, ""],
    tokens: Int[Array, "batch length"],
    *,
    apply: Apply,
    process: Process,
    pad: int,
    times: tuple[float, float],
    objective: Objective,
    self_conditioning: bool = False,
) -> tuple[Float[Array, ""], LossParts]:
    """The loss of a batch of clean tokens, and the sums behind it.

    Letters have ids below MASK and are the only positions that are corrupted. By ``objective`` the loss is

    * ``bound``: the likelihood bound in nats per token;
    * ``any_order``: the same for the absorbing process, from counts of masked letters;
    * ``score_entropy``: the same for a network that puts out log scores;
    * ``masked``: the mean cross-entropy over masked letters;
    * ``cross_entropy``: the mean cross-entropy over all letters, noisy or not.

    With ``self_conditioning`` half of the rows, drawn by coin, are shown the network's own prediction of the same
    canvas from a first pass that carries no gradient (Chen et al. 2023, Analog Bits).
    """
    open = tokens < process.mask
    noise_key, coin_key = jax.random.split(key)
    noisy = corrupt(process, objective, noise_key, tokens, open, times)
    attend, output = tokens != pad, output_of(objective)
    previous = None
    if self_conditioning:
        nothing = jnp.zeros((*tokens.shape, process.mask), jnp.float32)
        raw = apply(jax.lax.stop_gradient(params), noisy.tokens, attend, noisy.level, nothing)
        first = jax.nn.softmax(
            clean_logits(process, output, raw, noisy.tokens, noisy.level).astype(jnp.float32), axis=-1
        )
        coin = jax.random.bernoulli(coin_key, 0.5, tokens.shape[:1])
        previous = jax.lax.stop_gradient(jnp.where(coin[:, None, None] & open[..., None], first, 0.0))
    raw = apply(params, noisy.tokens, attend, noisy.level, previous)
    logits = clean_logits(process, output, raw, noisy.tokens, noisy.level)
    scored = open & (noisy.tokens == process.mask) if process.absorbing else open
    cross = jnp.sum(masked_cross_entropy(logits, tokens, scored), axis=1)
    if objective == "score_entropy":
        score = log_score(process, raw, noisy.tokens, noisy.level)
        nats = jnp.sum(score_entropy(process, score, noisy.tokens, tokens, noisy.time, open), axis=1)
    elif objective == "any_order":
        nats = noisy.weight * cross
    else:
        nats = jnp.sum(bound_integrand(process, logits, noisy.tokens, tokens, noisy.time, open), axis=1)
    parts = LossParts(
        nats=jnp.sum(nats),
        tokens=jnp.sum(open.astype(jnp.float32)),
        cross_nats=jnp.sum(cross),
        scored=jnp.sum(scored.astype(jnp.float32)),
    )
    if objective in ("masked", "cross_entropy"):
        return parts.cross_nats / jnp.maximum(parts.scored, 1.0), parts
    return parts.nats / jnp.maximum(parts.tokens, 1.0), parts


def make_step(
    *,
    apply: Apply,
    process: Process,
    optimizer: optax.GradientTransformation,
    pad: int,
    times: tuple[float, float],
    objective: Objective,
    ema_decay: float,
    self_conditioning: bool = False,
    adapt: Callable[[Params, Params], Params] | None = None,
) -> Callable[[TrainState, Key[Array, ""], Int[Array, "batch length"]], tuple[TrainState, StepInfo]]:
    """The step function ``(state, run key, tokens [batch, length]) -> (state, info)``, to be jitted by the caller.

    The average's decay warms up as ``min(ema_decay, (1 + n) / (10 + n))`` so that early averages forget the start.
    ``adapt(frozen, params)`` makes the network's parameters of the state's frozen ones and those that train, which are
    the network's own by default.

    Raises:
        InputError: the objective does not fit the process.
    """
    check_objective(objective, process)
    loss = partial(
        loss_fn,
        apply=apply,
        process=process,
        pad=pad,
        times=times,
        objective=objective,
        self_conditioning=self_conditioning,
    )

    def step(state: TrainState, key: Key[Array, ""], tokens: Int[Array, "batch length"]) -> tuple[TrainState, StepInfo]:
        key = jax.random.fold_in(key, state.step)

        def trained(params: Params) -> tuple[Float[Array, ""], LossParts]:
            return loss(params if adapt is None else adapt(state.frozen, params), key, tokens)

        (_, parts), grads = jax.value_and_grad(trained, has_aux=True)(state.params)
        updates, opt_state = optimizer.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        count = state.step.astype(jnp.float32)
        decay = jnp.minimum(ema_decay, (1.0 + count) / (10.0 + count))
        average = jax.tree.map(lambda a, p: a + (1.0 - decay).astype(a.dtype) * (p - a), state.average, params)
        info = StepInfo(parts, optax.global_norm(grads))
        return TrainState(state.step + 1, params, average, opt_state, state.frozen), info

    return step
