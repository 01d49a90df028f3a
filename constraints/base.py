"""What a constraint is, the registry of their names, and the arguments that many of them share.

A constraint is a frozen record of the user's words. It knows how to check a finished design in plain Python
(``holds``) and how to lower itself to parts of a program (``lower``, see ``seqdiff.constraints.parts``); the two share
no code, so that one checks the other. ``seqdiff.constraints.program`` fuses all parts of all constraints.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import whole_number
from seqdiff.core.layout import WHOLE, Layout, Region


class Verdict(NamedTuple):
    """The independent check of one constraint on one design.

    Attributes:
        ok: whether the design obeys.
        reason: what was found, in a few words.
    """

    ok: bool
    reason: str


class Constraint(Protocol):
    """A hard fact about every design; see ``docs/extending.md`` for how to add one.

    A class whose attribute ``LOCAL`` is true looks at neighbouring letters and takes a ``region``: where a canvas holds
    several chains it is applied to each of them by itself.
    """

    name: ClassVar[str]

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Constraint":
        """The constraint that the YAML value ``args`` describes; group names become letters of the alphabet."""
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


def parse_constraint(item: object, alphabet: Alphabet) -> Constraint:
    """The constraint that a one-key mapping such as ``{"count": {"letters": "C", "exactly": 2}}`` describes.

    Raises:
        InputError: not a one-key mapping, an unknown name or key, or a value that cannot be used.

    Example:
        >>> from seqdiff.domains.protein.alphabet import PROTEIN
        >>> rule = parse_constraint({"count": {"letters": "C", "exactly": 2}}, PROTEIN)
        >>> rule.describe()
        'count C exactly 2'
        >>> rule.holds("MCKLC")
        Verdict(ok=True, reason='2 found')
    """
    if not isinstance(item, Mapping) or len(item) != 1:
        raise InputError(
            f"constraint {item!r}: write one name and its arguments, such as count: {{letters: C, max: 2}}"
        )
    name, args = next(iter(item.items()))
    if name not in REGISTRY:
        raise unknown_key("constraint", name, REGISTRY)
    try:
        return REGISTRY[name].from_spec(args, alphabet)
    except InputError as error:
        raise type(error)(f"{name}: {error}") from None


@dataclass(frozen=True)
class Bounds:
    """How often something may occur.

    Attributes:
        low: at least so often.
        high: at most so often; None for no bound.
    """

    low: int
    high: int | None

    @classmethod
    def parse(
        cls, args: Mapping[str, Any], low_key: str, high_key: str, *, default: "Bounds | None" = None
    ) -> "Bounds":
        """Read ``low_key``, ``high_key`` or ``exactly``.

        Raises:
            InputError: none is given and there is no default, ``exactly`` stands beside another, or low > high.
        """
        given = [key for key in (low_key, high_key, "exactly") if key in args]
        if not given:
            if default is None:
                raise InputError(f"needs {low_key!r}, {high_key!r} or 'exactly'")
            return default
        if "exactly" in given:
            if len(given) > 1:
                raise InputError(f"'exactly' cannot stand beside {given[0]!r}")
            exact = whole_number(args["exactly"], "exactly")
            return cls(exact, exact)
        low = whole_number(args[low_key], low_key) if low_key in args else 0
        high = whole_number(args[high_key], high_key) if high_key in args else None
        if high is not None and high < low:
            raise InputError(f"{low_key}={low} is more than {high_key}={high}")
        return cls(low, high)

    def to_spec(self, low_key: str, high_key: str) -> dict[str, int]:
        """The keys that :meth:`parse` reads back."""
        if self.low == self.high:
            return {"exactly": self.low}
        spec = {low_key: self.low} if self.low or self.high is None else {}
        return spec if self.high is None else spec | {high_key: self.high}

    def admits(self, count: int) -> bool:
        """Whether ``count`` is within the bounds."""
        return self.low <= count and (self.high is None or count <= self.high)

    def widened(self, step: int) -> "Bounds":
        """The same with the lower bound less and the upper bound more by ``step``."""
        return Bounds(max(0, self.low - step), None if self.high is None else self.high + step)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {self.low}"
        parts = [f"at least {self.low}"] if self.low else []
        return " and ".join(parts if self.high is None else [*parts, f"at most {self.high}"]) or "any number"


def parse_region(args: Mapping[str, Any]) -> Region:
    """The region that ``args`` scopes a constraint to; the whole design by default."""
    return Region.parse(args["region"]) if "region" in args else WHOLE


def in_region(region: Region) -> str:
    """The region as the tail of a description; empty for the whole design."""
    return "" if region == WHOLE else f" in {region}"


def region_spec(region: Region) -> dict[str, str]:
    """The ``region`` key that :func:`parse_region` reads back; none for the whole design."""
    return {} if region == WHOLE else {"region": str(region)}
