"""Fusing all readers into one layered automaton (host, numpy).

Variables are read in order. A product state is one state of every reader. Layer ``i`` holds the product states that
can be reached after ``i`` letters; steps with equal modes form a phase, in which a state's row of next states is
computed once and shared by all layers. States in which some reader alone cannot end well any more are left out as they
are met. After the last step the layers are walked backwards: states that cannot reach acceptance are dropped and states
with the same future are merged, so each layer is minimal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqdiff.constraints.readers import DEAD, Reader

ALONE = 32768


class DeadEnd(Exception):
    """No text satisfies the parts. ``position`` is where, read in order, the last hope ends (1-based)."""

    def __init__(self, position: int):
        super().__init__(position)
        self.position = position


class OverBudget(Exception):
    """A layer has too many states: at which position, and how many distinct states each reader has there."""

    def __init__(self, position: int, states: list[int]):
        super().__init__(position, states)
        self.position, self.states = position, states


@dataclass(frozen=True)
class Layers:
    """A minimal layered automaton.

    Attributes:
        targets: per step, int32 [states_i, V * choices] of states of the next layer; -1 is dead.
        accept: per layer 0..L, bool [states_i]: whether a design may end here.
        choices: symbols per letter.
        visited: distinct states of each reader that the product reaches.
    """

    targets: list[np.ndarray]
    accept: list[np.ndarray]
    choices: int
    visited: tuple[int, ...]

    def letters(self, step: int) -> np.ndarray:
        """Whether each letter can stand at a 0-based step of some accepted text, bool [V]."""
        return np.any(self.targets[step] >= 0, axis=0).reshape(-1, self.choices).any(axis=1)

    def lengths(self) -> np.ndarray:
        """The lengths of accepted texts, ascending."""
        return np.array([i for i, accept in enumerate(self.accept) if accept.any()])

    @property
    def width(self) -> int:
        """Most states of a layer."""
        return max(len(accept) for accept in self.accept)


def build_layers(
    allowed: np.ndarray, readers: Sequence[Reader], *, min_length: int, budget: int, prune: bool = True
) -> Layers:
    """The minimal layered automaton of allowed letters and readers.

    Args:
        allowed: bool [L, V], letters of each variable; L is the longest design.
        readers: automata over the variables.
        min_length: designs may end after ``min_length`` to L letters.
        budget: largest number of states in a layer before merging.
        prune: leave out states in which some reader by itself cannot end well; without it a dead end is found only
            where it is met.

    Raises:
        DeadEnd: no text satisfies the parts.
        OverBudget: a layer has more states than ``budget``.
    """
    choices = int(np.prod([reader.choices for reader in readers], dtype=int)) if readers else 1
    length = allowed.shape[0]
    legal = np.repeat(allowed, choices, axis=1)
    modes = np.array([reader.modes for reader in readers], int).reshape(len(readers), length)
    lasts = np.array([reader.last for reader in readers], int)
    product = _Product(readers, choices, allowed, min_length if prune else None)
    ids = np.zeros(1, np.int64)
    targets: list[np.ndarray] = []
    accept: list[np.ndarray] = []
    for i in range(length + 1):
        if i == 0 or np.any(lasts == i) or (i < length and np.any(modes[:, i] != modes[:, i - 1])):
            moved = product.enter_phase(ids, lasts == i, modes[:, i] if i < length else None, i)
            ids, targets = _remap(moved, targets)
        ids, targets = _remap(np.where(product.hopeful(ids, i), ids, DEAD), targets, ids)
        if not len(ids) and not any(good.any() for good in accept):
            raise DeadEnd(i)
        if len(ids) > budget:
            raise OverBudget(i, product.states_of(ids))
        if i == length:
            accept.append(product.accepts(ids, lasts > i, i))
            break
        accept.append(product.accepts(ids, lasts > i, i) if i >= min_length else np.zeros(len(ids), bool))
        rows = np.where(legal[i], product.rows(ids), DEAD)
        following = np.unique(rows[rows >= 0])
        targets.append(_local(rows, following))
        ids = following
    if not any(good.any() for good in accept):
        raise DeadEnd(length)
    return Layers(*_merge(targets, accept), choices, product.visited())


def _local(rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return np.where(rows >= 0, np.searchsorted(ids, rows), DEAD).astype(np.int32)


def _remap(
    moved: np.ndarray, targets: list[np.ndarray], old: np.ndarray | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The newest layer with its states replaced by ``moved`` (-1: refused), and the arrows into it."""
    if old is not None and np.array_equal(moved, old):
        return old, targets
    kept = np.unique(moved[moved >= 0])
    if targets:
        via = np.append(_local(moved, kept), DEAD)
        targets = [*targets[:-1], via[targets[-1]].astype(np.int32)]
    return kept, targets


class _Product:
    """Product states as rows of int32, numbered within a phase, with their transitions computed once."""

    def __init__(self, readers: Sequence[Reader], choices: int, allowed: np.ndarray, min_length: int | None):
        self._readers, self._choices, self._vocab = readers, choices, allowed.shape[1]
        self._tables = [_Table(reader, choices, self._vocab, i, readers) for i, reader in enumerate(readers)]
        self._alive = [None if min_length is None else _alive(reader, allowed, min_length) for reader in readers]
        self._rows = np.array([[reader.stepper.start for reader in readers]], np.int32).reshape(1, len(readers))
        self._modes = np.full(len(readers), -1)

    def enter_phase(self, ids: np.ndarray, closing: np.ndarray, modes: np.ndarray | None, length: int) -> np.ndarray:
        """Number the states anew and forget transitions, after the readers that end here were asked to accept.

        Args:
            ids: states before.
            closing: readers that end here; those that accept are put back to their start.
            modes: of the coming steps; None at the end.
            length: letters read.

        Returns:
            The new number of each state; -1 where a reader refuses.
        """
        rows, good = self._rows[ids], np.ones(len(ids), bool)
        for k in np.flatnonzero(closing):
            good &= self._tables[k].accepts(rows[:, k], length)
            rows[:, k] = self._readers[k].stepper.start
        if modes is not None:
            self._modes = modes
        self._rows = self._rows[:0]
        self._number: dict[bytes, int] = {}
        self._next = np.zeros((0, self._vocab * self._choices), np.int64)
        self._known = np.zeros(0, bool)
        moved = np.full(len(ids), DEAD, np.int64)
        moved[good] = self._intern(rows[good])
        return moved

    def hopeful(self, ids: np.ndarray, step: int) -> np.ndarray:
        """States in which every reader that could be explored alone may still end well, bool [len(ids)]."""
        good = np.ones(len(ids), bool)
        for k, alive in enumerate(self._alive):
            if alive is not None and step < self._readers[k].last:
                known = alive[min(step, len(alive) - 1)]
                good &= known[np.minimum(self._rows[ids, k], len(known) - 1)]
        return good

    def accepts(self, ids: np.ndarray, open: np.ndarray, length: int) -> np.ndarray:
        """Whether a design may end in each state: every reader that has not been closed accepts."""
        good = np.ones(len(ids), bool)
        for k in np.flatnonzero(open):
            good &= self._tables[k].accepts(self._rows[ids, k], length)
        return good

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Next state of each state by symbol, int64 [len(ids), V * choices]."""
        fresh = ids[~self._known[ids]]
        if len(fresh):
            now = self._rows[fresh]
            symbols = self._vocab * self._choices
            after = np.repeat(now[:, None, :], symbols, axis=1)
            dead = np.zeros((len(fresh), symbols), bool)
            for k in np.flatnonzero(self._modes >= 0):
                after[:, :, k] = self._tables[k].rows(now[:, k], self._modes[k])
                dead |= after[:, :, k] < 0
            if self._choices > 1:
                dead |= self._idle_choices()
            numbers = np.full(dead.shape, DEAD, np.int64)
            numbers[~dead] = self._intern(after[~dead])
            self._next[fresh] = numbers
            self._known[fresh] = True
        return self._next[ids]

    def states_of(self, ids: np.ndarray) -> list[int]:
        """Number of distinct states of each reader among some product states."""
        return [len(np.unique(self._rows[ids, k])) for k in range(len(self._readers))]

    def visited(self) -> tuple[int, ...]:
        """Number of distinct states that each reader was asked about."""
        return tuple(table.visited for table in self._tables)

    def _idle_choices(self) -> np.ndarray:
        """Symbols with a choice other than 0 for a reader that is not reading."""
        digits = _choice_digits(self._readers, self._choices)
        idle = [k for k, reader in enumerate(self._readers) if reader.choices > 1 and self._modes[k] < 0]
        refused = np.any(digits[idle] > 0, axis=0) if idle else np.zeros(self._choices, bool)
        return np.tile(refused, self._vocab)[None, :]

    def _intern(self, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.zeros(0, np.int64)
        distinct, inverse = unique_rows(rows) if rows.shape[1] else (rows[:1], np.zeros(len(rows), np.int64))
        numbers = np.empty(len(distinct), np.int64)
        new = []
        for j, row in enumerate(distinct):
            numbers[j] = self._number.setdefault(row.tobytes(), len(self._number))
            if numbers[j] == len(self._rows) + len(new):
                new.append(j)
        if new:
            self._rows = np.concatenate([self._rows, distinct[new]])
            extra = np.full((len(new), self._next.shape[1]), DEAD, np.int64)
            self._next = np.concatenate([self._next, extra])
            self._known = np.concatenate([self._known, np.zeros(len(new), bool)])
        return numbers[inverse]


def _alive(reader: Reader, allowed: np.ndarray, min_length: int) -> list[np.ndarray] | None:
    """States of a reader by itself from which it can still end well, per layer up to its last: bool arrays by state.

    The last entry of each array is False, for states that were not met. None where more than ``ALONE`` states are met.
    """
    stepper, length = reader.stepper, allowed.shape[0]
    table = _Table(reader, reader.choices, allowed.shape[1], 0, (reader,))
    legal = np.repeat(allowed, reader.choices, axis=1)
    layers, rows = [np.array([stepper.start])], []
    for i in range(reader.last):
        mode = int(reader.modes[i])
        here = np.repeat(layers[-1][:, None], legal.shape[1], axis=1) if mode < 0 else table.rows(layers[-1], mode)
        rows.append(np.where(legal[i], here, DEAD))
        layers.append(np.unique(rows[-1][rows[-1] >= 0]))
        if table.visited > ALONE or len(layers[-1]) > ALONE:
            return None
    size = 2 + max((int(layer.max()) for layer in layers if len(layer)), default=0)
    ends = [i >= min_length or i == length or i == reader.last for i in range(reader.last + 1)]
    alive: list[np.ndarray] = []
    for i in range(reader.last, -1, -1):
        good = np.zeros(size, bool)
        if ends[i]:
            good[layers[i]] = table.accepts(layers[i], i)
        if i < reader.last:
            good[layers[i]] |= np.any((rows[i] >= 0) & alive[-1][rows[i]], axis=1)
        alive.append(good)
    return alive[::-1]


def _choice_digits(readers: Sequence[Reader], choices: int) -> np.ndarray:
    """Each reader's own choice for every joint choice, int [readers, choices] (mixed radix)."""
    digits, stride = [], choices
    for reader in readers:
        stride //= reader.choices
        digits.append(np.arange(choices) // stride % reader.choices)
    return np.array(digits)


class _Table:
    """Rows of one reader's automaton in joint symbols, filled on demand."""

    def __init__(self, reader: Reader, choices: int, vocab: int, index: int, readers: Sequence[Reader]):
        self._stepper = reader.stepper
        digit = _choice_digits(readers, choices)[index]
        self._columns = (np.arange(vocab)[:, None] * reader.choices + digit[None, :]).reshape(-1)
        self._rows: dict[tuple[int, int], np.ndarray] = {}
        self._accepts: dict[tuple[int, int], bool] = {}
        self._states: set[int] = set()

    @property
    def visited(self) -> int:
        """Number of distinct states that were looked at."""
        return len(self._states)

    def rows(self, states: np.ndarray, mode: int) -> np.ndarray:
        distinct, inverse = np.unique(states, return_inverse=True)
        known = distinct.tolist()
        self._states.update(known)
        for state in known:
            if (state, mode) not in self._rows:
                self._rows[state, mode] = self._stepper.row(state, mode)[self._columns]
        return np.array([self._rows[state, mode] for state in known], np.int64).reshape(-1, len(self._columns))[inverse]

    def accepts(self, states: np.ndarray, length: int) -> np.ndarray:
        distinct, inverse = np.unique(states, return_inverse=True)
        known = distinct.tolist()
        self._states.update(known)
        for state in known:
            if (state, length) not in self._accepts:
                self._accepts[state, length] = self._stepper.accepts(state, length)
        return np.array([self._accepts[state, length] for state in known], bool)[inverse]


def _merge(targets: list[np.ndarray], accept: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Drop states without a future and merge states with the same one, from the last layer to the first."""
    length = len(targets)
    group = np.where(accept[length], 0, DEAD).astype(np.int32)
    new_targets: list[np.ndarray] = []
    new_accept = [np.ones(int(np.any(group >= 0)), bool)]
    for i in range(length - 1, -1, -1):
        rows = np.append(group, DEAD)[targets[i]].astype(np.int32)
        signature = np.concatenate([accept[i][:, None].astype(np.int32), rows], axis=1)
        alive = np.any(rows >= 0, axis=1) | accept[i]
        distinct, inverse = unique_rows(signature[alive])
        group = np.full(len(rows), DEAD, np.int32)
        group[alive] = inverse
        new_targets.append(distinct[:, 1:])
        new_accept.append(distinct[:, 0] > 0)
    return new_targets[::-1], new_accept[::-1]


def unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows and, for each row, which of them it is."""
    if not len(rows):
        return rows, np.zeros(0, np.int32)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, where, inverse = np.unique(view, return_index=True, return_inverse=True)
    return rows[where], inverse.reshape(-1).astype(np.int32)
