"""PROSITE pattern syntax (PROSITE user manual, section "Pattern syntax") as regular expressions.

``C-x(2,4)-C-x(3)-[LIVMFYWC]-x(8)-H-x(3,5)-H`` and ``N-{P}-[ST]-{P}``: elements joined by ``-``; ``x`` any residue;
``[AC]`` one of; ``{P}`` none of; ``(n)`` or ``(m,n)`` repeats; ``<`` and ``>`` anchor to the ends, and ``>`` may stand
inside a class (``[G>]``: glycine or the end); an optional full stop ends the pattern.
"""

import re

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError

_ELEMENT = re.compile(r"(?P<body>x|[A-Z]|\[[A-Z]+>?\]|\{[A-Z]+\})(?:\((?P<low>\d+)(?:,(?P<high>\d+))?\))?")


def prosite_to_regex(pattern: str, alphabet: Alphabet) -> str:
    """The Python regular expression of a PROSITE pattern.

    Raises:
        InputError: an element that the syntax does not know, or a letter outside the alphabet; the message names it.

    Example:
        >>> from seqdiff.domains.protein.alphabet import PROTEIN
        >>> prosite_to_regex("C-x(2,4)-C-{P}-[ST]>", PROTEIN)
        'C.{2,4}C[^P][ST]$'
    """
    text = pattern.strip().removesuffix(".")
    start, end = text.startswith("<"), text.endswith(">") and not text.endswith("[>")
    body = text[1 if start else 0 : -1 if end else None].strip("-")
    if not body:
        raise InputError(f"PROSITE pattern {pattern!r} is empty")
    elements = [_element(part.strip(), pattern, alphabet) for part in body.split("-")]
    if any("$" in element for element in elements[:-1]):
        raise InputError(f"PROSITE pattern {pattern!r}: '>' inside a class can only stand in the last element")
    return "^" * start + "".join(elements) + "$" * end


def _element(part: str, pattern: str, alphabet: Alphabet) -> str:
    match = _ELEMENT.fullmatch(part)
    if not match:
        raise InputError(
            f"PROSITE pattern {pattern!r}: cannot read element {part!r}; join elements by '-', such as C-x(2,4)-[ST]"
        )
    body = match["body"]
    if foreign := [letter for letter in body if letter.isupper() and letter not in alphabet.letters]:
        raise InputError(f"PROSITE pattern {pattern!r}: {foreign[0]!r} is not one of {alphabet.letters}")
    if body.endswith(">]"):
        if match["low"]:
            raise InputError(f"PROSITE pattern {pattern!r}: {part!r} cannot repeat the end of the chain")
        return f"([{body[1:-2]}]|$)"
    low, high = match["low"], match["high"]
    if high is not None and int(high) < int(low):
        raise InputError(f"PROSITE pattern {pattern!r}: {part!r} has a descending range")
    repeat = "" if low is None else f"{{{low}}}" if high is None else f"{{{low},{high}}}"
    if body == "x":
        return "." + repeat
    if body.startswith("{"):
        return f"[^{body[1:-1]}]" + repeat
    return body + repeat
