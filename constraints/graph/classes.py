"""Classes of graphs: connected, acyclic, planar, bipartite and their kin."""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.graph import rules
from seqdiff.constraints.graph.base import GraphConstraint, Obstruction, no, yes
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import missing_extra
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import Layout


def _rustworkx() -> Any:
    try:
        import rustworkx
    except ImportError:
        raise missing_extra("rustworkx, which tests planarity,", "graphs") from None
    return rustworkx


def _components(graph: Any) -> list[set[int]]:
    return list(nx.weakly_connected_components(graph) if graph.is_directed() else nx.connected_components(graph))


@register
@dataclass(frozen=True)
class Connected(GraphConstraint):
    """One component; of directed graphs, whatever the directions."""

    name: ClassVar[str] = "connected"
    closed: ClassVar[str] = "up"

    def rule(self) -> Any:
        return rules.WeaklyConnected() if self.grid.directed else rules.Connected()

    def check(self, graph: Any) -> Verdict:
        parts = len(_components(graph))
        return yes("one component") if parts == 1 else no(f"{parts} components")

    def obstruction(self, graph: Any) -> Obstruction | None:
        parts = _components(graph)
        if len(parts) == 1:
            return None
        part = min(parts, key=len)
        nodes = graph.number_of_nodes()
        across = [(i, j) for i, j in self.grid.pairs if max(i, j) < nodes and (i in part) != (j in part)]
        return Obstruction(absent=tuple(across))


@register
@dataclass(frozen=True)
class KConnected(GraphConstraint):
    """No fewer than ``nodes`` nodes disconnect the graph: ``k_connected: {nodes: 2}``.

    Attributes:
        order: the least number.
    """

    name: ClassVar[str] = "k_connected"
    closed: ClassVar[str] = "up"
    directed: ClassVar[bool | None] = False
    order: int = 2

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "KConnected":
        args = check_keys(args, ("nodes",), required=("nodes",))
        return cls(cls.fitting(alphabet), whole_number(args["nodes"], "nodes", low=1))

    def to_spec(self) -> Any:
        return {"nodes": self.order}

    def describe(self) -> str:
        return f"{self.order}-connected"

    def check(self, graph: Any) -> Verdict:
        found = nx.node_connectivity(graph)
        return Verdict(found >= self.order, f"{found}-connected")


@register
@dataclass(frozen=True)
class Acyclic(GraphConstraint):
    """No cycle: a forest, or a directed acyclic graph."""

    name: ClassVar[str] = "acyclic"
    closed: ClassVar[str] = "down"
    bridges: ClassVar[bool] = True

    def rule(self) -> Any:
        return rules.AcyclicArcs() if self.grid.directed else rules.Acyclic()

    def check(self, graph: Any) -> Verdict:
        found = self.obstruction(graph)
        return yes("no cycle") if found is None else no(f"a cycle of length {len(found.present)}")

    def obstruction(self, graph: Any) -> Obstruction | None:
        try:
            return Obstruction(tuple((edge[0], edge[1]) for edge in nx.find_cycle(graph)))
        except nx.NetworkXNoCycle:
            return None


@register
@dataclass(frozen=True)
class Tree(GraphConstraint):
    """Connected and without cycles."""

    name: ClassVar[str] = "tree"
    directed: ClassVar[bool | None] = False

    def lower(self, layout: Layout) -> Lowered:
        del layout
        return Lowered(rules=(rules.Acyclic(), rules.Connected()))

    def check(self, graph: Any) -> Verdict:
        edges, nodes = graph.number_of_edges(), graph.number_of_nodes()
        return Verdict(nx.is_tree(graph), f"{edges} edges on {nodes} nodes, {len(_components(graph))} components")

    def obstruction(self, graph: Any) -> Obstruction | None:
        return Acyclic(self.grid).obstruction(graph) or Connected(self.grid).obstruction(graph)


@register
@dataclass(frozen=True)
class Bipartite(GraphConstraint):
    """No odd cycle."""

    name: ClassVar[str] = "bipartite"
    closed: ClassVar[str] = "down"
    bridges: ClassVar[bool] = True
    directed: ClassVar[bool | None] = False

    def rule(self) -> Any:
        return rules.Bipartite()

    def check(self, graph: Any) -> Verdict:
        return yes("two sides") if nx.is_bipartite(graph) else no("an odd cycle")

    def obstruction(self, graph: Any) -> Obstruction | None:
        if nx.is_bipartite(graph):
            return None
        # A shortest path from a node to itself in the bipartite double cover holds an odd cycle.
        double = nx.Graph(((u, s), (v, 1 - s)) for u, v in graph.edges for s in (0, 1))
        walks = (
            [nx.shortest_path(double, (u, 0), (u, 1)) for u in graph if nx.has_path(double, (u, 0), (u, 1))]
            if (double.number_of_nodes())
            else []
        )
        nodes = [u for u, _ in min(walks, key=len)]
        return Obstruction(tuple(itertools.pairwise(nodes)))


@register
@dataclass(frozen=True)
class Colourable(GraphConstraint):
    """Nodes can have one of ``colours`` colours, neighbours different ones: ``colourable: {colours: 3}``.

    Attributes:
        colours: how many.
    """

    name: ClassVar[str] = "colourable"
    closed: ClassVar[str] = "down"
    bridges: ClassVar[bool] = True
    directed: ClassVar[bool | None] = False
    colours: int = 3

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Colourable":
        args = check_keys(args, ("colours",), required=("colours",))
        return cls(cls.fitting(alphabet), whole_number(args["colours"], "colours", low=2))

    def to_spec(self) -> Any:
        return {"colours": self.colours}

    def describe(self) -> str:
        return f"{self.colours}-colourable"

    def check(self, graph: Any) -> Verdict:
        found = colouring(graph, self.colours)
        return no(f"needs more than {self.colours} colours") if found is None else yes(f"{self.colours} colours do")


def colouring(graph: Any, colours: int) -> dict[int, int] | None:
    """A proper colouring by depth-first search on the most constrained node (DSATUR, Brelaz 1979); None for none."""
    given: dict[int, int] = {}

    def search() -> bool:
        open = [u for u in graph if u not in given]
        if not open:
            return True
        used = {u: {given[v] for v in graph[u] if v in given} for u in open}
        node = max(open, key=lambda u: (len(used[u]), graph.degree[u]))
        # Colours that nobody has yet are all alike.
        fresh = min(max(given.values(), default=-1) + 2, colours)
        for colour in range(fresh):
            if colour not in used[node]:
                given[node] = colour
                if search():
                    return True
                del given[node]
        return False

    return given if search() else None


@register
@dataclass(frozen=True)
class Planar(GraphConstraint):
    """Can be drawn in the plane without crossings."""

    name: ClassVar[str] = "planar"
    closed: ClassVar[str] = "down"
    bridges: ClassVar[bool] = True
    directed: ClassVar[bool | None] = False

    def member(self, adjacency: np.ndarray) -> bool:
        rx = _rustworkx()
        graph = rx.PyGraph(multigraph=False)
        graph.add_nodes_from(range(len(adjacency)))
        graph.add_edges_from_no_data([(int(i), int(j)) for i, j in np.argwhere(np.triu(adjacency))])
        return rx.is_planar(graph)

    def check(self, graph: Any) -> Verdict:
        return yes("planar") if nx.check_planarity(graph)[0] else no("not planar")

    def obstruction(self, graph: Any) -> Obstruction | None:
        planar, witness = nx.check_planarity(graph, counterexample=True)
        return None if planar else Obstruction(tuple(witness.edges))


@register
@dataclass(frozen=True)
class Outerplanar(Planar):
    """Planar with every node on the outer face: planar even with one more node that is joined to all."""

    name: ClassVar[str] = "outerplanar"

    def member(self, adjacency: np.ndarray) -> bool:
        return super().member(np.pad(adjacency, ((0, 1), (0, 1)), constant_values=True))

    def check(self, graph: Any) -> Verdict:
        return yes("outerplanar") if nx.check_planarity(_with_apex(graph))[0] else no("not outerplanar")

    def obstruction(self, graph: Any) -> Obstruction | None:
        found = super().obstruction(_with_apex(graph))
        if found is None:
            return None
        apex = graph.number_of_nodes()
        return Obstruction(tuple((i, j) for i, j in found.present if apex not in (i, j)))


def _with_apex(graph: Any) -> Any:
    larger = graph.copy()
    larger.add_edges_from((graph.number_of_nodes(), node) for node in graph)
    return larger


@register
@dataclass(frozen=True)
class Caterpillar(GraphConstraint):
    """Every component is a tree that without its leaves is a path; ``lobster`` is one that needs this done twice."""

    name: ClassVar[str] = "caterpillar"
    closed: ClassVar[str] = "down"
    directed: ClassVar[bool | None] = False
    strips: ClassVar[int] = 1

    def check(self, graph: Any) -> Verdict:
        if not nx.is_forest(graph):
            return no("a cycle")
        core = graph
        for _ in range(self.strips):
            core = core.subgraph([node for node in core if core.degree[node] > 1])
        most = max((degree for _, degree in core.degree), default=0)
        return Verdict(most <= 2, f"without leaves, {'paths' if most <= 2 else f'a node of degree {most}'}")


@register
@dataclass(frozen=True)
class Lobster(Caterpillar):
    """Every component is a tree that without its leaves is a caterpillar."""

    name: ClassVar[str] = "lobster"
    strips: ClassVar[int] = 2
