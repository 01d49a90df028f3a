"""What to say when nothing satisfies a set of constraints: a minimal clash, and the least change that ends it."""

import time
from collections.abc import Callable, Sequence

from seqdiff.constraints.base import Constraint
from seqdiff.core.errors import InfeasibleError
from seqdiff.core.layout import Layout

SECONDS = 20.0
Probe = Callable[[Sequence[Constraint]], tuple[int, ...] | None]
"""Positions at which a set fails; None where it can be satisfied, or where that cannot be told."""


def conflict_error(constraints: Sequence[Constraint], layout: Layout, probe: Probe, locate: Probe) -> InfeasibleError:
    """The error for constraints that ``probe`` finds to fail together; ``locate`` knows better where.

    Constraints are dropped in ever smaller groups as long as the rest still clashes (a deletion filter), so that what
    is left is minimal unless the time runs out. Then each constraint with a number in it is widened, by doubling and
    bisection, until all constraints together can be satisfied.
    """
    deadline = time.monotonic() + SECONDS
    kept, minimal = _smallest(list(constraints), probe, deadline)
    positions = locate(kept) or probe(kept) or (layout.max_length,)
    conflict = tuple(constraint.describe() for constraint in kept)
    shortest, longest = layout.min_length, layout.max_length
    size = f"{longest}" if shortest == longest else f"{shortest}-{longest}"
    named = "; ".join(f"({n}) {words}" for n, words in enumerate(conflict, 1))
    where = f"position {positions[0]}" if len(positions) == 1 else f"positions {positions[0]}-{positions[-1]}"
    advice = _relaxation(list(constraints), kept, layout, probe, deadline)
    return InfeasibleError(
        f"no design of length {size} satisfies {'all of ' if len(conflict) > 1 else ''}{named}; "
        f"read from the left, the last hope ends at {where}; {advice or 'relax one of them'}"
        + ("" if minimal else " (there was no time to look for a smaller clash)"),
        conflict=conflict,
        positions=positions,
    )


def _smallest(kept: list[Constraint], probe: Probe, deadline: float) -> tuple[list[Constraint], bool]:
    size = max(1, len(kept) // 2)
    while True:
        start = 0
        while start < len(kept):
            if time.monotonic() > deadline:
                return kept, False
            rest = kept[:start] + kept[start + size :]
            if rest and probe(rest) is not None:
                kept = rest
            else:
                start += size
        if size == 1:
            return kept, True
        size = max(1, size // 2)


def _relaxation(
    constraints: list[Constraint], kept: list[Constraint], layout: Layout, probe: Probe, deadline: float
) -> str:
    """``feasible if ...`` for the constraint that needs the smallest step; empty where none alone suffices."""
    best: tuple[int, str] | None = None
    for constraint in kept:
        relaxed = getattr(constraint, "relaxed", None)
        if relaxed is None:
            continue

        def feasible(step: int, constraint: Constraint = constraint, relaxed: Callable = relaxed) -> bool:
            wider = [relaxed(step) if item is constraint else item for item in constraints]
            return time.monotonic() < deadline and probe(wider) is None

        step = 1
        while step < layout.max_length and not feasible(step):
            step *= 2
        if not feasible(step):
            continue
        low, high = step // 2, step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if feasible(middle) else (middle, high)
        if best is None or high < best[0]:
            best = high, relaxed(high).describe()
    return f"feasible if {best[1]}" if best else ""
