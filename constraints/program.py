"""From constraints to a program: the front door of this package.

Every constraint is lowered, the parts are fused into one automaton, and what cannot be is explained in the user's own
words: a set that nothing satisfies is reduced to constraints that clash among themselves, and a motif that is too big
for the state budget is conditioned on the path of one placement instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqdiff.constraints.base import Constraint, Lowered, Scan
from seqdiff.constraints.chain import ChainProgram, make_program
from seqdiff.constraints.compiler import DeadEnd, Layers, OverBudget, build_layers
from seqdiff.core.errors import BudgetError, InfeasibleError
from seqdiff.core.layout import Layout

STATE_BUDGET = 8192


@dataclass(frozen=True)
class Part:
    """How one constraint is kept.

    Attributes:
        constraint: the constraint.
        route: ``letters`` (allowed letters only), ``automaton``, or ``path`` (one hidden placement of a motif).
        states: automaton states that the joint automaton reaches; 0 for ``letters``.
    """

    constraint: Constraint
    route: str
    states: int


@dataclass(frozen=True)
class Compiled:
    """All constraints of one canvas.

    Attributes:
        layout: the canvas.
        layers: the joint automaton (host).
        parts: how each constraint is kept.
        guarantee: ``exact``: draws follow the proposal given the constraints.
    """

    layout: Layout
    layers: Layers
    parts: tuple[Part, ...]
    guarantee: str = "exact"

    def explain(self) -> list[dict[str, str | int]]:
        """One row per constraint: its words, its route and its states."""
        return [
            {"constraint": part.constraint.describe(), "route": part.route, "states": part.states}
            for part in self.parts
        ]

    @property
    def states(self) -> int:
        """Most states of the joint automaton at any position."""
        return max(len(accept) for accept in self.layers.accept)

    def lengths(self) -> np.ndarray:
        """Lengths for which the constraints can be satisfied, ascending."""
        return self.layers.lengths()

    def determined(self) -> np.ndarray:
        """Ids of the letters that the constraints leave no choice about, int32 [max_length]; -1 where they do."""
        letters = np.array([self.layers.letters(i) for i in range(self.layout.max_length)])
        return np.where(letters.sum(axis=1) == 1, letters.argmax(axis=1), -1).astype(np.int32)

    def program(self, size: int) -> ChainProgram:
        """The device program for canvases padded to ``size`` positions."""
        return make_program(self.layers, size)


def compile_constraints(constraints: Sequence[Constraint], layout: Layout, *, budget: int = STATE_BUDGET) -> Compiled:
    """Fuse ``constraints`` for a canvas.

    Args:
        constraints: all must hold at once.
        layout: the canvas.
        budget: largest number of joint states at a position before merging.

    Raises:
        InputError: a constraint does not fit the canvas (a position out of range).
        InfeasibleError: nothing satisfies them; names a minimal clashing set and the positions.
        BudgetError: too many states and no other route; names the constraint.
    """
    lowered = [constraint.lower(layout) for constraint in constraints]
    try:
        lowered, layers = _fit(constraints, lowered, layout, budget)
    except DeadEnd:
        raise _infeasible(constraints, lowered, layout, budget) from None
    visited = iter(layers.visited)
    parts = []
    for constraint, part in zip(constraints, lowered, strict=True):
        states = sum(next(visited) for _ in part.scans)
        route = part.scans[0].route if part.scans else "letters"
        parts.append(Part(constraint, route, states))
    return Compiled(layout, layers, tuple(parts))


def _fit(
    constraints: Sequence[Constraint], lowered: list[Lowered], layout: Layout, budget: int
) -> tuple[list[Lowered], Layers]:
    """The joint automaton, with over-large motifs moved to their path route one by one, largest first."""
    while True:
        try:
            return lowered, _build(lowered, layout, budget)
        except OverBudget as over:
            owner = [i for i, part in enumerate(lowered) for _ in part.scans]
            order = [owner[k] for k in np.argsort(over.states)[::-1]]
            movable = [i for i in order if lowered[i].fallback is not None]
            if not movable:
                largest = constraints[order[0]].describe()
                raise BudgetError(
                    f"the constraints need more than {budget} automaton states at position {over.position}, most of "
                    f"them for {largest!r}; narrow it to a region, shorten its wildcards or drop a constraint"
                ) from None
            fallback = lowered[movable[0]].fallback
            assert fallback is not None
            lowered = [*lowered]
            lowered[movable[0]] = replace(lowered[movable[0]], scans=fallback(), fallback=None)


def _build(lowered: Sequence[Lowered], layout: Layout, budget: int) -> Layers:
    scans: tuple[Scan, ...] = tuple(scan for part in lowered for scan in part.scans)
    return build_layers(_allowed(lowered, layout), scans, min_length=layout.min_length, budget=budget)


def _allowed(lowered: Sequence[Lowered], layout: Layout) -> np.ndarray:
    allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
    for part in lowered:
        if part.allowed is not None:
            allowed &= part.allowed
    return allowed


def _infeasible(
    constraints: Sequence[Constraint], lowered: list[Lowered], layout: Layout, budget: int
) -> InfeasibleError:
    """Drop every constraint without which the rest still clashes (a deletion filter); what is left is minimal."""
    kept = list(range(len(constraints)))
    for i in range(len(constraints)):
        rest = [k for k in kept if k != i]
        if _dead_end(constraints, lowered, rest, layout, budget) is not None:
            kept = rest
    position = _dead_end(constraints, lowered, kept, layout, budget) or layout.max_length
    empty = np.flatnonzero(~_allowed([lowered[k] for k in kept], layout).any(axis=1)) + 1
    positions = tuple(int(p) for p in empty) or (position,)
    conflict = tuple(constraints[k].describe() for k in kept)
    shortest, longest = layout.min_length, layout.max_length
    size = f"{longest}" if shortest == longest else f"{shortest}-{longest}"
    named = "; ".join(f"({n}) {words}" for n, words in enumerate(conflict, 1))
    where = f"position {position}" if len(positions) == 1 else f"positions {positions[0]}-{positions[-1]}"
    return InfeasibleError(
        f"no design of length {size} satisfies {'all of ' if len(conflict) > 1 else ''}{named}; "
        f"read from the left, the last hope ends at {where}; relax one of them",
        conflict=conflict,
        positions=positions,
    )


def _dead_end(
    constraints: Sequence[Constraint], lowered: list[Lowered], kept: list[int], layout: Layout, budget: int
) -> int | None:
    """Where the kept constraints fail together; None when they do not, or are too large to tell."""
    try:
        _fit([constraints[k] for k in kept], [lowered[k] for k in kept], layout, budget)
    except DeadEnd as dead:
        return dead.position
    except BudgetError:
        return None
    return None
