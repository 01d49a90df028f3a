"""Allowed letters from tables: a list of positions, a cut through a profile, a degenerate codon."""

from collections.abc import Mapping
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


@register
@dataclass(frozen=True)
class Table:
    """Allowed letters by position: ``table: {csv: allowed.csv}`` or ``table: {pssm: profile.csv, min: 0.05}``.

    The first has the columns ``position`` and ``letters`` (letters or a named group; rows of one position intersect). The
    second has a row per position, from 1, and a column per letter; letters of at least ``min`` are allowed.

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
            Region(position, position).check(layout, "table")
            allowed[position - 1] = [letter in letters for letter in layout.alphabet.letters]
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        for position, letters in self.allowed:
            if position <= len(text) and text[position - 1] not in letters:
                return Verdict(False, f"{text[position - 1]} at position {position} is none of {letters}")
        return Verdict(True, f"all of {len(self.allowed)} positions kept")


def _listed(rows: Any, alphabet: Alphabet) -> tuple[tuple[int, str], ...]:
    found: dict[int, str] = {}
    for line, row in enumerate(rows, 2):
        try:
            row = check_keys(row, ("position", "letters"), required=("position", "letters"))
            region = Region.parse(row["position"])
            letters = alphabet.letter_set(str(row["letters"]).strip())
            if region.last != region.first:
                raise InputError(f"{row['position']!r} is not one position")
            kept = "".join(a for a in found.get(region.first, alphabet.letters) if a in letters)
            if not kept:
                raise InputError(f"position {region.first} is left without a letter")
            found[region.first] = kept
        except InputError as error:
            raise InputError(f"line {line}: {error}") from None
    return tuple(sorted(found.items()))


def _cut(rows: Any, least: float, alphabet: Alphabet) -> tuple[tuple[int, str], ...]:
    found = []
    for position, row in enumerate(rows, 1):
        values = {str(key).strip(): value for key, value in row.items()}
        if missing := [letter for letter in alphabet.letters if letter not in values]:
            raise InputError(f"the profile has no column {missing[0]}; it needs one for each of {alphabet.letters}")
        try:
            kept = "".join(letter for letter in alphabet.letters if float(values[letter]) >= least)
        except ValueError:
            raise InputError(f"position {position} of the profile has a value that is no number") from None
        if not kept:
            raise InputError(f"position {position} of the profile has no letter of at least {least:g}; lower 'min'")
        found.append((position, kept))
    return tuple(found)


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
        codon = str(args["degenerate"])
        if len(codon) != 3 or set(codon) - set(_IUPAC):
            raise InputError(f"{codon!r} is not a codon of three IUPAC letters, such as NNK")
        triplets = ["".join(bases) for bases in product(*(ambiguous_dna_values[base] for base in codon))]
        code = unambiguous_dna_by_id[1]
        residues = {code.forward_table[triplet] for triplet in triplets if triplet not in code.stop_codons}
        if foreign := residues - set(alphabet.letters):
            raise InputError(f"{codon} encodes {min(foreign)}, which is not one of the {alphabet.name} letters")
        letters = "".join(letter for letter in alphabet.letters if letter in residues)
        if not letters:
            raise InputError(f"{codon} encodes stops only")
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
