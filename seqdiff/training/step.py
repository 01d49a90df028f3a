"""One optimisation step as a pure function, and the record it carries.

The loop in ``seqdiff.training.loop`` owns files and progress; this file owns arithmetic. The key of step ``n`` is
the run's key folded with ``n``, so a run that resumes continues exactly as it would have.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.process.noise import Process, low_discrepancy_times
from seqdiff.process.losses import LossParts, weighted_loss

Params = Any
Weighting = Literal["bound", "masked"]


class Apply(Protocol):
    """The network as a pure function of its parameters."""

    def __call__(
        self,
        params: Params,
        tokens: Int[Array, "batch length"],
        attend: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
    ) -> Float[Array, "batch length vocab"]:
        """Logits over the letters at every token."""
        ...


class TrainState(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        step: steps done, int32 [].
        params: network parameters.
        average: exponential moving average of the parameters.
        optimizer: optax state.
    """

    step: Int[Array, ""]
    params: Params
    average: Params
    optimizer: optax.OptState


class StepInfo(NamedTuple):
    """What a step reports: the loss sums and the gradient's norm."""

    loss: LossParts
    grad_norm: Float[Array, ""]


def init_state(params: Params, optimizer: optax.GradientTransformation) -> TrainState:
    """The state before the first step; the average starts at the parameters."""
    copy = jax.tree.map(jnp.copy, params)
    return TrainState(jnp.zeros((), jnp.int32), params, copy, optimizer.init(params))


def loss_fn(
    params: Params,
    key: Key[Array, ""],
    tokens: Int[Array, "batch length"],
    *,
    apply: Apply,
    process: Process,
    pad: int,
    times: tuple[float, float],
    weighting: Weighting,
) -> tuple[Float[Array, ""], LossParts]:
    """The loss of a batch of clean tokens, and the sums behind it.

    The loss is the estimated bound in nats per token (``bound``) or the mean over masked letters (``masked``).

    Letters have ids below MASK and are the only positions that are corrupted. Row keys are the key folded with the
    row's index, so a row's corruption does not depend on how the batch is sharded.
    """
    open = tokens < process.mask
    time_key, noise_key = jax.random.split(key)
    t = low_discrepancy_times(time_key, tokens.shape[0], *times)
    row_keys = jax.vmap(partial(jax.random.fold_in, noise_key))(jnp.arange(tokens.shape[0]))
    noisy = jax.vmap(process.corrupt)(row_keys, tokens, t, open)
    logits = apply(params, noisy, tokens != pad, t)
    parts = weighted_loss(logits, tokens, open & (noisy == process.mask), open, process.weight(t))
    if weighting == "masked":
        return parts.masked_nats / jnp.maximum(parts.masked, 1.0), parts
    return parts.nats / parts.tokens, parts


def make_step(
    *,
    apply: Apply,
    process: Process,
    optimizer: optax.GradientTransformation,
    pad: int,
    times: tuple[float, float],
    weighting: Weighting,
    ema_decay: float,
) -> Callable[[TrainState, Key[Array, ""], Int[Array, "batch length"]], tuple[TrainState, StepInfo]]:
    """The step function ``(state, run key, tokens [batch, length]) -> (state, info)``, to be jitted by the caller.

    The average's decay warms up as ``min(ema_decay, (1 + n) / (10 + n))`` so that early averages forget the start.
    """
    loss = partial(loss_fn, apply=apply, process=process, pad=pad, times=times, weighting=weighting)

    def step(state: TrainState, key: Key[Array, ""], tokens: Int[Array, "batch length"]) -> tuple[TrainState, StepInfo]:
        key = jax.random.fold_in(key, state.step)
        (_, parts), grads = jax.value_and_grad(loss, has_aux=True)(state.params, key, tokens)
        updates, opt_state = optimizer.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        count = state.step.astype(jnp.float32)
        decay = jnp.minimum(ema_decay, (1.0 + count) / (10.0 + count))
        average = jax.tree.map(lambda a, p: a + (1.0 - decay).astype(a.dtype) * (p - a), state.average, params)
        info = StepInfo(parts, optax.global_norm(grads))
        return TrainState(state.step + 1, params, average, opt_state), info

    return step
