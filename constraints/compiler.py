"""Fusing all parts of all constraints into one layered automaton (host, numpy).

The canvas is read from left to right. A product state is one state of every scan. Layer ``i`` holds the product
states that can be reached after ``i`` letters; positions between two region borders form a phase, in which a state's
row of next states is computed once and shared by all layers. After the last position the layers are walked backwards:
states that cannot reach acceptance are dropped and states with the same future are merged, so each layer is minimal.

``factor_layers`` then writes each layer as few *shared rows* and, per state, at most one letter in which it differs
from its row. Automata that remember the last letter (runs, dibasic sites, any motif prefix) have this form, and the
device code then costs O(rows x V + states) per position where the plain table costs O(states x V).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from seqdiff.constraints.base import Scan

DEAD = -1


class DeadEnd(Exception):
    """No text satisfies the parts. ``position`` is where, read from the left, the last hope ends (1-based)."""

    def __init__(self, position: int):
        super().__init__(position)
        self.position = position


class OverBudget(Exception):
    """A layer has too many states: at which position, and how many distinct states each scan has there."""

    def __init__(self, position: int, states: list[int]):
        super().__init__(position, states)
        self.position, self.states = position, states


@dataclass(frozen=True)
class Layers:
    """A minimal layered automaton.

    Attributes:
        targets: per position, int32 [states_i, V * choices] of states of the next layer; -1 is dead.
        accept: per layer 0..L, bool [states_i]: whether a design may end here.
        choices: symbols per letter.
        visited: distinct states of each scan's automaton that the product reaches.
    """

    targets: list[np.ndarray]
    accept: list[np.ndarray]
    choices: int
    visited: tuple[int, ...]

    def letters(self, position: int) -> np.ndarray:
        """Whether each letter can stand at a 0-based position of some accepted text, bool [V]."""
        return np.any(self.targets[position] >= 0, axis=0).reshape(-1, self.choices).any(axis=1)

    def lengths(self) -> np.ndarray:
        """The lengths of accepted texts, ascending."""
        return np.array([i for i, accept in enumerate(self.accept) if accept.any()])


def build_layers(allowed: np.ndarray, scans: tuple[Scan, ...], *, min_length: int, budget: int) -> Layers:
    """The minimal layered automaton of allowed letters and scans.

    Args:
        allowed: bool [L, V], letters that may stand at each position; L is the longest design.
        scans: automata over regions.
        min_length: designs may end after ``min_length`` to L letters.
        budget: largest number of states in a layer before merging.

    Raises:
        DeadEnd: no text satisfies the parts.
        OverBudget: a layer has more states than ``budget``.
    """
    choices = int(np.prod([scan.choices for scan in scans], dtype=int)) if scans else 1
    length = allowed.shape[0]
    legal = np.repeat(allowed, choices, axis=1)
    firsts = [scan.region.first - 1 for scan in scans]
    lasts = [length if scan.region.last is None else min(scan.region.last, length) for scan in scans]
    borders = {0, *firsts, *lasts}
    product = _Product(scans, choices, allowed.shape[1])
    ids = np.zeros(1, np.int64)
    targets: list[np.ndarray] = []
    accept: list[np.ndarray] = []
    for i in range(length):
        if i in borders:
            product.enter_phase([first <= i < last for first, last in zip(firsts, lasts, strict=True)])
            ids, targets = _remap(product.close([last == i for last in lasts], ids), targets)
        _check(ids, i, budget, product)
        accept.append(product.accepts(ids, [last > i for last in lasts]) & (i >= min_length))
        rows = np.where(legal[i], product.rows(ids), DEAD)
        following = np.unique(rows[rows >= 0])
        targets.append(_local(rows, following))
        ids = following
    ids, targets = _remap(product.close([last == length for last in lasts], ids), targets)
    _check(ids, length, budget, product)
    accept.append(np.ones(len(ids), bool))
    return Layers(*_merge(targets, accept), choices, product.visited())


def _local(rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return np.where(rows >= 0, np.searchsorted(ids, rows), DEAD).astype(np.int32)


def _remap(moved: np.ndarray, targets: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The newest layer with its states replaced by ``moved`` (-1: refused), and the arrows into it."""
    kept = np.unique(moved[moved >= 0])
    if targets:
        via = np.append(_local(moved, kept), DEAD)
        targets = [*targets[:-1], via[targets[-1]].astype(np.int32)]
    return kept, targets


def _check(ids: np.ndarray, position: int, budget: int, product: "_Product") -> None:
    if not len(ids):
        raise DeadEnd(position)
    if len(ids) > budget:
        raise OverBudget(position, product.states_of(ids))


class _Product:
    """Product states as rows of int32, numbered within a phase, with their transitions computed once."""

    def __init__(self, scans: tuple[Scan, ...], choices: int, vocab: int):
        self._scans, self._choices, self._vocab = scans, choices, vocab
        self._rows = np.array([[scan.automaton.start for scan in scans]], np.int32).reshape(1, len(scans))
        self._tables = [_Table(scan, choices, vocab, i, scans) for i, scan in enumerate(scans)]
        self._active: list[bool] = []
        self._reset()

    def _reset(self) -> None:
        self._number = {row.tobytes(): i for i, row in enumerate(self._rows)}
        self._next = np.full((len(self._rows), self._vocab * self._choices), DEAD, np.int64)
        self._known = np.zeros(len(self._rows), bool)

    def enter_phase(self, active: list[bool]) -> None:
        """Which scans read the coming positions; transitions of the last phase are forgotten."""
        self._active = active
        self._reset()

    def close(self, closing: list[bool], ids: np.ndarray) -> np.ndarray:
        """States after the scans that end here have been asked to accept; -1 where one refuses."""
        if not any(closing):
            return ids
        rows = self._rows[ids].copy()
        good = np.ones(len(rows), bool)
        for k in np.flatnonzero(closing):
            good &= self._tables[k].accepts(rows[:, k])
            rows[:, k] = self._scans[k].automaton.start
        moved = self._intern(rows)
        return np.where(good, moved, DEAD)

    def accepts(self, ids: np.ndarray, open: list[bool]) -> np.ndarray:
        """Whether a design may end in each state: every scan that has not been closed accepts."""
        good = np.ones(len(ids), bool)
        for k in np.flatnonzero(open):
            good &= self._tables[k].accepts(self._rows[ids, k])
        return good

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Next state of each state by symbol, int64 [len(ids), V * choices]."""
        fresh = ids[~self._known[ids]]
        if len(fresh):
            now = self._rows[fresh]
            symbols = self._vocab * self._choices
            after = np.repeat(now[:, None, :], symbols, axis=1)
            dead = np.zeros((len(fresh), symbols), bool)
            for k in np.flatnonzero(self._active):
                after[:, :, k] = self._tables[k].rows(now[:, k])
                dead |= after[:, :, k] < 0
            if self._choices > 1:
                dead |= self._idle_choices()
            numbers = np.full(dead.shape, DEAD, np.int64)
            numbers[~dead] = self._intern(after[~dead])
            self._next[fresh] = numbers
            self._known[fresh] = True
        return self._next[ids]

    def states_of(self, ids: np.ndarray) -> list[int]:
        """Number of distinct states of each scan among some product states."""
        return [len(np.unique(self._rows[ids, k])) for k in range(len(self._scans))]

    def visited(self) -> tuple[int, ...]:
        """Number of distinct states of each scan among all product states."""
        return tuple(self.states_of(np.arange(len(self._rows))))

    def _idle_choices(self) -> np.ndarray:
        """Symbols with a choice other than 0 for a scan that is not reading."""
        digits = _choice_digits(self._scans, self._choices)
        idle = [k for k, scan in enumerate(self._scans) if scan.choices > 1 and not self._active[k]]
        refused = np.any(digits[idle] > 0, axis=0) if idle else np.zeros(self._choices, bool)
        return np.tile(refused, self._vocab)[None, :]

    def _intern(self, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.zeros(0, np.int64)
        rows = np.ascontiguousarray(rows)
        if rows.shape[1] == 0:
            return np.zeros(len(rows), np.int64)
        view = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
        _, where, inverse = np.unique(view, return_index=True, return_inverse=True)
        numbers = np.empty(len(where), np.int64)
        new = []
        for j, place in enumerate(where):
            key = rows[place].tobytes()
            found = self._number.setdefault(key, len(self._number))
            if found == len(self._rows) + len(new):
                new.append(place)
            numbers[j] = found
        if new:
            self._rows = np.concatenate([self._rows, rows[new]])
            extra = np.full((len(new), self._next.shape[1]), DEAD, np.int64)
            self._next = np.concatenate([self._next, extra])
            self._known = np.concatenate([self._known, np.zeros(len(new), bool)])
        return numbers[inverse.reshape(-1)]


def _choice_digits(scans: tuple[Scan, ...], choices: int) -> np.ndarray:
    """Each scan's own choice for every joint choice, int [scans, choices] (mixed radix)."""
    digits, stride = [], choices
    for scan in scans:
        stride //= scan.choices
        digits.append(np.arange(choices) // stride % scan.choices)
    return np.array(digits)


class _Table:
    """Rows of one scan's automaton in joint symbols, filled on demand."""

    def __init__(self, scan: Scan, choices: int, vocab: int, index: int, scans: tuple[Scan, ...]):
        self._automaton = scan.automaton
        digit = _choice_digits(scans, choices)[index]
        self._columns = (np.arange(vocab)[:, None] * scan.choices + digit[None, :]).reshape(-1)
        self._rows: dict[int, np.ndarray] = {}
        self._accepts: dict[int, bool] = {}

    def rows(self, states: np.ndarray) -> np.ndarray:
        distinct, inverse = np.unique(states, return_inverse=True)
        for state in distinct.tolist():
            if state not in self._rows:
                self._rows[state] = self._automaton.row(state)[self._columns]
        return np.stack([self._rows[state] for state in distinct.tolist()])[inverse]

    def accepts(self, states: np.ndarray) -> np.ndarray:
        distinct, inverse = np.unique(states, return_inverse=True)
        for state in distinct.tolist():
            if state not in self._accepts:
                self._accepts[state] = self._automaton.accepts(state)
        return np.array([self._accepts[state] for state in distinct.tolist()], bool)[inverse]


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
        distinct, inverse = _unique_rows(signature[alive])
        group = np.full(len(rows), DEAD, np.int32)
        group[alive] = inverse
        new_targets.append(distinct[:, 1:])
        new_accept.append(distinct[:, 0] > 0)
    return new_targets[::-1], new_accept[::-1]


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows and, for each row, which of them it is."""
    if not len(rows):
        return rows, np.zeros(0, np.int32)
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, where, inverse = np.unique(view, return_index=True, return_inverse=True)
    return rows[where], inverse.reshape(-1).astype(np.int32)


@dataclass(frozen=True)
class FactoredLayer:
    """One position of the automaton as shared rows and single exceptions.

    Attributes:
        rows: int32 [rows, A], next state by symbol; -1 dead.
        base: int32 [states], the row that each state follows.
        symbol: int32 [states], the one symbol in which it differs, or A for none.
        target: int32 [states], where that symbol leads instead; -1 dead.
    """

    rows: np.ndarray
    base: np.ndarray
    symbol: np.ndarray
    target: np.ndarray


def factor_layer(table: np.ndarray, choices: int = 1) -> FactoredLayer:
    """Write the plain table [states, A] as shared rows with at most one exception per state.

    States whose rows agree on all even or on all odd letters are put together (one exception spoils one of the two
    only); a cluster's row is the column-wise median, which is the majority where there is one. States that differ
    from it more than once are put together anew among themselves, until nothing is left.
    """
    states, symbols = table.shape
    rows: list[np.ndarray] = []
    base = np.zeros(states, np.int32)
    symbol = np.full(states, symbols, np.int32)
    target = np.full(states, DEAD, np.int32)
    left = np.arange(states)
    while len(left):
        again: list[np.ndarray] = []
        for members in _clusters(table, left, choices):
            shared = np.sort(table[members], axis=0)[len(members) // 2]
            different = table[members] != shared[None, :]
            count = different.sum(axis=1)
            if not np.any(count <= 1):
                shared, different = table[members[0]], table[members] != table[members[:1]]
                count = different.sum(axis=1)
            base[members[count <= 1]] = len(rows)
            rows.append(shared)
            odd = members[count == 1]
            symbol[odd] = different[count == 1].argmax(axis=1)
            target[odd] = table[odd, symbol[odd]]
            again.append(members[count > 1])
        left = np.concatenate(again)
    return FactoredLayer(np.array(rows, np.int32).reshape(len(rows), symbols), base, symbol, target)


def _clusters(table: np.ndarray, members: np.ndarray, choices: int) -> list[np.ndarray]:
    """``members`` grouped so that rows which agree on all even or all odd letters are together."""
    parity = np.arange(table.shape[1]) // choices % 2
    if len(members) == 1 or not parity.any():
        return [members]
    halves = [_unique_rows(table[members][:, parity == half])[1] for half in (0, 1)]
    even, odd = halves[0], halves[1] + halves[0].max() + 1
    nodes = int(odd.max()) + 1
    graph = coo_array((np.ones(len(members), np.int8), (even, odd)), shape=(nodes, nodes))
    label = connected_components(graph, directed=False)[1][even]
    order = np.argsort(label, kind="stable")
    return np.split(members[order], np.flatnonzero(np.diff(label[order])) + 1)
