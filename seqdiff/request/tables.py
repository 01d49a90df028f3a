"""What the terminal shows."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from seqdiff.constraints.contig import Contig
from seqdiff.core.layout import format_positions
from seqdiff.request.designs import Designs
from seqdiff.request.dna import Coding
from seqdiff.request.problem import Problem
from seqdiff.request.report import GUARANTEES, rate


def show_designs(console: Console, designs: Designs, problem: Problem, folder: Path) -> None:
    """The summary of a run: constraints, the designs, and where they are."""
    table = _table("constraint", "route", ("states", "right"), ("satisfied", "right"))
    for n, row in enumerate(problem.compiled.explain()):
        kept = sum(design.verdicts[n].ok for design in designs)
        table.add_row(str(row["constraint"]), str(row["route"]), str(row["states"]), f"{kept} of {len(designs)}")
    console.print(table)
    recovers = designs.spec.structure is not None
    native = [("recovery", "right")] if recovers else []
    listing = _table("id", ("length", "right"), ("score", "right"), *native, ("NFE", "right"))
    for column in listing.columns:
        column.no_wrap, column.min_width = True, len(str(column.header))
    listing.columns[0].min_width = len(designs[0].id)
    listing.add_column("sequence" if designs.spec.setting.sequential else "design", no_wrap=True, overflow="ellipsis")
    for design in designs[:8]:
        cells = [design.id, str(len(design.sequence)), f"{design.score:.3f}"]
        cells += [] if design.recovery is None else [f"{design.recovery:.2f}"]
        listing.add_row(
            *cells,
            str(design.calls),
            "/".join(map(designs.spec.setting.show, designs.spec.by_chain(design.sequence).values())),
        )
    console.print(listing)
    if len(designs) > 8:
        console.print(f"... and {len(designs) - 8} more")
    if recovers:
        mean = sum(design.recovery or 0.0 for design in designs) / len(designs)
        console.print(f"mean recovery of the structure's own letters: {mean:.3f}", highlight=False)
    if designs.spec.sampling.particles > 1:
        smallest = min(design.ess for design in designs)
        console.print(f"smallest effective share of the particles on the way: {smallest:.2f}", highlight=False)
    most = "" if designs.guarantee == "exact" else "at most "
    console.print(
        f"{designs.satisfied} of {len(designs)} designs satisfy every constraint; guarantee: {designs.guarantee}; "
        f"plain rejection from the model's first proposal would accept {most}{rate(designs.acceptance)}; "
        f"{designs.run['seconds']} s; written to {folder}",
        highlight=False,
        soft_wrap=True,
    )


def show_check(console: Console, problem: Problem) -> None:
    """The spec as understood, how each constraint is kept, and how rare its solutions are."""
    console.print(problem.spec.to_yaml().rstrip(), markup=False, highlight=False, soft_wrap=True)
    compiled = problem.compiled
    noted = any(row["note"] for row in compiled.explain())
    table = _table("constraint (positions are 1-based)", "route", ("states", "right"), *(["why"] if noted else []))
    for row in compiled.explain():
        cells = [str(row[key]) for key in ("constraint", "route", "states", "note")]
        table.add_row(*cells[: len(table.columns)])
    console.print(table)
    for contig in (item for item in problem.spec.constraints if isinstance(item, Contig)):
        echo = _table("contig segment", "positions in the design", "residues")
        for row in contig.echo():
            echo.add_row(*row)
        console.print(echo)
    lengths = compiled.lengths()
    low, high = problem.spec.length
    asked = high - low + 1 if isinstance(problem.spec.draw, str) else len(problem.spec.draw)
    lost = asked - len(lengths)
    infeasible = f" ({lost} of the lengths asked for cannot satisfy the constraints)" if lost else ""
    determined = int((compiled.determined() >= 0).sum())
    at_most = "" if compiled.guarantee == "exact" else "at most "
    automaton = f"joint automaton: at most {compiled.states} states at a position" if compiled.tier is None else ""
    for line in (
        f"feasible lengths: {format_positions(lengths.tolist())}{infeasible}",
        f"{automaton}{'; ' if automaton else ''}{determined} positions are determined",
        f"guarantee: {GUARANTEES[compiled.guarantee]}",
        f"plain rejection would accept {at_most}{rate(problem.acceptance(problem.background()))} of sequences drawn "
        "from background frequencies",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def show_codings(console: Console, codings: Sequence[tuple[str, Coding]], out: Path) -> None:
    """Coding sequences, the rules that they obey, and where they are."""
    table = _table("id", ("nucleotides", "right"), ("GC %", "right"), ("log usage", "right"), ("rules kept", "right"))
    for name, coding in codings[:20]:
        gc = 100 * sum(base in "GC" for base in coding.dna) / len(coding.dna)
        kept = sum(verdict.ok for verdict in coding.verdicts.values())
        cells = (str(len(coding.dna)), f"{gc:.1f}", f"{coding.log_usage:.3f}", f"{kept} of {len(coding.verdicts)}")
        table.add_row(name, *cells)
    console.print(table)
    if len(codings) > 20:
        console.print(f"... and {len(codings) - 20} more")
    console.print(f"written to {out}", highlight=False, soft_wrap=True)


def _table(*columns: str | tuple[str, str]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        name, justify = column if isinstance(column, tuple) else (column, "left")
        table.add_column(name, justify=justify, overflow="fold")  # pyright: ignore[reportArgumentType]
    return table
