"""The contig grammar of structure-based design, ``A10-25/30-40/B5-9``, read against the chains of a file.

Segments are separated by ``/`` (or ``,``). A chain name with inclusive residue numbers is given (``A10-25``, ``A10``,
with insertion codes ``H52-52A``); bare numbers count residues to design (``5``, ``30-40``). What other programs read
in silence or refuse with an assertion is refused here in words: chain breaks, ranges that run backwards, residues that
the file lacks (RosettaCommons/RFdiffusion#355), residues used twice. ``A10`` alone is fine (RFdiffusion#97).
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seqdiff.core.errors import InputError
from seqdiff.core.layout import format_positions
from seqdiff.domains.protein.structure import Residue

_GAP = re.compile(r"(\d+)(?:-(\d+))?")
_GIVEN = re.compile(r"([A-Za-z]+)(-?\d+)([A-Za-z]?)(?:-([A-Za-z]+)?(-?\d+)([A-Za-z]?))?")
_NO_CHAIN = re.compile(r"\d+[A-Za-z]?(-\d+[A-Za-z]?)?")
_BREAK = re.compile(r"(?:^|[/,])\s*0+(?:-0+)?(?=[\s/,]|$)")
_MAX_SHOWN = 7
Chains = Mapping[str, Sequence[Residue]]
Gap = tuple[int, int]
"""Fewest and most residues to design."""


class Given(NamedTuple):
    """A stretch of a contig that a chain gives.

    Attributes:
        source: chain and residues, such as ``A10-25``.
        letters: its residues.
    """

    source: str
    letters: str


class _End(NamedTuple):
    """A residue as a contig names it."""

    number: int
    insertion: str

    def __str__(self) -> str:
        return f"{self.number}{self.insertion}"


def parse_contig(text: str, chains: Chains | None, source: str) -> list[Given | Gap]:
    """The segments of a contig.

    Args:
        text: the contig.
        chains: from :func:`seqdiff.domains.protein.structure.read_chains`; None where no file is named.
        source: file that the chains come from, for messages.

    Raises:
        InputError: says which segment is wrong and how to write it.
    """
    if _BREAK.search(text):
        raise InputError(
            f"contig {text!r}: a segment of 0 marks a chain break in other programs; a design here is one chain, so "
            "leave it out and design the chains one by one"
        )
    segments: list[Given | Gap] = []
    used: dict[str, str] = {}
    for number, word in enumerate(re.split(r"[/,]", text), 1):
        try:
            segments.append(_segment(word.strip(), chains, source, used))
        except InputError as error:
            raise InputError(f"contig segment {number} ({word.strip()!r}): {error}") from None
    if chains is not None and not any(isinstance(segment, Given) for segment in segments):
        raise InputError(
            f"contig {text!r} uses no residue of {source}; put the chain before residue numbers, such as "
            f"{next(iter(chains))}{text.strip()}, or leave 'structure' out"
        )
    return segments


def _segment(word: str, chains: Chains | None, source: str, used: dict[str, str]) -> Given | Gap:
    if not word:
        raise InputError("is empty; write one '/' between segments and none at the ends")
    if re.search(r"\s", word):
        raise InputError("has a blank inside; separate segments with '/', such as A10-25/30-40")
    if gap := _GAP.fullmatch(word):
        low, high = int(gap[1]), int(gap[2] or gap[1])
        if high < low:
            raise InputError(f"runs backwards; write {high}-{low}")
        return low, high
    if _NO_CHAIN.fullmatch(word):
        raise InputError(f"names residues without a chain; write A{word}, say")
    given = _GIVEN.fullmatch(word)
    if not given:
        whole = f" (all of a chain needs its ends, such as {word}1-76)" if word.isalpha() else ""
        raise InputError(f"write a chain and residues (A10-25), or how many residues to design (30 or 30-40){whole}")
    chain, first, first_code, again, last, last_code = given.groups()
    if again and again != chain:
        raise InputError(f"runs from chain {chain} to chain {again}; write a segment for each chain")
    if chains is None:
        raise InputError("names a chain; the spec needs 'structure' beside 'contig', a PDB, mmCIF or FASTA file")
    if chain not in chains:
        raise InputError(f"{source} has no protein chain {chain}; it has {', '.join(chains)}")
    start = _End(int(first), first_code)
    stop = _End(int(last), last_code) if last else start
    part = _stretch(chain, start, stop, chains[chain], source)
    if shared := [residue for residue in part if f"{chain}{residue.label}" in used]:
        label = f"{chain}{shared[0].label}"
        more = f" to {chain}{shared[-1].label}" if len(shared) > 1 else ""
        raise InputError(f"residues {label}{more} are in {used[label]} already; a residue can stand once")
    used |= {f"{chain}{residue.label}": word for residue in part}
    return Given(f"{chain}{start}-{stop}" if last else f"{chain}{start}", "".join(residue.letter for residue in part))


def _stretch(chain: str, start: _End, stop: _End, residues: Sequence[Residue], source: str) -> Sequence[Residue]:
    """The residues from ``start`` to ``stop`` in the order of the file."""
    backwards = InputError(f"runs backwards; write {chain}{stop}-{start}")
    if stop.number < start.number:
        raise backwards
    places = {_End(residue.number, residue.insertion): i for i, residue in enumerate(residues)}
    held = [residue.number for residue in residues]
    inner = sorted(set(range(start.number, stop.number + 1)) - set(held))
    if lacking := [end for end in (start, stop) if end not in places and end.number not in inner]:
        others = ", ".join(f"{chain}{residue.label}" for residue in residues if residue.number == lacking[0].number)
        raise InputError(f"{source} has no residue {chain}{lacking[0]}; there is {others}")
    if inner:
        names = ", ".join(f"{chain}{stretch}" for stretch in format_runs(inner))
        raise InputError(f"{source} has no residue {names}; {_way_out(chain, start, stop, residues)}")
    if places[stop] < places[start]:
        raise backwards
    part = residues[places[start] : places[stop] + 1]
    if odd := [residue for residue in part if not residue.letter]:
        names = ", ".join(f"{chain}{residue.label} ({residue.name})" for residue in odd[:_MAX_SHOWN])
        raise InputError(f"{names} is none of the twenty residues; leave it out and write 1 in its place to design it")
    return part


def _way_out(chain: str, start: _End, stop: _End, residues: Sequence[Residue]) -> str:
    """How to write a segment that reaches over residues which the file lacks."""
    held = [residue for residue in residues if start <= (residue.number, residue.insertion) <= stop]
    whole = f"chain {chain} has {chain}{residues[0].label} to {chain}{residues[-1].label}"
    if not held:
        return whole
    pieces, first, before = [], held[0], held[0]
    for residue in (*held[1:], None):
        if residue is None or residue.number > before.number + 1:
            pieces.append(f"{chain}{first.label}" if first == before else f"{chain}{first.label}-{before.label}")
            if residue is not None:
                pieces.append(str(residue.number - before.number - 1))
                first = residue
        before = residue or before
    if len(pieces) > _MAX_SHOWN:
        return f"{whole}; split the segment around them"
    return f"write {'/'.join(pieces)}" + (" to design them" if len(pieces) > 1 else f"; {whole}")


def format_runs(numbers: Sequence[int]) -> list[str]:
    """Numbers as compact ranges, negative ones too."""
    if all(number >= 0 for number in numbers):
        return format_positions(numbers).split(",")
    return [str(number) for number in numbers]
