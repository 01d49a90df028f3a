"""Speculation: the law of one position at a time, constraints included, in fewer rounds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from seqdiff.constraints import compile_constraints
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Task, row_keys
from seqdiff.sampling.planners import Confidence, LeftToRight, Order
from seqdiff.sampling.speculative import sample_speculative
from tests.helpers import TINY, Independent, Neighbours, parse, texts

DRAWS, LENGTH = 8000, 4
TABLE = jnp.asarray(np.random.default_rng(5).normal(scale=1.5, size=(5, 5, 4)), jnp.float32)
PROCESS = Process(mask=4)


def draw(items, planner, *, drafts: int, drafter=None, seed: int = 1, draws: int = DRAWS):
    compiled = compile_constraints(parse(items), Layout(TINY, LENGTH, LENGTH))
    task = Task(
        row_keys(seed, jnp.arange(draws)),
        jnp.full((draws, LENGTH), 4),
        jnp.full((draws,), LENGTH),
        jnp.zeros((LENGTH, 4)),
        jnp.int32(LENGTH),
        jnp.ones((2,)),
    )
    program = compiled.program(LENGTH)
    return sample_speculative(
        Neighbours(TABLE), program, task, planner, drafter=drafter, process=PROCESS, drafts=drafts
    )


def law(constraints, order: list[int]) -> dict[str, float]:
    """One position at a time in a fixed order, each from its marginal given the constraints, by enumeration."""
    whole = [text for text in texts(LENGTH) if all(item.holds(text).ok for item in constraints)]

    @functools.cache
    def model(known: tuple[tuple[int, str], ...]) -> np.ndarray:
        canvas = np.full((1, LENGTH), 4)
        for i, letter in known:
            canvas[0, i] = "ABCD".index(letter)
        logits = Neighbours(TABLE)(jnp.asarray(canvas), jnp.asarray(canvas) >= 0, jnp.ones(1))
        return np.asarray(jax.nn.log_softmax(logits))[0]

    found = dict.fromkeys(whole, 1.0)
    for done in range(LENGTH):
        for text in whole:
            log_p = model(tuple((i, text[i]) for i in order[:done]))
            agree = [other for other in whole if all(other[i] == text[i] for i in order[:done])]
            open = order[done:]
            weight = {other: np.exp(sum(log_p[i, "ABCD".index(other[i])] for i in open)) for other in agree}
            here = sum(weight[other] for other in agree if other[order[done]] == text[order[done]])
            found[text] *= here / sum(weight.values())
    return found


@pytest.mark.parametrize("drafts", [2, 4])
@pytest.mark.parametrize("own", [True, False], ids=["own drafts", "drafter"])
def test_the_law_is_that_of_one_position_at_a_time(drafts: int, own: bool):
    items = [{"run": {"max": 2}}, {"count": {"letters": "A", "max": 2}}]
    order = [2, 0, 3, 1]
    planner = Order(priority=np.argsort(order).astype(np.int32))
    drafter = None if own else Independent(jnp.asarray([[1.0, 0, 0, 0]] * LENGTH))
    samples, fared = draw(items, planner, drafts=drafts, drafter=drafter)
    expected = law(parse(items), order)
    drawn = [TINY.decode(row) for row in np.asarray(samples.tokens)]
    assert set(drawn) <= set(expected)
    frequent = [text for text, p in expected.items() if p * DRAWS >= 5]
    counts = [drawn.count(text) for text in frequent]
    rest = DRAWS - sum(counts)
    p = [expected[text] for text in frequent]
    # A true null is rejected with probability 1e-3.
    everything = np.array([*p, max(1 - sum(p), 1e-12)], float)
    assert chisquare([*counts, rest], everything / everything.sum() * DRAWS).pvalue > 1e-3
    assert (np.asarray(fared.accepted) <= np.asarray(fared.drafted)).all()
    assert np.mean(samples.calls) < LENGTH + (1 if own else 0)


def test_the_test_would_notice_drafts_taken_unverified():
    expected = law([], [0, 1, 2, 3])
    log_p = np.asarray(jax.nn.log_softmax(TABLE[4, 4]))
    unverified = {text: np.exp(sum(log_p["ABCD".index(letter)] for letter in text)) for text in expected}
    assert 0.5 * sum(abs(expected[text] - unverified[text]) for text in expected) > 0.2


def test_what_speculation_cannot_follow_is_refused():
    with pytest.raises(InputError, match="order known beforehand"):
        draw([], Confidence(), drafts=2, draws=2)
    with pytest.raises(InputError, match="absorbing"):
        sample_speculative(None, None, None, LeftToRight(), process=Process(mask=4, uniform=1.0), drafts=2)  # type: ignore
