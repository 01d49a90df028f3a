"""The key ``length`` of a spec: how long designs are, and how each design's length is drawn."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqdiff.constraints.contig import Contig
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.request.files import beside


def read_length(
    args: Mapping[str, Any], parent: str, contig: Contig | None, folder: Path
) -> tuple[tuple[int, int], str | tuple[tuple[int, float], ...]]:
    """Shortest and longest design, and how lengths are drawn."""
    fewest, most = contig.total() if contig else (0, 0)
    natural = (len(parent), len(parent)) if parent else (max(1, fewest), most) if contig else None
    if "length" not in args:
        if natural is None:
            raise InputError("needs 'length', such as length: 100 or length: [90, 110]")
        return natural, "uniform"
    value, draw = args["length"], "uniform"
    if isinstance(value, Mapping):
        options = check_keys(value, ("range", "draw"), required=("draw",))
        draw, value = options["draw"], options.get("range", natural)
        if value is None:
            raise InputError("length needs 'range' beside 'draw', such as length: {range: [60, 80], draw: evidence}")
    ends = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(ends) != 2:
        raise InputError(
            f"length={value!r}: write a number, [shortest, longest] or {{range: [60, 80], draw: evidence}}"
        )
    low, high = (whole_number(end, "length", low=1) for end in ends)
    if low > high:
        raise InputError(f"length={value!r} runs backwards; write [shortest, longest]")
    if parent and (low, high) != natural:
        what = "structure" if "structure" in args and not contig else "parent"
        raise InputError(f"length={value!r}, but the {what} has {len(parent)} residues; leave 'length' out")
    if contig:
        low, high = max(low, fewest), min(high, most)
        if low > high:
            raise InputError(f"length={value!r}, but the contig has {fewest} to {most} residues; leave 'length' out")
    return (low, high), _draw(draw, low, high, folder)


def _draw(value: object, low: int, high: int, folder: Path) -> str | tuple[tuple[int, float], ...]:
    """How lengths are drawn: a word, a FASTA file whose lengths count, or weights by length."""
    if value in ("uniform", "evidence"):
        return str(value)
    if isinstance(value, Mapping):
        weights = {int(str(n)): number(weight, f"draw {n}", above=0) for n, weight in value.items() if str(n).isdigit()}
        if len(weights) != len(value):
            raise InputError("draw: write weights as length: weight, such as {60: 1, 61: 2}")
    elif isinstance(value, str) and ("." in value or "/" in value):
        counts = Counter(len(str(record.seq)) for record in read_fasta(beside(value, folder)))
        weights = {n: float(count) for n, count in counts.items()}
    else:
        raise InputError(f"draw={value!r}: write uniform, evidence or a FASTA file whose lengths are drawn")
    kept = tuple((n, weight) for n, weight in sorted(weights.items()) if low <= n <= high)
    if not kept:
        raise InputError(f"draw={value!r} has no length of {low} to {high}")
    return kept
