"""Atoms of a parsed model, sorted into protein residues and loose atoms: :func:`sort_atoms`.

Each place (chain, number, insertion code) is reduced to one conformer of one residue; what is left is protein or loose
atoms. The rules are told in
:mod:`seqdiff.domains.protein.structure`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import gemmi
from scipy.spatial import KDTree

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN

ChainIds = Literal["author", "label"]
PEPTIDE_BOND = 2.0
"""Longest distance from C to N of a peptide bond, in Angstrom; within one residue the two are 2.4 apart."""
_ONE_RESIDUE = 2.0
"""Farthest that two CA atoms of one name can be, in Angstrom, to be conformers of one residue without labels."""
_PROTONATED: dict[str, str] = {
    **dict.fromkeys(("HID", "HIE", "HIP", "HSD", "HSE", "HSP"), "H"),
    **{"CYX": "C", "CYM": "C", "ASH": "D", "GLH": "E", "LYN": "K"},
}
"""Names that simulation programs give to protonation states; as HETATM, some of them mean other compounds."""
_DROPPED = frozenset(("TIP", "TIP3", "TIP4", "TP3", "SPC", "SOL", "DUM"))
"""Water of simulation programs, and the points by which OPM draws a membrane."""


class Place(NamedTuple):
    """A protein residue.

    Attributes:
        chain: name of its chain.
        number: its number.
        insertion: its insertion code, or empty.
        name: its name in the file.
        letter: one-letter code; empty for a residue that is none of the twenty.
        atoms: heavy atoms of one conformer, by name; MSE has its selenium as SD.
    """

    chain: str
    number: int
    insertion: str
    name: str
    letter: str
    atoms: dict[str, gemmi.Atom]

    @property
    def label(self) -> str:
        """Chain, number and insertion code."""
        return f"{self.chain}{self.number}{self.insertion}"


class _Read(NamedTuple):
    """A residue of the file with its heavy atoms, later those of one conformer."""

    chain: str
    residue: gemmi.Residue
    atoms: list[gemmi.Atom]


def sort_atoms(model: gemmi.Model, chain_ids: ChainIds = "author") -> tuple[list[Place], list[gemmi.Atom]]:
    """Protein residues, chain after chain, and all other heavy atoms.

    Args:
        model: a model as gemmi parses it.
        chain_ids: whose names chains and residues go by.

    Raises:
        InputError: a place holds two residues that are no alternatives, or has no number; an atom has no place in
            space.
    """
    read = list(_residues(model, chain_ids))
    linked = _linked(read)
    places: dict[str, Place] = {}
    loose: list[gemmi.Atom] = []
    for item in read:
        if not (_is_amino(item) and (item.residue.het_flag != "H" or id(item) in linked)):
            # An amino acid of the chain without CA is neither a residue that can be placed nor a ligand.
            cut = item.residue.het_flag != "H" and gemmi.find_tabulated_residue(item.residue.name).is_amino_acid()
            loose += [] if cut else [atom for atom in item.atoms if atom.element.atomic_number]
            continue
        place = _place(item, chain_ids)
        if place.label in places:
            raise _twice(place, places[place.label])
        places[place.label] = place
    at = {chain: i for i, chain in enumerate(dict.fromkeys(place.chain for place in places.values()))}
    return sorted(places.values(), key=lambda place: at[place.chain]), loose


def one_letter(name: str, het: bool = False) -> str:
    """One-letter code of the twenty residues, of their protonation states and of selenomethionine; else empty.

    Args:
        name: of the residue in the file.
        het: whether the file has it as a heterogen.
    """
    if name == "MSE":
        return "M"
    if not het and name in _PROTONATED:
        return _PROTONATED[name]
    kind = gemmi.find_tabulated_residue(name)
    letter = kind.one_letter_code if kind.is_amino_acid() and kind.is_standard() else ""
    return letter if letter and letter in PROTEIN.letters else ""


def _residues(model: gemmi.Model, chain_ids: ChainIds) -> Iterable[_Read]:
    """Residues with heavy atoms, one for each place of alternatives; no water."""
    places: dict[tuple[str, int | str], list[_Read]] = {}
    for chain in model:
        name = chain.name.strip() or "A"
        for residue in chain:
            if residue.is_water() or residue.name in _DROPPED:
                continue
            if atoms := [atom for atom in residue if not atom.is_hydrogen()]:
                item = _Read(name, residue, atoms)
                _check_finite(item)
                key = (name, str(residue.seqid))
                if chain_ids == "label":
                    key = (residue.subchain, residue.label_seq or str(residue.seqid))
                places.setdefault(key, []).append(item)
    for found in places.values():
        labelled = [item for item in found if any(atom.has_altloc() for atom in item.atoms)]
        if labelled:
            yield _most_occupied(labelled)
        yield from (item for item in found if item not in labelled)


def _most_occupied(alternatives: Sequence[_Read]) -> _Read:
    """The residue of the most occupied conformer, with its atoms and those that the alternatives share."""
    shares = [_occupancies(item) for item in alternatives]
    means = [max(sum(found) / len(found) for found in share.values()) for share in shares]
    best = means.index(max(means))
    label = max(shares[best], key=lambda label: sum(shares[best][label]))
    chosen = [atom for atom in alternatives[best].atoms if atom.altloc == label]
    names = {atom.name for atom in chosen}
    shared = [atom for item in alternatives for atom in item.atoms if not atom.has_altloc() and atom.name not in names]
    return alternatives[best]._replace(atoms=shared + chosen)


def _occupancies(item: _Read) -> dict[str, list[float]]:
    """Occupancies of the atoms of each location label."""
    found: dict[str, list[float]] = {}
    for atom in item.atoms:
        if atom.has_altloc():
            found.setdefault(atom.altloc, []).append(atom.occ if math.isfinite(atom.occ) else 0.0)
    return found


def _check_finite(item: _Read) -> None:
    for atom in item.atoms:
        if not math.isfinite(atom.pos.length()):
            where = f"{item.residue.name} {item.chain}{item.residue.seqid}"
            raise InputError(f"atom {atom.serial} ({atom.name} of {where}) has coordinates that are not numbers")


def _is_amino(item: _Read) -> bool:
    names = {atom.name for atom in item.atoms if atom.element != gemmi.Element("Ca")}
    kind = gemmi.find_tabulated_residue(item.residue.name)
    known = kind.is_amino_acid() or ({"N", "C"} <= names and not kind.is_nucleic_acid())
    return "CA" in names and known


def _linked(read: Sequence[_Read]) -> set[int]:
    """Ids of the heterogens that a peptide bond joins to another residue, and of selenomethionine."""
    linked = {id(item) for item in read if item.residue.name == "MSE"}
    het = [item for item in read if item.residue.het_flag == "H" and _is_amino(item)]
    for mine, other in (("N", "C"), ("C", "N")) if het else ():
        ends = [atom.pos.tolist() for item in read if _is_amino(item) for atom in item.atoms if atom.name == other]
        starts = [(item, atom.pos.tolist()) for item in het for atom in item.atoms if atom.name == mine]
        if ends and starts:
            near, _ = KDTree(ends).query([start for _, start in starts])
            linked |= {id(item) for (item, _), d in zip(starts, near.tolist(), strict=True) if d < PEPTIDE_BOND}
    return linked


def _place(item: _Read, chain_ids: ChainIds) -> Place:
    residue = item.residue
    chain, number, code = item.chain, residue.seqid.num, residue.seqid.icode.strip()
    if chain_ids == "label":
        chain, number, code = residue.subchain, residue.label_seq, ""
    if number is None:
        raise InputError(f"residue {residue.name} of chain {chain or item.chain} has no {chain_ids} number")
    letter = one_letter(residue.name, residue.het_flag == "H")
    atoms: dict[str, gemmi.Atom] = {}
    for atom in item.atoms:
        atoms.setdefault("SD" if residue.name == "MSE" and atom.name == "SE" else atom.name, atom)
    place = Place(chain, int(number), code, residue.name, letter, atoms)
    if any(atom.name == "CA" and atom.pos.dist(atoms["CA"].pos) > _ONE_RESIDUE for atom in item.atoms):
        raise _twice(place, place)
    return place


def _twice(place: Place, other: Place) -> InputError:
    return InputError(
        f"{place.label} stands for two residues ({other.name} and {place.name}) that are no alternatives; give their "
        "chains or numbers different names"
    )
