"""Mutants in the field's notation, and the tables that list them.

``M182T`` reads: the parent has M at 182, the mutant T. Several are joined by ``:`` (ProteinGym), ``,``, ``;``, ``+``,
``/`` or a blank: ``A42G:M182T``. ``WT`` is the parent itself. Numbers count the parent from 1; where a numbering starts
elsewhere, ``offset`` is what it adds (a parent whose first residue is called 24 has offset 23).
"""

import csv
import gzip
import lzma
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key

SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JOINTS = re.compile(r"[:;,+/\s]+")
_SUBSTITUTION = re.compile(r"([A-Za-z])(-?\d+)([A-Za-z])")
_WILD_TYPE = ("wt", "_wt")


@dataclass(frozen=True)
class Sheet:
    """A CSV or TSV file with every cell as it stood.

    Attributes:
        path: of the file.
        header: names of the columns.
        rows: cells.
        lines: line of the file on which each row ends.
    """

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def where(self, row: int) -> str:
        """File, row (the first one below the header is 1) and line, for messages."""
        return f"{self.path}, row {row + 1} (line {self.lines[row]})"

    def has(self, column: str) -> bool:
        """Whether there is such a column."""
        return column in self.header

    def column(self, name: str) -> list[str]:
        """Cells of a column, blanks around them dropped.

        Raises:
            InputError: there is no such column.
        """
        if name not in self.header:
            raise unknown_key(f"column of {self.path}", name, self.header)
        place = self.header.index(name)
        return [row[place].strip() for row in self.rows]


def delimiter(path: Path) -> str:
    """What separates the cells of a file of that name; empty for a file that is no table."""
    return SUFFIXES.get(Path(path.name.removesuffix(".gz").removesuffix(".xz")).suffix.lower(), "")


def read_sheet(path: Path) -> Sheet:
    """Read a table; ``.tsv`` is separated by tabs, ``.csv`` by commas; plain, ``.gz`` or ``.xz``.

    Raises:
        InputError: no text, no header, a name that stands twice in it, or a row of another width; names the line.
    """
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with _open(path) as handle:
            reader = csv.reader(handle, delimiter=delimiter(path), strict=True)
            header = [name.strip() for name in next(reader, [])]
            if twice := [name for name in header if header.count(name) > 1]:
                raise InputError(f"{path}, line 1: column {twice[0]!r} stands twice in the header")
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(header):
                    where = f"{path}, row {len(rows) + 1} (line {reader.line_num})"
                    raise InputError(f"{where}: {len(cells)} cells, but the header has {len(header)}")
                rows.append(cells)
                lines.append(reader.line_num)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file") from None
    except csv.Error as error:
        raise InputError(f"{path} is not a table: {error}") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a damaged archive ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if not rows:
        raise InputError(f"{path} has no rows; it needs a header line and one row at least")
    return Sheet(path, header, rows, lines)


def _open(path: Path) -> TextIO:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig", newline=""))


def parse_mutant(text: str, parent: str, alphabet: Alphabet, offset: int = 0) -> tuple[tuple[int, int], ...]:
    """(0-based position, letter id) of each substitution, ascending.

    Raises:
        InputError: not the notation, a position or letter that the parent does not have, or a site named twice.
    """
    if text.lower() in _WILD_TYPE:
        return ()
    sites: dict[int, int] = {}
    for word in filter(None, _JOINTS.split(text)):
        found = _SUBSTITUTION.fullmatch(word)
        if not found:
            raise InputError(f"{word!r} is not a substitution; write such as M182T, or A42G:M182T for several")
        old, number, new = found[1].upper(), int(found[2]), found[3].upper()
        place = number - offset - 1
        if not 0 <= place < len(parent):
            raise InputError(f"{word}, but the parent has positions {offset + 1} to {offset + len(parent)}")
        if parent[place] != old:
            raise InputError(f"{word}, but the parent has {parent[place]} at {number}")
        if new not in alphabet.letters:
            raise InputError(f"{word}: {new} is not one of the {alphabet.name} letters {alphabet.letters}")
        if place in sites:
            raise InputError(f"{text}: position {number} stands twice")
        sites[place] = alphabet.letters.index(new)
    if not sites:
        raise InputError("no mutant; write such as M182T, or WT for the parent itself")
    return tuple(sorted(sites.items()))


def read_mutants(sheet: Sheet, parent: str, alphabet: Alphabet, offset: int = 0) -> list[tuple[tuple[int, int], ...]]:
    """The mutants of the column ``mutant``.

    Raises:
        InputError: names the row; where most rows clash with the parent, says that the offset may be meant.
    """
    mutants = []
    cells = sheet.column("mutant")
    for row, text in enumerate(cells):
        try:
            mutants.append(parse_mutant(text, parent, alphabet, offset))
        except InputError as error:
            raise InputError(f"{sheet.where(row)}: {error}{_hint(cells, parent, alphabet, offset)}") from None
    return mutants


def _hint(cells: list[str], parent: str, alphabet: Alphabet, offset: int) -> str:
    """The offset under which the rows fit the parent, if there is just one and it is another."""
    claims = {(int(number), old.upper()) for text in cells for old, number, _ in _SUBSTITUTION.findall(text)}
    if len(claims) < 3:
        return ""
    first = min(number for number, _ in claims)
    last = max(number for number, _ in claims)
    fits = [
        shift
        for shift in range(last - len(parent), first)
        if all(parent[number - shift - 1] == old for number, old in claims)
    ]
    return f"; every row fits with offset={fits[0]}" if len(fits) == 1 and fits[0] != offset else ""


def mutate(parent: np.ndarray, mutant: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Letter ids of the mutant."""
    tokens = parent.copy()
    for place, letter in mutant:
        tokens[place] = letter
    return tokens
