"""networkx graphs to canvas texts and back.

Two encodings. The dense one writes every pair of nodes (``seqdiff.core.grid.Grid``): :func:`to_text` and
:func:`to_graph`. The sparse one (:class:`SparseCode`) writes, for every node in a search order, how far back its
earlier neighbours are: short for large sparse graphs, and every text is a connected simple graph.

Nodes are numbered from 0 in the order of :func:`node_order`. Labels are the attribute ``label`` of nodes and edges.
What a text cannot hold (several edges on a pair, self-loops, foreign labels, too many nodes) is refused in one line.
"""

import string
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from jaxtyping import Bool

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.grid import Grid

LABEL, NAME = "label", "name"


def node_order(graph: nx.Graph) -> list[Hashable]:
    """The nodes as they are numbered: 0 to n - 1 by value if that is what they are called, else as they were added."""
    nodes = list(graph)
    return list(range(len(nodes))) if set(nodes) == set(range(len(nodes))) else nodes


def to_text(graph: nx.Graph, grid: Grid) -> str:
    """The canvas text of a graph.

    Args:
        graph: with as many nodes as the grid or fewer; the text is then a prefix of the canvas.
        grid: says what each position means. Edges need a ``label`` only where it has more than two edge letters.

    Raises:
        InputError: the graph is no simple graph, is directed and the grid is not (or the reverse), has too many nodes,
            an edge that the grid has no place for, or labels that are missing or not in the alphabet.
    """
    check_simple(graph)
    if graph.is_directed() != grid.directed:
        is_, way_out = ("directed", "to_undirected") if graph.is_directed() else ("undirected", "to_directed")
        wanted = "directed" if grid.directed else "undirected"
        raise InputError(f"the graph is {is_}, but the encoding is {wanted}; convert it with graph.{way_out}()")
    nodes = len(graph)
    if not 1 <= nodes <= grid.nodes:
        raise InputError(f"the graph has {nodes} nodes, but the encoding takes 1 to {grid.nodes}")
    if (least := grid.size(grid.length(nodes))) != nodes:
        raise InputError(f"{nodes} nodes have no text of their own in this encoding; add isolated nodes up to {least}")
    order = node_order(graph)
    number = {node: i for i, node in enumerate(order)}
    adjacency = np.zeros((nodes, nodes), np.int32)
    for u, v, label in graph.edges(data=LABEL):
        i, j = number[u], number[v]
        if (i, j) not in grid.position:
            raise InputError(f"edge {u!r}-{v!r} (nodes {i} and {j}) is not one of the pairs that may have an edge")
        adjacency[i, j] = _edge_letter(label, f"edge {u!r}-{v!r}", grid.edge_letters)
        if not grid.directed:
            adjacency[j, i] = adjacency[i, j]
    return grid.text(adjacency, _node_letters(graph, order, grid.node_letters))


def to_graph(text: str, grid: Grid, names: Sequence[Hashable] | None = None) -> nx.Graph:
    """The graph of a canvas text; the inverse of :func:`to_text`.

    Args:
        text: complete, of the length of some number of nodes.
        grid: says what each position means.
        names: what the nodes were called (:func:`node_order` of the original); they become the attribute ``name``.

    Returns:
        A ``Graph`` or ``DiGraph`` on the nodes 0 to n - 1; ``label`` on edges if the grid has more than two edge
        letters, and on nodes if it has node letters.

    Raises:
        InputError: the text has another length, an open position or a foreign letter, or there are too few names.
    """
    nodes = grid.size(len(text))
    for place, (letter, (i, j)) in enumerate(zip(text, grid.slots.tolist(), strict=False), 1):
        if letter not in (allowed := grid.node_letters if i == j else grid.edge_letters):
            what = f"label of node {i}" if i == j else f"pair {i}-{j}"
            raise InputError(f"{letter!r} at position {place} ({what}) is not one of the letters {allowed}")
    if names is not None and len(names) != nodes:
        raise InputError(f"{len(names)} node names for a graph of {nodes} nodes")
    graph = nx.DiGraph() if grid.directed else nx.Graph()
    graph.add_nodes_from(range(nodes))
    adjacency = grid.matrix(text)
    for i, j in np.argwhere(adjacency != 0).tolist():
        attributes = {LABEL: grid.edge_letters[adjacency[i, j]]} if len(grid.edge_letters) > 2 else {}
        graph.add_edge(i, j, **attributes)
    nx.set_node_attributes(graph, dict(enumerate(grid.labels(text))), LABEL)
    nx.set_node_attributes(graph, dict(enumerate(names or ())), NAME)
    return graph


def prufer_to_graph(code: Sequence[int]) -> nx.Graph:
    """The tree of a Prufer code (Prufer 1918): n - 2 numbers below n, each of the n^(n-2) codes one labelled tree.

    Raises:
        InputError: a number is not a node.

    Example:
        >>> sorted(prufer_to_graph([3, 3, 3]).edges)
        [(0, 3), (1, 3), (2, 3), (3, 4)]
    """
    nodes = len(code) + 2
    for place, node in enumerate(code, 1):
        if not 0 <= node < nodes:
            raise InputError(f"Prufer code: {node} at place {place} is not one of the nodes 0 to {nodes - 1}")
    return nx.from_prufer_sequence([int(node) for node in code])


def check_simple(graph: nx.Graph, where: str = "the graph") -> None:
    """Refuse what no encoding here holds: a multigraph, or self-loops.

    Raises:
        InputError: names the node of the first self-loop.
    """
    if graph.is_multigraph():
        raise InputError(f"{where} is a multigraph; merge parallel edges with nx.Graph(graph) or nx.DiGraph(graph)")
    if loop := next(nx.selfloop_edges(graph), None):
        raise InputError(f"{where} has a self-loop at node {loop[0]!r}; remove loops first (nx.selfloop_edges)")


def _edge_letter(label: object, where: str, letters: str) -> int:
    """Index of an edge's label; it may be left out where there is only one."""
    if label is None and len(letters) == 2:
        return 1
    wanted = ", ".join(letters[1:])
    if label is None:
        raise InputError(f"{where} has no label; give it one of {wanted}")
    if (letter := str(label)) not in list(letters[1:]):
        raise InputError(f"{where} has the label {letter!r}, which is not one of {wanted}")
    return letters.index(letter)


def _node_letters(graph: nx.Graph, order: list[Hashable], letters: str) -> str:
    labels = []
    for node in order:
        label = graph.nodes[node].get(LABEL)
        if not letters and label is not None:
            raise InputError(f"node {node!r} has the label {str(label)!r}, but the encoding has no node labels")
        if letters and str(label) not in list(letters):
            found = "no label" if label is None else f"the label {str(label)!r}"
            raise InputError(f"node {node!r} has {found}; the encoding takes {', '.join(letters)}")
        labels.append("" if label is None else str(label))
    return "".join(labels)


def _breadth_first(graph: nx.Graph) -> list[Hashable]:
    """From the first node; neighbours in the order in which they were added, so relabelling gives another order."""
    first = node_order(graph)[0]
    return [first, *(node for _, node in nx.bfs_edges(graph, first))]


def _cuthill_mckee(graph: nx.Graph) -> list[Hashable]:
    """Breadth first from a node of low degree, low degrees first: a narrow band (Cuthill and McKee 1969)."""
    return list(nx.utils.cuthill_mckee_ordering(graph))


ORDERS: dict[str, Callable[[nx.Graph], list[Hashable]]] = {
    "bfs": _breadth_first,
    "cuthill_mckee": _cuthill_mckee,
}
# Digits and letters first; wider windows go on with the Latin letters after ASCII.
_LETTERS = string.digits + string.ascii_letters + "".join(c for c in map(chr, range(0xC0, 0x250)) if c.isalpha())


@dataclass(frozen=True)
class SparseCode:
    """Connected graphs as lists of steps back.

    Nodes come in a search order. Each node but the first has one parent letter (the earliest neighbour, ``d`` nodes
    back, d from 1) and then ``slots`` letters for its other earlier neighbours, farthest first: 0 for none, else how
    far back. Every text is a connected simple graph: a step that leads before the first node is cut to the first node
    for the parent, and to none in a slot; a parent of 0 counts as 1; repeated steps are one edge. :attr:`allowed` says
    which letters avoid the first two readings.

    Attributes:
        nodes: most nodes.
        window: longest step back.
        slots: most earlier neighbours of a node, besides its parent.
    """

    nodes: int
    window: int
    slots: int

    def __post_init__(self):
        if self.nodes < 2 or self.slots < 0 or not 1 <= self.window < len(_LETTERS):
            raise InputError(
                f"sparse encoding: nodes={self.nodes}, window={self.window}, slots={self.slots}; it takes nodes from "
                f"2, window 1 to {len(_LETTERS) - 1} and slots from 0"
            )

    @classmethod
    def fit(cls, graphs: Sequence[nx.Graph], order: str = "cuthill_mckee") -> "SparseCode":
        """The smallest code that holds all these graphs.

        Raises:
            InputError: see :meth:`encode`.
        """
        steps = [row for graph in graphs for row in _steps(graph, order)]
        return cls(
            nodes=max(2, *(len(graph) for graph in graphs)),
            window=max((row[0] for row in steps), default=1),
            slots=max((len(row) - 1 for row in steps), default=0),
        )

    @cached_property
    def alphabet(self) -> Alphabet:
        """One letter per step, 0 first."""
        return Alphabet("sparse graph", _LETTERS[: self.window + 1], {"step": _LETTERS[1 : self.window + 1]})

    def length(self, nodes: int | None = None) -> int:
        """Letters of a graph with so many nodes, the most by default."""
        return ((self.nodes if nodes is None else nodes) - 1) * (1 + self.slots)

    @property
    def allowed(self) -> Bool[np.ndarray, "L V"]:
        """Letters that stay within the graph: no step before the first node, and no parent of 0."""
        node = 1 + np.arange(self.length()) // (1 + self.slots)
        parent = np.arange(self.length()) % (1 + self.slots) == 0
        step = np.arange(self.window + 1)
        return (step[None] <= node[:, None]) & ~(parent[:, None] & (step[None] == 0))

    def encode(self, graph: nx.Graph, order: str = "cuthill_mckee") -> str:
        """The text of a connected graph.

        Args:
            graph: undirected, without labels.
            order: of the nodes, a name in ``ORDERS``.

        Raises:
            InputError: the graph is not simple, undirected, unlabelled and connected, has too many nodes, or needs a
                wider window or more slots in this order; the message says how many.
        """
        if len(graph) > self.nodes:
            raise InputError(f"the graph has {len(graph)} nodes, but the encoding takes at most {self.nodes}")
        steps = _steps(graph, order)
        window, slots = max((row[0] for row in steps), default=1), max((len(row) - 1 for row in steps), default=0)
        if window > self.window or slots > self.slots:
            raise InputError(
                f"in the order {order} the graph needs window {window} and slots {slots}, but the encoding has window "
                f"{self.window} and slots {self.slots}"
            )
        return "".join(_LETTERS[step] for row in steps for step in row + [0] * (1 + self.slots - len(row)))

    def decode(self, text: str) -> nx.Graph:
        """The connected graph of a text, on the nodes 0 to n - 1 in the order of the text.

        Raises:
            InputError: a foreign letter, or a length that is not a whole number of nodes.
        """
        width = 1 + self.slots
        if len(text) % width or len(text) > self.length():
            raise InputError(
                f"{len(text)} letters: a text has {width} per node after the first, {self.length()} at most"
            )
        rows = self.alphabet.encode(text).reshape(-1, width).tolist()
        graph = nx.empty_graph(len(rows) + 1)
        for node, (parent, *others) in enumerate(rows, 1):
            graph.add_edge(node, node - min(max(parent, 1), node))
            graph.add_edges_from((node, node - step) for step in others if 0 < step <= node)
        return graph


def _steps(graph: nx.Graph, order: str) -> list[list[int]]:
    """How far back the earlier neighbours of each node but the first are, farthest first."""
    if order not in ORDERS:
        raise unknown_key("order", order, ORDERS)
    check_simple(graph)
    if graph.is_directed():
        raise InputError("the graph is directed, but the sparse encoding is undirected; use graph.to_undirected()")
    if any(label is not None for _, label in [*graph.nodes(data=LABEL), *_edge_labels(graph)]):
        raise InputError("the graph has labels, but the sparse encoding has none; remove them or use the adjacency one")
    if not len(graph) or not nx.is_connected(graph):
        raise InputError("the sparse encoding takes connected graphs only; encode the components one by one")
    place = {node: i for i, node in enumerate(ORDERS[order](graph))}
    rows = [sorted((i - place[v] for v in graph[node] if place[v] < i), reverse=True) for node, i in place.items()]
    return rows[1:]


def _edge_labels(graph: nx.Graph) -> list[tuple[object, object]]:
    return [((u, v), label) for u, v, label in graph.edges(data=LABEL)]
