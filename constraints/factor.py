"""Layers of an automaton as few *shared rows* and, per state, at most one letter in which it differs from its row.

Automata that remember the last letter (runs, dibasic sites, any motif prefix) have this form, and the device code then
costs O(rows x V + states) per position where the plain table costs O(states x V).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from seqdiff.constraints.compiler import DEAD, unique_rows


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


def factor_layer(table: np.ndarray) -> FactoredLayer:
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
        for members in _clusters(table, left):
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


def _clusters(table: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
    """``members`` grouped so that rows which agree on all even or all odd letters are together."""
    parity = np.arange(table.shape[1]) % 2
    if len(members) == 1 or not parity.any():
        return [members]
    halves = [unique_rows(table[members][:, parity == half])[1] for half in (0, 1)]
    even, odd = halves[0], halves[1] + halves[0].max() + 1
    nodes = int(odd.max()) + 1
    graph = coo_array((np.ones(len(members), np.int8), (even, odd)), shape=(nodes, nodes))
    label = connected_components(graph, directed=False)[1][even]
    order = np.argsort(label, kind="stable")
    return np.split(members[order], np.flatnonzero(np.diff(label[order])) + 1)
