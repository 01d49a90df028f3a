"""ProteinMPNN networks with random weights: what padding, order and batch may not change, and the whole sampler."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqdiff
from seqdiff.core.contracts import GIVEN, OPEN
from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, BACKBONE, Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.mpnn.config import Kind, MPNNConfig
from seqdiff.models.mpnn.convert import from_tensors
from seqdiff.models.mpnn.denoiser import MPNNDenoiser, init_mpnn
from seqdiff.models.mpnn.inputs import make_inputs
from seqdiff.models.store import flatten, load_model, save_model

KINDS: tuple[Kind, ...] = ("protein", "ligand", "membrane")
LENGTH, SIZE = 13, 16
"""Residues of the small structure, and positions of its canvas."""


def network(kind: Kind = "protein", seed: int = 0, depth: int = 1) -> MPNNDenoiser:
    config = MPNNConfig(kind=kind, neighbours=8, width=16, depth=depth, atoms=5 if kind == "ligand" else 0)
    return init_mpnn(config, PROTEIN, seed=seed)


def backbone(length: int, seed: int) -> np.ndarray:
    """N, CA, C, O of a helix with noise, float32 [length, 4, 3] in Angstrom: 100 degrees and 1.5 A for a residue."""
    turn, rise = np.deg2rad(100.0), 1.5
    cylinder = ((1.55, -27.5, -0.9), (2.28, 0.0, 0.0), (1.68, 26.4, 1.1), (2.0, 24.0, 2.3))
    angle = turn * np.arange(length)[:, None] + np.deg2rad([degrees for _, degrees, _ in cylinder])
    radius, height = (np.array([row[k] for row in cylinder]) for k in (0, 2))
    z = rise * np.arange(length)[:, None] + height
    coords = np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=-1)
    return (coords + np.random.default_rng(seed).normal(0.0, 0.1, coords.shape)).astype(np.float32)


def structure(length: int = LENGTH, seed: int = 0, coords: np.ndarray | None = None, chain: str = "") -> Structure:
    """A helix with six atoms of ligands beside it; the letters of ``chain`` name each residue's chain."""
    rng = np.random.default_rng(seed)
    atoms, present = np.zeros((length, len(ATOMS), 3), np.float32), np.zeros((length, len(ATOMS)), bool)
    atoms[:, BACKBONE], present[:, BACKBONE] = backbone(length, seed) if coords is None else coords, True
    return Structure(
        source="made up",
        chain=tuple(chain or "A" * length),
        number=np.arange(1, length + 1, dtype=np.int32),
        insertion=("",) * length,
        name=("ALA",) * length,
        letters=PROTEIN.decode(rng.integers(0, 20, length).astype(np.int32)),
        coords=atoms,
        present=present,
        ligand_coords=rng.normal(0.0, 6.0, (6, 3)).astype(np.float32),
        ligand_elements=np.array([6, 7, 8, 15, 30, 6], np.int32),
    )


def encode(denoiser: MPNNDenoiser, *models: Structure, size: int = SIZE, around: int = 0) -> Any:
    """The encoding; the last ``around`` residues are context."""
    count = len(models[0]) - around
    labels = np.arange(count) % 3 if denoiser.config.kind == "membrane" else None
    nodes = np.arange(len(models[0]))
    inputs = make_inputs(
        models, nodes[:count], nodes[count:], size=size, atoms=denoiser.config.atoms, labels=labels
    )
    return denoiser.encode(inputs)


@jax.jit
def logits_of(denoiser: MPNNDenoiser, canvas: Any, order: Any, encoding: Any) -> jax.Array:
    return denoiser(canvas, canvas <= PROTEIN.mask, jnp.zeros(len(canvas)), encoding, order=order)


def call(denoiser: MPNNDenoiser, canvas: np.ndarray, order: np.ndarray, encoding: Any, size: int = SIZE) -> np.ndarray:
    """Logits of rows, padded to ``size``; float [rows, L, 20]."""
    wide = ((0, 0), (0, size - canvas.shape[1]))
    canvas, order = np.pad(canvas, wide, constant_values=PROTEIN.pad), np.pad(order, wide, constant_values=OPEN)
    found = logits_of(denoiser, jnp.asarray(canvas, jnp.int32), jnp.asarray(order, jnp.int32), encoding)
    return np.asarray(found)


def rows(count: int = 1, length: int = LENGTH, seed: int = 0, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Canvases, some positions of them open, and the orders in which the rest came; a few were given."""
    rng = np.random.default_rng(seed)
    canvas = rng.integers(0, 20, (count, length))
    order = rng.permuted(np.tile(np.arange(length), (count, 1)), axis=1)
    order = np.where(order < 2, GIVEN, order)
    open = rng.random(canvas.shape) < share
    return np.where(open, PROTEIN.mask, canvas), np.where(open, OPEN, order)


def changed(denoiser: MPNNDenoiser, encoding: Any, order: np.ndarray, at: int) -> np.ndarray:
    """Which positions' logits another letter at ``at`` changes; bool [LENGTH]. Every residue is a neighbour."""
    canvas = np.random.default_rng(5).integers(0, 20, (1, LENGTH))
    other = canvas.copy()
    other[0, at] = (canvas[0, at] + 7) % 20
    first, second = (call(denoiser, each, order[None], encoding)[0, :LENGTH] for each in (canvas, other))
    return np.abs(first - second).max(axis=-1) > 1e-6


@pytest.fixture(scope="module")
def wide() -> MPNNDenoiser:
    """A network whose residues are all neighbours of each other."""
    return init_mpnn(MPNNConfig(neighbours=SIZE, width=16, depth=1), PROTEIN, seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: Kind):
    denoiser, (canvas, order) = network(kind), rows(2)
    short, long = (
        call(denoiser, canvas, order, encode(denoiser, structure(), size=size), size)[:, :LENGTH]
        for size in (SIZE, SIZE + 16)
    )
    assert np.ptp(short) > 0.1
    np.testing.assert_allclose(short, long, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_shape_matters(kind: Kind):
    """The same after a rotation and a translation; another after a reflection."""
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    rotation = (rotation * np.sign(np.linalg.det(rotation))).astype(np.float32)
    denoiser, (canvas, order), here = network(kind), rows(), structure()

    def moved(matrix: np.ndarray) -> np.ndarray:
        shift = np.array([5.0, -3.0, 8.0], np.float32)
        there = structure(coords=here.coords[:, BACKBONE] @ matrix + shift)
        there.ligand_coords[:] = here.ligand_coords @ matrix + shift
        return call(denoiser, canvas, order, encode(denoiser, there))[:, :LENGTH]

    before = call(denoiser, canvas, order, encode(denoiser, here))[:, :LENGTH]
    np.testing.assert_allclose(moved(rotation), before, atol=2e-4)
    assert np.abs(moved(-rotation) - before).max() > 1e-2


def test_letters_that_came_later_are_not_seen(wide: MPNNDenoiser):
    order = np.random.default_rng(2).permutation(LENGTH)
    encoding = encode(wide, structure())
    for at in (0, 4, 11):
        np.testing.assert_array_equal(changed(wide, encoding, order, at), order > order[at])


def test_given_letters_come_first(wide: MPNNDenoiser):
    """All that came later see them; among themselves one sees the other, by a fixed order."""
    encoding = encode(wide, structure())
    order = np.where(np.arange(LENGTH) < 4, GIVEN, np.arange(LENGTH))
    seen = np.stack([changed(wide, encoding, order, at) for at in range(4)])
    assert seen[:, 4:].all()
    among = seen[:, :4]
    assert not np.diag(among).any()
    assert (among ^ among.T)[~np.eye(4, dtype=bool)].all()
    assert not changed(wide, encoding, order, 7)[:4].any()


def test_open_positions_see_all_letters_and_not_each_other(wide: MPNNDenoiser):
    encoding = encode(wide, structure())
    canvas, order = rows(seed=4)
    open = canvas[0] == PROTEIN.mask
    assert 2 <= open.sum() <= LENGTH - 2
    before = call(wide, canvas, order, encoding)[0, :LENGTH]
    for at in np.flatnonzero(~open):
        other = canvas.copy()
        other[0, at] = (canvas[0, at] + 7) % 20
        after = call(wide, other, order, encoding)[0, :LENGTH]
        assert (np.abs(after - before).max(axis=-1) > 1e-6)[open].all()
    # What stands after them in the order makes no difference either, so that one by one and at once agree.
    one = np.flatnonzero(open)[0]
    alone = np.where(np.arange(LENGTH) == one, OPEN - 1, order)
    np.testing.assert_allclose(call(wide, canvas, alone, encoding)[0, one], before[one], atol=1e-6)


def test_context_letters_are_seen_by_all(wide: MPNNDenoiser):
    here = structure()
    other = structure(coords=here.coords[:, BACKBONE])
    letters = here.letters[:-1] + ("A" if here.letters[-1] != "A" else "W")
    object.__setattr__(other, "letters", letters)
    canvas, order = rows(length=LENGTH - 3)
    first, second = (call(wide, canvas, order, encode(wide, each, around=3))[0, : LENGTH - 3] for each in (here, other))
    assert (np.abs(first - second).max(axis=-1) > 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_independent(kind: Kind):
    denoiser, (canvas, order) = network(kind), rows(3)
    encoding = encode(denoiser, structure())
    together = call(denoiser, canvas, order, encoding)
    for i in range(3):
        alone = call(denoiser, canvas[i : i + 1], order[i : i + 1], encoding)
        np.testing.assert_allclose(together[i, :LENGTH], alone[0, :LENGTH], atol=1e-5)


def test_models_are_averaged():
    denoiser, (canvas, order) = network(), rows()
    a, b = structure(), structure(coords=backbone(LENGTH, 9))
    one, two, equal, mixed = (
        call(denoiser, canvas, order, encode(denoiser, *models))[:, :LENGTH] for models in ([a], [b], [a, a], [a, b])
    )
    np.testing.assert_allclose(equal, one, atol=1e-5)
    np.testing.assert_allclose(mixed, (one + two) / 2, atol=1e-5)


def test_two_structures_of_one_size_share_a_compilation():
    denoiser, (canvas, order) = network(seed=1), rows(2)
    call(denoiser, canvas, order, encode(denoiser, structure()))
    before = logits_of._cache_size()
    call(denoiser, canvas, order, encode(denoiser, structure(seed=8)))
    canvas, order = rows(2, length=LENGTH - 1)
    call(denoiser, canvas, order, encode(denoiser, structure(LENGTH - 1, seed=9)))
    assert logits_of._cache_size() == before


# Checkpoints.


def published(denoiser: MPNNDenoiser) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The network as the published files have it."""
    tensors = {}
    for name, leaf in flatten(denoiser.params).items():
        module, part = name.rsplit(".", 1)
        value = np.asarray(leaf)
        tensors[f"{module}.{'bias' if part == 'bias' else 'weight'}"] = value.T if part == "kernel" else value
    config = denoiser.config
    return tensors, {"num_edges": config.neighbours, "atom_context_num": config.atoms, "noise_level": config.noise}


@pytest.mark.parametrize("kind", KINDS)
def test_published_tensors(kind: Kind):
    denoiser = network(kind)
    again = from_tensors(*published(denoiser), PROTEIN)
    assert again.config == denoiser.config
    jax.tree.map(np.testing.assert_array_equal, again.params, denoiser.params)


def test_other_tensors_are_refused_in_one_line():
    tensors, meta = published(network())

    def refused(change: dict[str, np.ndarray | None], **entries: Any) -> str:
        given = {name: value for name, value in {**tensors, **change}.items() if value is not None}
        with pytest.raises(InputError) as error:
            from_tensors(given, {**meta, **entries} if entries != {"num_edges": None} else {}, PROTEIN)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert refused({"W_e.weight": None}) == "the checkpoint lacks 'W_e.weight'"
    assert "has 'other.weight', which no part of the network reads" in refused({"other.weight": np.ones(2, np.float32)})
    assert refused({"W_e.bias": np.ones(3, np.float32)}) == "W_e.bias has shape (3,), the network's has (16,)"
    for missing in (refused({"W_s.weight": None}), refused({}, num_edges=None)):
        assert missing == "the file is no ProteinMPNN checkpoint: it lacks W_s.weight or num_edges"


@pytest.mark.parametrize("kind", KINDS)
def test_on_disk(kind: Kind, tmp_path: Path):
    denoiser = network(kind)
    save_model(tmp_path / "m", denoiser, notes={}, dtype="float32")
    again = load_model(tmp_path / "m", PROTEIN)
    assert isinstance(again, MPNNDenoiser)
    assert again.config == denoiser.config
    jax.tree.map(np.testing.assert_array_equal, again.params, denoiser.params)


def test_other_alphabets_and_configs_are_refused():
    with pytest.raises(InputError, match="a ligand network reads atoms, others none"):
        MPNNConfig(kind="ligand")
    with pytest.raises(InputError, match="unknown kind 'ligands'; did you mean 'ligand'"):
        MPNNConfig(kind="ligands")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="17 residues do not fit on a canvas of 16"):
        make_inputs([structure(17)], np.arange(17), np.arange(0), size=16)


# The whole sampler.


@pytest.fixture(scope="module")
def dimer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two helices of ten residues, chains A and B, as a PDB file without side chains."""
    path = tmp_path_factory.mktemp("made") / "dimer.pdb"
    lines = []
    for chain, shift in (("A", 0.0), ("B", 9.0)):
        for number, atoms in enumerate(backbone(10, ord(chain)) + np.float32([shift, 0.0, 0.0]), 1):
            for name, (x, y, z) in zip(("N", "CA", "C", "O"), atoms, strict=True):
                place = f"{x:8.3f}{y:8.3f}{z:8.3f}"
                lines.append(f"ATOM  {len(lines) + 1:5d}  {name:<3} ALA {chain}{number:4d}    {place}  1.00  0.00")
    path.write_text("\n".join([*lines, "END", ""]))
    return path


def sample(dimer: Path, **keys: Any) -> seqdiff.Designs:
    given = {"model": network(seed=2), "structure": str(dimer), "n": 2, **keys}
    designs = seqdiff.design(**given)
    assert designs.satisfied == len(designs) == 2
    assert all(len(sequence) == 20 for sequence in designs.sequences)
    return designs


def test_a_constraint(dimer: Path):
    designs = sample(dimer, constraints=[{"forbid": {"letters": "ACDEFGHIKL"}}, {"fixed": {"B3": "W"}}])
    for sequence in designs.sequences:
        assert sequence[12] == "W"
        assert not set(sequence) & set("ACDEFGHIKL")
    assert [record.id for record in designs.records()][:2] == ["design_0000_A", "design_0000_B"]


def test_ties_between_chains(dimer: Path):
    designs = sample(dimer, constraints=[{"tied": {"chains": ["A", "B"]}}])
    for sequence in designs.sequences:
        assert sequence[:10] == sequence[10:]


@pytest.mark.parametrize("planner", ["p2", "remdm"])
def test_planners_that_reopen(dimer: Path, planner: str):
    rules = [{"count": {"letters": "W", "min": 2, "max": 3}}]
    designs = sample(dimer, constraints=rules, sampling={"planner": planner, "steps": 12})
    assert all(2 <= sequence.count("W") <= 3 for sequence in designs.sequences)


def test_drafts(dimer: Path):
    rules = [{"fixed": {"A2": "P"}}]
    designs = sample(dimer, constraints=rules, sampling={"planner": "random", "drafts": 5, "steps": 20})
    assert {sequence[1] for sequence in designs.sequences} == {"P"}


def test_context_and_letters_that_stay(dimer: Path):
    structure = {"file": str(dimer), "design": "A", "fixed": "A1-3"}
    designs = seqdiff.design(model=network(), structure=structure, n=2, sampling={"steps": 4})
    assert all(len(sequence) == 10 and sequence.startswith("AAA") for sequence in designs.sequences)
    assert all(0.0 <= design.recovery <= 1.0 for design in designs)
