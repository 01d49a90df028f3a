"""Networks over the pairs of nodes of a graph: tokens on an n x n grid, or in a row.

:class:`PairGrid` holds a state for each ordered pair of nodes. A block adds three parts to it: attention along each
row, whose score of (i, k) for (i, j) is biased by the pair (j, k); the triangle update of AlphaFold 2 (Jumper et al.
2021, algorithm 11), which sums products of (i, k) and (j, k) over k; and a feed-forward part. All of it treats nodes
alike, so permuting the nodes permutes the logits; undirected states stay symmetric, because whatever would break the
symmetry is added to its own transpose. A block costs O(n^3).

:class:`TokenRow` runs the library's flat transformer over the positions, each marked by the codes of its two nodes,
with attention biased by how many nodes two positions share.

Both map tokens [B, L] to logits [B, L, V] for any number of nodes. A row's nodes are those that its valid positions
reach; the others are out of everybody's sight, so that logits do not depend on padding.

Codes tell nodes apart. They are fixed pseudo-random vectors by index, the same in training and in sampling; training
relabels the nodes at random in every batch, which makes them codes drawn afresh for each graph. Under random labels the
best prediction does not depend on them: for ``pairs`` they only add what invariants of the block cannot see, and they
inform where labels are in an order that means something.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.grid import MAX_NODES
from seqdiff.models.config import TransformerConfig
from seqdiff.models.grid.config import GridConfig
from seqdiff.models.transformer import Transformer

NO_RELATION, SHARES_NODE, SAME_NODES, RELATIONS = 0, 1, 2, 3
"""What two positions have in common; SAME_NODES is the position itself or the arc that points back."""


def _linear(inputs: int, outputs: int, rngs: nnx.Rngs, std: float | None = None) -> nnx.Linear:
    init = nnx.initializers.normal(std) if std is not None else nnx.initializers.lecun_normal()
    return nnx.Linear(inputs, outputs, use_bias=False, kernel_init=init, rngs=rngs)


def _norm(size: int, rngs: nnx.Rngs) -> nnx.LayerNorm:
    return nnx.LayerNorm(size, use_fast_variance=False, rngs=rngs)


def _swap(x: Array) -> Array:
    """The transposed grid."""
    return jnp.swapaxes(x, 1, 2)


def node_codes(width: int) -> Float[np.ndarray, "nodes width"]:
    """Codes by formula, of mean 0 and variance 1: cosines of a quadratic Weyl sequence per coordinate."""
    node = np.arange(1, MAX_NODES + 1, dtype=np.float64)[:, None]
    slope = np.sqrt(2.0) + np.arange(1, width + 1, dtype=np.float64)[None, :] * math.e
    return (math.sqrt(2.0) * np.cos(2 * math.pi * np.mod(node**2 * slope, 1.0))).astype(np.float32)


class RowAttention(nnx.Module):
    """Attention of each pair to the pairs of its row, biased by the third side of the triangle."""

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        width = config.width
        self.heads, self.directed = config.heads, config.directed
        self.qkv_proj = _linear(width, 3 * width, rngs)
        self.bias_proj = _linear(width, config.heads, rngs)
        self.o_proj = _linear(width, width, rngs, 0.2 / math.sqrt(2 * width * config.depth))

    def __call__(self, x: Float[Array, "B n n D"], real: Bool[Array, "B n"]) -> Float[Array, "B n n D"]:
        batch, nodes, _, width = x.shape
        size = width // self.heads
        qkv = self.qkv_proj(x).reshape(batch, nodes, nodes, 3, self.heads, size)
        q, k, v = qkv[..., 0, :, :], qkv[..., 1, :, :], qkv[..., 2, :, :]
        scores = jnp.einsum("bijhd,bikhd->bihjk", q * size**-0.5, k)
        scores = scores + jnp.moveaxis(self.bias_proj(x), -1, 1)[:, None]
        scores = jnp.where(real[:, None, None, None, :], scores, -1e30)
        mixed = jnp.einsum("bihjk,bikhd->bijhd", jax.nn.softmax(scores, axis=-1), v)
        out = self.o_proj(mixed.reshape(x.shape))
        return out if self.directed else out + _swap(out)


class Triangle(nnx.Module):
    """Sums over a third node of products of two sides, gated by the pair itself."""

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        width, channels = config.width, config.channels
        self.directed = config.directed
        self.sides_proj = _linear(width, 2 * channels, rngs)
        self.norm = _norm(channels, rngs)
        self.gate_proj = _linear(width, width, rngs)
        self.o_proj = _linear(channels, width, rngs, 0.2 / math.sqrt(2 * channels * config.depth))

    def __call__(self, x: Float[Array, "B n n D"], real: Bool[Array, "B n"]) -> Float[Array, "B n n D"]:
        sides = jnp.where(real[:, None, :, None], self.sides_proj(x), 0.0)
        left, right = jnp.split(sides, 2, axis=-1)
        found = jnp.einsum("bikc,bjkc->bijc", left, right)
        found = found if self.directed else found + _swap(found)
        return jax.nn.sigmoid(self.gate_proj(x)) * self.o_proj(self.norm(found))


class FeedForward(nnx.Module):
    """SwiGLU (Shazeer 2020) on each pair."""

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        self.gate_proj = _linear(config.width, config.hidden, rngs)
        self.up_proj = _linear(config.width, config.hidden, rngs)
        self.down_proj = _linear(config.hidden, config.width, rngs, 0.2 / math.sqrt(2 * config.hidden * config.depth))

    def __call__(self, x: Float[Array, "B n n D"]) -> Float[Array, "B n n D"]:
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))


class PairBlock(nnx.Module):
    """Row attention, triangle update and feed-forward part, each behind a norm."""

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        self.attention = RowAttention(config, rngs)
        self.triangle = Triangle(config, rngs)
        self.mlp = FeedForward(config, rngs)
        self.norms = nnx.List([_norm(config.width, rngs) for _ in range(3)])

    def __call__(self, x: Float[Array, "B n n D"], real: Bool[Array, "B n"]) -> Float[Array, "B n n D"]:
        x = x + self.attention(self.norms[0](x), real)
        x = x + self.triangle(self.norms[1](x), real)
        return x + self.mlp(self.norms[2](x))


class PairGrid(nnx.Module):
    """A state for each pair of nodes.

    Attributes:
        config: the architecture.
    """

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        self.config = config
        letters, width = config.num_letters, config.width
        init = nnx.initializers.normal(1.0)
        # A pair without a position, such as a node with itself, is the last token.
        self.embed_there = nnx.Embed(letters + 2, width, embedding_init=init, rngs=rngs)
        self.embed_back = nnx.Embed(letters + 2, width, embedding_init=init, rngs=rngs) if config.directed else None
        sample = jax.eval_shape(lambda: self.features(jnp.zeros((1, 2, 2), jnp.int32), jnp.ones((1, 2), bool)))
        self.embed_features = _linear(sample.shape[-1], width, rngs)
        self.layers = nnx.List([PairBlock(config, rngs) for _ in range(config.depth)])
        self.norm = _norm(width, rngs)
        self.lm_head = nnx.Linear(width, letters, kernel_init=nnx.initializers.normal(0.02), rngs=rngs)

    def __call__(
        self, tokens: Int[Array, "B L"], valid: Bool[Array, "B L"], slots: Int[Array, "L 2"], nodes: int
    ) -> Float[Array, "B L V"]:
        """Logits of the clean letter at each position.

        Args:
            tokens: letters and MASK.
            valid: false beyond a row's length.
            slots: the two nodes of each position, (0, 0) beyond the last one.
            nodes: size of the grid, at least the nodes of every row.
        """
        first, second = slots[:, 0], slots[:, 1]
        absent = self.config.num_letters + 1
        tokens = jnp.where(valid, tokens, absent)
        grid = jnp.full((tokens.shape[0], nodes, nodes), absent, jnp.int32).at[:, first, second].min(tokens)
        if not self.config.directed:
            grid = grid.at[:, second, first].min(tokens)
        count = 1 + jnp.max(jnp.where(valid, jnp.max(slots, axis=1)[None, :], -1), axis=1)
        real = jnp.arange(nodes)[None, :] < count[:, None]
        x = self.embed_there(grid) + self.embed_features(self.features(grid, real))
        if self.embed_back is not None:
            x = x + self.embed_back(_swap(grid))
        for layer in self.layers:
            x = layer(x, real)
        return self.lm_head(self.norm(x))[:, first, second]

    def features(self, grid: Int[Array, "B n n"], real: Bool[Array, "B n"]) -> Float[Array, "B n n F"]:
        """What the network is told of each pair beside its own token: size, identity, codes and structure."""
        config, (batch, nodes, _) = self.config, grid.shape
        cell = (batch, nodes, nodes, 1)
        size = jnp.log(jnp.maximum(jnp.sum(real, axis=1), 1).astype(jnp.float32)) / 4.0
        found = [
            jnp.broadcast_to(jnp.eye(nodes)[None, :, :, None], cell),
            jnp.broadcast_to(size[:, None, None, None], cell),
        ]
        if config.codes:
            codes = jnp.broadcast_to(jnp.asarray(node_codes(config.codes))[None, :nodes], (batch, nodes, config.codes))
            found += [*self._of_both(codes), codes[:, :, None] * codes[:, None, :]]
        if config.structure:
            found += self._structure(grid, real)
        return jnp.concatenate(found, axis=-1)

    def _structure(self, grid: Int[Array, "B n n"], real: Bool[Array, "B n"]) -> list[Float[Array, "B n n F"]]:
        """Degrees, open pairs, paths of two and three edges, distances up to four, and components."""
        letters, nodes = self.config.num_letters, grid.shape[1]
        between = real[:, :, None] & real[:, None, :] & ~jnp.eye(nodes, dtype=bool)[None]
        edge = (between & (grid > 0) & (grid < letters)).astype(jnp.float32)
        open = (between & (grid == letters)).astype(jnp.float32)
        degrees = [jnp.log1p(jnp.sum(matrix, axis=2)) for matrix in (edge, open)]
        if self.config.directed:
            degrees += [jnp.log1p(jnp.sum(matrix, axis=1)) for matrix in (edge, open)]
        two = edge @ edge
        reach = jnp.minimum(edge + jnp.eye(nodes)[None], 1.0)
        within = []
        for _ in range(max(2, math.ceil(math.log2(nodes)))):
            reach = jnp.minimum(reach @ reach, 1.0)
            within.append(reach)
        near = jnp.stack([jnp.log1p(two), jnp.log1p(two @ edge), within[1], within[-1]], axis=-1)
        return self._of_both(jnp.stack(degrees, axis=-1)) + ([near, _swap(near)] if self.config.directed else [near])

    def _of_both(self, x: Float[Array, "B n F"]) -> list[Float[Array, "B n n F"]]:
        """Features of the two nodes for each pair: their sum, or one after the other where directed."""
        nodes = x.shape[1]
        rows, columns = jnp.repeat(x[:, :, None], nodes, axis=2), jnp.repeat(x[:, None], nodes, axis=1)
        return [rows, columns] if self.config.directed else [rows + columns]


class TokenRow(nnx.Module):
    """The shared transformer over the positions.

    Attributes:
        config: the architecture.
    """

    def __init__(self, config: GridConfig, rngs: nnx.Rngs):
        self.config = config
        self.body = Transformer(self.transformer, rngs)
        self.embed_codes = _linear((3 if config.directed else 2) * config.codes, config.width, rngs)

    @property
    def transformer(self) -> TransformerConfig:
        """Architecture of the transformer."""
        return self.config.transformer(RELATIONS)

    def __call__(
        self, tokens: Int[Array, "B L"], valid: Bool[Array, "B L"], slots: Int[Array, "L 2"], nodes: int
    ) -> Float[Array, "B L V"]:
        """As of :class:`PairGrid`."""
        body = self.body
        codes = jnp.asarray(node_codes(self.config.codes))
        first, second = codes[slots[:, 0]], codes[slots[:, 1]]
        both = [first, second] if self.config.directed else [first + second]
        x = body.embed_tokens(jnp.where(valid, tokens, self.config.num_letters + 1))
        x = x + self.embed_codes(jnp.concatenate([*both, first * second], axis=-1))[None]
        common = relations(slots)[None]
        for layer in body.layers:
            x = layer(x, valid[:, None, :], common, None)
        return body.lm_head(body.norm(x))


def relations(slots: Int[Array, "L 2"]) -> Int[Array, "L L"]:
    """What each two positions have in common."""
    own, other = slots[:, None, :], slots[None, :, :]
    straight, crossed = own == other, own == other[..., ::-1]
    same = jnp.all(straight, axis=-1) | jnp.all(crossed, axis=-1)
    shares = jnp.any(straight | crossed, axis=-1)
    return jnp.where(same, SAME_NODES, jnp.where(shares, SHARES_NODE, NO_RELATION))


def make_network(config: GridConfig, rngs: nnx.Rngs) -> PairGrid | TokenRow:
    """The network that ``config`` describes."""
    return PairGrid(config, rngs) if config.kind == "pairs" else TokenRow(config, rngs)
