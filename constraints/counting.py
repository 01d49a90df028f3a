"""Constraints on sums over positions: letter counts, charge and other scales, mutations from a parent, identity.

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
from seqdiff.core.errors import InputError, unknown_key
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


@dataclass(frozen=True)
class _Window:
    """A window on the sum or mean of a number per letter."""

    low: float | None
    high: float | None

    @classmethod
    def parse(cls, args: Mapping[str, Any]) -> "_Window":
        if "exactly" in args:
            if "min" in args or "max" in args:
                raise InputError("'exactly' cannot stand beside 'min' or 'max'")
            exactly = number(args["exactly"], "exactly")
            return cls(exactly, exactly)
        low = number(args["min"], "min") if "min" in args else None
        high = number(args["max"], "max") if "max" in args else None
        if low is None and high is None:
            raise InputError("needs 'min', 'max' or 'exactly'")
        if low is not None and high is not None and low > high:
            raise InputError(f"min={low:g} is more than max={high:g}")
        return cls(low, high)

    def to_spec(self) -> dict[str, float]:
        if self.low is not None and self.low == self.high:
            return {"exactly": self.low}
        ends = {"min": self.low, "max": self.high}
        return {key: value for key, value in ends.items() if value is not None}

    def widened(self, by: float) -> "_Window":
        return _Window(None if self.low is None else self.low - by, None if self.high is None else self.high + by)

    def admits(self, total: Fraction) -> bool:
        low, high = (None if end is None else exact(end, "bound") for end in (self.low, self.high))
        return (low is None or total >= low) and (high is None or total <= high)

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return f"exactly {self.low:g}"
        if self.low is None or self.high is None:
            return f"at least {self.low:g}" if self.high is None else f"at most {self.high:g}"
        return f"{self.low:g}..{self.high:g}"


@register
@dataclass(frozen=True)
class Charge:
    """Net charge: ``charge: {min: -2, max: 2, histidine: 0.1, termini: n}``.

    K and R count +1, D and E -1, H as much as ``histidine`` says (0 by default; about 0.1 at pH 7.4 and 0.5 at its pKa
    of 6). ``termini`` adds the charges of free ends: ``n`` +1, ``c`` -1, ``both`` (which cancel) or ``none``.

    Attributes:
        window: least and largest charge.
        histidine: charge of H.
        termini: which ends are charged.
        region: where.
    """

    name: ClassVar[str] = "charge"
    window: _Window
    histidine: float = 0.0
    termini: str = "none"
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Charge":
        args = check_keys(args, ("min", "max", "exactly", "histidine", "termini", "region"))
        if missing := set("KRDEH") - set(alphabet.letters):
            raise InputError(f"the {alphabet.name} letters have no charged {', '.join(sorted(missing))}")
        histidine = number(args.get("histidine", 0), "histidine")
        if not 0 <= histidine <= 1:
            raise InputError(f"histidine={histidine:g} is not a charge from 0 to 1")
        exact(histidine, "histidine")
        termini = str(args.get("termini", "none"))
        if termini not in ("none", "n", "c", "both"):
            raise unknown_key("termini", termini, ("none", "n", "c", "both"))
        region = parse_region(args)
        if termini != "none" and region != WHOLE:
            raise InputError("'termini' belongs to the whole design; leave out 'region'")
        return cls(_Window.parse(args), histidine, termini, region)

    def to_spec(self) -> dict[str, Any]:
        options = {"histidine": self.histidine} if self.histidine else {}
        ends = {"termini": self.termini} if self.termini != "none" else {}
        return self.window.to_spec() | options | ends | region_spec(self.region)

    def describe(self) -> str:
        histidine = f", H {self.histidine:+g}" if self.histidine else ""
        ends = f", termini {self.termini}" if self.termini != "none" else ""
        return f"net charge {self.window}{histidine}{ends}{in_region(self.region)}"

    def relaxed(self, step: int) -> "Charge":
        """The same with bounds wider by ``step`` charges."""
        return replace(self, window=self.window.widened(step))

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, "charge")
        values = [self._charge(letter) for letter in layout.alphabet.letters]
        return Lowered(sums=(windowed(values, self.window, self.region, layout, offset=self._offset()),))

    def holds(self, text: str) -> Verdict:
        text = self.region.cut(text)
        total = text.count("K") + text.count("R") - text.count("D") - text.count("E")
        total = total + exact(self.histidine, "histidine") * text.count("H") + self._offset()
        return Verdict(self.window.admits(total), f"net charge {float(total):+g}")

    def _charge(self, letter: str) -> Fraction:
        if letter == "H":
            return exact(self.histidine, "histidine")
        return Fraction(1 if letter in "KR" else -1 if letter in "DE" else 0)

    def _offset(self) -> Fraction:
        return Fraction({"n": 1, "c": -1}.get(self.termini, 0))


@register
@dataclass(frozen=True)
class Scale:
    """A window on a property that adds up: ``sum: {property: mass, min: 9000, max: 10000}``.

    ``property`` names a scale of the alphabet (protein: ``mass`` in Da, ``extinction`` in 1/(M cm) at 280 nm with reduced
    cysteines, ``gravy``: the mean Kyte-Doolittle hydropathy), or ``weights`` gives a number per letter, others being 0,
    and ``mean: true`` asks for the mean instead of the sum.

    The automaton adds whole multiples of ``resolution``. The bounds are tightened by the largest rounding error that a
    design can have, so a design that passes is inside the window; ``describe`` states how much of the window's edge is
    given up. By default the resolution is the scale's own and the error is zero or small.

    Attributes:
        property: name of the scale; empty with own weights.
        values: (letter, value) pairs.
        window: least and largest sum or mean.
        mean: whether the window is on the mean.
        offset: added to the sum.
        resolution: of the integer weights.
        region: where.
    """

    name: ClassVar[str] = "sum"
    property: str
    values: tuple[tuple[str, float], ...]
    window: _Window
    mean: bool
    offset: float
    resolution: float
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Scale":
        known = ("property", "weights", "mean", "min", "max", "exactly", "resolution", "region")
        args = check_keys(args, known)
        if ("property" in args) == ("weights" in args):
            raise InputError("give either 'property' or 'weights'")
        region = parse_region(args)
        window = _Window.parse(args)
        if "property" in args:
            if "mean" in args:
                raise InputError("'mean' belongs to 'weights'; a property is a sum or a mean by itself")
            name = str(args["property"])
            if name not in alphabet.scales:
                raise unknown_key("property", name, alphabet.scales)
            scale = alphabet.scales[name]
            values = tuple(zip(alphabet.letters, scale.values, strict=True))
            mean, offset, resolution = scale.mean, scale.offset if region == WHOLE else 0.0, scale.resolution
        else:
            name, mean, offset, resolution = "", bool(args.get("mean", False)), 0.0, 0.0
            given = check_keys(args["weights"], tuple(alphabet.letters))
            values = tuple((letter, number(given.get(letter, 0), letter)) for letter in alphabet.letters)
            fractions = [exact(value, letter) for letter, value in values]
            resolution = float(1 / Fraction(math.lcm(*(value.denominator for value in fractions))))
        if "resolution" in args:
            resolution = number(args["resolution"], "resolution", above=0)
        return cls(name, values, window, mean, offset, resolution, region)

    def to_spec(self) -> dict[str, Any]:
        what: dict[str, Any] = {"property": self.property}
        if not self.property:
            what = {"weights": {letter: value for letter, value in self.values if value}}
            what |= {"mean": True} if self.mean else {}
        return what | self.window.to_spec() | {"resolution": self.resolution} | region_spec(self.region)

    def describe(self) -> str:
        what = self.property or ("mean" if self.mean else "sum") + " of weights"
        least, most = self._errors()
        unit = " on average" if self.mean else " per residue"
        lost = (
            f" (rounded to {self.resolution:g}; gives up {most - least:.3g}{unit} of the window)"
            if most > least
            else ""
        )
        return f"{what} {self.window}{in_region(self.region)}{lost}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, "sum")
        numbers = np.array([round(value / self.resolution) for _, value in self.values])
        if np.abs(numbers).max() > 10**6:
            raise InputError(f"sum: a resolution of {self.resolution:g} is too fine for these weights")
        return Lowered(sums=(Sum(spread(numbers, self.region, layout), self._limits, self.region),))

    def _errors(self) -> tuple[float, float]:
        """Least and largest of what a residue's value exceeds its rounded one by."""
        errors = [value - round(value / self.resolution) * self.resolution for _, value in self.values]
        clean = [0.0 if abs(error) < 1e-9 * max(1.0, self.resolution) else error for error in errors]
        return min(clean), max(clean)

    def _limits(self, positions: int) -> tuple[int | None, int | None]:
        least, most = self._errors()
        times = positions if self.mean else 1
        slack = 1e-9
        low, high = self.window.low, self.window.high
        if low is not None:
            low = math.ceil((low * times - self.offset - positions * least) / self.resolution - slack)
        if high is not None:
            high = math.floor((high * times - self.offset - positions * most) / self.resolution + slack)
        return low, high

    def holds(self, text: str) -> Verdict:
        text = self.region.cut(text)
        table = dict(self.values)
        total = sum(table[letter] for letter in text) + self.offset
        total = total / max(1, len(text)) if self.mean else total
        slack = 1e-6 * max(1.0, abs(total))
        low, high = self.window.low, self.window.high
        ok = (low is None or total >= low - slack) and (high is None or total <= high + slack)
        return Verdict(ok, f"{self.property or 'value'} {total:.6g}")


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


def windowed(values: list[Fraction], window: _Window, region: Region, layout: Layout, *, offset: Fraction) -> Sum:
    """An exact sum of fractions, in units of their common denominator."""
    unit = math.lcm(*(value.denominator for value in values))
    weights = spread(np.array([int(value * unit) for value in values]), region, layout)
    low = None if window.low is None else math.ceil((exact(window.low, "min") - offset) * unit)
    high = None if window.high is None else math.floor((exact(window.high, "max") - offset) * unit)
    return Sum(weights, lambda _: (low, high), region)


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
            f"{constraint}: {who} has {len(letters)} residues, designs have {size}; they are compared position by position"
        )
