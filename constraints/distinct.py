"""Positions whose letters all differ: the units of a Sudoku board, Latin squares, the colours of neighbours."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys
from seqdiff.core.layout import Layout, Region, parse_regions

SHOWN = 3
"""Groups that a description names."""


@register
@dataclass(frozen=True)
class AllDifferent:
    """No letter stands twice in a group: ``all_different: {groups: ["1-9", "10-18", [1, 10, 19]]}``.

    Positions that a design is too short for count for nothing.

    Attributes:
        groups: stretches of each group.
    """

    name: ClassVar[str] = "all_different"
    groups: tuple[tuple[Region, ...], ...]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "AllDifferent":
        groups = check_keys(args, ("groups",), required=("groups",))["groups"]
        if not isinstance(groups, Iterable) or isinstance(groups, str) or not groups:
            raise InputError(f"groups={groups!r}: write a list of groups, such as ['1-9', [1, 10, 19]]")
        return cls(tuple(parse_regions(group) for group in groups))

    def to_spec(self) -> dict[str, list[str]]:
        return {"groups": [_words(group) for group in self.groups]}

    def describe(self) -> str:
        more = f" and {len(self.groups) - SHOWN} more groups" if len(self.groups) > SHOWN else ""
        return "all different in " + "; ".join(map(_words, self.groups[:SHOWN])) + more

    def lower(self, layout: Layout) -> Lowered:
        for group in self.groups:
            for region in group:
                region.check(layout, self.name)
            members, letters = _positions(group, layout.max_length), len(layout.alphabet)
            if len(set(members)) < len(members):
                raise InputError(f"{self.name}: group {_words(group)} names a position twice")
            if len(members) > letters:
                raise InputError(
                    f"{self.name}: group {_words(group)} has {len(members)} positions for {letters} letters; "
                    "leave some out"
                )
        return Lowered(distinct=tuple(_positions(group, layout.max_length) for group in self.groups))

    def holds(self, text: str) -> Verdict:
        for group in self.groups:
            first: dict[str, int] = {}
            for region in group:
                for position, letter in enumerate(region.cut(text), region.first):
                    if letter in first:
                        return Verdict(False, f"{letter} at position {first[letter]} and at position {position}")
                    first[letter] = position
        return Verdict(True, "all differ")


def _words(group: tuple[Region, ...]) -> str:
    return ",".join(map(str, group))


def _positions(group: tuple[Region, ...], length: int) -> tuple[int, ...]:
    """0-based positions of a group in a design of ``length`` letters."""
    ends = [(region.first - 1, length if region.last is None else min(region.last, length)) for region in group]
    return tuple(position for first, last in ends for position in range(first, last))
