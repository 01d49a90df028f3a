"""Reading the values of a spec: each helper returns the value or says in one line what is wrong with it."""

import math
from collections.abc import Mapping
from typing import Any

from seqdiff.core.errors import InputError, unknown_key


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


def number(value: object, key: str, *, above: float = -math.inf) -> float:
    """``value`` as a finite float larger than ``above``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= above:
        bound = "" if above == -math.inf else f" above {above:g}"
        raise InputError(f"{key}={value!r} is not a finite number{bound}")
    return float(value)
