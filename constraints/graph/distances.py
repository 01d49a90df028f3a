"""Constraints on distances and sizes: diameter, girth, independent sets."""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx

from seqdiff.constraints.base import Verdict, register
from seqdiff.constraints.graph import rules
from seqdiff.constraints.graph.base import GraphConstraint, Obstruction, cycle_edges, no
from seqdiff.constraints.parts import Lowered
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import Layout


@register
@dataclass(frozen=True)
class Diameter(GraphConstraint):
    """Connected, and no two nodes farther apart than ``max``: ``diameter: {max: 3}``.

    Attributes:
        most: largest distance.
    """

    name: ClassVar[str] = "diameter"
    closed: ClassVar[str] = "up"
    directed: ClassVar[bool | None] = False
    most: int = 2

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Diameter":
        args = check_keys(args, ("max",), required=("max",))
        return cls(cls.fitting(alphabet), whole_number(args["max"], "max", low=1))

    def to_spec(self) -> Any:
        return {"max": self.most}

    def describe(self) -> str:
        return f"diameter at most {self.most}"

    def lower(self, layout: Layout) -> Lowered:
        del layout
        return Lowered(rules=(rules.Connected(), rules.Diameter(self.most)))

    def check(self, graph: Any) -> Verdict:
        if not nx.is_connected(graph):
            return no("not connected")
        found = nx.diameter(graph)
        return Verdict(found <= self.most, f"diameter {found}")


@register
@dataclass(frozen=True)
class Girth(GraphConstraint):
    """No cycle shorter than ``min``: ``girth: {min: 5}``.

    Attributes:
        least: length of the shortest cycle that may be.
    """

    name: ClassVar[str] = "girth"
    closed: ClassVar[str] = "down"
    bridges: ClassVar[bool] = True
    directed: ClassVar[bool | None] = False
    least: int = 5

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Girth":
        args = check_keys(args, ("min",), required=("min",))
        if args["min"] == 3:
            raise InputError("min=3 asks for nothing: no graph has a shorter cycle")
        return cls(cls.fitting(alphabet), whole_number(args["min"], "min", low=4))

    def to_spec(self) -> Any:
        return {"min": self.least}

    def describe(self) -> str:
        return f"girth at least {self.least}"

    def rule(self) -> Any:
        return rules.Girth(self.least)

    def check(self, graph: Any) -> Verdict:
        found = nx.girth(graph)
        return Verdict(found >= self.least, f"girth {found}")

    def obstruction(self, graph: Any) -> Obstruction | None:
        for u, v in graph.edges:
            rest = nx.restricted_view(graph, (), ((u, v),))
            path = nx.single_source_shortest_path(rest, u, cutoff=self.least - 2).get(v)
            if path is not None:
                return Obstruction(cycle_edges(path))
        return None


@register
@dataclass(frozen=True)
class Independence(GraphConstraint):
    """No more than ``max`` nodes without any edge among them: ``independence: {max: 4}``; beside ``free: K4``
    or the like, a Ramsey colouring.

    Attributes:
        most: size of the largest independent set that may be.
    """

    name: ClassVar[str] = "independence"
    closed: ClassVar[str] = "up"
    directed: ClassVar[bool | None] = False
    most: int = 2

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Independence":
        args = check_keys(args, ("max",), required=("max",))
        return cls(cls.fitting(alphabet), whole_number(args["max"], "max", low=1))

    def to_spec(self) -> Any:
        return {"max": self.most}

    def describe(self) -> str:
        return f"at most {self.most} independent nodes"

    def check(self, graph: Any) -> Verdict:
        found = max(map(len, nx.find_cliques(nx.complement(graph))), default=0)
        return Verdict(found <= self.most, f"{found} independent nodes")

    def obstruction(self, graph: Any) -> Obstruction | None:
        for nodes in nx.find_cliques(nx.complement(graph)):
            if len(nodes) > self.most:
                some = sorted(nodes)[: self.most + 1]
                return Obstruction(absent=tuple(itertools.combinations(some, 2)))
        return None
