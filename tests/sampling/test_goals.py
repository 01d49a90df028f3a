"""Goals: particles against enumeration, host against compiled, regressors, and the properties that a spec can name.

Expectations over designs are compared within four standard errors of their mean (a right sampler fails once in 16,000);
laws by total variation, as in ``tests/laws/test_exactness.py``.
"""

import itertools
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.properties import BACKGROUND, properties
from seqdiff.request.goals import PROPERTIES, PropertyGoal, goals_to_spec, parse_goals
from seqdiff.sampling.batches import sample_batches
from seqdiff.sampling.goals import (
    GoalError,
    HostGoal,
    JaxGoal,
    between,
    fit_regressor,
    goal_failure,
    maximise,
    minimise,
    target,
)
from tests.helpers import TINY, Independent, expected_variation, make_plan, parse, texts, total_variation

SIZE = 4
TEXTS = texts(SIZE)
IDS = np.array([TINY.encode(text) for text in TEXTS])
CONSTRAINTS = parse([{"pattern": {"regex": "AB"}}, {"count": {"letters": "C", "max": 1}}])
HOLDS = np.array([all(constraint.holds(text).ok for constraint in CONSTRAINTS) for text in TEXTS])
RNG = np.random.default_rng(4)
LOG_P = np.asarray(jax.nn.log_softmax(jnp.asarray(RNG.normal(size=(SIZE, 4)), jnp.float32)))
INDEPENDENT = LOG_P[np.arange(SIZE), IDS].sum(axis=1)
JOINT = np.asarray(jax.nn.log_softmax(jnp.asarray(2.0 * RNG.normal(size=len(TEXTS)), jnp.float32)))


@partial(jax.tree_util.register_dataclass, data_fields=["log_joint"], meta_fields=[])
@dataclass(frozen=True)
class Exact:
    """The exact conditionals of a law over the texts of four letters."""

    log_joint: jax.Array

    def __call__(self, canvas, valid, time, conditions=None):
        agrees = (canvas[:, None, :] == 4) | (canvas[:, None, :] == jnp.asarray(IDS)[None])
        weight = jnp.where(agrees.all(axis=2), jnp.exp(self.log_joint)[None], 0.0)
        return jnp.log(jnp.einsum("bn,nlv->blv", weight, jax.nn.one_hot(IDS, 4)) + 1e-30)


MODELS = {
    "independent": (Independent(jnp.asarray(LOG_P)), INDEPENDENT),
    "joint": (Exact(jnp.asarray(JOINT)), JOINT),
}


def letters_and_ends(tokens, length):
    """A number that depends on all letters, the ends most."""
    valid = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
    count = jnp.sum(valid & (tokens == 3), axis=1).astype(jnp.float32)
    return 1.5 * count - 2.0 * (tokens[:, 0] == tokens[:, SIZE - 1]).astype(jnp.float32)


def same_on_host(sequences: list[str]) -> list[float]:
    return [1.5 * text.count("D") - 2.0 * (text[0] == text[SIZE - 1]) for text in sequences]


POTENTIAL = np.array(same_on_host(TEXTS))


def run(denoiser, goals, *, particles: int, rows: int, constraints=CONSTRAINTS):
    compiled = compile_constraints(constraints, Layout(TINY, SIZE, SIZE))
    plan = make_plan(compiled, SIZE, particles=particles, goals=goals)
    batches = sample_batches(denoiser, compiled.program(SIZE), plan, seed=5, rows=rows, batch=rows * particles)
    (samples,) = [samples for _, samples in batches]
    return [TINY.decode(row) for row in samples.tokens], samples


@pytest.mark.parametrize(("model", "particles"), [("independent", 8), ("joint", 16)])
def test_particles_against_enumeration(model: str, particles: int):
    """The normaliser is unbiased, and designs approach the tilted law."""
    denoiser, log_law = MODELS[model]
    weights = {text: float(np.exp(log_law[i] + POTENTIAL[i])) for i, text in enumerate(TEXTS) if HOLDS[i]}
    alone, _ = run(denoiser, (), particles=1, rows=2000)
    drawn, samples = run(denoiser, (JaxGoal(letters_and_ends),), particles=particles, rows=2000)
    assert set(drawn) <= set(weights)
    found, expected = np.exp(samples.log_normaliser.astype(float)), sum(weights.values())
    error = found.std() / len(found) ** 0.5
    assert abs(found.mean() - expected) < 4 * error
    assert error < 0.05 * expected
    assert samples.ess.min() < 0.5
    off = total_variation(drawn, weights)
    assert off < 1.5 * expected_variation(2000, weights) + 0.05
    assert total_variation(alone, weights) > 4 * off


def test_without_goals_and_constraints_all_weights_are_one():
    denoiser, _ = MODELS["joint"]
    _, samples = run(denoiser, (), particles=4, rows=50, constraints=[])
    np.testing.assert_allclose(samples.log_normaliser, 0.0, atol=1e-4)
    np.testing.assert_allclose(samples.ess, 1.0, atol=1e-4)


def test_host_and_compiled_goals_give_the_same_designs():
    calls = []

    def counted(sequences: list[str]) -> list[float]:
        calls.append(len(sequences))
        return same_on_host(sequences)

    denoiser, _ = MODELS["joint"]
    inside, a = run(denoiser, (JaxGoal(letters_and_ends, 0.7),), particles=4, rows=60)
    outside, b = run(denoiser, (HostGoal(counted, TINY, 0.7),), particles=4, rows=60)
    assert inside == outside
    np.testing.assert_allclose(a.log_normaliser, b.log_normaliser, atol=1e-5)
    assert calls == [240] * SIZE


def broken(sequences: list[str]) -> list[float]:
    raise ValueError("no such fold")


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (broken, "goal 'stability' failed: ValueError: no such fold"),
        (lambda sequences: [float("nan")] * len(sequences), "goal 'stability' returned nan for "),
        (lambda sequences: [1.0], r"goal 'stability' returned shape \(1,\) for 6 sequences"),
    ],
    ids=["raises", "nan", "shape"],
)
def test_a_failing_host_goal_says_which(fn, words: str):
    goal = HostGoal(fn, TINY, name="stability")
    with pytest.raises(Exception, match=words) as caught:
        jax.block_until_ready(jax.jit(goal.__call__)(jnp.zeros((6, 3), jnp.int32), jnp.full((6,), 3)))
    assert (goal_failure(caught.value) or "").startswith("goal 'stability'")
    assert goal_failure(ValueError("another")) is None
    assert GoalError("x").args == ("x",)


def third(tokens, length):
    return jnp.sum((tokens == 2) & (jnp.arange(tokens.shape[1])[None, :] < length[:, None]), axis=1)


def impossible(tokens, length):
    return jnp.where(tokens[:, 0] == 0, -jnp.inf, 0.0)


def test_potentials():
    tokens, length = jnp.asarray([[2, 2, 0, 2], [0, 2, 2, 2], [2, 2, 2, 2]]), jnp.asarray([4, 2, 3])
    count = JaxGoal(third)
    np.testing.assert_allclose(count(tokens, length), [3, 1, 3])
    np.testing.assert_allclose(maximise(count, 2)(tokens, length), [6, 2, 6])
    np.testing.assert_allclose(minimise(count, 0.5)(tokens, length), [-1.5, -0.5, -1.5])
    np.testing.assert_allclose(target(count, 2.0, 0.5)(tokens, length), [-2, -2, -2])
    np.testing.assert_allclose(between(count, 2.0, 4.0, 0.5)(tokens, length), [0, -2, 0])
    for low, high, width in ((2.0, 1.0, 1.0), (0.0, 1.0, 0.0)):
        with pytest.raises(InputError, match="width above 0"):
            between(count, low, high, width)


def peptides(n: int, low: int, high: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ABCD"), size=rng.integers(low, high + 1))) for _ in range(n)]


def test_a_regressor_recovers_a_linear_rule():
    sequences = peptides(400, 7, 13, seed=1)
    shares = np.array([text.count("A") / len(text) - 2 * text.count("D") / len(text) for text in sequences])
    fit = fit_regressor(sequences, shares + 0.7, TINY)
    assert fit.r2 > 0.999
    assert fit.spearman > 0.999
    words = np.array([sum(a + b == "AB" for a, b in itertools.pairwise(t)) / (len(t) - 1) for t in sequences])
    assert fit_regressor(sequences, words, TINY).r2 < 0.8
    both = fit_regressor(sequences, words, TINY, features=("composition", "words"))
    assert both.r2 > 0.999
    rigid = peptides(300, 6, 6, seed=2)
    noise = np.random.default_rng(3).normal(size=300)
    values = np.array([2.0 * (t[2] == "C") - (t[5] == "A") for t in rigid]) + 0.5 * noise
    sited = fit_regressor(rigid, values, TINY, features=("positions",))
    explained = 1 - 0.25 * noise.var() / values.var()
    assert 0.9 * explained < sited.r2 < 1.1 * explained
    assert dict(sited.curve)[sited.penalty] == max(score for _, score in sited.curve)
    np.testing.assert_allclose(sited.regressor.positions[2, 2] - sited.regressor.positions[2, 0], 2.0, atol=0.4)
    unrelated = fit_regressor(rigid, noise, TINY, features=("positions",))
    assert unrelated.r2 < 0.1
    assert abs(unrelated.spearman) < 0.3
    for fitted, rows, known in ((fit, sequences, shares + 0.7), (both, sequences, words)):
        tokens = np.full((len(rows), 13), TINY.mask, np.int32)
        for out, text in zip(tokens, rows, strict=True):
            out[: len(text)] = TINY.encode(text)
        length = jnp.asarray([len(text) for text in rows])
        np.testing.assert_allclose(jax.jit(fitted.regressor)(jnp.asarray(tokens), length), known, atol=0.02)


def test_goals_add_up_and_may_rule_letters_out():
    sequences = peptides(200, SIZE, SIZE, seed=6)
    regressor = fit_regressor(sequences, [text.count("D") for text in sequences], TINY).regressor
    goals = (maximise(regressor, 3.0), JaxGoal(impossible))
    drawn, samples = run(MODELS["independent"][0], goals, particles=16, rows=300, constraints=[])
    assert "".join(drawn).count("D") > 1.5 * 300 * np.exp(LOG_P[:, 3]).sum()
    assert sum(text[0] == "A" for text in drawn) < 0.1 * len(drawn)
    assert np.isfinite(samples.log_normaliser).all()


def test_regressors_refuse_what_they_cannot_use():
    with pytest.raises(InputError, match="one per sequence"):
        fit_regressor(["AB"] * 12, [1.0, np.nan] * 6, TINY)
    with pytest.raises(InputError, match="too few for 5 folds"):
        fit_regressor(["AB"] * 4, [1.0] * 4, TINY)
    with pytest.raises(InputError, match="did you mean 'words'"):
        fit_regressor(["AB"] * 12, [1.0] * 12, TINY, features=("word",))


def proteins(n: int, size: int) -> tuple[list[str], jax.Array, jax.Array]:
    rng = np.random.default_rng(8)
    length = rng.integers(2, size + 1, size=n)
    tokens = rng.choice(20, size=(n, size), p=BACKGROUND).astype(np.int32)
    sequences = [PROTEIN.decode(row[:k]) for row, k in zip(tokens, length, strict=True)]
    return sequences, jnp.asarray(tokens), jnp.asarray(length, jnp.int32)


@pytest.mark.parametrize("name", PROPERTIES)
def test_compiled_properties_equal_biopython(name: str):
    sequences, tokens, length = proteins(64, 53)
    goal = PropertyGoal(property=name, aim="maximize", weight=1.0)
    expected = [properties(sequence)[name] for sequence in sequences]
    np.testing.assert_allclose(jax.jit(goal.goal())(tokens, length), expected, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(goal.goal(host=True)(tokens, length), np.maximum(expected, -1e4), rtol=1e-6)


def test_spec_goals():
    items = [
        {"property": "gravy", "maximize": 5.0},
        {"property": "instability_index", "minimize": 0.1},
        {"property": "isoelectric_point", "target": 6.0, "width": 0.5},
        {"property": "charge_at_pH7", "target": [-3, 3], "width": 1},
    ]
    goals = parse_goals(items)
    assert goals_to_spec(goals) == items
    assert parse_goals(goals) == goals
    assert [goal.describe() for goal in goals] == [
        "gravy rather high, 5 nats per unit",
        "instability index rather low, 0.1 nats per unit",
        "isoelectric point near 6, give or take 0.5",
        "charge at pH7 within -3 to 3, give or take 1",
    ]
    sequences, tokens, length = proteins(16, 31)
    for goal in goals:
        expected = [goal.potential(sequence) for sequence in sequences]
        np.testing.assert_allclose(goal.goal()(tokens, length), expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            {"property": "instability", "minimize": 1},
            r"goals\[1\]: unknown property .* did you mean 'instability_index'",
        ),
        ({"property": "gravy", "maximise": 1}, "did you mean 'maximize'"),
        ({"property": "gravy"}, "gravy: give one of maximize, minimize and target"),
        ({"property": "gravy", "maximize": 1, "minimize": 1}, "give one of"),
        ({"property": "gravy", "maximize": -1}, "maximize=-1 is not a finite number above 0"),
        ({"property": "gravy", "maximize": 1, "width": 1}, "width goes with target"),
        ({"property": "gravy", "target": 1}, "target needs 'width'"),
        ({"property": "gravy", "target": [1, 0], "width": 1}, "runs backwards"),
        ({"property": "gravy", "target": [1], "width": 1}, r"number or \[low, high\]"),
        ("gravy", "is not a mapping"),
    ],
)
def test_spec_goals_that_cannot_be_used(item: object, words: str):
    with pytest.raises(InputError, match=words):
        parse_goals([item])


def test_properties_are_for_proteins():
    with pytest.raises(InputError, match="not for the tiny letter 'B'"):
        parse_goals([{"property": "gravy", "maximize": 1}])[0].goal(TINY)
    with pytest.raises(InputError, match="must be a list"):
        parse_goals({"property": "gravy"})
