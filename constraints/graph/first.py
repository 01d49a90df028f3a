"""First witnesses: complete graphs that satisfy everything, from CP-SAT with cuts made as they are needed.

Sums are linear; what a rule knows only of whole graphs is told by cuts: a solution that breaks it gives a set of
pairs of which at least one must change (the edges of a cycle, the pairs across a cut, a Kuratowski subgraph), and the
search goes on. Cuts met at compilation are kept. Rows are solved in turn, each seeded and under a limit
of deterministic time, maximising the row's own perturbed proposal; where nothing is found in time the witness found
at the start stands.
"""

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from seqdiff.constraints.solver import Unsatisfiable, cp_model
from seqdiff.core.errors import BudgetError

START_SECONDS, ROW_SECONDS, MAX_CUTS = 30.0, 0.1, 5000
_SCALE, _FLOOR = 1000, -40.0
_FIRST: "weakref.WeakValueDictionary[int, First]" = weakref.WeakValueDictionary()
_HANDLES = itertools.count()

Cut = Sequence[tuple[int, bool]]
"""Variables and whether each decides on edges that are there now; at least one must change."""
Cuts = Callable[[np.ndarray, int], Sequence[Cut]]
"""Cuts for letters by variable and a length; empty where everything holds."""


class First:
    """The sums of a problem as CP-SAT models, one per length, and the cuts found so far.

    Attributes:
        handle: names it in a compiled program.
        solutions: a witness for each feasible length, letters by variable.
    """

    def __init__(
        self,
        allowed: np.ndarray,
        present: np.ndarray,
        first: np.ndarray,
        sums: Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]],
        cuts: Cuts,
    ):
        """
        Args:
            allowed: bool [G, V].
            present: bool [V], letters that are an edge.
            first: int [G], first position of each variable.
            sums: weights int [K, G, V], least and largest sums [K] for a length.
            cuts: what a solution breaks.
        """
        self._allowed, self._present, self._first, self._sums, self._cuts = allowed, present, first, sums, cuts
        self._models: dict[int, Any] = {}
        self.solutions: dict[int, np.ndarray] = {}
        self.handle = next(_HANDLES)
        _FIRST[self.handle] = self

    def solve_lengths(self, lengths: Sequence[int]) -> None:
        """Find a witness for every length that has one.

        Raises:
            Unsatisfiable: no length has one.
            BudgetError: no answer in time.
        """
        for length in lengths:
            found = self.solve(length, None, None, START_SECONDS)
            if found is not None:
                self.solutions[length] = found
        if not self.solutions:
            raise Unsatisfiable

    def solve(
        self, length: int, values: np.ndarray | None, committed: np.ndarray | None, seconds: float
    ) -> np.ndarray | None:
        """Letters by variable, int32 [G]; None where there are none or, with values, none in time.

        Raises:
            BudgetError: without values, no answer in time.
        """
        cp = cp_model()
        model, x = self._model(length)
        # Cuts that a row meets stay its own: what a design is must not depend on the rows before it.
        trial = model.clone()
        targets = (trial,) if committed is not None else (model, trial)
        solver = cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        if values is None:
            values = np.random.default_rng(0).gumbel(size=self._allowed.shape)
            known = None
        else:
            known = committed
        scaled = np.round(np.clip(values, _FLOOR, -_FLOOR) * _SCALE).astype(np.int64)
        trial.maximize(sum(int(scaled[g, v]) * var for g, row in x.items() for v, var in row.items()))
        for g, row in x.items():
            letter = max(row, key=lambda v, g=g: values[g, v])
            if known is not None and known[g] < self._allowed.shape[1]:
                letter = int(known[g])
                if letter not in row:
                    return None
                trial.add(row[letter] == 1)
            for v, var in row.items():
                trial.add_hint(var, v == letter)
        spent = 0.0
        for _ in range(MAX_CUTS):
            solver.parameters.max_deterministic_time = max(seconds - spent, 1e-3)
            status = solver.solve(trial)
            spent += solver.response_proto.deterministic_time
            if status == cp.INFEASIBLE:
                return None
            if status not in (cp.OPTIMAL, cp.FEASIBLE):
                break
            letters = np.zeros(len(self._allowed), np.int32)
            for g, row in x.items():
                letters[g] = next(v for v, var in row.items() if solver.boolean_value(var))
            cuts = self._cuts(letters, length)
            if not cuts:
                return letters
            for cut in cuts:
                for target in targets:
                    target.add_bool_or([self._change(target, x, g, there) for g, there in cut])
            if spent > seconds:
                break
        if committed is not None:
            return None
        raise BudgetError(
            f"no graph with {length} positions was found in time, and no proof that there is none; relax a constraint, "
            "fix some edges or take fewer nodes"
        )

    def witnesses(
        self, perturbed: np.ndarray, letters: np.ndarray, length: np.ndarray, hint: np.ndarray, fresh: np.ndarray
    ) -> np.ndarray:
        """A witness for each row, int32 [B, G]; the hint where a row is not fresh."""
        out = np.array(hint, np.int32)
        for row in np.flatnonzero(fresh):
            size = int(length[row])
            found = self.solve(size, perturbed[row], letters[row], ROW_SECONDS) if size in self.solutions else None
            out[row] = self.solutions.get(size, np.zeros(out.shape[1], np.int32)) if found is None else found
        return out

    def _model(self, length: int) -> tuple[Any, dict[int, dict[int, Any]]]:
        if length in self._models:
            return self._models[length]
        model = cp_model().CpModel()
        x = {
            g: {int(v): model.new_bool_var("") for v in np.flatnonzero(self._allowed[g])}
            for g in np.flatnonzero(self._first < length).tolist()
        }
        for row in x.values():
            model.add_exactly_one(row.values())
        weights, low, high = self._sums(length)
        for k in range(len(low)):
            terms = [int(weights[k, g, v]) * var for g, row in x.items() for v, var in row.items() if weights[k, g, v]]
            model.add_linear_constraint(sum(terms), int(low[k]), int(high[k]))
        self._models[length] = model, x
        return self._models[length]

    def _change(self, model: Any, x: dict[int, dict[int, Any]], g: int, there: bool) -> Any:
        """A literal that says that variable ``g`` decides otherwise than it does now."""
        others = [var for v, var in x[g].items() if bool(self._present[v]) != there]
        if not others:
            return model.new_constant(0)
        if len(others) == 1:
            return others[0]
        some = model.new_bool_var("")
        model.add_bool_or([~some, *others])
        return some


def find_first(
    handle: Int[Array, ""],
    perturbed: Float[Array, "B G V"],
    letters: Int[Array, "B G"],
    length: Int[Array, "B"],
    hint: Int[Array, "B G"],
    fresh: Bool[Array, "B"],
) -> Int[Array, "B G"]:
    """Witnesses where rows are fresh, their hints elsewhere; the host is called only if some row is."""
    shape = jax.ShapeDtypeStruct(letters.shape, jnp.int32)
    return jax.lax.cond(
        jnp.any(fresh),
        lambda: jax.pure_callback(_witnesses, shape, handle, perturbed, letters, length, hint, fresh),
        lambda: hint.astype(jnp.int32),
    )


def _witnesses(handle: Array, *arrays: Array) -> np.ndarray:
    return _FIRST[int(handle)].witnesses(*(np.asarray(array) for array in arrays))
