"""Lazy automata over letters: counting matches of a pattern, matching all of a region, and the hidden path of one.

``MatchCounter`` is the subset construction of a pattern's position automaton with a saturating counter; it makes a
state only when asked, because alone a wildcard-heavy motif has tens of thousands of states while together with the
other constraints few of them are ever reached. ``Placement`` is for motifs that stay too big: the state is the place
inside one chosen match, and symbols carry a choice, so that a text has one symbol sequence per placement.
"""

from collections.abc import Hashable
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from seqdiff.constraints.regex import Nfa, bits

DEAD = -1
MAX_WORD, MAX_WORDS = 64, 512
_State = TypeVar("_State", bound=Hashable)


class Interned(Generic[_State]):
    """Numbers states in the order of their discovery."""

    def __init__(self, start: _State):
        self._states: list[_State] = [start]
        self._numbers: dict[_State, int] = {start: 0}
        self.start = 0

    def number(self, state: _State) -> int:
        found = self._numbers.setdefault(state, len(self._states))
        if found == len(self._states):
            self._states.append(state)
        return found

    def __getitem__(self, number: int) -> _State:
        return self._states[number]


class _Subsets:
    """Follow-then-mask steps of a position automaton, by class of letters that no position tells apart."""

    def __init__(self, nfa: Nfa):
        self.nfa = nfa
        columns, self.letter_class = np.unique(nfa.letters, axis=1, return_inverse=True)
        self.letter_class = self.letter_class.reshape(-1)
        self.masks = [sum(1 << int(p) for p in np.flatnonzero(column)) for column in columns.T]

    def follow(self, subset: int) -> int:
        union = 0
        for position in bits(subset):
            union |= self.nfa.follow[position]
        return union


class MatchCounter(Interned[tuple[int, int]]):
    """Accepts texts in which matches end at ``low`` to ``high`` distinct positions.

    A state is (set of open positions, matches so far); ``_START`` marks the start of the text. Counting stops
    at ``low`` when there is no upper bound.
    """

    _START = -1

    def __init__(self, nfa: Nfa, low: int, high: int | None):
        super().__init__((self._START, 0))
        self._subsets, self._low, self._high = _Subsets(nfa), low, high
        self._done = high is None

    def row(self, state: int) -> np.ndarray:
        subset, count = self[state]
        nfa = self._subsets.nfa
        if self._done and count == self._low and not nfa.last_anchored:
            return np.full(len(self._subsets.letter_class), state, np.int32)
        entry = nfa.first
        if subset == self._START:
            entry |= nfa.first_anchored
            subset = 0
        candidates = self._subsets.follow(subset) | entry
        targets = []
        for mask in self._subsets.masks:
            after = candidates & mask
            total = count + bool(after & nfa.last)
            if self._high is not None and total > self._high:
                targets.append(DEAD)
                continue
            if self._done and total >= self._low:
                total = self._low
                after = 0
            targets.append(self.number((after, total)))
        return np.array(targets, np.int32)[self._subsets.letter_class]

    @cached_property
    def forbidden_words(self) -> list[np.ndarray] | None:
        """Letter sets bool [k, V] of words that say the same by their absence; None where no short list does."""
        nfa = self._subsets.nfa
        if self._high != 0 or nfa.first_anchored or nfa.last_anchored:
            return None
        words, waiting = [], [(p,) for p in bits(nfa.first)]
        while waiting:
            path = waiting.pop()
            if nfa.last >> path[-1] & 1:
                words.append(nfa.letters[list(path)])
            elif len(path) < MAX_WORD:
                waiting += [(*path, p) for p in bits(nfa.follow[path[-1]])]
            else:
                return None
            if len(words) + len(waiting) > MAX_WORDS:
                return None
        return words

    def accepts(self, state: int) -> bool:
        subset, count = self[state]
        nfa = self._subsets.nfa
        if subset != self._START and subset & nfa.last_anchored and not subset & nfa.last:
            count += 1
        return count >= self._low and (self._high is None or count <= self._high)


class FullMatch(Interned[int]):
    """Accepts texts that the pattern matches from end to end."""

    _START = -1

    def __init__(self, nfa: Nfa):
        super().__init__(self._START)
        self._subsets = _Subsets(nfa)

    def row(self, state: int) -> np.ndarray:
        nfa, subset = self._subsets.nfa, self[state]
        candidates = nfa.first | nfa.first_anchored if subset == self._START else self._subsets.follow(subset)
        reached = [candidates & mask for mask in self._subsets.masks]
        targets = [self.number(after) if after else DEAD for after in reached]
        return np.array(targets, np.int32)[self._subsets.letter_class]

    def accepts(self, state: int) -> bool:
        nfa, subset = self._subsets.nfa, self[state]
        return nfa.nullable if subset == self._START else bool(subset & (nfa.last | nfa.last_anchored))


class Placement:
    """Accepts (text, placement) pairs: one match of the pattern, chosen by the symbols, somewhere in the text.

    States: 0 before the match, 1 + p at position p inside it, n + 1 after it. A symbol is a letter and a choice
    among the possible next states; choices that do not exist are refused, so each placement is one symbol sequence.
    """

    def __init__(self, nfa: Nfa, *, whole: bool):
        self._nfa, self._whole = nfa, whole
        self._after = len(nfa.follow) + 1
        self._started = self._after + 1
        self.start = self._started
        self._moves = [self._successors(state) for state in range(self._started + 1)]
        self.choices = max(len(options) for moves in self._moves for options in moves)

    def row(self, state: int) -> np.ndarray:
        """Next state by symbol, int32 [V * choices]; symbol ``v * choices + c`` is letter v, choice c."""
        table = np.full((self._nfa.letters.shape[1], self.choices), DEAD, np.int32)
        for letter, options in enumerate(self._moves[state]):
            table[letter, : len(options)] = options
        return table.reshape(-1)

    def accepts(self, state: int) -> bool:
        nfa = self._nfa
        if state == self._started:
            return self._whole and nfa.nullable
        if state == self._after:
            return True
        return state > 0 and bool((nfa.last | nfa.last_anchored) >> (state - 1) & 1)

    def _successors(self, state: int) -> list[list[int]]:
        nfa = self._nfa
        loops, entries = [], 0
        if state == 0 or state == self._started:
            loops = [] if self._whole else [0]
            entries = nfa.first | (nfa.first_anchored if state == self._started else 0)
        elif state == self._after:
            loops = [] if self._whole else [self._after]
        else:
            entries = nfa.follow[state - 1]
            if not self._whole and nfa.last >> (state - 1) & 1:
                loops = [self._after]
        inside = bits(entries)
        return [loops + [p + 1 for p in inside if nfa.letters[p, letter]] for letter in range(nfa.letters.shape[1])]
