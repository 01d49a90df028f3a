"""Constraints on the edges themselves: given edges, degrees, edge counts, forbidden subgraphs, symmetry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import networkx as nx
import numpy as np
from networkx.algorithms.isomorphism import GraphMatcher

from seqdiff.constraints.base import Bounds, Verdict, register
from seqdiff.constraints.graph import rules
from seqdiff.constraints.graph.base import GraphConstraint, Obstruction, Pair, no, yes
from seqdiff.constraints.parts import Lowered, Sum, Tie
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.grid import Grid
from seqdiff.core.layout import Layout

ANY = Bounds(0, None)


def _node(value: object, grid: Grid) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < grid.nodes:
        raise InputError(f"node {value!r} is none of 0 to {grid.nodes - 1}")
    return value


def _pairs(value: object, grid: Grid, key: str) -> tuple[Pair, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{key}={value!r}: write pairs of nodes, such as [[0, 1], [1, 2]]")
    found = []
    for item in value:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise InputError(f"{key}: {item!r} is no pair of nodes, such as [0, 1]")
        pair = (_node(item[0], grid), _node(item[1], grid))
        if pair not in grid.position:
            raise InputError(f"{key}: {pair[0]}-{pair[1]} is no pair that this encoding has a place for")
        found.append(pair)
    return tuple(found)


@register
@dataclass(frozen=True)
class Edges(GraphConstraint):
    """Edges that are there or not, and how many: ``edges: {present: [[0, 1]], absent: [[0, 2]], min: 10, max: 12}``.

    Attributes:
        present: pairs with an edge.
        absent: pairs without one.
        bounds: of their number; None for any.
    """

    name: ClassVar[str] = "edges"
    present: tuple[Pair, ...] = ()
    absent: tuple[Pair, ...] = ()
    bounds: Bounds | None = None

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Edges":
        keys = ("present", "absent", "min", "max", "exactly")
        args, grid = check_keys(args, keys), cls.fitting(alphabet)
        if not args:
            raise InputError(f"needs one of {', '.join(keys)}")
        present, absent = (_pairs(args.get(key, ()), grid, key) for key in ("present", "absent"))
        places = {grid.position[pair] for pair in present}
        for pair in absent:
            if grid.position[pair] in places:
                raise InputError(f"edge {pair[0]}-{pair[1]} is both present and absent")
        counted = any(key in args for key in ("min", "max", "exactly"))
        return cls(grid, present, absent, Bounds.parse(args, "min", "max") if counted else None)

    def to_spec(self) -> Any:
        spec: dict[str, Any] = {key: [list(pair) for pair in getattr(self, key)] for key in ("present", "absent")}
        return {key: value for key, value in spec.items() if value} | (
            self.bounds.to_spec("min", "max") if self.bounds else {}
        )

    def describe(self) -> str:
        words = [f"{len(self.present)} edges given"] if self.present else []
        words += [f"{len(self.absent)} pairs kept apart"] if self.absent else []
        words += [f"{self.bounds} edges"] if self.bounds else []
        return ", ".join(words)

    def lower(self, layout: Layout) -> Lowered:
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        there = np.array([letter in self.grid.edge_letters[1:] for letter in layout.alphabet.letters])
        for pairs, letters in ((self.present, there), (self.absent, ~there)):
            for pair in pairs:
                if self.grid.position[pair] >= layout.min_length:
                    raise InputError(f"edges: {pair[0]}-{pair[1]} is out of range in the smallest graph")
                allowed[self.grid.position[pair]] &= letters
        if self.bounds is None:
            return Lowered(allowed=allowed)
        low, high = self.bounds.low, self.bounds.high
        weights = _incidence(self.grid, layout, range(self.grid.nodes), "any")
        return Lowered(allowed=allowed, sums=(Sum(weights, lambda _: (low, high)),))

    def check(self, graph: Any) -> Verdict:
        for i, j in self.present:
            if not graph.has_edge(i, j):
                return no(f"edge {i}-{j} is missing")
        for i, j in self.absent:
            if graph.has_edge(i, j):
                return no(f"edge {i}-{j} is there")
        count = graph.number_of_edges()
        return Verdict(self.bounds is None or self.bounds.admits(count), f"{count} edges")

    def relaxed(self, step: int) -> "Edges":
        """With a wider window."""
        bounds = None if self.bounds is None else self.bounds.widened(step)
        return Edges(self.grid, self.present, self.absent, bounds)


def _incidence(grid: Grid, layout: Layout, nodes: Any, ends: str) -> np.ndarray:
    """Weights [L, V] that count the edges at some nodes: where either end is one, or an arc's first or second."""
    weights = np.zeros((layout.max_length, len(layout.alphabet)), np.int64)
    there = [layout.alphabet.letters.index(letter) for letter in grid.edge_letters[1:]]
    inside = set(nodes)
    for position, (i, j) in enumerate(grid.slots[: layout.max_length].tolist()):
        hit = {"any": i in inside or j in inside, "out": i in inside, "in": j in inside}[ends]
        if i != j and hit:
            weights[position, there] = 1
    return weights


@register
@dataclass(frozen=True)
class Degree(GraphConstraint):
    """Neighbours of nodes: ``degree: {min: 1, max: 4}``, ``{exactly: 3}`` (regular), ``{sequence: [3, 3, 2, ...]}`` or
    ``{max: 2, nodes: [0, 1]}``; of directed graphs ``ends: out`` or ``in``.

    Attributes:
        bounds: of each node named.
        nodes: which nodes; empty for all.
        sequence: exact degree of every node; empty for none.
        ends: ``any``, or ``out`` or ``in`` for arcs.
    """

    name: ClassVar[str] = "degree"
    bounds: Bounds = ANY
    nodes: tuple[int, ...] = ()
    sequence: tuple[int, ...] = ()
    ends: str = "any"

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Degree":
        args, grid = check_keys(args, ("min", "max", "exactly", "sequence", "nodes", "ends")), cls.fitting(alphabet)
        ends = args.get("ends", "any")
        if ends not in (("out", "in") if grid.directed else ("any",)):
            raise InputError(f"ends={ends!r}: write out or in for directed graphs, nothing for others")
        if "sequence" in args:
            if len(args) > 1 + ("ends" in args):
                raise InputError("'sequence' gives every node's degree; leave the other keys out")
            degrees = tuple(whole_number(degree, "sequence") for degree in args["sequence"])
            if len(degrees) != grid.nodes:
                raise InputError(f"sequence has {len(degrees)} degrees for {grid.nodes} nodes")
            return cls(grid, sequence=degrees, ends=ends)
        nodes = tuple(_node(node, grid) for node in args.get("nodes", ()))
        return cls(grid, Bounds.parse(args, "min", "max"), nodes, ends=ends)

    def to_spec(self) -> Any:
        ends = {} if self.ends == "any" else {"ends": self.ends}
        if self.sequence:
            return {"sequence": list(self.sequence)} | ends
        return self.bounds.to_spec("min", "max") | ({"nodes": list(self.nodes)} if self.nodes else {}) | ends

    def describe(self) -> str:
        kind = "" if self.ends == "any" else f"{self.ends}-"
        if self.sequence:
            return f"{kind}degrees {', '.join(map(str, self.sequence))}"
        where = f" at nodes {', '.join(map(str, self.nodes))}" if self.nodes else ""
        return f"{kind}degrees {self.bounds}{where}"

    def window(self, node: int) -> tuple[int, int | None]:
        """Least and largest degree of a node."""
        if self.sequence:
            return self.sequence[node], self.sequence[node]
        if self.nodes and node not in self.nodes:
            return 0, None
        return self.bounds.low, self.bounds.high

    def lower(self, layout: Layout) -> Lowered:
        size = self.grid.nodes
        windows = [self.window(node) for node in range(size)]
        low = np.array([window[0] for window in windows])
        high = np.array([size if window[1] is None else window[1] for window in windows])
        if self.ends == "any" and not low.any():
            return Lowered(rules=(rules.MaxDegree(jnp.asarray(high, jnp.int32)),))
        if self.ends == "any" and (high >= size).all():
            return Lowered(rules=(rules.MinDegree(jnp.asarray(low, jnp.int32)),))
        sums = []
        for node, (least, most) in enumerate(windows):
            if least or most is not None:
                weights = _incidence(self.grid, layout, (node,), self.ends)
                first = self.grid.length(node + 1)

                def limits(
                    length: int, least: int = least, most: int | None = most, first: int = first
                ) -> tuple[int | None, int | None]:
                    return (least, most) if length >= first else (None, None)

                sums.append(Sum(weights, limits))
        return Lowered(sums=tuple(sums))

    def check(self, graph: Any) -> Verdict:
        degree = {"any": "degree", "out": "out_degree", "in": "in_degree"}[self.ends]
        for node, found in getattr(graph, degree):
            low, high = self.window(node)
            if found < low or (high is not None and found > high):
                return no(f"node {node} has {found}")
        return yes(f"degrees {', '.join(map(str, sorted(d for _, d in getattr(graph, degree))))}")

    def obstruction(self, graph: Any) -> Obstruction | None:
        for node, found in graph.degree if self.ends == "any" else ():
            low, high = self.window(node)
            around = [pair for pair in self.grid.pairs if node in pair and max(pair) < len(graph)]
            if found < low:
                return Obstruction(absent=tuple(pair for pair in around if not graph.has_edge(*pair)))
            if high is not None and found > high:
                return Obstruction(tuple(pair for pair in around if graph.has_edge(*pair)))
        return super().obstruction(graph)


NAMED = {
    "triangle": lambda: nx.complete_graph(3),
    "C4": lambda: nx.cycle_graph(4),
    "C5": lambda: nx.cycle_graph(5),
    "C6": lambda: nx.cycle_graph(6),
    "K4": lambda: nx.complete_graph(4),
    "K5": lambda: nx.complete_graph(5),
    "P4": lambda: nx.path_graph(4),
    "claw": lambda: nx.star_graph(3),
    "diamond": lambda: nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
    "K23": lambda: nx.complete_bipartite_graph(2, 3),
}
MOST_SUBGRAPH = 8


@register
@dataclass(frozen=True)
class Free(GraphConstraint):
    """No copy of a small graph among the edges: ``free: triangle``, ``free: C4`` or ``free: {edges: [[0, 1], ...]}``;
    with ``induced: true`` no node-induced copy.

    Attributes:
        of: name of the graph, or empty.
        edges: its edges.
        induced: whether non-edges count too.
    """

    name: ClassVar[str] = "free"
    directed: ClassVar[bool | None] = False
    of: str = ""
    edges: tuple[Pair, ...] = ()
    induced: bool = False

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Free":
        grid = cls.fitting(alphabet)
        args = {"of": args} if isinstance(args, str) else check_keys(args, ("of", "edges", "induced"))
        if ("of" in args) == ("edges" in args):
            raise InputError("give one of 'of' (a name) and 'edges'")
        induced = args.get("induced", False)
        if not isinstance(induced, bool):
            raise InputError(f"induced={induced!r}: write true or false")
        if "of" in args:
            if args["of"] not in NAMED:
                raise unknown_key("small graph", args["of"], NAMED)
            return cls(grid, args["of"], tuple(NAMED[args["of"]]().edges), induced)
        small = Grid.make(MOST_SUBGRAPH)
        edges = _pairs(args["edges"], small, "edges")
        if not edges:
            raise InputError("edges: a small graph with at least one edge, on nodes 0 to 7")
        return cls(grid, "", edges, induced)

    def to_spec(self) -> Any:
        what: dict[str, Any] = {"of": self.of} if self.of else {"edges": [list(edge) for edge in self.edges]}
        return what | ({"induced": True} if self.induced else {})

    def describe(self) -> str:
        name = self.of or f"copy of {', '.join(f'{i}-{j}' for i, j in self.edges)}"
        return f"no {'induced ' if self.induced else ''}{name}"

    @property
    def closed(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Under deletion, unless non-edges count."""
        return "" if self.induced else "down"

    @property
    def bridges(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """An edge between components is in no copy of a graph without bridges."""
        return not self.induced and not nx.has_bridges(nx.Graph(self.edges))

    def rule(self) -> Any:
        local = {
            "triangle": rules.NoClique(3),
            "K4": rules.NoClique(4),
            "K5": rules.NoClique(5),
            "C4": rules.NoSquare(),
        }
        return super().rule() if self.induced else local.get(self.of) or super().rule()

    def check(self, graph: Any) -> Verdict:
        found = self._copy(graph)
        return yes("none") if found is None else no(f"at nodes {', '.join(map(str, sorted(found)))}")

    def obstruction(self, graph: Any) -> Obstruction | None:
        found = self._copy(graph)
        if found is None:
            return None
        back = {small: node for node, small in found.items()}
        present = tuple((back[i], back[j]) for i, j in self.edges)
        if not self.induced:
            return Obstruction(present)
        nodes = sorted(found)
        apart = tuple((a, b) for a in nodes for b in nodes if a < b and not graph.has_edge(a, b))
        return Obstruction(present, apart)

    def _copy(self, graph: Any) -> Mapping[int, int] | None:
        """Nodes of a copy, to the nodes of the small graph."""
        matcher = GraphMatcher(graph, nx.Graph(self.edges))
        found = matcher.subgraph_isomorphisms_iter() if self.induced else matcher.subgraph_monomorphisms_iter()
        return next(found, None)


@register
@dataclass(frozen=True)
class Symmetry(GraphConstraint):
    """Automorphisms that the graph has: ``symmetry: {circulant: true}``, ``{blocks: 3}`` (polycirculant: each node to
    the next in its block of consecutive nodes) or ``{permutations: [[1, 2, 0]]}``, each the images of nodes 0, 1, 2...

    Attributes:
        permutations: generators of the group.
        blocks: how they were given; 0 as permutations.
    """

    name: ClassVar[str] = "symmetry"
    permutations: tuple[tuple[int, ...], ...] = ()
    blocks: int = 0

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Symmetry":
        args, grid = check_keys(args, ("circulant", "blocks", "permutations")), cls.fitting(alphabet)
        if len(args) != 1:
            raise InputError("give one of 'circulant', 'blocks' and 'permutations'")
        if "permutations" in args:
            found = tuple(tuple(_node(node, grid) for node in images) for images in args["permutations"])
            for images in found:
                if sorted(images) != list(range(grid.nodes)):
                    raise InputError(f"permutations: {list(images)} does not name each of {grid.nodes} nodes once")
            return cls(grid, found)
        blocks = 1 if args.get("circulant") is True else whole_number(args.get("blocks"), "blocks", low=1)
        if grid.nodes % blocks:
            raise InputError(f"blocks={blocks} does not divide {grid.nodes} nodes")
        size = grid.nodes // blocks
        return cls(grid, (tuple(n - n % size + (n + 1) % size for n in range(grid.nodes)),), blocks)

    def to_spec(self) -> Any:
        return {"blocks": self.blocks} if self.blocks else {"permutations": [list(p) for p in self.permutations]}

    def describe(self) -> str:
        if self.blocks == 1:
            return "circulant"
        return f"circulant in {self.blocks} blocks" if self.blocks else f"{len(self.permutations)} given automorphisms"

    def lower(self, layout: Layout) -> Lowered:
        if layout.min_length != layout.max_length or layout.max_length != self.grid.length():
            raise InputError("symmetry: needs one number of nodes")
        orbits: Any = nx.Graph()
        orbits.add_nodes_from(range(layout.max_length))
        for images in self.permutations:
            for position, (i, j) in enumerate(self.grid.slots.tolist()):
                image = (images[i], images[j])
                if image not in self.grid.position:
                    raise InputError(f"symmetry: {i}-{j} goes to {image[0]}-{image[1]}, which has no place here")
                orbits.add_edge(position, self.grid.position[image])
        groups = [sorted(orbit) for orbit in nx.connected_components(orbits) if len(orbit) > 1]
        return Lowered(ties=(Tie(tuple(tuple((p, False) for p in group) for group in groups), mean=True),))

    def check(self, graph: Any) -> Verdict:
        for images in self.permutations:
            for i, j in graph.edges:
                if not graph.has_edge(images[i], images[j]):
                    return no(f"edge {i}-{j} has no image {images[i]}-{images[j]}")
        return yes("all kept")
