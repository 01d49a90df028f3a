"""Groups of different letters on the host: why clues contradict, and rows that the device search gave up on.

Letters that a position may still have are the bits of a mask. Rows are completed by CP-SAT, which looks for the largest
sum of values; without OR-tools by a search that tries the best letter of the tightest position first.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from seqdiff.constraints.solver import cp_model
from seqdiff.core.errors import MissingExtraError
from seqdiff.core.layout import format_positions

Groups = Sequence[Sequence[int]]
NODE_LIMIT = 200_000
SECONDS = 20.0
_SCALE, _FLOOR = 1000, -40.0


class _OutOfNodes(Exception):
    """The search has used up its nodes."""


def contradiction(
    groups: Groups, allowed: Bool[np.ndarray, "L V"], clues: Int[np.ndarray, "L"], letters: str
) -> str | None:
    """Why no completion exists, in one line; None where there is one, or none was found within ``NODE_LIMIT`` branches.

    Args:
        groups: 0-based positions whose letters differ.
        allowed: letters that each position may have.
        clues: letter ids; out of range where open.
        letters: of the alphabet, in id order.
    """
    given = {position: int(clue) for position, clue in enumerate(clues) if clue < len(letters)}
    for group in groups:
        first: dict[int, int] = {}
        for position in group:
            if position in given and (other := first.setdefault(given[position], position)) != position:
                letter = letters[given[position]]
                return f"{letter} stands at positions {other + 1} and {position + 1}, which must differ"
    domains = [int(sum(1 << int(v) for v in np.flatnonzero(row))) for row in allowed]
    for position, letter in given.items():
        if not domains[position] >> letter & 1:
            return f"{letters[letter]} is not allowed at position {position + 1}"
        domains[position] = 1 << letter
    if reason := place_singles(groups, domains, letters):
        return reason
    try:
        found = _search(groups, domains, np.zeros(allowed.shape, np.float32), [NODE_LIMIT])
    except _OutOfNodes:
        return None
    if found is None:
        place = min((p for p, mask in enumerate(domains) if mask.bit_count() > 1), key=lambda p: domains[p].bit_count())
        return f"whichever of {_text(domains[place], letters)} stands at position {place + 1}, the rest contradicts it"
    return None


def complete(
    groups: Groups, domains: Sequence[int], values: Float[np.ndarray, "L V"], *, nodes: int = NODE_LIMIT
) -> list[int] | None:
    """Letters that differ in every group, found by trying the best ones first; None for none within ``nodes``.

    Args:
        groups: 0-based positions whose letters differ.
        domains: mask of the letters that each position may have; 0 where the design has no such position.
        values: which letter is tried first.
        nodes: branches that may be tried.
    """
    masks = list(domains)
    try:
        return None if place_singles(groups, masks) else _search(groups, masks, values, [nodes])
    except _OutOfNodes:
        return None


def maximise(
    groups: Groups, domains: Sequence[int], values: Float[np.ndarray, "L V"], *, seconds: float = SECONDS
) -> list[int] | None:
    """Letters that differ in every group, of the largest sum of values that CP-SAT finds; None for none in time.

    Args:
        groups: 0-based positions whose letters differ.
        domains: mask of the letters that each position may have; 0 where the design has no such position.
        values: what to maximise.
        seconds: of deterministic time, the same on every machine.

    Raises:
        MissingExtraError: OR-tools is not installed.
    """
    cp = cp_model()
    model = cp.CpModel()
    choices = [_bits(mask) or [0] for mask in domains]
    chosen = [model.new_int_var_from_domain(cp.Domain.from_values(values), "") for values in choices]
    for group in groups:
        model.add_all_different([chosen[p] for p in group if domains[p]])
    terms = []
    scaled = np.round(np.clip(values, _FLOOR, -_FLOOR) * _SCALE).astype(int)
    for position, options in enumerate(choices):
        if len(options) > 1:
            literals = [model.new_bool_var("") for _ in options]
            model.add_exactly_one(literals)
            for letter, literal in zip(options, literals, strict=True):
                model.add(chosen[position] == letter).only_enforce_if(literal)
                terms.append(int(scaled[position, letter]) * literal)
    model.maximize(sum(terms))
    solver = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    return [solver.value(v) for v in chosen] if status in (cp.OPTIMAL, cp.FEASIBLE) else None


def complete_rows(
    members: Int[np.ndarray, "G M"],
    domains: Int[np.ndarray, "B L"],
    values: Float[np.ndarray, "B L V"],
    wanted: Bool[np.ndarray, "B"],
    seconds: Float[np.ndarray, "B"],
) -> Int[np.ndarray, "B L"]:
    """Letters for the rows that are wanted, -1 elsewhere and where none were found in time.

    Args:
        members: positions of each group, L where it has fewer.
        domains: masks.
        values: what to maximise.
        wanted: rows to complete.
        seconds: of deterministic time for each row.
    """
    size = domains.shape[1]
    groups = [[p for p in row if p < size] for row in members.tolist()]
    found = np.full(domains.shape, -1, np.int32)
    for row in np.flatnonzero(wanted):
        masks = [int(mask) for mask in domains[row]]
        try:
            letters = maximise(groups, masks, values[row], seconds=float(seconds[row]))
        except MissingExtraError:
            letters = complete(groups, masks, values[row])
        if letters is not None:
            found[row] = letters
    return found


def _search(groups: Groups, domains: list[int], values: np.ndarray, left: list[int]) -> list[int] | None:
    """Depth first from propagated masks; ``left`` counts the branches that may still be tried."""
    open_places = [p for p, mask in enumerate(domains) if mask.bit_count() > 1]
    if not open_places:
        return [mask.bit_length() - 1 if mask else 0 for mask in domains]
    place = min(open_places, key=lambda p: domains[p].bit_count())
    for letter in sorted(_bits(domains[place]), key=lambda v: -values[place, v]):
        if not left[0]:
            raise _OutOfNodes
        left[0] -= 1
        trial = [*domains]
        trial[place] = 1 << letter
        if place_singles(groups, trial) is None and (found := _search(groups, trial, values, left)) is not None:
            return found
    return None


def place_singles(groups: Groups, domains: list[int], letters: str = "") -> str | None:
    """Naked and hidden singles, in place, until nothing changes; what has no place left, or None.

    Letters are named only where ``letters`` are given.
    """
    changed = True
    while changed:
        changed = False
        for group in groups:
            before = [domains[p] for p in group]
            if reason := _naked(group, domains, letters):
                return reason
            once = twice = 0
            for position in group:
                twice |= once & domains[position]
                once |= domains[position]
            size = sum(1 for p in group if domains[p])
            if once.bit_count() < size:
                return _crowded(group, once, letters)
            for position in group if once.bit_count() == size else ():
                alone = domains[position] & once & ~twice
                if alone.bit_count() > 1:
                    return f"only position {position + 1} of group {_place(group)} could have {_text(alone, letters)}"
                domains[position] = alone or domains[position]
            changed |= before != [domains[p] for p in group]
    return None


def _naked(group: Sequence[int], domains: list[int], letters: str) -> str | None:
    """Take the letters that are placed in a group from its other positions, in place."""
    for position in group:
        if domains[position].bit_count() == 1:
            for other in group:
                if other != position and domains[other] & domains[position]:
                    if domains[other] == domains[position]:
                        both = " and ".join(str(p + 1) for p in sorted((position, other)))
                        return f"positions {both} can be nothing but {_text(domains[other], letters)}, and must differ"
                    domains[other] &= ~domains[position]
    return None


def _crowded(group: Sequence[int], union: int, letters: str) -> str:
    missing = ((1 << len(letters)) - 1) & ~union
    if len(group) == len(letters) and missing:
        return f"{_text(missing, letters)} has no place left in group {_place(group)}"
    return f"group {_place(group)} has {len(group)} positions and only {union.bit_count()} letters left"


def _place(group: Sequence[int]) -> str:
    return format_positions(p + 1 for p in group)


def _text(mask: int, letters: str) -> str:
    return ", ".join(letters[v] for v in _bits(mask) if v < len(letters))


def _bits(mask: int) -> list[int]:
    return [v for v in range(mask.bit_length()) if mask >> v & 1]
