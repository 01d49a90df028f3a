"""Planners with an exact denoiser of an enumerated law: whose designs follow it, and whose do not.

Total variation is compared with what as many true draws would show on average, times 1.5 plus 0.01; its standard
deviation is below a tenth of its mean, so a right sampler fails with probability below 1e-6 per case.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.layout import Layout
from seqdiff.models.oracles import JointLaw
from seqdiff.process.noise import PROCESSES, Process
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import (
    Ancestral,
    Blocks,
    Confidence,
    Entropy,
    Flow,
    Gibbs,
    Klass,
    Margin,
    MaskGIT,
    Random,
    ReMDM,
    Spread,
)
from tests.helpers import TINY, expected_variation, parse, total_variation

LENGTH, DRAWS = 3, 5000
P = np.random.default_rng(3).dirichlet(np.full(4**LENGTH, 0.3)).reshape((4,) * LENGTH)


def drawn(planner, *, steps: int, process: str = "absorbing") -> list[str]:
    noise = Process(mask=4, uniform=PROCESSES[process])
    law = JointLaw(jnp.log(jnp.asarray(P, jnp.float32)), process=noise)
    compiled = compile_constraints(parse([]), Layout(TINY, LENGTH, LENGTH))
    task = Task(
        row_keys(7, jnp.arange(DRAWS)),
        jnp.full((DRAWS, LENGTH), 4),
        jnp.full((DRAWS,), LENGTH),
        jnp.zeros((LENGTH, 4)),
        jnp.int32(steps),
        jnp.ones((2,)),
    )
    found = sample(law, compiled.program(LENGTH), task, planner, process=noise)
    return [TINY.decode(row) for row in np.asarray(found.tokens)]


WEIGHTS = {"".join("ABCD"[i] for i in index): float(p) for index, p in np.ndenumerate(P)}
FLOOR = expected_variation(DRAWS, WEIGHTS)


@pytest.mark.parametrize(
    "planner",
    [Spread(), Margin(), Entropy(noise=0.5), Klass(confidence=1.0), Blocks(inner=Confidence(), size=2)],
    ids=lambda planner: type(planner).__name__,
)
def test_one_position_at_a_time_is_exact_where_letters_are_not_looked_at(planner):
    assert total_variation(drawn(planner, steps=LENGTH), WEIGHTS) < 1.5 * FLOOR + 0.01


def test_gibbs_rounds_leave_the_law_as_it_is():
    assert total_variation(drawn(Gibbs(inner=Random(), rounds=4), steps=LENGTH + 4), WEIGHTS) < 1.5 * FLOOR + 0.01


@pytest.mark.parametrize(
    ("planner", "process", "steps"),
    [
        (Ancestral(), "absorbing", 128),
        (Ancestral(), "uniform", 128),
        (Ancestral(), "hybrid", 128),
        (Flow(stochasticity=1.0), "uniform", 256),
        (ReMDM(rule="rescale", eta=0.1), "absorbing", 256),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | int) else str(value),
)
def test_many_reverse_steps_approach_the_law(planner, process: str, steps: int):
    assert total_variation(drawn(planner, steps=steps, process=process), WEIGHTS) < 1.5 * FLOOR + 0.03


def test_ranking_by_the_letters_drawn_is_not_the_model_s_law():
    biased = total_variation(drawn(MaskGIT(noise=0.0, cosine=False), steps=LENGTH), WEIGHTS)
    assert biased > 0.2 > 3 * FLOOR
