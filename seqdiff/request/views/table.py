"""Tables of designs in HTML: one row each with its residues in colour, and one row for each constraint."""

from html import escape

from seqdiff.constraints.base import Verdict
from seqdiff.request.designs import Design, Designs
from seqdiff.request.domains.protein import PROPERTIES
from seqdiff.request.picture import head_svg, legend_svg, row_svg
from seqdiff.request.views.html import is_number, paragraph, table

MOST_ROWS, COLOURED, MARKS, REASONS = 2000, 150, 200, 50
COLOURED_RESIDUES = 60_000
LEADING = 4
"""Columns before the sequence."""


def designs_table(designs: Designs, most: int = MOST_ROWS) -> str:
    """One row for each of the first ``most`` designs: verdict, sequence under a ruler, and numbers.

    The first ``COLOURED`` sequences are coloured (fewer where they are long), later ones are plain text.
    """
    titles = column_titles(designs)
    sequential = designs.spec.setting.sequential
    heads = [_head(title) for title in titles]
    if sequential:
        heads.insert(LEADING, f'<th class="letters">{head_svg(designs)}</th>')
    rows, drawn = [], 0
    for n, design in enumerate(designs.designs[:most]):
        drawn += len(design.sequence)
        coloured = n < COLOURED and drawn <= COLOURED_RESIDUES
        rows.append(_row(designs, design, titles, coloured=coloured))
    return (
        f'<div class="scroll"><table class="designs"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{legend_svg() if sequential else ''}"
    )


def column_titles(designs: Designs) -> list[str]:
    """Of the table's columns, but for the sequence after the first ``LEADING``."""
    native = ("recovery",) if designs.spec.structure else ()
    particles = ("ess",) if designs.spec.sampling.particles > 1 else ()
    first = designs[0] if len(designs) else None
    goals = [title for title in first.goals if title not in PROPERTIES] if first else []
    titles = list(designs.spec.setting.properties(first.sequence)) if first else []
    return ["id", "satisfied", "score", "NFE", "length", *native, *particles, *goals, *titles]


def _cells(designs: Designs, design: Design) -> list[str]:
    properties = designs.spec.setting.properties(design.sequence)
    native = [] if designs.spec.structure is None else [f"{design.recovery or 0.0:.3f}"]
    particles = [f"{design.ess:.2f}"] if designs.spec.sampling.particles > 1 else []
    return [
        *(design.id, "yes" if design.ok else "NO", _score(design), str(design.calls), str(len(design.sequence))),
        *native,
        *particles,
        *(f"{value:.3g}" for title, value in design.goals.items() if title not in PROPERTIES),
        *(f"{value:.2f}".removesuffix(".00") for value in properties.values()),
    ]


def _score(design: Design) -> str:
    return f"{design.score:.3f}" if design.score == design.score else ""


def _head(title: str) -> str:
    style = "id" if title == "id" else "" if title == "satisfied" else "number"
    return f'<th class="{style}" data-sort>{escape(title)}</th>'


def _row(designs: Designs, design: Design, titles: list[str], *, coloured: bool) -> str:
    parts = []
    for title, text in zip(titles, _cells(designs, design), strict=True):
        if title == "id":
            parts.append(f'<td class="id">{escape(text)}</td>')
        elif title == "satisfied":
            parts.append(
                f'<td class="{"good" if design.ok else "bad"}" title="{escape(_failures(designs, design))}">{text}</td>'
            )
        else:
            parts.append(f'<td class="number">{escape(text)}</td>')
    if designs.spec.setting.sequential:
        letters = row_svg(designs, design) if coloured else escape(design.sequence)
        parts.insert(LEADING, f'<td class="letters">{letters}</td>')
    return f"<tr>{''.join(parts)}</tr>\n"


def _failures(designs: Designs, design: Design) -> str:
    found = zip(designs.constraints, design.verdicts, strict=True)
    failed = [f"{constraint.describe()}: {verdict.reason}" for constraint, verdict in found if not verdict.ok]
    rules = {} if design.coding is None else design.coding.verdicts
    failed += [f"DNA: {words}: {verdict.reason}" for words, verdict in rules.items() if not verdict.ok]
    return "; ".join(failed) or "every constraint holds"


def constraints_table(designs: Designs) -> str:
    """Constraints by designs: how each is kept, on how many designs it holds, and the checker's reason for each."""
    explained = designs.run.get("constraints") or []
    explained = explained if len(explained) == len(designs.constraints) else [{}] * len(designs.constraints)
    rows = []
    for n, (constraint, how) in enumerate(zip(designs.constraints, explained, strict=True)):
        verdicts = [_checked(design.id, design.verdicts[n]) for design in designs]
        route = " ".join(str(how[key]) for key in ("route", "note") if how.get(key))
        rows.append(_constraint(constraint.describe(), route, str(how.get("states") or ""), verdicts))
    coded = [design for design in designs if design.coding]
    for words in dict.fromkeys(words for design in coded if design.coding for words in design.coding.verdicts):
        verdicts = [_checked(design.id, design.coding.verdicts[words]) for design in coded if design.coding]
        verdicts += [(design.id, False, design.no_coding) for design in designs if not design.coding]
        rows.append(_constraint(f"DNA: {words}", "", "", verdicts))
    heads = "".join(f"<th>{title}</th>" for title in ("constraint", "kept by", "states", "satisfied", "designs"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _checked(name: str, verdict: Verdict) -> tuple[str, bool, str]:
    return name, verdict.ok, verdict.reason


def _constraint(words: str, route: str, states: str, verdicts: list[tuple[str, bool, str]]) -> str:
    kept = sum(ok for _, ok, _ in verdicts)
    style = "good" if kept == len(verdicts) else "bad"
    first = sorted(verdicts, key=lambda verdict: verdict[1])  # failures first, else in the designs' order
    marks = "".join(
        f'<i{"" if ok else " class=no"} title="{escape(f"{name}: {reason}")}"></i>'
        for name, ok, reason in first[:MARKS]
    )
    reasons = [(name, "yes" if ok else "NO", reason) for name, ok, reason in first[:REASONS]]
    more = paragraph(f"and {len(first) - REASONS} more") if len(first) > REASONS else ""
    return (
        f"<tr><td>{escape(words)}</td><td>{escape(route)}</td>"
        f'<td class="{"number" if is_number(states) else ""}">{escape(states)}</td>'
        f'<td class="{style}">{kept} of {len(verdicts)}</td>'
        f'<td><div class="marks">{marks}</div><details><summary class="muted">reasons</summary>'
        f"{table(('', '', ''), reasons)}{more}</details></td></tr>\n"
    )
