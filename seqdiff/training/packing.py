"""Which pieces share a row, planned for a whole epoch at once from how many pieces there are of each size.

Packing the histogram of sizes instead of the pieces (Krell et al. 2021, Efficient sequence packing without
cross-contamination) costs no more for a billion pieces than for a thousand, and any row can be looked up by its number.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Pattern(NamedTuple):
    """Rows that hold pieces of the same sizes.

    Attributes:
        rows: how many.
        sizes: of the pieces in each, in tokens, largest first.
    """

    rows: int
    sizes: tuple[int, ...]


def pack(histogram: Int[np.ndarray, "sizes"], length: int) -> list[Pattern]:
    """Rows of at most ``length`` tokens that hold every piece once, by best-fit decreasing.

    Pieces are placed from the largest to the smallest, each into the row where least space is left over.

    Args:
        histogram: number of pieces of each size, from 0 (none) to ``length``.
        length: of the rows.
    """
    open: list[list[Pattern]] = [[] for _ in range(length + 1)]  # by the space that is left
    for size in range(length, 0, -1):
        left = int(histogram[size])
        for space in range(size, length):
            if not left:
                break
            # As many pieces as fit go into a row, so what remains of it is below ``size`` and not met again here.
            groups, open[space] = open[space], []
            for rows, sizes in groups:
                left = _place(open, rows, sizes, size, left, space)
        _place(open, left, (), size, left, length)
    return [pattern for patterns in open for pattern in patterns]


def _place(open: list[list[Pattern]], rows: int, sizes: tuple[int, ...], size: int, left: int, space: int) -> int:
    """Put ``left`` pieces of one size into rows with ``space``; returns how many did not fit.

    The rows split into those that take as many as fit, one that takes the rest, and those that stay as they are; of
    empty rows none stay.
    """
    fit = space // size
    full = min(rows, left // fit)
    rest = left - full * fit if full < rows else 0
    untouched = rows - full - (rest > 0)
    for number, taken in ((full, fit), (1, rest)):
        if number and taken:
            open[space - taken * size].append(Pattern(number, sizes + (size,) * taken))
    if untouched and sizes:
        open[space].append(Pattern(untouched, sizes))
    return left - full * fit - rest
