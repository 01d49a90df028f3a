"""Graphs as a domain of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from seqdiff.constraints.base import Constraint, parse_constraint
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import whole_number
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import format_positions
from seqdiff.domains.graph import SparseCode, prufer_to_graph, read_graphs, to_graph, write_graphs
from seqdiff.domains.graph.picture import graph_svg
from seqdiff.request.domains.base import Draw, Setting, find_file

FIRST_NODE = 0x4E00
"""Code point of node 0 in the Prufer code, where there are letters for thousands."""


@dataclass(frozen=True)
class GraphSetting(Setting):
    """Graphs on numbered nodes, by one position for each pair of nodes or by a code.

    ``nodes: 12`` or ``[8, 12]``; ``encoding``: ``adjacency`` (default), ``bipartite`` (``nodes: [5, 7]`` are the
    sides), ``dag`` (arcs from smaller to larger nodes), ``prufer`` (labelled trees) or ``sparse`` (``window`` and
    ``slots``: for each node how far back its parent is, and up to so many more neighbours); ``directed``;
    ``edge_labels: [s, d]`` and ``node_labels``, one letter each; ``complete: FILE``, a graph whose edges are given.

    Attributes:
        encoding: what positions mean.
        nodes: least and most nodes; the two sides of a bipartite graph.
        directed: whether pairs are arcs.
        edge_labels: letters of kinds of edges; empty for plain ones.
        node_labels: letters of kinds of nodes.
        window: of the sparse code.
        slots: of the sparse code.
        given: edges that are there.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        *("nodes", "encoding", "directed", "edge_labels", "node_labels", "window", "slots", "complete"),
    )
    MODEL: ClassVar[str] = "uniform"
    ENCODINGS: ClassVar[tuple[str, ...]] = ("adjacency", "bipartite", "dag", "prufer", "sparse")
    encoding: str
    nodes: tuple[int, int]
    directed: bool = False
    edge_labels: str = ""
    node_labels: str = ""
    window: int = 0
    slots: int = 0
    given: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, args: Mapping[str, Any], folder: Path) -> "GraphSetting":
        encoding = args.get("encoding", "adjacency")
        if encoding not in cls.ENCODINGS:
            raise unknown_key("encoding", encoding, cls.ENCODINGS)
        given: tuple[tuple[int, int], ...] = ()
        nodes = args.get("nodes")
        if "complete" in args:
            graph = _one_graph(args["complete"], folder)
            given = tuple((int(i), int(j)) for i, j in graph.edges)
            nodes = graph.number_of_nodes() if nodes is None else nodes
        if nodes is None:
            raise InputError("needs 'nodes', such as nodes: 12 or nodes: [8, 12]")
        ends = list(nodes) if isinstance(nodes, list | tuple) else [nodes, nodes]
        if len(ends) != 2 or (encoding == "bipartite" and not isinstance(nodes, list | tuple)):
            raise InputError(f"nodes={nodes!r}: write a number, [fewest, most], or the two sides of a bipartite graph")
        low, high = (whole_number(end, "nodes", low=1) for end in ends)
        if encoding != "bipartite" and low > high:
            raise InputError(f"nodes={nodes!r} runs backwards; write [fewest, most]")
        options = {"window": 0, "slots": 0}
        for key in options:
            if key in args and encoding != "sparse":
                raise InputError(f"{key!r} belongs to encoding: sparse")
            if encoding == "sparse":
                options[key] = whole_number(
                    args.get(key, {"window": 8, "slots": 1}[key]), key, low=int(key == "window")
                )
        directed = args.get("directed", False)
        if not isinstance(directed, bool):
            raise InputError(f"directed={directed!r}: write true or false")
        labels = {key: _labels(args.get(key, ""), key) for key in ("edge_labels", "node_labels")}
        if encoding in ("prufer", "sparse") and (directed or given or any(labels.values())):
            raise InputError(
                f"encoding: {encoding} has plain undirected edges; leave out directed, complete and labels"
            )
        setting = cls(
            encoding,
            (low, high),
            directed,
            edge_labels=labels["edge_labels"],
            node_labels=labels["node_labels"],
            window=options["window"],
            slots=options["slots"],
            given=given,
        )
        _ = setting.alphabet
        return setting

    @property
    def grid(self) -> Grid | None:
        """What the positions mean where they are pairs."""
        low, high = self.nodes
        make = partial(Grid.make, edge_letters="0" + (self.edge_labels or "1"), node_letters=self.node_labels)
        if self.encoding == "bipartite":
            hosts = [(i, low + j) for i in range(low) for j in range(high)]
            return make(low + high, hosts=hosts, directed=self.directed)
        if self.encoding == "dag":
            hosts = [(i, j) for j in range(high) for i in range(j)]
            return make(high, hosts=hosts, directed=True)
        return make(high, directed=self.directed) if self.encoding == "adjacency" else None

    @property
    def code(self) -> SparseCode:
        """The sparse code."""
        return SparseCode(self.nodes[1], self.window, self.slots)

    @property
    def alphabet(self) -> Alphabet:
        if self.grid is not None:
            return GraphAlphabet.make(self.grid)
        if self.encoding == "sparse":
            return self.code.alphabet
        if self.nodes[0] != self.nodes[1] or not 3 <= self.nodes[1] <= 1000:
            raise InputError(f"nodes={list(self.nodes)}: the Prufer code takes one number of nodes, 3 to 1000")
        return Alphabet("Prufer", "".join(chr(FIRST_NODE + node) for node in range(self.nodes[1])))

    @property
    def lengths(self) -> tuple[tuple[int, int], str | Draw]:
        low, high = self.nodes
        if self.encoding == "prufer":
            return (high - 2, high - 2), "uniform"
        if self.encoding == "bipartite":
            length = self._grid.length()
            return (length, length), "uniform"
        length = self.code.length if self.encoding == "sparse" else self._grid.length
        sizes = sorted({length(nodes) for nodes in range(low, high + 1)} - {0})
        if not sizes:
            raise InputError(f"nodes={low}: a graph needs two nodes")
        return (sizes[0], sizes[-1]), "uniform" if len(sizes) == 1 else tuple((size, 1.0) for size in sizes)

    @property
    def _grid(self) -> Grid:
        assert self.grid is not None
        return self.grid

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        items: list[dict[str, Any]] = []
        if self.encoding == "sparse":
            items += _allowed(self.code.allowed, self.alphabet)
        if self.node_labels:
            slots = self._grid.slots
            for letters, at in ((self._grid.edge_letters, slots[:, 0] != slots[:, 1]), (self.node_labels, None)):
                places = np.flatnonzero(slots[:, 0] == slots[:, 1] if at is None else at) + 1
                items.append({"allow": {"positions": format_positions(places.tolist()), "letters": letters}})
        if self.given:
            items.append({"edges": {"present": [list(pair) for pair in self.given]}})
        return tuple(parse_constraint(item, self.alphabet) for item in items)

    def conditions(self, size: int) -> Any:
        if self.grid is None:
            return None
        slots = np.zeros((size, 2), np.int32)
        slots[: len(self.grid.slots)] = self.grid.slots
        return {"slots": slots, "nodes": np.zeros(self.grid.nodes, np.int32)}

    def to_spec(self) -> dict[str, Any]:
        low, high = self.nodes
        spec: dict[str, Any] = {"nodes": high if low == high and self.encoding != "bipartite" else [low, high]}
        spec |= {"encoding": self.encoding} if self.encoding != "adjacency" else {}
        spec |= {"directed": True} if self.directed else {}
        spec |= {key: getattr(self, key) for key in ("edge_labels", "node_labels") if getattr(self, key)}
        return spec | ({"window": self.window, "slots": self.slots} if self.encoding == "sparse" else {})

    def decode(self, text: str) -> Any:
        if self.grid is not None:
            return to_graph(text, self.grid)
        if self.encoding == "sparse":
            return self.code.decode(text)
        return prufer_to_graph([ord(letter) - FIRST_NODE for letter in text])

    def show(self, text: str) -> str:
        graph = self.decode(text)
        return " ".join(f"{i}-{j}" for i, j in graph.edges)

    def properties(self, text: str) -> dict[str, float]:
        graph = self.decode(text)
        degrees = [degree for _, degree in graph.degree]
        return {
            "nodes": graph.number_of_nodes(),
            "edges": graph.number_of_edges(),
            "least degree": min(degrees),
            "largest degree": max(degrees),
        }

    def write(self, folder: Path, names: Sequence[str], texts: Sequence[str]) -> None:
        graphs = [self.decode(text) for text in texts]
        plain = not (self.edge_labels or self.node_labels) and not any(graph.is_directed() for graph in graphs)
        write_graphs(folder / ("designs.g6" if plain else "designs.graphml"), graphs)

    def picture(self, names: Sequence[str], texts: Sequence[str]) -> str:
        return graph_svg([self.decode(text) for text in texts], names, given=set(self.given))


def _one_graph(name: object, folder: Path) -> Any:
    path = find_file(str(name), folder)
    graphs = read_graphs(Path(str(name)) if path is None else path)
    if len(graphs) != 1:
        raise InputError(f"complete: {name} holds {len(graphs)} graphs; it should hold the one to complete")
    return _numbered(graphs[0])


def _numbered(graph: Any) -> Any:
    """The graph with nodes 0, 1, 2, ... in their order."""
    if set(graph) == set(range(len(graph))):
        return graph
    return nx.convert_node_labels_to_integers(graph)


def _labels(value: object, key: str) -> str:
    letters = "".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if "0" in letters or len(set(letters)) != len(letters):
        raise InputError(f"{key}={value!r}: distinct one-character labels without 0, such as sd for single and double")
    return letters


def _allowed(allowed: np.ndarray, alphabet: Alphabet) -> list[dict[str, Any]]:
    """``allow`` constraints that say the same as a table of letters by position."""
    groups: dict[str, list[int]] = {}
    for position, row in enumerate(allowed, 1):
        if not row.all():
            letters = "".join(letter for letter, ok in zip(alphabet.letters, row, strict=True) if ok)
            groups.setdefault(letters, []).append(position)
    return [
        {"allow": {"positions": format_positions(places), "letters": letters}} for letters, places in groups.items()
    ]
