"""Against enumeration on four letters: the program's draw, marginals and evidence, and the law of the whole loop.

Total variation is compared with what as many true draws would show on average, times 1.5 plus 0.004. Its standard
deviation is far below a tenth of its mean here, so a right sampler fails with probability below 1e-6 per case.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.layout import Layout
from seqdiff.process.noise import Process
from seqdiff.sampling.batches import Plan, sample_batches
from seqdiff.sampling.planners import Confidence, EntropyBound, Random
from tests.helpers import TINY, Independent, Neighbours, conditional, expected_variation, parse, texts, total_variation

DRAWS = 12_000
CASES = {
    "contains": ([{"pattern": {"regex": "AB"}}], (6, 6), 4096),
    "avoid": ([{"pattern": {"regex": "A.?A", "exactly": 0}}, {"run": {"max": 2}}], (6, 6), 4096),
    "exactly two overlapping": ([{"pattern": {"regex": "AA|ABA", "exactly": 2}}], (6, 6), 4096),
    "at most, counts": (
        [{"pattern": {"prosite": "[AB]-x-{C}", "at_most": 2}}, {"count": {"letters": "CD", "min": 1, "max": 3}}],
        (6, 6),
        4096,
    ),
    "regions and positions": (
        [
            {"pattern": {"regex": "^A|B$", "region": "2-4"}},
            {"fixed": {6: "D"}},
            {"forbid": {"positions": "3", "letters": "C"}},
            {"allow": {"positions": "1-2", "letters": "ABC"}},
        ],
        (6, 6),
        4096,
    ),
    "matches": ([{"pattern": {"regex": "A*(BC|CB).*D", "matches": True}}], (6, 6), 4096),
    "anchors": (
        [{"pattern": {"prosite": "<x(0,2)-A-B", "exactly": 1}}, {"pattern": {"prosite": "C-[D>]"}}],
        (6, 6),
        4096,
    ),
    "length range": ([{"count": {"letters": "A", "exactly": 2}}, {"pattern": {"regex": "AB"}}], (3, 6), 4096),
    "one placement": ([{"pattern": {"regex": "A...B"}}, {"forbid": {"positions": 2, "letters": "D"}}], (7, 7), 8),
    "shared letters": (
        [{"tied": {"groups": [[1, 4], [2, 6]], "pool": "sum"}}, {"count": {"letters": "A", "min": 2, "max": 3}}],
        (6, 6),
        4096,
    ),
    "copies": ([{"tied": {"period": 3, "pool": "sum"}}, {"pattern": {"regex": "AB|C.C", "exactly": 0}}], (6, 6), 4096),
    "palindrome": (
        [{"tied": {"palindrome": "1-6", "pool": "sum"}}, {"count": {"letters": "AC", "max": 3, "region": "2-6"}}],
        (6, 6),
        4096,
    ),
    "forest": (
        [
            {"pair": {"positions": [[1, 6], [5, 2], [2, 3]], "allowed": ["AA", "BC", ["CD", "D"]]}},
            {"sum": {"weights": {"A": 1, "B": -1}, "min": 0, "max": 1}},
        ],
        (6, 6),
        4096,
    ),
    "whole, one placement": ([{"pattern": {"regex": ".*A...B.*", "matches": True}}], (7, 7), 8),
}


def _proposal(length: int, seed: int, scale: float = 1.0) -> np.ndarray:
    logits = scale * np.random.default_rng(seed).normal(size=(length, 4))
    return np.asarray(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32)))


@pytest.mark.parametrize("name", CASES)
def test_program_equals_enumeration(name: str):
    items, (low, high), budget = CASES[name]
    constraints = parse(items)
    compiled = compile_constraints(constraints, Layout(TINY, low, high), budget=budget)
    assert ("placement" in name) == any(part.route == "path" for part in compiled.parts)
    program = compiled.program(high)
    log_p = _proposal(high, seed=len(name))
    for length in compiled.lengths().tolist():
        weights = conditional(constraints, log_p, [length])
        rows = DRAWS if length == high else 64
        lengths = jnp.full((rows,), length, jnp.int32)
        canvas = jnp.full((rows, high), TINY.mask, jnp.int32)
        proposal = jnp.broadcast_to(log_p, (rows, *log_p.shape))
        keys = jax.random.split(jax.random.key(7), rows)
        found = jax.jit(type(program).condition)(program, keys, proposal, canvas, lengths, canvas)
        drawn = [TINY.decode(row[:length]) for row in np.asarray(found.witness)]
        assert set(drawn) <= set(weights)
        if "placement" not in name:
            assert float(found.log_evidence[0]) == pytest.approx(np.log(sum(weights.values())), abs=1e-5)
            marginals = np.zeros((high, 4))
            for text, weight in weights.items():
                marginals[np.arange(length), [TINY.letters.index(letter) for letter in text]] += weight
            np.testing.assert_allclose(found.marginals[0], marginals / sum(weights.values()), atol=1e-5)
        if length == high:
            assert total_variation(drawn, weights) < 1.5 * expected_variation(rows, weights) + 0.004


def _run(denoiser, program, compiled, size: int, planner, steps: int) -> list[str]:
    plan = Plan(
        canvas=np.full(size, TINY.mask, np.int32),
        lengths=compiled.lengths(),
        bias=np.zeros((size, 4), np.float32),
        steps=steps,
        temperature=1.0,
        planner=planner,
        process=Process(mask=TINY.mask),
    )
    batches = sample_batches(denoiser, program, plan, seed=11, rows=DRAWS, batch=DRAWS)
    return [TINY.decode(row[row < 4]) for _, samples in batches for row in samples.tokens]


@pytest.mark.parametrize(
    "planner", [Random(), Confidence(), EntropyBound(gamma=0.5)], ids=["random", "confidence", "eb"]
)
@pytest.mark.parametrize("steps", [1, 3, 6])
def test_loop_is_exact_for_independent_models(planner, steps: int):
    constraints = parse([{"pattern": {"regex": "AB", "exactly": 1}}, {"count": {"letters": "C", "max": 2}}])
    compiled = compile_constraints(constraints, Layout(TINY, 6, 6))
    log_p = _proposal(6, seed=1)
    drawn = _run(Independent(jnp.asarray(log_p)), compiled.program(6), compiled, 6, planner, steps)
    weights = conditional(constraints, log_p, [6])
    assert set(drawn) <= set(weights)
    assert total_variation(drawn, weights) < 1.5 * expected_variation(DRAWS, weights) + 0.004


def test_loop_at_length_eight():
    constraints = parse([{"pattern": {"regex": "AB.{2,3}BA"}}, {"run": {"max": 2}}])
    compiled = compile_constraints(constraints, Layout(TINY, 8, 8))
    log_p = _proposal(8, seed=2)
    drawn = _run(Independent(jnp.asarray(log_p)), compiled.program(8), compiled, 8, EntropyBound(), 4)
    weights = conditional(constraints, log_p, [8])
    assert set(drawn) <= set(weights)
    assert total_variation(drawn, weights) < 1.5 * expected_variation(DRAWS, weights) + 0.004


def test_one_position_per_step_follows_the_any_order_law():
    """With context: the random planner's law is the average over orders of the product of conditionals."""
    length, size = 4, 5
    table = np.random.default_rng(5).normal(size=(size, size, 4)).astype(np.float32)
    log_p = np.asarray(jax.nn.log_softmax(jnp.asarray(table)))
    weights = dict.fromkeys(texts(length), 0.0)

    def walk(canvas: tuple[int, ...], probability: float) -> None:
        open = [i for i in range(length) if canvas[i] == 4]
        if not open:
            weights["".join("ABCD"[c] for c in canvas)] += probability
            return
        for i in open:
            left = canvas[i - 1] if i > 0 else 4
            right = canvas[i + 1] if i < length - 1 else 4
            for v in range(4):
                filled = (*canvas[:i], v, *canvas[i + 1 :])
                walk(filled, probability / len(open) * float(np.exp(log_p[left, right, v])))

    walk((4,) * length, 1.0)
    compiled = compile_constraints([], Layout(TINY, length, length))
    drawn = _run(Neighbours(jnp.asarray(table)), compiled.program(length), compiled, length, Random(), length)
    assert total_variation(drawn, weights) < 1.5 * expected_variation(DRAWS, weights) + 0.004
