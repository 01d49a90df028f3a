"""A corpus: the sequences of one or many files by number, whatever their size.

Small FASTA files are read whole, as everywhere else in seqdiff. Larger ones and other formats are indexed once
(``seqdiff.experiments.data.index``); a sequence is then three reads at known places (its rank or number, where it
stands, its letters), so memory does not grow with the corpus and threads and processes can read at once.
"""

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.experiments.data.index import BLANKS, ROW, Progress, find_index, read_about
from seqdiff.experiments.data.sources import in_place, is_fasta

WHOLE = 1 << 24
"""FASTA files of up to so many bytes in all are read whole."""

_CODES = np.full(256, -1, np.int32)
for _letters in (PROTEIN.letters, PROTEIN.letters.lower()):
    _CODES[list(_letters.encode())] = np.arange(len(PROTEIN))


class Bytes(Protocol):
    """Bytes by their place."""

    def read(self, offset: int, extent: int) -> bytes: ...


class Rows(Protocol):
    """A one-dimensional array by index; a numpy array or one on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class Corpus:
    """Sequences as letter ids, by number.

    ``corpus[i]`` is the ``i``-th record in the order of the files, int32 [its length].

    Attributes:
        counts: number of records of each length, int64 [longest + 1].
        description: files, records, residues and how many records were left out, for run descriptions (JSON).
        folder: of the index; None where the files were read whole.
    """

    counts: Int[np.ndarray, "lengths"]
    description: dict[str, Any]
    folder: Path | None
    _rows: Rows
    _ranks: Rows
    _texts: tuple[Bytes, ...]
    _paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Int[np.ndarray, "length"]:
        """Letter ids of a record.

        Raises:
            InputError: the file no longer holds what was indexed.
        """
        offset, extent, size, file = self._rows[index].item()
        text = self._texts[file].read(offset, extent).translate(None, BLANKS)
        ids = _CODES[np.frombuffer(text, np.uint8, count=min(size, len(text)))]
        if len(ids) < size or ids.min() < 0:
            raise InputError(
                f"{self._paths[file]}, byte {offset + 1}: no longer the {size} residues of record {index + 1} that "
                f"were indexed; delete {self.folder} to index it again"
            )
        return ids

    def ranked(self, rank: int) -> Int[np.ndarray, "length"]:
        """Letter ids of the record that comes at ``rank`` when records are sorted by length, shortest first."""
        return self[int(self._ranks[rank])]

    @property
    def residues(self) -> int:
        """Letters in all."""
        return int(self.counts @ np.arange(len(self.counts)))


def open_corpus(
    paths: str | Path | Sequence[str | Path],
    *,
    cache: str | Path | None = None,
    column: str = "sequence",
    skip: bool = False,
    whole: int = WHOLE,
    progress: Progress | None = None,
) -> Corpus:
    """The sequences of one or many files.

    FASTA is read plain, ``.gz`` or ``.xz``; ``.parquet`` files have a text column of sequences; the records of an
    ``.arrayrecord`` file are the letters. All files follow the rules of ``seqdiff.domains.protein.fasta``, but that ids
    are compared only in FASTA that is read whole.

    Args:
        paths: of the files, in order.
        cache: folder for the index; beside the first file by default.
        column: of the sequences in Parquet files.
        skip: leave out records that have no sequence or letters such as X or U, instead of refusing the file.
        whole: FASTA files of up to so many bytes in all are read whole, without an index.
        progress: called with the number of records that have been indexed, now and then.

    Raises:
        InputError: a file or a record cannot be used; the line names file, record and position.
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not files:
        raise InputError("a corpus needs at least one file")
    if not skip and all(map(is_fasta, files)) and sum(map(_size, files)) <= whole:
        return _read_whole(files)
    folder = find_index(files, Path(cache) if cache is not None else None, column, skip, progress)
    about = read_about(folder)
    return Corpus(
        counts=np.load(folder / "counts.npy"),
        description=_description(files, about["records"], about["residues"], about["skipped"]),
        folder=folder,
        _rows=_StoredRows(folder / "records.npy"),
        _ranks=_StoredRows(folder / "by_length.npy"),
        _texts=tuple(_StoredBytes(path if in_place(path) else folder / "letters.txt") for path in files),
        _paths=tuple(map(str, files)),
    )


def _read_whole(files: list[Path]) -> Corpus:
    texts, rows = [], []
    for file, path in enumerate(files):
        sequences = [str(record.seq).encode() for record in read_fasta(path)]
        sizes = [len(sequence) for sequence in sequences]
        offsets = np.cumsum([0, *sizes[:-1]])
        rows += [(offset, size, size, file) for offset, size in zip(offsets, sizes, strict=True)]
        texts.append(_MemoryBytes(b"".join(sequences)))
    table = np.array(rows, ROW)
    counts = np.bincount(table["size"])
    return Corpus(
        counts=counts,
        description=_description(files, len(table), int(table["size"].sum(dtype=np.int64)), 0),
        folder=None,
        _rows=table,
        _ranks=np.argsort(table["size"], kind="stable"),
        _texts=tuple(texts),
        _paths=tuple(map(str, files)),
    )


def _description(files: list[Path], records: int, residues: int, skipped: int) -> dict[str, Any]:
    names = [path.name for path in files]
    return {"files": names, "sequences": records, "residues": residues, "skipped": skipped}


def _size(path: Path) -> int:
    """Bytes of a file; none where there is no file, so that reading it says why."""
    return path.stat().st_size if path.is_file() else 0


@dataclass(frozen=True)
class _MemoryBytes:
    text: bytes

    def read(self, offset: int, extent: int) -> bytes:
        return self.text[offset : offset + extent]


class _StoredBytes:
    """Bytes of a file, read in place without a shared position; a copy in another process opens the file again."""

    def __init__(self, path: Path):
        self._path = path
        try:
            self._handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        weakref.finalize(self, os.close, self._handle)

    def read(self, offset: int, extent: int) -> bytes:
        return os.pread(self._handle, extent, offset)

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        return type(self), (self._path,)


class _StoredRows:
    """A one-dimensional ``.npy`` file, read in place: mapped pages would count as memory of the process."""

    def __init__(self, path: Path):
        self._path = path
        mapped = np.load(path, mmap_mode="r")
        self._dtype, self._start, self._total = mapped.dtype, int(mapped.offset), len(mapped)
        self._bytes = _StoredBytes(path)

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, index: int, /) -> Any:
        if not 0 <= index < self._total:
            raise IndexError(f"row {index} of {self._total}")
        size = self._dtype.itemsize
        return np.frombuffer(self._bytes.read(self._start + index * size, size), self._dtype)[0]

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        return type(self), (self._path,)
