"""Whatever the constraints, the model and the planner: every design satisfies every constraint, or nothing does."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqdiff.constraints import compile_constraints, parse_constraint
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InfeasibleError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.process.noise import PROCESSES, Process
from seqdiff.sampling.batches import Plan, sample_batches
from tests.helpers import EVERY_PLANNER, TINY, Neighbours, texts

LENGTH, SIZE = 6, 8
_regions = st.one_of(st.none(), st.tuples(st.integers(1, LENGTH), st.integers(1, LENGTH)).map(sorted))
_elements = st.sampled_from(["A", "B", ".", "[AC]", "[^D]", "A?", ".{1,2}", "(?:AB|C)", "D"])
_regexes = (
    st.lists(_elements, min_size=1, max_size=3).map("".join).filter(lambda text: text not in ("A?", "A?A?", "A?A?A?"))
)


def _scoped(args: dict, region: list[int] | None) -> dict:
    return args if region is None else args | {"region": f"{region[0]}-{region[1]}"}


_bounds = st.sampled_from(
    [{}, {"at_least": 2}, {"at_most": 1}, {"exactly": 0}, {"exactly": 2}, {"at_least": 1, "at_most": 2}]
)
_counts = st.sampled_from([{"min": 2}, {"max": 1}, {"exactly": 2}, {"exactly": 0}, {"min": 1, "max": 3}])
_letters = st.sampled_from(["A", "BC", "ACD", "D"])
_constraints = st.lists(
    st.one_of(
        st.builds(lambda r, b, g: {"pattern": _scoped({"regex": r} | b, g)}, _regexes, _bounds, _regions),
        st.builds(lambda r: {"pattern": {"regex": f".*{r}.*", "matches": True}}, _regexes),
        st.builds(lambda a, c, g: {"count": _scoped({"letters": a} | c, g)}, _letters, _counts, _regions),
        st.builds(lambda n: {"run": {"max": n}}, st.integers(1, 3)),
        st.builds(lambda p, a: {"fixed": {p: a}}, st.integers(1, 4), st.sampled_from("ABCD")),
        st.builds(lambda p, a: {"allow": {"positions": p, "letters": a}}, st.integers(1, LENGTH), _letters),
        st.builds(lambda a: {"forbid": {"letters": a}}, st.sampled_from("ABCD")),
    ),
    max_size=4,
)


def sample_neighbours(
    compiled,
    alphabet: Alphabet,
    size: int,
    seed: int,
    scale: float,
    planner,
    steps: int,
    rows: int,
    uniform: float = 0.0,
) -> list[str]:
    letters = len(alphabet)
    table = scale * np.random.default_rng(seed).normal(size=(letters + 1, letters + 1, letters))
    canvas = np.full(size, alphabet.mask, np.int32)
    determined = compiled.determined()
    canvas[: len(determined)] = np.where(determined >= 0, determined, alphabet.mask)
    plan = Plan(
        canvas=canvas,
        lengths=compiled.lengths(),
        bias=np.zeros((size, letters), np.float32),
        steps=steps,
        temperature=1.0,
        planner=planner,
        process=Process(mask=alphabet.mask, uniform=uniform),
    )
    denoiser = Neighbours(jnp.asarray(table, jnp.float32))
    batches = sample_batches(denoiser, compiled.program(size), plan, seed=seed, rows=rows, batch=rows)
    return [alphabet.decode(row[row < letters]) for _, samples in batches for row in samples.tokens]


@settings(max_examples=18, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    items=_constraints,
    low=st.integers(4, LENGTH),
    seed=st.integers(0, 99),
    scale=st.sampled_from([0.0, 1.0, 30.0, 3000.0]),
    planner=st.sampled_from(sorted(EVERY_PLANNER)),
    process=st.sampled_from(sorted(PROCESSES)),
    budget=st.sampled_from([4096, 12]),
)
def test_small_worlds(items: list[dict], low: int, seed: int, scale: float, planner: str, process: str, budget: int):
    from seqdiff.core.errors import BudgetError

    constraints = [parse_constraint(item, TINY) for item in items]
    layout = Layout(TINY, low, LENGTH)

    def solutions(chosen: list) -> bool:
        every = itertools.chain.from_iterable(texts(n) for n in range(low, LENGTH + 1))
        return any(all(constraint.holds(text).ok for constraint in chosen) for text in every)

    try:
        compiled = compile_constraints(constraints, layout, budget=budget)
    except BudgetError:
        assert budget == 12
        return
    except InfeasibleError as error:
        assert not solutions(constraints)
        named = [constraint for constraint in constraints if constraint.describe() in error.conflict]
        assert not solutions(named)
        if budget == 4096:
            for constraint in named:
                assert solutions([other for other in named if other != constraint])
        return
    for text in sample_neighbours(compiled, TINY, SIZE, seed, scale, EVERY_PLANNER[planner], 3, 8, PROCESSES[process]):
        assert low <= len(text) <= LENGTH
        assert all(constraint.holds(text).ok for constraint in constraints), text


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    motif=st.sampled_from(["C-x(2,4)-C-x(3)-H", "R-G-D", "[AG]-x(4)-G-K-[ST]", "L-x(6)-L-x(6)-L-x(6)-L"]),
    cysteines=st.integers(2, 4),
    scale=st.sampled_from([1.0, 100.0]),
    seed=st.integers(0, 9),
)
def test_proteins(motif: str, cysteines: int, scale: float, seed: int):
    items = [
        {"fixed": {1: "M"}},
        {"pattern": {"prosite": motif, "region": "5-end"}},
        {"count": {"letters": "C", "exactly": cysteines}},
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
        {"count": {"letters": "charged", "max": 4, "region": "1-30"}},
    ]
    constraints = [parse_constraint(item, PROTEIN) for item in items]
    compiled = compile_constraints(constraints, Layout(PROTEIN, 40, 48))
    for text in sample_neighbours(compiled, PROTEIN, 48, seed, scale, EVERY_PLANNER["entropy_bound"], 6, 4):
        assert all(constraint.holds(text).ok for constraint in constraints), text


TIERS: dict[str, tuple[list[dict[str, Any]], int]] = {
    "chain": ([{"pattern": {"regex": "AB.C"}}, {"run": {"max": 2}}, {"count": {"letters": "D", "exactly": 2}}], 4096),
    "shared": ([{"tied": {"groups": [[1, 5, 9], [2, 8]]}}, {"count": {"letters": "A", "min": 2, "max": 5}}], 4096),
    "path": ([{"pattern": {"regex": "A...B"}}, {"forbid": {"positions": 2, "letters": "D"}}], 8),
    "solver": (
        [
            {"tied": {"period": 5}},
            {"pattern": {"regex": "AB|C..C", "exactly": 0}},
            {"count": {"letters": "A", "min": 2}},
        ],
        4,
    ),
}
_EVERY = [(planner, process, tier) for planner in EVERY_PLANNER for process in PROCESSES for tier in TIERS]


def _covering(number: int) -> bool:
    """One case in nine, spread over planners, processes and tiers: the default run; the others are marked slow."""
    planner, case = divmod(number, len(PROCESSES) * len(TIERS))
    return (case + 5 * planner) % 9 == 0


@pytest.mark.parametrize(
    ("planner", "process", "tier"),
    [
        pytest.param(*case, marks=[] if _covering(number) else [pytest.mark.slow], id="-".join(case))
        for number, case in enumerate(_EVERY)
    ],
)
def test_every_planner_process_and_tier(planner: str, process: str, tier: str):
    items, budget = TIERS[tier]
    constraints = [parse_constraint(item, TINY) for item in items]
    compiled = compile_constraints(constraints, Layout(TINY, 10, 10), budget=budget)
    assert ("solver" in {part.route for part in compiled.parts}) == (tier == "solver")
    for steps in (1, 3, 12):
        drawn = sample_neighbours(compiled, TINY, 10, steps, 2.0, EVERY_PLANNER[planner], steps, 6, PROCESSES[process])
        assert len(drawn) == 6
        for text in drawn:
            assert all(constraint.holds(text).ok for constraint in constraints), text
