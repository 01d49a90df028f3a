"""FASTA in and out, through Biopython. What is read, and what is refused:

- plain text, ``.gz`` and ``.xz``; CRLF and LF line ends; one line per sequence or many; any length;
- blanks inside a sequence are dropped, lower case (soft masking) is read as upper case;
- one stop ``*`` at the end of a sequence is dropped; a stop inside it is refused;
- gaps ``-`` and ``.`` are refused: designs need unaligned sequences;
- X, B, Z, J (unknown residues), U (selenocysteine) and O (pyrrolysine) are refused by name, as is any other character;
- a record without a sequence, without an id, or with an id that has come before is refused;
- text before the first ``>``, and comment lines (``;``, ``#``, ``!``), are refused: dropping them could drop residues;
- a file in which every sequence of twenty letters or more is made of A, C, G, T, U and N is refused as nucleotides;
- an empty file, another format, binary data, or a damaged archive is refused.

Refusals are one line that names the file, the record (number and id) and the 1-based position in its sequence.
"""

import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO, cast

from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqIO.FastaIO import SimpleFastaParser
from Bio.SeqRecord import SeqRecord

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN

_LETTERS = frozenset(PROTEIN.letters)
_NUCLEOTIDES = frozenset("ACGTUN")
NUCLEOTIDE_LENGTH = 20
_REASONS = {
    "X": "an unknown residue",
    "B": "Asp or Asn",
    "Z": "Glu or Gln",
    "J": "Leu or Ile",
    "U": "selenocysteine",
    "O": "pyrrolysine",
    "-": "a gap; remove the alignment first",
    ".": "a gap; remove the alignment first",
    "*": "a stop inside the sequence",
}
_COMMENTS = ";#!"
_FORMATS = (
    ("LOCUS", "GenBank"),
    ("# STOCKHOLM", "Stockholm"),
    ("HEADER", "PDB"),
    ("REMARK", "PDB"),
    ("ATOM", "PDB"),
    ("MODEL", "PDB"),
    ("data_", "mmCIF"),
    ("CLUSTAL", "Clustal"),
    ("@", "FASTQ"),
)


def read_fasta(path: str | Path) -> list[SeqRecord]:
    """All records, sequences in canonical upper-case letters.

    Raises:
        InputError: see the module's rules.
    """
    path = Path(path)
    pairs = list(read_pairs(path))
    texts = ["".join(text.split()).upper() for _, text in pairs]
    long = [text for text in texts if len(text) >= NUCLEOTIDE_LENGTH]
    if long and all(_NUCLEOTIDES.issuperset(text) for text in long):
        raise InputError(f"{path} looks like nucleotides (only A, C, G, T, U, N); translate it to protein first")
    records = []
    numbers: dict[str, int] = {}
    for number, ((title, _), text) in enumerate(zip(pairs, texts, strict=True), 1):
        name = title.split(None, 1)[0] if title.strip() else ""
        if not name:
            raise InputError(f"{path}, record {number}: no id after '>'; give every record an id")
        if name in numbers:
            raise InputError(
                f"{path}, record {number}: id {name!r} stands at record {numbers[name]} already; rename one"
            )
        numbers[name] = number
        sequence = clean_sequence(text, f"{path}, record {number} ({name})")
        records.append(SeqRecord(Seq(sequence), id=name, name=name, description=title))
    return records


def read_one(path: str | Path, name: str | None = None) -> SeqRecord:
    """The only record, or the one whose id is ``name``.

    Raises:
        InputError: see the module's rules; or several records and no name, or no record of that name.
    """
    records = read_fasta(path)
    ids = [record.id or "" for record in records]
    listed = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
    if name is None:
        if len(records) > 1:
            raise InputError(f"{path} holds {len(records)} records; choose one by its id: {listed}")
        return records[0]
    if name not in ids:
        raise InputError(f"{path} has no record {name!r}; it has {listed}")
    return records[ids.index(name)]


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """(title, raw sequence) of every record."""
    try:
        with _open_text(path) as handle:
            _refuse_other_formats(handle, path)
            yield from SimpleFastaParser(handle)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a damaged archive ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _open_text(path: Path) -> TextIO:
    """A text file, decompressed by its suffix (``.gz``, ``.xz``) if need be; CRLF is read as LF."""
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8"))
    if path.suffix == ".xz":
        return cast(TextIO, lzma.open(path, "rt", encoding="utf-8"))
    return open(path, encoding="utf-8")


def write_fasta(path: str | Path, records: Iterable[SeqRecord]) -> None:
    """Write records, wrapped at 60 letters; the file appears whole or not at all."""
    path = Path(path)
    handle, staging = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            SeqIO.write(records, file, "fasta")
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    except BaseException:
        os.unlink(staging)
        raise


def clean_sequence(text: str, where: str) -> str:
    """The canonical letters of an upper-case sequence without blanks; ``where`` names the record in messages."""
    sequence = text.removesuffix("*")
    if not sequence:
        raise InputError(f"{where}: no sequence; remove the record")
    if not _LETTERS.issuperset(sequence):
        place = next(i for i, letter in enumerate(sequence) if letter not in _LETTERS)
        letter = sequence[place]
        reason = _REASONS.get(letter, "not a residue")
        raise InputError(f"{where}: {letter!r} at position {place + 1} is {reason}; only {PROTEIN.letters} can be used")
    return sequence


def _refuse_other_formats(handle: TextIO, path: Path) -> None:
    """Look at the lines before the first record, then go back to the start."""
    number, line = 0, ""
    for number, line in enumerate(handle, 1):  # noqa: B007
        if line.strip():
            break
    if not line.strip():
        raise InputError(f"{path} is empty; a FASTA record is '>id' and a line of letters")
    if not line.startswith(">"):
        text = line.strip()
        for start, format in _FORMATS:
            if line.startswith(start):
                raise InputError(f"{path} looks like {format}, not FASTA; convert it first")
        if text[0] in _COMMENTS:
            raise InputError(
                f"{path}, line {number}: comment lines are not read; remove lines that start with {text[0]!r}"
            )
        raise InputError(f"{path}, line {number}: the first record must start with '>', found {text[:20]!r}")
    handle.seek(0)
