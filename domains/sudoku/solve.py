"""A small exact solver on bit masks: for making puzzles and for the model-free columns of reports.

A cell with one letter left is a naked single, a letter with one place left in a unit a hidden single. The solver
branches on whatever has the fewest choices, so both are met as branches of one choice; a cell or a letter without any
choice ends the branch.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

from seqdiff.domains.sudoku.board import Board


class _State:
    """Letters placed so far, and for each unit the mask of letters in use."""

    def __init__(self, board: Board, values: Sequence[int]):
        self.size, self.every = board.size, (1 << board.size) - 1
        self.units = board.units
        self.owners = [(row, board.size + column, 2 * board.size + box) for row, column, box in board.places.tolist()]
        self.values = [board.size] * board.cells
        self.used = [0] * (3 * board.size)
        for cell, value in enumerate(values):
            if value < board.size:
                self.put(cell, value)

    def put(self, cell: int, value: int) -> None:
        self.values[cell] = value
        for unit in self.owners[cell]:
            self.used[unit] |= 1 << value

    def take(self, cell: int) -> None:
        for unit in self.owners[cell]:
            self.used[unit] ^= 1 << self.values[cell]
        self.values[cell] = self.size

    def free(self, cell: int) -> int:
        """Mask of the letters that no unit of an open cell has in use."""
        row, column, box = self.owners[cell]
        return self.every & ~(self.used[row] | self.used[column] | self.used[box])

    def choices(self) -> list[tuple[int, int]] | None:
        """The smallest set of (cell, letter) of which one must hold; empty at a dead end, None where all is placed."""
        best: list[tuple[int, int]] | None = None
        masks = {cell: self.free(cell) for cell, value in enumerate(self.values) if value == self.size}
        for cell, mask in masks.items():
            if best is None or mask.bit_count() < len(best):
                best = [(cell, value) for value in _bits(mask)]
                if len(best) <= 1:
                    return best
        if best is None:
            return None
        for unit, members in enumerate(self.units):
            once = twice = 0
            for cell in members:
                mask = masks.get(cell, 0)
                twice |= once & mask
                once |= mask
            if once | self.used[unit] != self.every:
                return []
            if single := once & ~twice:
                value = single.bit_length() - 1
                return [next((cell, value) for cell in members if masks.get(cell, 0) >> value & 1)]
        return best


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def solutions(
    board: Board, puzzle: Sequence[int], *, limit: int = 2, rng: np.random.Generator | None = None
) -> list[Int[np.ndarray, "cells"]]:
    """The completions of a puzzle, at most ``limit`` of them.

    Args:
        board: its geometry.
        puzzle: letter ids, ``board.size`` or more where open; the clues must not clash.
        limit: where to stop.
        rng: tries the letters of a branch in random order; ascending without.
    """
    state = _State(board, puzzle)
    found: list[np.ndarray] = []

    def search() -> None:
        choices = state.choices()
        if choices is None:
            found.append(np.array(state.values, np.int32))
            return
        if rng is not None and len(choices) > 1:
            choices = [choices[i] for i in rng.permutation(len(choices))]
        for cell, value in choices:
            state.put(cell, value)
            search()
            state.take(cell)
            if len(found) >= limit:
                return

    search()
    return found


def place_singles(board: Board, puzzle: Sequence[int]) -> Int[np.ndarray, "cells"]:
    """The puzzle with naked and hidden singles placed until none is left; MASK where still open.

    A contradiction ends it early, with the cells as they are then.
    """
    state = _State(board, puzzle)
    while (choices := state.choices()) is not None and len(choices) == 1:
        state.put(*choices[0])
    return np.array(state.values, np.int32)
