"""Numbering of antibody variable domains, and the loops that numbering defines (through ANARCII, BSD-3).

Of the numbering packages ANARCII installs from PyPI alone, knows every scheme and may be used by anybody; it brings
torch along. AntPack is for academic use only; AbNumber and ANARCI need HMMER beside them. Without the extra, ranges can
be written by hand.

Loops by scheme: IMGT (Lefranc et al. 2003), Kabat (Kabat et al. 1991) and Chothia (Al-Lazikani et al. 1997, with the
loop ends in common use: H1 26-32, H2 52-56, H3 95-102; L1 24-34, L2 50-56, L3 89-97).
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqdiff.core.errors import InputError, missing_extra, unknown_key

_IMGT = ((27, 38), (56, 65), (105, 117))
_LIGHT = ((24, 34), (50, 56), (89, 97))
LOOPS: Mapping[str, Mapping[str, tuple[tuple[int, int], ...]]] = {
    "imgt": {"H": _IMGT, "L": _IMGT},
    "kabat": {"H": ((31, 35), (50, 65), (95, 102)), "L": _LIGHT},
    "chothia": {"H": ((26, 32), (52, 56), (95, 102)), "L": _LIGHT},
}
"""First and last number of CDR1, CDR2 and CDR3 in heavy and light chains."""


class Domain(NamedTuple):
    """A numbered variable domain.

    Attributes:
        chain: ``H`` or ``L`` (kappa and lambda).
        numbers: number and insertion code of each residue, such as ``52A``; empty outside of the domain.
        loops: 0-based places of the residues of ``CDR1`` to ``CDR3`` and ``FR1`` to ``FR4``.
    """

    chain: str
    numbers: tuple[str, ...]
    loops: dict[str, tuple[int, ...]]


def number_domains(sequences: Sequence[str], scheme: str) -> list[Domain]:
    """The variable domain of each sequence.

    Args:
        sequences: letters; one variable domain each.
        scheme: ``imgt``, ``kabat`` or ``chothia``.

    Raises:
        InputError: an unknown scheme, the extra is not installed, or a sequence holds no antibody domain.
    """
    if scheme not in LOOPS:
        raise unknown_key("numbering", scheme, LOOPS)
    try:
        from anarcii import Anarcii  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise missing_extra("anarcii", "antibody") from None
    with contextlib.redirect_stdout(io.StringIO()):
        model = Anarcii(seq_type="antibody", mode="accuracy", cpu=True, ncpu=1, verbose=False)
        found = model.number(list(sequences))
        if scheme != "imgt":
            found = model.to_scheme(scheme)
    return [_domain(sequence, row, scheme) for sequence, row in zip(sequences, found.values(), strict=True)]


def _domain(sequence: str, row: Mapping[str, Any], scheme: str) -> Domain:
    if not row["numbering"]:
        shown = sequence if len(sequence) <= 20 else f"{sequence[:17]}..."
        raise InputError(f"{shown} holds no antibody variable domain ({row['error'] or 'none found'})")
    chain = "H" if row["chain_type"] == "H" else "L"
    named = [(number, code.strip()) for (number, code), letter in row["numbering"] if letter != "-"]
    letters = "".join(letter for _, letter in row["numbering"] if letter != "-")
    start = sequence.find(letters, row["query_start"] or 0)
    if start < 0:
        raise InputError(f"the numbering of {sequence[:17]}... does not follow its residues; write ranges by hand")
    numbers = [""] * len(sequence)
    loops: dict[str, list[int]] = {}
    for place, (number, code) in enumerate(named, start):
        numbers[place] = f"{number}{code}"
        loops.setdefault(_loop(number, LOOPS[scheme][chain]), []).append(place)
    return Domain(chain, tuple(numbers), {name: tuple(places) for name, places in sorted(loops.items())})


def _loop(number: int, cdrs: tuple[tuple[int, int], ...]) -> str:
    for i, (first, last) in enumerate(cdrs, 1):
        if number < first:
            return f"FR{i}"
        if number <= last:
            return f"CDR{i}"
    return "FR4"
