"""Constraints between positions: shared letters, pairs of letters, spacing of repeated words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Bounds, Verdict, in_region, parse_region, region_spec, register
from seqdiff.constraints.parts import Clause, Lowered, Pairs, Tie
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import WHOLE, Layout, Region, parse_regions

_FORMS = ("period", "groups", "mirror", "palindrome")


@register
@dataclass(frozen=True)
class Tied:
    """Positions that share one letter.

    ``tied: {period: 30}`` repeats every 30 residues; ``groups: [["1-30", "31-60"], [70, 75]]`` ties stretches of equal
    length position by position (chain copies, arbitrary groups); ``mirror: "1-20"`` reads the same backwards;
    ``palindrome: "1-20"`` equals its own reverse complement, in alphabets with complements. The allowed letters of tied
    positions are intersected. Their log-probabilities are averaged (``pool: mean``: as undecided as one member, what
    inverse-folding tools do) or add (``pool: sum``: the model's distribution given that they are equal, which is
    sharper the more members there are). ``weights: [1, 0.5]`` beside ``groups`` weighs them instead: one number for
    each stretch of a group, negative to keep away from what a member prefers.

    Attributes:
        form: ``period``, ``groups``, ``mirror`` or ``palindrome``.
        period: of ``period``.
        groups: of ``groups``: stretches that are tied to each other.
        region: of ``mirror`` and ``palindrome``, and of ``period``.
        mean: whether log-probabilities are averaged.
        partners: (letter, complement) pairs of ``palindrome``.
        weights: of the members of each group; empty for equal ones.
    """

    name: ClassVar[str] = "tied"
    form: str
    period: int = 0
    groups: tuple[tuple[Region, ...], ...] = ()
    region: Region = WHOLE
    mean: bool = True
    partners: tuple[tuple[str, str], ...] = ()
    weights: tuple[float, ...] = ()

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Tied":
        args = check_keys(args, (*_FORMS, "pool", "weights", "region"))
        given = [form for form in _FORMS if form in args]
        if len(given) != 1:
            raise InputError("give one of 'period', 'groups', 'mirror' and 'palindrome'")
        form = given[0]
        pool = args.get("pool", "mean")
        if pool not in ("sum", "mean"):
            raise InputError(f"pool={pool!r}: write sum or mean")
        if "weights" in args and (form != "groups" or "pool" in args):
            raise InputError("'weights' belongs to 'groups' and stands for 'pool'")
        if "region" in args and form != "period":
            raise InputError(f"{form!r} names its own positions; leave out 'region'")
        mean = pool == "mean"
        if form == "period":
            return cls(form, whole_number(args["period"], "period", low=1), (), parse_region(args), mean)
        if form == "groups":
            groups = _groups(args["groups"])
            return cls(form, groups=groups, mean=mean, weights=_weights(args, groups))
        if form == "palindrome" and not alphabet.complement:
            raise InputError(f"the {alphabet.name} letters have no complement; 'mirror' reads the same backwards")
        partners = tuple(zip(alphabet.letters, alphabet.complement, strict=True)) if form == "palindrome" else ()
        return cls(form, region=Region.parse(args[form]), mean=mean, partners=partners)

    def to_spec(self) -> dict[str, Any]:
        pool = {} if self.mean else {"pool": "sum"}
        pool |= {"weights": list(self.weights)} if self.weights else {}
        if self.form == "period":
            return {"period": self.period} | region_spec(self.region) | pool
        if self.form == "groups":
            return {"groups": [[str(region) for region in group] for group in self.groups]} | pool
        return {self.form: str(self.region)} | pool

    def describe(self) -> str:
        pool = "" if self.mean else ", log-probabilities add"
        pool += f", weights {', '.join(f'{weight:g}' for weight in self.weights)}" if self.weights else ""
        if self.form == "period":
            return f"repeats every {self.period}{in_region(self.region)}{pool}"
        if self.form == "groups":
            return "tied " + "; ".join(" = ".join(map(str, group)) for group in self.groups) + pool
        return f"{self.form} {self.region}{pool}"

    def lower(self, layout: Layout) -> Lowered:
        for region in (self.region, *(region for group in self.groups for region in group)):
            region.check(layout, "tied")
        groups = self._positions(layout.max_length)
        if not groups:
            raise InputError(f"{self.describe()} ties nothing in a design of {layout.max_length}")
        return Lowered(ties=(Tie(tuple(groups), self.mean, self.weights),))

    def holds(self, text: str) -> Verdict:
        partner = dict(self.partners)
        for (first, _), *others in self._positions(len(text)):
            for other, flip in others:
                expected = partner.get(text[first], "") if flip else text[first]
                if other >= len(text) or text[other] != expected:
                    found = f"{text[first]}{first + 1} and {text[other : other + 1]}{other + 1}"
                    return Verdict(False, f"{found} do not agree")
        return Verdict(True, "all agree")

    def _positions(self, length: int) -> list[tuple[tuple[int, bool], ...]]:
        """Groups of 0-based positions and whether the complement of the group's letter stands there."""
        first, last = self.region.first - 1, length if self.region.last is None else self.region.last
        if self.form == "period":
            starts = range(first, min(first + self.period, last))
            groups = [tuple((p, False) for p in range(start, last, self.period)) for start in starts]
        elif self.form == "groups":
            groups = [
                tuple((region.first - 1 + k, False) for region in group)
                for group in self.groups
                for k in range((group[0].last or 0) - group[0].first + 1)
            ]
        else:
            flip = self.form == "palindrome"
            groups = [((p, False), (first + last - 1 - p, flip)) for p in range(first, (first + last + flip) // 2)]
        return [group for group in groups if len(group) > 1]


def _weights(args: Mapping[str, Any], groups: tuple[tuple[Region, ...], ...]) -> tuple[float, ...]:
    value = args.get("weights", ())
    weights = tuple(number(weight, "weights") for weight in (value if isinstance(value, list | tuple) else [value]))
    if weights and any(len(group) != len(weights) for group in groups):
        raise InputError(f"weights={value!r}: give one number for each of the stretches of a group")
    return weights


def _groups(value: object) -> tuple[tuple[Region, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(group, list | tuple) for group in value) or not value:
        raise InputError(f'groups={value!r}: write lists of stretches, such as [["1-30", "31-60"], [70, 75]]')
    groups = tuple(tuple(region for item in group for region in parse_regions(item)) for group in value)
    for group in groups:
        sizes = {None if region.last is None else region.last - region.first + 1 for region in group}
        words = ", ".join(map(str, group))
        if len(group) < 2 or len(sizes) > 1 or None in sizes:
            raise InputError(f"group {words}: tie two stretches or more, of equal length")
    return groups


@register
@dataclass(frozen=True)
class Pair:
    """Letters that may stand together at two positions: ``pair: {positions: [[12, 47]], allowed: [CC]}``.

    ``allowed`` lists two-letter words or pairs of letter sets (``[[KR, DE], [DE, KR]]`` is a salt bridge either way
    round), ``complementary`` asks for complements, and ``both_or_neither: C`` for letters that come together or not at
    all. All listed pairs must hold, or as many as ``min``, ``max`` or ``exactly`` say (choose k of a list).
    ``min_separation`` leaves out listed pairs that are closer in sequence.

    Attributes:
        positions: 1-based (i, j).
        allowed: letter sets that may stand at i and j together.
        rule: the words of ``allowed`` as the user wrote them: ``allowed``, ``complementary`` or ``both_or_neither``.
        bounds: how many of the pairs hold; None for all.
        complement: partner of each letter, for ``complementary``.
    """

    name: ClassVar[str] = "pair"
    positions: tuple[tuple[int, int], ...]
    allowed: tuple[tuple[str, str], ...]
    rule: str = "allowed"
    bounds: Bounds | None = None

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Pair":
        rules = ("allowed", "complementary", "both_or_neither")
        known = ("positions", *rules, "min", "max", "exactly", "min_separation")
        args = check_keys(args, known, required=("positions",))
        given = [rule for rule in rules if rule in args]
        if len(given) != 1:
            raise InputError("give one of 'allowed', 'complementary' and 'both_or_neither'")
        rule = given[0]
        positions = _pair_positions(args["positions"])
        separation = whole_number(args.get("min_separation", 1), "min_separation", low=1)
        kept = tuple((i, j) for i, j in positions if abs(i - j) >= separation)
        if not kept:
            raise InputError(f"no listed pair is {separation} or more positions apart")
        if rule == "allowed":
            allowed = _allowed_pairs(args["allowed"], alphabet)
        elif rule == "complementary":
            if args["complementary"] is not True or not alphabet.complement:
                raise InputError(f"'complementary: true' needs an alphabet with complements, not {alphabet.name}")
            allowed = tuple(zip(alphabet.letters, alphabet.complement, strict=True))
        else:
            letters = alphabet.letter_set(str(args["both_or_neither"]))
            others = "".join(letter for letter in alphabet.letters if letter not in letters)
            if not letters or not others:
                raise InputError("'both_or_neither' needs some of the letters")
            allowed = ((letters, letters), (others, others))
        counted = set(args) & {"min", "max", "exactly"}
        bounds = Bounds.parse(args, "min", "max") if counted else None
        if bounds is not None and bounds.low > len(kept):
            raise InputError(f"at least {bounds.low} of {len(kept)} listed pairs cannot hold")
        return cls(kept, allowed, rule, bounds)

    def to_spec(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"allowed": [[a, b] for a, b in self.allowed]}
        if self.rule == "complementary":
            rule = {"complementary": True}
        elif self.rule == "both_or_neither":
            rule = {"both_or_neither": self.allowed[0][0]}
        often = {} if self.bounds is None else self.bounds.to_spec("min", "max")
        return {"positions": [list(pair) for pair in self.positions]} | rule | often

    def describe(self) -> str:
        words = {"complementary": "complementary"}.get(self.rule) or " or ".join(f"{a}/{b}" for a, b in self.allowed)
        if self.rule == "both_or_neither":
            words = f"both or neither {self.allowed[0][0]}"
        places = ", ".join(f"{i}-{j}" for i, j in self.positions[:4]) + (", ..." if len(self.positions) > 4 else "")
        often = "" if self.bounds is None else f", {self.bounds} of {len(self.positions)}"
        return f"pair {places} {words}{often}"

    def lower(self, layout: Layout) -> Lowered:
        for position in (p for pair in self.positions for p in pair):
            if position > layout.min_length:
                raise InputError(
                    f"pair: position {position} is out of range; the shortest design has {layout.min_length}"
                )
        letters = layout.alphabet.letters
        table = np.array([[self._fits(a, b) for b in letters] for a in letters])
        places = tuple((i - 1, j - 1) for i, j in self.positions)
        low = len(places) if self.bounds is None else self.bounds.low
        high = None if self.bounds is None else self.bounds.high
        return Lowered(pairs=(Pairs(places, table, low, high),))

    def holds(self, text: str) -> Verdict:
        found = [(i, j) for i, j in self.positions if self._fits(text[i - 1 : i], text[j - 1 : j])]
        ok = len(found) == len(self.positions) if self.bounds is None else self.bounds.admits(len(found))
        return Verdict(ok, f"{len(found)} of {len(self.positions)} hold")

    def _fits(self, a: str, b: str) -> bool:
        return any(a and b and a in first and b in second for first, second in self.allowed)


def _pair_positions(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"positions={value!r}: write pairs of positions, such as [[12, 47], [20, 31]]")
    pairs = []
    for item in value:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise InputError(f"positions: {item!r} is not a pair of positions")
        i, j = (whole_number(p, "position", low=1) for p in item)
        if i == j:
            raise InputError(f"positions: {i} is paired with itself")
        pairs.append((i, j))
    return tuple(pairs)


def _allowed_pairs(value: object, alphabet: Alphabet) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list | tuple) or isinstance(value, Mapping) or not value:
        raise InputError(f"allowed={value!r}: write two-letter words or pairs of letter sets, such as [CC, [KR, DE]]")
    pairs = []
    for item in value:
        if not isinstance(item, str | list | tuple) or len(item) != 2:
            raise InputError(f"allowed: {item!r} is not two letters, nor two letter sets")
        first, second = (alphabet.letter_set(str(part)) for part in item)
        if not first or not second:
            raise InputError(f"allowed: {item!r} has an empty letter set")
        pairs.append((first, second))
    return tuple(pairs)


@register
@dataclass(frozen=True)
class Repeat:
    """No word occurs twice: ``repeat: {length: 5}`` forbids any two equal stretches of five letters.

    No automaton of a useful size knows which words have been used, so this is kept by the solver, which is told of a
    repeated word when a solution has one.

    Attributes:
        length: of the words.
        region: where.
    """

    name: ClassVar[str] = "repeat"
    LOCAL: ClassVar[bool] = True
    length: int
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Repeat":
        args = check_keys(args, ("length", "region"), required=("length",))
        return cls(whole_number(args["length"], "length", low=2), parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        return {"length": self.length} | region_spec(self.region)

    def describe(self) -> str:
        return f"no word of {self.length} occurs twice{in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, "repeat")
        return Lowered(cuts=self._cuts)

    def holds(self, text: str) -> Verdict:
        text = self.region.cut(text)
        words = [text[i : i + self.length] for i in range(len(text) - self.length + 1)]
        twice = next((word for i, word in enumerate(words) if word in words[:i]), None)
        return Verdict(twice is None, f"{twice} occurs twice" if twice else f"{len(words)} words, all different")

    def _cuts(self, text: str) -> Clause:
        start = self.region.first - 1
        stop = len(text) if self.region.last is None else min(self.region.last, len(text))
        seen: dict[str, int] = {}
        clauses = []
        for i in range(start, stop - self.length + 1):
            earlier = seen.setdefault(text[i : i + self.length], i)
            if earlier != i:
                clauses.append(tuple((earlier + k, i + k) for k in range(self.length)))
        return tuple(clauses)
