"""Published ProteinMPNN checkpoints as denoisers: our modules have their names, so only layouts change."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.denoiser import MPNNDenoiser, abstract_mpnn
from seqdiff.models.store import flatten


def from_tensors(tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any], alphabet: Alphabet) -> MPNNDenoiser:
    """The denoiser of a checkpoint.

    Args:
        tensors: its ``model_state_dict``.
        meta: its other entries: ``num_edges``, and ``atom_context_num`` of ligand networks.
        alphabet: the twenty letters.

    Raises:
        InputError: it is no checkpoint of the family, or a tensor is missing, unknown or of another shape.
    """
    if "W_s.weight" not in tensors or "num_edges" not in meta:
        raise InputError("the file is no ProteinMPNN checkpoint: it lacks W_s.weight or num_edges")
    kind = "protein"
    if "features.node_project_down.weight" in tensors:
        kind = "ligand"
    elif "features.node_embedding.weight" in tensors:
        kind = "membrane"
    config = MPNNConfig(
        kind=kind,
        neighbours=int(meta["num_edges"]),
        atoms=int(meta.get("atom_context_num", 0)) if kind == "ligand" else 0,
        width=tensors["W_s.weight"].shape[1],
        depth=len({name.split(".")[1] for name in tensors if name.startswith("decoder_layers.")}),
        letters=tensors["W_s.weight"].shape[0],
        noise=float(meta.get("noise_level", 0.0)),
    )
    shapes = abstract_mpnn(config, alphabet)
    leaves, used = [], set()
    for name, shape in flatten(shapes.params).items():
        module, part = name.rsplit(".", 1)
        theirs = f"{module}.{'bias' if part == 'bias' else 'weight'}"
        if theirs not in tensors:
            raise InputError(f"the checkpoint lacks {theirs!r}")
        used.add(theirs)
        value = np.asarray(tensors[theirs], np.float32)
        value = value.T if part == "kernel" else value
        if value.shape != shape.shape:
            raise InputError(f"{theirs} has shape {tensors[theirs].shape}, the network's has {shape.shape}")
        leaves.append(jnp.asarray(value))
    if extra := sorted(set(tensors) - used - {"features.side_chain_atom_types", "features.periodic_table_features"}):
        raise InputError(f"the checkpoint has {extra[0]!r}, which no part of the network reads ({len(extra)} tensors)")
    params = jax.tree.unflatten(jax.tree.structure(shapes.params), leaves)
    return MPNNDenoiser(shapes.graphdef, params, config, alphabet)
