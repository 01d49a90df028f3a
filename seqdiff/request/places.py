"""Names of positions: residues of a structure, an antibody's numbering, whole chains and loops.

Where a spec says positions it may say ``A23``, ``A23-30``, ``H52A``, ``A`` (a whole chain), ``A:-3`` (a colon keeps
chain and number apart) or ``CDR3`` and ``H:FR1`` if residues are numbered as an antibody's. The words are replaced by
canvas positions before constraints are read, so that constraints know of nothing but the canvas. Plain numbers stay
what they are everywhere: canvas positions from 1.

With several chains on the canvas, constraints that look at neighbours (``LOCAL``) hold for each chain by itself, so
that no pattern is found across the end of one and the start of the next; sums and counts run over all of them, unless a
``region`` says otherwise.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqdiff.constraints.base import REGISTRY
from seqdiff.constraints.tables import Row
from seqdiff.core.errors import InputError
from seqdiff.core.layout import format_positions

_KEYS = ("positions", "region", "groups", "mirror", "palindrome", "position")
_RESIDUES = re.compile(r"(?:(\w+):|([A-Za-z]+))(-?\d+)([A-Za-z]?)(?:-(?:(\w+):|([A-Za-z]+))?(-?\d+)([A-Za-z]?))?")
_LOOP = re.compile(r"(?:(\w+):)?((?:CDR|FR)[1-4])")


@dataclass(frozen=True)
class Places:
    """What the positions of a canvas are called.

    Attributes:
        chain: name of each position's chain.
        number: number and insertion code of each position, such as ``52A``.
        loops: 0-based positions of named stretches of a chain, by (chain, name).
        source: where the names come from, for messages.
    """

    chain: tuple[str, ...]
    number: tuple[str, ...]
    loops: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    source: str = ""

    @property
    def chains(self) -> tuple[str, ...]:
        """The chains in the canvas's order."""
        return tuple(dict.fromkeys(self.chain))

    @property
    def labels(self) -> tuple[str, ...]:
        """Chain and number of each position."""
        return tuple(f"{chain}{number}" for chain, number in zip(self.chain, self.number, strict=True))

    def span(self, chain: str) -> tuple[int, int]:
        """First and last position of a chain, 1-based; a chain is one stretch of the canvas."""
        first = self.chain.index(chain) + 1
        return first, first + self.chain.count(chain) - 1

    def positions(self, words: str) -> list[int]:
        """The 1-based positions that comma-separated words name.

        Raises:
            InputError: a word names a chain, a residue or a loop that there is none of.
        """
        return [position for word in words.split(",") for position in self._word(word.strip())]

    def translate(self, value: Any) -> Any:
        """Positions of a spec with names replaced; numbers and ranges of the canvas are left as they are."""
        if isinstance(value, list | tuple):
            return [self.translate(item) for item in value]
        if not isinstance(value, str) or not re.search(r"[A-Za-z:]", re.sub(r"\bend\b", "", value)):
            return value
        words = [word.strip() for word in value.split(",")]
        plain = [word for word in words if re.fullmatch(r"\d+(-(\d+|end)?)?", word)]
        found = self.positions(",".join(word for word in words if word not in plain))
        if len(found) == 1 and not plain:
            return found[0]
        return ",".join([*plain, format_positions(found)])

    def rewrite(self, item: object) -> list[object]:
        """A constraint of a spec with names replaced; one for each chain where it looks at neighbours."""
        if not isinstance(item, Mapping) or len(item) != 1:
            return [item]
        name, args = next(iter(item.items()))
        if name == "fixed" and isinstance(args, Mapping):
            return [{name: {self.translate(place): letters for place, letters in args.items()}}]
        if name == "tied" and isinstance(args, Mapping) and "chains" in args:
            return [{name: self._copies(args)}]
        if isinstance(args, Mapping):
            args = {key: self.translate(value) if key in _KEYS else value for key, value in args.items()}
            if isinstance(args.get("csv"), list):
                args["csv"] = [self._row(row) for row in args["csv"]]
        if len(self.chains) == 1 or not getattr(REGISTRY.get(name), "LOCAL", False):
            return [{name: args}]
        args = args if isinstance(args, Mapping) else {"name": args}
        if "region" in args:
            return [{name: args}]
        spans = [self.span(chain) for chain in self.chains]
        return [{name: {**args, "region": f"{first}-{last}"}} for first, last in spans]

    def _row(self, row: Any) -> Any:
        if not isinstance(row, Mapping) or "position" not in row:
            return row
        values = {**row, "position": str(self.translate(row["position"]))}
        return Row(values.items(), where=row.where) if isinstance(row, Row) else values

    def _word(self, word: str) -> list[int]:
        if word in self.chains:
            return [i for i, chain in enumerate(self.chain, 1) if chain == word]
        if loop := _LOOP.fullmatch(word):
            return self._loop(word, loop[1] or "", loop[2])
        residues = _RESIDUES.fullmatch(word)
        if not residues:
            raise InputError(f"{word!r}: write residues of {self.source} such as {self.labels[0]} or a chain")
        chain = residues[1] or residues[2]
        other = residues[5] or residues[6] or chain
        if chain not in self.chains or other != chain:
            raise InputError(f"{word!r}: {self.source} has the chains {', '.join(self.chains)} to design")
        first = self._find(chain, residues[3] + residues[4].upper(), word)
        last = first if residues[7] is None else self._find(chain, residues[7] + residues[8].upper(), word)
        if last < first:
            raise InputError(f"{word!r} runs backwards")
        return list(range(first + 1, last + 2))

    def _find(self, chain: str, number: str, word: str) -> int:
        for i, label in enumerate(zip(self.chain, self.number, strict=True)):
            if label == (chain, number):
                return i
        first, last = self.span(chain)
        raise InputError(
            f"{word!r}: {self.source} has no residue {chain}{number} to design; chain {chain} runs from "
            f"{self.labels[first - 1]} to {self.labels[last - 1]}"
        )

    def _loop(self, word: str, chain: str, name: str) -> list[int]:
        found = [places for (c, n), places in self.loops.items() if n == name and chain in ("", c)]
        if not found:
            if not self.loops:
                raise InputError(f"{word!r} needs numbered residues; add numbering: imgt (or kabat, chothia)")
            known = ", ".join(f"{c}:{n}" for c, n in self.loops)
            raise InputError(f"{word!r}: there is {known}")
        return [position + 1 for places in found for position in places]

    def _copies(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """``tied: {chains: [A, B]}``: residues of the same number, in runs."""
        chains = args["chains"]
        if not isinstance(chains, list | tuple) or len(chains) < 2 or not all(c in self.chains for c in chains):
            raise InputError(f"tied: chains={chains!r}: name two or more of {', '.join(self.chains)}")
        named = list(enumerate(zip(self.chain, self.number, strict=True), 1))
        places = [{number: i for i, (own, number) in named if own == chain} for chain in chains]
        shared = [tuple(place[n] for place in places) for n in places[0] if all(n in place for place in places)]
        if not shared:
            raise InputError(f"tied: chains {', '.join(chains)} share no residue number")
        return {key: value for key, value in args.items() if key != "chains"} | {"groups": _runs(shared)}


def _runs(rows: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """Tuples of positions as tied stretches: consecutive ones together."""
    runs: list[list[list[int]]] = []
    for row in rows:
        if runs and all(p == run[1] + 1 for p, run in zip(row, runs[-1], strict=True)):
            for p, run in zip(row, runs[-1], strict=True):
                run[1] = p
        else:
            runs.append([[p, p] for p in row])
    return [[f"{first}-{last}" for first, last in run] for run in runs]
