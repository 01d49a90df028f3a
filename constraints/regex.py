"""Regular expressions over letters, as position (Glushkov) automata.

Python's own parser reads the syntax: patterns then mean what ``re`` means by them, with the same error messages, and
the independent checker can hand the very same text to ``re``. (interegular and greenery parse a subset and insist on
determinising each pattern alone, which is what explodes for wildcard-heavy motifs; automata-lib has another syntax.)

In a position automaton every letter of the pattern is a state, and all arrows into a state carry that state's letter
set. A set of states is therefore one integer, and reading a letter is "follow, then mask". Anchors are positions that
no letter can take; what they lead to may start, and what leads to them may end, at the ends of the text only.
"""

import re
import re._constants as sre
import re._parser as sre_parser
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import BudgetError, InputError

MAX_POSITIONS = 2048


@dataclass(frozen=True)
class Nfa:
    """A position automaton. Sets of positions are ints, bit p standing for position p.

    Attributes:
        letters: letter set of each position, bool [n, V].
        follow: positions that may come next after each position.
        first: positions that may start a match anywhere.
        first_anchored: positions that may start a match at the start of the text only.
        last: positions that may end a match anywhere.
        last_anchored: positions that may end a match at the end of the text only.
        nullable: whether the empty text matches.
    """

    letters: np.ndarray
    follow: tuple[int, ...]
    first: int
    first_anchored: int
    last: int
    last_anchored: int
    nullable: bool


def parse_regex(pattern: str, alphabet: Alphabet) -> Nfa:
    """The automaton of a Python-like regular expression.

    Letters, ``.``, classes, groups, alternation, ``* + ? {m,n}`` and the anchors ``^`` and ``$`` are understood.
    Everything else is refused by name.

    Raises:
        InputError: not a regular expression, or a construct or letter outside the above.
        BudgetError: repeats unroll to more than ``MAX_POSITIONS`` positions.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = sre_parser.parse(pattern)
    except (re.error, FutureWarning, DeprecationWarning) as error:
        raise InputError(f"regex {pattern!r}: {error}") from None
    except (OverflowError, RecursionError):
        raise BudgetError(f"regex {pattern!r} is nested or repeated too deeply") from None
    if tree.state.flags & ~re.UNICODE:
        raise InputError(f"regex {pattern!r}: inline flags are not supported; write the letters out")
    return _Builder(pattern, alphabet).build(list(tree))


class _Builder:
    """Collects positions while walking the syntax tree once."""

    def __init__(self, pattern: str, alphabet: Alphabet):
        self.pattern, self.alphabet = pattern, alphabet
        self.letters: list[np.ndarray] = []
        self.follow: list[int] = []
        self.starts = self.ends = 0

    def build(self, items: list[Any]) -> Nfa:
        nullable, first, last = self._sequence(items)
        size = len(self.alphabet)
        letters = np.array(self.letters, bool).reshape(len(self.letters), size)
        entered = self._through(first, self.starts)
        before = [p for p in range(len(self.follow)) if self._through(self.follow[p], self.ends) & last & self.ends]
        real = ~(self.starts | self.ends)
        return Nfa(
            letters,
            tuple(follow & real for follow in self.follow),
            first & real,
            self._after(entered & self.starts) & real,
            last & real,
            sum(1 << p for p in before) & real,
            nullable or bool(self._through(first, self.starts | self.ends) & (self.starts | self.ends) & last),
        )

    def _through(self, entry: int, markers: int) -> int:
        """Positions that ``entry`` reaches by way of markers alone, itself included."""
        reached, fresh = entry, entry & markers
        while fresh:
            after = self._after(fresh) & ~reached
            reached, fresh = reached | after, after & markers
        return reached

    def _after(self, sources: int) -> int:
        return _union(tuple(self.follow[p] for p in bits(sources)))

    def _sequence(self, items: Any) -> tuple[bool, int, int]:
        """(nullable, first, last) of items one after another."""
        nullable, first, last = True, 0, 0
        for item in items:
            empty, begin, end = self._item(item)
            self._link(last, begin)
            first |= begin if nullable else 0
            last = end | (last if empty else 0)
            nullable &= empty
        return nullable, first, last

    def _item(self, item: Any) -> tuple[bool, int, int]:
        op, arg = item
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._position(self._letter_set(op, arg))
        if op is sre.BRANCH:
            parts = [self._sequence(branch) for branch in arg[1]]
            empties, begins, ends = zip(*parts, strict=True)
            return any(empties), _union(begins), _union(ends)
        if op is sre.SUBPATTERN:
            _, add, remove, body = arg
            if add or remove:
                raise self._refuse("inline flags")
            return self._sequence(body)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(*arg)
        if op is sre.AT and arg in (*_STARTS, *_ENDS):
            return self._marker(start=arg in _STARTS)
        raise self._refuse(str(op).lower().replace("_", " "))

    def _repeat(self, low: int, high: Any, body: Any) -> tuple[bool, int, int]:
        endless = high is sre.MAXREPEAT
        copies = max(low, 1) if endless else high
        nullable, first, last, end = low == 0, 0, 0, 0
        for copy in range(copies):
            empty, begin, new_end = self._sequence(body)
            # A copy is entered from the copy before it only, so that a text has one way through the repeat.
            self._link(end, begin)
            first |= begin if copy == 0 or empty else 0
            end = new_end | (end if empty else 0)
            last |= end if copy + 1 >= low else 0
            nullable |= empty
            if endless and copy == copies - 1:
                self._link(new_end, begin)
        return nullable, first, last

    def _position(self, letters: np.ndarray) -> tuple[bool, int, int]:
        if len(self.letters) >= MAX_POSITIONS:
            raise BudgetError(
                f"regex {self.pattern!r} unrolls to more than {MAX_POSITIONS} positions; shorten its repeats"
            )
        self.letters.append(letters)
        self.follow.append(0)
        bit = 1 << (len(self.letters) - 1)
        return False, bit, bit

    def _marker(self, *, start: bool) -> tuple[bool, int, int]:
        """An anchor: a position that no letter can take."""
        nullable, bit, _ = self._position(np.zeros(len(self.alphabet), bool))
        if start:
            self.starts |= bit
        else:
            self.ends |= bit
        return nullable, bit, bit

    def _link(self, sources: int, targets: int) -> None:
        for position in bits(sources):
            self.follow[position] |= targets

    def _letter_set(self, op: Any, arg: Any) -> np.ndarray:
        chosen = np.zeros(len(self.alphabet), bool)
        if op is sre.ANY:
            return ~chosen
        if op in (sre.LITERAL, sre.NOT_LITERAL):
            chosen[self._letter(arg)] = True
            return chosen if op is sre.LITERAL else ~chosen
        negate = False
        for kind, value in arg:
            if kind is sre.NEGATE:
                negate = True
            elif kind is sre.LITERAL:
                chosen[self._letter(value)] = True
            elif kind is sre.RANGE:
                chosen |= np.array([value[0] <= ord(letter) <= value[1] for letter in self.alphabet.letters])
            else:
                raise self._refuse("a character category such as \\w")
        return ~chosen if negate else chosen

    def _letter(self, code: int) -> int:
        letter = chr(code)
        if letter not in self.alphabet.letters:
            raise InputError(
                f"regex {self.pattern!r}: {letter!r} is not one of the {self.alphabet.name} letters "
                f"{self.alphabet.letters}"
            )
        return self.alphabet.letters.index(letter)

    def _refuse(self, construct: str) -> InputError:
        return InputError(f"regex {self.pattern!r}: {construct} is not supported")


_STARTS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
_ENDS = (sre.AT_END, sre.AT_END_STRING)


def bits(value: int) -> list[int]:
    """Places of the set bits of ``value``, ascending."""
    places = []
    while value:
        low = value & -value
        places.append(low.bit_length() - 1)
        value ^= low
    return places


def _union(sets: tuple[int, ...]) -> int:
    union = 0
    for member in sets:
        union |= member
    return union
