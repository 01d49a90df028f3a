"""From parts to readers: automata over the *variables* of a design, in the order in which they are read.

A variable is a letter to choose. Without ties each position is one; tied positions share one, and positions that are
read flipped show its complement. The order matters to scans, which need the letters of their region from left to right,
and not to sums; with nothing but sums and pairs, variables are put in depth-first order of the graph of pairs, so that
a forest of pairs needs to remember few letters at a time: message passing on a tree, by an automaton.

Each reader has a *mode* per step (what its automaton does with the letter; -1: nothing) and a step after which it must
accept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import networkx as nx
import numpy as np

from seqdiff.constraints.automaton import DEAD, Interned
from seqdiff.constraints.parts import Automaton, Pairs, Scan, Sum, Tie
from seqdiff.core.layout import Layout

IDLE = -1
EXPLORED = 64


class Stepper(Protocol):
    """An automaton whose rows depend on the step's mode."""

    start: int

    def row(self, state: int, mode: int) -> np.ndarray:
        """Next state for every symbol, int [V * choices]; -1 where refused."""
        ...

    def accepts(self, state: int, length: int) -> bool:
        """Whether a design of ``length`` letters may end here."""
        ...


class Reader(NamedTuple):
    """A part of one constraint, ready for the product.

    Attributes:
        stepper: what reads.
        modes: int [steps]; -1 where it does not read.
        last: number of steps after which it must accept.
        choices: symbols per letter.
        route: for ``explain``.
    """

    stepper: Stepper
    modes: np.ndarray
    last: int
    choices: int = 1
    route: str = "automaton"


@dataclass(frozen=True)
class Variables:
    """Letters to choose, and which of them stands at each position.

    Attributes:
        owner: int32 [max_length], the step at which a position's letter is read.
        flipped: bool [max_length], whether the complement stands there.
        weight: float32 [max_length], weight of a position's log-probabilities when members are pooled.
        complement: int32 [V], of each letter; the identity without one.
        reordered: whether steps differ from positions.
    """

    owner: np.ndarray
    flipped: np.ndarray
    weight: np.ndarray
    complement: np.ndarray
    reordered: bool

    @property
    def steps(self) -> int:
        """Number of variables."""
        return int(self.owner.max()) + 1

    def letters(self, position: int) -> np.ndarray:
        """The letter at a position for every letter of its variable, int [V]."""
        return self.complement if self.flipped[position] else np.arange(len(self.complement))

    def allowed(self, allowed: np.ndarray) -> np.ndarray:
        """Letters that every member of a variable allows, bool [steps, V]."""
        joint = np.ones((self.steps, allowed.shape[1]), bool)
        for position, step in enumerate(self.owner):
            joint[step] &= allowed[position, self.letters(position)]
        return joint


def make_variables(layout: Layout, ties: Sequence[Tie], pairs: Sequence[Pairs], *, keep_order: bool) -> Variables:
    """Share letters among tied positions and choose the order of reading.

    A group that would need a letter to be its own complement stays one variable; the letters that cannot are refused by
    :func:`self_complementary`.
    """
    size = layout.max_length
    complement = layout.alphabet.complement_ids()
    graph = nx.Graph()
    graph.add_nodes_from(range(size))
    weight = np.ones(size, np.float32)
    averaged: set[int] = set()
    weighted: dict[int, float] = {}
    for tie in ties:
        weighted |= {p: w for group in tie.groups for (p, _), w in zip(group, tie.weights, strict=False)}
        for (first, flip), *others in tie.groups:
            graph.add_edges_from((first, other, {"flip": flip != other_flip}) for other, other_flip in others)
            if tie.mean:
                averaged.add(first)
    root, flipped = np.arange(size), np.zeros(size, bool)
    for component in nx.connected_components(graph):
        first = min(component)
        if component & averaged:
            weight[list(component)] = 1.0 / len(component)
        for position in component & weighted.keys():
            weight[position] = weighted[position]
        for before, after in nx.bfs_edges(graph, first):
            root[after], flipped[after] = first, flipped[before] ^ graph.edges[before, after]["flip"]
    firsts = sorted(set(root.tolist()))
    order = firsts if keep_order or not pairs else _forest_order(firsts, root, pairs)
    step = {position: i for i, position in enumerate(order)}
    owner = np.array([step[r] for r in root.tolist()], np.int32)
    return Variables(owner, flipped, weight, complement, not np.array_equal(owner, np.arange(size)))


def self_complementary(variables: Variables, ties: Sequence[Tie]) -> np.ndarray:
    """Letters that the members of each variable can agree on, bool [max_length, V]; only cycles of flips refuse any."""
    letters = np.ones((len(variables.owner), len(variables.complement)), bool)
    own = variables.complement == np.arange(len(variables.complement))
    for tie in ties:
        for (first, flip), *others in tie.groups:
            for other, other_flip in others:
                if (flip != other_flip) != bool(variables.flipped[first] ^ variables.flipped[other]):
                    letters[first] &= own
    return letters


def _forest_order(firsts: list[int], root: np.ndarray, pairs: Sequence[Pairs]) -> list[int]:
    """Depth-first, from an end of each tree and into small subtrees first, so that few letters are remembered."""
    graph = nx.Graph()
    graph.add_nodes_from(firsts)
    graph.add_edges_from((int(root[i]), int(root[j])) for part in pairs for i, j in part.positions)
    order: list[int] = []
    for component in nx.connected_components(graph):
        far = list(nx.bfs_tree(graph, min(component)))[-1]
        tree = nx.bfs_tree(graph, far)
        size: dict[int, int] = {}
        for node in reversed(list(tree)):
            size[node] = 1 + sum(size[child] for child in tree.successors(node))
        waiting = [far]
        while waiting:
            node = waiting.pop()
            order.append(node)
            waiting += sorted(tree.successors(node), key=lambda child: -size[child])
    return order


def read_scan(scan: Scan, variables: Variables, layout: Layout) -> Reader | None:
    """A scan over the variables; None where its region meets a letter again that it has read before.

    A region that is one stretch of variables several times over is read once, by what one stretch does to every state.
    """
    first = scan.region.first - 1
    last = layout.max_length if scan.region.last is None else min(scan.region.last, layout.max_length)
    modes = np.full(variables.steps, IDLE)
    if not variables.reordered:
        modes[first:last] = 0
        return Reader(_Still(scan.automaton, None), modes, last, scan.choices, scan.route)
    steps, flips = variables.owner[first:last], variables.flipped[first:last]
    if len(steps) and np.all(np.diff(steps) > 0):
        modes[steps] = flips
        return Reader(_Still(scan.automaton, variables.complement), modes, int(steps[-1]) + 1, scan.choices, scan.route)
    period = int(np.argmax(np.append(steps[1:] == steps[0], True))) + 1
    copies = len(steps) // period
    whole = period * copies == len(steps) and np.array_equal(steps, np.tile(steps[:period], copies))
    if not whole or scan.choices > 1 or flips.any() or not np.all(np.diff(steps[:period]) > 0):
        return None
    powers = _Powers.explore(scan.automaton, copies)
    if powers is None:
        return None
    modes[steps[:period]] = 0
    return Reader(powers, modes, int(steps[period - 1]) + 1, 1, f"{scan.route} x {copies} copies")


def read_sum(part: Sum, variables: Variables, layout: Layout) -> Reader:
    """A counter over the variables; a variable adds the weights of all its members."""
    weights = np.zeros((variables.steps, part.weights.shape[1]), np.int64)
    for position, step in enumerate(variables.owner):
        weights[step] += part.weights[position, variables.letters(position)]
    distinct, modes = np.unique(weights, axis=0, return_inverse=True)
    modes = np.where(weights.any(axis=1), modes.reshape(-1), IDLE)
    fixed = layout.min_length == layout.max_length
    reading = np.flatnonzero(modes >= 0)
    end = layout.max_length if part.region.last is None else min(part.region.last, layout.max_length)
    last = (int(reading[-1]) + 1 if len(reading) else 0) if fixed else end
    return Reader(_Counter(distinct, part, weights, layout), modes, last)


def read_pairs(part: Pairs, variables: Variables) -> Reader:
    """A memory of the first letter of every pair until its second is read, and a tally of the pairs that hold."""
    stepper = _Memory(part, variables)
    modes = np.full(variables.steps, IDLE)
    modes[stepper.events] = stepper.events
    route = "forest" if variables.reordered else "automaton"
    return Reader(stepper, modes, max(stepper.events) + 1, 1, route)


class _Still:
    """An automaton that does the same at every step; mode 1 reads the complement."""

    def __init__(self, automaton: Automaton, complement: np.ndarray | None):
        self._automaton, self.complement, self.start = automaton, complement, automaton.start

    def row(self, state: int, mode: int) -> np.ndarray:
        row = self._automaton.row(state)
        if mode == 0 or self.complement is None:
            return row
        return row.reshape(len(self.complement), -1)[self.complement].reshape(-1)

    def accepts(self, state: int, length: int) -> bool:
        return self._automaton.accepts(state)


class _Powers(Interned[bytes]):
    """What a stretch does to every state of an automaton, so that several copies of the stretch are read at once.

    A state is a map from states to states (an element of the transition monoid), kept as the bytes of an int32 array.
    """

    def __init__(self, table: np.ndarray, accepts: np.ndarray, start: int, copies: int):
        self._table, self._accepts, self._from, self._copies = table, accepts, start, copies
        super().__init__(np.arange(len(table) - 1, dtype=np.int32).tobytes())

    @classmethod
    def explore(cls, automaton: Automaton, copies: int) -> "_Powers | None":
        """The monoid of an automaton of at most ``EXPLORED`` states; None of a larger one."""
        seen, rows = [automaton.start], []
        place = {automaton.start: 0}
        while len(rows) < len(seen):
            row = automaton.row(seen[len(rows)])
            for state in row.tolist():
                if state != DEAD and state not in place:
                    place[state] = len(seen)
                    seen.append(state)
            if len(seen) > EXPLORED:
                return None
            rows.append([place.get(state, DEAD) for state in row.tolist()])
        table = np.array([*rows, [DEAD] * len(rows[0])], np.int32)
        return cls(table, np.array([automaton.accepts(state) for state in seen]), 0, copies)

    def row(self, state: int, mode: int) -> np.ndarray:
        now = np.frombuffer(self[state], np.int32)
        after = np.ascontiguousarray(self._table[now].T)
        alive = after[:, self._from] >= 0
        return np.array(
            [self.number(column.tobytes()) if good else DEAD for column, good in zip(after, alive, strict=True)]
        )

    def accepts(self, state: int, length: int) -> bool:
        moves, place = np.frombuffer(self[state], np.int32), self._from
        for _ in range(self._copies):
            place = int(moves[place])
            if place == DEAD:
                return False
        return bool(self._accepts[place])


class _Counter:
    """A running sum. With a lower bound only and no negative weights it stops at the bound."""

    def __init__(self, rows: np.ndarray, part: Sum, weights: np.ndarray, layout: Layout):
        self._rows, self._part = rows, part
        self._length = layout.max_length if layout.min_length == layout.max_length else None
        self._least = int(np.minimum(weights.min(axis=1), 0).sum())
        self.start = -self._least
        limits = [part.limits(part.positions(n)) for n in range(layout.min_length, layout.max_length + 1)]
        rising = bool(np.all(weights >= 0)) and all(high is None for _, high in limits)
        self._cap = max(low or 0 for low, _ in limits) if rising else None

    def row(self, state: int, mode: int) -> np.ndarray:
        after = state + self._rows[mode]
        return after if self._cap is None else np.minimum(after, self._cap)

    def accepts(self, state: int, length: int) -> bool:
        low, high = self._part.limits(self._part.positions(self._length or length))
        total = state + self._least
        return (low is None or total >= low) and (high is None or total <= high)


class _Memory(Interned[tuple[tuple[int, ...], int]]):
    """State: the class of the first letter of every open pair (-1: not open), and how many pairs have held."""

    def __init__(self, part: Pairs, variables: Variables):
        super().__init__(((IDLE,) * len(part.positions), 0))
        self._low = part.low
        self._high = len(part.positions) if part.high is None else part.high
        self._tables, self._opens, self._closes, self._classes = [], {}, {}, []
        for k, (i, j) in enumerate(part.positions):
            steps = int(variables.owner[i]), int(variables.owner[j])
            table = part.table[variables.letters(i)][:, variables.letters(j)]
            first, second = steps
            if first > second:
                first, second, table = second, first, table.T
            elif first == second:
                table = np.tile(np.diag(table), (len(table), 1))
            distinct, classes = np.unique(table, axis=0, return_inverse=True)
            self._tables.append(distinct)
            self._classes.append(classes.reshape(-1))
            self._opens.setdefault(first, []).append(k)
            self._closes.setdefault(second, []).append(k)
        self.events = sorted({*self._opens, *self._closes})
        self._left = {step: sum(len(self._closes.get(s, ())) for s in self.events if s > step) for step in self.events}

    def row(self, state: int, mode: int) -> np.ndarray:
        memory, tally = self[state]
        return np.array([self._after(list(memory), tally, mode, v) for v in range(self._tables[0].shape[1])])

    def _after(self, memory: list[int], tally: int, step: int, letter: int) -> int:
        for k in self._opens.get(step, ()):
            memory[k] = int(self._classes[k][letter])
        for k in self._closes.get(step, ()):
            tally += bool(self._tables[k][memory[k], letter])
            memory[k] = IDLE
        possible = tally <= self._high and tally + self._left[step] >= self._low
        return self.number((tuple(memory), tally)) if possible else DEAD

    def accepts(self, state: int, length: int) -> bool:
        return self._low <= self[state][1] <= self._high
