"""How close a sample of graphs is to a set, and how many of its graphs are valid, unique and novel.

Five statistics, each a vector per graph (:func:`describe`), are compared by squared maximum mean discrepancy
(:func:`mmd`), and their :func:`ratio` to what the training set shows is averaged: the protocol of SPECTRE (Martinkus et
al. 2022) and Bergmeister et al. (2024), built on networkx, orbit-count (ORCA), PyGSP and scipy. The kernel
exp(-TV^2 / (2 s^2)) is not positive definite, so a discrepancy is a score and no distance.

None of it means anything alone. Fresh graphs of the true law do not score a ratio of 1 at the usual 40 graphs, and a
sampler that enforces the validity rule has perfect V.U.N. whatever its law: print both beside every score.

Left out: validity of stochastic block models. Its usual test (graph-tool inference, then Wald tests) rejects a fifth of
the benchmark's own test set and moves by tens of points with the number of refinement sweeps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import networkx as nx
import numpy as np
from jaxtyping import Float

from seqdiff.core.errors import missing_extra
from seqdiff.domains.graph.certificates import novel, unique

Vectors = list[np.ndarray]
# Discrepancies below this are rounding of sums of kernels near one; the set shows no difference in that statistic.
ZERO = 1e-9


def degrees(graph: nx.Graph) -> Float[np.ndarray, "d"]:
    """How many nodes have each degree."""
    return np.array(nx.degree_histogram(graph), float)


def clustering(graph: nx.Graph) -> Float[np.ndarray, "100"]:
    """Histogram of the local clustering coefficients, 100 bins on [0, 1]."""
    coefficients = cast(dict, nx.clustering(graph))  # of all nodes, hence not one number
    return np.histogram(list(coefficients.values()), bins=100, range=(0, 1))[0].astype(float)


def orbits(graph: nx.Graph) -> Float[np.ndarray, "15"]:
    """Mean over the nodes of how often each lies in each of the 15 orbits of graphlets of up to 4 nodes.

    ORCA (Hocevar and Demsar 2014), as counts and not normalised.
    """
    if not graph.number_of_edges():
        return np.zeros(15)
    return _module("orbit_count", "orbit-count").node_orbit_counts(graph).mean(axis=0)


def spectrum(graph: nx.Graph) -> Float[np.ndarray, "200"]:
    """Histogram of the eigenvalues of the normalised Laplacian, 200 bins on [-1e-5, 2].

    Bipartite graphs (all trees) have the eigenvalue 2, the end of the range. Public code counts it or not as the last
    bit of the solver falls, which moves trees and lobsters by 2 %; here it always counts.
    """
    eigenvalues = np.clip(np.linalg.eigvalsh(_laplacian(graph)), 0, 2)
    return np.histogram(eigenvalues, bins=200, range=(-1e-5, 2))[0].astype(float)


def wavelets(graph: nx.Graph) -> Float[np.ndarray, "1200"]:
    """Histograms over the nodes of the energy of 12 spline wavelets around each (Hammond et al. 2011).

    The energy of filter g at node i is ``sum_j (U g(lambda) U^T)_ij^2``; 100 bins on [0, b] for each filter, where b is
    the largest value of any filter on a grid of step 0.01.
    """
    bank = _module("pygsp.filters", "pygsp").Abspline(SimpleNamespace(lmax=2.0), 12)
    bound = bank.evaluate(np.arange(0, 2, 0.01)).max()
    eigenvalues, U = np.linalg.eigh(_laplacian(graph))
    energy = np.square(bank.evaluate(eigenvalues)) @ np.square(U).T  # rows of U are orthonormal
    return np.concatenate([np.histogram(row, bins=100, range=(0, bound))[0] for row in energy]).astype(float)


@dataclass(frozen=True)
class Statistic:
    """A vector per graph and how two of them are compared.

    Attributes:
        vector: of a graph.
        width: s of the kernel.
        normalised: whether vectors are scaled to sum 1 first.
    """

    vector: Callable[[nx.Graph], np.ndarray]
    width: float
    normalised: bool = True


STATISTICS = {
    "degree": Statistic(degrees, 1.0),
    "clustering": Statistic(clustering, 0.1),
    "orbit": Statistic(orbits, 30.0, normalised=False),
    "spectral": Statistic(spectrum, 1.0),
    "wavelet": Statistic(wavelets, 1.0),
}


def describe(graphs: Sequence[nx.Graph]) -> dict[str, Vectors]:
    """The vectors of all graphs, by statistic; the costly part, so keep it for a set that is used again.

    Raises:
        MissingExtraError: orbit-count or PyGSP is not installed.
    """
    found = {}
    for name, statistic in STATISTICS.items():
        vectors = [statistic.vector(graph) for graph in graphs]
        found[name] = [v / (v.sum() + 1e-6) for v in vectors] if statistic.normalised else vectors
    return found


def discrepancies(a: Mapping[str, Vectors], b: Mapping[str, Vectors]) -> dict[str, float]:
    """Squared maximum mean discrepancy of two described samples, by statistic."""
    return {name: mmd(a[name], b[name], statistic.width) for name, statistic in STATISTICS.items()}


def mmd(a: Vectors, b: Vectors, width: float) -> float:
    """``|mean k(a, a) + mean k(b, b) - 2 mean k(a, b)|`` over all pairs, each with itself too (biased).

    k(x, y) = exp(-TV(x, y)^2 / (2 width^2)) with TV half the sum of absolute differences; shorter vectors are padded
    with zeros.
    """
    from scipy.spatial.distance import cdist

    size = max(len(v) for v in [*a, *b])
    x, y = (np.stack([np.pad(v, (0, size - len(v))) for v in vectors]) for vectors in (a, b))

    def mean_kernel(p: np.ndarray, q: np.ndarray) -> float:
        return float(np.exp(-np.square(0.5 * cdist(p, q, "cityblock")) / (2 * width**2)).mean())

    return abs(mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y))


def ratio(found: Mapping[str, float], reference: Mapping[str, float], decimals: int | None = 4) -> float:
    """Mean over the statistics of found / reference, where the reference is not zero.

    Args:
        found: discrepancies of a sample from the test set.
        reference: those of the training set from the test set.
        decimals: the reference is rounded so first, and zeros are then dropped, as in DeFoG (Qin et al. 2025), by
            which floors and peers are quoted. None drops exact zeros only, as in ConStruct; on trees and lobsters that
            divides by orbit discrepancies of 1e-6 and the mean says nothing else. Say which was used.
    """
    used = {name: value if decimals is None else round(value, decimals) for name, value in reference.items()}
    return float(np.mean([found[name] / value for name, value in used.items() if value > ZERO]))


@dataclass(frozen=True)
class Share:
    """So many out of so many.

    Attributes:
        count: that have the property.
        total: all.
    """

    count: int
    total: int

    @property
    def value(self) -> float:
        """The fraction."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the probability behind it (Wilson 1927)."""
        from scipy.stats import binomtest

        low, high = binomtest(self.count, self.total).proportion_ci(0.95, method="wilson")
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def vun(
    graphs: Sequence[nx.Graph], train: Sequence[nx.Graph], valid: Callable[[nx.Graph], bool] | None
) -> dict[str, Share]:
    """Shares of valid, unique and novel graphs, and of those that are all three (V.U.N.).

    Args:
        graphs: a sample; the first of several isomorphic ones counts as unique.
        train: graphs that are not novel.
        valid: a rule in ``VALID``, or None where a set has none; validity and V.U.N. are then left out.

    Raises:
        MissingExtraError: pynauty is not installed.
    """
    flags = {"unique": unique(graphs), "novel": novel(graphs, train)}
    if valid is not None:
        good = np.array([valid(graph) for graph in graphs], bool)
        flags = {"valid": good} | flags | {"V.U.N.": good & flags["unique"] & flags["novel"]}
    return {name: Share(int(flag.sum()), len(graphs)) for name, flag in flags.items()}


def is_planar(graph: nx.Graph) -> bool:
    """Connected, and can be drawn without crossings."""
    rustworkx = _module("rustworkx", "rustworkx")
    return len(graph) > 0 and nx.is_connected(graph) and rustworkx.is_planar(rustworkx.networkx_converter(graph))


def is_tree(graph: nx.Graph) -> bool:
    """Connected without cycles."""
    return len(graph) > 0 and nx.is_tree(graph)


def is_lobster(graph: nx.Graph) -> bool:
    """A tree of which a path, one node or nothing is left when its leaves are taken off twice."""
    if not is_tree(graph):
        return False
    spine = graph.copy()
    for _ in range(2):
        spine.remove_nodes_from([node for node, degree in list(spine.degree()) if degree <= 1])
    return all(degree <= 2 for _, degree in spine.degree())


VALID: dict[str, Callable[[nx.Graph], bool]] = {"planar": is_planar, "tree": is_tree, "lobster": is_lobster}


def _laplacian(graph: nx.Graph) -> Float[np.ndarray, "n n"]:
    return nx.normalized_laplacian_matrix(graph).toarray()


def _module(name: str, package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise missing_extra(package, "graphs") from None
