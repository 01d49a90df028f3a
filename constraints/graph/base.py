"""What constraints on graphs share: the grid, the check by networkx, and the cuts for the solver.

A constraint's ``check`` looks at a finished ``networkx`` graph and is the independent check; ``obstruction`` says
which edges and which missing edges of a graph break it, so that one of them must change. ``closed`` and ``bridges``
place the class (see ``seqdiff.constraints.graph.rules``), which decides how it is kept beside others.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import networkx as nx
import numpy as np

from seqdiff.constraints.base import Verdict
from seqdiff.constraints.graph.rules import HostCheck, WholeRule
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import Layout

Pair = tuple[int, int]


class Obstruction(NamedTuple):
    """What breaks a constraint: these edges are there and those are not, and one of them must change."""

    present: tuple[Pair, ...] = ()
    absent: tuple[Pair, ...] = ()


def grid_of(alphabet: Alphabet) -> Grid:
    """The grid of a graph's alphabet.

    Raises:
        InputError: the design is no graph.
    """
    if not isinstance(alphabet, GraphAlphabet):
        raise InputError(f"is about graphs, but designs are {alphabet.name} sequences; set domain: graph")
    return alphabet.grid


@dataclass(frozen=True)
class GraphConstraint:
    """A fact about a graph; without arguments: ``planar: {}``.

    Attributes:
        grid: what the positions of the canvas mean.
    """

    name: ClassVar[str]
    closed: ClassVar[str] = ""
    bridges: ClassVar[bool] = False
    directed: ClassVar[bool | None] = None
    """Whether graphs must have arcs (True), must not (False), or may (None)."""
    grid: Grid

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "GraphConstraint":
        check_keys({} if args is None or args is True else args, ())
        return cls(cls.fitting(alphabet))

    @classmethod
    def fitting(cls, alphabet: Alphabet) -> Grid:
        """The grid, if the constraint is about graphs of its kind."""
        grid = grid_of(alphabet)
        if cls.directed is not None and cls.directed != grid.directed:
            raise InputError(
                f"is about {'directed' if cls.directed else 'undirected'} graphs; set directed accordingly"
            )
        return grid

    def to_spec(self) -> Any:
        return {}

    def describe(self) -> str:
        return self.name.replace("_", " ")

    def lower(self, layout: Layout) -> Lowered:
        del layout
        return Lowered(rules=(self.rule(),))

    def rule(self) -> Any:
        """The rule of the class: by default the host is asked, by :meth:`member`."""
        check = HostCheck(self.member, self.grid.nodes)
        return WholeRule.make(check, self.closed, bridges=self.bridges)

    def member(self, adjacency: np.ndarray) -> bool:
        """Whether a graph, bool [n, n], is in the class; may be a faster library's answer than the check's."""
        return self.check(as_graph(adjacency, self.grid.directed)).ok

    def holds(self, text: str) -> Verdict:
        try:
            return self.check(as_graph(self.grid.matrix(text) > 0, self.grid.directed))
        except (InputError, ValueError) as error:
            return Verdict(False, str(error))

    def check(self, graph: Any) -> Verdict:
        """Check a finished graph, by networkx."""
        raise AssertionError

    def obstruction(self, graph: Any) -> Obstruction | None:
        """Why a graph breaks the constraint; None where it does not.

        By default a smallest set of edges that break a class closed under deletion, or of missing edges one that is
        closed under insertion, found by taking away (or adding) the others one by one; else the whole graph.
        """
        nodes = graph.number_of_nodes()
        matrix = np.zeros((nodes, nodes), bool)
        for i, j in graph.edges:
            matrix[i, j] = True
            matrix[j, i] |= not self.grid.directed
        if self.member(matrix):
            return None
        pairs = [pair for pair in self.grid.pairs if max(pair) < nodes]
        there = [pair for pair in pairs if matrix[pair]]
        missing = [pair for pair in pairs if not matrix[pair]]
        if self.closed == "down":
            return Obstruction(present=self._smallest(matrix, there, False))
        if self.closed == "up":
            return Obstruction(absent=self._smallest(matrix, missing, True))
        return Obstruction(tuple(there), tuple(missing))

    def _smallest(self, matrix: np.ndarray, pairs: list[Pair], value: bool) -> tuple[Pair, ...]:
        """Pairs without any of which, set to ``value``, the rest no longer breaks the constraint."""
        needed = []
        for i, j in pairs:
            trial = matrix.copy()
            trial[i, j] = value
            trial[j, i] = trial[j, i] if self.grid.directed else value
            if self.member(trial):
                needed.append((i, j))
            else:
                matrix = trial
        return tuple(needed)


def as_graph(adjacency: np.ndarray, directed: bool) -> Any:
    """A networkx graph of a Boolean matrix."""
    graph: Any = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(len(adjacency)))
    graph.add_edges_from(np.argwhere(adjacency if directed else np.triu(adjacency)).tolist())
    return graph


def cycle_edges(nodes: list[int]) -> tuple[Pair, ...]:
    """The edges of a cycle."""
    return tuple((a, b) for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True))


def yes(words: str) -> Verdict:
    """Obeys."""
    return Verdict(True, words)


def no(words: str) -> Verdict:
    """Does not."""
    return Verdict(False, words)
