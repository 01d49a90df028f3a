"""The message-passing network: an encoder over the structure, and a decoder over letters in any order.

A decoder layer sends residue i a message from each neighbour j through ``W1 [h_i, e_ij, s_j, h_j]``, where letter and
state of j are known if j comes before i in the order, and otherwise the letter is left out and the state is the
encoder's. W1 is linear, so its parts are applied where they are cheapest: to edges and encoder states once per
structure, to letters and states once per node. Only one matrix and two nonlinearities act on edges at every call; W3,
linear too, acts on their sum.

Residues around the canvas come before all of it and never change: their states are part of the encoding.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.features import Features, linear, nearest, norm, with_cb
from seqdiff.models.mpnn.inputs import MPNNInputs

MESSAGE_SCALE = 30.0
CONTEXT_NODES = 64
"""Residues whose context atoms are looked at together: pairs of atoms take the most memory of all."""


def gelu(x: Array) -> Array:
    """The exact GELU."""
    return jax.nn.gelu(x, approximate=False)


class Encoding(NamedTuple):
    """What the decoder needs of a structure; N nodes, of which the first L are the canvas's. Models may be stacked.

    Attributes:
        near: neighbours of the canvas's nodes.
        real: which of them there are.
        mask: canvas nodes with a whole backbone.
        nodes: encoder states of the canvas's nodes.
        edges: for each layer, what reaches W1 of an edge whose neighbour is not decoded yet.
        hidden: for each layer, what reaches W1 of a node that is not decoded yet.
        around: for each layer, what a node around the canvas adds to that.
    """

    near: Int[Array, "*M L K"]
    real: Bool[Array, "*M L K"]
    mask: Bool[Array, "*M L"]
    nodes: Float[Array, "*M L D"]
    edges: tuple[Float[Array, "*M L K D"], ...]
    hidden: tuple[Float[Array, "*M L D"], ...]
    around: tuple[Float[Array, "*M C D"], ...]


class PositionWise(nnx.Module):
    """The feed-forward part of a layer."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        self.W_in, self.W_out = linear(width, 4 * width, rngs), linear(4 * width, width, rngs)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return self.W_out(gelu(self.W_in(x)))


class Layer(nnx.Module):
    """Messages summed over neighbours, then a feed-forward part; the pattern of all layers.

    Attributes:
        W1: its inputs are parts of ``width`` each, the receiving node's own first; see :meth:`part`.
    """

    def __init__(self, width: int, parts: int, rngs: nnx.Rngs, *, edges: bool = False):
        self.width = width
        self.W1, self.W2, self.W3 = (linear(n, width, rngs) for n in (parts * width, width, width))
        self.norm1, self.norm2 = norm(width, rngs), norm(width, rngs)
        self.dense = PositionWise(width, rngs)
        self.W11, self.W12, self.W13 = (
            (linear(n, width, rngs) for n in (parts * width, width, width)) if edges else (None, None, None)
        )
        self.norm3 = norm(width, rngs) if edges else None

    def part(self, number: int, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """The contribution of one of the inputs of W1."""
        return _part(self.W1, number, x, self.width)

    def update(
        self, h: Float[Array, "*n D"], before: Float[Array, "*n K D"], weight: Float[Array, "*n K 1"]
    ) -> Float[Array, "*n D"]:
        """New node states from what reaches W1 of each edge, its bias included, and the weight of each edge."""
        inner = jnp.sum(weight * gelu(self.W2(gelu(before))), axis=-2)
        message = inner @ self.W3.kernel[...] + jnp.sum(weight, axis=-2) * _bias(self.W3, inner)
        h = self.norm1(h + message / MESSAGE_SCALE)
        return self.norm2(h + self.dense(h))


def _part(layer: nnx.Linear, number: int, x: Float[Array, "*n D"], width: int) -> Float[Array, "*n D"]:
    return x @ layer.kernel[...][number * width : (number + 1) * width]


def _bias(layer: nnx.Linear, like: Array) -> Array:
    assert layer.bias is not None
    return layer.bias[...].reshape((1,) * (like.ndim - 1) + (-1,))


class MPNN(nnx.Module):
    """ProteinMPNN, LigandMPNN and the membrane networks; names of submodules as in the published checkpoints.

    Attributes:
        config: the architecture.
    """

    def __init__(self, config: MPNNConfig, rngs: nnx.Rngs):
        width, depth = config.width, config.depth
        ligand = config.kind == "ligand"
        self.config = config
        self.features = Features(config, rngs)
        self.W_e = linear(width, width, rngs)
        self.W_s = nnx.Embed(config.letters, width, rngs=rngs)
        self.encoder_layers = nnx.List([Layer(width, 3, rngs, edges=True) for _ in range(depth)])
        self.decoder_layers = nnx.List([Layer(width, 4, rngs) for _ in range(depth)])
        self.W_out = linear(width, config.letters, rngs)
        self.W_v = linear(width, width, rngs) if config.kind != "protein" else None
        self.W_c = linear(width, width, rngs) if ligand else None
        self.W_nodes_y = linear(width, width, rngs) if ligand else None
        self.W_edges_y = linear(width, width, rngs) if ligand else None
        self.V_C = linear(width, width, rngs, bias=False) if ligand else None
        self.V_C_norm = norm(width, rngs) if ligand else None
        context = 2 if ligand else 0
        self.context_encoder_layers = nnx.List([Layer(width, 3, rngs) for _ in range(context)])
        self.y_context_encoder_layers = nnx.List([Layer(width, 2, rngs) for _ in range(context)])

    def encode(self, inputs: MPNNInputs) -> Encoding:
        """The encoding of one model of a structure."""
        backbone, mask, number, chain, letters, labels, context, elements = map(jnp.asarray, inputs)
        atoms = with_cb(backbone)
        near, real = nearest(atoms[:, 1], mask, self.config.neighbours)
        e = self.W_e(self.features.edges(atoms, number, chain, near))
        h = jnp.zeros((len(mask), self.config.width))
        if self.config.kind == "membrane" and self.W_v is not None:
            h = self.W_v(self.features.labels(labels))
        weight, own = real[..., None].astype(e.dtype), mask[:, None].astype(e.dtype)
        for layer in self.encoder_layers:
            before = layer.part(0, h)[:, None] + layer.part(1, e) + layer.part(2, h)[near] + _bias(layer.W1, e)
            h = own * layer.update(h, before, weight)
            e = self._update_edges(layer, h, e, near)
        if self.config.kind == "ligand":
            nodes = (h, atoms, context, elements, own)
            h = h + jax.lax.map(
                lambda node: self._context(*(x[None] for x in node))[0], nodes, batch_size=CONTEXT_NODES
            )
        return self._prepare(h, e, near, real, mask, letters)

    def _update_edges(
        self, layer: Layer, h: Float[Array, "N D"], e: Float[Array, "N K D"], near: Int[Array, "N K"]
    ) -> Float[Array, "N K D"]:
        assert layer.W11 is not None
        assert layer.W12 is not None
        assert layer.W13 is not None
        assert layer.norm3 is not None
        own, edge, other = (_part(layer.W11, number, x, layer.width) for number, x in enumerate((h, e, h)))
        return layer.norm3(
            e + layer.W13(gelu(layer.W12(gelu(own[:, None] + edge + other[near] + _bias(layer.W11, e)))))
        )

    def _context(
        self,
        h: Float[Array, "N D"],
        atoms: Float[Array, "N 5 3"],
        context: Float[Array, "N A 3"],
        elements: Int[Array, "N A"],
        own: Float[Array, "N 1"],
    ) -> Float[Array, "N D"]:
        """What the atoms around each residue say to it."""
        assert self.W_v is not None
        assert self.W_c is not None
        assert self.W_nodes_y is not None
        assert self.W_edges_y is not None
        assert self.V_C is not None
        assert self.V_C_norm is not None
        pair, y, y_edges = self.features.context(atoms, context, elements)
        pair, c, y, y_edges = self.W_v(pair), self.W_c(h), self.W_nodes_y(y), self.W_edges_y(y_edges)
        there = (elements > 0)[..., None].astype(h.dtype)
        both = there[:, :, None] * there[:, None]
        for on_atoms, on_residues in zip(self.y_context_encoder_layers, self.context_encoder_layers, strict=True):
            before = on_atoms.part(0, y)[:, :, None] + on_atoms.part(1, y_edges) + _bias(on_atoms.W1, y_edges)
            y = there * on_atoms.update(y, before, both)
            before = on_residues.part(0, c)[:, None] + on_residues.part(1, pair) + on_residues.part(2, y)
            c = own * on_residues.update(c, before + _bias(on_residues.W1, before), there)
        return self.V_C_norm(self.V_C(c))

    def _prepare(
        self,
        h: Float[Array, "N D"],
        e: Float[Array, "N K D"],
        near: Int[Array, "N K"],
        real: Bool[Array, "N K"],
        mask: Bool[Array, "N"],
        letters: Int[Array, "C"],
    ) -> Encoding:
        """The decoder's inputs that no letter of the canvas changes."""
        size = len(mask) - len(letters)
        hidden = [layer.part(3, h) for layer in self.decoder_layers]
        edges = [
            layer.part(1, e) + _bias(layer.W1, e) + part[near]
            for layer, part in zip(self.decoder_layers, hidden, strict=True)
        ]
        first, last = slice(None, size), slice(size, None)
        around: list[Array] = []
        state, tie = h[last], ties(len(letters), 1)
        before = jnp.concatenate([jnp.full(size, jnp.inf), tie])[near[last]] < tie[:, None]
        before, own, weight = (x[..., None].astype(h.dtype) for x in (before, mask[last], real[last]))
        for layer, edge, part in zip(self.decoder_layers, edges, hidden, strict=True):
            told = self._told(layer, letters, state) - part[last]
            around.append(told)
            everyone = jnp.concatenate([jnp.zeros((size, h.shape[1])), told])
            reach = edge[last] + layer.part(0, state)[:, None] + before * everyone[near[last]]
            state = own * layer.update(state, reach, weight)
        return Encoding(
            near=near[first],
            real=real[first],
            mask=mask[first],
            nodes=h[first],
            edges=tuple(edge[first] for edge in edges),
            hidden=tuple(part[first] for part in hidden),
            around=tuple(around),
        )

    def _told(self, layer: Layer, letters: Int[Array, "*n"], state: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """What decoded nodes bring to W1: their letter and their state."""
        return layer.part(2, self.W_s.embedding[...])[letters] + layer.part(3, state)

    def decode(
        self, encoding: Encoding, letters: Int[Array, "L"], known: Bool[Array, "L"], order: Int[Array, "L"]
    ) -> Float[Array, "L V"]:
        """Logits of each canvas letter given the letters before it; see ``core.contracts.Denoiser`` for the order.

        Args:
            encoding: of one model.
            letters: anything where unknown.
            known: which letters there are.
            order: when they came; equal ones are told apart by a fixed number for each position.
        """
        near, tie = encoding.near, ties(len(letters), 0)
        ahead = jnp.zeros(len(encoding.around[0]), order.dtype) + jnp.iinfo(order.dtype).min
        when = jnp.concatenate([order, ahead])[near]
        number = jnp.concatenate([tie, jnp.zeros(len(ahead))])[near]
        there = jnp.concatenate([known & encoding.mask, jnp.ones(len(ahead), bool)])[near]
        earlier = (when < order[:, None]) | ((when == order[:, None]) & (number < tie[:, None]))
        seen = (there & earlier)[..., None].astype(jnp.float32)
        own, weight = encoding.mask[:, None].astype(jnp.float32), encoding.real[..., None].astype(jnp.float32)
        h = encoding.nodes
        for i, layer in enumerate(self.decoder_layers):
            told = jnp.concatenate([self._told(layer, letters, h) - encoding.hidden[i], encoding.around[i]])
            h = own * layer.update(h, encoding.edges[i] + layer.part(0, h)[:, None] + seen * told[near], weight)
        return self.W_out(h)


def ties(size: int, stream: int) -> Float[Array, "size"]:
    """A fixed pseudo-random number for each position, the same however far the canvas is padded."""
    return jax.random.uniform(jax.random.key(stream), (size,))
