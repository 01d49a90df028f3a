"""Sudoku boards as a domain of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from seqdiff.constraints.base import Constraint, parse_constraint
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.fields import whole_number
from seqdiff.core.layout import format_positions
from seqdiff.domains.sudoku.board import Board
from seqdiff.domains.sudoku.formats import format_grid, format_line, parse_board, read_boards
from seqdiff.domains.sudoku.picture import board_svg
from seqdiff.request.domains.base import Draw, Setting, find_file


@dataclass(frozen=True)
class SudokuSetting(Setting):
    """Boards: ``clues``, one line with dots for open cells or a file whose first board counts; ``size`` without clues.

    Attributes:
        board: the geometry.
        clues: one line, a dot where open.
    """

    KEYS: ClassVar[tuple[str, ...]] = ("size", "clues")
    MODEL: ClassVar[str] = "uniform"
    board: Board = field(default_factory=Board)
    clues: str = ""

    @classmethod
    def read(cls, args: Mapping[str, Any], folder: Path) -> "SudokuSetting":
        size = whole_number(args["size"], "size", low=1) if "size" in args else None
        if "clues" not in args:
            return cls(Board(size or 9))
        text = str(args["clues"])
        path = find_file(text, folder)
        if path is not None:
            board, canvases = read_boards(path, size)
            return cls(board, format_line(board, canvases[0]))
        board, canvas = parse_board(text, size, where="clues")
        return cls(board, format_line(board, canvas))

    @property
    def alphabet(self) -> Alphabet:
        return self.board.alphabet

    @property
    def lengths(self) -> tuple[tuple[int, int], str | Draw]:
        return (self.board.cells, self.board.cells), "uniform"

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        units = [format_positions(cell + 1 for cell in unit) for unit in self.board.units]
        items: list[dict[str, Any]] = [{"all_different": {"groups": units}}]
        given = {cell: letter for cell, letter in enumerate(self.clues, 1) if letter != "."}
        items += [{"fixed": given}] if given else []
        return tuple(parse_constraint(item, self.alphabet) for item in items)

    def conditions(self, size: int) -> Any:
        return {"relations": self.board.relations(size)[None]}

    def to_spec(self) -> dict[str, Any]:
        return {"size": self.board.size} | ({"clues": self.clues} if self.clues.strip(".") else {})

    def decode(self, text: str) -> Any:
        return self.alphabet.encode(text).reshape(self.board.size, self.board.size) + 1

    def write(self, folder: Path, names: Sequence[str], texts: Sequence[str]) -> None:
        grids = [format_grid(self.board, self.alphabet.encode(text)) for text in texts]
        (folder / "designs.txt").write_text("\n\n".join(grids) + "\n")
        (folder / "designs.lines").write_text("\n".join(texts) + "\n")

    def picture(self, names: Sequence[str], texts: Sequence[str]) -> str:
        return board_svg(self.board, texts, names, self.clues)
