"""Positional constraints: letters fixed, allowed or forbidden at given places."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys
from seqdiff.core.layout import WHOLE, Layout, Region, format_positions, parse_regions


@register
@dataclass(frozen=True)
class Fixed:
    """Letters that stand at given positions: ``fixed: {1: M, "20-22": GSG}``.

    Attributes:
        letters: (1-based position, letter) pairs, ascending.
    """

    name: ClassVar[str] = "fixed"
    letters: tuple[tuple[int, str], ...]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Fixed":
        if not isinstance(args, Mapping) or not args:
            raise InputError(f"{args!r}: write position: letter, such as {{1: M, 20-22: GSG}}")
        letters: dict[int, str] = {}
        for place, text in args.items():
            region = Region.parse(place)
            text = str(text)
            alphabet.encode(text)
            if region.last is None or region.last - region.first + 1 != len(text):
                raise InputError(f"{place}: {text!r} has {len(text)} letters; give one letter for each position")
            for position, letter in enumerate(text, region.first):
                if letters.setdefault(position, letter) != letter:
                    raise InputError(f"position {position} is fixed twice, as {letters[position]} and as {letter}")
        return cls(tuple(sorted(letters.items())))

    def to_spec(self) -> dict[str, str]:
        return dict(self._stretches())

    def describe(self) -> str:
        return "fixed " + ", ".join(f"{place}={text}" for place, text in self._stretches())

    def lower(self, layout: Layout) -> Lowered:
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        for position, letter in self.letters:
            if position > layout.min_length:
                raise InputError(
                    f"fixed: position {position} is out of range; the shortest design has {layout.min_length}"
                )
            allowed[position - 1] = False
            allowed[position - 1, layout.alphabet.letters.index(letter)] = True
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        for position, letter in self.letters:
            found = text[position - 1 : position]
            if found != letter:
                return Verdict(False, f"position {position} is {found or 'missing'}, not {letter}")
        return Verdict(True, f"all {len(self.letters)} in place")

    def _stretches(self) -> list[tuple[str, str]]:
        """Neighbouring positions put together: ("20-22", "GSG")."""
        letters = dict(self.letters)
        places = format_positions(letters).split(",")
        ranges = [Region.parse(place) for place in places]
        texts = ["".join(letters[p] for p in range(r.first, (r.last or r.first) + 1)) for r in ranges]
        return list(zip(places, texts, strict=True))


@dataclass(frozen=True)
class _Letters:
    """Letters named for a set of positions; ``allow`` keeps them, ``forbid`` keeps the others.

    Attributes:
        letters: the letters.
        regions: where; the whole design by default. Regions may reach beyond the shortest design.
    """

    name: ClassVar[str]
    letters: str
    regions: tuple[Region, ...] = (WHOLE,)

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet):
        args = check_keys(args, ("positions", "letters", "region"), required=("letters",))
        if "positions" in args and "region" in args:
            raise InputError("'positions' and 'region' say the same; keep one")
        where = args.get("positions", args.get("region"))
        letters = alphabet.letter_set(str(args["letters"]))
        if not letters:
            raise InputError("'letters' is empty")
        return cls(letters, (WHOLE,) if where is None else parse_regions(where))

    def to_spec(self) -> dict[str, str]:
        where = {} if self.regions == (WHOLE,) else {"positions": self._where()}
        return where | {"letters": self.letters}

    def describe(self) -> str:
        where = "everywhere" if self.regions == (WHOLE,) else f"at {self._where()}"
        return f"{self.name} {self.letters} {where}"

    def lower(self, layout: Layout) -> Lowered:
        kept = np.array([self._keeps(letter) for letter in layout.alphabet.letters])
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        for region in self.regions:
            region.check(layout, self.name)
            allowed[region.first - 1 : region.last] &= kept
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        for region in self.regions:
            for position, letter in enumerate(region.cut(text), region.first):
                if not self._keeps(letter):
                    return Verdict(False, f"{letter} at position {position}")
        return Verdict(True, f"{self.name} {self.letters} kept")

    def _keeps(self, letter: str) -> bool:
        return letter in self.letters

    def _where(self) -> str:
        return ",".join(str(region) for region in self.regions)


@register
@dataclass(frozen=True)
class Allow(_Letters):
    """Only these letters at these positions: ``allow: {positions: "2-8", letters: hydrophobic}``."""

    name: ClassVar[str] = "allow"


@register
@dataclass(frozen=True)
class Forbid(_Letters):
    """None of these letters at these positions: ``forbid: {letters: C}``."""

    name: ClassVar[str] = "forbid"

    def _keeps(self, letter: str) -> bool:
        return letter not in self.letters
