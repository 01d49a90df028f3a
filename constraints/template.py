"""Periodic templates: the class of letters that stands at each position of a repeat, such as a heptad."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, ClassVar

import numpy as np

from seqdiff.constraints.base import Verdict, in_region, parse_region, region_spec, register
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import WHOLE, Layout, Region

ANYTHING = "x."
CLASSES = {"h": "hydrophobic", "p": "polar"}
HEPTAD = "abcdefg"


@register
@dataclass(frozen=True)
class Template:
    """A repeat of letter classes along a region: ``template: {repeat: hpphppp, region: "1-35"}``.

    A letter of the repeat names a class: one given under ``classes``, a letter of the alphabet for itself, ``h``
    (hydrophobic), ``p`` (polar), or ``x`` and ``.`` for anything. A coiled coil can be written by its register:
    ``template: {heptad: {a: LIV, d: L, e: E, g: K}, start: b}``.

    Attributes:
        repeat: the repeat; one letter per position.
        classes: (letter of the repeat, residues) for every letter of the repeat that is not free, ascending.
        start: 1-based place in the repeat that stands at the first position of the region.
        region: where.
    """

    name: ClassVar[str] = "template"
    repeat: str
    classes: tuple[tuple[str, str], ...]
    start: int = 1
    region: Region = WHOLE

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Template":
        args = check_keys(args, ("repeat", "heptad", "classes", "start", "region"))
        if ("repeat" in args) == ("heptad" in args):
            raise InputError("give either a 'repeat', such as hpphppp, or a 'heptad', such as {a: LIV, d: L}")
        if "heptad" in args and "classes" in args:
            raise InputError("'classes' belong to a 'repeat'; a 'heptad' names its letters itself")
        start = args.get("start", 1)
        if "heptad" in args:
            given = check_keys(args["heptad"], tuple(HEPTAD))
            if not given:
                raise InputError("'heptad' is empty; name letters for a to g, such as {a: LIV, d: L}")
            repeat = "".join(place if place in given else "." for place in HEPTAD)
            if isinstance(start, str) and len(start) == 1 and start in HEPTAD:
                start = HEPTAD.index(start) + 1
        else:
            repeat = str(args["repeat"])
            given = _class_mapping(args.get("classes", {}))
            if unused := [letter for letter in given if letter not in repeat]:
                raise InputError(f"class {unused[0]!r} does not occur in the repeat {repeat!r}")
        if not repeat:
            raise InputError("'repeat' is empty")
        place = whole_number(start, "start", low=1)
        if place > len(repeat):
            raise InputError(f"start={start} is beyond the repeat {repeat!r} of {len(repeat)} places")
        found = {letter: _class_letters(letter, given, alphabet) for letter in sorted(set(repeat))}
        classes = tuple((letter, residues) for letter, residues in found.items() if residues is not None)
        return cls(repeat, classes, place, parse_region(args))

    def to_spec(self) -> dict[str, Any]:
        start = {} if self.start == 1 else {"start": self.start}
        return {"repeat": self.repeat, "classes": dict(self.classes)} | start | region_spec(self.region)

    def describe(self) -> str:
        classes = ", ".join(f"{letter}={residues}" for letter, residues in self.classes)
        start = "" if self.start == 1 else f" from its place {self.start}"
        return f"template {self.repeat}{start}{in_region(self.region)} ({classes or 'all free'})"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, f"template {self.repeat}")
        classes = dict(self.classes)
        table = np.array([[v in classes.get(place, v) for v in layout.alphabet.letters] for place in self.repeat])
        allowed = np.ones((layout.max_length, len(layout.alphabet)), bool)
        part = allowed[self.region.first - 1 : self.region.last]
        part[:] = table[(np.arange(len(part)) + self.start - 1) % len(self.repeat)]
        return Lowered(allowed=allowed)

    def holds(self, text: str) -> Verdict:
        classes = dict(self.classes)
        places = cycle(self.repeat[self.start - 1 :] + self.repeat[: self.start - 1])
        for position, (letter, place) in enumerate(zip(self.region.cut(text), places, strict=False), self.region.first):
            if place in classes and letter not in classes[place]:
                return Verdict(False, f"{letter} at position {position} is not {place} ({classes[place]})")
        return Verdict(True, "follows the template")


def _class_mapping(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InputError(f"classes={value!r}: write letter: residues, such as {{h: hydrophobic, p: polar}}")
    classes = {str(letter): str(residues) for letter, residues in value.items()}
    if long := [letter for letter in classes if len(letter) != 1]:
        raise InputError(f"class {long[0]!r} is not one letter")
    return classes


def _class_letters(letter: str, given: Mapping[str, Any], alphabet: Alphabet) -> str | None:
    """The residues that a letter of a repeat stands for; None for anything."""
    if letter not in given:
        if letter in alphabet.letters:
            return letter
        if letter in ANYTHING:
            return None
        if letter not in CLASSES:
            raise InputError(f"{letter!r} in the repeat has no class; add classes: {{{letter}: ...}}")
    residues = alphabet.letter_set(str(given.get(letter, CLASSES.get(letter))))
    if not residues:
        raise InputError(f"class {letter!r} is empty")
    return residues
