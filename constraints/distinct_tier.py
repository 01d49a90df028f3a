"""Which program keeps groups of different letters: a list of all solutions where they are few, else a search."""

from collections.abc import Iterator, Sequence

import numpy as np

from seqdiff.constraints.distinct_host import contradiction, place_singles
from seqdiff.constraints.distinct_program import DistinctProgram
from seqdiff.constraints.enumerated import listed
from seqdiff.constraints.readers import Variables
from seqdiff.constraints.tiers import Tier
from seqdiff.core.errors import InfeasibleError
from seqdiff.core.layout import Layout

FEW, BRANCHES = 1024, 4096


def distinct_tier(groups: Sequence[Sequence[int]], allowed: np.ndarray, layout: Layout, variables: Variables) -> Tier:
    """The tier of groups of different letters, with given letters and nothing else.

    Args:
        groups: 0-based positions.
        allowed: bool [L, V], letters that each position may have.
        layout: of one length.
        variables: one for each position.

    Raises:
        InfeasibleError: no letters differ as asked; says why.
    """
    letters = layout.alphabet.letters
    clues = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), len(letters))
    if reason := contradiction(groups, allowed, clues, letters):
        raise InfeasibleError(f"no letters differ as asked: {reason}")
    masks = [int(sum(1 << int(v) for v in np.flatnonzero(row))) for row in allowed]
    if (few := all_solutions(groups, masks)) is not None:
        return listed(few, variables, layout.max_length, len(letters))
    return Tier("search", np.array([layout.max_length]), lambda size: DistinctProgram.make(groups, allowed, size))


def all_solutions(groups: Sequence[Sequence[int]], masks: list[int]) -> np.ndarray | None:
    """Every solution, int32 [N, L]; None if there are more than ``FEW`` or the search takes too many branches.

    Args:
        groups: 0-based positions whose letters differ.
        masks: bits of the letters that each position may have.
    """
    found: list[list[int]] = []
    spent = 0

    def leaves(domains: list[int]) -> Iterator[list[int]]:
        nonlocal spent
        spent += 1
        if place_singles(groups, domains) is not None:
            return
        open_places = [p for p, mask in enumerate(domains) if mask.bit_count() > 1]
        if not open_places:
            yield [mask.bit_length() - 1 for mask in domains]
            return
        place = min(open_places, key=lambda p: domains[p].bit_count())
        for bit in range(domains[place].bit_length()):
            if domains[place] >> bit & 1 and spent < BRANCHES:
                yield from leaves([1 << bit if p == place else mask for p, mask in enumerate(domains)])

    # A board with many open cells has too many solutions; that is not worth counting.
    start = [*masks]
    if place_singles(groups, start) is not None or sum(mask.bit_count() > 1 for mask in start) > 60:
        return None
    for letters in leaves(start):
        found.append(letters)
        if len(found) > FEW:
            return None
    return None if spent >= BRANCHES else np.array(found, np.int32)
