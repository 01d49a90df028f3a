"""Regular constraints: patterns and runs.

Both ask how often a pattern matches in a region; matches are counted by the distinct positions at which one
ends, so that overlapping ones count. The checks use RE2 on finished designs; the automata are built from
position automata of ``seqdiff.constraints.regex``.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, ClassVar, Literal

import re2

from seqdiff.constraints.automaton import FullMatch, MatchCounter, Placement
from seqdiff.constraints.base import (
    Bounds,
    Verdict,
    in_region,
    parse_region,
    region_spec,
    register,
)
from seqdiff.constraints.parts import Lowered, Scan
from seqdiff.constraints.prosite import prosite_to_regex
from seqdiff.constraints.regex import Nfa, parse_regex
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import WHOLE, Layout, Region

AT_LEAST_ONE = Bounds(1, None)
CHECKER_MEMORY = 64 << 20


@register
@dataclass(frozen=True)
class Pattern:
    """A motif and how often it occurs: ``pattern: {prosite: "N-{P}-[ST]-{P}", exactly: 0}``.

    Attributes:
        source: the pattern as the user wrote it.
        syntax: ``prosite`` or ``regex``.
        regex: the same pattern for Python's ``re``.
        bounds: number of positions at which a match ends; None when the region as a whole must match.
        region: where; anchors mean the ends of the region.
    """

    name: ClassVar[str] = "pattern"
    LOCAL: ClassVar[bool] = True
    source: str
    syntax: Literal["prosite", "regex"]
    regex: str
    bounds: Bounds | None = AT_LEAST_ONE
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Pattern":
        keys = ("prosite", "regex", "at_least", "at_most", "exactly", "matches", "region")
        args = check_keys(args, keys)
        given = [key for key in ("prosite", "regex") if key in args]
        if len(given) != 1:
            raise InputError("give the pattern as either 'prosite' or 'regex'")
        syntax = given[0]
        source = str(args[syntax])
        regex = prosite_to_regex(source, alphabet) if syntax == "prosite" else source
        nfa = parse_regex(regex, alphabet)
        bounds: Bounds | None = Bounds.parse(args, "at_least", "at_most", default=AT_LEAST_ONE)
        if "matches" in args:
            if args["matches"] is not True or set(args) & {"at_least", "at_most", "exactly"}:
                raise InputError("'matches: true' asks that the whole region match and stands without counts")
            bounds = None
        elif nfa.nullable:
            raise InputError(f"{source!r} matches the empty text, so it occurs everywhere; ask for one letter at least")
        _checker(regex)
        return cls(source, "prosite" if syntax == "prosite" else "regex", regex, bounds, parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        often = {"matches": True} if self.bounds is None else self.bounds.to_spec("at_least", "at_most")
        return {self.syntax: self.source} | often | region_spec(self.region)

    def describe(self) -> str:
        often = "matches all" if self.bounds is None else str(self.bounds)
        return f"pattern {self.source} {often}{in_region(self.region)}"

    def relaxed(self, step: int) -> "Pattern":
        """The same with bounds wider by ``step`` matches."""
        return self if self.bounds is None else replace(self, bounds=self.bounds.widened(step))

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"pattern {self.source}")
        nfa = parse_regex(self.regex, layout.alphabet)
        whole = self.bounds is None
        scan = Scan(FullMatch(nfa) if self.bounds is None else _counter(nfa, self.bounds), self.region)
        if not whole and self.bounds != AT_LEAST_ONE:
            return Lowered(scans=(scan,))
        return Lowered(scans=(scan,), fallback=lambda: (_placement(nfa, self.region, whole=whole),))

    def holds(self, text: str) -> Verdict:
        text = self.region.cut(text)
        if self.bounds is None:
            ok = _checker(self.regex).fullmatch(text) is not None
            return Verdict(ok, "matches" if ok else "does not match")
        ends = match_ends(self.regex, text)
        places = ", ".join(str(self.region.first + end - 1) for end in ends[:5])
        found = f"{len(ends)} found, ending at {places}{', ...' if len(ends) > 5 else ''}" if ends else "none found"
        return Verdict(self.bounds.admits(len(ends)), found)


@register
@dataclass(frozen=True)
class Run:
    """The longest run of one letter: ``run: {max: 3}``.

    Attributes:
        longest: most equal letters in a row.
        region: where.
    """

    name: ClassVar[str] = "run"
    LOCAL: ClassVar[bool] = True
    longest: int
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Run":
        args = check_keys(args, ("max", "region"), required=("max",))
        return cls(whole_number(args["max"], "max", low=1), parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        return {"max": self.longest} | region_spec(self.region)

    def describe(self) -> str:
        return f"run of one letter at most {self.longest}{in_region(self.region)}"

    def relaxed(self, step: int) -> "Run":
        """The same with runs longer by ``step``."""
        return replace(self, longest=self.longest + step)

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, "run")
        if self.longest >= layout.max_length:
            return Lowered()
        repeats = "|".join(f"{letter}{{{self.longest + 1}}}" for letter in layout.alphabet.letters)
        scan = Scan(_counter(parse_regex(repeats, layout.alphabet), Bounds(0, 0)), self.region)
        return Lowered(scans=(scan,))

    def holds(self, text: str) -> Verdict:
        runs = [(sum(1 for _ in group), letter) for letter, group in groupby(self.region.cut(text))]
        length, letter = max(runs, default=(0, ""))
        return Verdict(length <= self.longest, f"longest is {letter} x {length}")


def _counter(nfa: Nfa, bounds: Bounds) -> MatchCounter:
    return MatchCounter(nfa, bounds.low, bounds.high)


def _placement(nfa: Nfa, region: Region, *, whole: bool) -> Scan:
    automaton = Placement(nfa, whole=whole)
    return Scan(automaton, region, automaton.choices, "path")


def match_ends(pattern: str, text: str) -> list[int]:
    """How many letters of ``text`` stand before the end of a match of ``pattern``, for every place where one ends."""
    if not _checker(pattern).search(text):
        return []
    ends = [end for end in range(1, len(text)) if _checker(rf"(?:{pattern})\x00").search(text[:end] + "\x00")]
    return ends + ([len(text)] if _checker(rf"(?:{pattern})\z").search(text) else [])


@lru_cache(4096)
def _checker(pattern: str) -> Any:
    """The pattern for RE2, whose time is linear in the text for every pattern, where ``re`` may take forever.

    Raises:
        InputError: RE2 refuses it, for its size.
    """
    options = re2.Options()
    options.max_mem = CHECKER_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InputError(f"pattern {pattern!r} is too large to check: {error}") from None
