"""The oracles against plain enumeration in numpy, for every process; padding, options and compilation."""

import itertools
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.models.oracles import HiddenMarkovLaw, JointLaw, Law, MarkovLaw, joint_of, stationary
from seqdiff.process.noise import PROCESSES, Process

V, L, S, B = 3, 5, 4, 7
EVERY = {name: Process(mask=V, uniform=share) for name, share in PROCESSES.items()}


predict = jax.jit(lambda law, *arguments: law(*arguments))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.7), shape[:-1]).astype(np.float32)


def laws(**options) -> dict[str, Law]:
    table = np.log(numbers(V**L, seed=1)).reshape((V,) * L)
    start, transition, emission = numbers(V, seed=2), numbers(V, V, seed=3), numbers(S, V, seed=4)
    return {
        "joint": JointLaw(jnp.asarray(table), **options),
        "markov": MarkovLaw(jnp.asarray(start), jnp.asarray(transition), **options),
        "hidden": HiddenMarkovLaw(
            jnp.asarray(numbers(S, seed=5)), jnp.asarray(numbers(S, S, seed=6)), jnp.asarray(emission), **options
        ),
    }


def every_text(length: int = L) -> np.ndarray:
    return np.array(list(itertools.product(range(V), repeat=length)), np.int32)


@cache
def probabilities(name: str) -> np.ndarray:
    """Of every text, from the definition."""
    law: Any = laws()[name]
    if name == "joint":
        return np.exp(np.asarray(law.table, float)).ravel()
    texts, start, later = every_text(), np.asarray(law.start, float), np.asarray(law.transition, float)
    if name == "markov":
        return start[texts[:, 0]] * later[texts[:, :-1], texts[:, 1:]].prod(axis=1)
    paths = np.array(list(itertools.product(range(S), repeat=L)))
    weights = start[paths[:, 0]] * later[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    emission = np.asarray(law.emission, float)
    return np.array([(weights * emission[paths, text].prod(axis=1)).sum() for text in texts])


def posterior(p: np.ndarray, process: Process, canvas: np.ndarray, level: float, hollow: bool) -> np.ndarray:
    """P(x_i | z) of one row by Bayes' rule over all texts."""
    texts, found = every_text(), np.zeros((L, V))
    noise = np.where(canvas == V, 1.0 - process.uniform, process.uniform / V)
    likelihood = (1.0 - level) * (canvas == texts) + level * noise
    for i in range(L):
        factors = np.delete(likelihood, i, axis=1) if hollow else likelihood
        np.add.at(found[i], texts[:, i], p * factors.prod(axis=1))
    return found / found.sum(axis=-1, keepdims=True)


def canvases(process: Process, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the process can produce, some of which the law finds surprising."""
    rng = np.random.default_rng(seed)
    high = V if process.uniform == 1.0 else V + 1
    return rng.integers(0, high, (B, L)).astype(np.int32), rng.uniform(0.1, 0.9, B).astype(np.float32)


@pytest.mark.parametrize("hollow", [False, True])
@pytest.mark.parametrize("process", EVERY)
@pytest.mark.parametrize("name", laws())
def test_predictions_are_posteriors(name: str, process: str, hollow: bool):
    law = laws(process=EVERY[process], leave_one_out=hollow)[name]
    canvas, level = canvases(law.process)
    logits = np.asarray(predict(law, jnp.asarray(canvas), jnp.ones((B, L), bool), jnp.asarray(level)))
    p = probabilities(name)
    wanted = [posterior(p, law.process, canvas[b], level[b], hollow) for b in range(B)]
    np.testing.assert_allclose(np.exp(logits), wanted, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("name", laws())
def test_log_prob_and_pair_marginals(name: str):
    law = laws()[name]
    texts = every_text()
    p = probabilities(name)
    np.testing.assert_allclose(np.exp(law.log_prob(jnp.asarray(texts))), p, rtol=1e-4)
    for lag in (1, 3):
        wanted = np.zeros((L - lag, V, V))
        for i in range(L - lag):
            np.add.at(wanted[i], (texts[:, i], texts[:, i + lag]), p)
        np.testing.assert_allclose(law.pair_marginals(L, lag), wanted, atol=1e-6)
    prefix = np.exp(law.log_prob(jnp.asarray(texts), jnp.broadcast_to(jnp.arange(L) < 2, texts.shape)))
    same = (texts[:, None, :2] == texts[None, :, :2]).all(axis=-1)
    np.testing.assert_allclose(prefix, same @ p, rtol=1e-4)


@pytest.mark.parametrize("process", EVERY)
@pytest.mark.parametrize("name", laws())
def test_padding_has_no_influence(name: str, process: str):
    """A row padded to a longer canvas, filled with anything, is the row alone."""
    law = laws(process=EVERY[process])[name]
    canvas, level = canvases(law.process)
    alone = predict(law, jnp.asarray(canvas[:, :3]), jnp.ones((B, 3), bool), jnp.asarray(level))
    rng = np.random.default_rng(3)
    for size in (L, 11):
        wide = np.concatenate([canvas[:, :3], rng.integers(0, V + 3, (B, size - 3))], axis=1).astype(np.int32)
        valid = jnp.broadcast_to(jnp.arange(size) < 3, (B, size))
        padded = np.asarray(predict(law, jnp.asarray(wide), valid, jnp.asarray(level)))
        assert padded.shape == (B, size, V)
        assert np.isfinite(padded).all()
        np.testing.assert_allclose(padded[:, :3], alone, atol=2e-5)


@pytest.mark.parametrize("process", EVERY)
def test_chain_table_and_hidden_chain_agree(process: str):
    chain = laws(process=EVERY[process])["markov"]
    assert isinstance(chain, MarkovLaw)
    table = joint_of(chain, L)
    hidden = HiddenMarkovLaw(chain.start, chain.transition, jnp.eye(V), process=chain.process)
    canvas, level = canvases(chain.process)
    arguments = jnp.asarray(canvas), jnp.ones((B, L), bool), jnp.asarray(level)
    np.testing.assert_allclose(predict(table, *arguments), predict(chain, *arguments), atol=2e-5)
    np.testing.assert_allclose(np.exp(predict(hidden, *arguments)), np.exp(predict(chain, *arguments)), atol=1e-5)
    assert (table.texts == every_text()).all()


@pytest.mark.parametrize("name", laws())
def test_absorbing_letters_are_certain_at_every_level(name: str):
    law = laws()[name]
    canvas, _ = canvases(law.process)
    found = [predict(law, jnp.asarray(canvas), jnp.ones((B, L), bool), jnp.full(B, level)) for level in (0.0, 0.4, 1.0)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    rows, places = np.nonzero(canvas < V)
    p = np.exp(np.asarray(found[0]))[rows, places, canvas[rows, places]]
    np.testing.assert_allclose(p, 1.0, atol=1e-6)


def test_zeros_in_the_law_and_canvases_that_it_rules_out():
    transition = jnp.asarray([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    start = jnp.asarray([0.5, 0.5, 0.0])
    chain = MarkovLaw(start, transition)
    canvas = jnp.asarray([[V, V, 2, V, V], [0, 0, 2, V, 2]], jnp.int32)
    for law in (chain, HiddenMarkovLaw(start, transition, jnp.eye(V)), joint_of(chain, 5)):
        logits = np.asarray(predict(law, canvas, jnp.ones(canvas.shape, bool), jnp.ones(2)))
        assert np.isfinite(logits).all()
        assert logits[0].argmax(axis=-1).tolist() == [0, 1, 2, 0, 1]
        assert logits[1, [0, 1, 2, 4]].argmax(axis=-1).tolist() == [0, 0, 2, 2]
        assert np.asarray(law.log_prob(canvas[1:, :3])) == -np.inf


def test_long_chains_stay_accurate():
    """Two halves that contradict each other, and a thousand letters of a chain that hardly moves."""
    sticky = MarkovLaw(
        jnp.full(2, 0.5), jnp.asarray([[0.999, 0.001], [0.001, 0.999]]), process=Process(mask=2, uniform=1.0)
    )
    canvas = jnp.asarray(np.repeat([0, 1], 500)[None], jnp.int32)
    p = np.exp(np.asarray(predict(sticky, canvas, jnp.ones(canvas.shape, bool), jnp.full(1, 0.5))))[0]
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-5)
    assert p[:490, 0].min() > 0.999
    assert p[510:, 1].min() > 0.999
    np.testing.assert_allclose(p, p[::-1, ::-1], atol=1e-4)


@pytest.mark.parametrize("name", laws())
def test_draws_follow_the_law(name: str):
    law, n = laws()[name], 20_000
    drawn = np.asarray(law.sample(jax.random.key(0), n, L))
    assert drawn.shape == (n, L)
    counts = np.bincount(np.ravel_multi_index(tuple(drawn.T), (V,) * L), minlength=V**L)
    p = probabilities(name)
    # Mean total variation of n true draws is at most sum sqrt(p (1 - p) / (2 pi n)); its deviation is a tenth of that.
    assert 0.5 * np.abs(counts / n - p).sum() < 1.5 * np.sqrt(p * (1 - p) / (2 * np.pi * n)).sum()


@pytest.mark.parametrize("name", laws())
def test_jit_vmap_and_new_tables_without_compiling(name: str):
    law = laws()[name]
    canvas, level = canvases(law.process)
    arguments = jnp.asarray(canvas), jnp.ones((B, L), bool), jnp.asarray(level)
    expected = np.asarray(predict(law, *arguments))
    np.testing.assert_allclose(law(*arguments), expected, atol=1e-5)
    compiled = predict._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    predict(jax.tree.map(lambda leaf: leaf * 1.0, law), *arguments)
    assert predict._cache_size() == compiled  # pyright: ignore[reportAttributeAccessIssue]
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), law)
    both = jax.jit(jax.vmap(lambda law: law(*arguments)))(stacked)
    np.testing.assert_allclose(both, np.stack([expected, expected]), atol=1e-5)


def test_stationary_law():
    transition = jnp.asarray(numbers(V, V, seed=8))
    pi = stationary(transition)
    np.testing.assert_allclose(pi @ transition, pi, atol=1e-6)
    assert float(pi.sum()) == pytest.approx(1.0, abs=1e-6)
