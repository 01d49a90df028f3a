"""Pictures of ``seqdiff.experiments.bench.quality``: quality and entropy side by side against the calls used.

Colours tell families of planners (those of Okabe and Ito, safe for colour-blind readers), markers and dashes tell the
members of a family.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqdiff.core.errors import missing_extra

Row = dict[str, Any]
FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("#0072B2", ("random", "spread", "left_to_right")),
    ("#D55E00", ("confidence", "margin", "entropy", "blocks")),
    ("#009E73", ("entropy_bound", "threshold", "klass")),
    ("#CC79A7", ("maskgit", "p2", "rdm", "wino")),
    ("#E69F00", ("remdm", "gibbs")),
    ("#000000", ("ancestral", "flow")),
    ("#56B4E9", ("uniform",)),
)
MARKERS, DASHES = "osD^vPX*", ("-", "--", ":", "-.")
TOY_PANELS = (
    ("variation_1", "total variation of bigrams (lower is better)", "log"),
    ("nll", "nats per letter under the law (on the line is right)", "linear"),
    ("variation_4", "total variation of pairs four apart (lower is better)", "log"),
    ("entropy", "entropy of the letters (on the line is right)", "linear"),
)
PROTEIN_PANELS = (
    ("perplexity", "perplexity under the held-out scorer", "linear"),
    ("entropy", "entropy of the letters, nats (lower: fewer kinds)", "linear"),
    ("repeats", "share of positions in tandem repeats", "linear"),
    ("diversity", "mean distance between designs", "linear"),
)


def draw_toy(rows: Sequence[Row], path: Path) -> None:
    """The Markov chain: four panels with the values of true draws."""
    law = next(row for row in rows if row["planner"] == "true draws")
    lines = {metric: [(law[metric], "true draws", "-")] for metric, _, _ in TOY_PANELS}
    _draw([row for row in rows if row["part"] == "toy"], path, TOY_PANELS, lines)


def draw_protein(rows: Sequence[Row], path: Path) -> None:
    """The protein network: four panels with real sequences and one position at a time."""
    real = next((row for row in rows if row["planner"] == "real, from the start"), None)
    slow = next((row for row in rows if row["planner"] == "random" and row["steps"] == row["length"]), None)
    known = [(real, "real sequences", "-"), (slow, "random, one at a time", "--")]
    lines = {
        metric: [(row[metric], label, dash) for row, label, dash in known if row] for metric, _, _ in PROTEIN_PANELS
    }
    _draw([row for row in rows if row["part"] == "protein"], path, PROTEIN_PANELS, lines)


def _draw(rows: list[Row], path: Path, panels: Sequence[tuple[str, str, str]], lines: dict[str, list[Any]]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter, NullLocator, ScalarFormatter

    matplotlib.rcParams.update(
        {"svg.hashsalt": "seqdiff", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, axes = pyplot.subplots(2, 2, figsize=(11.5, 8), sharex=True)
    names = [name for name in dict.fromkeys(row["planner"] for row in rows) if _style(name)]
    for axis, (metric, title, scale) in zip(axes.flat, panels, strict=True):
        for value, label, dash in lines[metric]:
            axis.axhline(value, color="0.45", linestyle=dash, linewidth=1.6, label=label, zorder=1)
        seen = dict.fromkeys(name for family in FAMILIES for name in names if name.startswith(family[1]))
        for name in seen:
            mine = sorted((row["calls"], row[metric]) for row in rows if row["planner"] == name)
            axis.plot(*zip(*mine, strict=True), label=name, linewidth=1.1, markersize=4, **_styles(names)[name])
        axis.set_xscale("log", base=2)
        axis.set_yscale(scale)
        axis.set_title(title, fontsize=9.5, loc="left")
        axis.grid(alpha=0.25)
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_locator(NullLocator())
        if scale == "log":
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(NullFormatter())
    for axis in axes[-1]:
        axis.set_xlabel("denoiser calls used (mean per design)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 0.815, 1))
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.815, 0.5), frameon=False, fontsize=8.5)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _style(name: str) -> int | None:
    """Number of the first family that claims a planner."""
    return next((i for i, (_, members) in enumerate(FAMILIES) if name.startswith(members)), None)


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    styles: dict[str, dict[str, Any]] = {}
    count = [0] * len(FAMILIES)
    for name in names:
        family = _style(name)
        if family is not None:
            number = count[family]
            count[family] += 1
            styles[name] = {
                "color": FAMILIES[family][0],
                "marker": MARKERS[number % len(MARKERS)],
                "linestyle": DASHES[number % len(DASHES)],
            }
    return styles
