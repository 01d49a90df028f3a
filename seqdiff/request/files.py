"""File names in a spec, replaced by what the files hold, so that constraints and a written ``spec.yaml`` need no files.

A constraint class says which of its arguments may name a file (``FILES``): a ``sequence`` (FASTA of one record, or
``{fasta: file, id: name}``, or the letters), ``sequences`` (FASTA, or a mapping from id to letters) or a ``table``
(CSV with a header, or a list of rows). Names are looked up beside the spec, then in the current folder.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqdiff.constraints.base import REGISTRY
from seqdiff.constraints.contig import Contig, Segment
from seqdiff.constraints.tables import Row
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys
from seqdiff.domains.protein.contig import Given, parse_contig
from seqdiff.domains.protein.fasta import read_fasta, read_one
from seqdiff.domains.protein.structure import read_chains


def beside(name: str, folder: Path) -> Path:
    """The file of that name in ``folder`` if there is one, else in the current folder."""
    return folder / name if (folder / name).exists() else Path(name)


def sequence(value: object, folder: Path, alphabet: Alphabet, key: str) -> str:
    """Letters of one sequence: a FASTA file, ``{fasta: file, id: name}``, or the letters themselves.

    Raises:
        InputError: the file cannot be read, or the letters are none of the alphabet's.
    """
    if isinstance(value, Mapping):
        args = check_keys(value, ("fasta", "id"), required=("fasta",))
        name = args.get("id")
        return str(read_one(beside(str(args["fasta"]), folder), None if name is None else str(name)).seq)
    text = str(value)
    if not text:
        raise InputError(f"{key} is empty; name a FASTA file or write the letters")
    foreign = not set(text) <= set(alphabet.letters)
    if foreign and ("." in text or "/" in text or beside(text, folder).is_file()):
        return str(read_one(beside(text, folder)).seq)
    try:
        return alphabet.decode(alphabet.encode(text))
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def resolve(item: object, folder: Path, alphabet: Alphabet, parent: str) -> object:
    """A constraint item with its file names replaced by their contents; ``parent`` where it leaves its own out."""
    if not isinstance(item, Mapping) or len(item) != 1:
        return item
    name, args = next(iter(item.items()))
    kinds: Mapping[str, str] = getattr(REGISTRY.get(name), "FILES", {})
    if not kinds or not isinstance(args, Mapping):
        return item
    args = dict(args)
    if "parent" in kinds and "parent" not in args and parent:
        args["parent"] = parent
    for key, kind in kinds.items():
        if key in args:
            try:
                args[key] = _content(args[key], kind, folder, alphabet, key)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
    return {name: args}


def uses_parent(constraint: object) -> bool:
    """Whether the constraint compares designs with a parent."""
    return "parent" in getattr(constraint, "FILES", {})


def read_contig(args: Mapping[str, Any], folder: Path, alphabet: Alphabet) -> Contig:
    """The contig that the spec's keys ``contig`` and ``structure`` describe, with the letters that the file gives.

    Raises:
        InputError: the file cannot be read, or the contig does not fit it; names the segment.
    """
    value = args.get("contig")
    text = "/".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)
    if not text.strip():
        raise InputError("'structure' needs 'contig' beside it, such as contig: A10-25/30-40")
    chains, source = None, ""
    if "structure" in args:
        source = str(args["structure"])
        chains = read_chains(beside(source, folder))
    parts = parse_contig(text, chains, source)
    for part in parts:
        if isinstance(part, Given):
            alphabet.encode(part.letters)
    return Contig(tuple(Segment.given(p.letters, p.source) if isinstance(p, Given) else Segment("", *p) for p in parts))


def _content(value: object, kind: str, folder: Path, alphabet: Alphabet, key: str) -> object:
    if kind == "sequence":
        return sequence(value, folder, alphabet, key)
    if not isinstance(value, str):
        return value
    path = beside(value, folder)
    if kind == "sequences":
        return {str(record.id): str(record.seq) for record in read_fasta(path)}
    return read_table(path)


def read_table(path: Path) -> list[Row]:
    """Rows of a CSV file by its header; each knows its line.

    Raises:
        InputError: no text, no header, a name that stands twice in it, or a row of another width; names the line.
    """
    rows: list[Row] = []
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if len(set(header)) < len(header):
                twice = next(name for name in header if header.count(name) > 1)
                raise InputError(f"{path}, line 1: column {twice!r} stands twice in the header")
            for values in reader:
                if not any(value.strip() for value in values):
                    continue
                where = f"{path}, line {reader.line_num}"
                if len(values) != len(header):
                    raise InputError(f"{where}: {len(values)} fields, but the header has {len(header)}")
                rows.append(Row(zip(header, map(str.strip, values), strict=True), where=where))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV file: {error}") from None
    if not rows:
        raise InputError(f"{path} has no rows; it needs a header line and one row at least")
    return rows
