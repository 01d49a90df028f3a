"""Pictures of how sequences came about: what stands where, in which order, and how sure the model was."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from seqdiff.core.errors import InputError
from seqdiff.request.designs import Design, Designs
from seqdiff.request.picture import CLASSES
from seqdiff.request.views.figure import COLOURS, GREY, grid, label, some, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOGO_LINE, LOGO_MOST, SMALLEST = 60, 300, 0.06
_DARK = ("#33608f", "#16365c", "#4b8b3b", "#c2452d", "#a83e7f", "#8a7a3a", "#b59a00")
# Of the letters of a logo, by chemical class.
_COLOUR = {letter: dark for (members, _), dark in zip(CLASSES.values(), _DARK, strict=True) for letter in members}


def logo(designs: Designs, first: int = 1, last: int | None = None) -> "Figure":
    """The sequence logo (Schneider and Stephens 1990) of the designs, positions counted from the first residue.

    Heights are the information of this set in bits, without a correction for its size: a small set looks more conserved
    than the law that it was drawn from. Where lengths differ, a position counts the designs that have it, and those
    that fewer than half of the designs have are left out.

    Args:
        designs: sequences.
        first: first position shown, 1-based.
        last: last position shown; by default the last one, at most ``LOGO_MOST`` positions in all.

    Raises:
        InputError: the domain has no sequences, or the stretch holds no position.
        MissingExtraError: matplotlib is not installed.
    """
    _sequential(designs)
    heights = information(designs.sequences, designs.spec.setting.alphabet.letters)
    reach = int(np.median([len(text) for text in designs.sequences]))
    last = min(reach, first + LOGO_MOST - 1 if last is None else last)
    if not 1 <= first <= last:
        raise InputError(f"logo: no position from {first} to {last}; half of the designs reach {reach}")
    starts = range(first, last + 1, LOGO_LINE)
    per_line = min(LOGO_LINE, last - first + 1)
    figure, axes = grid(len(starts), 1, 1.2 + 0.165 * max(per_line, 12), 1.15 * len(starts) + 0.2)
    letters = designs.spec.setting.alphabet.letters
    for axis, start in zip(axes[:, 0], starts, strict=True):
        stop = min(start + LOGO_LINE - 1, last)
        _stacks(axis, heights[start - 1 : stop], letters, start)
        axis.set(xlim=(start - 0.6, start + per_line - 0.4), ylim=(0, np.log2(len(letters))), yticks=[0, 2, 4])
        axis.set_xticks([p for p in range(start, stop + 1) if p % 10 == 0 or p == start])
        axis.set_ylabel("bits", fontsize=8)
    return figure


def _stacks(axis: "Axes", heights: Float[np.ndarray, "L V"], letters: str, start: int) -> None:
    """Letters on one another, the tallest on top, those below ``SMALLEST`` bits left out; one patch for each kind."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    tall = np.where(heights < SMALLEST, 0, heights)
    order = np.argsort(tall, axis=1, kind="stable")
    top = np.empty_like(tall)
    np.put_along_axis(top, order, np.take_along_axis(tall, order, axis=1).cumsum(axis=1), axis=1)
    bold = FontProperties(family="DejaVu Sans", weight="bold")
    for column, letter in enumerate(letters):
        outline = TextPath((0, 0), letter, size=1, prop=bold)
        box = outline.get_extents()
        unit = (outline.vertices - box.min) / box.size - [0.5, 0]
        scale = [(0.92, tall[row, column]) for row in range(len(tall))]
        at = [(start + row, top[row, column] - tall[row, column]) for row in range(len(tall))]
        glyphs = [Path(unit * size + place, outline.codes) for size, place in zip(scale, at, strict=True) if size[1]]
        if glyphs:
            axis.add_artist(PathPatch(Path.make_compound_path(*glyphs), color=_COLOUR.get(letter, "#444"), linewidth=0))


def information(sequences: Sequence[str], letters: str) -> Float[np.ndarray, "L V"]:
    """Height in bits of each letter at each position: its share times log2(V) minus the position's entropy."""
    longest = max(map(len, some(sequences, "design")))
    counts = np.zeros((longest, len(letters)))
    index = {letter: i for i, letter in enumerate(letters)}
    for text in sequences:
        counts[np.arange(len(text)), [index[letter] for letter in text]] += 1
    share = counts / counts.sum(axis=1, keepdims=True)
    entropy = -(share * np.log2(np.maximum(share, 1e-12))).sum(axis=1, keepdims=True)
    return share * (np.log2(len(letters)) - entropy)


def order_map(designs: Designs, most: int = 60) -> "Figure":
    """When each position was committed: designs by positions, coloured by denoiser call; given positions are grey.

    Args:
        designs: of any domain.
        most: rows drawn.

    Raises:
        InputError: there are no designs, or no position was designed.
        MissingExtraError: matplotlib is not installed.
    """
    shown = some(designs.designs, "design")[:most]
    longest = max(len(design.order) for design in shown)
    calls = np.full((len(shown), longest), np.nan)
    given = np.zeros((len(shown), longest), bool)
    for row, design in enumerate(shown):
        calls[row, : len(design.order)] = np.where(design.order >= 0, design.order + 1.0, np.nan)
        given[row, : len(design.order)] = design.order < 0
    some(calls[np.isfinite(calls)], "designed position")
    height = 0.9 + min(5.0, 0.16 * len(shown) + 0.3)
    figure, axes = grid(1, 1, 10.5, height)
    axis = axes[0, 0]
    extent = (0.5, longest + 0.5, len(shown) - 0.5, -0.5)
    drawn = {"aspect": "auto", "interpolation": "nearest", "extent": extent}
    axis.imshow(np.where(given, 1.0, np.nan), cmap="Greys", vmin=0, vmax=4, **drawn)
    image = axis.imshow(calls, cmap="viridis", vmin=1, vmax=max(2.0, float(np.nanmax(calls))), **drawn)
    bar = figure.colorbar(image, ax=axis, pad=0.01, fraction=0.03)
    bar.ax.tick_params(labelsize=7)
    bar.ax.set_title("call", fontsize=8, loc="left")
    names = [label(design.id) for design in shown]
    every = max(1, len(names) // 20)
    axis.set_yticks(range(0, len(names), every), names[::every], fontsize=7)
    axis.set_xlabel("position (grey: given)", fontsize=8.5)
    return figure


def entropy_trace(designs: Designs) -> "Figure":
    """How sure the model was, call by call: -log p of the letters committed, and how many were committed.

    A letter is drawn from the distribution that -log p is taken of, so its mean estimates that distribution's entropy;
    low values late mean that the context settles the letter. The band holds the middle 80 % of the positions.

    Raises:
        InputError: no position was designed.
        MissingExtraError: matplotlib is not installed.
    """
    call, nats = committed(designs.designs)
    some(call, "committed position")
    steps = np.arange(1, call.max() + 1)
    groups = [nats[call == step] for step in steps]
    full = [(step, group) for step, group in zip(steps, groups, strict=True) if len(group)]
    at = [step for step, _ in full]
    mean = [group.mean() for _, group in full]
    low, high = ([np.quantile(group, q) for _, group in full] for q in (0.1, 0.9))
    figure, axes = grid(1, 2, 10.5, 2.6)
    one, two = axes[0]
    one.fill_between(at, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
    one.plot(at, mean, color=COLOURS[0], linewidth=1.5, marker="o", markersize=2.6)
    one.axhline(np.log(len(designs.spec.setting.alphabet.letters)), color=GREY, linestyle="--", linewidth=1)
    one.set_ylim(0)
    one.set_xlabel("denoiser call", fontsize=8.5)
    one.set_ylabel("-log p (nats)", fontsize=8.5)
    title(one, "surprise of the letters when committed (dashed: equal odds)")
    two.bar(steps, [len(group) / len(designs) for group in groups], color=COLOURS[0], width=0.85)
    two.set_xlabel("denoiser call", fontsize=8.5)
    title(two, "positions committed per design")
    return figure


def committed(designs: Sequence[Design]) -> tuple[np.ndarray, np.ndarray]:
    """Call (from 1) and -log p in nats of every position that was designed, all designs together."""
    order = np.concatenate([np.asarray(design.order) for design in designs]) if designs else np.zeros(0, int)
    nats = np.concatenate([-np.asarray(design.log_p, float) for design in designs]) if designs else np.zeros(0)
    return order[order >= 0] + 1, nats[order >= 0]


def _sequential(designs: Designs) -> None:
    if not designs.spec.setting.sequential:
        raise InputError(f"a logo is of sequences; designs of domain {designs.spec.domain} have drawings()")
