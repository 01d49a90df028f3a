"""Our Ehrlich functions against pytorch-holo's, on its own instances: same values, and our designs are its optima.

pytorch-holo 0.0.5 asks for numpy below 2 but runs with numpy 2: ``pip install --no-deps pytorch-holo`` beside torch and
botorch, hydra-core, pandas, pooch and wandb.
"""

from typing import Any

import numpy as np
import pytest

import seqdiff
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.ehrlich import Ehrlich, Uniform

# Importing botorch warns about its own future.
pytestmark = pytest.mark.filterwarnings("ignore")


def _pair(
    states: int, length: int, motifs: int, motif_length: int, quantization: int, seed: int
) -> tuple[Any, Ehrlich]:
    """One of holo's functions and ours with its transitions, motifs and spacings."""
    holo = pytest.importorskip("holo.test_functions.closed_form", exc_type=ImportError)
    theirs = holo.Ehrlich(states, length, motifs, motif_length, quantization, random_seed=seed)
    spacings = np.stack([spacing.numpy() for spacing in theirs.spacings])
    ours = Ehrlich(
        transitions=theirs.transition_matrix.numpy(),
        motifs=np.stack([motif.numpy() for motif in theirs.motifs]),
        offsets=np.pad(spacings.cumsum(axis=1), ((0, 0), (1, 0))),
        length=length,
        quantization=quantization,
    )
    return theirs, ours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("states", "length", "motifs", "motif_length", "quantization"),
    [(20, 32, 4, 4, 4), (20, 32, 4, 4, 2), (20, 32, 2, 4, 1), (5, 13, 2, 3, 3), (20, 64, 2, 6, 3), (11, 31, 3, 5, 5)],
)
def test_values_equal_those_of_holo(
    states: int, length: int, motifs: int, motif_length: int, quantization: int, seed: int
):
    theirs, ours = _pair(states, length, motifs, motif_length, quantization, seed)
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    optimum = np.tile(theirs.optimal_solution().numpy(), (500, 1))
    noise = rng.integers(0, states, optimum.shape)
    mutated = np.where(rng.random(optimum.shape) < np.linspace(0, 0.4, 500)[:, None], noise, optimum)
    walks = theirs.initial_solution(500).numpy()  # feasible by construction
    grafted = np.where(np.arange(length) < rng.integers(0, length, (500, 1)), optimum, walks)
    sequences = np.concatenate([mutated, walks, grafted, noise])
    expected = theirs(torch.tensor(sequences)).numpy()
    np.testing.assert_allclose(ours(sequences), expected, rtol=1e-6)
    assert np.isfinite(expected[500:1000]).all()
    assert len(np.unique(expected[np.isfinite(expected)])) >= 2
    assert ours(optimum[:1]).tolist() == [1.0]


def test_designs_are_optima_of_holo():
    theirs, ours = _pair(20, 32, 2, 4, 4, 0)
    torch = pytest.importorskip("torch")
    for constraints in (ours.feasibility(), ours.feasibility() + ours.optimality()):
        designs = seqdiff.design(length=32, n=16, model=Uniform(), constraints=constraints, sampling={"steps": 4})
        values = theirs(torch.tensor(np.stack([PROTEIN.encode(text) for text in designs.sequences]), dtype=torch.int64))
        assert torch.isfinite(values).all()
    assert (values == 1).all()
