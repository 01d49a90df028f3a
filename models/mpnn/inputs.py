"""From a structure to the arrays that the network reads, in numpy on the host.

Nodes are the canvas's residues first, in its order and padded to its size, then the residues around it. Each has a
backbone, a residue index and a chain; a ligand network is also given the atoms nearest to each residue's virtual CB.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, BACKBONE, UNKNOWN, Structure
from seqdiff.models.mpnn.features import with_cb

LETTERS = "ACDEFGHIKLMNPQRSTVWY" + UNKNOWN
SIDE_CHAIN = slice(5, 36)
"""Atoms beyond N, CA, C, CB and O in the ``atom37`` layout, without OXT."""
SIDE_CHAIN_RESIDUES = 16
_ELEMENTS = {"C": 6, "N": 7, "O": 8, "S": 16}
_SIDE_CHAIN_ELEMENTS = np.array([_ELEMENTS[name[0]] for name in ATOMS[SIDE_CHAIN]], np.int32)


class MPNNInputs(NamedTuple):
    """What the encoder reads; N nodes, of which the first are the canvas's. Models may be stacked in front.

    Attributes:
        backbone: N, CA, C and O in Angstrom.
        mask: nodes that are residues with a whole backbone.
        number: residue numbers, in steps of at least 1 along a chain.
        chain: number of the chain.
        around: letters of the nodes around the canvas, ids of :data:`LETTERS`.
        labels: membrane class of each node.
        atoms: coordinates of the nearest context atoms of each node, A per node; none for other kinds.
        elements: their atomic numbers, 0 for no atom.
    """

    backbone: Float[np.ndarray, "*M N 4 3"]
    mask: Bool[np.ndarray, "*M N"]
    number: Int[np.ndarray, "*M N"]
    chain: Int[np.ndarray, "*M N"]
    around: Int[np.ndarray, "*M C"]
    labels: Int[np.ndarray, "*M N"]
    atoms: Float[np.ndarray, "*M N A 3"]
    elements: Int[np.ndarray, "*M N A"]


def make_inputs(
    structures: Sequence[Structure],
    canvas: Int[np.ndarray, "L"],
    around: Int[np.ndarray, "C"],
    *,
    size: int,
    atoms: int = 0,
    ligands: bool = True,
    side_chains_of: Int[np.ndarray, "F"] | None = None,
    labels: Int[np.ndarray, "L"] | None = None,
    labels_around: int = 0,
    noise: float = 0.0,
    seed: int = 0,
) -> MPNNInputs:
    """Inputs of several models of the same residues, stacked.

    Args:
        structures: the models.
        canvas: indices of the residues of the canvas.
        around: indices of residues that are seen but not designed.
        size: canvas positions, padded.
        atoms: context atoms of each residue that the network reads.
        ligands: whether ligand atoms are among them.
        side_chains_of: indices of residues whose side chains are among them; None for none.
        labels: membrane class of each residue of the canvas; 0 where none is given.
        labels_around: membrane class of the residues around it.
        noise: standard deviation of the noise on coordinates, in Angstrom.
        seed: of the noise, which belongs to the residues of the structure, however the canvas is laid out and padded;
            each model has its own.

    Raises:
        InputError: the canvas is smaller than its residues.
    """
    if len(canvas) > size:
        raise InputError(f"{len(canvas)} residues do not fit on a canvas of {size}")
    parts = []
    for number, structure in enumerate(structures):
        rng = np.random.default_rng((seed, number))
        nodes = np.concatenate([canvas, np.full(size - len(canvas), -1), around]).astype(int)
        real = nodes >= 0
        coords = structure.coords[nodes]
        backbone = np.where(real[:, None, None], coords[:, BACKBONE], 0.0).astype(np.float32)
        mask = real & structure.complete[nodes]
        near, elements = np.zeros((len(nodes), atoms, 3), np.float32), np.zeros((len(nodes), atoms), np.int32)
        if atoms:
            shown = np.isin(nodes, [] if side_chains_of is None else side_chains_of) & mask
            near, elements = _context(structure, nodes, backbone, mask, shown, atoms, ligands)
        if noise:
            shift = rng.normal(0.0, noise, (len(structure), 4 + atoms, 3)).astype(np.float32)[nodes]
            backbone, near = backbone + shift[:, :4], near + shift[:, 4:]
        membrane = np.zeros(len(nodes), np.int32)
        membrane[: len(canvas)] = 0 if labels is None else labels
        membrane[size:] = labels_around
        parts.append(
            MPNNInputs(
                backbone=backbone,
                mask=mask,
                number=np.where(real, residue_index(structure)[nodes], 0).astype(np.int32),
                chain=np.where(real, _chain_numbers(structure)[nodes], -1).astype(np.int32),
                around=np.array([LETTERS.index(structure.letters[i]) for i in around], np.int32),
                labels=membrane,
                atoms=near,
                elements=elements,
            )
        )
    return MPNNInputs(*(np.stack(column) for column in zip(*parts, strict=True)))


def residue_index(structure: Structure) -> Int[np.ndarray, "L"]:
    """Residue numbers, shifted by one from each inserted residue (same number as the one before) on.

    The shift runs on over chains, as in the published code, whose relative positions it must give.
    """
    repeats = np.concatenate([[False], np.diff(structure.number) == 0])
    return (structure.number + np.cumsum(repeats)).astype(np.int32)


def _chain_numbers(structure: Structure) -> Int[np.ndarray, "L"]:
    at = {name: i for i, name in enumerate(structure.chains)}
    return np.array([at[name] for name in structure.chain], np.int32)


def _context(
    structure: Structure,
    nodes: Int[np.ndarray, "N"],
    backbone: Float[np.ndarray, "N 4 3"],
    mask: Bool[np.ndarray, "N"],
    shown: Bool[np.ndarray, "N"],
    atoms: int,
    ligands: bool,
) -> tuple[Float[np.ndarray, "N A 3"], Int[np.ndarray, "N A"]]:
    """The atoms nearest to each residue's CB: ligand atoms, and side chains of the residues shown nearby."""
    cb = np.asarray(with_cb(jnp.asarray(backbone)))[:, -1]
    seen = structure.ligand_elements > 1
    coords, elements = structure.ligand_coords[seen & ligands], structure.ligand_elements[seen & ligands]
    near, kinds = _nearest(cb, mask, np.tile(coords, (len(nodes), 1, 1)), np.tile(elements, (len(nodes), 1)), atoms)
    if not shown.any():
        return near, kinds
    ca = np.where(mask[:, None], backbone[:, 1], np.inf)
    with np.errstate(invalid="ignore"):
        distance = ((ca[:, None] - ca[None]) ** 2).sum(-1)
    beside = np.argsort(np.nan_to_num(distance, nan=np.inf), axis=1, kind="stable")[:, :SIDE_CHAIN_RESIDUES]
    chains = structure.coords[nodes][beside][:, :, SIDE_CHAIN].reshape(len(nodes), -1, 3)
    there = structure.present[nodes][beside][:, :, SIDE_CHAIN] & shown[beside][:, :, None]
    side = np.where(there, _SIDE_CHAIN_ELEMENTS[None, None], 0).reshape(len(nodes), -1)
    return _nearest(cb, mask, np.concatenate([chains, near], 1), np.concatenate([side, kinds], 1), atoms)


def _nearest(
    cb: Float[np.ndarray, "N 3"],
    mask: Bool[np.ndarray, "N"],
    coords: Float[np.ndarray, "N P 3"],
    elements: Int[np.ndarray, "N P"],
    atoms: int,
) -> tuple[Float[np.ndarray, "N A 3"], Int[np.ndarray, "N A"]]:
    """The ``atoms`` nearest of each node's own candidates; element 0 where there are fewer."""
    real = (elements > 0) & mask[:, None]
    distance = np.where(real, ((cb[:, None] - coords) ** 2).sum(-1), np.inf)
    order = np.argsort(distance, axis=1, kind="stable")[:, :atoms]
    found = np.zeros((len(cb), atoms, 3), np.float32)
    kinds = np.zeros((len(cb), atoms), np.int32)
    found[:, : order.shape[1]] = np.take_along_axis(coords, order[..., None], axis=1)
    kinds[:, : order.shape[1]] = np.where(
        np.take_along_axis(real, order, axis=1), np.take_along_axis(elements, order, axis=1), 0
    )
    return np.where(kinds[..., None] > 0, found, 0.0).astype(np.float32), kinds
