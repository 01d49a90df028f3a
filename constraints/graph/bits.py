"""Graphs as rows of bits: the adjacency of a graph with n nodes is uint32 [n, W], W words of 32 nodes each.

Everything here is about one graph and is mapped over a batch by its callers. A breadth-first step costs n W word
operations instead of n^2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

WORD = 32


def words(nodes: int) -> int:
    """Words of a row."""
    return -(-nodes // WORD)


def bit(node: Int[Array, ""], count: int) -> UInt32[Array, "W"]:
    """A row of ``count`` words with one node in it; nothing for a negative node."""
    place = jnp.arange(count) == node // WORD
    shift = (node % WORD).astype(jnp.uint32)
    return jnp.where(place & (node >= 0), jnp.uint32(1) << shift, jnp.uint32(0))


def members(row: UInt32[Array, "W"], nodes: int) -> Bool[Array, "n"]:
    """Which nodes a row holds."""
    shifts = jnp.arange(WORD, dtype=jnp.uint32)
    return ((row[:, None] >> shifts[None, :]) & jnp.uint32(1)).reshape(-1)[:nodes] > 0


def pack(adjacency: Bool[Array, "n n"]) -> UInt32[Array, "n W"]:
    """Rows of bits of a Boolean matrix."""
    nodes = adjacency.shape[1]
    padded = jnp.pad(adjacency, ((0, 0), (0, words(nodes) * WORD - nodes))).reshape(adjacency.shape[0], -1, WORD)
    weight = jnp.uint32(1) << jnp.arange(WORD, dtype=jnp.uint32)
    return jnp.sum(jnp.where(padded, weight[None, None, :], jnp.uint32(0)), axis=2, dtype=jnp.uint32)


def unpack(rows: np.ndarray, nodes: int) -> np.ndarray:
    """Boolean matrix [n, n] of rows of bits, on the host."""
    flat = (rows[:, :, None] >> np.arange(WORD, dtype=np.uint32)) & np.uint32(1)
    return flat.reshape(len(rows), -1)[:, :nodes].astype(bool)


def union(rows: UInt32[Array, "n W"], chosen: Bool[Array, "n"]) -> UInt32[Array, "W"]:
    """The neighbours of the chosen nodes."""
    picked = jnp.where(chosen[:, None], rows, jnp.uint32(0))
    return jax.lax.reduce(picked, np.uint32(0), jax.lax.bitwise_or, (0,))


def put(
    rows: UInt32[Array, "n W"], i: Int[Array, ""], j: Int[Array, ""], value: Bool[Array, ""], *, directed: bool
) -> UInt32[Array, "n W"]:
    """The graph with the pair set or cleared; negative nodes change nothing."""
    count = rows.shape[1]

    def one(rows: Array, a: Array, b: Array) -> Array:
        spot = bit(b, count)
        row = jnp.where(value, rows[a] | spot, rows[a] & ~spot)
        return rows.at[a].set(jnp.where(a >= 0, row, rows[a]))

    rows = one(rows, i, j)
    return rows if directed else one(rows, j, i)


def reach(rows: UInt32[Array, "n W"], start: Int[Array, ""]) -> UInt32[Array, "W"]:
    """Nodes that can be reached from a node, itself included."""
    first = bit(start, rows.shape[1])

    def grow(state: tuple[Array, Array]) -> tuple[Array, Array]:
        seen, _ = state
        wider = seen | union(rows, members(seen, rows.shape[0]))
        return wider, jnp.any(wider != seen)

    seen, _ = jax.lax.while_loop(lambda state: state[1], grow, (first, jnp.bool_(True)))
    return seen


def ball(rows: UInt32[Array, "n W"], start: Int[Array, ""], radius: int) -> UInt32[Array, "W"]:
    """Nodes at distance at most ``radius``."""
    seen = bit(start, rows.shape[1])
    for _ in range(radius):
        seen = seen | union(rows, members(seen, rows.shape[0]))
    return seen


def inside(row: UInt32[Array, "W"], node: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether a row holds a node."""
    return jnp.any((row & bit(node, row.shape[0])) > 0)


def size(row: UInt32[Array, "... W"]) -> Int[Array, "..."]:
    """How many nodes a row holds."""
    return jnp.sum(jax.lax.population_count(row).astype(jnp.int32), axis=-1)
