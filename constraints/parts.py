"""The parts that constraints lower to: what the compiler can fuse, and nothing about proteins.

* *allowed letters* per position;
* a *scan*: an automaton that reads a region from left to right (patterns, runs);
* a *sum*: integer weights added up over positions, whatever their order (counts, charge, mass, mutations);
* *pairs*: tables of letters that may stand together at two positions;
* a *tie*: positions that share one letter;
* *distinct* groups: positions whose letters all differ;
* *rules* about the graph that the letters are;
* *cuts*: clauses made up when a solution breaks them, for facts that no small automaton knows (repeated words).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from seqdiff.core.layout import WHOLE, Region


class Automaton(Protocol):
    """A deterministic automaton over letters, built as it is explored. States are small ints; -1 is dead."""

    start: int

    def row(self, state: int) -> np.ndarray:
        """Next state for every symbol, int32 [V * choices]; -1 where the letter is refused."""
        ...

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        ...


class Scan(NamedTuple):
    """An automaton that reads the letters of a region and must accept at its end.

    Attributes:
        automaton: what reads.
        region: where.
        choices: symbols per letter; more than one when the automaton's hidden path is part of the symbol.
        route: how it was built, for ``explain``.
    """

    automaton: Automaton
    region: Region
    choices: int = 1
    route: str = "automaton"


class Limits(Protocol):
    """Bounds of a sum as a function of how many positions of its region a design has."""

    def __call__(self, positions: int, /) -> tuple[int | None, int | None]:
        """The least and the largest sum that is accepted, None for no bound."""
        ...


@dataclass(frozen=True, eq=False)
class Sum:
    """Integer weights of the letters at the positions of a region, added up.

    Attributes:
        weights: int [max_length, V]; zero outside the region.
        limits: bounds for a number of positions.
        region: where; decides how many positions count.
    """

    weights: np.ndarray
    limits: Limits
    region: Region = WHOLE

    def positions(self, length: int) -> int:
        """How many positions of the region a design of ``length`` letters has."""
        last = length if self.region.last is None else min(length, self.region.last)
        return max(0, last - self.region.first + 1)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Letters that may stand together at two positions, for a list of pairs of positions.

    Attributes:
        positions: 0-based (i, j); the table's rows are letters at i, its columns letters at j.
        table: bool [V, V].
        low: how many of the pairs must hold at least.
        high: how many may hold; None for no bound.
    """

    positions: tuple[tuple[int, int], ...]
    table: np.ndarray
    low: int
    high: int | None = None


@dataclass(frozen=True)
class Tie:
    """Positions that share one letter.

    Attributes:
        groups: 0-based positions of each shared letter; ``(i, flipped)`` where the complement stands at ``i``.
        mean: average the members' log-probabilities instead of adding them.
        weights: of the members' log-probabilities in each group, in its order, instead of equal ones; empty for none.
    """

    groups: tuple[tuple[tuple[int, bool], ...], ...]
    mean: bool = False
    weights: tuple[float, ...] = ()


Clause = tuple[tuple[tuple[int, int], ...], ...]
"""Pairs of 0-based positions, of which at least one pair must differ: ``(((i, j), (i + 1, j + 1), ...), ...)``."""


@dataclass(frozen=True)
class Lowered:
    """Parts of a program, all of which must hold.

    Attributes:
        allowed: bool [max_length, V], or None for no restriction.
        scans: automata over regions.
        sums: weights added up.
        pairs: tables over two positions.
        ties: shared letters.
        distinct: groups of 0-based positions whose letters all differ.
        rules: of graphs; see ``seqdiff.constraints.graph.rules``.
        cuts: for a text that breaks the constraint, groups of position pairs that must not all be equal; empty when
            the text obeys. Only for facts that the other parts cannot say.
        fallback: the same scans over hidden paths, made only when ``scans`` exceed the budget.
    """

    allowed: np.ndarray | None = None
    scans: tuple[Scan, ...] = ()
    sums: tuple[Sum, ...] = ()
    pairs: tuple[Pairs, ...] = ()
    ties: tuple[Tie, ...] = ()
    distinct: tuple[tuple[int, ...], ...] = ()
    rules: tuple[Any, ...] = ()
    cuts: Callable[[str], Clause] | None = field(default=None, compare=False)
    fallback: Callable[[], tuple[Scan, ...]] | None = field(default=None, compare=False)


def combine(parts: "list[Lowered]") -> Lowered:
    """All parts of several as one; fallbacks stand only where every scan has one of its own."""
    allowed = [part.allowed for part in parts if part.allowed is not None]
    cuts = [part.cuts for part in parts if part.cuts is not None]
    return Lowered(
        allowed=np.logical_and.reduce(allowed) if allowed else None,
        scans=tuple(scan for part in parts for scan in part.scans),
        sums=tuple(item for part in parts for item in part.sums),
        pairs=tuple(item for part in parts for item in part.pairs),
        ties=tuple(item for part in parts for item in part.ties),
        distinct=tuple(item for part in parts for item in part.distinct),
        rules=tuple(item for part in parts for item in part.rules),
        cuts=(lambda text: tuple(clause for cut in cuts for clause in cut(text))) if cuts else None,
    )
