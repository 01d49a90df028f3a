"""Structure files, with residues named as the file names them: PDB and mmCIF, plain or gzip, through gemmi.

One set of rules for coordinates (:func:`read_structure`) and for contigs (:func:`read_chains`):

* Chains and residues go by the author's names and insertion codes; by the label's on request, where a file has them. A
  chain without a name is called A.
* A protein residue is an amino acid of the chain (or a modified one with N, CA and C) that has a letter or a CA atom;
  absent residues are absent, absent atoms are marked as such.
* Alternate locations: the conformer of the largest summed occupancy, the first of equal ones; atoms without a label
  belong to every conformer, and two conformers are never mixed. Residues of one chain and number are alternatives too
  (microheterogeneity): the more occupied one is read.
* Selenomethionine reads M, its selenium the place of the sulphur. Other residues that are none of the twenty keep their
  name and have no letter, so that only a request for them fails.
* Water and hydrogen (deuterium too) are dropped; ligands, ions, caps and nucleotides are loose atoms.
* Of several models the first is read, or those asked for, which must agree in their residues.

Other files are read as FASTA: residues count from 1, and records are the chains A, B, C, ... in order, unless every id
is one letter, which then names the chain.
"""

import gzip
import re
import string
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import gemmi
import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, UNKNOWN, Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta

ChainIds = Literal["author", "label"]
_SLOT = {name: i for i, name in enumerate(ATOMS)}
_PDB, _CIF = (".pdb", ".ent", ".pdb1"), (".cif", ".mmcif")


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
    text = _text(path)
    if not _is_structure(path, text):
        raise InputError(f"{path} is not a structure but text; give a PDB or mmCIF file")
    parsed = _parse(path, text, chain_ids)
    wanted = range(1, len(parsed) + 1) if models is None else models
    if beyond := [number for number in wanted if not 1 <= number <= len(parsed)]:
        raise InputError(f"{path} has {len(parsed)} models; there is no model {beyond[0]}")
    found = [_structure(path, number, parsed[number - 1], chain_ids) for number in wanted]
    for other in found[1:]:
        if (other.labels, other.name) != (found[0].labels, found[0].name):
            pairs = zip(found[0].labels, found[0].name, other.labels, other.name, strict=False)
            differ = (f"{a} ({m}) and {b} ({n})" for a, m, b, n in pairs if (a, m) != (b, n))
            odd = next(differ, f"{len(found[0])} and {len(other)} of them")
            raise InputError(f"{path}: models {found[0].model} and {other.model} differ in residues: {odd}")
    return found


def read_chains(path: Path) -> dict[str, list[Residue]]:
    """Residues of every protein chain of a structure or FASTA file.

    Raises:
        InputError: the file cannot be read or holds no residue.
    """
    text = _text(path)
    if not _is_structure(path, text):
        return _fasta_chains(path)
    first = _structure(path, 1, _parse(path, text, "author")[0], "author")
    chains: dict[str, list[Residue]] = {}
    for i, letter in enumerate(first.letters):
        residue = Residue(int(first.number[i]), first.insertion[i], "" if letter == UNKNOWN else letter, first.name[i])
        chains.setdefault(first.chain[i], []).append(residue)
    return chains


def _text(path: Path) -> str:
    """The file's text; errors name the file."""
    if path.name.lower().removesuffix(".gz").endswith(".bcif"):
        raise InputError(f"{path}: BinaryCIF is not read; give the entry as mmCIF or PDB")
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b" or path.suffix.lower() == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return data.decode("utf-8", errors="replace")


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_structure(path: Path, text: str) -> bool:
    if _suffix(path) in (*_PDB, *_CIF):
        return True
    return text.lstrip().startswith("data_") or any(line.startswith(("ATOM  ", "HETATM")) for line in text.splitlines())


def _parse(path: Path, text: str, chain_ids: ChainIds) -> list[gemmi.Model]:
    cif = _suffix(path) in _CIF or text.lstrip().startswith("data_")
    if chain_ids == "label" and not cif:
        raise InputError(f"{path} is a PDB file and has the author's names only; leave chain_ids out")
    try:
        if cif:
            document = gemmi.cif.read_string(text)
            parsed = gemmi.make_structure_from_block(document[0]) if len(document) else gemmi.Structure()
        else:
            parsed = gemmi.read_pdb_string(text)
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(f"{path} is not a structure file that can be read: {error}") from None
    models = list(parsed)
    if not text.strip() or not (cif or re.search(r"^(HEADER|ATOM|HETATM|REMARK|CRYST1|TITLE|MODEL|END)", text, re.M)):
        raise InputError(f"{path} is not a structure file that can be read")
    if not models or not models[0].count_atom_sites():
        raise InputError(f"{path} holds no atoms")
    # The models belong to the structure that they were parsed into; copies do not.
    return [model.clone() for model in models]


def _structure(path: Path, number: int, model: gemmi.Model, chain_ids: ChainIds) -> Structure:
    residues, loose = _sort(model, chain_ids)
    if not residues:
        raise InputError(f"{path} holds no protein residue")
    coords = np.zeros((len(residues), len(ATOMS), 3), np.float32)
    present = np.zeros(coords.shape[:2], bool)
    for i, (_, _, _, residue, atoms) in enumerate(residues):
        for atom in atoms:
            slot = _SLOT.get("SD" if residue.name == "MSE" and atom.name == "SE" else atom.name)
            if slot is not None and not present[i, slot]:
                coords[i, slot], present[i, slot] = atom.pos.tolist(), True
    ligand = np.array([atom.pos.tolist() for atom in loose], np.float32).reshape(-1, 3)
    for array in (coords, ligand):
        if not np.isfinite(array).all():
            raise InputError(f"{path} has coordinates that are not numbers")
    return Structure(
        source=path.name,
        model=number,
        chain=tuple(chain for chain, *_ in residues),
        number=np.array([number for _, number, *_ in residues], np.int32),
        insertion=tuple(code for _, _, code, *_ in residues),
        name=tuple(residue.name for *_, residue, _ in residues),
        letters="".join(_letter(residue.name) or UNKNOWN for *_, residue, _ in residues),
        coords=coords,
        present=present,
        ligand_coords=ligand,
        ligand_elements=np.array([atom.element.atomic_number for atom in loose], np.int32),
    )


_Read = tuple[str, int, str, gemmi.Residue, list[gemmi.Atom]]


def _sort(model: gemmi.Model, chain_ids: ChainIds) -> tuple[list[_Read], list[gemmi.Atom]]:
    """Protein residues with the atoms of one conformer each, chain after chain, and all other atoms."""
    places: dict[tuple[str, int, str], _Read] = {}
    loose: list[gemmi.Atom] = []
    for chain in model:
        for residue in chain:
            atoms = _conformer(residue)
            if residue.is_water() or not atoms:
                continue
            if not _is_protein(residue, {atom.name for atom in atoms}):
                loose += atoms
                continue
            name, number, code = chain.name.strip() or "A", residue.seqid.num, residue.seqid.icode.strip()
            if chain_ids == "label":
                name, number, code = residue.subchain, residue.label_seq, ""
            key = (name, int(number or 0), code)
            if key not in places or _occupancy(atoms) > _occupancy(places[key][4]):
                places[key] = (*key, residue, atoms)
    at = {chain: i for i, chain in enumerate(dict.fromkeys(chain for chain, *_ in places))}
    return sorted(places.values(), key=lambda read: at[read[0]]), loose


def _conformer(residue: gemmi.Residue) -> list[gemmi.Atom]:
    """Heavy atoms without a location label, and those of the most occupied one."""
    atoms = [atom for atom in residue if not atom.is_hydrogen()]
    shares: dict[str, float] = {}
    for atom in atoms:
        if atom.has_altloc():
            shares[atom.altloc] = shares.get(atom.altloc, 0.0) + atom.occ
    best = max(shares, key=lambda label: shares[label]) if shares else ""
    return [atom for atom in atoms if not atom.has_altloc() or atom.altloc == best]


def _occupancy(atoms: Iterable[gemmi.Atom]) -> float:
    occupancies = [atom.occ for atom in atoms]
    return sum(occupancies) / len(occupancies)


def _is_protein(residue: gemmi.Residue, atoms: set[str]) -> bool:
    polymer = residue.het_flag != "H" or {"N", "CA", "C"} <= atoms or residue.name == "MSE"
    kind = gemmi.find_tabulated_residue(residue.name)
    amino = kind.is_amino_acid() or (not kind.is_nucleic_acid() and "CA" in atoms)
    return polymer and amino and bool(_letter(residue.name) or "CA" in atoms)


def _letter(name: str) -> str:
    """One-letter code of the twenty residues and of selenomethionine; else empty."""
    kind = gemmi.find_tabulated_residue(name)
    letter = kind.one_letter_code if kind.is_amino_acid() and kind.is_standard() else ""
    return "M" if name == "MSE" else letter if letter and letter in PROTEIN.letters else ""


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
