"""Which program keeps the constraints on a graph.

* few combinations of letters: all are tried, and the solutions listed (exact);
* acyclic and connected, nothing else but given edges: trees by linear algebra (exact);
* rules that never dead-end: vetted filling (feasible);
* everything else: a witness that moves (feasible).

Arithmetic that rules a set out (an odd degree sum, too many edges for a planar graph) is told at once, with the
reason.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from seqdiff.constraints.base import Constraint
from seqdiff.constraints.enumerated import MOST, combinations, listed, solutions
from seqdiff.constraints.graph import classes
from seqdiff.constraints.graph.base import GraphConstraint, as_graph
from seqdiff.constraints.graph.canvas import Canvas
from seqdiff.constraints.graph.fill import DRAWS, FillProgram
from seqdiff.constraints.graph.first import Cut, First
from seqdiff.constraints.graph.moves import MovesProgram, Windows
from seqdiff.constraints.graph.reasons import edge_windows
from seqdiff.constraints.graph.rules import Acyclic, Connected, HostCheck, Rule, WeaklyConnected, WholeRule
from seqdiff.constraints.graph.trees import TreeProgram
from seqdiff.constraints.parts import Lowered
from seqdiff.constraints.readers import Variables
from seqdiff.constraints.solver import Unsatisfiable
from seqdiff.constraints.tiers import Tier
from seqdiff.core.contracts import Program
from seqdiff.core.errors import InputError
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import Layout


def graph_tier(
    constraints: Sequence[Constraint],
    lowered: Sequence[Lowered],
    layout: Layout,
    variables: Variables,
    allowed: np.ndarray,
) -> Tier:
    """The tier of constraints of which some are rules about graphs.

    Args:
        constraints: all of them.
        lowered: their parts.
        layout: of a graph's canvas.
        variables: letters to choose.
        allowed: bool [positions, V].

    Raises:
        Unsatisfiable: nothing satisfies them.
        BudgetError: no answer in time.
    """
    assert isinstance(layout.alphabet, GraphAlphabet)
    return _Builder(constraints, lowered, layout, layout.alphabet.grid, variables, allowed).build()


class _Builder:
    def __init__(
        self,
        constraints: Sequence[Constraint],
        lowered: Sequence[Lowered],
        layout: Layout,
        grid: Grid,
        variables: Variables,
        allowed: np.ndarray,
    ):
        self.constraints, self.lowered, self.layout, self.grid = constraints, lowered, layout, grid
        self.variables, self.allowed = variables, allowed
        self.joint = variables.allowed(allowed)
        sizes = [grid.length(nodes) for nodes in range(1, grid.nodes + 1)]
        self.lengths = [n for n in sizes if layout.min_length <= n <= layout.max_length]
        self.rules: list[Rule] = [rule for part in lowered for rule in part.rules]
        self.sums = [item for part in lowered for item in part.sums]
        others = [
            constraint
            for constraint, part in zip(constraints, lowered, strict=True)
            if part.scans or part.pairs or part.cuts is not None or part.distinct
        ]
        if others and (len(grid.edge_letters) > 2 or grid.node_letters):
            raise InputError(f"{others[0].describe()}: beside rules about graphs it needs plain edges without labels")
        self.kept: list[Any] = [rule for rule in self.rules if isinstance(rule, WholeRule)]
        for constraint in others:
            check = HostCheck(self._text_check(constraint), grid.nodes)
            self.kept.append(check)
            self.rules.append(WholeRule.make(check, "", bridges=False))
        self.letters = np.array(list(layout.alphabet.letters))
        self.present = np.array([letter in grid.edge_letters[1:] for letter in self.letters])

    def build(self) -> Tier:
        """The first tier that fits."""
        one = len(self.lengths) == 1
        if one and combinations(self.joint) <= MOST:
            return self._enumerated()
        ties = any(part.ties for part in self.lowered)
        kinds = {type(rule) for rule in self.rules}
        if kinds == {Acyclic, Connected} and not self.sums and not ties:
            return self._feasible("spanning tree", lambda canvas: TreeProgram(canvas))
        down = [rule for rule in self.rules if rule.closed == "down"]
        up = [rule for rule in self.rules if rule.closed == "up"]
        joinable = (
            all(rule.bridges for rule in down)
            and all(isinstance(rule, Connected | WeaklyConnected) for rule in up)
            and not ties
        )
        if not self.sums and len(down) + len(up) == len(self.rules) and (not down or not up or joinable):
            # Refusals by the host do not enter the weights of fillings, so there is nothing to choose by.
            draws = 1 if any(isinstance(rule, WholeRule) for rule in self.rules) else DRAWS
            return self._feasible("vetted", lambda canvas: FillProgram(canvas, tuple(self.rules), draws))
        return self._witness()

    def _text_check(self, constraint: Constraint) -> Callable[[np.ndarray], bool]:
        def check(adjacency: np.ndarray) -> bool:
            return constraint.holds(self.grid.text(adjacency.astype(np.int32))).ok

        return check

    def _canvas(self, size: int) -> Canvas:
        return Canvas.make(self.grid, self.variables, self.allowed, size)

    def _enumerated(self) -> Tier:
        def holds(letters: np.ndarray) -> bool:
            text = self._text(letters, self.lengths[0])
            return all(constraint.holds(text).ok for constraint in self.constraints)

        found = solutions(self.joint, holds)
        if not len(found):
            raise Unsatisfiable

        return listed(found, self.variables, self.lengths[0], self.joint.shape[1])

    def _feasible(self, route: str, program: Callable[[Canvas], Program]) -> Tier:
        """A tier whose completions are known to exist if the given edges are in the class and those hoped for join."""
        lengths = [length for length in self.lengths if self._completable(length)]
        if not lengths:
            raise Unsatisfiable
        return Tier(route, np.array(lengths), lambda size: program(self._canvas(size)), self.kept)

    def _completable(self, length: int) -> bool:
        nodes = self.grid.size(length)
        joint = self.joint[self.variables.owner]
        given, hoped = (np.zeros((nodes, nodes), bool) for _ in range(2))
        for position, (i, j) in enumerate(self.grid.slots[:length].tolist()):
            if i != j:
                given[i, j] = joint[position][~self.present].sum() == 0
                hoped[i, j] = joint[position][self.present].any()
        if not self.grid.directed:
            given, hoped = given | given.T, hoped | hoped.T
        for constraint in self.constraints:
            if not isinstance(constraint, GraphConstraint):
                continue
            graph = as_graph(hoped if constraint.closed == "up" else given, self.grid.directed)
            if isinstance(constraint, classes.Tree):
                whole = as_graph(hoped, self.grid.directed)
                if not classes.Acyclic(self.grid).check(graph).ok or not classes.Connected(self.grid).check(whole).ok:
                    return False
            elif constraint.closed in ("down", "up") and not constraint.check(graph).ok:
                return False
        return True

    def _witness(self) -> Tier:
        first = First(self.joint, self.present, self._firsts(), self._implied, self._cuts)
        first.solve_lengths(self.lengths)
        lengths = np.array(sorted(first.solutions))

        def make(size: int) -> Program:
            canvas = self._canvas(size)
            weights, low, high = self._windows(int(lengths[-1]))
            bounds = np.stack([np.tile(bound, (self.grid.nodes + 1, 1)) for bound in (low, high)])
            for length in lengths.tolist():
                bounds[:, self.grid.size(length)] = self._windows(length)[1:]
            windows = Windows(*(jnp.asarray(array, jnp.int32) for array in (weights, *bounds)))
            singles = canvas.pairs.shape[1] == 1 and not self.grid.directed
            handle = jnp.int32(first.handle)
            return MovesProgram(canvas, tuple(self.rules), windows, self._variable_of(), handle, singles)

        return Tier("witness", lengths, make, [first, *self.kept])

    def _firsts(self) -> np.ndarray:
        return np.array([np.flatnonzero(self.variables.owner == step)[0] for step in range(self.variables.steps)])

    def _variable_of(self) -> Any:
        table = np.full((self.grid.nodes, self.grid.nodes), -1, np.int32)
        for position, (i, j) in enumerate(self.grid.slots[: len(self.variables.owner)].tolist()):
            if i != j:
                table[i, j] = self.variables.owner[position]
                if not self.grid.directed:
                    table[j, i] = table[i, j]
        return jnp.asarray(table)

    def _windows(self, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights by variable, least and largest sums."""
        weights = np.zeros((len(self.sums), *self.joint.shape), np.int64)
        low = np.full(len(self.sums), -(2**30), np.int64)
        high = np.full(len(self.sums), 2**30, np.int64)
        for k, item in enumerate(self.sums):
            np.add.at(weights[k], self.variables.owner[:length], item.weights[:length])
            least, most = item.limits(item.positions(length))
            low[k], high[k] = low[k] if least is None else least, high[k] if most is None else most
        return weights, low, high

    def _implied(self, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same, and bounds of the number of edges that follow from the constraints."""
        weights, low, high = self._windows(length)
        if self.grid.directed:
            return weights, low, high
        rules = [constraint for constraint in self.constraints if isinstance(constraint, GraphConstraint)]
        fewest, most = edge_windows(rules, self.grid.size(length))
        count = np.zeros((1, *self.joint.shape), np.int64)
        edges = (self.grid.slots[:, 0] != self.grid.slots[:, 1])[:length]
        np.add.at(count[0], self.variables.owner[:length], edges[:, None] & self.present[None, :])
        least, largest = max([0, *(n for n, _ in fewest)]), min(n for n, _ in most)
        return np.concatenate([weights, count]), np.append(low, least), np.append(high, largest)

    def _text(self, letters: np.ndarray, length: int) -> str:
        return "".join(self.letters[letters[self.variables.owner[:length]]])

    def _cuts(self, letters: np.ndarray, length: int) -> list[Cut]:
        """What a solution of the sums breaks."""
        text = self._text(letters, length)
        matrix = self.grid.matrix(text)
        graph = as_graph(matrix > 0, self.grid.directed)
        cuts: list[Cut] = []
        for constraint in self.constraints:
            if isinstance(constraint, GraphConstraint):
                found = constraint.obstruction(graph)
                if found is None:
                    continue
                pairs = [(pair, True) for pair in found.present] + [(pair, False) for pair in found.absent]
            elif constraint.holds(text).ok:
                continue
            else:
                pairs = [((i, j), bool(matrix[i, j])) for i, j in self.grid.pairs if max(i, j) < len(matrix)]
            cuts.append([(int(self.variables.owner[self.grid.position[pair]]), there) for pair, there in pairs])
        return cuts
