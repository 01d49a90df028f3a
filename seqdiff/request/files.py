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
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys
from seqdiff.domains.protein.fasta import read_fasta, read_one


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
        return str(read_one(beside(str(args["fasta"]), folder), args.get("id")).seq)
    text = str(value)
    if _is_file(text):
        return str(read_one(beside(text, folder)).seq)
    if not text:
        raise InputError(f"{key} is empty; name a FASTA file or write the letters")
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
            args[key] = _content(args[key], kind, folder, alphabet, key)
    return {name: args}


def _content(value: object, kind: str, folder: Path, alphabet: Alphabet, key: str) -> object:
    if kind == "sequence":
        return sequence(value, folder, alphabet, key)
    if not isinstance(value, str):
        return value
    path = beside(value, folder)
    if kind == "sequences":
        return {str(record.id): str(record.seq) for record in read_fasta(path)}
    return _rows(path)


def _rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file by its header."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            rows = [dict(row) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise InputError(f"{path}, line {number}: not as many fields as the header has")
    if not rows:
        raise InputError(f"{path} has no rows; it starts with a header line")
    return rows


def _is_file(text: str) -> bool:
    return "." in text or "/" in text
