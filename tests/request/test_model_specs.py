"""Specs and goals that need a model of other people: read, compiled, and run where the model is on this machine."""

from pathlib import Path

import jax
import numpy as np
import pytest

import seqdiff
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.backbones import coiled_coil, to_pdb
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.models.weights.cache import model_folder
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec, read_mapping

SPECS = Path(seqdiff.__file__).parent / "experiments" / "specs" / "models"


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # torch, which anarcii brings along, warns about its own future
def test_shipped_specs(path: Path):
    mapping = read_mapping(path)
    if "numbering" in mapping:
        pytest.importorskip("anarcii")
    spec = DesignSpec.from_mapping(mapping, folder=path.parent)
    problem = prepare(spec)
    assert problem.acceptance(problem.background()) < 0.1
    if model_folder(spec.model) is None:
        return
    assert seqdiff.design(path, n=1).satisfied == 1


def test_the_shipped_backbone_is_what_its_recipe_makes():
    assert (SPECS / "coiled_coil.pdb").read_text() == to_pdb(coiled_coil(2, 35))
    coords = coiled_coil(3, 28)
    bonds = np.linalg.norm(np.diff(coords[:, :, 1], axis=1), axis=-1)
    np.testing.assert_allclose(bonds, 3.8, atol=0.05)
    # Residues d and a of the heptads touch; b, c, e, f, g stay apart.
    between = np.linalg.norm(coords[0, :, 1] - coords[1, :, 1], axis=-1)[7:21]
    assert set(np.argsort(between)[:4] % 7) == {0, 4}


LABELS = (("species", ("Mouse", "Human")), ("chain", ("Heavy", "Light")))
NETWORK = TransformerConfig(num_letters=20, num_tokens=24, width=8, depth=1, heads=2, hidden=12, classifiers=LABELS)


def _labelling():
    """A small network whose classifiers have something to say."""
    denoiser = init_denoiser(NETWORK, PROTEIN, seed=0)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [leaf + jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return type(denoiser)(denoiser.graphdef, jax.tree.unflatten(tree, noisy), denoiser.config, PROTEIN)


def test_goals_about_a_models_own_labels_raise_them():
    model, keys = _labelling(), {"length": 12, "n": 12, "seed": 1}
    goal = {"classifier": "species", "label": "Human", "maximize": 3.0}
    sampling = {"planner": "random", "steps": 4, "particles": 8}
    wanted = seqdiff.design(model=model, goals=[goal], sampling=sampling, **keys)
    weak = seqdiff.design(model=model, goals=[goal | {"maximize": 1e-6}], sampling=sampling, **keys)
    means = [np.mean([design.goals["p(Human)"] for design in designs]) for designs in (wanted, weak)]
    assert means[0] > means[1] + 0.1
    assert wanted.spec.to_mapping()["goals"] == [goal]
    assert "p(Human)" in wanted.to_csv().splitlines()[0]


def test_labels_of_one_of_several_chains():
    keys = {"parent": "MKTAYIAK/GSHMLEQ", "constraints": [{"mutations": {"max": 15}}], "n": 2}
    sampling = {"planner": "random", "steps": 2, "particles": 2}
    goal = {"classifier": "chain", "label": "Light", "maximize": 1.0}
    designs = seqdiff.design(model=_labelling(), goals=[goal | {"chain": "B"}], sampling=sampling, **keys)
    assert set(designs[0].goals) == {"p(Light) B"}
    assert [len(record) for record in designs.records()] == [8, 7, 8, 7]
    with pytest.raises(InputError, match="one of A, B"):
        seqdiff.design(model=_labelling(), goals=[goal], sampling=sampling, **keys)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({"classifier": "specie", "label": "Human", "maximize": 1}, "did you mean 'species'"),
        ({"classifier": "species", "label": "human", "maximize": 1}, "Human"),
        ({"classifier": "species", "label": "Human"}, "needs 'maximize'"),
        ({"classifier": "species", "label": "Human", "maximize": 1, "target": 1}, "unknown key"),
    ],
)
def test_refusals(goal: dict, words: str):
    with pytest.raises(InputError, match=words):
        seqdiff.design(model=_labelling(), length=8, n=1, goals=[goal], sampling={"particles": 2, "planner": "random"})
