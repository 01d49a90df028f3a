"""Boards and puzzles without end, from nothing but a random generator.

A complete grid stays one under the symmetries of the game: relabelling letters, permuting bands and the rows of a band,
stacks and the columns of a stack, and transposing (where boxes are square). ``Symmetries`` draws them for whole
batches. They never leave a grid's equivalence class, so seeds are fresh: a random search fills an empty board.

A puzzle is a grid with letters taken away while one completion is left.
"""

import numpy as np
from jaxtyping import Int

from seqdiff.domains.sudoku.board import Board
from seqdiff.domains.sudoku.solve import place_singles, solutions


def pattern_grid(board: Board) -> Int[np.ndarray, "cells"]:
    """The textbook grid: each row is the one above shifted by a box, each band by one more."""
    high, wide = board.box
    row, column = board.places[:, 0], board.places[:, 1]
    return ((row % high * wide + row // high + column) % board.size).astype(np.int32)


def random_grid(board: Board, rng: np.random.Generator) -> Int[np.ndarray, "cells"]:
    """A complete grid: a random first row, the rest by search in random order. Not uniform over all grids."""
    canvas = np.full(board.cells, board.size, np.int32)
    canvas[: board.size] = rng.permutation(board.size)
    return solutions(board, canvas.tolist(), limit=1, rng=rng)[0]


def random_symmetry(
    board: Board, rng: np.random.Generator, rows: int
) -> tuple[Int[np.ndarray, "B cells"], Int[np.ndarray, "B letters"]]:
    """Random symmetries of the game: where each cell's letter comes from, and what it turns into.

    The second array also maps MASK, ``board.size``, to itself.
    """
    high, wide = board.box
    from_row = _nested(rng, rows, board.size // high, high)
    from_column = _nested(rng, rows, board.size // wide, wide)
    cells = from_row[:, :, None] * board.size + from_column[:, None, :]
    if high == wide:
        cells = np.where(rng.random(rows)[:, None, None] < 0.5, cells.swapaxes(1, 2), cells)
    letters = np.argsort(rng.random((rows, board.size)), axis=1)
    blank = np.full((rows, 1), board.size)
    return cells.reshape(rows, -1).astype(np.int32), np.concatenate([letters, blank], axis=1).astype(np.int32)


def _nested(rng: np.random.Generator, rows: int, groups: int, members: int) -> Int[np.ndarray, "B lines"]:
    """Lines permuted within groups and groups among each other."""
    outer = np.argsort(rng.random((rows, groups)), axis=1)
    inner = np.argsort(rng.random((rows, groups, members)), axis=2)
    return (outer[:, :, None] * members + inner).reshape(rows, -1)


def apply_symmetry(
    canvas: Int[np.ndarray, "B cells"], cells: Int[np.ndarray, "B cells"], letters: Int[np.ndarray, "B letters"]
) -> Int[np.ndarray, "B cells"]:
    """Boards or puzzles moved and relabelled by the result of :func:`random_symmetry`."""
    moved = np.take_along_axis(canvas, cells, axis=1)
    return np.take_along_axis(letters, moved, axis=1)


def make_puzzle(
    board: Board, grid: Int[np.ndarray, "cells"], clues: int, rng: np.random.Generator
) -> Int[np.ndarray, "cells"]:
    """A puzzle whose one completion is ``grid``: letters are taken away in random order while that stays so.

    It has ``clues`` letters, or more where the order drawn leads no lower; below about 24 on 9x9 that is the rule.
    """
    puzzle = grid.copy()
    left = board.cells
    for cell in rng.permutation(board.cells):
        if left <= clues:
            break
        puzzle[cell] = board.size
        if _is_unique(board, puzzle):
            left -= 1
        else:
            puzzle[cell] = grid[cell]
    return puzzle


def _is_unique(board: Board, puzzle: Int[np.ndarray, "cells"]) -> bool:
    after = place_singles(board, puzzle.tolist())
    return bool((after < board.size).all()) or len(solutions(board, after.tolist(), limit=2)) == 1
