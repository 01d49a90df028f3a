"""Constraints: what a design must obey, checked in plain Python and compiled to one automaton.

A design spec names constraints by their registered names (``REGISTRY``); ``compile_constraints`` turns a list of them
into a program that the sampler conditions on.
"""

from seqdiff.constraints.base import REGISTRY, Constraint, Verdict, parse_constraint, register
from seqdiff.constraints.contig import Contig
from seqdiff.constraints.counting import Count, Identity, Mutations
from seqdiff.constraints.distinct import AllDifferent
from seqdiff.constraints.graph.classes import (
    Acyclic,
    Bipartite,
    Caterpillar,
    Colourable,
    Connected,
    KConnected,
    Lobster,
    Outerplanar,
    Planar,
    Tree,
)
from seqdiff.constraints.graph.distances import Diameter, Girth, Independence
from seqdiff.constraints.graph.local import Degree, Edges, Free, Symmetry
from seqdiff.constraints.links import Pair, Repeat, Tied
from seqdiff.constraints.motifs import Motifs, Spacing, Stretch
from seqdiff.constraints.panel import Panel
from seqdiff.constraints.pattern import Pattern, Run
from seqdiff.constraints.positional import Allow, Fixed, Forbid
from seqdiff.constraints.program import Compiled, compile_constraints
from seqdiff.constraints.scales import Charge, Scale
from seqdiff.constraints.tables import Codon, Table
from seqdiff.constraints.tag import Tag
from seqdiff.constraints.template import Template

__all__ = [
    "REGISTRY",
    "Acyclic",
    "AllDifferent",
    "Allow",
    "Bipartite",
    "Caterpillar",
    "Charge",
    "Codon",
    "Colourable",
    "Compiled",
    "Connected",
    "Constraint",
    "Contig",
    "Count",
    "Degree",
    "Diameter",
    "Edges",
    "Fixed",
    "Forbid",
    "Free",
    "Girth",
    "Identity",
    "Independence",
    "KConnected",
    "Lobster",
    "Motifs",
    "Mutations",
    "Outerplanar",
    "Pair",
    "Panel",
    "Pattern",
    "Planar",
    "Repeat",
    "Run",
    "Scale",
    "Spacing",
    "Stretch",
    "Symmetry",
    "Table",
    "Tag",
    "Template",
    "Tied",
    "Tree",
    "Verdict",
    "compile_constraints",
    "parse_constraint",
    "register",
]
