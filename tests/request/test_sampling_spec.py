"""How a spec asks for planners, schedules, particles, drafts and goals, and what it says of mistakes."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqdiff
from seqdiff.core.errors import InputError, SeqdiffError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.request.planners import parse_planner, planner_spec
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec
from seqdiff.sampling.goals import HostGoal
from seqdiff.sampling.planners import Gibbs, Order, Random, Threshold, diffusion_gemma
from tests.helpers import Independent

EXAMPLES = [
    "margin",
    {"entropy_bound": {"gamma": 0.5}},
    {"maskgit": {"noise": 0.0, "cosine": False}},
    {"remdm": {"rule": "rescale", "eta": 0.1}},
    {"blocks": {"size": 16, "inner": {"threshold": {"confidence": 0.8}}}},
    {"gibbs": {"inner": "random", "rounds": 4, "sites": 2, "informed": True}},
    {"until_stable": {"inner": {"flow": {"stochasticity": 1.0}}, "stability": 2}},
]


@pytest.mark.parametrize("item", EXAMPLES, ids=str)
def test_planners_survive_writing_and_reading(item: object):
    planner = parse_planner(item)
    assert parse_planner(planner_spec(planner)) == planner


def test_wrapped_ordered_and_preset_planners():
    assert parse_planner(EXAMPLES[4]).inner == Threshold(confidence=0.8)
    assert parse_planner({"gibbs": {"inner": "random"}}) == Gibbs(inner=Random())
    assert parse_planner({"diffusion_gemma": {"gamma": 0.2}}) == diffusion_gemma(gamma=0.2)
    order = parse_planner({"order": {"positions": "4-5,1"}})
    assert isinstance(order, Order)
    assert np.argsort(order.priority)[:3].tolist() == [3, 4, 0]
    assert planner_spec(order) == {"order": {"positions": [4, 5, 1]}}


BASE = {"length": 12, "n": 2}
MISTAKES = [
    ({"planner": "klas"}, "did you mean 'klass'"),
    ({"planner": {"blocks": {"size": 4}}}, "inner"),
    ({"planner": {"blocks": {"inner": "nope"}}}, "unknown planner 'nope'"),
    ({"planner": {"p2": {"scorer": 1}}}, "unknown key 'scorer'"),
    ({"planner": {"maskgit": {"cosine": 1}}}, "cosine=1 must be true or false"),
    ({"planner": {"order": {"positions": "1-3,2"}}}, "twice"),
    ({"planner": {"order": {"positions": "5-"}}}, "give the last position"),
    ({"temperature": [1, 0.5, 2]}, r"write a number, or \[first, limit\]"),
    ({"particles": 4, "planner": "remdm"}, "cannot be weighed under planner remdm"),
    ({"particles": 4, "planner": "ancestral"}, "cannot be weighed under planner ancestral"),
    ({"drafts": 4}, "needs an order known beforehand"),
    ({"drafts": 4, "planner": "random", "particles": 2}, "drop one"),
    ({"drafts": 2, "planner": "random", "temperature": [1, 0.5]}, "one temperature"),
]


@pytest.mark.parametrize(("sampling", "words"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_mistakes_are_named(sampling: dict, words: str):
    with pytest.raises(InputError, match=words):
        DesignSpec.from_mapping(BASE | {"sampling": sampling})


def test_drafts_need_exact_marginals():
    spec = BASE | {
        "constraints": [{"repeat": {"length": 3}}],
        "sampling": {"planner": "random", "drafts": 2},
    }
    with pytest.raises(InputError, match="solver route"):
        prepare(DesignSpec.from_mapping(spec))


def test_goals_need_particles_and_are_written_back():
    goals = [{"property": "gravy", "target": [0.0, 1.0], "width": 0.2}, {"property": "aromaticity", "minimize": 3.0}]
    with pytest.raises(InputError, match="particles: 8"):
        DesignSpec.from_mapping(BASE | {"goals": goals})
    spec = DesignSpec.from_mapping(BASE | {"goals": goals, "sampling": {"particles": 4}})
    assert spec.to_mapping()["goals"] == goals
    assert DesignSpec.from_mapping(spec.to_mapping()) == spec
    with pytest.raises(InputError, match=r"goals\[1\]"):
        DesignSpec.from_mapping(BASE | {"goals": [{"property": "gravity", "maximize": 1}]})


def alanines(tokens, length):
    inside = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
    return 3.0 * jnp.sum(jnp.where((tokens == 0) & inside, 1.0, 0.0), axis=1)


def test_designs_with_particles_goals_and_drafts_hold_their_constraints():
    model = Independent(jnp.zeros((16, len(PROTEIN))))
    constraints = [{"count": {"letters": "W", "exactly": 2}}]
    ask = {"length": 12, "n": 3, "constraints": constraints, "model": model}
    plain = seqdiff.design(**ask, sampling={"planner": "random", "steps": 4})
    steered = seqdiff.design(
        **ask, goals=[alanines], sampling={"planner": "random", "steps": 4, "particles": 32, "batch": 96}
    )
    drafted = seqdiff.design(**ask, sampling={"planner": "spread", "drafts": 3})
    assert plain.satisfied == steered.satisfied == drafted.satisfied == 3
    letters = PROTEIN.letters[0]
    assert "".join(steered.sequences).count(letters) > "".join(plain.sequences).count(letters) + 2
    assert all(0 < design.ess <= 1 for design in steered)
    assert {"log_normaliser", "ess"} <= set(steered.rows()[0])
    assert "one position per step" in plain.run["law"]
    assert "speculation" in drafted.run["law"]
    failing = HostGoal(lambda sequences: 1 / 0, PROTEIN, name="broken")
    with pytest.raises(SeqdiffError, match="goal 'broken' failed: ZeroDivisionError"):
        seqdiff.design(**ask, goals=[failing], sampling={"planner": "random", "steps": 4, "particles": 2})
    biased = seqdiff.design(**ask, sampling={"planner": "maskgit", "steps": 4})
    assert biased.run["law"].startswith("not the model's")
