"""Designs as rows of coloured residues, in SVG (no plotting library needed): one picture, or a row for each table cell.

The given residues are underlined and the motifs asked for framed, row by row. Above the rows stand a ruler, the chains'
names, and a track for each constraint that speaks of particular places.
"""

import re
from collections.abc import Iterable
from html import escape

import numpy as np

from seqdiff.constraints.base import Constraint
from seqdiff.constraints.pattern import Pattern
from seqdiff.core.layout import WHOLE, Region
from seqdiff.request.designs import Design, Designs

CELL, ROW, LEFT, TRACK, LEGEND = 8, 18, 110, 7, 780
MOST_TRACKS = 12
MONO = "ui-monospace, Menlo, Consolas, monospace"
# Background of each residue by chemical class; colours that also differ in lightness, for colour-blind readers.
CLASSES = {
    "hydrophobic": ("AVILM", "#dbe7f3"),
    "aromatic": ("FWY", "#b7cbe4"),
    "polar": ("STNQ", "#e4f1dc"),
    "positive": ("KRH", "#f6cfc4"),
    "negative": ("DE", "#f3dbe9"),
    "special": ("GP", "#f1ecd9"),
    "cysteine": ("C", "#f2d64b"),
}
MOTIF, GIVEN, PLACE = "#b3261e", "#555", "#2b5c8a"


def to_svg(designs: Designs, limit: int = 48) -> str:
    """The first ``limit`` designs, one under the other."""
    shown = designs.designs[:limit]
    width, top = LEFT + _longest(designs) * CELL + 10, _heading(designs)
    height = top + len(shown) * ROW + 34
    parts = [f'<rect width="{max(width, LEGEND)}" height="{height}" fill="white"/>', *_moved(LEFT, 0, _head(designs))]
    for i, design in enumerate(shown):
        y = top + i * ROW
        parts.append(f'<text x="4" y="{y + 12}" fill="#333">{escape(design.id)}</text>')
        parts += _moved(LEFT, y, _residues(designs, design))
    rest = len(designs) - len(shown)
    if rest:
        parts.append(f'<text x="4" y="{height - 7}" fill="#777">{rest} more</text>')
    parts += _moved(LEFT, height - 16, _legend())
    return _svg(max(width, LEGEND), height, parts)


def row_svg(designs: Designs, design: Design) -> str:
    """One design as a picture of its own, ``ROW`` high."""
    return _svg(len(design.sequence) * CELL + 4, ROW, _residues(designs, design))


def head_svg(designs: Designs) -> str:
    """Ruler, chains and constraint tracks, to stand over rows of :func:`row_svg`."""
    return _svg(_longest(designs) * CELL + 4, _heading(designs), _head(designs))


def legend_svg() -> str:
    """What the colours and lines mean."""
    return _svg(LEGEND - LEFT, 14, _moved(0, 2, _legend()))


def places(constraint: Constraint, length: int) -> list[tuple[int, int]]:
    """Stretches (first, last; 1-based) that a constraint speaks of; none where it speaks of the whole design.

    Args:
        constraint: any; those that name positions have ``letters`` or ``allowed`` by position, ``positions``,
            ``groups``, ``regions`` or a ``region``.
        length: of the longest design, where stretches to the end stop.
    """
    listed = getattr(constraint, "letters", None) or getattr(constraint, "allowed", None)
    found: list[Region] = []
    if isinstance(listed, tuple) and all(isinstance(place, int) for place, _ in listed):
        found = [Region(place, place) for place, _ in listed]
    elif positions := getattr(constraint, "positions", ()):
        found = [Region(place, place) for pair in positions for place in pair]
    elif groups := getattr(constraint, "groups", ()):
        found = [region for group in groups for region in group]
    elif regions := getattr(constraint, "regions", ()):
        found = list(regions)
    elif (region := getattr(constraint, "region", WHOLE)) != WHOLE:
        found = [region]
    covered = np.zeros(length, bool)
    for region in found:
        covered[region.first - 1 : region.last] = True
    return [] if covered.all() else [(first + 1, last) for first, last in _runs(covered)]


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="{MONO}" font-size="10">',
            *parts,
            "</svg>\n",
        ]
    )


def _moved(x: float, y: float, parts: Iterable[str]) -> list[str]:
    return [f'<g transform="translate({x} {y})">', *parts, "</g>"]


def _longest(designs: Designs) -> int:
    return max((len(design.sequence) for design in designs), default=1)


def _tracks(designs: Designs) -> list[tuple[Constraint, list[tuple[int, int]]]]:
    found = [(constraint, places(constraint, _longest(designs))) for constraint in designs.constraints]
    return [(constraint, spans) for constraint, spans in found if spans][:MOST_TRACKS]


def _heading(designs: Designs) -> int:
    """Height of what :func:`_head` draws."""
    chains = 12 if _chains(designs) else 0
    return 20 + chains + TRACK * len(_tracks(designs))


def _head(designs: Designs) -> list[str]:
    longest = _longest(designs)
    marks = [1, *range(10, longest + 1, 10)]
    parts = [
        f'<text x="{(p - 0.5) * CELL + (2 if p == 1 else 0)}" y="11" fill="#777" text-anchor="middle">{p}</text>'
        for p in marks
    ]
    y = 15
    for chain, first in _chains(designs):
        x = (first - 1) * CELL
        parts.append(f'<text x="{x + 1}" y="{y + 9}" fill="#333" font-weight="bold">{escape(chain)}</text>')
    y += 12 if _chains(designs) else 0
    for constraint, spans in _tracks(designs):
        bars = "".join(
            f"M{(a - 1) * CELL} {y + 1}h{(b - a + 1) * CELL - 1}v4h-{(b - a + 1) * CELL - 1}z" for a, b in spans
        )
        parts.append(
            f'<path d="{bars}" fill="{PLACE}" fill-opacity=".75"><title>{escape(constraint.describe())}</title></path>'
        )
        y += TRACK
    return parts


def _chains(designs: Designs) -> list[tuple[str, int]]:
    """Name and first position of each chain, where there are several."""
    named = designs.spec.places
    if named is None or len(named.chains) == 1:
        return []
    return [(chain, named.span(chain)[0]) for chain in named.chains]


def _residues(designs: Designs, design: Design) -> list[str]:
    text, parts = design.sequence, []
    for letters, colour in CLASSES.values():
        spans = _runs(np.array([letter in letters for letter in text], bool))
        cells = "".join(f"M{a * CELL} 1h{(b - a) * CELL}v15h-{(b - a) * CELL}z" for a, b in spans)
        parts += [f'<path d="{cells}" fill="{colour}"/>'] if cells else []
    # One place per letter, so that the letters sit in their cells whatever the font.
    at = " ".join(str(i * CELL + 1) for i in range(len(text)))
    parts.append(f'<text x="{at}" y="12" fill="#222">{escape(text)}</text>')
    given = "".join(f"M{a * CELL} 16h{(b - a) * CELL}" for a, b in _runs(np.asarray(design.order) < 0))
    parts += [f'<path d="{given}" stroke="{GIVEN}" stroke-width="1.4"/>'] if given else []
    starts = [first for _, first in _chains(designs)][1:]
    cuts = "".join(f"M{(first - 1) * CELL} 0v{ROW}" for first in starts)
    parts += [f'<path d="{cuts}" stroke="#222" stroke-width="1.2"/>'] if cuts else []
    for first, last in _motifs(designs, text):
        box = f'x="{first * CELL}" y="1" width="{(last - first) * CELL}" height="15"'
        parts.append(f'<rect {box} fill="none" stroke="{MOTIF}" stroke-width="1.4" rx="2"/>')
    return parts


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Stretches where ``flags`` [L] hold, 0-based, the end not included."""
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _motifs(designs: Designs, text: str) -> list[tuple[int, int]]:
    """Spans of the patterns that the spec demands."""
    spans = []
    for constraint in designs.constraints:
        if isinstance(constraint, Pattern) and constraint.bounds is not None and constraint.bounds.low > 0:
            offset = constraint.region.first - 1
            for match in re.finditer(constraint.regex, constraint.region.cut(text)):
                spans.append((match.start() + offset, match.end() + offset))
    return spans


def _legend() -> list[str]:
    parts, x = [], 0
    for name, (_, colour) in CLASSES.items():
        parts.append(f'<rect x="{x}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="9" fill="#333">{name}</text>')
        x += 22 + 6 * len(name)
    marks = (
        ("motif", f'<rect x="{{x}}" width="10" height="10" fill="none" stroke="{MOTIF}" stroke-width="1.4"/>'),
        ("given", f'<path d="M{{x}} 8h10" stroke="{GIVEN}" stroke-width="1.4"/>'),
        ("constrained", f'<rect x="{{x}}" y="3" width="10" height="4" fill="{PLACE}"/>'),
    )
    for name, mark in marks:
        parts += [mark.format(x=x), f'<text x="{x + 14}" y="9" fill="#333">{name}</text>']
        x += 22 + 6 * len(name)
    return parts
