"""Spanning trees, exactly: draws, marginals and evidence by linear algebra.

Given the proposal, an edge has the weight w = p(present) / p(absent), and a tree the product of its edges' weights.
Present edges are contracted and absent ones deleted. The edges of a random tree are then a determinantal process
whose kernel projects onto the row space of the weighted incidence matrix (Burton and Pemantle 1993); the algorithm of
Hough et al. (2006) draws from it one edge at a time, its diagonal holds the marginals, and the determinant of the
weighted Laplacian (Kirchhoff) gives the evidence. Odds span many orders of magnitude, so this runs in float64 on the
host, one call a step.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from seqdiff.constraints.graph.canvas import Canvas
from seqdiff.core.contracts import Conditioned

ODDS = 30.0


@partial(jax.tree_util.register_dataclass, data_fields=["canvas"], meta_fields=[])
class TreeProgram:
    """Implements the ``Program`` contract for trees on all nodes, with edges given or ruled out; exact."""

    def __init__(self, canvas: Canvas):
        self.canvas = canvas

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``."""
        del hint
        pooled, letters, _ = self.canvas.pool.gather(log_proposal, canvas)
        log_p, absent, present, edge, label = self._split(pooled)
        seeds = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, 0), (2,), "uint32"))(keys)
        state = self._state(letters, length)
        shapes = (jax.ShapeDtypeStruct(state.shape, bool), jax.ShapeDtypeStruct(state.shape, jnp.float32))
        evidence = jax.ShapeDtypeStruct(length.shape, jnp.float32)
        nodes = self.canvas.size_at[length]
        args = (seeds, present, absent, state, self.canvas.pairs[:, 0], nodes)
        chosen, share, evidence = jax.pure_callback(_trees, (*shapes, evidence), *args)
        edge_share = share[..., None] * jnp.exp(edge) + (1 - share)[..., None] * self._absent(log_p)
        marginals = jnp.where(self.canvas.edge[None, :, None], edge_share, jnp.exp(label))
        vocab = log_p.shape[-1]
        marginals = jnp.where((letters < vocab)[..., None], jax.nn.one_hot(letters, vocab), marginals)
        draw = jax.vmap(lambda key, log_p: jax.random.categorical(jax.random.fold_in(key, 1), log_p, mode="high"))
        bonds, labels = draw(keys, edge), draw(keys, label)
        none = jnp.argmax(self._absent(log_p), axis=-1)
        drawn = jnp.where(self.canvas.edge[None], jnp.where(chosen, bonds, none), labels)
        drawn = jnp.where(letters < vocab, letters, drawn).astype(jnp.int32)
        inside = jnp.arange(canvas.shape[1])[None, :] < length[:, None]
        at = jnp.pad(marginals, ((0, 0), (0, 1), (0, 0)))[:, self.canvas.pool.owner]
        witness = jnp.where(inside, self.canvas.pool.spread(drawn, canvas), canvas)
        return Conditioned(witness, jnp.where(inside[..., None], at, 0.0), evidence)

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """See ``core.contracts.Program``."""
        pooled, letters, _ = self.canvas.pool.gather(log_proposal, canvas)
        _, absent, present, _, _ = self._split(pooled)
        shape = jax.ShapeDtypeStruct(length.shape, jnp.float32)
        nodes = self.canvas.size_at[length]
        args = (present, absent, self._state(letters, length), self.canvas.pairs[:, 0], nodes)
        return jax.pure_callback(_evidences, shape, *args)

    def _absent(self, log_p: Float[Array, "B G V"]) -> Float[Array, "1 G V"]:
        return (self.canvas.allowed & ~self.canvas.present[None, :])[None].astype(log_p.dtype)

    def _split(
        self, log_p: Float[Array, "B G V"]
    ) -> tuple[
        Float[Array, "B G V"], Float[Array, "B G"], Float[Array, "B G"], Float[Array, "B G V"], Float[Array, "B G V"]
    ]:
        """The proposal, the masses of no edge and of an edge, and the laws of an edge's and of a node's letter."""
        legal = self.canvas.allowed[None]
        edges = legal & self.canvas.present[None, None, :]
        none = legal & ~self.canvas.present[None, None, :]

        def mass(which: Array) -> Array:
            return jax.nn.logsumexp(jnp.where(which, log_p, -jnp.inf), axis=-1)

        def law(which: Array) -> Array:
            return jnp.where(which, log_p - jnp.maximum(mass(which), -1e30)[..., None], -jnp.inf)

        return log_p, mass(none), mass(edges), law(edges), law(legal)

    def _state(self, letters: Int[Array, "B G"], length: Int[Array, "B"]) -> Int[Array, "B G"]:
        """0 absent, 1 present, 2 open, -1 where there is no pair."""
        vocab = len(self.canvas.present)
        known = self.canvas.present[jnp.clip(letters, 0, vocab - 1)].astype(jnp.int32)
        state = jnp.where(letters < vocab, known, 2)
        here = self.canvas.edge[None, :] & (self.canvas.first[None, :] < length[:, None])
        return jnp.where(here, state, -1)


def _trees(
    seeds: np.ndarray, present: np.ndarray, absent: np.ndarray, state: np.ndarray, pairs: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree, the share of trees that have each edge, and the evidence, for each row."""
    seeds, present, absent, state, pairs, nodes = map(np.asarray, (seeds, present, absent, state, pairs, nodes))
    rows = [
        _tree(np.random.default_rng(seeds[b].tolist()), present[b], absent[b], state[b], pairs, int(nodes[b]))
        for b in range(len(nodes))
    ]
    chosen, share, evidence = zip(*rows, strict=True)
    return np.array(chosen), np.array(share, np.float32), np.array(evidence, np.float32)


def _evidences(
    present: np.ndarray, absent: np.ndarray, state: np.ndarray, pairs: np.ndarray, nodes: np.ndarray
) -> np.ndarray:
    present, absent, state, pairs, nodes = map(np.asarray, (present, absent, state, pairs, nodes))
    rows = [_contract(present[b], absent[b], state[b], pairs, int(nodes[b])) for b in range(len(nodes))]
    return np.array([row[3] for row in rows], np.float32)


def _contract(
    present: np.ndarray, absent: np.ndarray, state: np.ndarray, pairs: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Open edges between components of the present ones, their incidence scaled by root weights, and the evidence."""
    bonds = pairs[state == 1]
    ones = np.ones(len(bonds), np.int8)
    count, label = connected_components(coo_array((ones, (bonds[:, 0], bonds[:, 1])), shape=(nodes, nodes)))
    impossible = len(bonds) != nodes - count
    ends = np.where((state == 2)[:, None], label[np.clip(pairs, 0, nodes - 1)], -1)
    free = np.flatnonzero((state == 2) & (ends[:, 0] != ends[:, 1]))
    odds = np.clip(present.astype(float) - absent.astype(float), -ODDS, ODDS)
    root = np.zeros((len(free), count))
    root[np.arange(len(free)), ends[free, 0]] = np.exp(odds[free] / 2)
    root[np.arange(len(free)), ends[free, 1]] = -np.exp(odds[free] / 2)
    root = root[:, 1:]
    spread = np.linalg.svd(root, compute_uv=False) if count > 1 and len(free) >= count - 1 else np.zeros(count - 1)
    with np.errstate(divide="ignore"):
        volume = 2 * float(np.log(spread).sum()) if len(spread) else 0.0
    # An edge's own masses stand for the odds that were clipped; pairs inside a component have to be absent.
    base = float(absent[state != -1].sum(where=state[state != -1] != 1)) + float(present[state == 1].sum())
    return free, root, count, -np.inf if impossible else base + volume


def _tree(
    rng: np.random.Generator,
    present: np.ndarray,
    absent: np.ndarray,
    state: np.ndarray,
    pairs: np.ndarray,
    nodes: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    chosen, share = state == 1, (state == 1).astype(float)
    free, root, count, evidence = _contract(present, absent, state, pairs, nodes)
    if count == 1 or not np.isfinite(evidence):
        return chosen, share, evidence
    basis, _ = np.linalg.qr(root)
    left = np.square(basis).sum(axis=1)
    share[free] = np.clip(left, 0.0, 1.0)
    taken: list[np.ndarray] = []
    for _ in range(count - 1):
        left = np.maximum(left, 0.0)
        pick = int(rng.choice(len(free), p=left / left.sum()))
        chosen[free[pick]] = True
        direction = basis[pick] - sum((basis[pick] @ old) * old for old in taken)
        direction /= np.linalg.norm(direction)
        taken.append(direction)
        left = left - np.square(basis @ direction)
        left[pick] = 0.0
    return chosen, share, evidence
