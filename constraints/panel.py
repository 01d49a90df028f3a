"""Panels: named sets of rules that a field checks together, such as the sites of tag-removing proteases.

A panel is data. ``panels.yaml`` beside this file holds for each one what it is about, its source in the literature,
its rules as ordinary constraint specs, and other panels that it includes. As a constraint a panel is the conjunction
of its rules: their parts are merged, and the check names the rules that fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar

import yaml

from seqdiff.constraints.base import (
    Constraint,
    Verdict,
    in_region,
    parse_constraint,
    parse_region,
    region_spec,
    register,
)
from seqdiff.constraints.parts import Lowered, combine
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys
from seqdiff.core.layout import WHOLE, Layout, Region

SHOWN = 3


@dataclass(frozen=True)
class Entry:
    """One panel as ``panels.yaml`` has it.

    Attributes:
        about: what it is for, in one line.
        source: where the rules come from: paper or standard, and year.
        constraints: specs of its own rules.
        panels: names of the panels that it includes.
    """

    about: str
    source: str
    constraints: tuple[Mapping[str, Any], ...] = ()
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One rule of a panel.

    Attributes:
        panel: the panel whose own rule it is.
        constraint: the rule.
    """

    panel: str
    constraint: Constraint


@cache
def panels() -> Mapping[str, Entry]:
    """All panels by name, in the order of ``panels.yaml``."""
    table = yaml.safe_load(files("seqdiff.constraints").joinpath("panels.yaml").read_text(encoding="utf-8"))
    entries = {
        name: Entry(
            entry["about"], entry["source"], tuple(entry.get("constraints", ())), tuple(entry.get("panels", ()))
        )
        for name, entry in table.items()
    }
    return MappingProxyType(entries)


def included(name: str, table: Mapping[str, Entry], within: tuple[str, ...] = ()) -> list[str]:
    """The panels that ``name`` stands for: those that it includes, at any depth and each once, then itself.

    Args:
        name: a panel.
        table: all panels.
        within: the panels on the way to this one.

    Raises:
        InputError: no such panel, or a panel that includes itself.
    """
    if name not in table:
        raise unknown_key("panel", name, table)
    if name in within:
        raise InputError(f"panels include each other in a circle: {' > '.join((*within, name))}")
    inner = [deep for part in table[name].panels for deep in included(part, table, (*within, name))]
    return list(dict.fromkeys((*inner, name)))


@register
@dataclass(frozen=True)
class Panel:
    """All rules of some named panels: ``panel: developability`` or ``panel: {name: [tev, furin], region: "20-45"}``.

    Attributes:
        names: the panels.
        region: where; each rule is kept in what its own region and this one have in common.
        rules: the rules of these panels, scoped to the region.
    """

    name: ClassVar[str] = "panel"
    LOCAL: ClassVar[bool] = True
    names: tuple[str, ...]
    region: Region = WHOLE
    rules: tuple[Rule, ...] = field(default=(), repr=False)

    @classmethod
    def from_spec(cls, args: Any, alphabet: Alphabet) -> "Panel":
        if not isinstance(args, Mapping):
            args = {"name": args}
        args = check_keys(args, ("name", "region"), required=("name",))
        names = args["name"] if isinstance(args["name"], list | tuple) else (args["name"],)
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"{args['name']!r}: name a panel or a list of panels; known: {', '.join(panels())}")
        names, region = tuple(dict.fromkeys(names)), parse_region(args)
        return cls(names, region, _rules(names, region, alphabet))

    def to_spec(self) -> Any:
        name = self.names[0] if len(self.names) == 1 else list(self.names)
        return name if self.region == WHOLE and len(self.names) == 1 else {"name": name} | region_spec(self.region)

    def describe(self) -> str:
        return f"panel {', '.join(self.names)}{in_region(self.region)}"

    def lower(self, layout: Layout) -> Lowered:
        self.region.check(layout, self.describe())
        return combine([rule.constraint.lower(layout) for rule in self.rules])

    def holds(self, text: str) -> Verdict:
        failed = [
            f"{rule.panel}: {rule.constraint.describe()}: {verdict.reason}"
            for rule in self.rules
            if not (verdict := rule.constraint.holds(text)).ok
        ]
        more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        return Verdict(not failed, "; ".join(failed[:SHOWN]) + more if failed else f"{len(self.rules)} rules kept")


def _rules(names: tuple[str, ...], region: Region, alphabet: Alphabet) -> tuple[Rule, ...]:
    """Every rule of the panels once, in the region."""
    table, rules = panels(), []
    for panel in dict.fromkeys(deep for name in names for deep in included(name, table)):
        for spec in table[panel].constraints:
            try:
                constraint = _scoped(parse_constraint(spec, alphabet), region)
            except InputError as error:
                raise InputError(f"{panel}: {error}") from None
            if constraint is not None and all(constraint != rule.constraint for rule in rules):
                rules.append(Rule(panel, constraint))
    return tuple(rules)


def _scoped(constraint: Any, region: Region) -> Constraint | None:
    """The constraint within ``region``; None where they have nothing in common."""
    if region == WHOLE:
        return constraint
    known = {item.name for item in fields(constraint)}
    if "region" in known:
        common = _common(constraint.region, region)
        return None if common is None else replace(constraint, region=common)
    if "regions" in known:
        commons = tuple(common for own in constraint.regions if (common := _common(own, region)) is not None)
        return replace(constraint, regions=commons) if commons else None
    raise InputError(f"{constraint.describe()!r} has fixed positions and cannot be scoped to a region")


def _common(one: Region, other: Region) -> Region | None:
    first = max(one.first, other.first)
    last = min((region.last for region in (one, other) if region.last is not None), default=None)
    return None if last is not None and last < first else Region(first, last)
