"""Pieces of HTML that reports are put together from; every word that comes from outside is escaped here."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from seqdiff.core.errors import InputError, MissingExtraError
from seqdiff.request.views.figure import to_uri

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GUARANTEES = {
    "exact": "exact: every design satisfies every constraint; draws follow the model given them",
    "feasible": "feasible: every design satisfies every constraint; their law approximates the model given them",
}
STYLE = """
.seqdiff { font: 14px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #222; background: #fff; }
.seqdiff h1 { font-size: 1.5rem; margin: 0; } .seqdiff h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
.seqdiff h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; } .seqdiff p { margin: .3rem 0 .6rem; max-width: 60rem; }
.seqdiff .muted { color: #666; font-size: .9em; }
.seqdiff .tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.seqdiff .tiles div { border: 1px solid #ddd; border-radius: 6px; padding: .4rem .9rem; }
.seqdiff .tiles b { display: block; font-size: 1.25rem; font-weight: 600; } .seqdiff .tiles span { color: #666; }
.seqdiff .scroll { overflow: auto; max-height: 36rem; border: 1px solid #e4e4e0; border-radius: 6px; }
.seqdiff .short { max-height: 20rem; }
.seqdiff .columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 0 2.5rem; }
.seqdiff .columns > * { min-width: 0; }
.seqdiff table { border-collapse: collapse; font-size: .88rem; margin: 0; color: #222; }
.seqdiff th, .seqdiff td { border-bottom: 1px solid #e4e4e0; padding: .22rem .7rem; text-align: left;
  vertical-align: top; background: #fff; }
.seqdiff td.number, .seqdiff th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.seqdiff .scroll thead th { position: sticky; top: 0; z-index: 2; vertical-align: bottom; white-space: nowrap; }
.seqdiff .scroll .id { position: sticky; left: 0; z-index: 1; white-space: nowrap; }
.seqdiff .scroll thead th.id { z-index: 3; } .seqdiff td svg, .seqdiff th svg { display: block; }
.seqdiff td.letters, .seqdiff th.letters { padding: 0 .4rem; font: 10px ui-monospace, Menlo, Consolas, monospace; }
.seqdiff .good { color: #17663a; } .seqdiff .bad { color: #b3261e; font-weight: 600; }
.seqdiff .marks { display: flex; flex-wrap: wrap; gap: 2px; width: 21rem; padding-top: .25rem; }
.seqdiff .marks i { width: 11px; height: 11px; border-radius: 2px; background: #8cc5a0; }
.seqdiff .marks i.no { background: #b3261e; }
.seqdiff pre { background: #f6f6f4; padding: .8rem; overflow: auto; max-height: 26rem; font-size: .82rem; margin: 0; }
.seqdiff figure { margin: .4rem 0 1rem; } .seqdiff figure img { max-width: 100%; height: auto; }
.seqdiff figcaption { color: #555; font-size: .88rem; max-width: 60rem; }
.seqdiff input { font: inherit; padding: .2rem .5rem; border: 1px solid #bbb; border-radius: 4px; width: 20rem; }
.seqdiff summary { cursor: pointer; color: #2b5c8a; }
.seqdiff td.letters { vertical-align: middle; }
.page th[data-sort] { cursor: pointer; } .page th[data-sort]::after { content: " \\2195"; color: #aaa; }
.seqdiff.seqdiff.seqdiff :is(th, td) { text-align: left; } /* Jupyter's own rules for tables are strong */
.seqdiff.seqdiff.seqdiff .number { text-align: right; } .seqdiff :is(th, td) svg { max-width: none; }
.seqdiff td:first-child { overflow-wrap: anywhere; }
"""
_BODY = (
    "body { margin: 0; background: #fff; } .seqdiff.page { max-width: 84rem; margin: 1.6rem auto; padding: 0 1.5rem; }"
)
# Click on a heading: sort by it. Type in the box: keep the rows whose id or sequence matches.
SCRIPT = """
for (const table of document.querySelectorAll("table.designs")) {
  const body = table.tBodies[0], value = (row, k) => row.cells[k].dataset.value ?? row.cells[k].textContent;
  table.querySelectorAll("th[data-sort]").forEach((head) => head.addEventListener("click", () => {
    const k = head.cellIndex, way = head.dataset.sort === "up" ? -1 : 1;
    head.dataset.sort = way > 0 ? "up" : "down";
    [...body.rows].sort((a, b) => {
      const [x, y] = [value(a, k), value(b, k)], d = Number(x) - Number(y);
      return way * (Number.isNaN(d) ? x.localeCompare(y) : d);
    }).forEach((row) => body.append(row));
  }));
  const box = table.closest("section").querySelector("input"), count = box.nextElementSibling;
  box.addEventListener("input", () => {
    let pattern, kept = 0;
    try { pattern = new RegExp(box.value, "i"); } catch { count.textContent = "not a pattern"; return; }
    for (const row of body.rows) {
      const letters = row.querySelector(".letters")?.textContent.trim() ?? "";
      row.hidden = !pattern.test(row.cells[0].textContent) && !(letters && pattern.test(letters));
      kept += !row.hidden;
    }
    count.textContent = `${kept} of ${body.rows.length}`;
  });
}
"""


def document(title: str, body: str) -> str:
    """A whole page that needs nothing else."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light">'
        f'<style>{STYLE}{_BODY}</style></head>\n<body><main class="seqdiff page">\n{body}\n</main>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def section(heading: str, *parts: str) -> str:
    """A heading and what stands under it; nothing where there is nothing."""
    inner = "\n".join(filter(None, parts))
    return f"<section><h2>{escape(heading)}</h2>\n{inner}</section>\n" if inner else ""


def columns(*parts: str) -> str:
    """Parts side by side where there is room."""
    shown = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div class="columns">{shown}</div>' if shown else ""


def paragraph(words: str) -> str:
    """Plain words, small; nothing without words."""
    return "" if not words else f'<p class="muted">{escape(words)}</p>'


def tiles(facts: Iterable[tuple[str, str]]) -> str:
    """Numbers that matter, large: (what, how much) pairs."""
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{escape(b)}</b><span>{escape(a)}</span></div>" for a, b in facts)
        + "</div>"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table of escaped cells; numbers at the right."""
    head = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in header) + "</tr>" if any(header) else ""
    return f"<table>{head}" + "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows) + "</table>"


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """What and how much, one below the other; rows without a value are left out."""
    shown = "".join(f"<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows if b)
    return f"<table>{shown}</table>" if shown else ""


def cell(text: str) -> str:
    """A cell of a table."""
    return f"<td{' class=number' if is_number(text) else ''}>{escape(text)}</td>"


def is_number(text: str) -> bool:
    """Whether a cell stands at the right."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def picture(draw: "Callable[[], Figure]", alt: str, caption: str = "") -> str:
    """A figure in the page; nothing where there is nothing to draw, and how to get it where a library is missing."""
    try:
        source = to_uri(draw())
    except MissingExtraError as error:
        return paragraph(f"{alt}: {error}")
    except InputError:
        return ""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img alt="{escape(alt)}" src="{source}">{words}</figure>'


def several(count: int, what: str) -> str:
    """A number and its noun: ``1 design``, ``2 designs``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def rate(share: float) -> str:
    """A small probability in words."""
    if share <= 0:
        return "less than 1 in 1e300"
    return f"{share:.3g} (1 in {1 / share:,.0f})" if share > 1e-9 else f"{share:.3g} (1 in {1 / share:.2g})"
