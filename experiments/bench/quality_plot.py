"""What is made of the rows of ``seqdiff.experiments.bench.quality``: tables, positions per call, pictures.

The pictures show quality and entropy side by side against the calls used. Colours tell families of planners (those of
Okabe and Ito, safe for colour-blind readers), markers and dashes tell the members of a family.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqdiff.core.errors import missing_extra

Row = dict[str, Any]
FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("#0072B2", ("random", "spread", "left_to_right")),
    ("#009E73", ("entropy_bound", "threshold", "klass")),
    ("#D55E00", ("confidence", "margin", "entropy", "blocks")),
    ("#CC79A7", ("maskgit", "p2", "rdm", "wino")),
    ("#E69F00", ("remdm", "gibbs")),
    ("#000000", ("ancestral", "flow")),
    ("#56B4E9", ("uniform",)),
)
MARKERS, DASHES = "osD^vPX*", ("-", "--", ":", "-.")
DIGITS = {"variation_1": 4, "variation_4": 4, "perplexity": 2, "calls": 1}
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


def tokens_per_call(rows: Sequence[Row], part: str, *, strict: bool = True) -> list[Row]:
    """For each planner, the row with the most positions per call whose quality is that of one position at a time.

    Protein: perplexity, entropy and diversity within 2 % of random one at a time, repeats within 0.01. Toy: bigrams
    within two deviations of true draws and, where ``strict``, pairs four apart too and likelihood within 2 %.
    """
    mine = [row for row in rows if row["part"] == part and row["steps"]]
    if part == "protein":
        like = _slow(mine)
        if like is None:
            return []

        def like_it(row: Row) -> bool:
            near = all(abs(row[name] / like[name] - 1) <= 0.02 for name in ("perplexity", "entropy", "diversity"))
            return near and abs(row["repeats"] - like["repeats"]) <= 0.01
    else:
        like = next(row for row in rows if row["planner"] == "true draws")
        lags = ("variation_1", "variation_4") if strict else ("variation_1",)

        def like_it(row: Row) -> bool:
            near = all(row[lag] <= like[lag] + 2 * like[f"{lag}_error"] for lag in lags)
            return near and (not strict or abs(row["nll"] / like["nll"] - 1) <= 0.02)

    best = {}
    for row in sorted(filter(like_it, mine), key=lambda row: -row["calls"]):
        best[row["planner"]] = row | {"tokens_per_call": row["length"] / row["calls"]}
    return sorted(best.values(), key=lambda row: -row["tokens_per_call"])


def pivot(rows: Sequence[Row], part: str, metric: str) -> str:
    """A Markdown table of one metric: planners by budget."""
    mine = {(row["planner"], row["steps"]): row[metric] for row in rows if row["part"] == part and metric in row}
    digits = DIGITS.get(metric, 3)
    budgets = sorted({steps for _, steps in mine if steps})
    lines = [f"| {metric} | " + " | ".join(map(str, budgets)) + " |", "| --- |" + " --- |" * len(budgets)]
    for name in dict.fromkeys(name for name, _ in mine):
        cells = [f"{mine[name, steps]:.{digits}f}" if (name, steps) in mine else "" for steps in budgets]
        cells = cells if (name, 0) not in mine else [f"{mine[name, 0]:.{digits}f}"] + [""] * (len(budgets) - 1)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_toy(rows: Sequence[Row], path: Path) -> None:
    """The Markov chain: four panels with the values of true draws."""
    law = next(row for row in rows if row["planner"] == "true draws")
    lines = {metric: [(law[metric], "true draws", "-")] for metric, _, _ in TOY_PANELS}
    _draw([row for row in rows if row["part"] == "toy"], path, TOY_PANELS, lines)


def draw_protein(rows: Sequence[Row], path: Path) -> None:
    """The protein network: four panels with real sequences and one position at a time."""
    real = next((row for row in rows if row["planner"] == "real, from the start"), None)
    slow = _slow(rows)
    known = [(real, "real sequences", "-"), (slow, "random, one at a time", "--")]
    lines = {
        metric: [(row[metric], label, dash) for row, label, dash in known if row] for metric, _, _ in PROTEIN_PANELS
    }
    _draw([row for row in rows if row["part"] == "protein"], path, PROTEIN_PANELS, lines)


def _slow(rows: Sequence[Row]) -> Row | None:
    """Random order, one position at a time."""
    return next((row for row in rows if row["planner"] == "random" and row["steps"] == row["length"]), None)


def _draw(rows: list[Row], path: Path, panels: Sequence[tuple[str, str, str]], lines: dict[str, list[Any]]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    matplotlib.rc("font", size=9)
    matplotlib.rc("axes.spines", top=False, right=False)
    matplotlib.rc("svg", hashsalt="seqdiff", fonttype="none")
    figure, axes = pyplot.subplots(2, 2, figsize=(11.5, 8), sharex=True)
    styles = _styles(list(dict.fromkeys(row["planner"] for row in rows)))
    for axis, (metric, title, scale) in zip(axes.flat, panels, strict=True):
        for value, label, dash in lines[metric]:
            axis.axhline(value, color="0.45", linestyle=dash, linewidth=1.6, label=label, zorder=1)
        for name, style in styles.items():
            mine = sorted((row["calls"], row[metric]) for row in rows if row["planner"] == name)
            axis.plot(*zip(*mine, strict=True), label=name, linewidth=1.1, markersize=4, **style)
        axis.set_xscale("log", base=2)
        axis.set_yscale(scale)
        axis.set_title(title, fontsize=9.5, loc="left")
        axis.grid(alpha=0.25)
        for scaled in [axis.xaxis] + [axis.yaxis] * (scale == "log"):
            scaled.set_major_formatter(StrMethodFormatter("{x:g}"))
            scaled.set_minor_locator(NullLocator())
        if scale == "log":
            axis.yaxis.set_major_locator(FixedLocator([0.01, 0.02, 0.05, 0.1, 0.2, 0.5]))
    for axis in axes[-1]:
        axis.set_xlabel("denoiser calls used (mean per design)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 0.815, 1))
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.815, 0.5), frameon=False, fontsize=8.5)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Line style of each name that belongs to a family, family by family."""
    left, styles = list(names), {}
    for color, members in FAMILIES:
        mine = [name for name in left if name.startswith(members)]
        left = [name for name in left if name not in mine]
        for i, name in enumerate(mine):
            styles[name] = {"color": color, "marker": MARKERS[i % len(MARKERS)], "linestyle": DASHES[i % len(DASHES)]}
    return styles
