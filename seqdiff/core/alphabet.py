"""The tokens of a domain: letters first, then the specials that are never offered as an answer.

Token ids are fixed by the order of the letters: letter ``i`` has id ``i`` (``0 <= i < V``), followed by MASK,
PAD, BEGIN and END. Networks predict the V letters only, so no sampler can return a special.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from seqdiff.core.errors import InputError, unknown_key


@dataclass(frozen=True)
class PropertyScale:
    """A number per letter that adds up, or is averaged, over a sequence.

    Attributes:
        values: in id order.
        resolution: of whole multiples that represent the values well.
        offset: added to the sum.
        mean: whether the property is the mean instead of the sum.
    """

    values: tuple[float, ...]
    resolution: float
    offset: float = 0.0
    mean: bool = False


@dataclass(frozen=True)
class Alphabet:
    """An immutable set of letters with named groups.

    Attributes:
        name: what the letters are, for messages ("protein").
        letters: the letters in id order, one character each.
        groups: named letter groups such as ``hydrophobic``.
        scales: properties that add up over letters, such as mass.
        complement: the partner of each letter, in id order; empty where letters have none.
    """

    name: str
    letters: str
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)
    scales: Mapping[str, PropertyScale] = field(default_factory=dict, hash=False)
    complement: str = ""

    def __post_init__(self):
        if not self.letters or len(set(self.letters)) != len(self.letters):
            raise InputError(f"alphabet {self.name!r}: letters must be non-empty and distinct, got {self.letters!r}")
        for name, members in self.groups.items():
            if extra := set(members) - set(self.letters):
                raise InputError(f"alphabet {self.name!r}: group {name!r} has foreign letters {sorted(extra)}")
        partner = dict(zip(self.letters, self.complement, strict=False))
        if self.complement and (
            len(partner) != len(self.letters) or any(partner.get(partner[a]) != a for a in partner)
        ):
            raise InputError(f"alphabet {self.name!r}: complement {self.complement!r} does not pair the letters")
        for name, scale in self.scales.items():
            if len(scale.values) != len(self.letters):
                raise InputError(f"alphabet {self.name!r}: scale {name!r} has {len(scale.values)} values")
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))

    def __len__(self) -> int:
        return len(self.letters)

    @property
    def mask(self) -> int:
        """Id of MASK, an open position."""
        return len(self.letters)

    @property
    def pad(self) -> int:
        """Id of PAD, a place beyond the end of the canvas."""
        return len(self.letters) + 1

    @property
    def begin(self) -> int:
        """Id of BEGIN, the frame token before the first position."""
        return len(self.letters) + 2

    @property
    def end(self) -> int:
        """Id of END, the frame token after the last position."""
        return len(self.letters) + 3

    @property
    def num_tokens(self) -> int:
        """Number of ids, specials included."""
        return len(self.letters) + 4

    def encode(self, text: str) -> np.ndarray:
        """Letter ids of ``text`` as int32 [len(text)].

        Raises:
            InputError: a character is not a letter; the message names it and its 1-based place.

        Example:
            >>> Alphabet("DNA", "ACGT").encode("GATC").tolist()
            [2, 0, 3, 1]
        """
        index = {letter: i for i, letter in enumerate(self.letters)}
        try:
            return np.array([index[letter] for letter in text], np.int32)
        except KeyError as error:
            letter = error.args[0]
            raise InputError(
                f"{letter!r} at position {text.index(letter) + 1} is not one of the {self.name} letters {self.letters}"
            ) from None

    def complement_ids(self) -> np.ndarray:
        """Id of the complement of each letter, int32 [V]; the letter itself in an alphabet without complements."""
        return self.encode(self.complement or self.letters)

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of letter ids; MASK reads ``_``, PAD and frame tokens are dropped."""
        return "".join(
            self.letters[t] if t < len(self.letters) else "_" for t in (int(t) for t in tokens) if t <= self.mask
        )

    def letter_set(self, text: str) -> str:
        """The letters that ``text`` names, in id order: a named group or the letters themselves.

        Raises:
            InputError: ``text`` is neither.

        Example:
            >>> Alphabet("DNA", "ACGT", groups={"strong": "CG"}).letter_set("strong")
            'CG'
        """
        if text in ("True", "False"):
            raise InputError('YAML reads NO, ON, Y and the like as true or false; put letters in quotes, such as "NO"')
        if text in self.groups:
            text = self.groups[text]
        elif extra := [letter for letter in text if letter not in self.letters]:
            if len(text) > 3 and text.islower():
                raise unknown_key("letter group", text, self.groups)
            raise InputError(f"{text!r} has {extra[0]!r}, which is not one of the {self.name} letters {self.letters}")
        return "".join(letter for letter in self.letters if letter in text)
