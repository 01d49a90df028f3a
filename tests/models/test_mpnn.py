"""The ProteinMPNN family: what a position sees, what cannot matter, what the arrays mean, which files are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.contracts import GIVEN, OPEN
from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, BACKBONE, Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.convert import from_tensors
from seqdiff.models.mpnn.denoiser import MPNNDenoiser, init_mpnn, rows_at_once
from seqdiff.models.mpnn.inputs import MPNNInputs, make_inputs, residue_index
from seqdiff.models.store import flatten, load_model, save_model

KINDS: dict[str, dict[str, Any]] = {"protein": {}, "ligand": {"atoms": 4}, "membrane": {}}
LENGTH, AROUND, SIZE = 11, 6, 13
ROWS = LENGTH + 1
MANY = 40
"""Neighbours, more than there are residues."""


def structure(seed: int = 0, chains: tuple[int, ...] = (LENGTH, AROUND), ligand: int = 9) -> Structure:
    """Random walks with the geometry of a backbone, all of its atoms present, and loose carbons nearby."""
    rng = np.random.default_rng(seed)
    count = sum(chains)
    ca = np.cumsum(rng.normal(0.0, 2.0, (count, 3)), axis=0)
    coords = ca[:, None] + rng.normal(0.0, 1.4, (count, len(ATOMS), 3))
    names = tuple(name for name, size in zip("AB", chains, strict=False) for _ in range(size))
    return Structure(
        source="walk",
        chain=names,
        number=np.concatenate([np.arange(1, size + 1) for size in chains]).astype(np.int32),
        insertion=("",) * count,
        name=("ALA",) * count,
        letters="".join(rng.choice(list(PROTEIN.letters), count)),
        coords=coords.astype(np.float32),
        present=np.ones((count, len(ATOMS)), bool),
        ligand_coords=(ca[rng.integers(0, count, ligand)] + rng.normal(0.0, 3.0, (ligand, 3))).astype(np.float32),
        ligand_elements=rng.choice([6, 7, 8, 30], ligand).astype(np.int32),
    )


def changed(whole: Structure, **fields: Any) -> Structure:
    """The structure with some fields replaced."""
    return Structure(**{name: getattr(whole, name) for name in whole.__dataclass_fields__} | fields)


def make(kind: str = "protein", neighbours: int = 6) -> MPNNDenoiser:
    """A small network in which every parameter matters."""
    config = MPNNConfig(kind=kind, neighbours=neighbours, width=20, depth=2, noise=0.2, **KINDS[kind])  # pyright: ignore
    denoiser = init_mpnn(config, PROTEIN, seed=1)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return MPNNDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), config, PROTEIN)


def inputs(denoiser: MPNNDenoiser, *models: Structure, size: int = SIZE, **options: Any) -> MPNNInputs:
    """Chain A on the canvas, chain B around it."""
    kind = denoiser.config.kind
    if kind == "ligand":
        options = {"side_chains_of": np.array([2, 5, LENGTH])} | options
    if kind == "membrane":
        options = {"labels": np.arange(LENGTH) % 3} | options
    return make_inputs(
        models or [structure()],
        np.arange(LENGTH),
        np.arange(LENGTH, LENGTH + AROUND),
        size=size,
        atoms=denoiser.config.atoms,
        **options,
    )


def some_rows(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Canvases with about half of the letters, two of them given and two of equal order, and their orders."""
    rng = np.random.default_rng(3)
    canvas = rng.integers(0, 20, (rows, LENGTH)).astype(np.int32)
    order = rng.permuted(np.tile(np.arange(LENGTH, dtype=np.int32), (rows, 1)), axis=1) // 2
    open = order > 2
    order[:, :2], open[:, :2] = GIVEN, False
    return np.where(open, PROTEIN.mask, canvas), np.where(open, OPEN, order)


TRACES: list[int] = []


@jax.jit
def apply(denoiser: MPNNDenoiser, canvas: jax.Array, order: jax.Array, encoding: Any) -> jax.Array:
    TRACES.append(len(canvas))
    return denoiser(canvas, canvas <= PROTEIN.mask, jnp.zeros(len(canvas)), encoding, order=order)


def logits(denoiser: MPNNDenoiser, canvas: np.ndarray, order: np.ndarray, given: MPNNInputs) -> np.ndarray:
    """Logits of the canvas's residues, whatever the canvas is padded to."""
    padding = ((0, 0), (0, given.mask.shape[-1] - given.around.shape[-1] - canvas.shape[1]))
    canvas = np.pad(canvas, padding, constant_values=PROTEIN.pad)
    order = np.pad(order, padding, constant_values=OPEN)
    found = apply(denoiser, jnp.asarray(canvas), jnp.asarray(order), denoiser.encode(given))
    assert found.shape == (*canvas.shape, 20)
    assert np.isfinite(found).all()
    return np.asarray(found)[:, :LENGTH]


@pytest.fixture(scope="module", params=KINDS)
def denoiser(request: pytest.FixtureRequest) -> MPNNDenoiser:
    return make(request.param)


# What a position sees ------------------------------------------------------------------------------------------------


def test_a_letter_changes_what_comes_after_it_and_nothing_else():
    denoiser = make(neighbours=MANY)
    given = inputs(denoiser)
    canvas, order = (x[:1] for x in some_rows())
    number = np.arange(LENGTH)
    variants = np.repeat(canvas, ROWS, axis=0)
    variants[number, number] = (variants[number, number] + 1) % 20  # an open position is given a letter ...
    orders = np.repeat(order, ROWS, axis=0)
    orders[number, number] = np.where(orders[number, number] == OPEN, 9, orders[number, number])  # ... last of all
    found = logits(denoiser, variants, orders, given)
    moved = np.abs(found[:-1] - found[-1:]).max(axis=-1) > 1e-5
    known, open = canvas[0] < PROTEIN.mask, canvas[0] == PROTEIN.mask
    for j in number[known]:
        np.testing.assert_array_equal(moved[j, open], True)
        assert not moved[j, j]
        assert not moved[j, known & (order[0] < order[0, j])].any()
        assert moved[j, known & (order[0] > order[0, j])].all()
        for i in number[known & (order[0] == order[0, j]) & (number != j)]:
            assert moved[i, j] != moved[j, i], "of two letters that came together, one sees the other"
    for j in number[open]:
        assert not moved[j, known].any()
        assert moved[j, open & (number != j)].all(), "once it has a letter, open positions see it"


def test_open_positions_do_not_see_their_own_or_each_others_tokens():
    denoiser = make()
    canvas, order = some_rows()
    other = np.where(canvas == PROTEIN.mask, PROTEIN.pad, canvas)
    base, found = (logits(denoiser, x, order, inputs(denoiser)) for x in (canvas, other))
    np.testing.assert_allclose(found, base, atol=1e-5)


def test_everything_sees_the_letters_around():
    denoiser = make(neighbours=MANY)
    canvas, order = some_rows()
    whole = structure()
    last = "A" if whole.letters[-1] != "A" else "C"
    base = logits(denoiser, canvas, order, inputs(denoiser))
    found = logits(denoiser, canvas, order, inputs(denoiser, changed(whole, letters=whole.letters[:-1] + last)))
    assert (np.abs(found - base).max(axis=-1) > 1e-6).all()


# What cannot matter --------------------------------------------------------------------------------------------------


def test_padding_does_not_matter(denoiser: MPNNDenoiser):
    canvas, order = some_rows()
    base, found = (logits(denoiser, canvas, order, inputs(denoiser, size=size)) for size in (SIZE, SIZE + 16))
    np.testing.assert_allclose(found, base, atol=2e-5)


def test_more_neighbours_than_residues():
    denoiser = make(neighbours=MANY)
    canvas, order = some_rows()
    base, found = (logits(denoiser, canvas, order, inputs(denoiser, size=size)) for size in (SIZE, SIZE + 40))
    np.testing.assert_allclose(found, base, atol=2e-5)


def test_where_the_structure_stands_does_not_matter(denoiser: MPNNDenoiser):
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))
    turn = (turn * np.sign(np.linalg.det(turn))).astype(np.float32)
    shift = np.array([3.0, -5.0, 8.0], np.float32)
    whole = structure()
    moved = changed(whole, coords=whole.coords @ turn.T + shift, ligand_coords=whole.ligand_coords @ turn.T + shift)
    canvas, order = some_rows()
    base, found = (logits(denoiser, canvas, order, inputs(denoiser, model)) for model in (whole, moved))
    np.testing.assert_allclose(found, base, atol=2e-3)
    mirrored = changed(whole, coords=whole.coords * np.float32(-1), ligand_coords=whole.ligand_coords * np.float32(-1))
    assert np.abs(logits(denoiser, canvas, order, inputs(denoiser, mirrored)) - base).max() > 0.01, "hands differ"


def test_rows_do_not_interact(denoiser: MPNNDenoiser):
    canvas, order = some_rows()
    given = inputs(denoiser)
    together = logits(denoiser, canvas, order, given)
    for i in range(3):
        alone = logits(denoiser, np.tile(canvas[i], (ROWS, 1)), np.tile(order[i], (ROWS, 1)), given)
        np.testing.assert_allclose(alone, np.tile(together[i], (ROWS, 1, 1)), atol=1e-5)


def test_a_residue_without_backbone_is_not_there(denoiser: MPNNDenoiser):
    whole = structure()
    present = whole.present.copy()
    present[[4, -1], BACKBONE[2]] = False
    broken = changed(whole, present=present)
    nonsense = np.where(broken.complete[:, None, None], whole.coords, np.float32(7.0))
    canvas, order = some_rows()
    base = logits(denoiser, canvas, order, inputs(denoiser, broken))
    found = logits(denoiser, canvas, order, inputs(denoiser, changed(broken, coords=nonsense)))
    np.testing.assert_allclose(found, base, atol=1e-6)
    np.testing.assert_allclose(base[0, 4], base[1, 4], atol=1e-6)  # what the network says of any residue


# Several models, compilation -----------------------------------------------------------------------------------------


def test_models_are_averaged():
    denoiser = make()
    canvas, order = some_rows()
    one, other = structure(0), structure(1)
    first, second, both, twice = (
        logits(denoiser, canvas, order, inputs(denoiser, *models))
        for models in ([one], [other], [one, other], [one] * 2)
    )
    np.testing.assert_allclose(twice, first, atol=1e-5)
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-5)


def test_structures_of_one_size_share_the_compiled_code():
    denoiser = make()
    canvas, order = some_rows()
    first = logits(denoiser, canvas, order, inputs(denoiser))
    calls = len(TRACES)
    second = logits(denoiser, canvas, order, inputs(denoiser, structure(5)))
    assert len(TRACES) == calls
    assert np.abs(first - second).max() > 0.01


@pytest.mark.parametrize(("rows", "edges"), [(1, 10**9), (16, 5376), (16, 100), (7, 5376)])
def test_rows_at_once_divides_the_rows(rows: int, edges: int):
    assert rows % rows_at_once(rows, edges) == 0
    assert rows_at_once(rows, edges) >= 1


# Inputs --------------------------------------------------------------------------------------------------------------


def test_inserted_residues_take_a_number_of_their_own():
    whole = changed(structure(chains=(6,)), number=np.array([50, 52, 52, 52, 53, 60], np.int32))
    np.testing.assert_array_equal(residue_index(whole), [50, 52, 53, 54, 55, 62])


def test_nodes_are_the_canvas_then_padding_then_what_is_around():
    whole = structure()
    canvas, around = np.array([3, 1, 8]), np.array([12, 5])
    found = make_inputs([whole], canvas, around, size=5, labels=np.array([2, 0, 1]))
    nodes = np.array([3, 1, 8, 12, 5])
    real = np.array([0, 1, 2, 5, 6])
    np.testing.assert_array_equal(found.mask[0], np.isin(np.arange(7), real))
    np.testing.assert_array_equal(found.backbone[0, real], whole.coords[nodes][:, BACKBONE])
    np.testing.assert_array_equal(found.number[0, real], whole.number[nodes])
    np.testing.assert_array_equal(found.chain[0, real], [0, 0, 0, 1, 0])
    np.testing.assert_array_equal(found.around[0], PROTEIN.encode(whole.letters)[around])
    np.testing.assert_array_equal(found.labels[0], [2, 0, 1, 0, 0, 0, 0])
    assert found.atoms.shape == (1, 7, 0, 3)
    with pytest.raises(InputError, match="3 residues do not fit on a canvas of 2"):
        make_inputs([whole], canvas, around, size=2)


def test_context_atoms_are_the_nearest_to_cb():
    whole = structure(ligand=40)
    n, ca, c = (whole.coords[:, place] for place in BACKBONE[:3])
    cb = ca - 0.58273431 * np.cross(ca - n, c - ca) + 0.56802827 * (ca - n) - 0.54067466 * (c - ca)
    everyone = np.arange(len(whole))
    found = make_inputs([whole], everyone, np.arange(0), size=len(whole), atoms=5)
    order = np.argsort(np.linalg.norm(whole.ligand_coords[None] - cb[:, None], axis=-1), axis=1)[:, :5]
    np.testing.assert_array_equal(found.atoms[0], whole.ligand_coords[order])
    np.testing.assert_array_equal(found.elements[0], whole.ligand_elements[order])
    few = make_inputs([changed(whole, ligand_coords=whole.ligand_coords[:3], ligand_elements=np.array([1, 6, 8]))],
                      everyone, np.arange(0), size=len(whole), atoms=5)  # fmt: skip
    np.testing.assert_array_equal(np.sort(few.elements[0], axis=1), np.tile([0, 0, 0, 6, 8], (len(whole), 1)))
    hidden = make_inputs([whole], everyone, np.arange(0), size=len(whole), atoms=5, ligands=False)
    assert not hidden.elements.any()


def test_side_chains_that_stay_are_context_atoms():
    whole = structure(ligand=0)
    shown = np.array([4])
    found = make_inputs([whole], np.arange(len(whole)), np.arange(0), size=len(whole), atoms=40, side_chains_of=shown)
    elements = found.elements[0, 4]
    assert np.count_nonzero(elements) == 31, "not N, CA, C, O, CB and OXT"
    seen = {tuple(atom) for atom in found.atoms[0, 4][elements > 0]}
    assert seen == {tuple(whole.coords[4, ATOMS.index(name)]) for name in ATOMS[5:36]}
    assert sorted(elements[elements > 0]) == sorted({"C": 6, "N": 7, "O": 8, "S": 16}[name[0]] for name in ATOMS[5:36])
    near = np.argsort(np.linalg.norm(whole.coords[:, 1] - whole.coords[4, 1], axis=-1))
    assert found.elements[0, near[1]].any()


def test_noise_has_its_size_and_its_seed():
    whole = structure(chains=(400,), ligand=0)
    everyone = np.arange(400)

    def backbone(seed: int, count: int = 1) -> np.ndarray:
        return make_inputs([whole] * count, everyone, np.arange(0), size=400, noise=0.2, seed=seed).backbone

    shift = backbone(0)[0] - whole.coords[:, BACKBONE]
    assert shift.std() == pytest.approx(0.2, abs=4 * 0.2 / np.sqrt(2 * shift.size))
    np.testing.assert_array_equal(backbone(0), backbone(0))
    assert np.abs(backbone(0) - backbone(1)).max() > 0.1
    first, second = backbone(0, 2)
    assert np.abs(first - second).max() > 0.1


def test_noise_does_not_depend_on_padding():
    whole = structure()
    canvas, around = np.arange(LENGTH), np.arange(LENGTH, LENGTH + AROUND)
    short, long = (make_inputs([whole], canvas, around, size=s, atoms=4, noise=0.3) for s in (LENGTH, LENGTH + 5))
    real = np.flatnonzero(long.mask[0])
    np.testing.assert_array_equal(short.backbone[0], long.backbone[0, real])
    np.testing.assert_array_equal(short.atoms[0], long.atoms[0, real])


# Files ---------------------------------------------------------------------------------------------------------------


def checkpoint(denoiser: MPNNDenoiser) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The denoiser as the published code would save it."""
    tensors = {}
    for name, value in flatten(denoiser.params).items():
        module, part = name.rsplit(".", 1)
        value = np.asarray(value)
        tensors[f"{module}.{'bias' if part == 'bias' else 'weight'}"] = value.T if part == "kernel" else value
    config = denoiser.config
    meta = {"num_edges": config.neighbours, "noise_level": 0.2}
    return tensors, meta | ({"atom_context_num": config.atoms} if config.kind == "ligand" else {})


def test_checkpoints_are_read_as_they_were(denoiser: MPNNDenoiser):
    found = from_tensors(*checkpoint(denoiser), PROTEIN)
    assert found.config == denoiser.config
    jax.tree.map(np.testing.assert_array_equal, found, denoiser)


def _without(name: str) -> Callable[[dict, dict], Any]:
    return lambda tensors, meta: tensors.pop(name)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_without("W_s.weight"), "no ProteinMPNN checkpoint"),
        (lambda tensors, meta: meta.pop("num_edges"), "no ProteinMPNN checkpoint"),
        (_without("decoder_layers.1.W2.bias"), "lacks 'decoder_layers.1.W2.bias'"),
        (lambda tensors, meta: tensors.update({"W_x.weight": np.zeros(3)}), "'W_x.weight'"),
        (lambda tensors, meta: tensors.update({"W_out.bias": np.zeros(20)}), r"W_out.bias has shape \(20,\)"),
    ],
)
def test_other_checkpoints_are_refused(damage: Callable[[dict, dict], Any], message: str):
    tensors, meta = checkpoint(make())
    damage(tensors, meta)
    with pytest.raises(InputError, match=message) as caught:
        from_tensors(tensors, meta, PROTEIN)
    assert "\n" not in str(caught.value)


def test_models_are_written_and_read(denoiser: MPNNDenoiser, tmp_path: Path):
    save_model(tmp_path / "model", denoiser, notes={}, dtype="float32")
    found = load_model(tmp_path / "model", PROTEIN)
    assert isinstance(found, MPNNDenoiser)
    assert found.config == denoiser.config
    jax.tree.map(np.testing.assert_array_equal, found, denoiser)


@pytest.mark.parametrize("options", [{"kind": "ligand"}, {"atoms": 3}, {"kind": "ca"}])
def test_configs_that_make_no_sense_are_refused(options: dict[str, Any]):
    with pytest.raises(InputError, match="kind"):
        MPNNConfig(**options)
    with pytest.raises(InputError, match="widht"):
        MPNNConfig.from_dict({"widht": 3})


def test_a_structure_is_needed():
    canvas, order = (jnp.asarray(x) for x in some_rows())
    with pytest.raises(InputError, match="structure"):
        make()(canvas, canvas <= PROTEIN.mask, jnp.zeros(ROWS), order=order)
