"""The training loss of the absorbing process: masked cross-entropy weighted by time (MDLM, MD4)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class LossParts(NamedTuple):
    """Sums over a batch, so that shards and steps add up exactly.

    Attributes:
        nats: weighted cross-entropy summed over rows; its ratio to ``tokens`` estimates the bound per token.
        tokens: open positions.
        masked_nats: plain cross-entropy summed over masked positions.
        masked: masked positions.
    """

    nats: Float[Array, ""]
    tokens: Float[Array, ""]
    masked_nats: Float[Array, ""]
    masked: Float[Array, ""]


def masked_cross_entropy(
    logits: Float[Array, "batch length vocab"],
    target: Int[Array, "batch length"],
    masked: Bool[Array, "batch length"],
) -> Float[Array, "batch length"]:
    """``-log p(target)`` in nats at masked positions, zero elsewhere (float32)."""
    log_probability = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    safe = jnp.where(masked, target, 0)
    picked = jnp.take_along_axis(log_probability, safe[..., None], axis=-1)[..., 0]
    return jnp.where(masked, -picked, 0.0)


def weighted_loss(
    logits: Float[Array, "batch length vocab"],
    target: Int[Array, "batch length"],
    masked: Bool[Array, "batch length"],
    open: Bool[Array, "batch length"],
    weight: Float[Array, "batch"],
) -> LossParts:
    """The continuous-time bound of a batch, one time per row.

    Args:
        logits: of the corrupted canvases.
        target: clean tokens.
        masked: positions that were masked.
        open: positions that could have been masked (letters, not padding).
        weight: ``process.weight(t)`` of each row.
    """
    nats = masked_cross_entropy(logits, target, masked)
    return LossParts(
        nats=jnp.sum(weight * jnp.sum(nats, axis=-1)),
        tokens=jnp.sum(open.astype(jnp.float32)),
        masked_nats=jnp.sum(nats),
        masked=jnp.sum(masked.astype(jnp.float32)),
    )
