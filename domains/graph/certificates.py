"""Which graphs are the same up to the names of their nodes, by canonical certificates (nauty: McKay and Piperno 2014).

Two graphs have one :func:`certificate` exactly when they are isomorphic, labels (the attribute ``label`` of nodes and
edges) and directions included. There is no time-out and no false match, as with pairwise isomorphism tests.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from jaxtyping import Bool

from seqdiff.core.errors import missing_extra
from seqdiff.domains.graph.convert import LABEL, check_simple


def certificate(graph: nx.Graph) -> bytes:
    """Bytes that are equal for isomorphic graphs and differ for others.

    An edge with a label becomes a node of that colour between its ends, so nauty sees node colours only.

    Raises:
        InputError: a multigraph or self-loops.
        MissingExtraError: pynauty is not installed.
    """
    check_simple(graph)
    number = {node: i for i, node in enumerate(graph)}
    colours: dict[tuple[str, str], set[int]] = {}
    for node, label in graph.nodes(data=LABEL):
        colours.setdefault(("node", "" if label is None else str(label)), set()).add(number[node])
    neighbours: dict[int, list[int]] = {i: [] for i in range(len(graph))}
    for u, v, label in graph.edges(data=LABEL):
        ends = [number[u], number[v]]
        if label is not None:
            middle = len(neighbours)
            neighbours[middle] = []
            colours.setdefault(("edge", str(label)), set()).add(middle)
            ends.insert(1, middle)
        for a, b in pairwise(ends):
            neighbours[a].append(b)
    keys = sorted(colours)
    head = repr((graph.is_directed(), len(graph), [(key, len(colours[key])) for key in keys])).encode()
    if not len(graph):
        return head
    pynauty = _pynauty()
    coloured = pynauty.Graph(
        len(neighbours),
        directed=graph.is_directed(),
        adjacency_dict=neighbours,
        vertex_coloring=[colours[key] for key in keys] if len(keys) > 1 else [],
    )
    return head + pynauty.certificate(coloured)


def unique(graphs: Iterable[nx.Graph]) -> Bool[np.ndarray, "n"]:
    """Whether each graph is not isomorphic to an earlier one."""
    seen: set[bytes] = set()
    first = []
    for key in map(certificate, graphs):
        first.append(key not in seen)
        seen.add(key)
    return np.array(first, bool)


def novel(graphs: Iterable[nx.Graph], reference: Iterable[nx.Graph]) -> Bool[np.ndarray, "n"]:
    """Whether each graph is not isomorphic to any graph of ``reference``, such as the training set."""
    known = {certificate(graph) for graph in reference}
    return np.array([certificate(graph) not in known for graph in graphs], bool)


def _pynauty() -> Any:
    try:
        import pynauty
    except ImportError:
        raise missing_extra("pynauty", "graphs") from None
    return pynauty
