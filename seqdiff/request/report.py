"""The report page of a run: one HTML file that needs nothing else."""

from collections.abc import Sequence
from html import escape

from seqdiff.request.designs import Designs
from seqdiff.request.domains.protein import PROPERTIES
from seqdiff.request.picture import to_svg

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: .9rem; } .wide { overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: left; } td.number { text-align: right; }
.good { color: #17663a; } .bad { color: #b3261e; font-weight: 600; } pre { background: #f6f6f4; padding: .8rem; }
"""
GUARANTEES = {
    "exact": "exact: every design satisfies every constraint; draws follow the model given them",
    "feasible": "feasible: every design satisfies every constraint; their law approximates the model given them",
}


def page(designs: Designs) -> str:
    """The whole page."""
    run = designs.run
    facts = [
        ("model", designs.spec.model),
        ("seed", str(designs.spec.seed)),
        ("guarantee", GUARANTEES[designs.guarantee]),
        ("law", str(designs.run.get("law", ""))),
        ("plain rejection from the model's first proposal would accept", rate(designs.acceptance)),
        ("seconds", str(run.get("seconds", ""))),
        ("devices", ", ".join(run.get("devices", []))),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>seqdiff designs</title>'
        f"<style>{_STYLE}</style></head><body><h1>{_headline(designs)}</h1>"
        f"{_table(('', ''), facts)}"
        f"<h2>Designs</h2>{fragment(designs)}"
        f"<h2>Spec as understood</h2><pre>{escape(designs.spec.to_yaml())}</pre></body></html>\n"
    )


def fragment(designs: Designs) -> str:
    """Picture and tables without the frame, as a notebook shows them."""
    picture = designs.spec.setting.picture([design.id for design in designs], designs.sequences)
    return (
        f'<div class="wide">{to_svg(designs) if picture is None else picture}</div>'
        f"<h2>Constraints, checked on every design</h2>{_constraints(designs)}"
        f'<h2>Table</h2><div class="wide">{_designs(designs)}</div>'
    )


def _headline(designs: Designs) -> str:
    mark = "good" if designs.satisfied == len(designs) else "bad"
    words = f'{len(designs)} designs, <span class="{mark}">{designs.satisfied} satisfy every constraint</span>'
    return words + (f' <span class="bad">(stopped: {escape(designs.stopped)})</span>' if designs.stopped else "")


def _constraints(designs: Designs) -> str:
    rows = []
    explained = designs.run.get("constraints") or [{} for _ in designs.constraints]
    for n, (constraint, how) in enumerate(zip(designs.constraints, explained, strict=True)):
        kept = sum(design.verdicts[n].ok for design in designs)
        route = " ".join(str(how[key]) for key in ("route", "note") if how.get(key))
        rows.append((constraint.describe(), route, str(how.get("states", "")), f"{kept} of {len(designs)}"))
    for words in dict.fromkeys(words for design in designs if design.coding for words in design.coding.verdicts):
        kept = sum(bool(design.coding and design.coding.verdicts[words].ok) for design in designs)
        rows.append((f"DNA: {words}", "", "", f"{kept} of {len(designs)}"))
    return _table(("constraint", "kept by", "states", "satisfied"), rows)


def _designs(designs: Designs) -> str:
    rows, titles = [], []
    for design in designs:
        found = designs.spec.setting.properties(design.sequence)
        titles = list(found)
        row = [design.id, str(len(design.sequence)), f"{design.score:.3f}", str(design.calls)]
        row += [] if design.recovery is None else [f"{design.recovery:.3f}"]
        row += [f"{value:.3g}" for title, value in design.goals.items() if title not in PROPERTIES]
        rows.append(
            [*row, *(f"{value:.2f}".removesuffix(".00") for value in found.values()), "yes" if design.ok else "NO"]
        )
    native = ("recovery",) if designs.spec.structure else ()
    goals = [title for title in designs[0].goals if title not in PROPERTIES] if len(designs) else []
    return _table(("id", "length", "score", "NFE", *native, *goals, *titles, "satisfied"), rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>" if any(header) else f"<table>{body}</table>"


def _cell(text: str) -> str:
    numeric = text.replace(".", "", 1).replace("-", "", 1).isdigit()
    return f'<td class="number">{escape(text)}</td>' if numeric else f"<td>{escape(text)}</td>"


def rate(share: float) -> str:
    """A small probability in words."""
    if share <= 0:
        return "less than 1 in 1e300"
    return f"{share:.3g} (1 in {1 / share:,.0f})" if share > 1e-9 else f"{share:.3g} (1 in {1 / share:.2g})"
