"""What no automaton of a reasonable size keeps: CP-SAT picks the witness, by perturb-and-MAP.

The log-proposal is perturbed with Gumbel noise and maximised subject to all constraints (Papandreou and Yuille 2011;
Hazan and Jaakkola 2012): each maximiser satisfies everything, and their law approximates the proposal given the
constraints (``feasible``, not ``exact``). Marginals and evidence are those of the automaton of the parts that fit: an
exact relaxation. All rows of a batch are solved in one host call per step, each by one single-threaded, seeded solver
under a limit of deterministic time, started from the letters that are best position by position. Where it finds nothing
in time the row's last witness stands, which still satisfies everything; so a design depends on its own row only and a
solver that runs out of time costs quality, never a constraint.

Parts become clauses over one Boolean per variable and letter: sums are linear, pairs are implications, forbidden words
are clauses, and any other scan is a flow through its own minimal layered automaton. Cuts are added when a solution
breaks them, and the search goes on.
"""

import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from seqdiff.constraints.compiler import DeadEnd, OverBudget, build_layers
from seqdiff.constraints.parts import Clause, Pairs, Scan, Sum
from seqdiff.constraints.readers import Variables, make_variables, read_scan
from seqdiff.constraints.shared import Pool
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Conditioned, Program
from seqdiff.core.errors import BudgetError, missing_extra
from seqdiff.core.layout import Layout

SCAN_BUDGET = 2048
FIRST_SECONDS, STEP_SECONDS = 20.0, 0.25
MAX_CUTS = 200
_SCALE, _FLOOR = 1000, -40.0
_SOLVERS: "weakref.WeakValueDictionary[int, Solver]" = weakref.WeakValueDictionary()
_HANDLES = itertools.count()


class Unsatisfiable(Exception):
    """The solver proves that nothing satisfies the parts."""


def cp_model() -> Any:
    """OR-tools, or how to install it."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise missing_extra("ortools, which keeps what does not fit one automaton,", "solver") from None
    return cp_model


class Solver:
    """All parts of a problem as CP-SAT models, one per length.

    Attributes:
        handle: names this solver in a compiled program.
        solutions: for each feasible length, letters by variable that satisfy everything.
    """

    def __init__(
        self,
        layout: Layout,
        variables: Variables,
        allowed: np.ndarray,
        parts: Sequence[tuple[str, Scan | Sum | Pairs]],
        cuts: Sequence[Callable[[str], Clause]],
        distinct: Sequence[Sequence[int]] = (),
    ):
        self._layout, self._variables, self._allowed = layout, variables, allowed
        self._parts, self._cuts, self._distinct = tuple(parts), tuple(cuts), tuple(distinct)
        self._models: dict[int, _Model] = {}
        self.solutions: dict[int, np.ndarray] = {}
        self.handle = next(_HANDLES)
        _SOLVERS[self.handle] = self

    def solve_lengths(self, lengths: np.ndarray) -> None:
        """Find a first solution for every length that has one.

        Raises:
            Unsatisfiable: no length has one.
            BudgetError: no answer in time.
        """
        for length in lengths.tolist():
            model = self._models[length] = _Model(
                self._layout.alphabet, self._variables, self._allowed, self._parts, self._cuts, length
            )
            model.add_distinct(self._distinct)
            found = model.solve(None, None, FIRST_SECONDS)
            if found is not None:
                self.solutions[length] = found
        if not self.solutions:
            raise Unsatisfiable

    def witnesses(self, perturbed: np.ndarray, letters: np.ndarray, length: np.ndarray, hint: np.ndarray) -> np.ndarray:
        """A satisfying text for each row, int32 [B, G].

        Args:
            perturbed: float32 [B, G, V], what to maximise.
            letters: int32 [B, G], committed letters; V where open.
            length: int32 [B].
            hint: int32 [B, G], the last witness; any letter out of range where there is none.
        """
        vocab = perturbed.shape[2]

        def one(row: int) -> np.ndarray:
            size = int(length[row])
            model = self._models[size]
            known = hint[row, : model.steps]
            if np.any(known >= vocab):
                known = self.solutions[size]
            committed = letters[row, : model.steps]
            found = model.solve(perturbed[row, : model.steps], committed, STEP_SECONDS)
            answer = np.zeros(perturbed.shape[1], np.int32)
            answer[: model.steps] = known if found is None else found
            return answer

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.stack(list(pool.map(one, range(len(perturbed)))))


class _Model:
    """The parts for designs of one length."""

    def __init__(
        self,
        alphabet: Alphabet,
        variables: Variables,
        allowed: np.ndarray,
        parts: Sequence[tuple[str, Scan | Sum | Pairs]],
        cuts: Sequence[Callable[[str], Clause]],
        length: int,
    ):
        self._cp = cp_model()
        self._alphabet, self._variables, self._length, self._cuts = alphabet, variables, length, cuts
        self.steps = int(variables.owner[:length].max()) + 1
        self._model = self._cp.CpModel()
        self._joint = variables.allowed(allowed)[: self.steps]
        self._x = [[self._model.new_bool_var("") for _ in row] for row in self._joint]
        for row, legal in zip(self._x, self._joint, strict=True):
            self._model.add_exactly_one(row)
            for variable, good in zip(row, legal, strict=True):
                if not good:
                    self._model.add(variable == 0)
        self._model.maximize(sum(variable for row in self._x for variable in row))
        for words, part in parts:
            if isinstance(part, Sum):
                self._add_sum(part)
            elif isinstance(part, Pairs):
                self._add_pairs(part)
            else:
                self._add_scan(words, part, allowed)

    def add_distinct(self, groups: Sequence[Sequence[int]]) -> None:
        """No letter stands twice in a group of 0-based positions."""
        for group in groups:
            for same in zip(*(self.at(position) for position in group if position < self._length), strict=True):
                self._model.add_at_most_one(same)

    def at(self, position: int) -> list[Any]:
        """The Booleans of the letters at a 0-based position, in id order."""
        row = self._x[self._variables.owner[position]]
        return [row[letter] for letter in self._variables.letters(position)]

    def solve(self, values: np.ndarray | None, committed: np.ndarray | None, seconds: float) -> np.ndarray | None:
        """The text of the largest sum of values that is found, int32 [G]; None where none was found in time.

        Without values any text will do, and None says that there is none.

        Raises:
            BudgetError: without values, no answer in time.
        """
        model = self._model.clone()
        self._prepare(model, values, committed)
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = seconds
        if values is not None:
            # Measured: with a good hint the linear relaxation alone is ten times as fast as presolving first.
            solver.parameters.cp_model_presolve = False
            solver.parameters.linearization_level = 2
        for _ in range(MAX_CUTS):
            status = solver.solve(model)
            if status == self._cp.INFEASIBLE:
                return None
            if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                break
            found = np.array([[solver.boolean_value(v) for v in row].index(True) for row in self._x], np.int32)
            if not self._add_cuts(model, found):
                return found
        if values is not None:
            return None
        raise BudgetError(
            f"the solver found no design of length {self._length} within its time, and no proof that there is none; "
            "relax a constraint or change the length"
        )

    def _prepare(self, model: Any, values: np.ndarray | None, committed: np.ndarray | None) -> None:
        """Write one row's objective, committed letters and a hint into a copy of the model."""
        proto = model.proto
        if values is None:
            # Any solution will do; starting near a random text keeps it from being one letter over and over.
            model.clear_objective()
            hint = np.random.default_rng(0).integers(len(self._alphabet), size=self.steps)
        else:
            scaled = np.round(np.clip(values, _FLOOR, -_FLOOR) * _SCALE).astype(np.int64).reshape(-1)
            for k, value in enumerate(scaled.tolist()):
                proto.objective.coeffs[k] = -value
            hint = np.where(self._joint, values, -np.inf).argmax(axis=1)
            if committed is not None:
                hint = np.where(committed < len(self._alphabet), committed, hint)
        for step, letter in enumerate([] if committed is None else committed.tolist()):
            if letter < len(self._alphabet):
                proto.variables[self._x[step][letter].index].domain[0] = 1
        for row, letter in zip(self._x, hint.tolist(), strict=True):
            for v, variable in enumerate(row):
                model.add_hint(variable, v == letter)

    def _add_cuts(self, model: Any, found: np.ndarray) -> bool:
        """Forbid, in a copy of the model, what the cuts find wrong with a solution; false where nothing is."""
        text = "".join(
            self._alphabet.letters[self._variables.letters(p)[found[self._variables.owner[p]]]]
            for p in range(self._length)
        )
        clauses = [clause for cut in self._cuts for clause in cut(text)]
        for clause in clauses:
            differ = []
            for i, j in clause:
                equal = model.new_bool_var("")
                for a, b in zip(self.at(i), self.at(j), strict=True):
                    model.add_bool_or([~a, ~b, equal])
                differ.append(~equal)
            model.add_bool_or(differ)
        return bool(clauses)

    def _add_sum(self, part: Sum) -> None:
        low, high = part.limits(part.positions(self._length))
        terms = [
            int(weight) * variable
            for position in range(self._length)
            for weight, variable in zip(part.weights[position], self.at(position), strict=True)
            if weight
        ]
        if low is not None:
            self._model.add(sum(terms) >= low)
        if high is not None:
            self._model.add(sum(terms) <= high)

    def _add_pairs(self, part: Pairs) -> None:
        held = []
        for i, j in part.positions:
            holds = self._model.new_bool_var("")
            held.append(holds)
            for letter, first in enumerate(self.at(i)):
                partners = [v for v, good in zip(self.at(j), part.table[letter], strict=True) if good]
                self._model.add_bool_or([~holds, ~first, *partners])
                for partner in partners:
                    self._model.add_bool_or([holds, ~first, ~partner])
        self._model.add(sum(held) >= part.low)
        if part.high is not None:
            self._model.add(sum(held) <= part.high)

    def _add_scan(self, words: str, part: Scan, allowed: np.ndarray) -> None:
        first = part.region.first - 1
        last = self._length if part.region.last is None else min(part.region.last, self._length)
        if last <= first:
            return
        forbidden = getattr(part.automaton, "forbidden_words", None)
        if forbidden is not None:
            for word in forbidden:
                for start in range(first, last - len(word) + 1):
                    self._model.add_bool_or(
                        v
                        for k, letters in enumerate(word)
                        for v, banned in zip(self.at(start + k), letters, strict=True)
                        if not banned
                    )
            return
        layout = Layout(self._alphabet, last, last)
        plain = make_variables(layout, (), (), keep_order=True)
        reader = read_scan(part, plain, layout)
        assert reader is not None
        try:
            layers = build_layers(allowed[:last], (reader,), min_length=last, budget=SCAN_BUDGET)
        except DeadEnd:
            self._model.add_bool_or([])
            return
        except OverBudget as over:
            raise BudgetError(
                f"{words!r} needs more than {SCAN_BUDGET} automaton states at position {over.position} by itself; "
                "narrow it to a region or shorten its wildcards"
            ) from None
        here = [self._model.new_constant(1)]
        for i, table in enumerate(layers.targets):
            here = self._flow(
                here, table.reshape(len(table), -1, layers.choices), self.at(i), len(layers.accept[i + 1])
            )

    def _flow(self, here: list[Any], table: np.ndarray, letters: list[Any], following: int) -> list[Any]:
        """One layer: an arrow leaves each state that is on the path, and its letter is one that the arrow allows."""
        into: list[list[Any]] = [[] for _ in range(following)]
        for state, moves in zip(here, table, strict=True):
            out = []
            for target in np.unique(moves[moves >= 0]).tolist():
                arrow = self._model.new_bool_var("")
                good = (moves == target).any(axis=1)
                self._model.add_bool_or([~arrow, *(v for v, ok in zip(letters, good, strict=True) if ok)])
                into[target].append(arrow)
                out.append(arrow)
            self._model.add(sum(out) == state)
        after = []
        for arrows in into:
            state = self._model.new_bool_var("")
            self._model.add(sum(arrows) == state)
            after.append(state)
        return after


@partial(jax.tree_util.register_dataclass, data_fields=["relaxation", "pool", "handle"], meta_fields=[])
class SolverProgram:
    """Witnesses from the solver, marginals and evidence from the relaxation; implements the ``Program`` contract."""

    def __init__(self, relaxation: Program, pool: Pool, handle: Array):
        self.relaxation, self.pool, self.handle = relaxation, pool, handle

    @classmethod
    def make(cls, relaxation: Program, solver: Solver, variables: Variables, size: int) -> "SolverProgram":
        """A program for canvases of ``size`` positions."""
        return cls(relaxation, Pool.make(variables, size), jnp.int32(solver.handle))

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; the evidence is that of the relaxation, an upper bound."""
        relaxed = self.relaxation.condition(keys, log_proposal, canvas, length, hint)
        pooled, letters, _ = self.pool.gather(log_proposal, canvas)
        _, known, _ = self.pool.gather(log_proposal, hint)
        noise = jax.vmap(lambda key: jax.random.gumbel(jax.random.fold_in(key, 1), pooled.shape[1:], mode="high"))(keys)
        shape = jax.ShapeDtypeStruct(letters.shape, jnp.int32)
        found = jax.pure_callback(_solve, shape, self.handle, pooled + noise, letters, length, known)
        return relaxed._replace(witness=self.pool.spread(found, canvas))

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """Of the relaxation: an upper bound."""
        return self.relaxation.log_evidence(log_proposal, canvas, length)


def _solve(handle: Array, perturbed: Array, letters: Array, length: Array, hint: Array) -> np.ndarray:
    arrays = (np.asarray(array) for array in (perturbed, letters, length, hint))
    return _SOLVERS[int(handle)].witnesses(*arrays)
