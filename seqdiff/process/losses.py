"""The likelihood bound of every process as one integrand, and the losses that networks are trained on.

A denoiser predicts ``p(v) = P(x_i = v | z)``, the law of the clean letter given the whole noisy canvas, its own token
included. The bound of an interpolating process (GIDD, von Ruette et al. 2025) is written with the prediction that does
*not* know the own token, ``p~(v) ~ p(v) / q_t(z_i | v)``, put in the place of the clean letter::

    bound = E_t E_z sum_i  w * [ KL(q_t(. | x_i) || q_t(. | p~)) + r - log r - 1 ]
    r = q_t(z_i | x_i) / q_t(z_i | p~),     w = -alpha' / alpha * pi(z_i) / q_t(z_i | x_i)

Bayes' rule makes this the limit of the one-step bound in which a clean letter is drawn from ``p`` and then
``z_s ~ q(z_s | z_t, x)``, as the sampler does. Its minimum is at the true ``P(x_i | z)`` for all processes, which is
also where the plain cross-entropy has its minimum. At MASK the two predictions coincide and the integrand is the
weighted cross-entropy of MDLM and MD4; with letters as noise it is that of UDLM (Schiff et al. 2025).

Networks therefore put out ``log p~`` and :func:`posterior_logits` completes it: what a letter says about itself is
known in closed form and need not be learned.
"""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.process.noise import Process

Objective = Literal["bound", "masked", "cross_entropy", "any_order", "score_entropy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

LEAST, TINY = 1e-6, 1e-30
"""Noise levels are kept above LEAST and survival above its square, so that weights are finite at both ends."""


class LossParts(NamedTuple):
    """Sums over a batch, so that shards and steps add up exactly.

    Attributes:
        nats: bound summed over rows; its ratio to ``tokens`` estimates the bound per token.
        tokens: open positions.
        cross_nats: plain cross-entropy summed over the scored positions.
        scored: positions whose prediction counts: those at MASK in the absorbing process, else all open ones.
    """

    nats: Float[Array, ""]
    tokens: Float[Array, ""]
    cross_nats: Float[Array, ""]
    scored: Float[Array, ""]


def check_objective(objective: str, process: Process) -> None:
    """Refuse an objective that does not exist or does not fit the process.

    Raises:
        InputError: in one line, with the way out.
    """
    if objective not in OBJECTIVES:
        raise unknown_key("objective", objective, OBJECTIVES)
    if objective in ("masked", "any_order") and not process.absorbing:
        raise InputError(
            f"objective={objective} counts masked letters, but a share {process.uniform:g} of this process's noise is "
            "random letters; use bound or cross_entropy, or process=absorbing"
        )
    if objective == "cross_entropy" and process.absorbing:
        raise InputError(
            "objective=cross_entropy scores every letter, but the absorbing process shows most of them as they are; "
            "use masked, or process=uniform or hybrid"
        )
    if objective == "score_entropy" and 0.0 < process.uniform < 1.0:
        raise InputError("objective=score_entropy is defined for process=absorbing or uniform, not for a hybrid")


def masked_cross_entropy(
    logits: Float[Array, "batch length vocab"],
    target: Int[Array, "batch length"],
    masked: Bool[Array, "batch length"],
) -> Float[Array, "batch length"]:
    """``-log p(target)`` in nats where ``masked``, zero elsewhere (float32)."""
    log_probability = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return jnp.where(masked, -_pick(log_probability, jnp.where(masked, target, 0)), 0.0)


def log_observation(
    process: Process, z: Int[Array, "batch length"], level: Float[Array, "batch"]
) -> Float[Array, "batch length vocab"]:
    """``log q_t(z | x = v)`` for every letter v: what the own token says about the clean letter.

    Args:
        process: the forward process, not absorbing.
        z: noisy tokens.
        level: noise level ``1 - alpha`` of each row.
    """
    level = jnp.clip(level, LEAST, 1.0)[:, None]
    noise = level * process.noise_probability(z)
    same = jax.nn.one_hot(z, process.mask, dtype=jnp.float32)
    # A token that the process cannot produce says nothing; the floor keeps its row finite.
    return jnp.log(jnp.maximum(same * (1.0 - level)[..., None] + noise[..., None], TINY))


def posterior_logits(
    process: Process,
    logits: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    level: Float[Array, "batch"],
) -> Float[Array, "batch length vocab"]:
    """A denoiser's prediction from a network's output: ``log p = log p~ + log q_t(z | .)``, not normalised.

    In the absorbing process the second term is constant at MASK, and other positions are not predicted, so the output
    is returned as it is.
    """
    if process.absorbing:
        return logits
    return logits + log_observation(process, z, level).astype(logits.dtype)


def bound_integrand(
    process: Process,
    logits: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    x0: Int[Array, "batch length"],
    t: Float[Array, "batch"],
    open: Bool[Array, "batch length"],
) -> Float[Array, "batch length"]:
    """The integrand of the continuous-time bound at each position, in nats; zero where not open.

    Both divergences are summed in the form ``q * (d - log(1 + d))`` with ``d = q(. | p~) / q(. | x) - 1``, of which
    every term is non-negative and small where the two laws nearly agree (near t = 1).

    Args:
        process: the forward process.
        logits: of ``P(x_i | z)``.
        z: noisy tokens.
        x0: clean tokens.
        t: time of each row.
        open: positions that were corrupted with probability ``1 - alpha``; the others are given.
    """
    slope = process.schedule.slope(t)[:, None]
    level = jnp.clip(process.schedule.noise_level(t), LEAST, 1.0)
    if process.absorbing:
        nats = masked_cross_entropy(logits, x0, open & (z == process.mask))
        return slope / level[:, None] * nats
    seen = jnp.where(open, z, 0)
    clean = jnp.where(open, x0, 0)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32) - log_observation(process, seen, level), axis=-1)
    alpha = jnp.maximum(process.schedule.alpha(t), LEAST**2)[:, None]
    level = level[:, None]
    truth = jax.nn.one_hot(clean, process.mask, dtype=jnp.float32)
    share = level[..., None] * (process.uniform / process.mask)
    q = alpha[..., None] * truth + share
    d = alpha[..., None] * (jnp.exp(log_p) - truth) / q
    log_ratio = _log_ratio(d, jnp.logaddexp(jnp.log(alpha)[..., None] + log_p, jnp.log(share)) - jnp.log(q))
    series = d**2 * (1 / 2 - d / 3 + d**2 / 4)
    divergence = jnp.sum(q * jnp.where(jnp.abs(d) < 1e-2, series, d - log_ratio), axis=-1)
    # r - log r - 1 with log r = -own; at MASK both laws agree and r = 1.
    letter = seen < process.mask
    own = jnp.where(letter, _pick(log_ratio, jnp.where(letter, seen, 0)), 0.0)
    series = own**2 * (1 / 2 - own / 6 + own**2 / 24)
    itakura_saito = jnp.where(jnp.abs(own) < 1e-2, series, own + jnp.expm1(-own))
    noise = process.noise_probability(seen)
    weight = slope / alpha * noise / (jnp.where(seen == clean, alpha, 0.0) + level * noise)
    return jnp.where(open, weight * (divergence + itakura_saito), 0.0)


def _log_ratio(d: Float[Array, "*n"], exact: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``log(1 + d)``, from ``exact`` where d is not small."""
    small = jnp.abs(d) < 0.5
    return jnp.where(small, jnp.log1p(jnp.where(small, d, 0.0)), exact)


def _pick(
    values: Float[Array, "batch length vocab"], index: Int[Array, "batch length"]
) -> Float[Array, "batch length"]:
    return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]
