"""Networks over pairs of nodes: what permuting, padding and host grids may change, what is refused, files."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.models.grid.config import GridConfig
from seqdiff.models.grid.denoiser import GridDenoiser, init_grid, most_nodes
from seqdiff.models.grid.network import NO_RELATION, SAME_NODES, SHARES_NODE, node_codes, relations
from seqdiff.models.store import load_model, save_model

PLAIN = Grid.make(6)
DIRECTED = Grid.make(5, directed=True)
LABELLED = Grid.make(5, edge_letters="012", node_letters="CN")
GRIDS = {"plain": PLAIN, "directed": DIRECTED, "labelled": LABELLED}
KINDS: dict[str, dict[str, Any]] = {"pairs": {}, "pairs-codes": {"codes": 4}, "tokens": {"kind": "tokens", "codes": 4}}


def make(grid: Grid, **options: Any) -> GridDenoiser:
    """A small network in which every parameter matters."""
    alphabet = GraphAlphabet.make(grid)
    sizes: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2, "hidden": 12, "channels": 6}
    config = GridConfig(num_letters=len(alphabet), directed=grid.directed, **sizes | options)
    denoiser = init_grid(config, alphabet, seed=1)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return GridDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), config, alphabet)


def canvases(grid: Grid, rows: int = 3, seed: int = 0) -> np.ndarray:
    """Random letters, a third of them masked."""
    rng = np.random.default_rng(seed)
    edges, nodes = len(grid.edge_letters), len(grid.node_letters)
    shape = (rows, len(grid.slots))
    own = grid.slots[:, 0] == grid.slots[:, 1]
    letters = np.where(own[None], edges + rng.integers(max(nodes, 1), size=shape), rng.integers(edges, size=shape))
    return np.where(rng.random(shape) < 1 / 3, edges + nodes, letters).astype(np.int32)


@jax.jit
def logits(denoiser: GridDenoiser, canvas: jax.Array, valid: jax.Array, conditions: dict[str, jax.Array]) -> jax.Array:
    """Of the denoiser, compiled."""
    return denoiser(canvas, valid, jnp.ones(canvas.shape[0]), conditions)


def run(
    denoiser: GridDenoiser, grid: Grid, canvas: np.ndarray, length: int | None = None, extra: int = 0
) -> np.ndarray:
    """Logits of a canvas of ``length`` positions of the grid, all by default, padded by ``extra``."""
    length = canvas.shape[1] if length is None else length
    slots = np.pad(grid.slots[: canvas.shape[1]], ((0, extra), (0, 0)))
    canvas = np.pad(canvas, ((0, 0), (0, extra)), constant_values=denoiser.alphabet.pad)
    valid = np.broadcast_to(np.arange(canvas.shape[1])[None] < length, canvas.shape)
    found = logits(denoiser, jnp.asarray(canvas), jnp.asarray(valid), {"slots": jnp.asarray(slots)})
    return np.asarray(found)[:, :length]


def permuted(grid: Grid, order: np.ndarray) -> np.ndarray:
    """Position that takes each position's place when node i becomes ``order[i]``."""
    return np.array([grid.position[int(order[i]), int(order[j])] for i, j in grid.slots])


@pytest.mark.parametrize("name", GRIDS)
def test_permuting_nodes_permutes_the_logits(name: str):
    grid = GRIDS[name]
    denoiser, canvas = make(grid), canvases(grid)
    place = permuted(grid, np.random.default_rng(1).permutation(grid.nodes))
    moved = np.empty_like(canvas)
    moved[:, place] = canvas
    before, after = run(denoiser, grid, canvas), run(denoiser, grid, moved)
    assert np.abs(before - after).max() > 1e-2
    np.testing.assert_allclose(after[:, place], before, atol=2e-4, rtol=1e-4)


def test_codes_tell_nodes_apart():
    open = np.full((1, len(PLAIN.slots)), 2, np.int32)
    assert np.ptp(run(make(PLAIN), PLAIN, open)[..., 1]) < 1e-4
    assert np.ptp(run(make(PLAIN, codes=4), PLAIN, open)[..., 1]) > 1e-2
    codes = node_codes(16)
    np.testing.assert_allclose(codes.T @ codes / len(codes), np.eye(16), atol=0.4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRIDS)
def test_padding_and_larger_grids_do_not_matter(name: str, kind: str):
    grid = GRIDS[name]
    denoiser, canvas = make(grid, **KINDS[kind]), canvases(grid)
    length = grid.length(grid.nodes - 1)
    alone = run(denoiser, grid, canvas[:, :length])
    np.testing.assert_allclose(run(denoiser, grid, canvas[:, :length], extra=7), alone, atol=1e-4)
    np.testing.assert_allclose(run(denoiser, grid, canvas, length=length), alone, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRIDS)
def test_every_open_pair_depends_on_every_known_one(name: str, kind: str):
    grid = GRIDS[name]
    denoiser, canvas = make(grid, **KINDS[kind]), canvases(grid, rows=1)
    base = run(denoiser, grid, canvas)
    for position in range(canvas.shape[1]):
        changed = canvas.copy()
        own = grid.slots[position, 0] == grid.slots[position, 1]
        first = len(grid.edge_letters) if own else 0
        changed[0, position] = first + (canvas[0, position] == first)
        assert np.abs(run(denoiser, grid, changed) - base)[0].max(axis=-1).min() > 0, position


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_interact(kind: str):
    denoiser, canvas = make(PLAIN, **KINDS[kind]), canvases(PLAIN)
    together = run(denoiser, PLAIN, canvas)
    for row in range(len(canvas)):
        np.testing.assert_allclose(run(denoiser, PLAIN, canvas[row : row + 1]), together[row : row + 1], atol=1e-4)


def test_pairs_without_a_position_are_part_of_the_grid():
    sides = Grid.make(6, hosts=[(i, j) for i in range(2) for j in range(2, 6)])
    denoiser, canvas = make(sides), canvases(sides)
    conditions = {"slots": jnp.asarray(sides.slots), "nodes": jnp.zeros(sides.nodes)}
    valid = jnp.ones(canvas.shape, bool)
    found = logits(denoiser, jnp.asarray(canvas), valid, conditions)
    assert found.shape == (*canvas.shape, 2)
    assert np.isfinite(found).all()
    full = np.full((len(canvas), len(PLAIN.slots)), denoiser.alphabet.pad, np.int32)
    full[:, [PLAIN.position[int(i), int(j)] for i, j in sides.slots]] = canvas
    there = full != denoiser.alphabet.pad
    whole = logits(denoiser, jnp.asarray(full), jnp.asarray(there), {"slots": jnp.asarray(PLAIN.slots)})
    np.testing.assert_allclose(np.asarray(whole)[there].reshape(found.shape), found, atol=1e-4)


def test_relations():
    slots = jnp.array([(0, 1), (1, 2), (2, 3), (1, 0), (2, 2)])
    found = np.asarray(relations(slots))
    none, one, same = NO_RELATION, SHARES_NODE, SAME_NODES
    expected = [
        [same, one, none, same, none],
        [one, same, one, one, one],
        [none, one, same, none, one],
        [same, one, none, same, none],
        [none, one, one, none, same],
    ]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("directed", [False, True])
def test_most_nodes(directed: bool):
    for nodes in range(2, 40):
        assert most_nodes(len(Grid.make(nodes, directed=directed).slots), directed) == nodes


@pytest.mark.parametrize("kind", KINDS)
def test_store_round_trip(kind: str, tmp_path: Path):
    denoiser = make(PLAIN, **KINDS[kind])
    save_model(tmp_path / "model", denoiser, notes={"steps": 3}, dtype="float32")
    loaded = load_model(tmp_path / "model", denoiser.alphabet)
    assert isinstance(loaded, GridDenoiser)
    assert loaded.config == denoiser.config
    canvas = canvases(PLAIN)
    np.testing.assert_array_equal(run(loaded, PLAIN, canvas), run(denoiser, PLAIN, canvas))
    # The same weights under the alphabet of another number of nodes.
    larger = load_model(tmp_path / "model", GraphAlphabet.make(Grid.make(9)))
    assert isinstance(larger, GridDenoiser)
    assert run(larger, Grid.make(9), canvases(Grid.make(9))).shape == (3, 36, 2)


def test_refusals():
    with pytest.raises(InputError, match="choose one of pairs, tokens"):
        GridConfig(num_letters=2, kind="both")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="needs codes"):
        GridConfig(num_letters=2, kind="tokens")
    with pytest.raises(InputError, match="not a multiple"):
        GridConfig(num_letters=2, width=10, heads=4)
    with pytest.raises(InputError, match="unknown network option 'widht'"):
        GridConfig.from_dict({"num_letters": 2, "widht": 3})
    with pytest.raises(InputError, match="of undirected graphs, not of directed ones"):
        init_grid(GridConfig(num_letters=2), GraphAlphabet.make(DIRECTED), seed=0)
    with pytest.raises(InputError, match="condition 'slots'"):
        make(PLAIN)(jnp.zeros((1, 15), jnp.int32), jnp.ones((1, 15), bool), jnp.ones(1))
