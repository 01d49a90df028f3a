"""Guidance against enumeration and formulas: what the wrappers compute, and what they cost."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.process.noise import Process
from seqdiff.sampling.batches import sample_batches
from seqdiff.sampling.guidance import ClassifierFree, Predicted, fit_predictor, guide, steer
from tests.helpers import TINY, expected_variation, make_plan, texts, total_variation

register = jax.tree_util.register_dataclass
SIZE = 4
TEXTS = texts(SIZE)
IDS = np.array([TINY.encode(text) for text in TEXTS])
RNG = np.random.default_rng(2)
LAW = RNG.dirichlet(np.full(len(TEXTS), 0.5))
LABEL = RNG.uniform(0.02, 0.98, size=len(TEXTS))
CALLS = []


def agreeing(canvas):
    """Whether each text agrees with each canvas."""
    ids = jnp.asarray(IDS)[None]
    return jnp.all((canvas[:, None, :] == 4) | (canvas[:, None, :] == ids), axis=2)


@partial(register, data_fields=["law"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Exact:
    """Exact conditionals of a law over texts of four letters."""

    law: jax.Array

    def __call__(self, canvas, valid, time, conditions=None):
        weight = jnp.where(agreeing(canvas), self.law[None], 0.0)
        return jnp.log(jnp.einsum("bn,nlv->blv", weight, jax.nn.one_hot(IDS, 4)) + 1e-30)


@partial(register, data_fields=["law", "label"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class ExactLabel:
    """``log p(y | z)`` of a label with probability ``label`` given the text."""

    law: jax.Array
    label: jax.Array

    def __call__(self, canvas, valid, time):
        weight = jnp.where(agreeing(canvas), self.law[None], 0.0)
        return jnp.log(weight @ self.label) - jnp.log(jnp.sum(weight, axis=1))


@partial(register, data_fields=["table"], meta_fields=["self_conditioning", "process"])
@dataclass(frozen=True, eq=False)
class Counting:
    """Logits by the canvas and a bias per row; notes the rows of every call that is traced."""

    table: jax.Array
    self_conditioning: bool = False
    process: Process | None = None

    def __call__(self, canvas, valid, time, conditions=None, previous=None):
        CALLS.append(canvas.shape[0])
        logits = self.table[canvas]
        if previous is not None:
            logits = logits + previous
        if conditions is not None:
            logits = logits + conditions["bias"]
        return logits * (1.0 + time)[:, None, None]


@partial(register, data_fields=["slope"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class LogLinear:
    """A predictor that is linear in the one-hot canvas."""

    slope: jax.Array

    def soft(self, onehot, valid, time):
        inside = jnp.where(valid[..., None], onehot, 0.0)
        return jnp.einsum("blw,lw->b", inside, self.slope) - 2.0 * time

    def __call__(self, canvas, valid, time):
        return self.soft(jax.nn.one_hot(canvas, 5), valid, time)


def canvases(rows: int = 11, size: int = SIZE):
    rng = np.random.default_rng(7)
    canvas = jnp.asarray(rng.integers(0, 5, size=(rows, size)), jnp.int32)
    return canvas, jnp.ones((rows, size), bool), jnp.asarray(rng.uniform(size=rows), jnp.float32)


COUNTING = Counting(jnp.asarray(RNG.normal(size=(5, 4)), jnp.float32))
BIAS = {"bias": jnp.asarray(RNG.normal(size=(11, SIZE, 4)), jnp.float32)}
NULL = {"bias": jnp.zeros((1, SIZE, 4))}


def log_p(logits):
    return jax.nn.log_softmax(logits, axis=-1)


@pytest.mark.parametrize("null", [NULL, None], ids=["doubled", "two calls"])
def test_classifier_free_is_its_formula(null):
    seen = canvases()
    with_them, without = COUNTING(*seen, BIAS), COUNTING(*seen, null)
    CALLS.clear()
    found = guide(COUNTING, null, 2.5)(*seen, BIAS)
    assert len(CALLS) == (1 if null else 2)
    assert sum(CALLS) == 22
    expected = log_p(2.5 * log_p(with_them) - 1.5 * log_p(without))
    np.testing.assert_allclose(log_p(found), expected, atol=1e-5)


def test_previous_predictions_reach_both_halves():
    aware = Counting(COUNTING.table, True, Process(mask=4, uniform=1.0))
    guided = Predicted(ClassifierFree(aware, NULL, 0.5), LogLinear(jnp.zeros((SIZE, 5))), 1.0)
    assert guided.self_conditioning
    assert guided.process == aware.process
    seen, previous = canvases(), jnp.asarray(RNG.dirichlet(np.ones(4), size=(11, SIZE)), jnp.float32)
    expected = 0.5 * log_p(aware(*seen, BIAS, previous)) + 0.5 * log_p(aware(*seen, NULL, previous))
    np.testing.assert_allclose(guided(*seen, BIAS, previous=previous), expected, atol=1e-5)
    assert not ClassifierFree(COUNTING, NULL, 0.5).self_conditioning
    assert ClassifierFree(Exact(jnp.asarray(LAW)), NULL, 0.5).process is None


def test_guidance_that_changes_nothing_costs_nothing():
    seen = canvases()
    assert guide(COUNTING, NULL, 1.0) is COUNTING
    assert guide(COUNTING, NULL, 1) is COUNTING
    assert steer(COUNTING, LogLinear(jnp.zeros((SIZE, 5))), 0.0) is COUNTING
    without = guide(COUNTING, NULL, 0.0)
    CALLS.clear()
    np.testing.assert_array_equal(jax.jit(lambda d: d(*seen, BIAS))(without), COUNTING(*seen, NULL))
    assert CALLS == [11, 11]


def test_letters_that_are_ruled_out_stay_finite():
    certain = Counting(jnp.where(jnp.eye(5, 4) > 0, 0.0, -jnp.inf).at[4].set(0.0))
    assert jnp.isfinite(guide(certain, NULL, 3.0)(*canvases(), BIAS)).all()


def test_another_strength_compiles_nothing():
    seen = canvases()
    run = jax.jit(lambda d: d(*seen, BIAS))
    CALLS.clear()
    results = [run(guide(COUNTING, NULL, strength)) for strength in (0.5, 2.0)]
    assert CALLS == [22]
    assert not np.allclose(*results)


@pytest.mark.parametrize("chunk", [1, 3, 9])
def test_exact_guidance_gives_the_conditionals_given_the_label(chunk: int):
    law, label = jnp.asarray(LAW, jnp.float32), jnp.asarray(LABEL, jnp.float32)
    guided = steer(Exact(law), ExactLabel(law, label), 1.0, chunk=chunk)
    canvas, valid, time = canvases(40)
    found, expected = log_p(guided(canvas, valid, time)), log_p(Exact(law * label)(canvas, valid, time))
    there = np.asarray(canvas) == 4
    np.testing.assert_allclose(np.exp(found)[there], np.exp(expected)[there], atol=1e-5)
    assert there.sum() > 20


def test_a_guided_sampler_follows_the_posterior():
    law, label = jnp.asarray(LAW, jnp.float32), jnp.asarray(LABEL, jnp.float32)
    compiled = compile_constraints([], Layout(TINY, SIZE, SIZE))
    plan = make_plan(compiled, SIZE)
    guided = steer(Exact(law), ExactLabel(law, label), 1.0)
    ((_, samples),) = sample_batches(guided, compiled.program(SIZE), plan, seed=1, rows=4000, batch=4000)
    weights = dict(zip(TEXTS, LAW * LABEL, strict=True))
    drawn = [TINY.decode(row) for row in samples.tokens]
    assert total_variation(drawn, weights) < 1.5 * expected_variation(4000, weights) + 0.004
    assert total_variation(drawn, dict(zip(TEXTS, LAW, strict=True))) > 0.15


def test_taylor_equals_exact_where_the_predictor_is_linear():
    canvas, valid, time = canvases()
    valid = valid.at[3:, 3:].set(False)
    predictor = LogLinear(jnp.asarray(RNG.normal(size=(SIZE, 5)), jnp.float32))
    exact = steer(COUNTING, predictor, 1.7)(canvas, valid, time)
    taylor = jax.jit(steer(COUNTING, predictor, 1.7, "taylor"))(canvas, valid, time)
    np.testing.assert_allclose(exact, taylor, atol=1e-5)
    change = predictor.slope[None, :, :4] - jnp.take_along_axis(predictor.slope[None], canvas[..., None], axis=2)
    expected = COUNTING(canvas, valid, time) + jnp.where(valid[..., None], 1.7 * change, 0.0)
    np.testing.assert_allclose(exact, expected, atol=1e-5)


def test_taylor_asks_for_one_gradient():
    seen = canvases()
    predictor = LogLinear(jnp.zeros((SIZE, 5)))
    loops = {}
    for method in ("exact", "taylor"):
        loops[method] = str(jax.make_jaxpr(steer(COUNTING, predictor, 1.0, method))(*seen)).count("scan[")
    assert loops == {"exact": 1, "taylor": 0}


def test_what_does_not_fit_is_refused():
    law = jnp.asarray(LAW, jnp.float32)
    with pytest.raises(InputError, match="did you mean 'taylor'"):
        steer(COUNTING, LogLinear(law), 1.0, "tailor")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs a predictor with a method soft"):
        steer(COUNTING, ExactLabel(law, law), 1.0, "taylor")
    with pytest.raises(InputError, match="at least 1"):
        steer(COUNTING, LogLinear(law), 1.0, chunk=0)
    with pytest.raises(InputError, match=r"shape \(5, 4, 4\) for 11 rows"):
        ClassifierFree(COUNTING, {"bias": jnp.zeros((5, SIZE, 4))}, 2.0)(*canvases(), BIAS)
    with pytest.raises(InputError, match="one finite label per sequence"):
        fit_predictor(Process(mask=4), np.zeros((12, 3), int), np.zeros(11), jax.random.key(0))


def corpus(rows: int = 2000, size: int = 12):
    rng = np.random.default_rng(0)
    length = rng.integers(8, size + 1, size=rows)
    tokens = rng.integers(0, 4, size=(rows, size))
    inside = np.arange(size)[None] < length[:, None]
    share = ((tokens == 1) & inside).sum(axis=1) / length
    return np.where(inside, tokens, 5), length, share


@pytest.mark.parametrize("uniform", [0.0, 1.0], ids=["absorbing", "uniform"])
def test_a_classifier_learns_a_rule_and_its_own_ignorance(uniform: float):
    tokens, length, share = corpus()
    process = Process(mask=4, uniform=uniform)
    labels = (share > 0.3).astype(int)
    fit = fit_predictor(process, tokens, labels, jax.random.key(1), length=length, steps=600)
    assert fit.held_out > 0.85 * fit.baseline
    valid = jnp.arange(12)[None] < jnp.asarray(length)[:, None]
    wanted = fit.predictor.at(1)
    clean = np.asarray(wanted(jnp.asarray(tokens), valid, jnp.zeros(len(labels))))
    assert ((clean > np.log(0.5)) == labels).mean() > 0.95
    noise = jnp.where(valid, process.noise(jax.random.key(3), tokens.shape), 5)
    np.testing.assert_allclose(np.exp(wanted(noise, valid, jnp.ones(len(labels)))).mean(), labels.mean(), atol=0.06)
    both = np.exp(clean) + np.exp(fit.predictor.at(0)(jnp.asarray(tokens), valid, jnp.zeros(len(labels))))
    np.testing.assert_allclose(both, 1.0, atol=1e-5)


def test_a_regressor_learns_a_rule_and_steers():
    tokens, length, share = corpus()
    fit = fit_predictor(Process(mask=4), tokens, 3.0 * share + 1.0, jax.random.key(2), length=length, steps=600)
    assert fit.held_out > fit.baseline + 0.2
    canvas = jnp.full((1, 12), 4).at[0, :3].set(jnp.asarray([0, 2, 3]))
    seen = canvas, jnp.ones((1, 12), bool), jnp.full((1,), 0.75)
    for method in ("exact", "taylor"):
        up = Predicted(COUNTING, fit.predictor.at(3.0), 1.0, method)(*seen) - COUNTING(*seen)
        down = Predicted(COUNTING, fit.predictor.at(0.5), 1.0, method)(*seen) - COUNTING(*seen)
        assert (up[0, 5, 1] > up[0, 5, jnp.asarray([0, 2, 3])]).all()
        assert (down[0, 5, 1] < down[0, 5, jnp.asarray([0, 2, 3])]).all()
