"""Particles: several attempts per design, weighed and resampled together.

The loop commits letters under the evidence of the denoiser's *present* belief. How far that belief was off shows at the
next call, and the ratio of the two evidences of the same canvas,

    w = H(z | new proposal) / H(z | old proposal),    first w = H(z_0),

is exactly what turns the loop's law into that of the unconstrained sampler given the constraints (twisted SMC; Wu et
al. 2023, Loula et al. 2025). Goals multiply w by ``exp(r(x_k) - r(x_{k-1}))`` of the drawn completions x_k, whose
product telescopes to ``exp(r(x))`` of the design (Feynman-Kac steering, Singhal et al. 2025). The mean of the weights
estimates the normaliser without bias, at any number of particles.

Rows of one design stand together: ``particles`` rows per group.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

RESAMPLE_BELOW = 0.5


class Goal(Protocol):
    """A soft goal: a pytree that gives each complete sequence a log-potential in nats."""

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        """Log-potential of each row; letters beyond its length are to be ignored."""
        ...


class Weights(NamedTuple):
    """The weights of all rows and what has been gathered of each group.

    Attributes:
        log_weight: since the last resampling [B].
        stale: log-evidence of the present canvas under the proposal it was committed with [B].
        potential: sum of the goals at the last drawn completion [B].
        log_normaliser: of each group up to the last resampling [n].
        ess: smallest effective sample size of each group so far, as a share of its particles [n].
    """

    log_weight: Float[Array, "B"]
    stale: Float[Array, "B"]
    potential: Float[Array, "B"]
    log_normaliser: Float[Array, "n"]
    ess: Float[Array, "n"]


def start(rows: int, particles: int) -> Weights:
    """Equal weights."""
    row, group = jnp.zeros((rows,)), jnp.zeros((rows // particles,))
    return Weights(row, row, row, group, group + 1.0)


def weigh(
    weights: Weights,
    evidence: Float[Array, "B"],
    potential: Float[Array, "B"],
    active: Bool[Array, "B"],
) -> Weights:
    """Account for a new evidence of the canvas and a new completion of the active rows."""
    gain = (evidence - weights.stale) + (potential - weights.potential)
    return weights._replace(
        log_weight=weights.log_weight + jnp.where(active, gain, 0.0),
        potential=jnp.where(active, potential, weights.potential),
    )


def resample(weights: Weights, rows: Any, keys: Key[Array, "B"], *, particles: int) -> tuple[Weights, Any]:
    """Systematic resampling of the groups whose effective sample size is below half their particles.

    Args:
        weights: of all rows.
        rows: a pytree with one row per particle first in every leaf; copied along.
        keys: of the rows; a group uses its first.
        particles: rows per group.
    """
    log_weight = weights.log_weight.reshape(-1, particles)
    ess = effective_share(log_weight)
    low = ess < RESAMPLE_BELOW
    chosen = jax.vmap(_systematic)(keys[::particles], log_weight)
    own = jnp.arange(particles)[None, :]
    source = jnp.where(low[:, None], chosen, own) + particles * jnp.arange(len(low))[:, None]
    source = source.reshape(-1)
    mean = jax.nn.logsumexp(log_weight, axis=1) - jnp.log(particles)
    copy = partial(jnp.take, indices=source, axis=0)
    moved = Weights(
        log_weight=jnp.where(low[:, None], 0.0, log_weight).reshape(-1),
        stale=copy(weights.stale),
        potential=copy(weights.potential),
        log_normaliser=weights.log_normaliser + jnp.where(low, mean, 0.0),
        ess=jnp.minimum(weights.ess, ess),
    )
    return moved, jax.tree.map(copy, rows)


def conclude(weights: Weights, keys: Key[Array, "B"], *, particles: int) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
    """One row of each group, drawn by weight, and the log-normaliser estimate of each group."""
    log_weight = weights.log_weight.reshape(-1, particles)
    chosen = jax.vmap(jax.random.categorical)(keys[::particles], log_weight)
    mean = jax.nn.logsumexp(log_weight, axis=1) - jnp.log(particles)
    return chosen + particles * jnp.arange(len(chosen)), weights.log_normaliser + mean


def effective_share(log_weight: Float[Array, "n K"]) -> Float[Array, "n"]:
    """``(sum w)^2 / (K sum w^2)`` of each group, in [1 / K, 1]."""
    total = jax.nn.logsumexp(log_weight, axis=1)
    return jnp.exp(2.0 * total - jax.nn.logsumexp(2.0 * log_weight, axis=1)) / float(log_weight.shape[1])


def _systematic(key: Key[Array, ""], log_weight: Float[Array, "K"]) -> Int[Array, "K"]:
    """Indices by one uniform offset over the cumulated weights (Kitagawa 1996)."""
    count = len(log_weight)
    cumulated = jnp.cumsum(jax.nn.softmax(log_weight))
    points = (jnp.arange(count, dtype=jnp.float32) + jax.random.uniform(key)) / count
    return jnp.minimum(jnp.searchsorted(cumulated, points * cumulated[-1], side="right"), count - 1)
