"""The one loop: denoise, condition, plan, commit. One ``jit``, one ``while_loop``, any denoiser, program and planner.

At every step a witness, a complete sequence that satisfies all constraints, is drawn from the proposal given the
constraints; the planner picks positions; the witness's letters there are committed. Whatever is committed therefore
has a satisfying completion, at every step and for every planner.

Weights, automata, canvases, keys, lengths, the temperature and the number of steps are arguments, so none of them
causes a compilation; shapes, the planner and the alphabet's size do.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Denoiser, Planner, Program
from seqdiff.core.status import Outcome

DETERMINED = 1.0 - 1e-6
LOG_FLOOR = -1e4
GIVEN = -1


class Task(NamedTuple):
    """What to sample: one row per design.

    Attributes:
        keys: one per row; row i of the result depends on row i of the task only.
        canvas: int32 [B, L]; letters where given, MASK where open, anything beyond the length.
        length: int32 [B].
        bias: float32 [L, V], added to the log-probabilities after division by the temperature.
        steps: int32 []; most denoiser calls.
        temperature: float32 []; above 0.
    """

    keys: Key[Array, "B"]
    canvas: Int[Array, "B L"]
    length: Int[Array, "B"]
    bias: Float[Array, "L V"]
    steps: Int[Array, ""]
    temperature: Float[Array, ""]


class Samples(NamedTuple):
    """What came of it.

    Attributes:
        tokens: int32 [B, L]; the designs.
        order: int32 [B, L]; the step (from 0) at which a position was committed, ``GIVEN`` where it was not open.
        log_p: float32 [B, L]; log-probability of the letter under the model, unbiased and at temperature 1, when it was
            committed; 0 where it was not open.
        calls: int32 [B]; denoiser calls that had an open position of the row to fill (NFE).
        log_evidence: float32 [B]; log-probability that a draw from the first proposal satisfies the constraints.
        outcome: int32 [B]; an :class:`~seqdiff.core.status.Outcome`.
    """

    tokens: Int[Array, "B L"]
    order: Int[Array, "B L"]
    log_p: Float[Array, "B L"]
    calls: Int[Array, "B"]
    log_evidence: Float[Array, "B"]
    outcome: Int[Array, "B"]


class _Carry(NamedTuple):
    step: Int[Array, ""]
    witness: Int[Array, "B L"]
    samples: Samples


@partial(jax.jit, static_argnames=("planner", "mask"))
def sample(
    denoiser: Denoiser, program: Program, task: Task, conditions: Any = None, *, planner: Planner, mask: int
) -> Samples:
    """Fill the open positions of every row within ``task.steps`` denoiser calls.

    Args:
        denoiser: a pytree; see ``core.contracts``.
        program: constraints compiled for canvases of L positions.
        task: rows to fill.
        conditions: handed to the denoiser.
        planner: which positions to commit at a step.
        mask: id of MASK; letters have the ids below it.
    """
    batch, size = task.canvas.shape
    valid = jnp.arange(size)[None, :] < task.length[:, None]

    def open_positions(tokens: Int[Array, "B L"]) -> Bool[Array, "B L"]:
        return valid & (tokens == mask)

    def unfinished(carry: _Carry) -> Bool[Array, ""]:
        return (carry.step < task.steps) & jnp.any(open_positions(carry.samples.tokens))

    def step(carry: _Carry) -> _Carry:
        done = carry.samples
        open = open_positions(done.tokens)
        left = jnp.sum(open, axis=1)
        condition_keys, plan_keys = _step_keys(task.keys, carry.step)
        logits = denoiser(done.tokens, valid, left / jnp.maximum(task.length, 1), conditions).astype(jnp.float32)
        finite = jnp.all(jnp.isfinite(logits) | ~open[..., None], axis=(1, 2))
        model = _log_softmax(logits)
        proposal = _log_softmax(logits / task.temperature + task.bias[None])
        witness, marginals, evidence = program.condition(
            condition_keys, proposal, done.tokens, task.length, carry.witness
        )
        free = _determined(marginals, open) if planner.reads_marginals else jnp.zeros_like(open)
        choosable = open & ~free
        rest = jnp.sum(choosable, axis=1)
        calls_left = task.steps - carry.step
        quota = -(-rest // calls_left)
        commit = free | (choosable & planner.plan(plan_keys, marginals, choosable, quota))
        letters = jnp.clip(witness, 0, mask - 1)
        log_p = jnp.take_along_axis(model, letters[..., None], axis=-1)[..., 0]
        outcome = jnp.where(
            finite, jnp.where(evidence > -jnp.inf, Outcome.DONE, Outcome.NO_COMPLETION), Outcome.NOT_FINITE
        )
        started = jnp.any(open, axis=1)
        samples = Samples(
            tokens=jnp.where(commit, letters, done.tokens),
            order=jnp.where(commit, carry.step, done.order),
            log_p=jnp.where(commit, log_p, done.log_p),
            calls=done.calls + started.astype(jnp.int32),
            log_evidence=jnp.where(carry.step == 0, evidence, done.log_evidence),
            outcome=jnp.where(started & (done.outcome == Outcome.DONE), outcome.astype(jnp.int32), done.outcome),
        )
        return _Carry(carry.step + 1, witness, samples)

    start = Samples(
        tokens=jnp.where(valid, task.canvas, mask),
        order=jnp.full((batch, size), GIVEN, jnp.int32),
        log_p=jnp.zeros((batch, size), jnp.float32),
        calls=jnp.zeros((batch,), jnp.int32),
        log_evidence=jnp.zeros((batch,), jnp.float32),
        outcome=jnp.full((batch,), Outcome.DONE, jnp.int32),
    )
    return jax.lax.while_loop(unfinished, step, _Carry(jnp.zeros((), jnp.int32), start.tokens, start)).samples


def row_keys(seed: int, rows: Int[Array, "B"]) -> Key[Array, "B"]:
    """The key of each row of a request: a function of the seed and the row's number alone."""
    root = jax.random.key(seed)
    return jax.vmap(partial(jax.random.fold_in, root))(rows)


def _step_keys(keys: Key[Array, "B"], step: Int[Array, ""]) -> tuple[Key[Array, "B"], Key[Array, "B"]]:
    fresh = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, step)))(keys)
    return fresh[:, 0], fresh[:, 1]


def _log_softmax(logits: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
    """Log-probabilities with a floor, so that no feasible completion is ever ruled out by the model."""
    return jnp.maximum(jax.nn.log_softmax(logits, axis=-1), LOG_FLOOR)


def _determined(marginals: Float[Array, "B L V"], open: Bool[Array, "B L"]) -> Bool[Array, "B L"]:
    """Open positions that the constraints and what is committed leave no choice about."""
    return open & (jnp.max(marginals, axis=-1) >= DETERMINED)
