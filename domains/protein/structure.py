"""Structure files, with residues named as the file names them: PDB and mmCIF, plain or gzip, through gemmi.

One set of rules for coordinates (:func:`read_structure`) and for contigs (:func:`read_chains`):

* **Format**: the contents decide, the suffix where they do not. BinaryCIF is refused.
* **Names**: chains and residues go by the author's names, numbers (negative too) and insertion codes; by the label's
  on request, where a file has them. All parts of a chain, before and after TER, are one chain; a chain without a name
  is called A. A name that stands for two residues is refused.
* **Protein**: amino acids with a CA atom, and unknown residues with N, CA and C. Heterogens among them count where a
  peptide bond joins them to another residue, or as selenomethionine; so modified residues are protein, and free amino
  acids, S-adenosylmethionine and the like are ligands. An amino acid without CA is left out. Absent residues are
  absent, absent atoms are marked as such; of an atom that stands twice the first is read.
* **Alternate locations**: the conformer of the largest summed occupancy, the first of equal ones; atoms without a label
  belong to every conformer that has no such atom itself, and two conformers are never mixed. Residues of several names
  at one place with labels are alternatives too (microheterogeneity): the one whose best conformer has the largest mean
  occupancy is read.
* **Letters**: selenomethionine reads M, its selenium the place of the sulphur; protonation states as simulation
  programs name them (HIE, HSD, CYX, ...) read as their residue. Other residues that are none of the twenty
  (selenocysteine, SEP, ...) keep their name and have no letter, so that only a request for them fails.
* **Loose atoms**: ligands, ions, caps (ACE, NH2), sugars and nucleotides. Water, hydrogen, deuterium and dummy atoms
  are dropped.
* **Numbers**: atoms of occupancy zero are kept. A coordinate or residue number that is none is refused, with its line
  in PDB files and its atom in mmCIF files.
* **Models**: the first is read, or those asked for, which must agree in their residues.

LigandMPNN's own reader (ProDy) differs in this: location A or none whatever the occupancies, zero occupancy dropped,
free amino acids as residues, and modified residues that ProDy does not know (M3L, AIB, ...) as ligands.

Other files are read as FASTA: residues count from 1, and records are the chains A, B, C, ... in order, unless every id
is one letter, which then names the chain.
"""

import gzip
import re
import string
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gemmi
import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, UNKNOWN, Structure
from seqdiff.domains.protein.atoms import ChainIds, sort_atoms
from seqdiff.domains.protein.fasta import read_fasta

_SLOT = {name: i for i, name in enumerate(ATOMS)}
_PDB, _CIF = (".pdb", ".ent", ".pdb1"), (".cif", ".mmcif")
_CIF_START = re.compile(rb"(?:\s|#[^\n]*\n)*data_", re.I)
_PDB_ATOM = re.compile(rb"^(?:ATOM  |HETATM)", re.M | re.I)
_PDB_RECORD = re.compile(rb"^(?:HEADER|ATOM|HETATM|REMARK|CRYST1|TITLE|MODEL|END)", re.M | re.I)
_COORDINATE = re.compile(rb" *[-+]?(?:\d+\.?\d*|\.\d+) *")
_ASCII = bytes(range(128)) + b"?" * 128
_NUMBER = re.compile(rb" *-?\d+ *|[A-Za-z][0-9A-Za-z]{3}")
"""A residue number; beyond 9999 in the hybrid notation of base 36."""


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


def read_structure(
    path: Path, *, models: Sequence[int] | None = (1,), chain_ids: ChainIds = "author"
) -> list[Structure]:
    """Coordinates of the protein residues and of the atoms around them, one structure for each model.

    Args:
        path: a PDB or mmCIF file, plain or gzip.
        models: models to read, counted from 1 in the file's order; None for all.
        chain_ids: whose names chains and residues go by.

    Raises:
        InputError: the file cannot be read, holds no protein residue or lacks a model, or models differ in residues.
    """
    data = _contents(path)
    kind = _format(path, data)
    if kind is None:
        raise InputError(f"{path} is not a structure file; give a PDB or mmCIF file")
    if chain_ids == "label" and kind == "pdb":
        raise InputError(f"{path} is a PDB file and has the author's names only; leave chain_ids out")
    parsed = _parse(path, data, kind)
    wanted = range(1, len(parsed) + 1) if models is None else models
    if beyond := [number for number in wanted if not 1 <= number <= len(parsed)]:
        count = f"{len(parsed)} model" + "s" * (len(parsed) > 1)
        raise InputError(f"{path} has {count}; there is no model {beyond[0]}")
    found = [_structure(path, number, parsed[number - 1], chain_ids) for number in wanted]
    for other in found[1:]:
        _check_same_residues(path, found[0], other)
    return found


def read_chains(path: Path) -> dict[str, list[Residue]]:
    """Residues of every protein chain of a structure or FASTA file.

    Raises:
        InputError: the file cannot be read or holds no residue.
    """
    data = _contents(path)
    kind = _format(path, data)
    if kind is None:
        return _fasta_chains(path)
    first = _structure(path, 1, _parse(path, data, kind)[0], "author")
    chains: dict[str, list[Residue]] = {}
    for i, letter in enumerate(first.letters):
        residue = Residue(int(first.number[i]), first.insertion[i], "" if letter == UNKNOWN else letter, first.name[i])
        chains.setdefault(first.chain[i], []).append(residue)
    return chains


def _contents(path: Path) -> bytes:
    """The file, unpacked; each byte that is not ASCII is a question mark, so that columns stay."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b" or path.suffix.lower() == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if _suffix(path) == ".bcif" or (b"encoder" in data[:64] and b"\0" in data):
        raise InputError(f"{path}: BinaryCIF is not read; give the entry as mmCIF or PDB")
    return data.removeprefix(b"\xef\xbb\xbf").translate(_ASCII)


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _format(path: Path, data: bytes) -> str | None:
    """``cif`` or ``pdb``; None for a file that is neither by its contents or its suffix."""
    if _CIF_START.match(data):
        return "cif"
    if _PDB_ATOM.search(data) or _suffix(path) in _PDB:
        return "pdb"
    return "cif" if _suffix(path) in _CIF else None


def _parse(path: Path, data: bytes, kind: str) -> gemmi.Structure:
    if kind == "pdb":
        _check_columns(path, data)
    try:
        if kind == "pdb":
            parsed = gemmi.read_pdb_string(data)
        else:
            blocks = list(gemmi.cif.read_string(data))
            block = next((b for b in blocks if b.find_values("_atom_site.Cartn_x")), blocks[0] if blocks else None)
            parsed = gemmi.make_structure_from_block(block) if block else gemmi.Structure()
    except (RuntimeError, ValueError, IndexError) as error:
        reason = re.sub(r"^\w+:(\d+)\S*", r"line \1:", " ".join(str(error).split()))
        raise InputError(f"{path} is not a structure file that can be read: {reason}") from None
    if not (_CIF_START.match(data) if kind == "cif" else _PDB_RECORD.search(data)):
        raise InputError(f"{path} is not a structure file that can be read")
    if not len(parsed) or not parsed[0].count_atom_sites():
        raise InputError(f"{path} holds no atoms")
    return parsed


def _check_columns(path: Path, data: bytes) -> None:
    """Refuse numbers of atom lines that gemmi would read as far as they go, or as zero."""
    for number, line in enumerate(data.splitlines(), 1):
        if not line[:6].upper().startswith((b"ATOM  ", b"HETATM")):
            continue
        fields = {"x": line[30:38], "y": line[38:46], "z": line[46:54], "residue number": line[22:26]}
        for name, value in fields.items():
            if not (_NUMBER if name == "residue number" else _COORDINATE).fullmatch(value):
                text = value.decode("latin-1").strip()
                raise InputError(f"{path}, line {number}: {name} {text!r} is not a number; check the line's columns")


def _check_same_residues(path: Path, first: Structure, other: Structure) -> None:
    if (first.labels, first.name) == (other.labels, other.name):
        return
    pairs = zip(first.labels, first.name, other.labels, other.name, strict=False)
    differ = (f"{a} ({m}) and {b} ({n})" for a, m, b, n in pairs if (a, m) != (b, n))
    odd = next(differ, f"{len(first)} and {len(other)} of them")
    raise InputError(f"{path}: models {first.model} and {other.model} differ in residues: {odd}")


def _structure(path: Path, number: int, model: gemmi.Model, chain_ids: ChainIds) -> Structure:
    try:
        residues, loose = sort_atoms(model, chain_ids)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not residues:
        raise InputError(f"{path} holds no protein residue" + f" in model {number}" * (number > 1))
    coords = np.zeros((len(residues), len(ATOMS), 3), np.float32)
    present = np.zeros(coords.shape[:2], bool)
    for i, residue in enumerate(residues):
        for name, atom in residue.atoms.items():
            if name in _SLOT:
                coords[i, _SLOT[name]], present[i, _SLOT[name]] = atom.pos.tolist(), True
    return Structure(
        source=path.name,
        model=number,
        chain=tuple(residue.chain for residue in residues),
        number=np.array([residue.number for residue in residues], np.int32),
        insertion=tuple(residue.insertion for residue in residues),
        name=tuple(residue.name for residue in residues),
        letters="".join(residue.letter or UNKNOWN for residue in residues),
        coords=coords,
        present=present,
        ligand_coords=np.array([atom.pos.tolist() for atom in loose], np.float32).reshape(-1, 3),
        ligand_elements=np.array([atom.element.atomic_number for atom in loose], np.int32),
    )


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
