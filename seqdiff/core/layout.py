"""Static facts about a canvas, and 1-based inclusive ranges in the user's words."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError


@dataclass(frozen=True)
class Layout:
    """What constraints may know of the canvas when they compile.

    Attributes:
        alphabet: the letters and their named groups.
        min_length: shortest design.
        max_length: longest design; arrays that constraints make have this many positions.
    """

    alphabet: Alphabet
    min_length: int
    max_length: int

    def __post_init__(self):
        if not 1 <= self.min_length <= self.max_length:
            raise InputError(f"length {self.min_length}-{self.max_length}: need 1 <= shortest <= longest")


@dataclass(frozen=True)
class Region:
    """An inclusive, 1-based stretch of the canvas.

    Attributes:
        first: first position.
        last: last position, or None for the end of the design, whatever its length.
    """

    first: int = 1
    last: int | None = None

    @classmethod
    def parse(cls, text: object) -> "Region":
        """Read ``"20-45"``, ``"20-"`` or ``"20-end"``, ``"20"`` or a number.

        Raises:
            InputError: not of that form, descending, or starting before 1.
        """
        match = re.fullmatch(r"\s*(\d+)\s*(-\s*(\d*|end)\s*)?", str(text))
        if not match:
            raise InputError(f"region {str(text)!r}: write first-last, such as 20-45 (1-based, inclusive)")
        first = int(match[1])
        last = first if match[2] is None else (int(match[3]) if match[3].isdigit() else None)
        if first < 1:
            raise InputError(f"region {str(text)!r}: positions start at 1")
        if last is not None and last < first:
            raise InputError(f"region {str(text)!r} runs backwards; write the smaller position first")
        return cls(first, last)

    def check(self, layout: Layout, what: str) -> None:
        """Refuse a region that ends beyond the longest design."""
        end = self.first if self.last is None else self.last
        if end > layout.max_length:
            raise InputError(f"{what}: position {end} is out of range; the longest design has {layout.max_length}")

    def cut(self, text: str) -> str:
        """The part of ``text`` inside the region."""
        return text[self.first - 1 : self.last]

    def __str__(self) -> str:
        if self.first == self.last:
            return str(self.first)
        return f"{self.first}-{'end' if self.last is None else self.last}"


WHOLE = Region()


def parse_regions(value: object) -> tuple[Region, ...]:
    """Stretches named by ``7``, ``"7"``, ``"1,3,5-9"``, ``"46-"`` or a list of such.

    Raises:
        InputError: not of that form.

    Example:
        >>> [str(region) for region in parse_regions("1,3,5-9,46-")]
        ['1', '3', '5-9', '46-end']
    """
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(region for part in value for region in parse_regions(part))
    return tuple(Region.parse(piece) for piece in str(value).split(","))


def format_positions(positions: Iterable[int]) -> str:
    """Positions as compact ranges: ``1,3,5-9``.

    Example:
        >>> format_positions([9, 1, 3, 5, 6, 7, 8])
        '1,3,5-9'
    """
    ranges: list[list[int]] = []
    for position in sorted(positions):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
