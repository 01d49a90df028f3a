"""Planners in a spec: a name, or a name with options; planners that wrap another one take it as ``inner``.

planner: margin
planner: {entropy_bound: {gamma: 0.5}}
planner: {blocks: {size: 16, inner: {threshold: {confidence: 0.8}}}}
planner: {order: {positions: "30-40,1-29"}}
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import parse_regions
from seqdiff.sampling.planners import PLANNERS, BasePlanner, Order, diffusion_gemma

_PRESETS = {"diffusion_gemma": diffusion_gemma}
_PRESET_OPTIONS = {"diffusion_gemma": {"gamma": float, "stability": int, "entropy": float}}


def parse_planner(item: object) -> BasePlanner:
    """The planner that a spec describes.

    Raises:
        InputError: an unknown name or option, or a value that cannot be used.
    """
    name, options = (item, {}) if isinstance(item, str) else (None, item)
    if name is None:
        if not isinstance(options, Mapping) or len(options) != 1:
            raise InputError(
                f"planner={item!r}: write a name, or one name with options: {{entropy_bound: {{gamma: 0.1}}}}"
            )
        name, options = next(iter(options.items()))
    if name not in PLANNERS and name not in _PRESETS:
        raise unknown_key("planner", name, [*PLANNERS, *_PRESETS])
    if name == "order":
        return _order(check_keys(options or {}, ("positions",), required=("positions",))["positions"])
    kinds = _PRESET_OPTIONS.get(name) or dict(_options(PLANNERS[name]))
    args = check_keys(options or {}, tuple(kinds), required=("inner",) if "inner" in kinds else ())
    values = {key: _value(value, kinds[key], key) for key, value in args.items()}
    return (_PRESETS.get(name) or PLANNERS[name])(**values)


def planner_name(planner: BasePlanner) -> str:
    """The name that a spec uses."""
    return next(name for name, cls in PLANNERS.items() if type(planner) is cls)


def planner_spec(planner: BasePlanner) -> object:
    """What :func:`parse_planner` reads back to the same planner."""
    name = planner_name(planner)
    if isinstance(planner, Order):
        priority = np.asarray(planner.priority)
        listed = [int(p) + 1 for p in np.argsort(priority, kind="stable") if priority[p] < _UNLISTED]
        return {name: {"positions": listed}}
    options = {}
    for key, kind in _options(type(planner)):
        value = getattr(planner, key)
        options[key] = planner_spec(value) if kind is BasePlanner else value
    return {name: options} if options else name


_UNLISTED = np.iinfo(np.int32).max


def _order(value: object) -> Order:
    """An order from ``"30-40,1-29"`` or a list of positions; the others come last."""
    items = value if isinstance(value, list | tuple) else [value]
    positions: list[int] = []
    for region in (region for item in items for region in parse_regions(item)):
        if region.last is None:
            raise InputError(f"positions={value!r}: give the last position of each stretch")
        positions += range(region.first, region.last + 1)
    if len(set(positions)) < len(positions):
        raise InputError(f"positions={value!r} names a position twice")
    priority = np.full(max(positions), _UNLISTED, np.int32)
    priority[np.array(positions) - 1] = np.arange(len(positions))
    return Order(priority=priority)


def _options(cls: type[BasePlanner]) -> list[tuple[str, Any]]:
    """Options of a planner that a spec can give, with their types; networks and arrays are for Python only."""
    found = []
    for item in fields(cls):
        kind = {"float": float, "int": int, "str": str, "bool": bool}.get(getattr(item.type, "__name__", ""))
        if item.name == "inner":
            kind = BasePlanner
        if kind is not None:
            found.append((item.name, kind))
    return found


def _value(value: object, kind: Any, key: str) -> Any:
    if kind is BasePlanner:
        return parse_planner(value)
    if kind is bool:
        if not isinstance(value, bool):
            raise InputError(f"{key}={value!r} must be true or false")
        return value
    if kind is str:
        return str(value)
    return whole_number(value, key) if kind is int else number(value, key)
