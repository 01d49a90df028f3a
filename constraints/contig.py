"""Contigs: given stretches in order with stretches to design between them."""

import re
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

    def __str__(self) -> str:
        if self.letters:
            return self.source or self.letters
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"


@register
@dataclass(frozen=True)
class Contig:
    """The whole design as given and open stretches: ``contig: [MKTAY, [30, 40], GSHHW]``.

    Specs write it in the field's grammar, ``contig: "A10-25/30-40/B5-9"`` beside ``structure: file``, which becomes this.
    Where gaps have a range, each design's total length is drawn, and the gaps within it by the model's posterior.

    Attributes:
        segments: from the first residue to the last.
    """

    name: ClassVar[str] = "contig"
    segments: tuple[Segment, ...]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Contig":
        if not isinstance(args, list | tuple) or not args:
            raise InputError(f"{args!r}: write given letters and [fewest, most] residues to design, in order")
        segments = []
        for item in args:
            if isinstance(item, str):
                alphabet.encode(item)
                if not item:
                    raise InputError("a given stretch is empty")
                segments.append(Segment(item, len(item), len(item)))
                continue
            ends = list(item) if isinstance(item, list | tuple) else [item, item]
            if len(ends) != 2:
                raise InputError(f"{item!r} is not [fewest, most]")
            low, high = (whole_number(end, "gap") for end in ends)
            if high < low:
                raise InputError(f"gap {low}-{high} runs backwards; write the smaller number first")
            segments.append(Segment("", low, high))
        return cls(tuple(segments))

    def to_spec(self) -> list[Any]:
        return [segment.letters or [segment.low, segment.high] for segment in self.segments]

    def describe(self) -> str:
        return "contig " + "/".join(str(segment) for segment in self.segments)

    def total(self) -> tuple[int, int]:
        """Fewest and most residues of a design."""
        return sum(segment.low for segment in self.segments), sum(segment.high for segment in self.segments)

    def echo(self) -> list[tuple[str, str, str]]:
        """What was understood: for each segment its words, its design positions, and its letters."""
        rows, low, high = [], 0, 0
        for segment in self.segments:
            first = f"{low + 1}" if low == high else f"{low + 1}..{high + 1}"
            low, high = low + segment.low, high + segment.high
            last = f"{low}" if low == high else f"{low}..{high}"
            rows.append((str(segment), f"{first} to {last}", segment.letters or "to design"))
        return rows

    def lower(self, layout: Layout) -> Lowered:
        low, high = self.total()
        if high < layout.min_length or low > layout.max_length:
            raise InputError(f"{self.describe()} has {low}-{high} residues, designs have {_size(layout)}")
        if any(segment.low != segment.high for segment in self.segments):
            return Pattern(self.describe(), "regex", self._regex(), None).lower(layout)
        if layout.min_length != layout.max_length or layout.max_length != low:
            raise InputError(f"{self.describe()} has {low} residues, designs have {_size(layout)}")
        allowed = np.ones((low, len(layout.alphabet)), bool)
        at = 0
        for segment in self.segments:
            for position, letter in enumerate(layout.alphabet.encode(segment.letters), at):
                allowed[position] = np.arange(allowed.shape[1]) == letter
            at += segment.low
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        ok = re.fullmatch(self._regex(), text) is not None
        return Verdict(ok, f"{len(text)} residues, every given stretch in order" if ok else "does not follow the contig")

    def _regex(self) -> str:
        return "".join(segment.letters or f".{{{segment.low},{segment.high}}}" for segment in self.segments)


def _size(layout: Layout) -> str:
    low, high = layout.min_length, layout.max_length
    return f"{low}" if low == high else f"{low}-{high}"
