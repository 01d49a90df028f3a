"""The one loop: denoise, condition, plan, commit. One ``jit``, one ``while_loop``, any denoiser, program and planner.

At every step a witness, a complete sequence that satisfies all constraints, is drawn from the proposal given the
constraints; the planner picks positions; the witness's letters there are committed. Whatever is committed therefore
has a satisfying completion, at every step and for every planner; taking commits back only adds completions.

Two canvases are kept apart: the *tokens*, letters where committed and MASK where open, which the constraints see; and
what the denoiser sees, which shows noise where open: MASK, or random letters for uniform and hybrid processes.

Weights, automata, canvases, keys, lengths, temperatures and the number of steps are arguments, so none of them causes a
compilation; shapes, the planner's hyperparameters and the process do.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import GIVEN, OPEN, Denoiser, Planner, Program, View
from seqdiff.core.status import Outcome
from seqdiff.process.losses import log_observation
from seqdiff.process.noise import Process
from seqdiff.process.readout import extras, reads
from seqdiff.sampling.particles import Goal, conclude, resample, start, weigh
from seqdiff.sampling.planners.base import step_keys
from seqdiff.sampling.trace import Moment, Trace

DETERMINED = 1.0 - 1e-6
LOG_FLOOR = -1e4
MODE_TEMPERATURE = 1e-3
START_STREAM = 1 << 30


class Task(NamedTuple):
    """What to sample: one row per design.

    Attributes:
        keys: one per row; row i of the result depends on row i of the task only.
        canvas: int32 [B, L]; letters where given, MASK where open, anything beyond the length.
        length: int32 [B].
        bias: float32 [L, V], added to the log-probabilities after division by the temperature.
        steps: int32 []; most denoiser calls.
        temperature: float32 [2]; at the first step, and the limit that a linear schedule approaches; above 0.
    """

    keys: Key[Array, "B"]
    canvas: Int[Array, "B L"]
    length: Int[Array, "B"]
    bias: Float[Array, "L V"]
    steps: Int[Array, ""]
    temperature: Float[Array, "2"]


class Samples(NamedTuple):
    """What came of it.

    Attributes:
        tokens: int32 [B, L]; the designs.
        order: int32 [B, L]; the step (from 0) at which a position was committed, ``GIVEN`` where it was not open.
        log_p: float32 [B, L]; log-probability of the letter under the model, unbiased and at temperature 1, when it was
            committed; 0 where it was not open.
        calls: int32 [B]; denoiser calls until the row was finished (NFE).
        log_evidence: float32 [B]; log-probability that a draw from the first proposal satisfies the constraints.
        outcome: int32 [B]; an :class:`~seqdiff.core.status.Outcome`.
        log_normaliser: float32 [B]; with particles, estimate of the log-probability that the sampler without
            constraints satisfies them, times the mean of the goals' ``exp`` over what does; else 0.
        ess: float32 [B]; smallest effective sample size on the way as a share of the particles; 1 without.
        trace: what was recorded, [B, steps, ...] by name.
    """

    tokens: Int[Array, "B L"]
    order: Int[Array, "B L"]
    log_p: Float[Array, "B L"]
    calls: Int[Array, "B"]
    log_evidence: Float[Array, "B"]
    outcome: Int[Array, "B"]
    log_normaliser: Any
    ess: Any
    trace: dict[str, Array]


class _Carry(NamedTuple):
    step: Any
    witness: Int[Array, "B L"]
    canvas: Int[Array, "B L"]
    finished: Bool[Array, "B"]
    previous: Float[Array, "B L V"] | None
    memory: Any
    samples: Samples
    weights: Any


@partial(jax.jit, static_argnames=("process", "particles", "trace"))
def sample(
    denoiser: Denoiser,
    program: Program,
    task: Task,
    planner: Planner,
    conditions: Any = None,
    goals: tuple[Goal, ...] = (),
    *,
    process: Process,
    particles: int = 1,
    trace: Trace | None = None,
) -> Samples:
    """Fill the open positions of every row within ``task.steps`` denoiser calls.

    Args:
        denoiser: a pytree; see ``core.contracts``.
        program: constraints compiled for canvases of L positions.
        task: rows to fill.
        planner: which positions to commit and to reopen at a step.
        conditions: handed to the denoiser.
        goals: soft goals; they need particles.
        process: whose noise open positions show.
        particles: rows per design; the result has B / particles rows.
        trace: statistics to record.
    """
    batch, size = task.canvas.shape
    mask = process.mask
    valid = jnp.arange(size)[None, :] < task.length[:, None]
    given = valid & (task.canvas < mask)
    harvests = planner.reads_marginals and planner.holds and not planner.reopens
    self_conditioned = reads(denoiser, "self_conditioning")

    def noise(keys: Key[Array, "B"]) -> Int[Array, "B L"]:
        return jax.vmap(lambda key: process.noise(key, (size,)))(keys)

    def step(carry: _Carry) -> _Carry:
        done, active = carry.samples, ~carry.finished
        condition_keys, plan_keys, noise_keys, resample_keys, mode_keys = step_keys(task.keys, carry.step, 5)
        open = valid & (done.tokens == mask) & active[:, None]
        left = jnp.sum(open, axis=1)
        alpha, alpha_next = (_survival(process, carry.step + later, task.steps) for later in (0, 1))

        # Denoise.
        share = left.astype(jnp.float32) / jnp.maximum(task.length, 1).astype(jnp.float32)
        level = share if process.absorbing or planner.holds else jnp.broadcast_to(1.0 - alpha, share.shape)
        more = extras(denoiser, previous=carry.previous, order=jnp.where(done.tokens < mask, done.order, OPEN))
        logits = denoiser(carry.canvas, valid, level, conditions, **more).astype(jnp.float32)
        if planner.holds and not process.absorbing:
            # What an open position shows is known to be noise, so it is no sign of the letter there.
            sign = log_observation(process, carry.canvas, level)
            logits = jnp.where(open[..., None], logits - sign, logits)
        finite = jnp.all(jnp.isfinite(logits) | ~open[..., None], axis=(1, 2))
        model = log_proposal(logits)
        first, last = task.temperature
        scaled = logits / (first + (last - first) * _share(carry.step, task.steps)) + task.bias[None]
        proposal = log_proposal(scaled)

        # Condition.
        witness, marginals, evidence = program.condition(
            condition_keys, proposal, done.tokens, task.length, carry.witness
        )

        # Plan.
        free = _determined(marginals, open) if harvests else jnp.zeros_like(open)
        choosable = open & ~free
        view = View(
            marginals=marginals,
            log_model=model,
            tokens=done.tokens,
            canvas=carry.canvas,
            open=choosable,
            held=valid & (done.tokens < mask) & ~given & active[:, None],
            total=jnp.sum(valid & ~given, axis=1),
            quota=-(-jnp.sum(choosable, axis=1) // (task.steps - carry.step)),
            step=carry.step,
            steps=task.steps,
            alpha=alpha,
            alpha_next=alpha_next,
            witness=witness if planner.reads_witness else None,
        )
        moves, memory = planner.plan(plan_keys, carry.memory, view, process)
        stop = active & (carry.step + 1 >= task.steps)
        if moves.stop is not None:
            stop |= active & moves.stop

        # Commit, reopen, show noise at what is open.
        commit = free | (choosable & moves.commit) | (open & stop[:, None])
        letters = witness
        if planner.commits_mode:
            letters = jax.lax.cond(
                jnp.any(stop),
                lambda: jnp.where(
                    stop[:, None],
                    program.condition(
                        mode_keys, log_proposal(scaled / MODE_TEMPERATURE), done.tokens, task.length, witness
                    ).witness,
                    witness,
                ),
                lambda: witness,
            )
        letters = jnp.clip(letters, 0, mask - 1)
        tokens = jnp.where(commit, letters, done.tokens)
        reopen = jnp.zeros_like(open)
        if moves.reopen is not None:
            reopen = moves.reopen & view.held & ~stop[:, None]
            tokens = jnp.where(reopen, mask, tokens)
        still_open = valid & (tokens == mask)
        shown = noise(noise_keys) if moves.canvas is None else moves.canvas
        settled = jnp.ones_like(stop) if moves.settled is None else moves.settled
        canvas = jnp.where(still_open, shown, tokens)

        # Account.
        log_p = jnp.take_along_axis(model, letters[..., None], axis=-1)[..., 0]
        outcome = jnp.where(
            finite, jnp.where(evidence > -jnp.inf, Outcome.DONE, Outcome.NO_COMPLETION), Outcome.NOT_FINITE
        )
        samples = done._replace(
            tokens=tokens,
            order=jnp.where(commit, carry.step, done.order),
            log_p=jnp.where(commit, log_p, done.log_p),
            calls=done.calls + active.astype(jnp.int32),
            log_evidence=jnp.where(carry.step == 0, evidence, done.log_evidence),
            outcome=jnp.where(active & (done.outcome == Outcome.DONE), outcome.astype(jnp.int32), done.outcome),
        )
        if trace is not None:
            moment = Moment(tokens, canvas, witness, marginals, open, commit, reopen, evidence)
            samples = samples._replace(trace=trace.record(done.trace, carry.step, active, moment))
        finished = carry.finished | stop | (settled & ~jnp.any(still_open, axis=1))
        previous = jnp.exp(proposal) if self_conditioned else carry.previous
        after = _Carry(carry.step + 1, witness, canvas, finished, previous, memory, samples, carry.weights)
        if particles == 1:
            return after

        # Weigh and resample.
        potential = sum((jnp.maximum(goal(witness, task.length), LOG_FLOOR) for goal in goals), jnp.zeros((batch,)))
        weights = weigh(carry.weights, evidence, potential, active)
        weights = weights._replace(stale=program.log_evidence(proposal, tokens, task.length))
        rows = after._replace(step=None, weights=None)
        weights, rows = resample(weights, rows, resample_keys, particles=particles)
        return rows._replace(step=after.step, weights=weights)

    noise_keys, memory_keys, choice_keys = step_keys(task.keys, jnp.int32(START_STREAM), 3)
    tokens = jnp.where(valid, task.canvas, mask)
    open = valid & (tokens == mask)
    samples = Samples(
        tokens=tokens,
        order=jnp.full((batch, size), GIVEN, jnp.int32),
        log_p=jnp.zeros((batch, size), jnp.float32),
        calls=jnp.zeros((batch,), jnp.int32),
        log_evidence=jnp.zeros((batch,), jnp.float32),
        outcome=jnp.full((batch,), Outcome.DONE, jnp.int32),
        log_normaliser=None,
        ess=None,
        trace={},
    )
    if trace is not None:
        blank = Moment(tokens, tokens, tokens, jnp.zeros((batch, size, mask)), open, open, open, samples.log_evidence)
        samples = samples._replace(trace=trace.empty(blank))
    carry = _Carry(
        step=jnp.zeros((), jnp.int32),
        witness=tokens,
        canvas=jnp.where(open, noise(noise_keys), tokens),
        finished=~jnp.any(open, axis=1),
        previous=jnp.zeros((batch, size, mask)) if self_conditioned else None,
        memory=planner.init(memory_keys, open, mask),
        samples=samples,
        weights=start(batch, particles),
    )
    carry = jax.lax.while_loop(lambda c: (c.step < task.steps) & ~jnp.all(c.finished), step, carry)
    samples = carry.samples
    if particles == 1:
        return samples._replace(log_normaliser=jnp.zeros((batch,)), ess=jnp.ones((batch,)))
    chosen, log_normaliser = conclude(carry.weights, choice_keys, particles=particles)
    kept = jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), samples)
    return kept._replace(log_normaliser=log_normaliser, ess=carry.weights.ess)


def row_keys(seed: int, rows: Int[Array, "B"]) -> Key[Array, "B"]:
    """The key of each row of a request: a function of the seed and the row's number alone."""
    root = jax.random.key(seed)
    return jax.vmap(partial(jax.random.fold_in, root))(rows)


def particle_keys(keys: Key[Array, "n"], particles: int) -> Key[Array, "B"]:
    """A key for every particle of every row, the particles of a row together; one particle has its row's own key."""
    if particles == 1:
        return keys
    folded = jax.vmap(lambda key: jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(particles)))(keys)
    return folded.reshape(-1)


def _survival(process: Process, step: Int[Array, ""], steps: Int[Array, ""]) -> Float[Array, ""]:
    """Alpha at an even grid of times from 1 to 0; 1 once the last step is done."""
    alpha = process.schedule.alpha(1.0 - _share(step, steps))
    return jnp.where(step >= steps, 1.0, jnp.where(step == 0, 0.0, alpha))


def _share(step: Int[Array, ""], steps: Int[Array, ""]) -> Float[Array, ""]:
    return step.astype(jnp.float32) / steps.astype(jnp.float32)


def log_proposal(logits: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
    """Log-probabilities with a floor, so that no feasible completion is ever ruled out by the model."""
    return jnp.maximum(jax.nn.log_softmax(logits, axis=-1), LOG_FLOOR)


def _determined(marginals: Float[Array, "B L V"], open: Bool[Array, "B L"]) -> Bool[Array, "B L"]:
    """Open positions that the constraints and what is committed leave no choice about."""
    return open & (jnp.max(marginals, axis=-1) >= DETERMINED)
