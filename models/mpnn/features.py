"""Features of residues, of pairs of neighbours and of context atoms (Dauparas et al. 2022 and 2025)."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.models.mpnn.config import MPNNConfig

BINS, NEAREST, FARTHEST = 16, 2.0, 22.0
OFFSET = 32
EPSILON = 1e-6
# Atoms 0..4 are N, CA, C, O and the virtual CB; the published order of the pairs.
_N, _CA, _C, _O, _CB = range(5)
PAIRS = (
    *((_CA, _CA), (_N, _N), (_C, _C), (_O, _O), (_CB, _CB), (_CA, _N), (_CA, _C), (_CA, _O), (_CA, _CB), (_N, _C)),
    *((_N, _O), (_N, _CB), (_CB, _C), (_CB, _O), (_O, _C), (_N, _CA), (_C, _CA), (_O, _CA), (_CB, _CA), (_C, _N)),
    *((_O, _N), (_CB, _N), (_C, _CB), (_O, _CB), (_C, _O)),
)
ELEMENTS, GROUPS, PERIODS = 120, 19, 8


def linear(inputs: int, outputs: int, rngs: nnx.Rngs, *, bias: bool = True) -> nnx.Linear:
    """A linear map."""
    return nnx.Linear(inputs, outputs, use_bias=bias, rngs=rngs)


def norm(width: int, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """Layer normalisation as torch computes it."""
    return nnx.LayerNorm(width, epsilon=1e-5, use_fast_variance=False, rngs=rngs)


def with_cb(backbone: Float[Array, "N 4 3"]) -> Float[Array, "N 5 3"]:
    """N, CA, C, O and CB at its ideal place (coefficients of Dauparas et al. 2022)."""
    n, ca, c = backbone[:, 0], backbone[:, 1], backbone[:, 2]
    b, d = ca - n, c - ca
    cb = -0.58273431 * jnp.cross(b, d) + 0.56802827 * b - 0.54067466 * d + ca
    return jnp.concatenate([backbone, cb[:, None]], axis=1)


def distance(a: Float[Array, "*n 3"], b: Float[Array, "*n 3"]) -> Float[Array, "*n"]:
    """Distance in Angstrom, kept off zero."""
    return jnp.sqrt(jnp.sum((a - b) ** 2, axis=-1) + EPSILON)


def radial(d: Float[Array, "*n"]) -> Float[Array, "*n 16"]:
    """Gaussian bins of a distance."""
    centres = jnp.linspace(NEAREST, FARTHEST, BINS, dtype=jnp.float32)
    width = (FARTHEST - NEAREST) / BINS
    return jnp.exp(-(((d[..., None] - centres.reshape((1,) * d.ndim + (BINS,))) / width) ** 2))


def nearest(
    ca: Float[Array, "N 3"], mask: Bool[Array, "N"], neighbours: int
) -> tuple[Int[Array, "N K"], Bool[Array, "N K"]]:
    """The nearest residues by CA, each one itself first, and which of them are real; nodes without mask are none."""
    square = jnp.sum((ca[:, None] - ca[None]) ** 2, axis=-1)
    pair = mask[:, None] & mask[None, :]
    negative, index = jax.lax.top_k(jnp.where(pair, -square, -jnp.inf), min(neighbours, len(ca)))
    return index.astype(jnp.int32), negative > -jnp.inf


class PositionalEncodings(nnx.Module):
    """Offset along the chain, clipped, or that there is no common chain."""

    def __init__(self, rngs: nnx.Rngs):
        self.linear = linear(2 * OFFSET + 2, 16, rngs)

    def __call__(self, offset: Int[Array, "N K"], same: Bool[Array, "N K"]) -> Float[Array, "N K 16"]:
        clipped = jnp.clip(offset + OFFSET, 0, 2 * OFFSET)
        return self.linear(jax.nn.one_hot(jnp.where(same, clipped, 2 * OFFSET + 1), 2 * OFFSET + 2))


class Features(nnx.Module):
    """Edge features of all kinds; node features of membrane networks, atom features of ligand networks."""

    def __init__(self, config: MPNNConfig, rngs: nnx.Rngs):
        width = config.width
        self.embeddings = PositionalEncodings(rngs)
        self.edge_embedding = linear(16 + BINS * len(PAIRS), width, rngs, bias=False)
        self.norm_edges = norm(width, rngs)
        self.node_embedding = linear(3, width, rngs, bias=False) if config.kind == "membrane" else None
        self.norm_nodes = norm(width, rngs) if config.kind != "protein" else None
        ligand, types = config.kind == "ligand", ELEMENTS + GROUPS + PERIODS
        self.node_project_down = linear(5 * BINS + 64 + 4, width, rngs) if ligand else None
        self.type_linear = linear(types, 64, rngs) if ligand else None
        self.y_nodes = linear(types, width, rngs, bias=False) if ligand else None
        self.y_edges = linear(BINS, width, rngs, bias=False) if ligand else None
        self.norm_y_nodes = norm(width, rngs) if ligand else None
        self.norm_y_edges = norm(width, rngs) if ligand else None

    def edges(
        self, atoms: Float[Array, "N 5 3"], number: Int[Array, "N"], chain: Int[Array, "N"], near: Int[Array, "N K"]
    ) -> Float[Array, "N K D"]:
        """Features of each residue and its neighbours: 25 distances between atoms, and the offset along the chain."""
        first, second = (jnp.array(ends) for ends in zip(*PAIRS, strict=True))
        here, there = atoms[:, None, first], atoms[near][:, :, second]
        bins = radial(distance(here, there)).reshape(*near.shape, -1)
        place = self.embeddings(number[:, None] - number[near], chain[:, None] == chain[near])
        return self.norm_edges(self.edge_embedding(jnp.concatenate([place, bins], axis=-1)))

    def labels(self, labels: Int[Array, "N"]) -> Float[Array, "N D"]:
        """Node features of a membrane network."""
        assert self.node_embedding is not None
        assert self.norm_nodes is not None
        return self.norm_nodes(self.node_embedding(jax.nn.one_hot(labels, 3)))

    def context(
        self, atoms: Float[Array, "N 5 3"], context: Float[Array, "N A 3"], elements: Int[Array, "N A"]
    ) -> tuple[Float[Array, "N A D"], Float[Array, "N A D"], Float[Array, "N A A D"]]:
        """Features of a ligand network: residue and atom, atom, atom and atom."""
        assert self.node_project_down is not None
        assert self.type_linear is not None
        assert self.norm_nodes is not None
        assert self.y_nodes is not None
        assert self.y_edges is not None
        assert self.norm_y_nodes is not None
        assert self.norm_y_edges is not None
        kinds = element_features(elements)
        bins = [radial(distance(atoms[:, None, a], context)) for a in (_N, _CA, _C, _O, _CB)]
        parts = [*bins, self.type_linear(kinds), angles(atoms, context)]
        pair = self.norm_nodes(self.node_project_down(jnp.concatenate(parts, axis=-1)))
        nodes = self.norm_y_nodes(self.y_nodes(kinds))
        between = radial(distance(context[:, :, None], context[:, None]))
        return pair, nodes, self.norm_y_edges(self.y_edges(between))


def element_features(elements: Int[Array, "N A"]) -> Float[Array, "N A 147"]:
    """One-hot element, group and period of the periodic table; class 0 of all three for no atom."""
    groups, periods = (jnp.asarray(table) for table in periodic_table())
    kinds = ((elements, ELEMENTS), (groups[elements], GROUPS), (periods[elements], PERIODS))
    return jnp.concatenate([jax.nn.one_hot(value, size) for value, size in kinds], axis=-1)


def periodic_table() -> tuple[np.ndarray, np.ndarray]:
    """Group (lanthanides and actinides: 3) and period of each atomic number, 0 for none; int32 [119] each."""
    groups, periods = np.zeros(119, np.int32), np.zeros(119, np.int32)
    last = 0
    for period, size in enumerate((2, 8, 8, 18, 18, 32, 32), 1):
        tail = {2: 1, 8: 6, 18: 16, 32: 16}[size]
        columns = [1, *([2] if size > 2 else []), *([3] * (14 if size == 32 else 0)), *range(19 - tail, 19)]
        groups[last + 1 : last + 1 + size] = columns
        periods[last + 1 : last + 1 + size] = period
        last += size
    return groups, periods


def angles(atoms: Float[Array, "N 5 3"], context: Float[Array, "N A 3"]) -> Float[Array, "N A 4"]:
    """Direction of each context atom in the residue's own frame (e1 along N-CA, e2 in the plane of C)."""
    ca = atoms[:, _CA]
    e1 = _unit(atoms[:, _N] - ca)
    v2 = atoms[:, _C] - ca
    e2 = _unit(v2 - e1 * jnp.sum(e1 * v2, axis=-1, keepdims=True))
    frame = jnp.stack([e1, e2, jnp.cross(e1, e2)], axis=-1)
    x, y, z = jnp.moveaxis(jnp.einsum("nqp,naq->nap", frame, context - ca[:, None]), -1, 0)
    plane = jnp.sqrt(x**2 + y**2 + 1e-8)
    length = jnp.sqrt(x**2 + y**2 + z**2) + 1e-8
    return jnp.stack([x / plane, y / plane, plane / length, z / length], axis=-1)


def _unit(v: Float[Array, "N 3"]) -> Float[Array, "N 3"]:
    return v / jnp.maximum(jnp.linalg.norm(v, axis=-1, keepdims=True), 1e-12)
