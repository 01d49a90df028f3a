"""``key=value`` words of a command line, in Hydra's grammar, applied to a mapping."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from seqdiff.core.errors import InputError


def parse_overrides(words: Sequence[str]) -> list[tuple[str, Any]]:
    """(dotted key, value) pairs; the value of ``~key`` is ``DELETE``.

    Raises:
        InputError: a word is not an override, or asks for a sweep.
    """
    pairs = []
    for word in words:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException:
            raise InputError(
                f"{word!r} is not an override; write key=value, such as n=64 or sampling.steps=16"
            ) from None
        if override.is_sweep_override():
            raise InputError(f"{word!r} asks for several values; give one")
        pairs.append((override.key_or_group, DELETE if override.is_delete() else override.value()))
    return pairs


class _Delete:
    """Marks a key to be removed."""


DELETE = _Delete()


def apply_overrides(mapping: dict[str, Any], pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A copy of ``mapping`` with each pair set.

    ``sampling.steps`` goes into a nested mapping, ``constraints.0`` into a list.

    Raises:
        InputError: a key leads through something that is neither a mapping nor a list, or past the end of a list.
    """
    for key, value in pairs:
        mapping = _put(mapping, key.split("."), value, key)
    return mapping


def overlay(mapping: Mapping[str, Any], keys: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """A copy of ``mapping`` with the keys of another laid over it.

    Mappings merge, ``{constraints: {"0": ...}}`` goes into the items of a list, None takes a key away and anything else
    replaces what was there. A planner is replaced whole: its options belong to its name.

    Raises:
        InputError: a key to be taken away is not there, or an index is past the end of its list.
    """
    found = dict(mapping)
    for key, value in keys.items():
        where, there = f"{path}{key}", found.get(key)
        if value is None:
            if key not in found:
                raise InputError(f"~{where}: there is no such key")
            del found[key]
        elif isinstance(value, Mapping) and isinstance(there, Mapping) and key != "planner":
            found[key] = overlay(there, value, f"{where}.")
        elif isinstance(value, Mapping) and isinstance(there, list) and all(str(k).isdigit() for k in value):
            found[key] = _items(there, value, f"{where}.")
        else:
            found[key] = value
    return found


def _items(items: Sequence[Any], changes: Mapping[Any, Any], path: str) -> list[Any]:
    """A list with some of its items changed, by index."""
    if wrong := next((k for k in changes if int(k) >= len(items)), None):
        raise InputError(f"{path}{wrong}: {wrong!r} is not an item of that list (0 to {len(items) - 1})")
    found = overlay({str(i): item for i, item in enumerate(items)}, {str(k): v for k, v in changes.items()}, path)
    return list(found.values())


def _put(target: Any, path: list[str], value: Any, key: str) -> Any:
    head, rest = path[0], path[1:]
    if isinstance(target, dict):
        if value is DELETE and not rest:
            if head not in target:
                raise InputError(f"~{key}: there is no such key")
            return {k: v for k, v in target.items() if k != head}
        return target | {head: _put(target.get(head, {}), rest, value, key) if rest else value}
    if isinstance(target, list):
        if not head.isdigit() or int(head) >= len(target):
            raise InputError(f"{key}: {head!r} is not an item of that list (0 to {len(target) - 1})")
        place = int(head)
        if value is DELETE and not rest:
            return target[:place] + target[place + 1 :]
        return [*target[:place], _put(target[place], rest, value, key) if rest else value, *target[place + 1 :]]
    raise InputError(f"{key}: {head!r} cannot be set inside {target!r}")
