"""The laws behind the usual benchmark sets, to draw fresh graphs from.

A finite sample from the true law does not score perfectly against a finite test set; its score is the floor that a
model's score is read against. Recipes as the sets were made (SPECTRE for planar, SBM and community-20; uniform trees;
GRAN's lobsters), checked against the sets themselves.
"""

from collections.abc import Callable
from itertools import product

import networkx as nx
import numpy as np

from seqdiff.domains.graph.convert import prufer_to_graph


def planar(rng: np.random.Generator, nodes: int = 64) -> nx.Graph:
    """Delaunay triangulation of uniform points in the unit square."""
    from scipy.spatial import Delaunay

    triangles = Delaunay(rng.random((nodes, 2))).simplices
    graph = nx.empty_graph(nodes)
    for corner in range(3):
        graph.add_edges_from(zip(triangles[:, corner].tolist(), triangles[:, corner - 1].tolist(), strict=True))
    return graph


def tree(rng: np.random.Generator, nodes: int = 64) -> nx.Graph:
    """A uniform labelled tree, from a uniform Prufer code."""
    return prufer_to_graph(rng.integers(nodes, size=nodes - 2).tolist())


def sbm(rng: np.random.Generator) -> nx.Graph:
    """Stochastic block model: 2 to 5 blocks of 20 to 40 nodes, edges with 0.3 inside and 0.005 between."""
    sizes = rng.integers(20, 41, size=rng.integers(2, 6))
    block = np.repeat(np.arange(len(sizes)), sizes)
    p = np.where(block[:, None] == block[None], 0.3, 0.005)
    graph = nx.empty_graph(len(block))
    graph.add_edges_from(np.argwhere(np.triu(rng.random(p.shape) < p, 1)).tolist())
    return graph


def lobster(rng: np.random.Generator, spine: float = 80, leg: float = 0.7, foot: float = 0.7) -> nx.Graph:
    """A path whose nodes have one leg at most, and legs one foot at most, of 10 to 100 nodes.

    This is the rule of networkx before 2.5, by which the benchmark was made; ``nx.random_lobster`` draws another law.

    Args:
        rng: the only source of randomness.
        spine: mean length of the path, which is uniform up to twice that.
        leg: probability of a leg at each node of the path.
        foot: probability of a foot at each leg.
    """
    while True:
        length = int(2 * rng.random() * spine + 0.5)
        graph = nx.path_graph(length)
        for node in range(length):
            if rng.random() < leg:
                graph.add_edge(node, legged := len(graph))
                if rng.random() < foot:
                    graph.add_edge(legged, len(graph))
        if 10 <= len(graph) <= 100:
            return graph


def community(rng: np.random.Generator) -> nx.Graph:
    """Two equal communities, 12 to 20 nodes together, with 0.05 n edges across on average; one at least.

    The set was made with fixed seeds inside the communities: all graphs of a size share one pair of G(n/2, 0.7), and
    differ in the edges across only. Where none is drawn, the first nodes of the communities are joined.
    """
    half = int(rng.integers(6, 11))
    graph = nx.disjoint_union(*(nx.gnp_random_graph(half, 0.7, seed=seed) for seed in (0, 1)))
    across = list(product(range(half), range(half, 2 * half)))
    chosen = np.flatnonzero(rng.random(len(across)) < 0.1 * half / len(across))
    graph.add_edges_from([across[i] for i in chosen] or [(0, half)])
    return graph


GENERATORS: dict[str, Callable[[np.random.Generator], nx.Graph]] = {
    "planar": planar,
    "tree": tree,
    "sbm": sbm,
    "lobster": lobster,
    "community20": community,
}
