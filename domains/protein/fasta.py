"""FASTA in and out, through Biopython, with a stated rule for every oddity."""

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from Bio.SeqIO.FastaIO import SimpleFastaParser


def open_text(path: Path) -> TextIO:
    """A text file, decompressed by its suffix (``.gz``, ``.xz``) if need be."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt")
    if path.suffix == ".xz":
        return lzma.open(path, "rt")
    return open(path)


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    with open_text(path) as handle:
        yield from SimpleFastaParser(handle)
