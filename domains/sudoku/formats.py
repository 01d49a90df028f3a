"""Boards as text: one line a board, or a grid with rules. What is read, and what is refused:

- letters in either case; ``.``, ``0`` and ``_`` are open cells; blanks and rules (``|``, ``-``, ``+``) are dropped;
- the number of cells tells the size (16, 36, 81 or 256) unless the caller says it;
- files hold one board a line, or grids set apart by empty lines; lines that begin with ``#`` are skipped;
- any other character, another number of cells, and clues that stand twice in a row, column or box are refused.

Refusals are one line that names the file, the line and the cells.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int

from seqdiff.core.errors import InputError
from seqdiff.domains.sudoku.board import BOXES, Board

OPEN = "._0"
RULES = "|-+"
UNITS = ("row", "column", "box")


def parse_board(text: str, size: int | None = None, *, where: str = "board") -> tuple[Board, Int[np.ndarray, "cells"]]:
    """A board from one line or a grid: its geometry and its canvas, MASK where open.

    Args:
        text: of the board.
        size: number of rows; by the number of cells where None.
        where: the place that messages name.

    Raises:
        InputError: see the module's rules.

    Example:
        >>> board, canvas = parse_board("1... ..3. .2.. ...4")
        >>> board.size, format_line(board, canvas)
        (4, '1.....3..2.....4')
    """
    signs = "".join(sign for sign in text.upper() if not sign.isspace() and sign not in RULES)
    sizes = {n * n: n for n in BOXES}
    if size is None and len(signs) not in sizes:
        raise InputError(f"{where}: {len(signs)} cells; a board has {', '.join(map(str, sizes))}")
    board = Board(sizes[len(signs)] if size is None else size)
    if len(signs) != board.cells:
        raise InputError(f"{where}: {len(signs)} cells; a board of size {board.size} has {board.cells}")
    index = dict.fromkeys(OPEN, board.size) | {letter: i for i, letter in enumerate(board.letters)}
    for cell, sign in enumerate(signs):
        if sign not in index:
            raise InputError(
                f"{where}: {sign!r} at {board.name(cell)} is neither a letter ({board.letters}) nor open ({OPEN})"
            )
    canvas = np.array([index[sign] for sign in signs], np.int32)
    check_clues(board, canvas, where=where)
    return board, canvas


def check_clues(board: Board, canvas: Int[np.ndarray, "cells"], *, where: str = "board") -> None:
    """Refuse a canvas on which a letter stands twice in a unit.

    Raises:
        InputError: it names the letter, the unit and both cells.
    """
    clashes = board.clashes(canvas)
    if clashes:
        first, second = clashes[0]
        shared = int(np.flatnonzero(board.places[first] == board.places[second])[0])
        unit = f"{UNITS[shared]} {board.places[first, shared] + 1}"
        more = f", and {len(clashes) - 1} more such pairs" if len(clashes) > 1 else ""
        raise InputError(
            f"{where}: {board.letters[canvas[first]]} stands twice in {unit}, at {board.name(first)} and "
            f"{board.name(second)}{more}"
        )


def read_boards(path: str | Path, size: int | None = None) -> tuple[Board, Int[np.ndarray, "N cells"]]:
    """All boards of a file, which must be of one size.

    Args:
        path: of a text file.
        size: number of rows; by the number of cells where None. Say it for files of 4x4 boards, one a line: sixteen
            of them would pass for a grid of 16x16.

    Raises:
        InputError: see the module's rules.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (UnicodeDecodeError, IsADirectoryError):
        raise InputError(f"{path} is not a text file of boards") from None
    found = [
        (number, *parse_board(text, size, where=f"{path}, line {number}")) for number, text in _blocks(lines, size)
    ]
    if not found:
        raise InputError(f"{path} holds no board")
    first = found[0][1]
    for number, board, _ in found:
        if board != first:
            raise InputError(
                f"{path}, line {number}: a board of size {board.size} after one of size {first.size}; put each size in "
                "a file of its own"
            )
    return first, np.stack([canvas for _, _, canvas in found])


def _blocks(lines: list[str], size: int | None) -> Iterator[tuple[int, str]]:
    """The text of each board and the number of its first line."""
    block: list[str] = []
    start = 0
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            start = start if block else number
            block.append(line)
        elif block:
            if _is_grid(block, size):
                yield start, "\n".join(block)
            else:
                yield from enumerate(block, start)
            block = []


def _is_grid(block: list[str], size: int | None) -> bool:
    """Whether lines are the rows of one board, and not a board each. A row has at most 16 cells, a board at least."""
    widths = [sum(sign not in RULES and not sign.isspace() for sign in line) for line in block]
    rows = [width for width in widths if width]
    if max(rows, default=0) == 16:
        return size == 16 or (size is None and len(rows) == 16)
    return len(block) > 1 and max(rows, default=0) < 16


def format_line(board: Board, canvas: Int[np.ndarray, "cells"]) -> str:
    """A board in one line, a dot where it is open."""
    return "".join((board.letters + ".")[min(int(token), board.size)] for token in canvas)


def format_grid(board: Board, canvas: Int[np.ndarray, "cells"]) -> str:
    """A board as a grid with rules between the boxes; :func:`parse_board` reads it back."""
    high, wide = board.box
    line = format_line(board, canvas)
    rows = []
    for row in range(board.size):
        letters = line[row * board.size : (row + 1) * board.size]
        boxes = [" ".join(letters[start : start + wide]) for start in range(0, board.size, wide)]
        if row and row % high == 0:
            rows.append("-+-".join("-" * len(box) for box in boxes))
        rows.append(" | ".join(boxes))
    return "\n".join(rows)


def write_boards(path: str | Path, board: Board, canvases: Int[np.ndarray, "N cells"]) -> None:
    """Write boards, one a line."""
    Path(path).write_text("".join(format_line(board, canvas) + "\n" for canvas in canvases), encoding="utf-8")
