"""Random sets of constraints of every class over four letters, against enumeration.

Without a solver the joint automaton must accept exactly the texts that the independent checks accept. With one (forced
by a budget that nothing fits), the automaton of the rest must accept all of them (advice never rules out what some
design needs), and each witness must be the best of them under the perturbed proposal, as perturb-and-MAP asks.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqdiff.constraints import Compiled, Constraint, compile_constraints
from seqdiff.core.errors import BudgetError, InfeasibleError, InputError
from seqdiff.core.layout import Layout
from tests.helpers import TINY, parse, texts

LENGTH = 5


def accepted(compiled: Compiled, length: int = LENGTH) -> set[str]:
    """Texts that the joint automaton accepts, found by walking it."""
    variables, layers = compiled.variables, compiled.layers
    found = set()
    for text in texts(length):
        ids = TINY.encode(text)
        letters = np.full(max(variables.steps, length), -1)
        for position, step in enumerate(variables.owner[:length]):
            letter = variables.letters(position)[ids[position]]
            if letters[step] not in (-1, letter):
                break
            letters[step] = letter
        else:
            states, steps = {0}, int(variables.owner[:length].max()) + 1
            for step in range(steps):
                tables = [layers.targets[step][s].reshape(len(TINY), -1)[letters[step]] for s in states]
                states = {int(s) for row in tables for s in row if s >= 0}
            if any(layers.accept[steps][s] for s in states):
                found.add(text)
    return found


def scoped(args: dict[str, Any], region: str | None) -> dict[str, Any]:
    return args if region is None else args | {"region": region}


REGION = st.sampled_from([None, None, "2-5", "3-end", "1-4"])
LETTERS = st.sampled_from(["A", "AB", "BCD", "CD"])
BOUNDS = st.sampled_from([{"min": 1}, {"max": 1}, {"exactly": 2}, {"min": 1, "max": 3}, {"min": 3}])
WINDOW = st.sampled_from([{"min": -1, "max": 1}, {"max": 0}, {"min": 2}, {"exactly": 1}])
PLACES = st.lists(
    st.tuples(st.integers(1, LENGTH), st.integers(1, LENGTH)).filter(lambda p: p[0] != p[1]).map(list),
    min_size=1,
    max_size=3,
)
PAIR_RULE = st.sampled_from(
    [
        {"allowed": ["AA", ["BC", "D"]]},
        {"allowed": [["AB", "CD"], ["CD", "AB"]]},
        {"complementary": True},
        {"both_or_neither": "A"},
    ]
)
SEQUENCE = st.text("ABCD", min_size=LENGTH, max_size=LENGTH)
SUMS = st.one_of(
    st.builds(lambda a, b, r: {"count": scoped({"letters": a} | b, r)}, LETTERS, BOUNDS, REGION),
    st.builds(
        lambda a, p, r: {"count": scoped({"letters": a, "percent": p}, r)},
        LETTERS,
        st.sampled_from([[0, 50], [33.4, 100], [20, 60]]),
        REGION,
    ),
    st.builds(
        lambda w, r, m: {"sum": scoped({"weights": {"A": 1, "B": -1, "D": 0.5}, "mean": m} | w, r)},
        WINDOW,
        REGION,
        st.booleans(),
    ),
    st.builds(lambda p, b, r: {"mutations": scoped({"parent": p} | b, r)}, SEQUENCE, BOUNDS, REGION),
    st.builds(lambda p, q, m: {"identity": {"known": {"p": p, "q": q}, "max": m}}, SEQUENCE, SEQUENCE, st.just(0.5)),
)
LINKS = st.one_of(
    st.builds(
        lambda p, pool: {"tied": {"period": p, "pool": pool}}, st.integers(1, 4), st.sampled_from(["sum", "mean"])
    ),
    st.sampled_from(
        [
            {"tied": {"groups": [["1-2", "4-5"]]}},
            {"tied": {"groups": [[1, 5], [2, 4]], "pool": "sum"}},
            {"tied": {"mirror": "1-5"}},
            {"tied": {"palindrome": "1-4"}},
            {"tied": {"palindrome": "2-4"}},
            {"tied": {"period": 2, "region": "2-5"}},
        ]
    ),
    st.builds(lambda p, rule: {"pair": {"positions": p} | rule}, PLACES, PAIR_RULE),
    st.builds(
        lambda p, rule, b: {"pair": {"positions": p} | rule | b},
        PLACES,
        PAIR_RULE,
        st.sampled_from([{"min": 1}, {"exactly": 1}, {"max": 0}]),
    ),
)
SCANS = st.one_of(
    st.builds(
        lambda p, b, r: {"pattern": scoped({"regex": p} | b, r)},
        st.sampled_from(["AB", "A.B", "[AB]C|D", "^A", "B$", "A+B", "AA"]),
        st.sampled_from([{}, {"exactly": 0}, {"at_most": 1}, {"exactly": 1}]),
        REGION,
    ),
    st.builds(lambda m, r: {"run": scoped({"max": m}, r)}, st.integers(1, 3), REGION),
)
SPOTS = st.sampled_from(
    [
        {"fixed": {1: "A"}},
        {"fixed": {"3-4": "BD"}},
        {"forbid": {"letters": "C"}},
        {"allow": {"positions": "2,5", "letters": "AC"}},
    ]
)
ITEMS = st.lists(st.one_of(SUMS, LINKS, SCANS, SPOTS), min_size=2, max_size=6)


def build(items: list[dict], budget: int) -> tuple[list[Constraint], Compiled | None, set[str]]:
    """The constraints, what they compile to (None: infeasible), and the texts that their checks accept."""
    constraints = parse(items)
    truth = {text for text in texts(LENGTH) if all(constraint.holds(text).ok for constraint in constraints)}
    try:
        return constraints, compile_constraints(constraints, Layout(TINY, LENGTH, LENGTH), budget=budget), truth
    except InfeasibleError:
        return constraints, None, truth


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(ITEMS)
def test_the_automaton_accepts_what_the_checks_accept(items: list[dict]):
    _, compiled, truth = build(items, 4096)
    assert (compiled is None) == (not truth)
    if compiled is None:
        return
    found = accepted(compiled)
    if compiled.solver is None:
        assert found == truth
    else:
        assert found >= truth
    for position, letter in enumerate(compiled.determined()):
        if letter >= 0:
            assert {text[position] for text in truth} == {TINY.letters[letter]}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(SUMS, LINKS, SCANS, SPOTS, st.just({"repeat": {"length": 2}})), min_size=2, max_size=5))
def test_the_solver_finds_the_best_text(items: list[dict]):
    pytest.importorskip("ortools")
    try:
        _, compiled, truth = build(items, 1)
    except BudgetError:
        pytest.fail("a small world is within every budget")
    assert (compiled is None) == (not truth)
    if compiled is None or compiled.solver is None:
        return
    assert compiled.guarantee == "feasible"
    assert accepted(compiled) >= truth
    variables = compiled.variables
    rng = np.random.default_rng(0)
    values = rng.gumbel(size=(4, variables.steps, len(TINY))).astype(np.float32)
    open_letters = np.full((4, variables.steps), len(TINY))
    lengths = np.full(4, LENGTH)
    witnesses = compiled.solver.witnesses(values, open_letters, lengths, open_letters)
    for row, witness in enumerate(witnesses):
        text = "".join(TINY.letters[variables.letters(p)[witness[s]]] for p, s in enumerate(variables.owner))
        assert text in truth
        scores = {other: score(values[row], other, variables) for other in truth}
        assert scores[text] == pytest.approx(max(scores.values()), abs=0.02)


def score(values: np.ndarray, text: str, variables) -> float:
    ids = TINY.encode(text)
    letters = {int(step): variables.letters(p)[ids[p]] for p, step in enumerate(variables.owner)}
    return float(sum(values[step, letter] for step, letter in letters.items()))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.one_of(SUMS.filter(lambda i: not set(i) & {"mutations", "identity"}), SCANS), min_size=1, max_size=4)
)
def test_every_length_of_a_range(items: list[dict]):
    constraints = parse(items)
    truth = {
        length: {text for text in texts(length) if all(constraint.holds(text).ok for constraint in constraints)}
        for length in (4, 5)
    }
    try:
        compiled = compile_constraints(constraints, Layout(TINY, 4, 5), budget=4096)
    except InfeasibleError:
        assert not any(truth.values())
        return
    except InputError:
        return
    assert compiled.lengths().tolist() == [length for length in (4, 5) if truth[length]]
    for length in (4, 5):
        assert accepted(compiled, length) == truth[length]
