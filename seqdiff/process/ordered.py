"""Scores by networks that read the order of letters, such as ProteinMPNN: a whole path in one call.

Every position's distribution given the letters before it comes from one pass, so the probability of a sequence along an
order costs one row, where a masked network needs one for each letter (``process.likelihood.path_log_probability``).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.contracts import GIVEN, Denoiser
from seqdiff.process.readout import predict

ROWS = 8


def ordered_log_probability(
    denoiser: Denoiser,
    tokens: Int[np.ndarray, "n L"],
    scored: Bool[np.ndarray, "L"],
    conditions: Any,
    *,
    mask: int,
    seed: int = 0,
    orders: int = 4,
) -> Float[np.ndarray, "n orders"]:
    """``sum_k log p(x_o(k) | x_o(1..k-1), the rest)`` in nats over the scored positions, for random orders o.

    Args:
        denoiser: reads the order.
        tokens: letter ids; all of one length L, padded to the conditions' size with MASK.
        scored: which positions count; the others are there from the start, or no positions.
        conditions: handed to the denoiser.
        mask: id of MASK.
        seed: order j of any sequence depends on (seed, j) only.
        orders: random orders per sequence.
    """
    size = tokens.shape[1]
    noise = np.random.default_rng(seed).random((orders, size))
    ranks = np.argsort(np.argsort(noise, axis=1), axis=1).astype(np.int32)
    rows = [(row, rank) for row in tokens for rank in ranks]
    found: list[np.ndarray] = []
    for first in range(0, len(rows), ROWS):
        part = rows[first : first + ROWS]
        letters, order = (np.stack(column) for column in zip(*(part + part[-1:] * (ROWS - len(part))), strict=True))
        found.append(np.asarray(_path(denoiser, letters, order, scored, conditions, mask=mask))[: len(part)])
    return np.concatenate(found).reshape(len(tokens), orders)


@partial(jax.jit, static_argnames="mask")
def _path(
    denoiser: Denoiser,
    tokens: Int[Array, "B L"],
    rank: Int[Array, "B L"],
    scored: Bool[Array, "L"],
    conditions: Any,
    *,
    mask: int,
) -> Float[Array, "B"]:
    order = jnp.where(scored[None], rank, GIVEN)
    level = jnp.zeros(len(tokens))
    logits = predict(denoiser, tokens, tokens < mask, level, conditions, letters=mask, order=order)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    own = jnp.take_along_axis(log_p, jnp.clip(tokens, 0, mask - 1)[..., None], axis=-1)[..., 0]
    return jnp.sum(jnp.where(scored[None], own, 0.0), axis=1)
