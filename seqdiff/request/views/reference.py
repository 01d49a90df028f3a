"""A set of known sequences: how designs compare with it, and which of it is nearest to each.

The nearest is found in two steps: exact words of ``WORD`` letters that a design shares with each known sequence are
counted (sparse matrix product), and the ``CANDIDATES`` that share most are aligned (Needleman and Wunsch 1970, free end
gaps, BLOSUM62 with gap penalties 11 and 1, through Biopython).
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from Bio.Align import PairwiseAligner, substitution_matrices
from Bio.SeqIO.FastaIO import SimpleFastaParser

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN

WORD, CANDIDATES, BLOCK = 4, 3, 2000
_CODE = np.full(256, -1, np.int64)
_CODE[np.frombuffer(PROTEIN.letters.encode(), np.uint8)] = np.arange(len(PROTEIN.letters))
_OPEN = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Reference:
    """Known sequences.

    Attributes:
        name: of the file.
        names: of the records.
        sequences: their residues.
        skipped: records left out for letters that are none of the twenty residues.
    """

    name: str
    names: tuple[str, ...]
    sequences: tuple[str, ...]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.sequences)

    def sample(self, most: int) -> tuple[str, ...]:
        """At most so many of the sequences, evenly over the file."""
        return self.sequences[:: max(1, -(-len(self) // most))]


class Nearest(NamedTuple):
    """The nearest known sequence of a design.

    Attributes:
        name: of the known sequence; empty where none shares a word of ``WORD`` letters.
        identity: identical residues of the alignment as a share of the design's; nan where there is none.
    """

    name: str
    identity: float


def read_reference(path: str | Path) -> Reference:
    """Known sequences of a FASTA file, plain, gzip or xz; those with other letters than the twenty are counted only.

    Raises:
        InputError: the file cannot be read, is no FASTA, or holds no usable sequence.
    """
    path = Path(path)
    names, sequences, skipped = [], [], 0
    for title, text in _records(path):
        text = "".join(text.split()).upper().removesuffix("*")
        if not text or set(text) - set(PROTEIN.letters):
            skipped += 1
            continue
        names.append(title.split(None, 1)[0] if title.strip() else f"record {len(names) + skipped + 1}")
        sequences.append(text)
    if not sequences:
        what = f"none of its {skipped} records is made of the twenty residues" if skipped else "it has no FASTA record"
        raise InputError(f"reference={path}: {what}")
    return Reference(path.name, tuple(names), tuple(sequences), skipped)


def _records(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with _OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8") as handle:
            yield from SimpleFastaParser(handle)
    except UnicodeDecodeError:
        raise InputError(f"reference={path} is not a text file") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"reference={path} is a damaged archive ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"reference={path} cannot be read: {error.strerror or error}") from None


def nearest(sequences: Sequence[str], reference: Reference) -> list[Nearest]:
    """The known sequence that each of ``sequences`` resembles most."""
    found = []
    for text, candidates in zip(sequences, _candidates(sequences, reference.sequences), strict=True):
        scored = [(aligner().score(text, reference.sequences[i]), -i) for i in candidates]
        best = -max(scored)[1] if scored else None
        found.append(
            Nearest("", float("nan"))
            if best is None
            else Nearest(reference.names[best], identical(text, reference.sequences[best]) / len(text))
        )
    return found


def identical(a: str, b: str) -> int:
    """Identical residues in the best alignment of two sequences."""
    return 0 if not (a and b) else int(aligner().align(a, b)[0].counts().identities)


@lru_cache(maxsize=1)
def aligner() -> PairwiseAligner:
    """Global alignment with free end gaps."""
    found = PairwiseAligner(mode="global")
    found.substitution_matrix = substitution_matrices.load("BLOSUM62")
    found.open_gap_score, found.extend_gap_score, found.end_gap_score = -11.0, -1.0, 0.0
    return found


def _candidates(sequences: Sequence[str], known: Sequence[str]) -> list[list[int]]:
    """For each sequence the indices of the known ones that share most words with it, best first."""
    mine = words(sequences)
    best: list[list[tuple[int, int]]] = [[] for _ in sequences]
    for start in range(0, len(known), BLOCK):
        shared = np.asarray((mine @ words(known[start : start + BLOCK]).T).todense())
        top = np.argsort(-shared, axis=1, kind="stable")[:, :CANDIDATES]
        for row, columns in enumerate(top):
            best[row] += [(-int(shared[row, c]), start + int(c)) for c in columns if shared[row, c]]
            best[row] = sorted(best[row])[:CANDIDATES]
    return [[index for _, index in row] for row in best]


def words(sequences: Sequence[str]) -> Any:
    """Which words of ``WORD`` letters each sequence has: a sparse matrix of ones [len(sequences), 20^WORD]."""
    from scipy.sparse import csr_matrix

    joined = _CODE[np.frombuffer("-".join([*sequences, ""]).encode(), np.uint8)]
    row = np.repeat(np.arange(len(sequences)), [len(text) + 1 for text in sequences])
    count = max(0, len(joined) - WORD + 1)
    window = np.stack([joined[k : k + count] for k in range(WORD)])
    inside = (window >= 0).all(axis=0)
    code = (window * (20 ** np.arange(WORD))[:, None]).sum(axis=0)[inside]
    matrix = csr_matrix((np.ones(len(code), np.int32), (row[:count][inside], code)), (len(sequences), 20**WORD))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix
