"""Tags and linkers by name, at either end of the design or at a position; ``tags.yaml`` beside this file holds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import yaml

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.parts import Lowered
from seqdiff.constraints.pattern import Pattern
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys
from seqdiff.core.layout import Layout


@dataclass(frozen=True)
class TagEntry:
    """One tag as ``tags.yaml`` has it.

    Attributes:
        letters: the residues.
        about: what it is for, in one line.
        source: paper and year.
    """

    letters: str
    about: str
    source: str


@cache
def tags() -> Mapping[str, TagEntry]:
    """All tags and linkers by name, in the order of ``tags.yaml``."""
    table = yaml.safe_load(files("seqdiff.constraints").joinpath("tags.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({name: TagEntry(**entry) for name, entry in table.items()})


@register
@dataclass(frozen=True)
class Tag:
    """A tag or linker at its place: ``tag: {name: his6, at: C}``, ``at: N`` or ``at: 2`` (behind an initial Met).

    Attributes:
        tag: its name.
        letters: its residues.
        at: ``N`` for the start of the design, ``C`` for its end whatever the length, or the 1-based position of the
            first residue.
    """

    name: ClassVar[str] = "tag"
    tag: str
    letters: str
    at: Literal["N", "C"] | int

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Tag":
        args = check_keys(args, ("name", "at"), required=("name", "at"))
        name = str(args["name"])
        if name not in tags():
            raise unknown_key("tag", name, tags())
        at: Any = args["at"]
        if at not in ("N", "C") and (isinstance(at, bool) or not isinstance(at, int) or at < 1):
            raise InputError(f"at={at!r}: write N, C or the position of the first residue, such as 2")
        letters = tags()[name].letters
        alphabet.encode(letters)
        return cls(name, letters, at)

    def to_spec(self) -> dict[str, Any]:
        return {"name": self.tag, "at": self.at}

    def describe(self) -> str:
        place = f"position {self.at}" if isinstance(self.at, int) else f"the {self.at}-terminus"
        return f"tag {self.tag} ({self.letters}) at {place}"

    def lower(self, layout: Layout) -> Lowered:
        first = self.at if isinstance(self.at, int) else 1
        last = first + len(self.letters) - 1
        if last > layout.min_length:
            raise InputError(
                f"{self.describe()}: position {last} is out of range; the shortest design has {layout.min_length}"
            )
        if self.at == "C":
            return Pattern(self.describe(), "regex", f"{self.letters}$").lower(layout)
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        for position, letter in enumerate(layout.alphabet.encode(self.letters), first):
            allowed[position - 1] = False
            allowed[position - 1, letter] = True
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        if self.at == "C":
            return Verdict(text.endswith(self.letters), f"ends with {text[-len(self.letters) :]}")
        first = 1 if self.at == "N" else self.at
        found = text[first - 1 : first - 1 + len(self.letters)]
        return Verdict(found == self.letters, f"{found or 'nothing'} at position {first}")
