"""The trained planner tells right letters from wrong ones, and path planning runs with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.models.oracles import MarkovLaw, stationary
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import P2
from seqdiff.sampling.scorer import fit_scorer
from tests.helpers import TINY, parse

PROCESS = Process(mask=4)


def test_a_fitted_scorer_finds_wrong_letters_and_plans():
    transition = np.random.default_rng(0).dirichlet(np.full(4, 0.2), size=4)
    law = MarkovLaw(jnp.asarray(stationary(transition)), jnp.asarray(transition), leave_one_out=True)
    texts = np.asarray(law.sample(jax.random.key(1), 64, 24))
    scorer = fit_scorer(law, PROCESS, list(texts[:48]))
    held_out, wrong = texts[48:].copy(), np.zeros((16, 24), bool)
    generator = np.random.default_rng(2)
    for row in range(16):
        place = generator.choice(24, size=4, replace=False)
        held_out[row, place] = (held_out[row, place] + generator.integers(1, 4, size=4)) % 4
        wrong[row, place] = True
    score = np.asarray(scorer(jnp.asarray(held_out), jnp.ones((16, 24), bool), jnp.zeros(16)))
    better = (score[~wrong][:, None] > score[wrong][None]).mean()
    # Chance is 0.5 with a standard error near 0.04.
    assert better > 0.65

    compiled = compile_constraints(parse([{"fixed": {3: "A"}}]), Layout(TINY, 24, 24))
    canvas = jnp.full((8, 24), 4).at[:, 2].set(0)
    task = Task(
        row_keys(0, jnp.arange(8)), canvas, jnp.full((8,), 24), jnp.zeros((24, 4)), jnp.int32(8), jnp.ones((2,))
    )
    found = sample(law, compiled.program(24), task, P2(scorer=scorer, eta=2.0), process=PROCESS)
    assert (np.asarray(found.tokens) < 4).all()
    assert (np.asarray(found.tokens)[:, 2] == 0).all()


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(InputError, match="needs sequences"):
        fit_scorer(None, PROCESS, [])  # type: ignore[arg-type]
