"""Constraints: what a design must obey, checked in plain Python and compiled to one automaton.

A design spec names constraints by their registered names (``REGISTRY``); ``compile_constraints`` turns a list of them
into a program that the sampler conditions on.
"""

from seqdiff.constraints.base import REGISTRY, Constraint, Verdict, parse_constraint, register
from seqdiff.constraints.counting import Charge, Count, Identity, Mutations, Scale
from seqdiff.constraints.links import Pair, Repeat, Tied
from seqdiff.constraints.pattern import Pattern, Run
from seqdiff.constraints.positional import Allow, Fixed, Forbid
from seqdiff.constraints.program import Compiled, compile_constraints

__all__ = [
    "REGISTRY",
    "Allow",
    "Charge",
    "Compiled",
    "Constraint",
    "Count",
    "Fixed",
    "Forbid",
    "Identity",
    "Mutations",
    "Pair",
    "Pattern",
    "Repeat",
    "Run",
    "Scale",
    "Tied",
    "Verdict",
    "compile_constraints",
    "parse_constraint",
    "register",
]
