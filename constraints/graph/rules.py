"""Rules that graphs are built under: whether one pair may get, or lose, its edge.

A class that is closed under deletion is kept by asking before an edge is added; one that is closed under insertion by
asking before a pair is given up. A deletion-closed class is *bridge-addable* if an edge between two components never
leaves it. A class of that kind together with connectivity is completable exactly when the present edges are in the
class and present plus open edges are connected: joining components, which every completion must do, cannot hurt it.

Local rules answer on the device from the pair's surroundings; a whole rule asks the host about the graph as a whole.
"""

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from seqdiff.constraints.graph.bits import ball, bit, inside, members, pack, reach, size, union, unpack

_CHECKS: "weakref.WeakValueDictionary[int, HostCheck]" = weakref.WeakValueDictionary()
_HANDLES = itertools.count()
CACHE = 1 << 16


class Rule:
    """What all rules say of their class.

    Attributes:
        closed: ``down`` under deletion, ``up`` under insertion, ``""`` neither.
        bridges: whether a deletion-closed class is bridge-addable.
    """

    closed: ClassVar[str] = "down"
    bridges: bool = True


class LocalRule(Rule):
    """A rule that the device answers."""

    def ok(self, rows: UInt32[Array, "n W"], i: Int[Array, ""], j: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether a graph of the class may get the edge ij (``down``) or lose it (``up``)."""
        raise AssertionError


def local(*, data: tuple[str, ...] = (), meta: tuple[str, ...] = ()) -> Callable[[type], type]:
    """Class decorator: a frozen record that is a pytree."""

    def register(cls: type) -> type:
        cls = dataclass(frozen=True, eq=False)(cls)
        jax.tree_util.register_dataclass(cls, data_fields=list(data), meta_fields=list(meta))
        return cls

    return register


@local(data=("most",))
class MaxDegree(LocalRule):
    """No more than ``most`` neighbours, int32 [n]; of arcs, those that leave (``out``) count for rows."""

    bridges = False
    most: Array

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return (size(rows[i]) < self.most[i]) & (size(rows[j]) < self.most[j])


@local(data=("least",))
class MinDegree(LocalRule):
    """No fewer than ``least`` neighbours, int32 [n]."""

    closed = "up"
    least: Array

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return (size(rows[i]) > self.least[i]) & (size(rows[j]) > self.least[j])


@local()
class Acyclic(LocalRule):
    """No cycle."""

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return ~inside(reach(rows, i), j)


@local()
class AcyclicArcs(LocalRule):
    """No directed cycle."""

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return ~inside(reach(rows, j), i)


@local()
class Bipartite(LocalRule):
    """No odd cycle."""

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        nodes = rows.shape[0]

        def grow(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            even, odd, _ = state
            odd2 = odd | union(rows, members(even, nodes))
            even2 = even | union(rows, members(odd2, nodes))
            return even2, odd2, jnp.any(even2 != even) | jnp.any(odd2 != odd)

        start = bit(i, rows.shape[1])
        state = (start, jnp.zeros_like(start), jnp.bool_(True))
        even, _, _ = jax.lax.while_loop(lambda state: state[2], grow, state)
        return ~inside(even, j)


@local(meta=("girth",))
class Girth(LocalRule):
    """No cycle shorter than ``girth``."""

    girth: int

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return ~inside(ball(rows, i, self.girth - 2), j)


@local()
class NoSquare(LocalRule):
    """No cycle of length four: no path of length three between the ends of a new edge."""

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        second = union(rows, members(rows[i], rows.shape[0])) & ~bit(i, rows.shape[1])
        return ~jnp.any((second & rows[j]) > 0)


@local(meta=("clique",))
class NoClique(LocalRule):
    """No complete subgraph on ``clique`` nodes, 3 to 5: none on two fewer among the common neighbours."""

    clique: int

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        common = rows[i] & rows[j]
        if self.clique == 3:
            return ~jnp.any(common > 0)
        nodes = rows.shape[0]
        chosen = members(common, nodes)
        among = jnp.where(chosen[:, None], rows & common[None, :], jnp.uint32(0))
        if self.clique == 4:
            return ~jnp.any(among > 0)
        triangles = jnp.any((among[:, None, :] & among[None, :, :]) > 0, axis=2)
        return ~jnp.any(triangles & _matrix(among, nodes))


def _matrix(rows: Array, nodes: int) -> Array:
    return jax.vmap(lambda row: members(row, nodes))(rows)


@local()
class Connected(LocalRule):
    """One component; of arcs, whatever their direction."""

    closed = "up"

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        return inside(reach(_without(rows, i, j), i), j)


@local()
class WeaklyConnected(LocalRule):
    """One component of a directed graph, whatever the directions."""

    closed = "up"

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        rest = rows.at[i].set(rows[i] & ~bit(j, rows.shape[1]))
        matrix = _matrix(rest, rows.shape[0])
        return inside(reach(pack(matrix | matrix.T), i), j)


@local(meta=("diameter",))
class Diameter(LocalRule):
    """No two nodes farther apart than ``diameter``."""

    closed = "up"
    diameter: int

    def ok(self, rows: Array, i: Array, j: Array) -> Array:
        rest = _without(rows, i, j)
        every = jax.vmap(lambda node: ball(rest, node, self.diameter))(jnp.arange(rows.shape[0]))
        # Nodes beyond a smaller graph of the batch have no pairs; who is there at all is what a node can reach.
        present = reach(rows, i)
        far = jnp.any((present[None, :] & ~every) > 0, axis=1)
        return ~jnp.any(far & members(present, rows.shape[0]))


def _without(rows: Array, i: Array, j: Array) -> Array:
    count = rows.shape[1]
    rows = rows.at[i].set(rows[i] & ~bit(j, count))
    return rows.at[j].set(rows[j] & ~bit(i, count))


class HostCheck:
    """A question to the host about whole graphs, with its answers remembered.

    Attributes:
        handle: names it in a compiled program.
        asked: how often it was put.
    """

    def __init__(self, check: Callable[[np.ndarray], bool], nodes: int):
        self._check, self._nodes = check, nodes
        self._known: dict[bytes, bool] = {}
        self.asked = 0
        self.handle = next(_HANDLES)
        _CHECKS[self.handle] = self

    def __call__(self, rows: np.ndarray, nodes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Answers for graphs [..., n, W] with so many nodes; true where nobody wants to know."""
        answer = np.ones(wanted.shape, bool)
        for at in zip(*np.nonzero(wanted), strict=True):
            key = bytes([int(nodes[at])]) + rows[at].tobytes()
            if key not in self._known:
                if len(self._known) >= CACHE:
                    self._known.clear()
                self.asked += 1
                size = int(nodes[at])
                self._known[key] = bool(self._check(unpack(rows[at], self._nodes)[:size, :size]))
            answer[at] = self._known[key]
        return answer


def _ask(handle: np.ndarray, rows: np.ndarray, nodes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    handle, rows, nodes, wanted = (np.asarray(item) for item in (handle, rows, nodes, wanted))
    return _CHECKS[int(handle.reshape(-1)[0])](rows, nodes, wanted)


class WholeRule(Rule):
    """A rule that the host answers about the whole graph.

    Attributes:
        handle: of the :class:`HostCheck`.
        kind: what the class is closed under.
        bridges: whether it is bridge-addable.
    """

    def __init__(self, handle: Array, kind: str, bridges: bool):
        self.handle, self.kind, self.bridges = handle, kind, bridges
        self.check: HostCheck | None = None

    @property
    def closed(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the class is closed under."""
        return self.kind

    @classmethod
    def make(cls, check: HostCheck, closed: str, *, bridges: bool) -> "WholeRule":
        """The rule of a check, which lives as long as this object does; copies inside a program only name it."""
        rule = cls(jnp.int32(check.handle), closed, bridges)
        rule.check = check
        return rule

    def holds(self, rows: UInt32[Array, "n W"], nodes: Int[Array, ""], wanted: Bool[Array, ""]) -> Bool[Array, ""]:
        """Whether a graph is in the class; true without asking where the answer is not wanted."""
        shape = jax.ShapeDtypeStruct((), jnp.bool_)
        return jax.pure_callback(_ask, shape, self.handle, rows, nodes, wanted, vmap_method="broadcast_all")


jax.tree_util.register_dataclass(WholeRule, data_fields=["handle"], meta_fields=["kind", "bridges"])
