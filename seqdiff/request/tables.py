"""What the terminal shows."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from seqdiff.domains.protein.properties import BACKGROUND
from seqdiff.request.designs import Designs
from seqdiff.request.problem import Problem


def show_designs(console: Console, designs: Designs, problem: Problem, folder: Path) -> None:
    """The summary of a run: constraints, the designs, and where they are."""
    table = _table("constraint", "route", ("states", "right"), ("satisfied", "right"))
    for n, row in enumerate(problem.compiled.explain()):
        kept = sum(design.verdicts[n].ok for design in designs)
        table.add_row(str(row["constraint"]), str(row["route"]), str(row["states"]), f"{kept} of {len(designs)}")
    console.print(table)
    listing = _table("id", ("length", "right"), ("score", "right"), ("NFE", "right"))
    for column in listing.columns:
        column.no_wrap, column.min_width = True, len(str(column.header))
    listing.columns[0].min_width = len(designs[0].id)
    listing.add_column("sequence", no_wrap=True, overflow="ellipsis")
    for design in designs[:8]:
        listing.add_row(design.id, str(len(design.sequence)), f"{design.score:.3f}", str(design.calls), design.sequence)
    console.print(listing)
    if len(designs) > 8:
        console.print(f"... and {len(designs) - 8} more")
    console.print(
        f"{designs.satisfied} of {len(designs)} designs satisfy every constraint; guarantee: {designs.guarantee}; "
        f"{designs.run['seconds']} s; written to {folder}",
        highlight=False,
        soft_wrap=True,
    )


def show_check(console: Console, problem: Problem) -> None:
    """The spec as understood, how each constraint is kept, and how rare its solutions are."""
    console.print(problem.spec.to_yaml().rstrip(), markup=False, highlight=False, soft_wrap=True)
    compiled = problem.compiled
    table = _table("constraint (positions are 1-based)", "route", ("states", "right"))
    for row in compiled.explain():
        table.add_row(str(row["constraint"]), str(row["route"]), str(row["states"]))
    console.print(table)
    lengths = compiled.lengths()
    low, high = problem.spec.length
    span = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]}-{lengths[-1]}"
    lost = high - low + 1 - len(lengths)
    infeasible = f" ({lost} of the lengths asked for cannot satisfy the constraints)" if lost else ""
    determined = int((compiled.determined() >= 0).sum())
    rate = problem.acceptance(BACKGROUND)
    for line in (
        f"feasible lengths: {span}{infeasible}",
        f"joint automaton: at most {compiled.states} states at a position; {determined} positions are determined",
        f"guarantee: {compiled.guarantee} (every design satisfies every constraint; draws follow the model given them)",
        f"plain rejection would accept {_rate(rate)} of sequences drawn from background frequencies",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def _rate(rate: float) -> str:
    if rate <= 0:
        return "fewer than 1 in 1e38"
    return f"{rate:.3g} (1 in {1 / rate:,.0f})" if rate > 1e-9 else f"{rate:.3g} (1 in {1 / rate:.2g})"


def _table(*columns: str | tuple[str, str]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        name, justify = column if isinstance(column, tuple) else (column, "left")
        table.add_column(name, justify=justify, overflow="fold")  # pyright: ignore[reportArgumentType]
    return table
