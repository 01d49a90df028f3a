"""What a domain is to a request: letters, lengths, intrinsic constraints, objects, files and pictures."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Constraint
from seqdiff.core.alphabet import Alphabet

Draw = tuple[tuple[int, float], ...]


class Setting(ABC):
    """A domain as a spec sets it up.

    Attributes:
        KEYS: keys of a spec that only this domain has.
        MODEL: the model where the spec names none.
        sequential: whether designs are sequences, which FASTA holds and a row of letters shows.
    """

    KEYS: ClassVar[tuple[str, ...]]
    MODEL: ClassVar[str]
    sequential: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, args: Mapping[str, Any], folder: Path) -> "Setting":
        """The setting that a spec's keys describe; files are looked up in ``folder`` first."""

    @property
    @abstractmethod
    def alphabet(self) -> Alphabet:
        """The letters."""

    @property
    def lengths(self) -> tuple[tuple[int, int], str | Draw] | None:
        """Shortest and longest canvas and how lengths are drawn; None where the spec's own keys say."""
        return None

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What every object of the domain obeys, and what its keys ask for."""
        return ()

    @property
    def background(self) -> np.ndarray:
        """Frequencies of the letters where no model is asked, float [V]."""
        return np.full(len(self.alphabet), 1 / len(self.alphabet))

    def conditions(self, size: int) -> Any:
        """What a model of the domain is told beside the canvas of ``size`` positions."""
        del size

    def to_spec(self) -> dict[str, Any]:
        """The keys that :meth:`read` reads back."""
        return {}

    def decode(self, text: str) -> Any:
        """The field's own object of a design."""
        return text

    def show(self, text: str) -> str:
        """A design in a line of the terminal."""
        return text

    def properties(self, text: str) -> dict[str, float]:
        """Numbers about a design, by column title."""
        del text
        return {}

    def write(self, folder: Path, names: Sequence[str], texts: Sequence[str]) -> None:
        """Write designs in the field's format; sequences are written by ``request.output``."""
        del folder, names, texts

    def picture(self, names: Sequence[str], texts: Sequence[str]) -> str | None:
        """An SVG of designs; None where letters in rows are the picture."""
        del names, texts
        return None


def find_file(text: str, folder: Path) -> Path | None:
    """The file of that name, in ``folder`` first; None where there is none."""
    if "\n" in text or len(text) > 255:
        return None
    return next((path for path in (folder / text, Path(text)) if path.is_file()), None)
