"""Rules about graphs against enumeration: what may be committed, what is drawn, what is refused."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from seqdiff.constraints import Compiled, Constraint, compile_constraints, parse_constraint
from seqdiff.constraints.graph import compile as tiers
from seqdiff.constraints.graph.fill import FillProgram
from seqdiff.core.errors import InfeasibleError, InputError
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import Layout
from tests.helpers import expected_variation, total_variation

pytest.importorskip("rustworkx", reason="the extra 'graphs' is not installed")


def parse(items: list[dict], nodes: int, **options: Any) -> tuple[list[Constraint], Layout]:
    alphabet = GraphAlphabet.make(Grid.make(nodes, **options))
    length = alphabet.grid.length()
    return [parse_constraint(item, alphabet) for item in items], Layout(alphabet, length, length)


def build(items: list[dict], nodes: int, **options: Any) -> Compiled:
    return compile_constraints(*parse(items, nodes, **options))


def draw(compiled: Compiled, rows: int, *, seed: int = 0, odds: np.ndarray | None = None) -> list[str]:
    """First witnesses of an empty canvas for a fixed proposal: log-odds of an edge at each position, 0 by default."""
    length, program = compiled.layout.max_length, compiled.program(compiled.layout.max_length)
    odds = np.zeros(length) if odds is None else odds
    log_p = jnp.asarray(np.stack([-np.logaddexp(0, odds), -np.logaddexp(0, -odds)], axis=-1), jnp.float32)
    canvas = jnp.full((rows, length), 2, jnp.int32)
    found = jax.jit(type(program).condition)(
        program,
        jax.random.split(jax.random.key(seed), rows),
        jnp.broadcast_to(log_p, (rows, length, 2)),
        canvas,
        jnp.full((rows,), length, jnp.int32),
        canvas,
    )
    return [compiled.layout.alphabet.decode(row) for row in np.asarray(found.witness)]


def texts(length: int) -> list[str]:
    return ["".join(letters) for letters in itertools.product("01", repeat=length)]


NEVER_STUCK = [
    ([{"connected": {}}], {}),
    ([{"acyclic": {}}], {}),
    ([{"bipartite": {}}], {}),
    ([{"free": "triangle"}], {}),
    ([{"free": "C4"}], {}),
    ([{"free": "K4"}], {}),
    ([{"girth": {"min": 4}}], {}),
    ([{"girth": {"min": 5}}, {"connected": {}}], {}),
    ([{"degree": {"max": 2}}], {}),
    ([{"degree": {"min": 2}}], {}),
    ([{"diameter": {"max": 2}}], {}),
    ([{"bipartite": {}}, {"connected": {}}], {}),
    ([{"free": "triangle"}, {"free": "C4"}, {"connected": {}}], {}),
    ([{"acyclic": {}}], {"directed": True, "hosts": [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]}),
]


@pytest.mark.parametrize(("items", "options"), NEVER_STUCK, ids=lambda value: str(value)[:60])
def test_vetted_letters_are_those_with_a_completion(monkeypatch, items, options):
    """Every partial graph on four nodes: a letter is allowed exactly when some completion has it."""
    monkeypatch.setattr(tiers, "MOST", 0)
    nodes = 3 if options else 4
    constraints, layout = parse(items, nodes, **options)
    compiled = compile_constraints(constraints, layout)
    assert compiled.explain()[0]["route"] == "vetted"
    length = layout.max_length
    solutions = np.array([[int(c) for c in t] for t in texts(length) if all(item.holds(t).ok for item in constraints)])
    partial = np.array(list(itertools.product(range(3), repeat=length)), np.int32)
    agree = ((partial[:, None] == 2) | (partial[:, None] == solutions[None])).all(axis=2)
    feasible = agree.any(axis=1)
    partial, agree = partial[feasible], agree[feasible]
    program = compiled.program(length)
    found = jax.jit(type(program).condition)(
        program,
        jax.random.split(jax.random.key(0), len(partial)),
        jnp.full((len(partial), length, 2), np.log(0.5), jnp.float32),
        jnp.asarray(partial),
        jnp.full((len(partial),), length, jnp.int32),
        jnp.asarray(partial),
    )
    support = np.stack([(agree[:, :, None] & (solutions[None] == v)).any(axis=1) for v in (0, 1)], axis=-1)
    np.testing.assert_array_equal(np.asarray(found.marginals) > 0, support)
    witness = np.asarray(found.witness)
    assert ((witness[:, None] == solutions[None]).all(axis=2) & agree).any(axis=1).all()


def test_a_class_that_is_not_bridge_addable_goes_to_the_witness(monkeypatch):
    """The control: degrees at most two and connected would dead-end if each edge were vetted by itself."""
    monkeypatch.setattr(tiers, "MOST", 0)
    compiled = build([{"degree": {"max": 2}}, {"connected": {}}], 5)
    assert compiled.explain()[0]["route"] == "witness"
    builder_rules = compiled.program(10).rules
    vetted = FillProgram(compiled.program(10).canvas, builder_rules, draws=1)
    canvas = jnp.full((200, 10), 2, jnp.int32)
    found = vetted.condition(
        jax.random.split(jax.random.key(0), 200),
        jnp.full((200, 10, 2), np.log(0.5), jnp.float32),
        canvas,
        jnp.full((200,), 10, jnp.int32),
        canvas,
    )
    graphs = [compiled.layout.alphabet.decode(row) for row in np.asarray(found.witness)]
    broken = sum(not part.constraint.holds(text).ok for text in graphs for part in compiled.parts)
    assert broken > 0
    assert all(part.constraint.holds(text).ok for text in draw(compiled, 100) for part in compiled.parts)


def test_trees_follow_their_weights(monkeypatch):
    """Spanning trees on five nodes under unequal odds: total variation at most twice that of true draws."""
    monkeypatch.setattr(tiers, "MOST", 0)
    compiled = build([{"tree": {}}, {"edges": {"absent": [[0, 4]]}}], 5)
    assert compiled.guarantee == "exact"
    assert compiled.explain()[0]["route"] == "spanning tree"
    odds = np.random.default_rng(3).normal(size=10)
    weights = {
        text: float(np.exp(sum(odds[i] for i, letter in enumerate(text) if letter == "1")))
        for text in texts(10)
        if all(part.constraint.holds(text).ok for part in compiled.parts)
    }
    assert total_variation(draw(compiled, 4000, odds=odds), weights) < 2 * expected_variation(4000, weights)


def test_tree_marginals_and_evidence():
    compiled_odds = np.random.default_rng(5).normal(size=10).astype(np.float32)
    constraints, layout = parse([{"tree": {}}], 5)
    log_p = np.stack([-np.logaddexp(0, compiled_odds), -np.logaddexp(0, -compiled_odds)], axis=-1)
    trees = np.array([[int(c) for c in t] for t in texts(10) if constraints[0].holds(t).ok])
    weight = np.exp(np.take_along_axis(log_p[None], trees[..., None], axis=2)[..., 0].sum(axis=1))
    program = compile_constraints(constraints, layout).program(10)
    canvas = jnp.full((1, 10), 2, jnp.int32)
    found = program.condition(
        jax.random.split(jax.random.key(0), 1), jnp.asarray(log_p[None]), canvas, jnp.array([10], jnp.int32), canvas
    )
    np.testing.assert_allclose(float(found.log_evidence[0]), np.log(weight.sum()), atol=1e-4)
    marginal = (weight[:, None] * trees).sum(axis=0) / weight.sum()
    np.testing.assert_allclose(np.asarray(found.marginals)[0, :, 1], marginal, atol=1e-5)


def test_small_spaces_are_exact():
    compiled = build([{"connected": {}}, {"degree": {"max": 2}}], 4)
    assert (compiled.guarantee, compiled.explain()[0]["route"]) == ("exact", "enumerated")
    weights = {t: 1.0 for t in texts(6) if all(part.constraint.holds(t).ok for part in compiled.parts)}
    assert total_variation(draw(compiled, 3000), weights) < 2 * expected_variation(3000, weights)


@pytest.mark.parametrize(
    ("items", "bound"),
    [
        pytest.param([{"connected": {}}], 0.05, marks=pytest.mark.slow),
        ([{"girth": {"min": 5}}, {"connected": {}}], 0.10),
        ([{"degree": {"exactly": 2}}], 0.05),
        pytest.param([{"connected": {}}, {"edges": {"exactly": 6}}], 0.10, marks=pytest.mark.slow),
    ],
    ids=["connected", "girth", "regular", "count"],
)
def test_approximate_tiers_deviate_little(monkeypatch, items, bound):
    """Uniform over the labelled graphs on five nodes: the excess of total variation over true draws (stated bounds)."""
    monkeypatch.setattr(tiers, "MOST", 0)
    compiled = build(items, 5)
    assert compiled.guarantee == "feasible"
    weights = {t: 1.0 for t in texts(10) if all(part.constraint.holds(t).ok for part in compiled.parts)}
    draws = draw(compiled, 2000)
    assert set(draws) <= set(weights)
    assert total_variation(draws, weights) < expected_variation(2000, weights) + bound


COMBINATIONS = [
    [{"planar": {}}, {"connected": {}}],
    [{"planar": {}}, {"degree": {"max": 4}}, {"connected": {}}, {"edges": {"exactly": 11}}],
    [{"degree": {"exactly": 3}}, {"girth": {"min": 4}}],
    [{"outerplanar": {}}, {"k_connected": {"nodes": 2}}],
    [{"lobster": {}}, {"connected": {}}],
    [{"caterpillar": {}}, {"tree": {}}],
    [{"colourable": {"colours": 3}}, {"connected": {}}, {"free": "K4"}],
    [{"free": {"of": "claw", "induced": True}}, {"connected": {}}],
    [{"diameter": {"max": 2}}, {"free": "triangle"}],
    [{"degree": {"sequence": [4, 3, 3, 2, 2, 2, 1, 1]}}, {"connected": {}}],
    [{"symmetry": {"circulant": True}}, {"free": "triangle"}, {"connected": {}}],
]


def _names(items: list[dict]) -> str:
    return "+".join(next(iter(item)) for item in items)


@pytest.mark.parametrize("items", COMBINATIONS[:4], ids=_names)
def test_everything_drawn_obeys(items):
    compiled = build(items, 8)
    graphs = draw(compiled, 12)
    assert [
        part.constraint.holds(text) for text in graphs for part in compiled.parts if not part.constraint.holds(text).ok
    ] == []
    assert len(set(graphs)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("items", COMBINATIONS, ids=_names)
def test_a_thousand_drawn_obey(items):
    compiled = build(items, 8)
    assert all(part.constraint.holds(text).ok for text in draw(compiled, 1000) for part in compiled.parts)


@pytest.mark.parametrize(
    ("items", "nodes", "words"),
    [
        ([{"degree": {"exactly": 3}}], 7, "is odd"),
        ([{"degree": {"sequence": [4, 4, 1, 1, 2]}}], 5, "Erdos-Gallai"),
        ([{"planar": {}}, {"edges": {"min": 20}}], 8, "at most 18"),
        ([{"girth": {"min": 5}}, {"edges": {"min": 20}}], 10, "at most 15"),
        ([{"degree": {"exactly": 3}}, {"girth": {"min": 6}}], 12, "Moore"),
        ([{"edges": {"present": [[0, 1], [1, 2], [0, 2]]}}, {"bipartite": {}}], 6, "satisfies"),
        ([{"edges": {"absent": [[0, 1], [0, 2], [0, 3]]}}, {"connected": {}}], 4, "satisfies"),
    ],
)
def test_infeasible_sets_say_why(items, nodes, words):
    with pytest.raises(InfeasibleError, match=words):
        build(items, nodes)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"edges": {"present": [[0, 9]]}}, "node 9 is none of 0 to 4"),
        ({"edges": {"present": [[0, 1]], "absent": [[1, 0]]}}, "both present and absent"),
        ({"free": "K9"}, "unknown small graph"),
        ({"planar": {"x": 1}}, "unknown key"),
        ({"girth": {"min": 3}}, "asks for nothing"),
        ({"symmetry": {"permutations": [[0, 0, 1, 2, 3]]}}, "once"),
        ({"degree": {"sequence": [1]}}, "1 degrees for 5 nodes"),
    ],
)
def test_bad_arguments_are_one_line(item, words):
    with pytest.raises(InputError, match=words) as caught:
        parse([item], 5)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "item",
    [
        {"edges": {"present": [[0, 1]], "max": 7}},
        {"degree": {"min": 1, "max": 3, "nodes": [0, 2]}},
        {"free": {"of": "claw", "induced": True}},
        {"free": {"edges": [[0, 1], [1, 2]]}},
        {"symmetry": {"blocks": 1}},
        {"diameter": {"max": 3}},
        {"planar": {}},
    ],
)
def test_specs_read_back(item):
    (constraint,), layout = parse([item], 5)
    again = parse_constraint({constraint.name: constraint.to_spec()}, layout.alphabet)
    assert again == constraint


@pytest.mark.parametrize(
    ("items", "counts"),
    [
        ([{"connected": {}}], {4: 6, 5: 21}),
        ([{"connected": {}}, {"free": "triangle"}], {4: 3, 5: 6}),
        ([{"connected": {}}, {"girth": {"min": 5}}], {4: 2, 5: 4}),
    ],
)
def test_enumeration_agrees_with_nauty(items, counts):
    """Isomorphism classes, as counted by nauty's geng (and by hand for four nodes)."""
    for nodes, expected in counts.items():
        constraints, layout = parse(items, nodes)
        grid = layout.alphabet.grid
        classes: list[Any] = []
        for text in texts(layout.max_length):
            if all(constraint.holds(text).ok for constraint in constraints):
                graph = nx.from_numpy_array(grid.matrix(text))
                if not any(nx.faster_could_be_isomorphic(graph, g) and nx.is_isomorphic(graph, g) for g in classes):
                    classes.append(graph)
        assert len(classes) == expected
