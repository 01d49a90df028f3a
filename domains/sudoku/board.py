"""Geometry of a Sudoku board: which cells of the canvas must differ, and how two cells are related.

The canvas holds the cells row by row, one letter each, so a board of size n has n * n positions and n letters. Rows,
columns and boxes are the *units*: no letter stands twice in one.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from jaxtyping import Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError

LETTERS = "123456789ABCDEFG"
BOXES: dict[int, tuple[int, int]] = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}
"""Rows and columns of a box, by the size of the board."""

ROW, COLUMN, BOX = 1, 2, 4
"""What two cells may share; the relation type of a pair is the sum: 0 for nothing, 7 for a cell with itself."""
RELATIONS = ROW + COLUMN + BOX + 1
"""Number of relation types, for ``TransformerConfig.relations``."""


@dataclass(frozen=True)
class Board:
    """A board of ``size`` rows, columns, boxes and letters.

    Attributes:
        size: 4, 6, 9 or 16.
    """

    size: int = 9

    def __post_init__(self):
        if self.size not in BOXES:
            raise InputError(f"size={self.size}: Sudoku boards here have {', '.join(map(str, BOXES))} rows")

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of a box."""
        return BOXES[self.size]

    @property
    def cells(self) -> int:
        """Number of cells, the length of the canvas."""
        return self.size**2

    @property
    def letters(self) -> str:
        """The letters of the board."""
        return LETTERS[: self.size]

    @property
    def alphabet(self) -> Alphabet:
        """Letters and special tokens; an open cell is MASK."""
        return _alphabet(self.size)

    @cached_property
    def places(self) -> Int[np.ndarray, "cells 3"]:
        """Row, column and box of each cell, from 0."""
        row, column = np.divmod(np.arange(self.cells, dtype=np.int32), np.int32(self.size))
        high, wide = self.box
        return np.stack([row, column, row // high * (self.size // wide) + column // wide], axis=1)

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """The 0-based cells of every row, then of every column, then of every box."""
        return tuple(
            tuple(np.flatnonzero(self.places[:, kind] == unit).tolist())
            for kind in range(3)
            for unit in range(self.size)
        )

    @cached_property
    def peers(self) -> tuple[frozenset[int], ...]:
        """For each cell, the other cells that share a unit with it."""
        related = self.relations() > 0
        return tuple(frozenset(np.flatnonzero(row).tolist()) - {cell} for cell, row in enumerate(related))

    def relations(self, length: int | None = None) -> Int[np.ndarray, "L L"]:
        """What each pair of cells shares, as the sum of ``ROW``, ``COLUMN`` and ``BOX``.

        Args:
            length: padded size of the canvas; places beyond the cells share nothing. The number of cells by default.
        """
        same = self.places[:, None, :] == self.places[None, :, :]
        found = (same * np.array([ROW, COLUMN, BOX])).sum(axis=-1).astype(np.int32)
        spare = (self.cells if length is None else length) - self.cells
        return np.pad(found, (0, spare))

    def name(self, cell: int) -> str:
        """A cell in words, such as ``row 2 column 5``."""
        row, column, _ = self.places[cell]
        return f"row {row + 1} column {column + 1}"

    def clashes(self, canvas: Int[np.ndarray, "cells"]) -> list[tuple[int, int]]:
        """Pairs of cells that share a unit and a letter, each once, in ascending order."""
        letter = canvas < self.size
        same = (canvas[:, None] == canvas[None, :]) & letter[:, None] & (self.relations() > 0)
        return [(int(a), int(b)) for a, b in np.argwhere(np.triu(same, 1))]

    def holds(self, grids: Int[np.ndarray, "B cells"]) -> np.ndarray:
        """Whether each grid is complete and valid: every unit holds every letter, bool [B]."""
        members = grids[:, np.array(self.units)]
        return (np.sort(members, axis=-1) == np.arange(self.size)).all(axis=(1, 2))


@cache
def _alphabet(size: int) -> Alphabet:
    letters = LETTERS[:size]
    return Alphabet("sudoku", letters, {"any": letters})
