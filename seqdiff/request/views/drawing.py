"""Drawings of designs as their field draws them: rows of residues, graphs, boards."""

from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.request.designs import Designs
from seqdiff.request.picture import to_svg
from seqdiff.request.views.figure import COLOURS, grid, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing(str):
    """An SVG as text that shows itself in a notebook."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> None:
        """Write the SVG."""
        Path(path).write_text(self, encoding="utf-8")


def drawings(designs: Designs) -> Drawing:
    """Proteins as rows of coloured residues; graphs drawn; Sudoku boards with their clues. The first few of a set."""
    picture = designs.spec.setting.picture([design.id for design in designs], designs.sequences)
    return Drawing(to_svg(designs) if picture is None else picture)


def degrees(designs: Designs) -> "Figure":
    """How many nodes have each degree, mean over the designs; for arcs, in and out together.

    Raises:
        InputError: the designs are no graphs.
        MissingExtraError: matplotlib is not installed.
    """
    graphs = designs.objects
    if not graphs or not all(isinstance(graph, nx.Graph) for graph in graphs):
        raise InputError(f"degrees are of graphs; designs of domain {designs.spec.domain} have none")
    found = [degree for graph in graphs for _, degree in graph.degree]
    values, counts = np.unique(found, return_counts=True)
    figure, axes = grid(1, 1, 5.2, 2.4)
    axes[0, 0].bar(values, counts / len(graphs), color=COLOURS[0], width=0.85)
    axes[0, 0].set_xlabel("degree", fontsize=8.5)
    title(axes[0, 0], "nodes of each degree, per graph")
    return figure
