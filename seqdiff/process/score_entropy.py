"""Score entropy (SEDD, Lou et al. 2024): networks that put out ratios of probabilities instead of letters.

The concrete score of a noisy canvas z at a position is ``s_y = q_t(z with y there) / q_t(z)`` for every other letter y.
It is an average over the clean letter, ``s_y = sum_v P(x = v | z) q_t(y | v) / q_t(z | v)``, hence an affine image of
the denoiser's prediction, and the two can be turned into one another:

* absorbing, at MASK: ``s_y = p_y (1 - level) / level``;
* uniform, with ``rho = q_t(other | v) / q_t(v | v)``: ``s_y = 1 + p_z (rho - 1) + p_y (1 / rho - 1)`` for ``y != z``.

So a score network is sampled by the same loop as any other (:class:`ScoreDenoiser`). Everything is written in the noise
level, whose odds ``level / (1 - level)`` are the ``exp(sigma) - 1`` of the paper without its cancellation.

A network's output is the log score up to a known factor: in the absorbing process it is the log of
``V s_y level / (1 - level)``, which does not change its size with time and is zero for a network that knows nothing.
The output at the own letter is not read.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from seqdiff.process.losses import LEAST, check_objective, log_observation, posterior_logits
from seqdiff.process.noise import Process

Output = Literal["letters", "scores"]
"""What a network puts out: letters without their own token's evidence, or log scores."""

MOST = 1.0 - 1e-3
"""Largest noise level of a score: beyond it ratios say nothing of letters and the loss weight diverges (SEDD's eps)."""


def log_score(
    process: Process,
    output: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    level: Float[Array, "batch"],
) -> Float[Array, "batch length vocab"]:
    """Log scores from a network's output: rescaled (absorbing), zero at the own letter (uniform)."""
    output = output.astype(jnp.float32)
    if process.absorbing:
        return output - math.log(process.mask) - _log_odds(level)[:, None, None]
    return jnp.where(jax.nn.one_hot(z, process.mask, dtype=jnp.bool_), 0.0, output)


def score_from_letters(
    process: Process,
    logits: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    level: Float[Array, "batch"],
) -> Float[Array, "batch length vocab"]:
    """Log scores that a denoiser's prediction ``P(x | z)`` implies; at MASK in the absorbing process only."""
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    if process.absorbing:
        return log_p - _log_odds(level)[:, None, None]
    # s_y = sum_v p_v r_y(v) where q(y | v) is the noise for all v but y.
    own = log_observation(process, z, _level(level))
    share = jnp.log(_level(level) / process.mask)[:, None, None]
    log_given = log_p - own
    log_noise = share + jax.nn.logsumexp(log_given, axis=-1, keepdims=True)
    log_clean = jnp.log1p(-_level(level))[:, None, None] + log_given
    score = jnp.logaddexp(log_noise, log_clean)
    return jnp.where(jax.nn.one_hot(z, process.mask, dtype=jnp.bool_), 0.0, score)


def letters_from_score(
    process: Process,
    score: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    level: Float[Array, "batch"],
) -> Float[Array, "batch length vocab"]:
    """Logits of ``P(x | z)`` from log scores.

    In the uniform process ``s / sum s`` is the law of the noisy letter given the other positions. The noise is taken
    out of it, what is negative (a network's error) is dropped, and the own letter's evidence is multiplied back: the
    inverse of the affine map above. The error grows like ``1 / (1 - level)``.
    """
    score = score.astype(jnp.float32)
    if process.absorbing:
        return score
    score = jnp.where(jax.nn.one_hot(z, process.mask, dtype=jnp.bool_), 0.0, score)
    share = (_level(level) / process.mask)[:, None, None]
    clean = jnp.maximum(jax.nn.softmax(score, axis=-1) - share, LEAST * share)
    return jnp.log(clean) + log_observation(process, z, _level(level))


def score_entropy(
    process: Process,
    score: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    x0: Int[Array, "batch length"],
    t: Float[Array, "batch"],
    open: Bool[Array, "batch length"],
) -> Float[Array, "batch length"]:
    """The denoising score entropy at each position, in nats; zero where not open.

    ``sigma' pi(z) sum_{y != z} [s_y - r_y log s_y + r_y (log r_y - 1)]`` with the conditional ratios
    ``r_y = q_t(y | x0) / q_t(z | x0)``; each term is ``r (exp(u) - 1 - u)`` with ``u = log(s / r)``, zero at the truth.
    With scores that come from a denoiser it is the integrand of the bound.

    Args:
        process: absorbing or uniform.
        score: log scores.
        z: noisy tokens.
        x0: clean tokens.
        t: time of each row.
        open: positions that were corrupted.
    """
    level = _level(process.schedule.noise_level(t))
    weight = (process.schedule.slope(t) / (1.0 - level))[:, None]
    score = score.astype(jnp.float32)
    if process.absorbing:
        moves = open & (z == process.mask)
        clean = jax.nn.one_hot(jnp.where(moves, x0, 0), process.mask, dtype=jnp.bool_)
        log_true = -_log_odds(level)[:, None]
        here = jnp.sum(jnp.where(clean, score, 0.0), axis=-1) - log_true
        others = jnp.sum(jnp.where(clean, 0.0, jnp.exp(score)), axis=-1)
        terms = jnp.exp(log_true) * (jnp.expm1(here) - here) + others
        return jnp.where(moves, weight * terms, 0.0)
    seen = jnp.where(open, z, 0)
    # log q_t(y | x0) for every y has the form of log q_t(z | v) for every v: the uniform process is symmetric.
    log_q = log_observation(process, jnp.where(open, x0, 0), level)
    own = jax.nn.one_hot(seen, process.mask, dtype=jnp.bool_)
    log_true = log_q - jnp.sum(jnp.where(own, log_q, 0.0), axis=-1, keepdims=True)
    u = score - log_true
    terms = jnp.sum(jnp.where(own, 0.0, jnp.exp(log_true) * (jnp.expm1(u) - u)), axis=-1)
    return jnp.where(open, weight / process.mask * terms, 0.0)


def clean_logits(
    process: Process,
    output: Output,
    raw: Float[Array, "batch length vocab"],
    z: Int[Array, "batch length"],
    level: Float[Array, "batch"],
) -> Float[Array, "batch length vocab"]:
    """Logits of ``P(x | z)`` from what a network puts out."""
    if output == "scores":
        return letters_from_score(process, log_score(process, raw, z, level), z, level)
    return posterior_logits(process, raw, z, level)


@partial(jax.tree_util.register_dataclass, data_fields=["denoiser"], meta_fields=["process"])
@dataclass(frozen=True)
class ScoreDenoiser:
    """A network that puts out log scores, seen as a ``Denoiser``.

    Attributes:
        denoiser: called as a denoiser; what it returns is read as in :func:`log_score`.
        process: absorbing or uniform.
    """

    denoiser: Any
    process: Process

    def __post_init__(self):
        check_objective("score_entropy", self.process)

    @property
    def self_conditioning(self) -> bool:
        """Whether the network reads its previous prediction."""
        return getattr(self.denoiser, "self_conditioning", False)

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: Any = None,
        **more: Array,
    ) -> Float[Array, "batch length vocab"]:
        raw = self.denoiser(canvas, valid, time, conditions, **more)
        return clean_logits(self.process, "scores", raw, canvas, time)


def _level(level: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.clip(level, LEAST, MOST)


def _log_odds(level: Float[Array, "*n"]) -> Float[Array, "*n"]:
    level = _level(level)
    return jnp.log(level) - jnp.log1p(-level)
