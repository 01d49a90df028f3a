"""What the benchmark and study programs share: ``field=value`` words over a named tuple, and how they are started."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from seqdiff.core.errors import InputError, SeqdiffError, unknown_key

_Settings = TypeVar("_Settings", bound=tuple)


def read_settings(defaults: _Settings, words: Sequence[str]) -> _Settings:
    """``defaults``, a named tuple, with the fields that the words set, each of the kind of its default.

    Raises:
        InputError: a word is no ``field=value``, its field does not exist, or its value is of another kind.
    """
    read: dict[str, Any] = dict(zip(defaults._fields, defaults, strict=True))  # pyright: ignore[reportAttributeAccessIssue]
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise InputError(f"{word!r} is no setting; write field=value, such as n=100")
        if name not in read:
            raise unknown_key("setting", name, read)
        try:
            read[name] = type(read[name])(value)
        except ValueError:
            raise InputError(f"{word}: {name} should be a value like {read[name]!r}") from None
    return type(defaults)(**read)


def run_main(main: Callable[[Sequence[str]], Any]) -> None:
    """Run a program on the words of the command line; an error is one line."""
    try:
        main(sys.argv[1:])
    except SeqdiffError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
