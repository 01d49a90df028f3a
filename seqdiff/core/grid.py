"""A graph as a canvas: which position decides on which pair of nodes.

Positions run column by column as in graph6: node j's own label (where nodes have labels), then its pairs with the
earlier nodes. The first n nodes are therefore a prefix of the canvas, and graphs of several sizes share one. Pairs that
are no part of the host graph (inside a side of a bipartite graph, say) have no position and never an edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError

MAX_NODES = 128
EDGES = "01"


@dataclass(frozen=True)
class Grid:
    """Positions of the pairs of nodes.

    Attributes:
        nodes: most nodes.
        directed: whether (i, j) and (j, i) are two arcs.
        pairs: the pairs that may have an edge, i < j where undirected, in the order of the canvas.
        edge_letters: what a pair may be; the first letter is no edge.
        node_letters: labels of nodes; empty where nodes have none.
    """

    nodes: int
    directed: bool
    pairs: tuple[tuple[int, int], ...]
    edge_letters: str = EDGES
    node_letters: str = ""

    @classmethod
    def make(
        cls,
        nodes: int,
        *,
        directed: bool = False,
        hosts: Sequence[tuple[int, int]] | None = None,
        edge_letters: str = EDGES,
        node_letters: str = "",
    ) -> "Grid":
        """The grid of all pairs, or of those in ``hosts``.

        Raises:
            InputError: fewer than two nodes or too many, or letters that are too few or not distinct.
        """
        if not 2 <= nodes <= MAX_NODES:
            raise InputError(
                f"nodes={nodes}: the adjacency encoding takes 2 to {MAX_NODES}; encoding: sparse takes more"
            )
        letters = edge_letters + node_letters
        if len(edge_letters) < 2 or len(set(letters)) != len(letters):
            raise InputError(f"edge and node letters {letters!r} must be distinct, and at least two for edges")
        every = [(i, j) for j in range(nodes) for i in range(j)]
        if directed:
            every = [arc for i, j in every for arc in ((i, j), (j, i))]
        allowed = set(every if hosts is None else hosts)
        return cls(nodes, directed, tuple(pair for pair in every if pair in allowed), edge_letters, node_letters)

    @cached_property
    def slots(self) -> Int[np.ndarray, "L 2"]:
        """The two nodes of each position; twice the same where it is the node's own label."""
        slots = [*self.pairs, *((node, node) for node in range(self.nodes) if self.node_letters)]
        return np.array(sorted(slots, key=lambda slot: (max(slot), slot[0] != slot[1], min(slot), slot)), np.int32)

    @cached_property
    def position(self) -> dict[tuple[int, int], int]:
        """0-based position of each pair, in either order where undirected, and of each labelled node as (i, i)."""
        found = {(int(i), int(j)): p for p, (i, j) in enumerate(self.slots)}
        return found if self.directed else found | {(j, i): p for (i, j), p in found.items()}

    def length(self, nodes: int | None = None) -> int:
        """Positions of a graph with so many nodes, all by default."""
        return int((self.slots.max(axis=1) < (self.nodes if nodes is None else nodes)).sum())

    def size(self, length: int) -> int:
        """Nodes of a graph with so many positions: the most that there can be."""
        at = {self.length(nodes): nodes for nodes in range(1, self.nodes + 1)}
        if length not in at:
            raise InputError(f"{length} positions are no whole graph of this encoding")
        return at[length]

    def matrix(self, text: str) -> Int[np.ndarray, "n n"]:
        """Letters of the pairs, as indices into ``edge_letters``; symmetric where undirected, 0 for no edge."""
        nodes = self.size(len(text))
        adjacency = np.zeros((nodes, nodes), np.int32)
        for (i, j), letter in zip(self.slots[: len(text)].tolist(), text, strict=True):
            if i != j:
                adjacency[i, j] = self.edge_letters.index(letter)
                if not self.directed:
                    adjacency[j, i] = adjacency[i, j]
        return adjacency

    def labels(self, text: str) -> str:
        """Labels of the nodes; empty where they have none."""
        return "".join(text[self.position[i, i]] for i in range(self.size(len(text)))) if self.node_letters else ""

    def text(self, adjacency: Int[np.ndarray, "n n"], labels: str = "") -> str:
        """The canvas of a graph; the inverse of :meth:`matrix` and :meth:`labels`.

        Raises:
            InputError: an edge that is not one of the grid's pairs, or labels that are missing or foreign.
        """
        nodes = len(adjacency)
        for i, j in np.argwhere(adjacency != 0).tolist():
            if (i, j) not in self.position:
                raise InputError(f"edge {i}-{j} is none that this encoding has a place for")
        if len(labels) != (nodes if self.node_letters else 0):
            raise InputError(
                f"{len(labels)} node labels for {nodes} nodes; the encoding has {self.node_letters or 'none'}"
            )
        slots = self.slots[: self.length(nodes)].tolist()
        return "".join(labels[i] if i == j else self.edge_letters[adjacency[i, j]] for i, j in slots)


@dataclass(frozen=True)
class GraphAlphabet(Alphabet):
    """Letters of edges and node labels, with the grid that says what each position means.

    Attributes:
        grid: of the canvas.
    """

    grid: Grid = Grid(2, False, ((0, 1),))

    @classmethod
    def make(cls, grid: Grid) -> "GraphAlphabet":
        """The alphabet of a grid; ``edge`` names the letters of edges that are there."""
        groups = {"edge": grid.edge_letters[1:]} | ({"node": grid.node_letters} if grid.node_letters else {})
        return cls("graph", grid.edge_letters + grid.node_letters, groups, grid=grid)
