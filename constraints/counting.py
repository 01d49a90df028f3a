"""Constraints that count positions: letters, mutations from a parent, identity to known sequences.

All of them lower to integer weights added up (``parts.Sum``), whatever the order of the letters, so they stay exact
beside shared letters and pairs. Their checks count in plain Python.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Bounds, Verdict, in_region, parse_region, region_spec, register
from seqdiff.constraints.parts import Lowered, Sum
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number
from seqdiff.core.layout import WHOLE, Layout, Region

MAX_DENOMINATOR = 1000


@register
@dataclass(frozen=True)
class Count:
    """How many residues are among some letters: ``count: {letters: C, exactly: 2}``.

    Attributes:
        letters: the letters.
        bounds: how many; None with ``percent``.
        percent: least and largest share of the region's positions, in percent.
        region: where.
    """

    name: ClassVar[str] = "count"
    letters: str
    bounds: Bounds | None
    percent: tuple[float, float] | None = None
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Count":
        args = check_keys(args, ("letters", "min", "max", "exactly", "percent", "region"), required=("letters",))
        letters = alphabet.letter_set(str(args["letters"]))
        if not letters:
            raise InputError("'letters' is empty")
        region = parse_region(args)
        if "percent" not in args:
            return cls(letters, Bounds.parse(args, "min", "max"), None, region)
        if beside := set(args) & {"min", "max", "exactly"}:
            raise InputError(f"'percent' cannot stand beside {min(beside)!r}")
        ends = args["percent"]
        if not isinstance(ends, list | tuple) or len(ends) != 2:
            raise InputError(f"percent={ends!r}: write [lowest, highest], such as [0, 25]")
        low, high = (number(end, "percent") for end in ends)
        if not 0 <= low <= high <= 100:
            raise InputError(f"percent={ends!r}: need 0 <= lowest <= highest <= 100")
        return cls(letters, None, (low, high), region)

    def to_spec(self) -> dict[str, Any]:
        often = {"percent": list(self.percent)} if self.bounds is None and self.percent else {}
        often = often if self.bounds is None else self.bounds.to_spec("min", "max")
        return {"letters": self.letters} | often | region_spec(self.region)

    def describe(self) -> str:
        often = f"{self.percent[0]:g}-{self.percent[1]:g} %" if self.percent else str(self.bounds)
        return f"count {self.letters} {often}{in_region(self.region)}"

    def relaxed(self, step: int) -> "Count":
        """The same with wider bounds: by ``step`` residues, or percent points."""
        if self.bounds is not None:
            return replace(self, bounds=self.bounds.widened(step))
        assert self.percent is not None
        low, high = self.percent
        return replace(self, percent=(max(0.0, low - step), min(100.0, high + step)))

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"count {self.letters}")
        values = np.array([letter in self.letters for letter in layout.alphabet.letters], int)
        return Lowered(sums=(Sum(spread(values, self.region, layout), self._limits, self.region),))

    def _limits(self, positions: int) -> tuple[int | None, int | None]:
        if self.bounds is not None:
            return self.bounds.low or None, self.bounds.high
        assert self.percent is not None
        low, high = (exact(end, "percent") * positions / 100 for end in self.percent)
        return math.ceil(low), math.floor(high)

    def holds(self, text: str) -> Verdict:
        text = self.region.cut(text)
        found = sum(letter in self.letters for letter in text)
        if self.bounds is not None:
            return Verdict(self.bounds.admits(found), f"{found} found")
        assert self.percent is not None
        low, high = (exact(end, "percent") for end in self.percent)
        share = 100 * found / max(1, len(text))
        return Verdict(low * len(text) <= 100 * found <= high * len(text), f"{found} of {len(text)} ({share:.1f} %)")


@register
@dataclass(frozen=True)
class Mutations:
    """How many substitutions from a parent: ``mutations: {parent: parent.fasta, max: 10}``.

    Attributes:
        parent: letters of the parent, as long as the design.
        bounds: how many positions differ.
        region: where they are counted.
    """

    name: ClassVar[str] = "mutations"
    FILES: ClassVar[dict[str, str]] = {"parent": "sequence"}
    parent: str
    bounds: Bounds
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Mutations":
        args = check_keys(args, ("parent", "min", "max", "exactly", "region"), required=("parent",))
        parent = str(args["parent"])
        alphabet.encode(parent)
        return cls(parent, Bounds.parse(args, "min", "max"), parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        return {"parent": self.parent} | self.bounds.to_spec("min", "max") | region_spec(self.region)

    def describe(self) -> str:
        return f"mutations from the parent ({len(self.parent)} residues) {self.bounds}{in_region(self.region)}"

    def relaxed(self, step: int) -> "Mutations":
        """The same with bounds wider by ``step`` substitutions."""
        return replace(self, bounds=self.bounds.widened(step))

    def lower(self, layout: Layout) -> Lowered:
        same_length(self.parent, "the parent", "mutations", layout)
        self.region.check(layout, "mutations")
        weights = differences(self.parent, self.region, layout)
        return Lowered(sums=(Sum(weights, lambda _: (self.bounds.low or None, self.bounds.high), self.region),))

    def holds(self, text: str) -> Verdict:
        pairs = zip(self.region.cut(self.parent), self.region.cut(text), strict=False)
        changed = [f"{a}{i}{b}" for i, (a, b) in enumerate(pairs, self.region.first) if a != b]
        shown = ", ".join(changed[:5]) + (", ..." if len(changed) > 5 else "")
        ok = len(text) == len(self.parent) and self.bounds.admits(len(changed))
        return Verdict(ok, f"{len(changed)} substitutions" + (f": {shown}" if shown else ""))


@register
@dataclass(frozen=True)
class Identity:
    """Identity to known sequences, position by position: ``identity: {known: set.fasta, max: 0.8}``.

    Attributes:
        known: (id, letters) of each, as long as the design.
        low: least fraction of identical positions.
        high: largest fraction.
        region: where positions are compared.
    """

    name: ClassVar[str] = "identity"
    FILES: ClassVar[dict[str, str]] = {"known": "sequences"}
    known: tuple[tuple[str, str], ...]
    low: float = 0.0
    high: float = 1.0
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Identity":
        args = check_keys(args, ("known", "min", "max", "region"), required=("known",))
        known = args["known"]
        if not isinstance(known, Mapping) or not known:
            raise InputError(f"known={known!r}: name a FASTA file or write id: letters")
        for key, letters in known.items():
            try:
                alphabet.encode(str(letters))
            except InputError as error:
                raise InputError(f"{key}: {error}") from None
        low, high = (number(args.get(key, default), key) for key, default in (("min", 0), ("max", 1)))
        if not ("min" in args or "max" in args) or not 0 <= low <= high <= 1:
            raise InputError("needs 'min' or 'max' as fractions of identical positions, such as max: 0.8")
        return cls(tuple((str(key), str(letters)) for key, letters in known.items()), low, high, parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        ends = {"min": self.low} if self.low > 0 else {}
        return {"known": dict(self.known)} | ends | {"max": self.high} | region_spec(self.region)

    def describe(self) -> str:
        names = ", ".join(key for key, _ in self.known[:3]) + (", ..." if len(self.known) > 3 else "")
        return f"identity {self.low:g}..{self.high:g} to each of {len(self.known)} ({names}){in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, "identity")
        for key, letters in self.known:
            same_length(letters, key, "identity", layout)
        sums = [Sum(differences(letters, self.region, layout), self._limits, self.region) for _, letters in self.known]
        return Lowered(sums=tuple(sums))

    def _limits(self, positions: int) -> tuple[int | None, int | None]:
        low, high = exact(self.low, "min"), exact(self.high, "max")
        return math.ceil(positions * (1 - high)), math.floor(positions * (1 - low))

    def holds(self, text: str) -> Verdict:
        shares = []
        for key, letters in self.known:
            pairs = list(zip(self.region.cut(letters), self.region.cut(text), strict=False))
            shares.append((Fraction(sum(a == b for a, b in pairs), max(1, len(pairs))), key))
        low, high = exact(self.low, "min"), exact(self.high, "max")
        ok = all(low <= share <= high for share, _ in shares)
        nearest, key = max(shares)
        return Verdict(ok, f"nearest is {key} at {100 * float(nearest):.1f} % identity")


def exact(value: float, key: str) -> Fraction:
    """``value`` as the fraction that the user wrote.

    Raises:
        InputError: more than three decimals.
    """
    fraction = Fraction(str(value))
    if fraction.denominator > MAX_DENOMINATOR:
        raise InputError(f"{key}={value!r}: give at most three decimals")
    return fraction


def spread(values: np.ndarray, region: Region, layout: Layout) -> np.ndarray:
    """A number per letter [V] as weights [max_length, V] of the positions of a region."""
    weights = np.zeros((layout.max_length, len(values)), np.int64)
    weights[region.first - 1 : region.last] = values
    return weights


def differences(parent: str, region: Region, layout: Layout) -> np.ndarray:
    """Weights [max_length, V] that count the positions of a region at which a design differs from ``parent``."""
    weights = np.zeros((layout.max_length, len(layout.alphabet)), np.int64)
    ids = layout.alphabet.encode(parent)
    place = np.arange(len(parent))[region.first - 1 : region.last]
    weights[place] = 1
    weights[place, ids[place]] = 0
    return weights


def same_length(letters: str, who: str, constraint: str, layout: Layout) -> None:
    """Refuse a sequence that is not as long as every design."""
    if not layout.min_length == layout.max_length == len(letters):
        size = (
            f"{layout.min_length}-{layout.max_length}" if layout.min_length < layout.max_length else layout.max_length
        )
        raise InputError(
            f"{constraint}: {who} has {len(letters)} residues, designs have {size}; positions are compared one by one"
        )
