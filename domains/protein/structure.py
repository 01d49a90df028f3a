"""Chains of a structure or FASTA file, with residues named as the file names them.

PDB and mmCIF files (plain or gzip, through Biopython) use author chain names, author numbering and insertion codes. In
FASTA files residues count from 1, and records are the chains A, B, C, ... in order, unless every id is one letter,
which then names the chain. Of a structure only the first model counts; waters, ligands, ions and nucleotides are
skipped; selenomethionine reads M; where alternate locations hold two residues, the more occupied one is read. Residues
that are none of the twenty keep their name and have no letter, so that only a request for them fails.
"""

import gzip
import string
import zlib
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

from Bio.Data.PDBData import protein_letters_3to1
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.PDBExceptions import PDBConstructionException
from Bio.PDB.PDBParser import PDBParser

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.fasta import read_fasta

_PARSERS = {".pdb": PDBParser, ".ent": PDBParser, ".cif": MMCIFParser, ".mmcif": MMCIFParser}
_LETTERS = {name.upper(): letter for name, letter in protein_letters_3to1.items()} | {"MSE": "M"}


class Residue(NamedTuple):
    """One residue of a chain.

    Attributes:
        number: as the file numbers it.
        insertion: its insertion code, or empty.
        letter: one-letter code; empty for a residue that is none of the twenty.
        name: as the file names it.
    """

    number: int
    insertion: str
    letter: str
    name: str

    @property
    def label(self) -> str:
        """Number and insertion code, such as ``52A``."""
        return f"{self.number}{self.insertion}"


def read_chains(path: Path) -> dict[str, list[Residue]]:
    """Residues of every protein chain.

    Raises:
        InputError: the file cannot be read or holds no residue.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".bcif":
        raise InputError(f"{path}: BinaryCIF is not read; give the entry as mmCIF or PDB")
    if suffix not in _PARSERS:
        return _fasta_chains(path)
    try:
        with _open(path) as handle:
            models = list(_PARSERS[suffix](QUIET=True).get_structure("structure", handle))
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except KeyError as error:
        raise InputError(f"{path} holds no atoms (it lacks {error.args[0]})") from None
    except (PDBConstructionException, ValueError, IndexError, TypeError) as error:
        raise InputError(f"{path} is not a structure file that can be read: {error}") from None
    chains = {chain.id.strip(): _residues(chain) for chain in models[0]} if models else {}
    chains = {name or "A": residues for name, residues in chains.items() if residues and (name or "A" not in chains)}
    if not chains:
        raise InputError(f"{path} holds no protein residue")
    return chains


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8", errors="replace"))
    return open(path, encoding="utf-8", errors="replace")


def _fasta_chains(path: Path) -> dict[str, list[Residue]]:
    records = read_fasta(path)
    names = [str(record.id) for record in records]
    if not all(len(name) == 1 and name in string.ascii_letters for name in names):
        if len(records) > len(string.ascii_uppercase):
            raise InputError(f"{path} holds {len(records)} records; a contig can name 26 chains, A to Z")
        names = list(string.ascii_uppercase[: len(records)])
    return {
        name: [Residue(i, "", letter, letter) for i, letter in enumerate(str(record.seq), 1)]
        for name, record in zip(names, records, strict=True)
    }


def _residues(chain: Any) -> list[Residue]:
    found = []
    for place in chain:
        residue = _main(place)
        hetero, number, insertion = residue.id
        name = residue.get_resname().strip().upper()
        polymer = not hetero.strip() or all(atom in residue for atom in ("N", "CA", "C"))
        if hetero == "W" or not (polymer or name == "MSE"):
            continue
        letter = _LETTERS.get(name, "")
        if letter or "CA" in residue:
            found.append(Residue(number, insertion.strip(), letter, name))
    return found


def _main(place: Any) -> Any:
    """The residue at a place; the more occupied one, then the first, where alternate locations hold several."""
    if place.is_disordered() != 2:
        return place
    return max(place.disordered_get_list(), key=lambda residue: max(atom.get_occupancy() or 0.0 for atom in residue))
