"""Denoisers that read the order of commits: every loop and wrapper tells them when each letter came."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.contracts import GIVEN, OPEN
from seqdiff.core.layout import Layout
from seqdiff.process.noise import Process
from seqdiff.process.ordered import ordered_log_probability
from seqdiff.process.readout import predict
from seqdiff.sampling.guidance import Under
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import PLANNERS, Random
from seqdiff.sampling.speculative import sample_speculative
from tests.helpers import TINY, parse

LENGTH, PROCESS = 9, Process(mask=4)


@partial(jax.tree_util.register_dataclass, data_fields=["sharpness"], meta_fields=[])
class Counting:
    """Any-order and autoregressive: a letter says how many letters came before it, modulo 4, almost surely.

    Not so surely that planners would take it as determined by the constraints.
    """

    reads_order = True

    def __init__(self, sharpness: Any):
        self.sharpness = sharpness

    def __call__(self, canvas, valid, time, conditions=None, *, order):
        known = (canvas < 4) & valid
        earlier = jnp.sum(known[:, None, :] & (order[:, None, :] < order[:, :, None]), axis=2)
        return self.sharpness * jax.nn.one_hot(earlier % 4, 4)


MODEL = Counting(jnp.float32(11.0))


def task(rows: int = 6) -> tuple[Any, Task]:
    # Positions 2 and 5 are given: they come before all others.
    program = compile_constraints(parse([{"fixed": {2: "D", 5: "D"}}]), Layout(TINY, LENGTH, LENGTH)).program(LENGTH)
    canvas = jnp.full((rows, LENGTH), 4).at[:, jnp.array([1, 4])].set(3)
    keys, length = row_keys(0, jnp.arange(rows)), jnp.full((rows,), LENGTH)
    return program, Task(keys, canvas, length, jnp.zeros((LENGTH, 4)), jnp.int32(LENGTH), jnp.ones((2,)))


def check(samples: Any) -> None:
    """Each designed letter counts the given ones and those committed before it."""
    for tokens, order in zip(np.asarray(samples.tokens), np.asarray(samples.order), strict=True):
        open = order != GIVEN
        earlier = 2 + np.array([(order[open] < when).sum() for when in order[open]])
        np.testing.assert_array_equal(tokens[open], earlier % 4)


@pytest.mark.parametrize("planner", ["random", "left_to_right", "confidence", "spread"])
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: Under(model, None)], ids=["plain", "wrapped"])
def test_the_loop_tells_when_letters_came(planner: str, wrap: Any):
    program, given = task()
    samples = sample(wrap(MODEL), program, given, PLANNERS[planner](), process=PROCESS)
    assert np.ptp(np.asarray(samples.order), axis=1).min() == LENGTH - 2
    check(samples)
    np.testing.assert_allclose(samples.log_p, 0.0, atol=1e-3)


def test_letters_of_one_step_do_not_see_each_other():
    program, given = task()
    samples = sample(MODEL, program, given._replace(steps=jnp.int32(1)), Random(), process=PROCESS)
    open = np.asarray(samples.order) != GIVEN
    assert set(np.asarray(samples.tokens)[open].tolist()) == {2}


@pytest.mark.parametrize("drafts", [2, 5])
def test_drafts_are_checked_in_their_order(drafts: int):
    program, given = task()
    planner = PLANNERS["left_to_right"]()
    samples, fared = sample_speculative(MODEL, program, given, planner, process=PROCESS, drafts=drafts)
    open = np.asarray(samples.order[0]) != GIVEN
    for tokens in np.asarray(samples.tokens):
        np.testing.assert_array_equal(tokens[open], (2 + np.arange(open.sum())) % 4)
    # Drafts repeat the last prediction, which is wrong from the second letter on, so that some must be refused.
    assert int(fared.accepted.sum()) < int(fared.drafted.sum())


def test_without_an_order_letters_count_as_given():
    canvas = jnp.array([[0, 4, 1, 4]])
    found = predict(MODEL, canvas, canvas >= 0, jnp.ones(1), letters=4)
    wanted = MODEL(canvas, canvas >= 0, jnp.ones(1), order=jnp.array([[GIVEN, OPEN, GIVEN, OPEN]]))
    np.testing.assert_array_equal(found, wanted)


def test_a_path_is_scored_in_one_call():
    """The sum over a random order of log-probabilities of a soft model, against one call per letter."""
    model = Counting(jnp.float32(1.5))
    tokens = np.random.default_rng(0).integers(0, 4, (3, 8)).astype(np.int32)
    tokens[:, 6:] = 4
    scored = np.array([True, True, False, True, True, True, False, False])
    found = ordered_log_probability(model, tokens, scored, None, mask=4, seed=2, orders=3)
    noise = np.random.default_rng(2).random((3, 8))
    for number, row in enumerate(tokens):
        for path, ranks in enumerate(np.argsort(np.argsort(noise, axis=1), axis=1)):
            total = 0.0
            for place in np.flatnonzero(scored):
                shown = np.where((ranks < ranks[place]) & scored | ~scored, row, 4)[None]
                log_p = jax.nn.log_softmax(predict(model, jnp.asarray(shown), shown >= 0, jnp.ones(1), letters=4))
                total += float(log_p[0, place, row[place]])
            assert found[number, path] == pytest.approx(total, abs=1e-4)
