"""Speculative any-order sampling: several positions per call with the law of one position at a time.

A draft fixes the next k positions of the order at once from a stale or cheap belief. One batched call of the denoiser
on the k prefixes of the draft gives the distribution that one-at-a-time sampling would have used at each of them, and
the usual test (Leviathan et al. 2023; for any order Guo and Ermon 2025) decides how many to keep: letter j stays with
probability ``min(1, p_j / q_j)``; at the first that does not, one is drawn from the positive part of ``p_j - q_j``.

Both p and q are conditioned on the constraints, so drafts are feasible and the output law is that of conditioned
one-at-a-time sampling. Each round commits at least one position. Drafts come from the logits of the last verified
prefix, or from a ``drafter``; they change the speed, never the law.

Rounds are calls in *depth*: each runs k rows per design. On hardware that is busy with the batch this costs more than
it saves; it pays where one call takes as long as k of them side by side.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import GIVEN, OPEN, Denoiser, Program
from seqdiff.core.errors import InputError
from seqdiff.core.status import Outcome
from seqdiff.process.noise import Process
from seqdiff.process.readout import predict
from seqdiff.sampling.loop import START_STREAM, Samples, Task, log_proposal
from seqdiff.sampling.planners.base import letter_log_probability, rank, step_keys
from seqdiff.sampling.planners.ranking import FixedOrder


class Speculated(NamedTuple):
    """How the drafts fared.

    Attributes:
        drafted: letters drafted for each row [B].
        accepted: of those, letters kept [B].
    """

    drafted: Int[Array, "B"]
    accepted: Int[Array, "B"]


class _Carry(NamedTuple):
    step: Int[Array, ""]
    witness: Int[Array, "B L"]
    logits: Float[Array, "B L V"]
    number: Int[Array, "B L"]
    samples: Samples
    speculated: Speculated


@partial(jax.jit, static_argnames=("process", "drafts"))
def sample_speculative(
    denoiser: Denoiser,
    program: Program,
    task: Task,
    planner: FixedOrder,
    conditions: Any = None,
    drafter: Denoiser | None = None,
    *,
    process: Process,
    drafts: int,
) -> tuple[Samples, Speculated]:
    """Fill every row one position at a time in law, several per call in fact.

    Args:
        denoiser: a pytree; see ``core.contracts``.
        program: constraints whose marginals are exact (no solver, no path route).
        task: rows to fill; ``steps`` is not read, and the temperature is the first one throughout.
        planner: one whose order does not depend on the model: random, left_to_right, spread or order.
        conditions: handed to the denoiser and the drafter.
        drafter: a cheaper denoiser to draft with, called once per round; by default the last logits are used again.
        process: an absorbing one.
        drafts: positions per round, k.

    Returns:
        The samples, whose ``calls`` are rounds (plus one without a drafter), and what became of the drafts.
    """
    if not process.absorbing:
        raise InputError("speculative sampling needs an absorbing process; with random letters nothing is final")
    if not isinstance(planner, FixedOrder):
        raise InputError("speculative sampling needs an order known beforehand: random, left_to_right, spread or order")
    batch, size = task.canvas.shape
    mask = process.mask
    valid = jnp.arange(size)[None, :] < task.length[:, None]
    start = jnp.where(valid, task.canvas, mask)
    order_keys = jax.vmap(partial(jax.random.fold_in, data=START_STREAM))(task.keys)
    order = planner.order(order_keys, valid & (start == mask))
    repeat = partial(jnp.repeat, repeats=drafts, axis=0)

    def ask(
        model: Denoiser,
        tokens: Int[Array, "N L"],
        valid: Bool[Array, "N L"],
        length: Int[Array, "N"],
        number: Int[Array, "N L"],
    ) -> Float[Array, "N L V"]:
        share = jnp.sum(valid & (tokens == mask), axis=1).astype(jnp.float32)
        level = share / jnp.maximum(length, 1).astype(jnp.float32)
        order = jnp.where(tokens < mask, number, OPEN)
        return predict(model, tokens, valid, level, conditions, letters=mask, order=order).astype(jnp.float32)

    def propose(logits: Float[Array, "N L V"]) -> Float[Array, "N L V"]:
        scaled = logits.astype(jnp.float32) / task.temperature[0] + task.bias[None]
        return log_proposal(scaled)

    def step(carry: _Carry) -> _Carry:
        done = carry.samples
        keys = step_keys(task.keys, carry.step, 6)
        rank_keys, draft_keys, fresh_keys, stale_keys, coin_keys, residual_keys = keys
        open = valid & (done.tokens == mask)
        left = jnp.sum(open, axis=1)
        active = left > 0

        # Draft the next k positions of the order.
        place = rank(order, rank_keys, open)
        count = jnp.minimum(left, drafts)
        logits = carry.logits
        if drafter is not None:
            logits = ask(drafter, done.tokens, valid, task.length, carry.number)
        proposal = propose(logits)
        witness, _, evidence = program.condition(draft_keys, proposal, done.tokens, task.length, carry.witness)

        # All prefixes of the draft in one call.
        number = carry.step * drafts + place
        before = place[:, None, :] < jnp.arange(drafts)[None, :, None]
        prefixes = jnp.where(before, witness[:, None], done.tokens[:, None]).reshape(-1, size)
        numbers = jnp.where(before, number[:, None], carry.number[:, None]).reshape(-1, size)
        lengths, row_valid = repeat(task.length), repeat(valid)
        fresh = ask(denoiser, prefixes, row_valid, lengths, numbers)
        finite = jnp.all(jnp.isfinite(fresh) | (prefixes != mask)[..., None] | ~row_valid[..., None], axis=(1, 2))

        # The distribution at the next position of each prefix: as one at a time would draw it, and as the draft did.
        def here(proposal: Float[Array, "N L V"], keys: Key[Array, "B"]) -> Float[Array, "B K V"]:
            each = jax.vmap(partial(jax.random.split, num=drafts))(keys).reshape(-1)
            marginals = program.condition(each, proposal, prefixes, lengths, repeat(witness)).marginals
            at = place[:, None, :] == jnp.arange(drafts)[None, :, None]
            return jnp.einsum("bkl,bklv->bkv", at.astype(jnp.float32), marginals.reshape(batch, drafts, size, mask))

        p = here(propose(fresh), fresh_keys)
        q = here(repeat(proposal), stale_keys)
        drafted = jnp.take_along_axis(witness, jnp.argsort(place, axis=1)[:, :drafts], axis=1)
        p_here, q_here = (_pick(part, drafted) for part in (p, q))
        coins = jax.vmap(lambda key: jax.random.uniform(key, (drafts,)))(coin_keys)
        accept = (coins * q_here < p_here) & (jnp.arange(drafts)[None, :] < count[:, None])
        kept = jnp.sum(jnp.cumprod(accept.astype(jnp.int32), axis=1), axis=1)
        rejected = active & (kept < count)
        at_reject = jnp.minimum(kept, drafts - 1)
        residual = jnp.maximum(_row(p, at_reject) - _row(q, at_reject), 0.0)
        instead = jax.vmap(jax.random.categorical)(residual_keys, jnp.log(residual)).astype(jnp.int32)

        # Commit what was kept, and the letter drawn instead.
        letters = jnp.where(place == kept[:, None], instead[:, None], witness)
        commit = open & ((place < kept[:, None]) | ((place == kept[:, None]) & rejected[:, None]))
        tokens = jnp.where(commit, letters, done.tokens)
        model = log_proposal(fresh).reshape(batch, drafts, size, mask)
        at = jnp.clip(place, 0, drafts - 1)
        own = jnp.take_along_axis(model, at[:, None, :, None], axis=1)[:, 0]
        log_p = letter_log_probability(own, letters)
        bad = ~jnp.all(finite.reshape(batch, drafts), axis=1)
        outcome = jnp.where(
            bad, Outcome.NOT_FINITE, jnp.where(evidence > -jnp.inf, Outcome.DONE, Outcome.NO_COMPLETION)
        )
        samples = done._replace(
            tokens=tokens,
            order=jnp.where(commit, carry.step, done.order),
            log_p=jnp.where(commit, log_p, done.log_p),
            calls=done.calls + active.astype(jnp.int32),
            log_evidence=jnp.where(carry.step == 0, evidence, done.log_evidence),
            outcome=jnp.where(active & (done.outcome == Outcome.DONE), outcome.astype(jnp.int32), done.outcome),
        )
        last = jnp.clip(jnp.minimum(kept, count - 1), 0, drafts - 1)
        after = jnp.take_along_axis(fresh.reshape(batch, drafts, size, mask), last[:, None, None, None], axis=1)[:, 0]
        hint = jnp.where(rejected[:, None], tokens, witness)
        fared = carry.speculated
        fared = Speculated(fared.drafted + count, fared.accepted + kept)
        number = jnp.where(commit, number, carry.number)
        return _Carry(carry.step + 1, hint, after, number, samples, fared)

    nothing = jnp.zeros((batch,), jnp.int32)
    logits = jnp.zeros((batch, size, mask))
    given = jnp.full((batch, size), GIVEN, jnp.int32)
    if drafter is None:
        logits = ask(denoiser, start, valid, task.length, given)
    samples = Samples(
        tokens=start,
        order=given,
        log_p=jnp.zeros((batch, size)),
        calls=nothing + int(drafter is None),
        log_evidence=jnp.zeros((batch,)),
        outcome=jnp.full((batch,), Outcome.DONE, jnp.int32),
        log_normaliser=jnp.zeros((batch,)),
        ess=jnp.ones((batch,)),
        trace={},
    )
    carry = _Carry(jnp.zeros((), jnp.int32), start, logits, given, samples, Speculated(nothing, nothing))

    def unfinished(carry: _Carry) -> Bool[Array, ""]:
        # A row commits a letter per round; the bound ends a run whose logits are not finite.
        return (carry.step < size) & jnp.any(valid & (carry.samples.tokens == mask))

    carry = jax.lax.while_loop(unfinished, step, carry)
    return carry.samples, carry.speculated


def _pick(p: Float[Array, "B K V"], letters: Int[Array, "B K"]) -> Float[Array, "B K"]:
    safe = jnp.clip(letters, 0, p.shape[-1] - 1)
    return jnp.take_along_axis(p, safe[..., None], axis=-1)[..., 0]


def _row(p: Float[Array, "B K V"], index: Int[Array, "B"]) -> Float[Array, "B V"]:
    return jnp.take_along_axis(p, index[:, None, None], axis=1)[:, 0]
