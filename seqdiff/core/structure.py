"""A molecular structure as arrays: what readers of structure files produce and structure-conditioned models consume.

One model of a file, protein residues in the file's order, everything else as loose atoms. Residues keep the names that
the file gives them, so that a user's ``H52A`` means what a viewer shows.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

ATOMS = (
    *("N", "CA", "C", "CB", "O", "CG", "CG1", "CG2", "OG", "OG1", "SG", "CD", "CD1", "CD2", "ND1", "ND2", "OD1", "OD2"),
    *("SD", "CE", "CE1", "CE2", "CE3", "NE", "NE1", "NE2", "OE1", "OE2", "CH2", "NH1", "NH2", "OH", "CZ", "CZ2", "CZ3"),
    *("NZ", "OXT"),
)
"""Heavy atoms of the twenty residues, in the order of the ``atom37`` layout (Jumper et al. 2021)."""

BACKBONE = tuple(ATOMS.index(name) for name in ("N", "CA", "C", "O"))
UNKNOWN = "X"


@dataclass(frozen=True, eq=False, kw_only=True)
class Structure:
    """Residues and atoms of one model.

    Attributes:
        source: where it was read, for messages.
        model: number of the model in the file.
        chain: name of each residue's chain.
        number: of each residue, int32 [L].
        insertion: insertion code of each residue, or empty.
        name: of each residue as in the file, such as ``MSE``.
        letters: one-letter codes; ``X`` where a residue is none of the twenty.
        coords: of the atoms of each residue, in Angstrom, float32 [L, 37, 3]; zero where absent.
        present: which atoms the file has, bool [L, 37].
        ligand_coords: atoms that are no protein (ligands, ions, nucleotides; no water, no hydrogen), float32 [A, 3].
        ligand_elements: their atomic numbers, int32 [A].
    """

    source: str
    model: int = 1
    chain: tuple[str, ...]
    number: Int[np.ndarray, "L"]
    insertion: tuple[str, ...]
    name: tuple[str, ...]
    letters: str
    coords: Float[np.ndarray, "L 37 3"]
    present: Bool[np.ndarray, "L 37"]
    ligand_coords: Float[np.ndarray, "A 3"]
    ligand_elements: Int[np.ndarray, "A"]

    def __len__(self) -> int:
        return len(self.letters)

    @property
    def chains(self) -> tuple[str, ...]:
        """Names of the chains in the file's order."""
        return tuple(dict.fromkeys(self.chain))

    @property
    def labels(self) -> tuple[str, ...]:
        """Chain, number and insertion code of each residue, such as ``H52A``."""
        return tuple(f"{c}{n}{i}" for c, n, i in zip(self.chain, self.number.tolist(), self.insertion, strict=True))

    @property
    def complete(self) -> Bool[np.ndarray, "L"]:
        """Residues whose N, CA, C and O the file has."""
        return np.asarray(self.present[:, BACKBONE].all(axis=1))
