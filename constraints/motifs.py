"""Order and distance along the chain: motifs with gaps between them, letters kept apart, stretches kept short.

Each is written as one regular expression, which ``Pattern`` lowers. Motifs are checked by ``Pattern`` too, with
Python's ``re``; spacings and stretches by loops of their own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from seqdiff.constraints.base import Bounds, Verdict, in_region, parse_region, region_spec, register
from seqdiff.constraints.parts import Lowered
from seqdiff.constraints.pattern import Pattern
from seqdiff.constraints.regex import parse_regex
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import WHOLE, Layout, Region

NEVER = Bounds(0, 0)


@register
@dataclass(frozen=True)
class Motifs:
    """Motifs in order with gaps between them: ``motifs: {ordered: [R-G-D, K-D-E-L], gap: [5, 15]}``.

    A motif is a PROSITE pattern or ``{regex: ...}``. A gap is ``[least, most]`` residues, ``[least, null]`` or one
    number; a list of gaps gives each its own. Without ``gap`` anything may stand between the motifs.

    Attributes:
        ordered: the motifs.
        gaps: least and most residues between each motif and the next; None for no limit.
        region: where; anchors of the first and the last motif mean its ends.
    """

    name: ClassVar[str] = "motifs"
    LOCAL: ClassVar[bool] = True
    ordered: tuple[Pattern, ...]
    gaps: tuple[tuple[int, int | None], ...]
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Motifs":
        args = check_keys(args, ("ordered", "gap", "region"), required=("ordered",))
        if not isinstance(args["ordered"], list | tuple) or len(args["ordered"]) < 2:
            raise InputError("'ordered' is a list of two motifs or more, such as [R-G-D, K-D-E-L]")
        ordered = tuple(_motif(item, alphabet) for item in args["ordered"])
        for motif, later in pairwise(ordered):
            ends, starts = parse_regex(motif.regex, alphabet), parse_regex(later.regex, alphabet)
            if ends.last_anchored or not ends.last or starts.first_anchored or not starts.first:
                raise InputError(
                    f"anchors can only stand before the first motif and behind the last, not between "
                    f"{motif.source} and {later.source}"
                )
        gaps = _gaps(args.get("gap", [0, None]), len(ordered) - 1)
        motifs = cls(ordered, gaps, parse_region(args))
        parse_regex(motifs.pattern.regex, alphabet)
        return motifs

    @property
    def pattern(self) -> Pattern:
        """The motifs as one pattern."""
        regex = f"(?:{self.ordered[0].regex})"
        for (low, high), motif in zip(self.gaps, self.ordered[1:], strict=True):
            regex += f".{{{low},{'' if high is None else high}}}(?:{motif.regex})"
        return Pattern(self._words(), "regex", regex, region=self.region)

    def to_spec(self) -> dict[str, Any]:
        ordered = [item.source if item.syntax == "prosite" else {"regex": item.source} for item in self.ordered]
        pairs = [list(gap) for gap in self.gaps]
        gap = pairs[0] if all(pair == pairs[0] for pair in pairs) else pairs
        return {"ordered": ordered, "gap": gap} | region_spec(self.region)

    def describe(self) -> str:
        return f"motifs {self._words()}{in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"motifs {self._words()}")
        return self.pattern.lower(layout)

    def holds(self, text: str) -> Verdict:
        return self.pattern.holds(text)

    def _words(self) -> str:
        words = self.ordered[0].source
        for (low, high), motif in zip(self.gaps, self.ordered[1:], strict=True):
            reach = f"{low}" if low == high else f"{low} or more" if high is None else f"{low}-{high}"
            words += f", {reach} between, {motif.source}"
        return words


@register
@dataclass(frozen=True)
class Spacing:
    """Letters that keep apart: ``spacing: {letters: C, min: 3}`` refuses CC and CxC, and admits CxxC.

    Attributes:
        letters: the letters; the rule is for any two of them.
        closest: least difference of the positions of two of them.
        region: where; letters outside it do not count.
    """

    name: ClassVar[str] = "spacing"
    LOCAL: ClassVar[bool] = True
    letters: str
    closest: int
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Spacing":
        args = check_keys(args, ("letters", "min", "region"), required=("letters", "min"))
        return cls(_letters(args, alphabet), whole_number(args["min"], "min", low=1), parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        return {"letters": self.letters, "min": self.closest} | region_spec(self.region)

    def describe(self) -> str:
        return f"spacing of {self.letters} at least {self.closest}{in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"spacing of {self.letters}")
        closest = min(self.closest, layout.max_length)
        if closest < 2:
            return Lowered()
        one = _one_of(self.letters)
        regex = f"{one}.{{0,{closest - 2}}}{one}"
        return Pattern(self.describe(), "regex", regex, NEVER, self.region).lower(layout)

    def holds(self, text: str) -> Verdict:
        places = [i for i, letter in enumerate(self.region.cut(text), self.region.first) if letter in self.letters]
        near = min(pairwise(places), key=lambda pair: pair[1] - pair[0], default=None)
        if near is None:
            return Verdict(True, f"{len(places)} found")
        return Verdict(near[1] - near[0] >= self.closest, f"closest are positions {near[0]} and {near[1]}")


@register
@dataclass(frozen=True)
class Stretch:
    """The longest stretch of letters of a class: ``stretch: {letters: hydrophobic, max: 5}``.

    Attributes:
        letters: the class.
        longest: most of them in a row, equal or not.
        region: where.
    """

    name: ClassVar[str] = "stretch"
    LOCAL: ClassVar[bool] = True
    letters: str
    longest: int
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Stretch":
        args = check_keys(args, ("letters", "max", "region"), required=("letters", "max"))
        return cls(_letters(args, alphabet), whole_number(args["max"], "max", low=1), parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        return {"letters": self.letters, "max": self.longest} | region_spec(self.region)

    def describe(self) -> str:
        return f"stretch of {self.letters} at most {self.longest}{in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"stretch of {self.letters}")
        if self.longest >= layout.max_length:
            return Lowered()
        regex = f"{_one_of(self.letters)}{{{self.longest + 1}}}"
        return Pattern(self.describe(), "regex", regex, NEVER, self.region).lower(layout)

    def holds(self, text: str) -> Verdict:
        longest = length = end = 0
        for position, letter in enumerate(self.region.cut(text), self.region.first):
            length = length + 1 if letter in self.letters else 0
            if length > longest:
                longest, end = length, position
        where = f", ending at {end}" if longest else ""
        return Verdict(longest <= self.longest, f"longest is {longest}{where}")


def _letters(args: Mapping[str, Any], alphabet: Alphabet) -> str:
    letters = alphabet.letter_set(str(args["letters"]))
    if not letters:
        raise InputError("'letters' is empty")
    return letters


def _one_of(letters: str) -> str:
    return f"[{''.join(map(re.escape, letters))}]"


def _motif(item: object, alphabet: Alphabet) -> Pattern:
    """A motif of ``ordered``: PROSITE text, ``{prosite: ...}`` or ``{regex: ...}``."""
    if isinstance(item, str):
        item = {"prosite": item}
    return Pattern.from_spec(check_keys(item, ("prosite", "regex")), alphabet)


def _gaps(value: Any, count: int) -> tuple[tuple[int, int | None], ...]:
    """One gap for all, or a list with a gap for each."""
    if not isinstance(value, list | tuple) or not any(isinstance(part, list | tuple) for part in value):
        return (_gap(value),) * count
    if len(value) != count:
        raise InputError(f"gap has {len(value)} gaps; {count + 1} motifs have {count} between them")
    return tuple(_gap(part) for part in value)


def _gap(value: Any) -> tuple[int, int | None]:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    if isinstance(low, list | tuple):
        raise InputError(f"gap {value!r}: write [least, most], [least, null] or one number")
    low = whole_number(low, "gap")
    high = high if high is None else whole_number(high, "gap")
    if high is not None and high < low:
        raise InputError(f"gap [{low}, {high}] runs backwards; write the smaller number first")
    return low, high
