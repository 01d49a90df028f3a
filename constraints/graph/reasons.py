"""Arithmetic that rules a set of constraints on a graph out, told in a line before anything is searched.

Sources: handshake lemma; Erdos and Gallai 1960 (degree sequences); Euler's formula (planar with girth g has at most g
(n - 2) / (g - 2) edges); Mantel 1907 and Turan 1941 (cliques); Reiman 1958 (no C4); Moore's bound for regular graphs
of given girth or diameter (Hoffman and Singleton 1960).
"""

import math
from collections.abc import Sequence

import networkx as nx

from seqdiff.constraints.base import Constraint
from seqdiff.constraints.graph import classes, distances, local
from seqdiff.constraints.graph.base import GraphConstraint
from seqdiff.core.grid import GraphAlphabet
from seqdiff.core.layout import Layout


def reason_against(constraints: Sequence[Constraint], layout: Layout) -> str | None:
    """Why no graph can satisfy the constraints; None where arithmetic does not tell. One number of nodes only."""
    alphabet = layout.alphabet
    if not isinstance(alphabet, GraphAlphabet) or layout.min_length != layout.max_length or alphabet.grid.directed:
        return None
    nodes = alphabet.grid.size(layout.max_length)
    rules = [item for item in constraints if isinstance(item, GraphConstraint)]
    fewest, most = edge_windows(rules, nodes)
    for item in rules:
        if isinstance(item, local.Degree) and (words := _degrees(item, nodes)):
            return words
    for low, low_words in fewest:
        for high, high_words in most:
            if low > high:
                return f"{low_words} need at least {low} edges, but {high_words} allows at most {high} on {nodes} nodes"
    return _moore(rules, nodes)


def _degrees(item: local.Degree, nodes: int) -> str | None:
    windows = [item.window(node) for node in range(nodes)]
    if any(low >= nodes for low, _ in windows):
        return f"{item.describe()}: a node has at most {nodes - 1} neighbours among {nodes} nodes"
    if all(low == high for low, high in windows):
        degrees = [low for low, _ in windows]
        if sum(degrees) % 2:
            return f"{item.describe()}: the sum of all degrees, {sum(degrees)}, is odd, but each edge counts twice"
        if not nx.is_graphical(degrees):
            return f"{item.describe()}: no graph has these degrees (Erdos-Gallai)"
    return None


def edge_windows(rules: Sequence[GraphConstraint], nodes: int) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Least and largest edge counts, each with the constraint that says so."""
    fewest: list[tuple[int, str]] = []
    most: list[tuple[int, str]] = [(nodes * (nodes - 1) // 2, "the number of pairs")]
    girth = max([3, *(item.least for item in rules if isinstance(item, distances.Girth))])
    for item in rules:
        words = item.describe()
        if isinstance(item, local.Edges):
            fewest.append((max(len(item.present), item.bounds.low if item.bounds else 0), words))
            if item.bounds and item.bounds.high is not None:
                most.append((item.bounds.high, words))
        elif isinstance(item, local.Degree):
            windows = [item.window(node) for node in range(nodes)]
            fewest.append((-(-sum(low for low, _ in windows) // 2), words))
            most.append((sum(nodes - 1 if high is None else high for _, high in windows) // 2, words))
        elif isinstance(item, classes.Connected | distances.Diameter | classes.Tree):
            fewest.append((nodes - 1, words))
        elif isinstance(item, classes.KConnected) and nodes > 1:
            fewest.append((-(-nodes * item.order // 2) if item.order > 1 else nodes - 1, words))
        if isinstance(item, classes.Tree | classes.Acyclic | classes.Caterpillar):
            most.append((nodes - 1, words))
        elif isinstance(item, classes.Outerplanar):
            most.append((max(2 * nodes - 3, 1), words))
        elif isinstance(item, classes.Planar) and nodes > 2:
            close = max(girth, 4) if any(isinstance(other, classes.Bipartite) for other in rules) else girth
            bound = int(close * (nodes - 2) / (close - 2)) if close < math.inf else nodes - 1
            most.append((max(bound, nodes - 1), words if close == 3 else f"{words} with girth at least {close}"))
        elif isinstance(item, classes.Bipartite) or (isinstance(item, local.Free) and item.of == "triangle"):
            most.append((nodes * nodes // 4, words))
        elif isinstance(item, distances.Girth):
            most.append((_girth_edges(nodes, item.least), words))
        elif isinstance(item, local.Free) and item.of == "C4" and not item.induced:
            most.append((int(nodes / 4 * (1 + math.sqrt(4 * nodes - 3))), words))
    return fewest, most


def _girth_edges(nodes: int, girth: int) -> int:
    if girth == 4:
        return nodes * nodes // 4
    return int(nodes * math.sqrt(nodes - 1) / 2)


def _moore(rules: Sequence[GraphConstraint], nodes: int) -> str | None:
    """Regular graphs need enough nodes for their girth, and few enough for their diameter."""
    for item in rules:
        if not isinstance(item, local.Degree):
            continue
        windows = [item.window(node) for node in range(nodes)]
        least = min(low for low, _ in windows)
        largest = max(nodes if high is None else high for _, high in windows)
        for other in rules:
            if isinstance(other, distances.Girth) and least >= 2:
                half, odd = divmod(other.least, 2)
                ball = (
                    1 + sum(least * (least - 1) ** i for i in range(half))
                    if odd
                    else (2 * sum((least - 1) ** i for i in range(half)))
                )
                if ball > nodes:
                    words = f"{item.describe()} and {other.describe()}"
                    return f"{words} need at least {ball} nodes (Moore's bound), but there are {nodes}"
            if isinstance(other, distances.Diameter) and largest >= 1:
                ball = 1 + sum(largest * (largest - 1) ** i for i in range(other.most))
                if ball < nodes:
                    words = f"{item.describe()} and {other.describe()}"
                    return f"{words} allow at most {ball} nodes (Moore's bound), but there are {nodes}"
    return None
