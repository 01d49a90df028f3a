"""Graphs to train and test on: from files, or drawn without end from the law behind a benchmark set.

Batch ``n`` depends on (seed, n) only, so a run resumes. Nodes are relabelled uniformly at random each time a graph is
drawn: a benchmark's own order is an accident of how it was written, a request may fix any edges it likes, and a model
that has learned an order would misread them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import networkx as nx
import numpy as np
from jaxtyping import Int

from seqdiff.core.errors import InputError
from seqdiff.core.grid import MAX_NODES, GraphAlphabet, Grid
from seqdiff.domains.graph import generators
from seqdiff.domains.graph.files import read_graphs

Draw = Callable[[np.random.Generator], np.ndarray]
"""Draws the adjacency matrix of a graph, uint8 [n, n]."""

SIZED = {"planar": generators.planar, "tree": generators.tree}
LAWS = {"sbm": generators.sbm, "lobster": generators.lobster, "community": generators.community}


def file_graphs(paths: str, *, most: int, hold_out: int, held: bool) -> list[np.ndarray]:
    """Adjacency matrices of the graphs of one or several files.

    Args:
        paths: files, separated by commas.
        most: nodes; larger graphs are left out.
        hold_out: every so-manieth graph is held out, counted over all files; 0 for none.
        held: return those that are held out instead of the others.

    Raises:
        InputError: a file cannot be read, or nothing is left.
    """
    graphs = [graph for path in paths.split(",") for graph in read_graphs(Path(path))]
    found = [
        _adjacency(graph)
        for index, graph in enumerate(graphs)
        if len(graph) <= most and (hold_out > 0 and index % hold_out == hold_out - 1) == held
    ]
    if not found:
        raise InputError(f"{paths}: none of {len(graphs)} graphs is left (most={most}, hold_out={hold_out})")
    return found


def from_pool(pool: Sequence[np.ndarray]) -> Draw:
    """Draws from a list of graphs."""
    return lambda rng: pool[int(rng.integers(len(pool)))]


def from_law(name: str, low: int, high: int, most: int) -> Draw:
    """Draws fresh graphs of a law: ``planar`` and ``tree`` with ``low`` to ``high`` nodes, the others of any size.

    Raises:
        InputError: no such law, or sizes that it cannot have.
    """
    if name not in SIZED and name not in LAWS:
        raise InputError(f"{name!r} is no graph file and no law; laws are {', '.join([*SIZED, *LAWS])}")
    if name in SIZED and not 4 <= low <= high <= MAX_NODES:
        raise InputError(f"low={low} high={high}: sizes go from 4 to {MAX_NODES} nodes")

    def draw(rng: np.random.Generator) -> np.ndarray:
        while True:
            graph = SIZED[name](rng, int(rng.integers(low, high + 1))) if name in SIZED else LAWS[name](rng)
            if len(graph) <= most:
                return _adjacency(graph)

    return draw


def _adjacency(graph: nx.Graph) -> np.ndarray:
    return nx.to_numpy_array(graph).astype(np.uint8)


def relabelled(rng: np.random.Generator, adjacency: np.ndarray) -> np.ndarray:
    """The graph under a uniformly random permutation of its nodes."""
    order = rng.permutation(len(adjacency))
    return adjacency[np.ix_(order, order)]


class GraphBatches:
    """Batches of graphs of about the same size, so that little is padded and few shapes are compiled.

    The first graph of a batch decides the class of sizes, and the others are drawn until they are of that class.
    """

    def __init__(self, draw: Draw, *, batch: int, multiple: int, seed: int):
        """Make the batches.

        Args:
            draw: where graphs come from.
            batch: rows.
            multiple: sizes are rounded up to a multiple of so many nodes.
            seed: of everything.
        """
        self._draw, self._batch, self._multiple, self._seed = draw, batch, multiple, seed

    @cached_property
    def grid(self) -> Grid:
        """Positions of the largest graphs; those of smaller ones are a prefix."""
        return Grid.make(MAX_NODES)

    @cached_property
    def alphabet(self) -> GraphAlphabet:
        """No edge, edge."""
        return GraphAlphabet.make(self.grid)

    def __getitem__(self, index: int, /) -> Int[np.ndarray, "batch length"]:
        rng = np.random.default_rng([self._seed, index])
        first = self._draw(rng)
        rows, size = [first], self._size(first)
        while len(rows) < self._batch:
            if self._size(graph := self._draw(rng)) == size:
                rows.append(graph)
        return self.canvases([relabelled(rng, row) for row in rows], size)

    def canvases(self, graphs: Sequence[np.ndarray], nodes: int) -> Int[np.ndarray, "batch length"]:
        """Tokens of graphs, with PAD up to the positions of so many nodes."""
        slots = self.grid.slots[: nodes * (nodes - 1) // 2]
        rows = np.full((len(graphs), len(slots)), self.alphabet.pad, np.int32)
        for row, graph in zip(rows, graphs, strict=True):
            own = slots[: len(graph) * (len(graph) - 1) // 2]
            row[: len(own)] = graph[own[:, 0], own[:, 1]]
        return rows

    def _size(self, graph: np.ndarray) -> int:
        return min(-(-len(graph) // self._multiple) * self._multiple, MAX_NODES)
