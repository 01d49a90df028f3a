"""What a constraint is, and the two kinds of parts that it lowers to.

A constraint is a frozen record of the user's words. It knows how to check a finished design in plain Python
(``holds``) and how to lower itself to parts of a program (``lower``); the two share no code, so that one checks the
other. Parts are *allowed letters* per position and *scans*: automata that read a stretch of the canvas from left to
right. ``seqdiff.constraints.compiler`` fuses all parts of all constraints into one automaton.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.layout import Layout, Region


class Verdict(NamedTuple):
    """The independent check of one constraint on one design.

    Attributes:
        ok: whether the design obeys.
        reason: what was found, in a few words.
    """

    ok: bool
    reason: str


class Automaton(Protocol):
    """A deterministic automaton over letters, built as it is explored. States are small ints; -1 is dead."""

    start: int

    def row(self, state: int) -> np.ndarray:
        """Next state for every symbol, int32 [V * choices]; -1 where the letter is refused."""
        ...

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        ...


class Scan(NamedTuple):
    """An automaton that reads the letters of a region and must accept at its end.

    Attributes:
        automaton: what reads.
        region: where.
        choices: symbols per letter; more than one when the automaton's hidden path is part of the symbol.
        route: how it was built, for ``explain``.
    """

    automaton: Automaton
    region: Region
    choices: int = 1
    route: str = "automaton"


@dataclass(frozen=True)
class Lowered:
    """Parts of a program.

    Attributes:
        allowed: bool [max_length, V], or None for no restriction.
        scans: automata over regions.
        fallback: the same constraint as scans over hidden paths, made only when ``scans`` exceed the budget.
    """

    allowed: np.ndarray | None = None
    scans: tuple[Scan, ...] = ()
    fallback: Callable[[], tuple[Scan, ...]] | None = field(default=None, compare=False)


class Constraint(Protocol):
    """A hard fact about every design; see ``docs/extending.md`` for how to add one."""

    name: ClassVar[str]

    @classmethod
    def from_spec(cls, args: Any) -> "Constraint":
        """The constraint that the YAML value ``args`` describes."""
        ...

    def to_spec(self) -> Any:
        """The YAML value that :meth:`from_spec` reads back to an equal constraint."""
        ...

    def describe(self) -> str:
        """The constraint in one line of the user's words."""
        ...

    def lower(self, layout: Layout) -> Lowered:
        """Parts of a program for this canvas."""
        ...

    def holds(self, text: str) -> Verdict:
        """Check a finished design in plain Python, sharing nothing with :meth:`lower`."""
        ...


REGISTRY: dict[str, type[Constraint]] = {}
_C = TypeVar("_C", bound=type)


def register(cls: _C) -> _C:
    """Class decorator: make a constraint known to specs by its ``name``."""
    REGISTRY[cls.name] = cls
    return cls


def parse_constraint(item: object) -> Constraint:
    """The constraint that a one-key mapping such as ``{"count": {"letters": "C", "exactly": 2}}`` describes.

    Raises:
        InputError: not a one-key mapping, an unknown name or key, or a value that cannot be used.
    """
    if not isinstance(item, Mapping) or len(item) != 1:
        raise InputError(f"constraint {item!r}: write one name and its arguments, such as count: {{letters: C, max: 2}}")
    name, args = next(iter(item.items()))
    if name not in REGISTRY:
        raise unknown_key("constraint", name, REGISTRY)
    try:
        return REGISTRY[name].from_spec(args)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def check_keys(args: object, known: tuple[str, ...], required: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """``args`` as a mapping with known keys only.

    Raises:
        InputError: not a mapping, an unknown key, or a missing one.
    """
    if not isinstance(args, Mapping):
        raise InputError(f"{args!r} is not a mapping with keys {', '.join(known)}")
    for key in args:
        if key not in known:
            raise unknown_key("key", key, known)
    for key in required:
        if key not in args:
            raise InputError(f"needs {key!r}")
    return args


def whole_number(value: object, key: str, *, low: int = 0) -> int:
    """``value`` as an int of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InputError(f"{key}={value!r} is not a whole number of at least {low}")
    return value
