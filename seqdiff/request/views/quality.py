"""What designs cost and what they are worth: score against denoiser calls (NFE)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from seqdiff.request.designs import Designs
from seqdiff.request.views.figure import COLOURS, grid, label, some

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def score_against_nfe(runs: Mapping[str, Designs]) -> "Figure":
    """Score of each design against the calls that it took; of several runs also their means.

    Args:
        runs: designs by the name of the run.

    Raises:
        InputError: no design has a score, as where the constraints determine every letter.
    """
    points = {name: scored(designs) for name, designs in runs.items()}
    some(np.concatenate(list(points.values()) or [np.zeros((0, 2))]), "scored design")
    figure, axes = grid(1, 1, 7.2 if len(runs) > 1 else 5.2, 2.8)
    axis = axes[0, 0]
    for colour, (name, found) in zip(COLOURS * len(points), points.items(), strict=False):
        axis.plot(*found.T, "o", color=colour, markersize=3, alpha=0.35, linestyle="none")
        if len(runs) > 1 and len(found):
            axis.plot(
                *found.mean(axis=0), "D", color=colour, markersize=6.5, markeredgecolor="white", label=label(name)
            )
    calls = np.concatenate(list(points.values()))[:, 0]
    if calls.min() > 0 and calls.max() > 4 * calls.min():
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("denoiser calls (NFE)", fontsize=8.5)
    axis.set_ylabel("score (mean log p, nats)", fontsize=8.5)
    if len(runs) > 1:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def scored(designs: Designs) -> np.ndarray:
    """Calls and score of each design that has a score, float [n, 2]."""
    found = [(design.calls, design.score) for design in designs if np.isfinite(design.score)]
    return np.array(found, float).reshape(-1, 2)
