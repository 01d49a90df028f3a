"""The index of a corpus: a folder of flat arrays that is written once and read in place.

``records.npy``    where each record's letters stand and how many there are, in the order of the files
``by_length.npy``  the numbers of the records, shortest first
``counts.npy``     how many records there are of each length
``letters.txt``    letters of the records that cannot be read in their own file
``index.json``     which files these are, with size and time of change: an index of files that changed is written anew

Building reads the files once and holds a few thousand records at a time. The folder appears whole or not at all.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.domains.protein import fasta
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.data.sources import Record, in_place, records

VERSION = 1
ROW = np.dtype([("offset", "<i8"), ("extent", "<u4"), ("size", "<u4"), ("file", "<u4")])
"""Of ``records.npy``: offset and bytes of the text in its file, number of letters, number of the file."""

BLANKS = b" \t\r\n\v\f"
_UPPER = bytes(range(256)).upper()
_LETTERS = PROTEIN.letters.encode()
_NUCLEOTIDES = b"ACGTUN"
_BLOCK = 1 << 16

Progress = Callable[[int], None]


def find_index(paths: Sequence[Path], cache: Path | None, column: str, skip: bool, progress: Progress | None) -> Path:
    """The folder of the files' index, which is written if there is none or a file changed.

    Args:
        paths: of the files, in order.
        cache: folder that holds the index; None for that of the first file.
        column: of the sequences in Parquet files.
        skip: whether records that cannot be used are left out.
        progress: called with the number of records so far, now and then.

    Raises:
        InputError: a file or a record cannot be used, or the folder cannot be written.
    """
    key = json.dumps([[str(path.resolve()) for path in paths], column, skip])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    home = paths[0].parent if cache is None else cache
    folder = home / f"{paths[0].name}.{digest}.seqindex"
    sources = [_signature(path) for path in paths]
    if _is_current(folder, sources):
        return folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=home))
    except OSError as error:
        raise InputError(
            f"cannot write an index of {paths[0]} in {home} ({error.strerror}); choose another cache folder"
        ) from None
    try:
        counts = _build(paths, staging, column, skip, progress)
        about = {"version": VERSION, "sources": sources} | counts
        (staging / "index.json").write_text(json.dumps(about, indent=1) + "\n")
        _move(staging, folder, sources)
    except OSError as error:
        raise InputError(f"cannot write {staging}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def read_about(folder: Path) -> dict[str, Any]:
    """What ``index.json`` says: sources, records, residues, skipped."""
    return json.loads((folder / "index.json").read_text())


def _signature(path: Path) -> dict[str, Any]:
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return {"path": str(path), "size": found.st_size, "changed": found.st_mtime_ns}


def _is_current(folder: Path, sources: list[dict[str, Any]]) -> bool:
    try:
        about = read_about(folder)
    except (OSError, ValueError):
        return False
    return about.get("version") == VERSION and about.get("sources") == sources


def _move(staging: Path, folder: Path, sources: list[dict[str, Any]]) -> None:
    """Put a finished index in its place; one that another process finished meanwhile is as good."""
    if folder.exists():
        if _is_current(folder, sources):
            return
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder, old)
        shutil.rmtree(old, ignore_errors=True)
    try:
        os.replace(staging, folder)
    except OSError:
        if not _is_current(folder, sources):
            raise


def _build(paths: Sequence[Path], folder: Path, column: str, skip: bool, progress: Progress | None) -> dict[str, int]:
    """Write all arrays; returns how many records and residues are used, and how many records were skipped."""
    total, residues, skipped = 0, 0, 0
    with _growing(folder / "records.npy") as append, open(folder / "letters.txt", "wb") as copy:
        for file, path in enumerate(paths):
            for record, letters in checked(path, column, skip):
                if letters is None:
                    skipped += 1
                    continue
                offset, extent = record.span or (copy.tell(), len(letters))
                if record.span is None:
                    copy.write(letters)
                append((offset, extent, len(letters), file))
                total, residues = total + 1, residues + len(letters)
                if progress is not None and total % _BLOCK == 0:
                    progress(total)
    if not total:
        raise InputError(f"{paths[0]}: none of its {skipped} records can be used")
    if all(in_place(path) for path in paths):
        (folder / "letters.txt").unlink()
    np.save(folder / "counts.npy", _sort_by_length(folder / "records.npy", folder / "by_length.npy"))
    return {"records": total, "residues": residues, "skipped": skipped}


def checked(path: Path, column: str, skip: bool) -> Iterator[tuple[Record, bytes | None]]:
    """The records of a file with their canonical letters, None for those to leave out.

    Raises:
        InputError: as ``read_fasta`` does, but for ids that occur twice, which are not looked for.
    """
    long, only_nucleotides = False, True
    suspect = f"{path} looks like nucleotides (only A, C, G, T, U, N); translate it to protein first"
    for number, record in enumerate(records(path, column), 1):
        text = record.text.translate(_UPPER, BLANKS)
        if only_nucleotides and len(text) >= fasta.NUCLEOTIDE_LENGTH:
            long, only_nucleotides = True, not text.translate(None, _NUCLEOTIDES)
        if record.name == "":
            raise InputError(f"{path}, record {number}: no id after '>'; give every record an id")
        letters = text.removesuffix(b"*")
        if letters and not letters.translate(None, _LETTERS):
            yield record, letters
        elif skip:
            yield record, None
        elif long and only_nucleotides:
            raise InputError(suspect)
        else:
            where = f"{path}, record {number}" + (f" ({record.name})" if record.name else "")
            fasta.clean_sequence(text.decode(errors="replace"), where)
    if long and only_nucleotides:
        raise InputError(suspect)


def _sort_by_length(records: Path, ranks: Path) -> np.ndarray:
    """Write the numbers of the records in order of length, and return how many there are of each length.

    A counting sort over blocks of rows, stable: records of one length stay in the order of the files. Blocks are read
    and runs of one length written at their places; mapped files would count as memory of the process.
    """
    counts = np.zeros(1, np.int64)
    for sizes in _blocks_of_sizes(records):
        found = np.bincount(sizes, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    following, start = np.cumsum(counts) - counts, 0
    with open(ranks, "wb") as file:
        _write_header(file, np.dtype("<u4"), int(counts.sum()))
        file.flush()
        header = file.tell()
        for sizes in _blocks_of_sizes(records):
            order = np.argsort(sizes, kind="stable")
            lengths, firsts = np.unique(sizes[order], return_index=True)
            for length, run in zip(lengths.tolist(), np.split(order + start, firsts[1:]), strict=True):
                os.pwrite(file.fileno(), run.astype("<u4").tobytes(), header + 4 * int(following[length]))
                following[length] += len(run)
            start += len(sizes)
    return counts


def _blocks_of_sizes(records: Path) -> Iterator[np.ndarray]:
    """The column ``size`` of ``records.npy``, a block of rows at a time."""
    with open(records, "rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        while len(rows := np.fromfile(file, ROW, _BLOCK)):
            yield rows["size"]


def _write_header(file: IO[bytes], dtype: np.dtype, total: int) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (total,)}
    np.lib.format.write_array_header_1_0(file, header)


@contextlib.contextmanager
def _growing(path: Path) -> Iterator[Callable[[tuple[int, int, int, int]], None]]:
    """Append rows to an ``.npy`` file whose length is not known before: numpy's header leaves room to grow."""
    waiting: list[tuple[int, int, int, int]] = []
    total = 0

    def append(row: tuple[int, int, int, int]) -> None:
        waiting.append(row)
        if len(waiting) == _BLOCK:
            flush()

    def flush() -> None:
        nonlocal total
        file.write(np.array(waiting, ROW).tobytes())
        total += len(waiting)
        waiting.clear()

    with open(path, "wb") as file:
        _write_header(file, ROW, 0)
        yield append
        flush()
        file.seek(0)
        _write_header(file, ROW, total)
