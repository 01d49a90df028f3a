"""A picture of designs: one row of coloured residues each, as SVG (no plotting library needed)."""

import re
from html import escape

from seqdiff.constraints.pattern import Pattern
from seqdiff.request.designs import Design, Designs

CELL, ROW, LEFT, TOP, LEGEND = 8, 18, 110, 40, 890
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
_COLOUR = {letter: colour for letters, colour in CLASSES.values() for letter in letters}


def to_svg(designs: Designs, limit: int = 48) -> str:
    """The first ``limit`` designs; motifs that were asked for are framed, residues that were given are underlined."""
    shown = designs.designs[:limit]
    longest = max((len(design.sequence) for design in shown), default=1)
    width, height = max(LEFT + longest * CELL + 10, LEGEND), TOP + len(shown) * ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_ruler(longest),
    ]
    for i, design in enumerate(shown):
        parts += _row(designs, design, TOP + i * ROW)
    parts += _chains(designs, TOP + len(shown) * ROW)
    parts += _legend(height - 16)
    return "\n".join([*parts, "</svg>\n"])


def _ruler(longest: int) -> list[str]:
    marks = [1, *range(10, longest + 1, 10)]
    return [
        f'<text x="{LEFT + (p - 0.5) * CELL}" y="{TOP - 12}" fill="#777" text-anchor="middle">{p}</text>' for p in marks
    ]


def _chains(designs: Designs, bottom: int) -> list[str]:
    """Names of the chains over their starts, and a line between them, where there are several."""
    places, parts = designs.spec.places, []
    if places is None or len(places.chains) == 1:
        return parts
    for chain in places.chains:
        first, _ = places.span(chain)
        x = LEFT + (first - 1) * CELL
        parts.append(f'<text x="{x + 1}" y="{TOP - 1}" fill="#333" font-weight="bold">{escape(chain)}</text>')
        if first > 1:
            parts.append(f'<line x1="{x}" x2="{x}" y1="{TOP - 9}" y2="{bottom}" stroke="#222" stroke-width="1.2"/>')
    return parts


def _row(designs: Designs, design: Design, y: int) -> list[str]:
    text = design.sequence
    parts = [f'<text x="4" y="{y + 12}" fill="#333">{escape(design.id)}</text>']
    for match in re.finditer(r"(.)\1*", "".join(_class_of(letter) for letter in text)):
        colour = _COLOUR.get(text[match.start()], "#eee")
        parts.append(_rect(match.start(), match.end(), y, f'fill="{colour}"'))
    # One place per letter, so that the letters sit in their cells whatever the font.
    places = " ".join(str(LEFT + i * CELL + 1) for i in range(len(text)))
    parts.append(f'<text x="{places}" y="{y + 12}" fill="#222">{escape(text)}</text>')
    for first, last in _given(design):
        x1, x2 = LEFT + first * CELL, LEFT + last * CELL
        parts.append(f'<line x1="{x1}" x2="{x2}" y1="{y + 15}" y2="{y + 15}" stroke="#555" stroke-width="1.4"/>')
    for first, last in _motifs(designs, text):
        parts.append(_rect(first, last, y, 'fill="none" stroke="#b3261e" stroke-width="1.4" rx="2"'))
    return parts


def _rect(first: int, last: int, y: int, style: str) -> str:
    return f'<rect x="{LEFT + first * CELL}" y="{y + 1}" width="{(last - first) * CELL}" height="15" {style}/>'


def _class_of(letter: str) -> str:
    return next((str(i) for i, (letters, _) in enumerate(CLASSES.values()) if letter in letters), "?")


def _given(design: Design) -> list[tuple[int, int]]:
    flags = "".join("x" if step < 0 else "." for step in design.order)
    return [match.span() for match in re.finditer("x+", flags)]


def _motifs(designs: Designs, text: str) -> list[tuple[int, int]]:
    """Spans of the patterns that the spec demands."""
    spans = []
    for constraint in designs.constraints:
        if isinstance(constraint, Pattern) and constraint.bounds is not None and constraint.bounds.low > 0:
            offset = constraint.region.first - 1
            for match in re.finditer(constraint.regex, constraint.region.cut(text)):
                spans.append((match.start() + offset, match.end() + offset))
    return spans


def _legend(y: int) -> list[str]:
    parts, x = [], LEFT
    for name, (_, colour) in CLASSES.items():
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="{y + 9}" fill="#333">{name}</text>')
        x += 24 + 7 * len(name)
    parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="none" stroke="#b3261e" stroke-width="1.4"/>')
    parts.append(f'<text x="{x + 14}" y="{y + 9}" fill="#333">motif asked for</text>')
    parts.append(f'<line x1="{x + 122}" x2="{x + 134}" y1="{y + 8}" y2="{y + 8}" stroke="#555" stroke-width="1.4"/>')
    parts.append(f'<text x="{x + 138}" y="{y + 9}" fill="#333">given</text>')
    return parts
