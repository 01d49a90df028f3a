"""A tier: how constraints that are no automaton are kept, as the compiler sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqdiff.core.contracts import Program

EXACT = ("enumerated", "spanning tree")


@dataclass
class Tier:
    """A set of constraints ready to become a program.

    Attributes:
        route: ``enumerated``, ``spanning tree``, ``vetted``, ``witness`` or ``search``.
        lengths: lengths of feasible designs.
        make: the program for a padded size.
        kept: host objects that programs name by handle and that must live as long.
        letters: letters that each variable has in some solution, bool [G, V]; None where that is not known.
    """

    route: str
    lengths: np.ndarray
    make: Callable[[int], Program]
    kept: list[Any] = field(default_factory=list)
    letters: np.ndarray | None = None

    @property
    def guarantee(self) -> str:
        """``exact``: draws follow the proposal given the constraints; else ``feasible``."""
        return "exact" if self.route in EXACT else "feasible"
