"""Windows on properties that add up over letters: net charge, mass, hydropathy, extinction, or own weights.

They lower to integer weights (``parts.Sum``). Charges are exact fractions; other scales are whole multiples of a stated
resolution, with bounds tightened by the largest rounding error that a design can have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Verdict, in_region, parse_region, region_spec, register
from seqdiff.constraints.counting import exact, spread
from seqdiff.constraints.parts import Lowered, Sum
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, number
from seqdiff.core.layout import WHOLE, Layout, Region


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

    ``property`` names a scale of the alphabet (protein: ``mass`` in Da, ``extinction`` in 1/(M cm) at 280 nm with
    reduced cysteines, ``gravy``: the mean Kyte-Doolittle hydropathy), or ``weights`` gives a number per letter, others
    being 0, and ``mean: true`` asks for the mean instead of the sum.

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


def windowed(values: list[Fraction], window: _Window, region: Region, layout: Layout, *, offset: Fraction) -> Sum:
    """An exact sum of fractions, in units of their common denominator."""
    unit = math.lcm(*(value.denominator for value in values))
    weights = spread(np.array([int(value * unit) for value in values]), region, layout)
    low = None if window.low is None else math.ceil((exact(window.low, "min") - offset) * unit)
    high = None if window.high is None else math.floor((exact(window.high, "max") - offset) * unit)
    return Sum(weights, lambda _: (low, high), region)
