"""Pictures of boards: small multiples as plain SVG, clues bold on grey."""

from collections.abc import Sequence
from html import escape

from seqdiff.domains.sudoku.board import Board

CELL, GAP, HEAD, COLUMNS = 22, 26, 20, 4


def board_svg(board: Board, texts: Sequence[str], names: Sequence[str], clues: str = "", limit: int = 12) -> str:
    """The first ``limit`` boards, each with its name.

    Args:
        board: the geometry.
        texts: letters of each board, row by row.
        names: of the boards.
        clues: letters that were given, a dot where open; empty for none.
        limit: most boards drawn.
    """
    side = board.size * CELL
    shown = list(zip(texts, names, strict=True))[:limit]
    columns = min(COLUMNS, max(len(shown), 1))
    rows = -(-len(shown) // columns)
    width, height = columns * (side + GAP) + GAP, rows * (side + GAP + HEAD) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for n, (text, name) in enumerate(shown):
        x, y = GAP + n % columns * (side + GAP), GAP + n // columns * (side + GAP + HEAD)
        parts.append(f'<text x="{x}" y="{y + 10}" fill="#555" font-size="12">{escape(name)}</text>')
        parts += _board(board, text, clues or "." * board.cells, x, y + HEAD)
    return "\n".join([*parts, "</svg>\n"])


def _board(board: Board, text: str, clues: str, x: int, y: int) -> list[str]:
    side, (high, wide) = board.size * CELL, board.box
    parts = []
    for cell, (letter, clue) in enumerate(zip(text, clues, strict=True)):
        row, column = divmod(cell, board.size)
        left, top = x + column * CELL, y + row * CELL
        if clue != ".":
            parts.append(f'<rect x="{left}" y="{top}" width="{CELL}" height="{CELL}" fill="#e9e7e0"/>')
        style = 'font-weight="700" fill="#222"' if clue != "." else 'fill="#1f5fa8"'
        parts.append(f'<text x="{left + CELL / 2}" y="{top + 16}" text-anchor="middle" {style}>{escape(letter)}</text>')
    for line in range(board.size + 1):
        for along, step in (("h", high), ("v", wide)):
            stroke = 1.6 if line % step == 0 else 0.4
            at = line * CELL
            ends = (x, y + at, x + side, y + at) if along == "h" else (x + at, y, x + at, y + side)
            places = " ".join(f'{name}="{end}"' for name, end in zip(("x1", "y1", "x2", "y2"), ends, strict=True))
            parts.append(f'<line {places} stroke="#222" stroke-width="{stroke}"/>')
    return parts
