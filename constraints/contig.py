"""Contigs: given stretches in order with stretches to design between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.parts import Lowered
from seqdiff.constraints.pattern import Pattern
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import whole_number
from seqdiff.core.layout import Layout


@dataclass(frozen=True)
class Segment:
    """One stretch of a contig.

    Attributes:
        letters: what is given; empty for a stretch to design.
        low: fewest residues.
        high: most residues.
        source: where given letters come from, such as ``A10-25``.
    """

    letters: str
    low: int
    high: int
    source: str = ""

    @classmethod
    def given(cls, letters: str, source: str = "") -> "Segment":
        """Letters that stay."""
        return cls(letters, len(letters), len(letters), source)

    @classmethod
    def parse(cls, item: object, alphabet: Alphabet) -> "Segment":
        """Read ``MKTAY``, ``{A10-14: MKTAY}``, ``30`` or ``[30, 40]``."""
        source = ""
        if isinstance(item, Mapping):
            if len(item) != 1:
                raise InputError(f"{item!r}: write one source and its letters, such as {{A10-14: MKTAY}}")
            source, item = next(iter(item.items()))
            if not isinstance(item, str):
                raise InputError(f"{source}: {item!r} are not letters")
        if isinstance(item, str):
            if not item:
                raise InputError("a given stretch is empty")
            alphabet.encode(item)
            return cls.given(item, str(source))
        ends = list(item) if isinstance(item, list | tuple) else [item, item]
        if len(ends) != 2:
            raise InputError(f"gap {item!r}: write [fewest, most]")
        low, high = (whole_number(end, "gap") for end in ends)
        if high < low:
            raise InputError(f"gap {low}-{high} runs backwards; write the smaller number first")
        return cls("", low, high)

    def to_spec(self) -> Any:
        """What :meth:`parse` reads back."""
        if not self.letters:
            return self.low if self.low == self.high else [self.low, self.high]
        return {self.source: self.letters} if self.source else self.letters

    def __str__(self) -> str:
        return self.source or self.letters or _range(self.low, self.high)


@register
@dataclass(frozen=True)
class Contig:
    """The whole design as given and open stretches: ``contig: [MKTAY, [30, 40], GSHHW]``.

    Specs write it in the field's grammar, ``contig: "A10-25/30-40/B5-9"`` beside ``structure: file``, which becomes
    this. Where gaps have a range, each design's total length is drawn, and the gaps within it by the model's posterior.

    Attributes:
        segments: from the first residue to the last.
    """

    name: ClassVar[str] = "contig"
    segments: tuple[Segment, ...]

    def __post_init__(self):
        if self.total()[1] == 0:
            raise InputError("the contig has no residue; give letters, or how many residues to design")

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Contig":
        if not isinstance(args, list | tuple) or not args:
            raise InputError(
                f"{args!r}: write given letters and [fewest, most] residues to design in order, or use the spec's keys "
                "'contig' and 'structure'"
            )
        return cls(tuple(Segment.parse(item, alphabet) for item in args))

    def to_spec(self) -> list[Any]:
        return [segment.to_spec() for segment in self.segments]

    def describe(self) -> str:
        return "contig " + "/".join(str(segment) for segment in self.segments)

    def total(self) -> tuple[int, int]:
        """Fewest and most residues of a design."""
        return sum(segment.low for segment in self.segments), sum(segment.high for segment in self.segments)

    def echo(self) -> list[tuple[str, str, str]]:
        """What was understood: for each segment its words, its design positions, and its letters.

        Where gaps before or in a segment have a range, its first and last position have one too: ``27..37 to 36..46``.
        """
        rows, low, high = [], 0, 0
        for segment in self.segments:
            first = (low + 1, high + 1)
            low, high = low + segment.low, high + segment.high
            ends = "none" if segment.high == 0 else f"{_range(*first, '..')} to {_range(low, high, '..')}"
            rows.append((str(segment), ends, segment.letters or "to design"))
        return rows

    def lower(self, layout: Layout) -> Lowered:
        low, high = self.total()
        if high < layout.min_length or low > layout.max_length:
            lengths = _range(layout.min_length, layout.max_length)
            raise InputError(f"{self.describe()} has {_range(low, high)} residues, but designs have {lengths}")
        if not low == high == layout.min_length == layout.max_length:
            return Pattern(self.describe(), "regex", self._regex(), None).lower(layout)
        allowed = np.ones((low, len(layout.alphabet)), bool)
        at = 0
        for segment in self.segments:
            for position, letter in enumerate(layout.alphabet.encode(segment.letters), at):
                allowed[position] = np.arange(allowed.shape[1]) == letter
            at += segment.low
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        """Walk the segments with every number of residues that may stand before the next one."""
        reached = {0}
        for n, segment in enumerate(self.segments, 1):
            if segment.letters:
                reached = {at + segment.low for at in reached if text.startswith(segment.letters, at)}
            else:
                reached = {at + size for at in reached for size in range(segment.low, segment.high + 1)}
            reached = {at for at in reached if at <= len(text)}
            if not reached:
                return Verdict(False, f"segment {n} ({segment}) has no place")
        ok = len(text) in reached
        return Verdict(ok, f"all {len(self.segments)} segments in place" if ok else f"{len(text)} residues do not fit")

    def _regex(self) -> str:
        """Gaps side by side are one gap, so that a text has one way to be read where one gap is open."""
        words, low, high = [], 0, 0
        for segment in (*self.segments, None):
            if segment is not None and not segment.letters:
                low, high = low + segment.low, high + segment.high
                continue
            if high:
                words.append(f".{{{low},{high}}}")
            if segment is not None:
                words.append(segment.letters)
            low = high = 0
        return "".join(words)


def _range(low: int, high: int, dash: str = "-") -> str:
    return f"{low}" if low == high else f"{low}{dash}{high}"
