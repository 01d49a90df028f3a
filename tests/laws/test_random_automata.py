"""Random automata over random regions, fused and conditioned, against enumeration on four letters.

Total variation is judged as in ``test_exactness``.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints.chain import make_program
from seqdiff.constraints.compiler import DeadEnd, build_layers
from seqdiff.constraints.factor import factor_layer
from seqdiff.constraints.parts import Scan
from seqdiff.constraints.readers import Reader, make_variables, read_scan
from seqdiff.core.layout import Layout, Region
from tests.helpers import TINY, expected_variation, texts, total_variation

LENGTH, DRAWS = 7, 12_000


class RandomDfa:
    """A partial random automaton with random accepting states."""

    def __init__(self, rng: np.random.Generator, states: int):
        self.start = 0
        self._table = rng.integers(0, states, (states, 4)).astype(np.int32)
        self._table[rng.random(self._table.shape) < 0.15] = -1
        self._accepting = rng.random(states) < 0.6

    def row(self, state: int) -> np.ndarray:
        return self._table[state]

    def accepts(self, state: int) -> bool:
        return bool(self._accepting[state])

    def reads(self, text: str) -> bool:
        state = self.start
        for letter in text:
            state = self._table[state]["ABCD".index(letter)]
            if state < 0:
                return False
        return self.accepts(state)


def readers(scans: tuple[Scan, ...], length: int) -> list[Reader]:
    layout = Layout(TINY, length, length)
    variables = make_variables(layout, (), (), keep_order=True)
    found = [read_scan(scan, variables, layout) for scan in scans]
    return [reader for reader in found if reader is not None]


@pytest.mark.parametrize("seed", range(8))
def test_random_automata(seed: int):
    rng = np.random.default_rng(seed)
    automata = [RandomDfa(rng, states) for states in (5, 3)]
    ends = sorted(rng.choice(np.arange(1, LENGTH + 1), 2, replace=False).tolist())
    regions = [Region(), Region(ends[0], ends[1])]
    allowed = rng.random((LENGTH, 4)) < 0.9
    scans = tuple(Scan(automaton, region) for automaton, region in zip(automata, regions, strict=True))
    scale = [1.0, 1.0, 4.0, 20.0][seed % 4]
    log_p = np.asarray(jax.nn.log_softmax(jnp.asarray(scale * rng.normal(size=(LENGTH, 4)), jnp.float32)))
    weights = {}
    for text in texts(LENGTH):
        fits = all(allowed[i, "ABCD".index(letter)] for i, letter in enumerate(text))
        if fits and all(a.reads(r.cut(text)) for a, r in zip(automata, regions, strict=True)):
            weights[text] = float(np.exp(sum(log_p[i, "ABCD".index(letter)] for i, letter in enumerate(text))))
    if not weights:
        with pytest.raises(DeadEnd):
            build_layers(allowed, readers(scans, LENGTH), min_length=LENGTH, budget=100)
        return
    layers = build_layers(allowed, readers(scans, LENGTH), min_length=LENGTH, budget=100)
    program = make_program(layers, LENGTH + 2)
    proposal = jnp.broadcast_to(jnp.pad(jnp.asarray(log_p), ((0, 2), (0, 0))), (DRAWS, LENGTH + 2, 4))
    canvas = jnp.full((DRAWS, LENGTH + 2), TINY.mask, jnp.int32)
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    found = jax.jit(type(program).condition)(
        program, keys, proposal, canvas, jnp.full((DRAWS,), LENGTH, jnp.int32), canvas
    )
    total = sum(weights.values())
    assert float(found.log_evidence[0]) == pytest.approx(np.log(total), abs=2e-5)
    marginals = np.zeros((LENGTH + 2, 4))
    for text, weight in weights.items():
        marginals[np.arange(LENGTH), ["ABCD".index(letter) for letter in text]] += weight / total
    np.testing.assert_allclose(found.marginals[0], marginals, atol=1e-5)
    drawn = [TINY.decode(row[:LENGTH]) for row in np.asarray(found.witness)]
    assert set(drawn) <= set(weights)
    assert total_variation(drawn, weights) < 1.5 * expected_variation(DRAWS, weights) + 0.004


def test_factoring_loses_nothing():
    rng = np.random.default_rng(0)
    for choices in (1, 2):
        base = rng.integers(-1, 30, (6, 5 * choices))
        table = base[rng.integers(0, 6, 90)].astype(np.int32)
        odd = rng.random(90) < 0.7
        table[odd, rng.integers(0, 5 * choices, odd.sum())] = rng.integers(-1, 30, odd.sum())
        layer = factor_layer(table)
        rebuilt = layer.rows[layer.base].copy()
        for state, symbol in enumerate(layer.symbol):
            if symbol < table.shape[1]:
                rebuilt[state, symbol] = layer.target[state]
        np.testing.assert_array_equal(rebuilt, table)
        assert len(layer.rows) <= 20


def test_layers_are_minimal():
    """No two states of a layer accept the same continuations."""
    rng = np.random.default_rng(4)
    layers = build_layers(
        np.ones((5, 4), bool), readers((Scan(RandomDfa(rng, 6), Region()),), 5), min_length=5, budget=100
    )
    for i in range(5):
        rows = {tuple(row) for row in layers.targets[i].tolist()}
        assert len(rows) == len(layers.targets[i])
        assert all(any(target >= 0 for target in row) for row in rows)
    assert len(set(itertools.chain(*layers.targets[4].tolist()))) <= 2
