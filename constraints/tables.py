"""Allowed letters from tables: a list of positions, a cut through a profile, a degenerate codon."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from Bio.Data.CodonTable import unambiguous_dna_by_id
from Bio.Data.IUPACData import ambiguous_dna_values

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number
from seqdiff.core.layout import Layout, Region, parse_regions

_IUPAC = "ACGTRYSWKMBDHVN"


class Row(dict[str, str]):
    """A row of a file, by the names in its header.

    Attributes:
        where: file and line, for messages.
    """

    def __init__(self, values: Iterable[tuple[str, str]], *, where: str):
        super().__init__(values)
        self.where = where


@register
@dataclass(frozen=True)
class Table:
    """Allowed letters by position: ``table: {csv: allowed.csv}`` or ``table: {pssm: profile.csv, min: 0.05}``.

    The first has the columns ``position`` (or a range of them) and ``letters`` (or a named group); rows of one position
    intersect. The second has a column per letter, of which those of at least ``min`` are allowed, and a row for each
    position, from 1 unless a column ``position`` says otherwise. Other positions are free.

    Attributes:
        allowed: (1-based position, letters), ascending.
    """

    name: ClassVar[str] = "table"
    FILES: ClassVar[dict[str, str]] = {"csv": "table", "pssm": "table"}
    allowed: tuple[tuple[int, str], ...]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Table":
        args = check_keys(args, ("csv", "pssm", "min"))
        if ("csv" in args) == ("pssm" in args):
            raise InputError("give either 'csv' or 'pssm'")
        if ("pssm" in args) != ("min" in args):
            raise InputError("'pssm' and 'min' need each other")
        rows = args.get("csv", args.get("pssm"))
        if not isinstance(rows, list | tuple) or not rows or not all(isinstance(row, Mapping) for row in rows):
            raise InputError("name a CSV file with a header, or write a list of rows")
        if "csv" in args:
            return cls(_listed(rows, alphabet))
        return cls(_cut(rows, number(args["min"], "min"), alphabet))

    def to_spec(self) -> dict[str, Any]:
        return {"csv": [{"position": position, "letters": letters} for position, letters in self.allowed]}

    def describe(self) -> str:
        shown = ", ".join(f"{position}: {letters}" for position, letters in self.allowed[:4])
        return f"table of {len(self.allowed)} positions ({shown}{', ...' if len(self.allowed) > 4 else ''})"

    def lower(self, layout: Layout) -> Lowered:
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        for position, letters in self.allowed:
            Region(position, position).check(layout, self.name)
            allowed[position - 1] = [letter in letters for letter in layout.alphabet.letters]
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        for position, letters in self.allowed:
            if position <= len(text) and text[position - 1] not in letters:
                return Verdict(False, f"{text[position - 1]} at position {position} is none of {letters}")
        return Verdict(True, f"all of {len(self.allowed)} positions kept")


def _listed(rows: Sequence[Mapping[str, Any]], alphabet: Alphabet) -> tuple[tuple[int, str], ...]:
    found: dict[int, str] = {}
    for place, row in enumerate(rows, 1):
        try:
            row = check_keys(row, ("position", "letters"), required=("position", "letters"))
            letters = alphabet.letter_set(str(row["letters"]).strip())
            if not letters:
                raise InputError("'letters' is empty")
            for position in _positions(row["position"]):
                kept = "".join(letter for letter in found.get(position, alphabet.letters) if letter in letters)
                if not kept:
                    raise InputError(f"position {position} is left without a letter; rows before it keep others")
                found[position] = kept
        except InputError as error:
            raise InputError(f"{_where(row, place)}: {error}") from None
    return tuple(sorted(found.items()))


def _cut(rows: Sequence[Mapping[str, Any]], least: float, alphabet: Alphabet) -> tuple[tuple[int, str], ...]:
    found: dict[int, str] = {}
    for place, row in enumerate(rows, 1):
        try:
            position, kept = _kept(row, place, least, alphabet)
            if position in found:
                raise InputError(f"position {position} stands twice")
        except InputError as error:
            raise InputError(f"{_where(row, place)}: {error}") from None
        found[position] = kept
    return tuple(sorted(found.items()))


def _kept(row: Mapping[str, Any], number: int, least: float, alphabet: Alphabet) -> tuple[int, str]:
    """Position of a row of a profile, and its letters of at least ``least``."""
    if missing := [letter for letter in alphabet.letters if letter not in row]:
        raise InputError(f"the profile has no column {missing[0]}; it needs one for each of {alphabet.letters}")
    if extra := [str(key) for key in row if key not in (*alphabet.letters, "position")]:
        raise InputError(
            f"unknown column {extra[0]!r}; a profile has 'position' and one for each of {alphabet.letters}"
        )
    position = number
    if "position" in row:
        position, *more = _positions(row["position"])
        if more:
            raise InputError(f"{row['position']!r} is not one position")
    kept = ""
    for letter in alphabet.letters:
        try:
            value = float(row[letter])
        except (TypeError, ValueError):
            value = math.nan
        if math.isnan(value):
            raise InputError(f"{letter} at position {position} is {row[letter]!r}, not a number")
        kept += letter if value >= least else ""
    if not kept:
        raise InputError(f"position {position} has no letter of at least {least:g}; lower 'min'")
    return position, kept


def _positions(value: object) -> list[int]:
    found: list[int] = []
    for region in parse_regions(value):
        if region.last is None:
            raise InputError(f"position {value!r} has no end; a table needs one")
        found += range(region.first, region.last + 1)
    return found


def _where(row: Mapping[str, Any], number: int) -> str:
    return getattr(row, "where", f"row {number}")


@register
@dataclass(frozen=True)
class Codon:
    """Residues that a degenerate codon encodes: ``codon: {positions: "5-8", degenerate: NNK}``.

    The standard genetic code (NCBI table 1) and IUPAC letters; stop codons are left out, and said to be.

    Attributes:
        degenerate: the codon.
        letters: its residues.
        stops: how many of its codons are stops.
        regions: where.
    """

    name: ClassVar[str] = "codon"
    degenerate: str
    letters: str
    stops: int
    regions: tuple[Region, ...]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Codon":
        args = check_keys(args, ("positions", "degenerate"), required=("positions", "degenerate"))
        codon = str(args["degenerate"]).upper().replace("U", "T")
        if len(codon) != 3 or set(codon) - set(_IUPAC):
            raise InputError(f"{args['degenerate']!r} is not a codon of three IUPAC letters ({_IUPAC}), such as NNK")
        triplets = ["".join(bases) for bases in product(*(ambiguous_dna_values[base] for base in codon))]
        code = unambiguous_dna_by_id[1]
        residues = {code.forward_table[triplet] for triplet in triplets if triplet not in code.stop_codons}
        if foreign := residues - set(alphabet.letters):
            raise InputError(f"{codon} encodes {min(foreign)}, which is not one of the {alphabet.name} letters")
        letters = "".join(letter for letter in alphabet.letters if letter in residues)
        if not letters:
            raise InputError(f"{codon} encodes stops only; choose a codon that encodes a residue")
        stops = sum(triplet in code.stop_codons for triplet in triplets)
        return cls(codon, letters, stops, parse_regions(args["positions"]))

    def to_spec(self) -> dict[str, Any]:
        return {"positions": ",".join(map(str, self.regions)), "degenerate": self.degenerate}

    def describe(self) -> str:
        stops = f", {self.stops} stop codon{'s' * (self.stops > 1)} left out" if self.stops else ""
        return f"codon {self.degenerate} ({self.letters}{stops}) at {','.join(map(str, self.regions))}"

    def lower(self, layout: Layout) -> Lowered:
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        for region in self.regions:
            region.check(layout, "codon")
            allowed[region.first - 1 : region.last] = [letter in self.letters for letter in layout.alphabet.letters]
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        for region in self.regions:
            for position, letter in enumerate(region.cut(text), region.first):
                if letter not in self.letters:
                    return Verdict(False, f"{letter} at position {position} has no {self.degenerate} codon")
        return Verdict(True, f"all are {self.degenerate}")
