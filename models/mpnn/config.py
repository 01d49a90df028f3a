"""Architecture of a ProteinMPNN network as one frozen record."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.models.config import refuse_unknown

Kind = Literal["protein", "ligand", "membrane"]


@dataclass(frozen=True, kw_only=True)
class MPNNConfig:
    """Hyperparameters of :class:`seqdiff.models.mpnn.network.MPNN`.

    Attributes:
        kind: ``protein`` (ProteinMPNN, SolubleMPNN), ``ligand`` (LigandMPNN) or ``membrane`` (labels for residues).
        neighbours: nearest residues that a residue exchanges messages with, itself among them.
        atoms: context atoms of each residue; read by ``ligand`` only.
        width: size of node and edge states.
        depth: layers of the encoder and of the decoder.
        letters: letters of the decoder, the unknown one last.
        noise: standard deviation of the noise on training coordinates, in Angstrom; a note.
    """

    kind: Kind = "protein"
    neighbours: int = 48
    atoms: int = 0
    width: int = 128
    depth: int = 3
    letters: int = 21
    noise: float = 0.0

    def __post_init__(self):
        if self.kind not in get_args(Kind):
            raise unknown_key("kind", self.kind, get_args(Kind))
        if (self.kind == "ligand") != (self.atoms > 0):
            raise InputError(f"atoms={self.atoms} with kind={self.kind}: a ligand network reads atoms, others none")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MPNNConfig":
        """The config that ``data`` describes; unknown keys are refused by name."""
        refuse_unknown(cls, data)
        return cls(**data)
