"""The records of one file, in order and one at a time, so that memory stays flat whatever the file's size.

A plain FASTA file is scanned in bytes and every record says where its letters stand, so that they can be read in place
later. Files without cheap random access (``.gz``, ``.xz``, Parquet, ArrayRecord) only give their letters; the index
keeps a copy of those.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seqdiff.core.errors import InputError, missing_extra, unknown_key
from seqdiff.domains.protein import fasta

_BLOCK = 4096  # records per read of a Parquet or ArrayRecord file
_ARRAY_RECORD = (".arrayrecord", ".array_record")


class Record(NamedTuple):
    """One record as it stands in its file.

    Attributes:
        name: the id, None where the format has none.
        text: its sequence, line ends and lower case included.
        span: offset and number of bytes of ``text`` in the file, None where it cannot be read in place.
    """

    name: str | None
    text: bytes
    span: tuple[int, int] | None = None


def is_fasta(path: Path) -> bool:
    """Whether the file's suffix leaves it to be read as FASTA, plain or compressed."""
    return path.suffix not in (".parquet", *_ARRAY_RECORD)


def in_place(path: Path) -> bool:
    """Whether the records of the file have spans."""
    return is_fasta(path) and path.suffix not in (".gz", ".xz")


def records(path: Path, column: str) -> Iterator[Record]:
    """All records of a file, by its suffix.

    Args:
        path: of the file.
        column: of the sequences in a Parquet file.

    Raises:
        InputError: the file cannot be read, is damaged or is of another format.
    """
    try:
        if path.suffix == ".parquet":
            yield from _parquet(path, column)
        elif path.suffix in _ARRAY_RECORD:
            yield from _array_record(path)
        elif in_place(path):
            yield from _fasta(path)
        else:
            for title, text in fasta.read_pairs(path):
                yield Record(_id(title), text.encode())
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _fasta(path: Path) -> Iterator[Record]:
    """Records of a plain FASTA file with the span of each sequence."""
    next(fasta.read_pairs(path))  # refuses empty files, other formats and text before the first record
    with open(path, "rb") as file:
        title, lines, start, offset = b"", [], -1, 0
        for line in file:
            if line.startswith(b">"):
                if start >= 0:
                    yield Record(_id(title.decode()), b"".join(lines), (start, offset - start))
                title, lines, start = line[1:], [], offset + len(line)
            else:
                lines.append(line)
            offset += len(line)
        yield Record(_id(title.decode()), b"".join(lines), (start, offset - start))


def _id(title: str) -> str:
    return title.split(None, 1)[0] if title.strip() else ""


def _parquet(path: Path, column: str) -> Iterator[Record]:
    """The values of one text column, row group by row group."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if column not in names:
                raise unknown_key(f"column of {path}:", column, names)
            number = 0
            for batch in file.iter_batches(_BLOCK, columns=[column]):
                for text in batch.column(0).to_pylist():
                    number += 1
                    if not isinstance(text, str):
                        raise InputError(f"{path}, record {number}: column {column!r} holds {text!r}, not a sequence")
                    yield Record(None, text.encode())
    except pyarrow.ArrowException as error:
        raise InputError(f"{path} is not a readable Parquet file ({_line(error)}); write it again") from None


def _array_record(path: Path) -> Iterator[Record]:
    """Records whose bytes are the letters."""
    try:
        from array_record.python.array_record_module import ArrayRecordReader
    except ImportError:
        raise missing_extra("array_record", "data") from None
    path.open("rb").close()  # an OSError that says why
    reader = ArrayRecordReader(str(path))
    total = reader.num_records() if reader.ok() else 0
    if not total:
        raise InputError(f"{path} is empty or no ArrayRecord file; write it again")
    try:
        for start in range(0, total, _BLOCK):
            for text in reader.read(start, min(start + _BLOCK, total)):
                yield Record(None, text)
    except RuntimeError as error:
        raise InputError(f"{path} is a damaged ArrayRecord file ({_line(error)}); write it again") from None
    finally:
        reader.close()


def _line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
