"""One optimisation step as a pure function, and the record it carries.

The loop in ``seqdiff.training.loop`` owns files and progress; this file owns arithmetic. The key of step ``n`` is
the run's key folded with ``n``, so a run that resumes continues exactly as it would have. A batch is corrupted whole
and then passed through the network whole or in parts, on one device or many: the numbers are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.errors import InputError
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

_CROSS: tuple[Objective, ...] = ("masked", "cross_entropy")
"""Objectives that are means of plain cross-entropies."""


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


class Draw(NamedTuple):
    """A batch with everything that chance adds to it; all leaves have the batch's rows first, so it can be cut.

    Attributes:
        tokens: clean.
        noisy: the same, corrupted.
        coin: rows that are shown the network's first prediction.
    """

    tokens: Int[Array, "batch length"]
    noisy: Corrupted
    coin: Bool[Array, "batch"]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The training loss. Letters have ids below MASK and are the only positions that are corrupted.

    By ``objective`` the loss is

    * ``bound``: the likelihood bound in nats per token;
    * ``any_order``: the same for the absorbing process, from counts of masked letters;
    * ``score_entropy``: the same for a network that puts out log scores;
    * ``masked``: the mean cross-entropy over masked letters;
    * ``cross_entropy``: the mean cross-entropy over all letters, noisy or not.

    Each is a sum over rows divided by a number of letters that no parameter changes. A batch can therefore be drawn
    whole, cut into parts and summed: the parts' gradients add up to the batch's.

    With ``self_conditioning`` half of the rows, drawn by coin, are shown the network's own prediction of the same
    canvas from a first pass that carries no gradient (Chen et al. 2023, Analog Bits).

    Attributes:
        apply: the network.
        process: that corrupts.
        pad: id of padding.
        times: range that times are drawn from.
        objective: see above.
        self_conditioning: see above.
    """

    apply: Apply
    process: Process
    pad: int
    times: tuple[float, float]
    objective: Objective
    self_conditioning: bool = False

    def draw(self, key: Key[Array, ""], tokens: Int[Array, "batch length"]) -> Draw:
        """Corrupt a batch and toss the coins."""
        noise_key, coin_key = jax.random.split(key)
        noisy = corrupt(self.process, self.objective, noise_key, tokens, tokens < self.process.mask, self.times)
        return Draw(tokens, noisy, jax.random.bernoulli(coin_key, 0.5, tokens.shape[:1]))

    def scored(self, draw: Draw) -> Bool[Array, "batch length"]:
        """Positions whose prediction counts in the cross-entropy."""
        open = draw.tokens < self.process.mask
        return open & (draw.noisy.tokens == self.process.mask) if self.process.absorbing else open

    def count(self, draw: Draw) -> Float[Array, ""]:
        """The number of letters that the loss is a mean over."""
        counted = self.scored(draw) if self.objective in _CROSS else draw.tokens < self.process.mask
        return jnp.maximum(jnp.sum(counted.astype(jnp.float32)), 1.0)

    def total(self, parts: LossParts) -> Float[Array, ""]:
        """The sum that, divided by :meth:`count`, is the loss."""
        return parts.cross_nats if self.objective in _CROSS else parts.nats

    def parts(self, params: Params, draw: Draw) -> LossParts:
        """The sums over the rows of a draw."""
        tokens, noisy, process = draw.tokens, draw.noisy, self.process
        open, scored = tokens < process.mask, self.scored(draw)
        attend, output = tokens != self.pad, output_of(self.objective)
        previous = self._previous(params, draw, open) if self.self_conditioning else None
        raw = self.apply(params, noisy.tokens, attend, noisy.level, previous)
        logits = clean_logits(process, output, raw, noisy.tokens, noisy.level)
        cross = jnp.sum(masked_cross_entropy(logits, tokens, scored), axis=1)
        if self.objective == "score_entropy":
            score = log_score(process, raw, noisy.tokens, noisy.level)
            nats = jnp.sum(score_entropy(process, score, noisy.tokens, tokens, noisy.time, open), axis=1)
        elif self.objective == "any_order":
            nats = noisy.weight * cross
        else:
            nats = jnp.sum(bound_integrand(process, logits, noisy.tokens, tokens, noisy.time, open), axis=1)
        return LossParts(
            nats=jnp.sum(nats),
            tokens=jnp.sum(open.astype(jnp.float32)),
            cross_nats=jnp.sum(cross),
            scored=jnp.sum(scored.astype(jnp.float32)),
        )

    def _previous(
        self, params: Params, draw: Draw, open: Bool[Array, "batch length"]
    ) -> Float[Array, "batch length vocab"]:
        """The first pass's prediction in the rows whose coin says so, else zero."""
        tokens, noisy, process = draw.tokens, draw.noisy, self.process
        nothing = jnp.zeros((*tokens.shape, process.mask), jnp.float32)
        raw = self.apply(jax.lax.stop_gradient(params), noisy.tokens, tokens != self.pad, noisy.level, nothing)
        logits = clean_logits(process, output_of(self.objective), raw, noisy.tokens, noisy.level)
        first = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
        return jax.lax.stop_gradient(jnp.where(draw.coin[:, None, None] & open[..., None], first, 0.0))


def loss_and_gradient(
    loss: Loss, params: Params, draw: Draw, *, parts: int = 1, adapt: Callable[[Params], Params] = lambda params: params
) -> tuple[LossParts, Params]:
    """The sums behind a batch's loss, and the loss's gradient.

    Args:
        loss: the loss.
        params: what the gradient is taken to.
        draw: the batch.
        parts: pass so many parts of the batch one after the other (gradient accumulation): memory for activations is
            that of a part, and the gradient is the whole batch's up to the order of summation.
        adapt: makes the network's parameters of ``params``.

    Raises:
        InputError: the batch's rows do not divide into so many parts.
    """
    count = loss.count(draw)

    def value(params: Params, draw: Draw) -> tuple[Float[Array, ""], LossParts]:
        sums = loss.parts(adapt(params), draw)
        return loss.total(sums) / count, sums

    gradient = jax.grad(value, has_aux=True)
    if parts == 1:
        grads, sums = gradient(params, draw)
        return sums, grads
    rows = len(draw.tokens)
    if rows % parts:
        raise InputError(f"batch={rows} does not divide into accumulate={parts} parts; make it a multiple")

    # Row r goes to part r % parts, so that every device's share of the rows is spread over all parts.
    def cut(leaf: Array) -> Array:
        return jnp.swapaxes(leaf.reshape(rows // parts, parts, *leaf.shape[1:]), 0, 1)

    def add(total: tuple[Params, LossParts], part: Draw) -> tuple[tuple[Params, LossParts], None]:
        return jax.tree.map(jnp.add, total, gradient(params, part)), None

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(gradient, params, draw))
    (grads, sums), _ = jax.lax.scan(add, zeros, jax.tree.map(cut, draw))
    return sums, grads


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
    accumulate: int = 1,
    adapt: Callable[[Params, Params], Params] | None = None,
) -> Callable[[TrainState, Key[Array, ""], Int[Array, "batch length"]], tuple[TrainState, StepInfo]]:
    """The step function ``(state, run key, tokens [batch, length]) -> (state, info)``, to be jitted by the caller.

    The average's decay warms up as ``min(ema_decay, (1 + n) / (10 + n))`` so that early averages forget the start.

    Args:
        apply: the network; this and the next few are fields of :class:`Loss`.
        process: that corrupts.
        optimizer: from :func:`seqdiff.training.optimizer.make_optimizer`.
        pad: id of padding.
        times: range that times are drawn from.
        objective: what is trained on.
        ema_decay: of the averaged parameters.
        self_conditioning: whether the network reads its previous prediction.
        accumulate: parts that each batch is passed in, see :func:`loss_and_gradient`.
        adapt: ``adapt(frozen, params)`` makes the network's parameters of the state's frozen ones and those that
            train, which are the network's own by default.

    Raises:
        InputError: the objective does not fit the process.
    """
    check_objective(objective, process)
    loss = Loss(
        apply=apply,
        process=process,
        pad=pad,
        times=times,
        objective=objective,
        self_conditioning=self_conditioning,
    )

    def step(state: TrainState, key: Key[Array, ""], tokens: Int[Array, "batch length"]) -> tuple[TrainState, StepInfo]:
        draw = loss.draw(jax.random.fold_in(key, state.step), tokens)
        network = (lambda params: params) if adapt is None else partial(adapt, state.frozen)
        parts, grads = loss_and_gradient(loss, state.params, draw, parts=accumulate, adapt=network)
        updates, opt_state = optimizer.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        count = state.step.astype(jnp.float32)
        decay = jnp.minimum(ema_decay, (1.0 + count) / (10.0 + count))
        average = jax.tree.map(lambda a, p: a + (1.0 - decay).astype(a.dtype) * (p - a), state.average, params)
        info = StepInfo(parts, optax.global_norm(grads))
        return TrainState(state.step + 1, params, average, opt_state, state.frozen), info

    return step
