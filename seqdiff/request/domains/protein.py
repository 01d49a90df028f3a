"""Proteins as a domain of requests; its keys are read by ``seqdiff.request.spec``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.properties import BACKGROUND, properties
from seqdiff.request.domains.base import Setting

PROPERTIES = {
    "molecular_weight": "mass (Da)",
    "isoelectric_point": "pI",
    "charge_at_pH7": "charge at pH 7",
    "gravy": "GRAVY",
    "aromaticity": "aromaticity",
}


@dataclass(frozen=True)
class ProteinSetting(Setting):
    """Chains of residues; the keys are read by ``request.spec``."""

    KEYS: ClassVar[tuple[str, ...]] = ("length", "parent", "numbering", "keep", "structure", "contig", "dna")
    MODEL: ClassVar[str] = "protein-small"
    sequential: ClassVar[bool] = True

    @classmethod
    def read(cls, args: Mapping[str, Any], folder: Path) -> "ProteinSetting":
        del args, folder
        return cls()

    @property
    def alphabet(self) -> Alphabet:
        return PROTEIN

    @property
    def background(self) -> np.ndarray:
        return BACKGROUND

    def properties(self, text: str) -> dict[str, float]:
        found = properties(text)
        return {title: found[name] for name, title in PROPERTIES.items()}
