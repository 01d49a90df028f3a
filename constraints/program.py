"""From constraints to a program: the front door of this package.

Every constraint is lowered to parts, the parts are fused into one automaton over the letters to choose, and what cannot
be is told in the user's own words: a motif that is too big for the state budget is conditioned on the path of one
placement; what still does not fit, or is no chain, is kept by a solver (``seqdiff.constraints.solver``), for which the
automaton of the rest is the relaxation; a set that nothing satisfies is reduced to constraints that clash.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqdiff.constraints.base import Constraint
from seqdiff.constraints.chain import make_program
from seqdiff.constraints.compiler import DeadEnd, Layers, OverBudget, build_layers
from seqdiff.constraints.conflicts import conflict_error
from seqdiff.constraints.distinct_tier import distinct_tier
from seqdiff.constraints.graph.compile import graph_tier
from seqdiff.constraints.graph.reasons import reason_against
from seqdiff.constraints.parts import Lowered, Pairs, Scan, Sum
from seqdiff.constraints.readers import (
    Reader,
    Variables,
    make_variables,
    read_pairs,
    read_scan,
    read_sum,
    self_complementary,
)
from seqdiff.constraints.shared import SharedProgram
from seqdiff.constraints.solver import Solver, SolverProgram, Unsatisfiable
from seqdiff.constraints.tiers import Tier
from seqdiff.core.contracts import Program
from seqdiff.core.errors import BudgetError, InfeasibleError, InputError
from seqdiff.core.grid import GraphAlphabet
from seqdiff.core.layout import Layout

STATE_BUDGET = 16384
MAX_CONSTRAINTS = 1000


@dataclass(frozen=True)
class Part:
    """How one constraint is kept.

    Attributes:
        constraint: the constraint.
        route: ``letters`` (allowed letters only), ``shared letters``, ``automaton``, ``forest``, ``path`` (one hidden
            placement of a motif) or ``solver``.
        states: automaton states that were looked at; 0 where there is no automaton.
        note: why it is not kept by the automaton; empty where it is.
    """

    constraint: Constraint
    route: str
    states: int
    note: str = ""


@dataclass(frozen=True)
class Compiled:
    """All constraints of one canvas.

    Attributes:
        layout: the canvas.
        variables: letters to choose.
        layers: the joint automaton over them (host).
        parts: how each constraint is kept.
        solver: keeps what the automaton does not; None where it keeps everything.
        tier: keeps what is no automaton at all (rules about graphs, groups of different letters); None where there is
            nothing of the kind. The automaton then holds given letters only.
    """

    layout: Layout
    variables: Variables
    layers: Layers
    parts: tuple[Part, ...]
    solver: Solver | None = None
    tier: Tier | None = None

    @property
    def guarantee(self) -> str:
        """``exact``: draws follow the proposal given the constraints. ``feasible``: all satisfy, law approximate."""
        if self.tier is not None:
            return self.tier.guarantee
        return "exact" if self.solver is None else "feasible"

    def explain(self) -> list[dict[str, str | int]]:
        """One row per constraint: its words, its route, its states, and why it fell out of the automaton if it did."""
        return [
            {"constraint": part.constraint.describe(), "route": part.route, "states": part.states, "note": part.note}
            for part in self.parts
        ]

    @property
    def states(self) -> int:
        """Most states of the joint automaton at any step."""
        return self.layers.width

    def lengths(self) -> np.ndarray:
        """Lengths for which the constraints can be satisfied, ascending."""
        if self.tier is not None:
            return self.tier.lengths
        if self.solver is not None:
            return np.array(sorted(self.solver.solutions))
        return np.array([self.layout.max_length]) if self.variables.reordered else self.layers.lengths()

    def determined(self) -> np.ndarray:
        """Ids of the letters that the constraints leave no choice about, int32 [max_length]; -1 where they do."""
        found = np.full(self.layout.max_length, -1, np.int32)
        for position, step in enumerate(self.variables.owner):
            letters = self.layers.letters(int(step))
            if self.tier is not None and self.tier.letters is not None:
                letters = self.tier.letters[step]
            if letters.sum() == 1:
                found[position] = self.variables.letters(position)[letters.argmax()]
        return found

    def program(self, size: int) -> Program:
        """The device program for canvases padded to ``size`` positions."""
        program = self.relaxation(size)
        return program if self.solver is None else SolverProgram.make(program, self.solver, self.variables, size)

    def relaxation(self, size: int) -> Program:
        """The automaton's part of the program, which is all of it without a solver."""
        if self.tier is not None:
            return self.tier.make(size)
        if not self.variables.reordered:
            return make_program(self.layers, size)
        return SharedProgram.make(make_program(self.layers, self.variables.steps), self.variables, size)


@dataclass
class _Atom:
    """A part of one constraint on its way into the automaton."""

    owner: int
    part: Scan | Sum | Pairs
    fallback: Callable[[], tuple[Scan, ...]] | None = None
    note: str = ""


def compile_constraints(constraints: Sequence[Constraint], layout: Layout, *, budget: int = STATE_BUDGET) -> Compiled:
    """Fuse ``constraints`` for a canvas.

    Args:
        constraints: all must hold at once.
        layout: the canvas.
        budget: largest number of joint states at a position before merging.

    Raises:
        InputError: a constraint does not fit the canvas (a position out of range), or there are too many.
        InfeasibleError: nothing satisfies them; names a minimal clashing set, the positions, and what would help.
        BudgetError: too many states and no solver, or no answer from it in time.
    """
    if len(constraints) > MAX_CONSTRAINTS:
        raise InputError(
            f"{len(constraints)} constraints are more than {MAX_CONSTRAINTS}; join patterns with | and letters in sets"
        )
    lowered = [constraint.lower(layout) for constraint in constraints]
    if reason := reason_against(constraints, layout):
        raise InfeasibleError(reason)
    try:
        return _compile(constraints, lowered, layout, budget)
    except (DeadEnd, Unsatisfiable):
        raise _infeasible(constraints, layout, budget) from None


def _compile(
    constraints: Sequence[Constraint], lowered: list[Lowered], layout: Layout, budget: int, *, prune: bool = True
) -> Compiled:
    atoms = [atom for owner, part in enumerate(lowered) for atom in _atoms(owner, part)]
    ties = [tie for part in lowered for tie in part.ties]
    if ties and layout.min_length != layout.max_length:
        owner = next(i for i, part in enumerate(lowered) if part.ties)
        raise InputError(f"{constraints[owner].describe()}: shared letters need one length, not a range")
    pairs = [atom.part for atom in atoms if isinstance(atom.part, Pairs)]
    keep_order = layout.min_length != layout.max_length or any(isinstance(atom.part, Scan) for atom in atoms)
    variables = make_variables(layout, ties, pairs, keep_order=keep_order)
    positional = _allowed(lowered, layout) & self_complementary(variables, ties)
    if empty := tuple(int(p) + 1 for p in np.flatnonzero(~positional.any(axis=1))):
        raise _NoLetters(empty)
    allowed = variables.allowed(positional)
    tier = _tier(constraints, lowered, layout, variables, positional)
    if tier is not None:
        layers = build_layers(allowed, (), min_length=len(allowed), budget=budget, prune=prune)
        parts = [
            Part(constraint, tier.route if _asks(part) else "shared letters" if part.ties else "letters", 0)
            for constraint, part in zip(constraints, lowered, strict=True)
        ]
        return Compiled(layout, variables, layers, tuple(parts), tier=tier)
    inside, readers, outside = _readers(atoms, variables, layout)
    layers, inside, readers, outside = _fit(allowed, inside, readers, outside, variables, layout, budget, prune)
    solver = None
    cuts = [part.cuts for part in lowered if part.cuts is not None]
    distinct = [group for part in lowered for group in part.distinct]
    if outside or cuts or distinct:
        every = [(constraints[atom.owner].describe(), atom.part) for atom in (*inside, *outside)]
        solver = Solver(layout, variables, positional, every, cuts, distinct)
        solver.solve_lengths(layers.lengths() if not variables.reordered else np.array([layout.max_length]))
    parts = []
    for i, (constraint, part) in enumerate(zip(constraints, lowered, strict=True)):
        mine = [k for k, atom in enumerate(inside) if atom.owner == i]
        states = sum(layers.visited[k] for k in mine)
        notes = [atom.note for atom in outside if atom.owner == i]
        if part.cuts is not None or part.distinct:
            notes.append("no small automaton knows it")
        routes = dict.fromkeys([*(readers[k].route for k in mine), *(["solver"] if notes else [])])
        route = " + ".join(routes) or ("shared letters" if part.ties else "letters")
        parts.append(Part(constraint, route, states, "; ".join(dict.fromkeys(notes))))
    return Compiled(layout, variables, layers, tuple(parts), solver)


def _tier(
    constraints: Sequence[Constraint],
    lowered: Sequence[Lowered],
    layout: Layout,
    variables: Variables,
    allowed: np.ndarray,
) -> Tier | None:
    """The tier of constraints that are no automaton; None where the automaton and the solver do."""
    sums = sum(len(part.sums) for part in lowered)
    if isinstance(layout.alphabet, GraphAlphabet) and (sums > 1 or any(part.rules for part in lowered)):
        return graph_tier(constraints, lowered, layout, variables, allowed)
    others = any(part.scans or part.sums or part.pairs or part.ties or part.cuts for part in lowered)
    groups = [group for part in lowered for group in part.distinct]
    if groups and not others and layout.min_length == layout.max_length:
        return distinct_tier(groups, allowed, layout, variables)
    return None


def _asks(part: Lowered) -> bool:
    return bool(part.rules or part.sums or part.scans or part.pairs or part.distinct or part.cuts)


class _NoLetters(DeadEnd):
    """Positions at which no letter is allowed."""

    def __init__(self, positions: tuple[int, ...]):
        super().__init__(positions[0])
        self.positions = positions


def _atoms(owner: int, part: Lowered) -> list[_Atom]:
    atoms = [_Atom(owner, scan, part.fallback if len(part.scans) == 1 else None) for scan in part.scans]
    atoms += [_Atom(owner, item) for item in part.sums]
    for item in part.pairs:
        if item.low == len(item.positions):
            atoms += [_Atom(owner, replace(item, positions=(pair,), low=1)) for pair in item.positions]
        else:
            atoms.append(_Atom(owner, item))
    return atoms


def _readers(atoms: list[_Atom], variables: Variables, layout: Layout) -> tuple[list[_Atom], list[Reader], list[_Atom]]:
    inside, readers, outside = [], [], []
    for atom in atoms:
        if isinstance(atom.part, Scan):
            reader = read_scan(atom.part, variables, layout)
        elif isinstance(atom.part, Sum):
            reader = read_sum(atom.part, variables, layout)
        else:
            reader = read_pairs(atom.part, variables)
        if reader is None:
            outside.append(replace(atom, note="reads positions that share a letter"))
        else:
            inside.append(atom)
            readers.append(reader)
    return inside, readers, outside


def _fit(
    allowed: np.ndarray,
    inside: list[_Atom],
    readers: list[Reader],
    outside: list[_Atom],
    variables: Variables,
    layout: Layout,
    budget: int,
    prune: bool,
) -> tuple[Layers, list[_Atom], list[Reader], list[_Atom]]:
    """The joint automaton, with over-large motifs moved to their path route, then over-large parts to the solver.

    Ever more parts are taken out at once, so that a hundred windows on one sequence do not take a hundred attempts.
    """
    at_once = 1
    shortest = min(layout.min_length, len(allowed)) if not variables.reordered else len(allowed)
    while True:
        try:
            layers = build_layers(allowed, readers, min_length=shortest, budget=budget, prune=prune)
            return layers, inside, readers, outside
        except OverBudget as over:
            order = np.argsort(over.states)[::-1].tolist()
            inside, readers, outside = [*inside], [*readers], [*outside]
            movable = [(k, make) for k in order if (make := inside[k].fallback) is not None]
            if movable:
                k, make = movable[0]
                (scan,) = make()
                inside[k] = replace(inside[k], part=scan, fallback=None)
                reader = read_scan(scan, variables, layout)
                assert reader is not None
                readers[k] = reader
                continue
            # A motif that did not fit by itself goes before the local rules, whose absence would loosen the rest most.
            order.sort(key=lambda k: readers[k].route != "path")
            out, at_once = order[:at_once], 2 * at_once
            note = f"over {budget} joint states at position {over.position}"
            outside += [replace(inside[k], note=note) for k in out]
            kept = [k for k in range(len(inside)) if k not in out]
            inside, readers = [inside[k] for k in kept], [readers[k] for k in kept]


def _allowed(lowered: Sequence[Lowered], layout: Layout) -> np.ndarray:
    allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
    for part in lowered:
        if part.allowed is not None:
            allowed &= part.allowed
    return allowed


def _infeasible(constraints: Sequence[Constraint], layout: Layout, budget: int) -> InfeasibleError:
    def probe(some: Sequence[Constraint], *, prune: bool = True) -> tuple[int, ...] | None:
        try:
            _compile(some, [constraint.lower(layout) for constraint in some], layout, budget, prune=prune)
        except _NoLetters as dead:
            return dead.positions
        except DeadEnd as dead:
            return (max(1, dead.position),)
        except Unsatisfiable:
            return (1, layout.max_length)
        except (BudgetError, InputError):
            return None
        return None

    return conflict_error(constraints, layout, probe, lambda some: probe(some, prune=False))
