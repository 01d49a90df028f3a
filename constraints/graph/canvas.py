"""What the programs of this folder share: the variables of a graph's canvas, as arrays, and the state of a row.

A variable is a letter to choose. It decides on one pair of nodes, on all pairs of an orbit that share a letter, or on
the label of a node. A row's state is two graphs: the edges that are present, and those that are present or still
open.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from seqdiff.constraints.graph.bits import pack, put
from seqdiff.constraints.graph.rules import LocalRule, Rule, WholeRule
from seqdiff.constraints.readers import Variables
from seqdiff.constraints.shared import Pool
from seqdiff.core.grid import Grid

NEVER = np.float32(-np.inf)


class State(NamedTuple):
    """The graphs of a row.

    Attributes:
        present: edges that are there.
        hoped: edges that are there or may still come.
    """

    present: UInt32[Array, "n W"]
    hoped: UInt32[Array, "n W"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["pool", "pairs", "first", "allowed", "present", "edge", "size_at"],
    meta_fields=["nodes", "directed"],
)
class Canvas:
    """Variables of a canvas of ``L`` positions.

    Attributes:
        pool: which variable stands at each position.
        pairs: int32 [G, m, 2], the pairs that a variable decides on; -1 where there are fewer.
        first: int32 [G], first position of a variable.
        allowed: bool [G, V].
        present: bool [V], letters that are an edge.
        edge: bool [G], variables that decide on pairs and not on a node's label.
        size_at: int32 [L + 1], number of nodes of a graph of so many positions.
        nodes: most nodes.
        directed: whether pairs are arcs.
    """

    def __init__(
        self,
        pool: Pool,
        pairs: Array,
        first: Array,
        allowed: Array,
        present: Array,
        edge: Array,
        size_at: Array,
        nodes: int,
        directed: bool,
    ):
        self.pool, self.pairs, self.first, self.allowed = pool, pairs, first, allowed
        self.present, self.edge, self.size_at, self.nodes, self.directed = present, edge, size_at, nodes, directed

    @classmethod
    def make(cls, grid: Grid, variables: Variables, allowed: np.ndarray, size: int) -> "Canvas":
        """Arrays for a canvas of ``size`` positions.

        Args:
            grid: what the positions mean.
            variables: which positions share a letter.
            allowed: bool [positions, V], letters that may stand at each.
            size: padded length.
        """
        slots = grid.slots[: len(variables.owner)]
        owned = [np.flatnonzero(variables.owner == step) for step in range(variables.steps)]
        pairs = np.full((variables.steps, max(map(len, owned)), 2), -1, np.int32)
        edge = np.ones(variables.steps, bool)
        for step, positions in enumerate(owned):
            pairs[step, : len(positions)] = slots[positions]
            edge[step] = slots[positions[0], 0] != slots[positions[0], 1]
        pairs[~edge] = -1
        letters = grid.edge_letters + grid.node_letters
        present = np.array([letter in grid.edge_letters[1:] for letter in letters])
        sizes = {grid.length(nodes): nodes for nodes in range(1, grid.nodes + 1)}
        size_at = np.array([sizes.get(length, 0) for length in range(size + 1)], np.int32)
        first = np.array([positions[0] for positions in owned], np.int32)
        arrays = (pairs, first, variables.allowed(allowed), present, edge, size_at)
        return cls(Pool.make(variables, size), *map(jnp.asarray, arrays), nodes=grid.nodes, directed=grid.directed)

    def open(self, letters: Int[Array, "B G"], length: Int[Array, "B"]) -> Bool[Array, "B G"]:
        """Variables that have no letter yet."""
        return (letters >= self.allowed.shape[1]) & (self.first[None, :] < length[:, None])

    def state(self, letters: Int[Array, "G"], open: Bool[Array, "G"], length: Int[Array, ""]) -> State:
        """The graphs of one row, from its letters (V or more where open)."""
        here = self.edge & (self.first < length)
        forced = jnp.all(~self.allowed | self.present[None, :], axis=1)
        refused = ~jnp.any(self.allowed & self.present[None, :], axis=1)
        known = self.present[jnp.clip(letters, 0, len(self.present) - 1)]
        present = here & jnp.where(open, forced, known)
        hoped = here & jnp.where(open, ~refused, known)
        return State(self.graph(present), self.graph(hoped))

    def graph(self, present: Bool[Array, "G"]) -> UInt32[Array, "n W"]:
        """Rows of bits of the edges of the given variables."""
        pairs = jnp.where(present[:, None, None], self.pairs, -1).reshape(-1, 2)
        spare = jnp.where(pairs < 0, self.nodes, pairs)
        matrix = jnp.zeros((self.nodes + 1, self.nodes + 1), bool).at[spare[:, 0], spare[:, 1]].set(True)
        matrix = matrix[:-1, :-1]
        return pack(matrix if self.directed else matrix | matrix.T)

    def set(
        self, rows: UInt32[Array, "n W"], pairs: Int[Array, "m 2"], value: bool, when: Bool[Array, ""]
    ) -> UInt32[Array, "n W"]:
        """The graph with a variable's pairs set or cleared."""
        for m in range(pairs.shape[0]):
            i, j = (jnp.where(when, end, -1) for end in (pairs[m, 0], pairs[m, 1]))
            rows = put(rows, i, j, jnp.bool_(value), directed=self.directed)
        return rows


Rules = tuple[Rule, ...]


def may_add(
    canvas: Canvas, rules: Rules, rows: UInt32[Array, "n W"], pairs: Int[Array, "m 2"]
) -> tuple[Bool[Array, ""], UInt32[Array, "n W"]]:
    """Whether the local deletion-closed rules let a variable's pairs become edges, and the graph with them."""
    ok = jnp.bool_(True)
    for m in range(pairs.shape[0]):
        i, j = pairs[m, 0], pairs[m, 1]
        for rule in rules:
            if isinstance(rule, LocalRule) and rule.closed == "down":
                ok &= rule.ok(rows, i, j) | (i < 0)
        rows = put(rows, i, j, jnp.bool_(True), directed=canvas.directed)
    return ok, rows


def may_drop(
    canvas: Canvas, rules: Rules, rows: UInt32[Array, "n W"], pairs: Int[Array, "m 2"]
) -> tuple[Bool[Array, ""], UInt32[Array, "n W"]]:
    """Whether the local insertion-closed rules let a variable's pairs be given up, and the graph without them."""
    ok = jnp.bool_(True)
    for m in range(pairs.shape[0]):
        i, j = pairs[m, 0], pairs[m, 1]
        for rule in rules:
            if isinstance(rule, LocalRule) and rule.closed == "up":
                ok &= rule.ok(rows, i, j) | (i < 0)
        rows = put(rows, i, j, jnp.bool_(False), directed=canvas.directed)
    return ok, rows


def whole(rules: Rules, closed: tuple[str, ...]) -> tuple[WholeRule, ...]:
    """The rules that the host answers, of some kinds."""
    return tuple(rule for rule in rules if isinstance(rule, WholeRule) and rule.closed in closed)


def legal_letters(
    canvas: Canvas, variable: Int[Array, ""], can_add: Bool[Array, ""], can_drop: Bool[Array, ""]
) -> Bool[Array, "V"]:
    """Letters that a variable may take."""
    both = jnp.where(canvas.present, can_add, can_drop)
    return canvas.allowed[variable] & (both | ~canvas.edge[variable])


def legal_mass(log_p: Float[Array, "... V"], legal: Bool[Array, "... V"]) -> Float[Array, "..."]:
    """Log of the probability of the legal letters."""
    return jax.nn.logsumexp(jnp.where(legal, log_p, NEVER), axis=-1)
