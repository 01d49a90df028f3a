"""Chains of a structure or FASTA file, and contigs that refer to them.

Residues are named as in the file: by author numbering and insertion code in PDB and mmCIF files, from 1 in FASTA files, whose
records are chains A, B, C, ... in order. Only the first model counts; waters and other hetero groups are skipped,
selenomethionine reads M.
"""

import re
import string
import warnings
from pathlib import Path
from typing import NamedTuple

from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.PDBExceptions import PDBConstructionException, PDBConstructionWarning
from Bio.PDB.PDBParser import PDBParser
from Bio.SeqUtils import seq1

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta

_PARSERS = {".pdb": PDBParser, ".ent": PDBParser, ".cif": MMCIFParser, ".mmcif": MMCIFParser}


class Residue(NamedTuple):
    """One residue of a chain.

    Attributes:
        number: as the file numbers it.
        insertion: its insertion code, or empty.
        letter: one-letter code.
    """

    number: int
    insertion: str
    letter: str

    @property
    def label(self) -> str:
        """Number and insertion code, such as ``52A``."""
        return f"{self.number}{self.insertion}"


class Given(NamedTuple):
    """A stretch of a contig that a chain gives: its name and letters."""

    source: str
    letters: str


Gap = tuple[int, int]
"""Fewest and most residues to design."""


def read_chains(path: Path) -> dict[str, list[Residue]]:
    """Residues of every chain.

    Raises:
        InputError: the file cannot be read, holds no residue, or a residue is none of the twenty; names it.
    """
    if path.suffix.lower() not in _PARSERS:
        records = read_fasta(path)
        if len(records) > len(string.ascii_uppercase):
            raise InputError(f"{path} holds {len(records)} records; a contig can name 26 chains, A to Z")
        return {
            chain: [Residue(i, "", letter) for i, letter in enumerate(str(record.seq), 1)]
            for chain, record in zip(string.ascii_uppercase, records, strict=False)
        }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PDBConstructionWarning)
            structure = _PARSERS[path.suffix.lower()](QUIET=True).get_structure("structure", str(path))
            models = list(structure)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (PDBConstructionException, ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a structure file that can be read: {error}") from None
    chains = {chain.id: _residues(chain, path) for chain in models[0]} if models else {}
    chains = {name: residues for name, residues in chains.items() if residues}
    if not chains:
        raise InputError(f"{path} holds no residue")
    return chains


def _residues(chain, path: Path) -> list[Residue]:
    found = []
    for residue in chain:
        hetero, number, insertion = residue.id
        name = residue.get_resname().strip()
        if hetero.strip() and name != "MSE":
            continue
        letter = "M" if name == "MSE" else seq1(name)
        if letter not in PROTEIN.letters:
            raise InputError(f"{path}: {name} at {chain.id}{number}{insertion.strip()} is none of the twenty residues")
        found.append(Residue(number, insertion.strip(), letter))
    return found


def parse_contig(text: str, chains: dict[str, list[Residue]], source: str) -> list[Given | Gap]:
    """The segments of a contig such as ``A10-25/30-40/B5-9``.

    Args:
        text: segments separated by ``/``: a chain letter with inclusive residue numbers is given, bare numbers count
            residues to design.
        chains: from :func:`read_chains`.
        source: file that the chains come from, for messages.

    Raises:
        InputError: says which segment is wrong and how to write it.
    """
    segments: list[Given | Gap] = []
    used: dict[str, str] = {}
    for item in text.split("/"):
        word = item.strip()
        if re.fullmatch(r"\d+(-\d+)?", word):
            low, _, high = word.partition("-")
            segments.append(_gap(int(low), int(high or low), word))
        elif match := re.fullmatch(r"([A-Za-z0-9]*?[A-Za-z])?(\d+)([A-Z]?)(?:-([A-Za-z])?(\d+)([A-Z]?))?", word):
            chain, first, first_code, again, last, last_code = match.groups()
            if not chain or (again and again != chain):
                raise InputError(f"contig segment {word!r}: a stretch lies in one chain, such as A10-25")
            ends = (int(first), first_code), (int(last or first), last_code if last else first_code)
            segments.append(_given(word, chain, ends, chains, source, used))
        else:
            raise InputError(
                f"contig segment {word!r}: write a chain and residues (A10-25), or how many residues to design (30-40), "
                "separated by /"
            )
    return segments


def _gap(low: int, high: int, word: str) -> Gap:
    if (low, high) == (0, 0):
        raise InputError("contig segment '0' marks a chain break elsewhere; a design here is one chain, leave it out")
    if high < low:
        raise InputError(f"contig segment {word!r} runs backwards; write the smaller number first")
    return low, high


def _given(
    word: str,
    chain: str,
    ends: tuple[tuple[int, str], tuple[int, str]],
    chains: dict[str, list[Residue]],
    source: str,
    used: dict[str, str],
) -> Given:
    if chain not in chains:
        raise InputError(f"contig segment {word!r}: {source} has no chain {chain}; it has {', '.join(chains)}")
    residues = chains[chain]
    labels = [(residue.number, residue.insertion) for residue in residues]
    if ends[1] < ends[0]:
        raise InputError(f"contig segment {word!r} runs backwards; write the smaller number first")
    for end in ends:
        if end not in labels:
            raise InputError(
                f"contig segment {word!r}: {source} has no residue {chain}{end[0]}{end[1]}; chain {chain} has "
                f"{residues[0].label}-{residues[-1].label}"
            )
    part = residues[labels.index(ends[0]) : labels.index(ends[1]) + 1]
    numbers = {residue.number for residue in part}
    if missing := sorted(set(range(ends[0][0], ends[1][0] + 1)) - numbers):
        raise InputError(
            f"contig segment {word!r}: residues {chain}{missing[0]} to {chain}{missing[-1]} are not all in {source} "
            f"({len(missing)} missing); split the segment there and put a gap of that many between"
        )
    for residue in part:
        if other := used.get(f"{chain}{residue.label}"):
            raise InputError(f"contig segments {other!r} and {word!r} both hold residue {chain}{residue.label}")
        used[f"{chain}{residue.label}"] = word
    return Given(word, "".join(residue.letter for residue in part))
