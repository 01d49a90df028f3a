"""Errors that a user can act on: one line that names the input, the place and the way out."""

import difflib
from collections.abc import Iterable


class SeqdiffError(Exception):
    """Base of every error that seqdiff raises on purpose."""


class InputError(SeqdiffError, ValueError):
    """The user's input cannot be used as it is. The command line turns it into one line and exit code 2."""


class InfeasibleError(InputError):
    """No sequence satisfies the constraints.

    Attributes:
        conflict: descriptions of a minimal set of constraints that clash.
        positions: 1-based positions involved, when the clash is at particular positions.
    """

    def __init__(self, message: str, *, conflict: tuple[str, ...] = (), positions: tuple[int, ...] = ()):
        super().__init__(message)
        self.conflict = conflict
        self.positions = positions


class BudgetError(InputError):
    """A constraint set compiles to more automaton states than the budget allows."""


class MissingExtraError(SeqdiffError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""


def unknown_key(what: str, key: object, known: Iterable[str]) -> InputError:
    """An :class:`InputError` for a name that is not known, with the nearest known one.

    Args:
        what: what kind of name it is, such as ``"constraint"``.
        key: the name that came.
        known: the names that are valid.

    Example:
        >>> print(unknown_key("constraint", "patern", ["pattern", "count"]))
        unknown constraint 'patern'; did you mean 'pattern'?
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return InputError(f"unknown {what} {str(key)!r}; {hint}")


def missing_extra(package: str, extra: str) -> MissingExtraError:
    """An error that says how to install ``package``."""
    return MissingExtraError(f"{package} is not installed; run: pip install 'seqdiff[{extra}]'")
