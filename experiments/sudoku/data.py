"""Training boards for Sudoku: puzzles made once, and batches of their symmetric images by index.

A batch is int32 [B, 2, cells]: complete grids and, beside them, what is given (MASK where open). Most rows are puzzles
with one completion; in one row of ``FREE_EVERY`` nothing is given, so that the network also learns to fill boards that
have many. Batch ``n`` depends on (seed, n) only.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from seqdiff.domains.sudoku.board import Board
from seqdiff.domains.sudoku.generate import apply_symmetry, make_puzzle, random_grid, random_symmetry

CLUES = (22, 34)
FREE_EVERY = 8


def make_puzzles(board: Board, count: int, seed: int) -> Int[np.ndarray, "count 2 cells"]:
    """Fresh grids and a puzzle of each, with a number of clues drawn evenly from ``CLUES`` (as many as it takes)."""
    rng = np.random.default_rng(seed)
    made = np.empty((count, 2, board.cells), np.int32)
    for row in range(count):
        made[row, 0] = random_grid(board, rng)
        made[row, 1] = make_puzzle(board, made[row, 0], int(rng.integers(CLUES[0], CLUES[1] + 1)), rng)
    return made


def stored_puzzles(path: Path, board: Board, count: int, seed: int) -> Int[np.ndarray, "count 2 cells"]:
    """The puzzles of that seed, from ``path`` (.npy) where they were written before; they take about 40 ms each."""
    if path.exists() and len(found := np.load(path, allow_pickle=False)) == count:
        return found
    made = make_puzzles(board, count, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, made)
    return made


@dataclass(frozen=True)
class PuzzleBatches:
    """Batches by index, for ``seqdiff.training.loop.fit``.

    Attributes:
        board: the geometry.
        puzzles: grids and puzzles, [N, 2, cells].
        batch: rows per batch.
        seed: of rows and symmetries.
    """

    board: Board
    puzzles: Int[np.ndarray, "N 2 cells"]
    batch: int
    seed: int

    def __getitem__(self, index: int, /) -> Int[np.ndarray, "B 2 cells"]:
        rng = np.random.default_rng((self.seed, index))
        rows = self.puzzles[rng.integers(0, len(self.puzzles), self.batch)]
        cells, letters = random_symmetry(self.board, rng, self.batch)
        grids, given = (apply_symmetry(rows[:, part], cells, letters) for part in (0, 1))
        given[::FREE_EVERY] = self.board.size
        return np.stack([grids, given], axis=1)
