"""The denoiser network: one bidirectional transformer (Flax NNX) whose default is the ESM C architecture.

A block adds attention and a feed-forward part to the residual stream. ESM C's is pre-norm and divides each by the
residual scale; queries and keys are normalised over the full width, then cut into heads and rotated; the head is
dense, GELU, LayerNorm, linear. The options of :class:`~seqdiff.models.config.TransformerConfig` turn it into ESM-2,
BERT, or a bidirectional Llama or Qwen2. Attention is bidirectional; padding never attends or is attended to, so that a
row's logits do not depend on how far it was padded. A row may hold several sequences, its segments: none of them
attends to another, learned positions and token dropout start anew in each, and rotary positions count differences only.

The names of the submodules are those of Transformers' ``EsmcForMaskedLM``; ``seqdiff.models.names`` relies on it.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig


def _norm(config: TransformerConfig, size: int, *, bias: bool, rngs: nnx.Rngs) -> nnx.Module:
    if config.norm == "rms":
        return nnx.RMSNorm(size, epsilon=config.norm_epsilon, rngs=rngs)
    return nnx.LayerNorm(size, epsilon=config.norm_epsilon, use_bias=bias, use_fast_variance=False, rngs=rngs)


def _linear(inputs: int, outputs: int, *, bias: bool, rngs: nnx.Rngs, std: float | None = None) -> nnx.Linear:
    init = nnx.initializers.normal(std) if std is not None else nnx.initializers.lecun_normal()
    return nnx.Linear(inputs, outputs, use_bias=bias, kernel_init=init, rngs=rngs)


def rotary(x: Float[Array, "B H L D"], theta: float) -> Float[Array, "B H L D"]:
    """Rotate the halves of each head by its position (Su et al. 2021, in the half-split layout)."""
    length, half = x.shape[-2], x.shape[-1] // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * frequency[None, :]
    cos, sin = (f(angle).astype(x.dtype)[None, None] for f in (jnp.cos, jnp.sin))
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Attention(nnx.Module):
    """Bidirectional multi-head attention with full-width query-key normalisation and rotary positions."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        width, size = config.width, config.width // config.heads
        self.config = config
        self.kv_heads = config.kv_heads or config.heads
        bias = config.use_bias if config.qkv_bias is None else config.qkv_bias
        self.q_proj, self.k_proj, self.v_proj = (
            _linear(width, heads * size, bias=bias, rngs=rngs) for heads in (config.heads, self.kv_heads, self.kv_heads)
        )
        self.o_proj = _linear(width, width, bias=config.use_bias, rngs=rngs, std=0.02 / math.sqrt(2 * config.depth))
        self.q_norm = _norm(config, width, bias=False, rngs=rngs) if config.qk_norm else None
        self.k_norm = _norm(config, self.kv_heads * size, bias=False, rngs=rngs) if config.qk_norm else None
        zeros = nnx.initializers.zeros_init()
        self.relation_bias = (
            nnx.Embed(config.relations, config.heads, embedding_init=zeros, rngs=rngs) if config.relations else None
        )

    def __call__(
        self, x: Float[Array, "B L D"], attend: Bool[Array, "B Q L"], relations: Int[Array, "B L L"] | None
    ) -> Float[Array, "B L D"]:
        """``attend`` says which places each place looks at; one row (Q = 1) is the same for all places."""
        config = self.config
        batch, length, width = x.shape
        size = width // config.heads
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (jnp.swapaxes(part.reshape(batch, length, -1, size), 1, 2) for part in (q, k, v))
        if config.positions == "rotary":
            q, k = rotary(q, config.rope_theta), rotary(k, config.rope_theta)
        if self.kv_heads < config.heads:
            k, v = (jnp.repeat(part, config.heads // self.kv_heads, axis=1) for part in (k, v))
        scores = jnp.einsum("bhld,bhmd->bhlm", q * size**-0.5, k).astype(jnp.float32)
        if self.relation_bias is not None and relations is not None:
            scores = scores + jnp.moveaxis(self.relation_bias(relations), -1, 1).astype(jnp.float32)
        scores = jnp.where(attend[:, None], scores, -1e30)
        weights = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
        mixed = jnp.swapaxes(jnp.einsum("bhlm,bhmd->bhld", weights, v), 1, 2)
        return self.o_proj(mixed.reshape(batch, length, width))


class FeedForward(nnx.Module):
    """SwiGLU (Shazeer 2020) or GELU feed-forward part."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        self.gate_proj = (
            _linear(config.width, config.hidden, bias=config.use_bias, rngs=rngs) if config.mlp == "swiglu" else None
        )
        self.up_proj = _linear(config.width, config.hidden, bias=config.use_bias, rngs=rngs)
        std = 0.02 / math.sqrt(2 * config.depth)
        self.down_proj = _linear(config.hidden, config.width, bias=config.use_bias, rngs=rngs, std=std)

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        if self.gate_proj is None:
            return self.down_proj(jax.nn.gelu(self.up_proj(x), approximate=False))
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nnx.Module):
    """One transformer block; with time conditioning its norms are shifted and scaled (adaLN-Zero)."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        self.post_norm = config.placement == "post"
        self.scale = math.sqrt(config.depth / 36) if config.residual_scale else 1.0
        self.input_layernorm = _norm(config, config.width, bias=True, rngs=rngs)
        self.self_attn = Attention(config, rngs)
        self.post_attention_layernorm = _norm(config, config.width, bias=True, rngs=rngs)
        self.mlp = FeedForward(config, rngs)
        zeros = nnx.initializers.zeros_init()
        self.modulation = (
            nnx.Linear(config.width, 4 * config.width, kernel_init=zeros, rngs=rngs)
            if config.time_conditioning
            else None
        )

    def __call__(
        self,
        x: Float[Array, "B L D"],
        attend: Bool[Array, "B Q L"],
        relations: Int[Array, "B L L"] | None,
        time: Float[Array, "B D"] | None,
    ) -> Float[Array, "B L D"]:
        first, second = self.input_layernorm, self.post_attention_layernorm
        if self.modulation is not None and time is not None:
            shift1, scale1, shift2, scale2 = jnp.split(self.modulation(time)[:, None, :], 4, axis=-1)
            first, second = _modulated(first, scale1, shift1), _modulated(second, scale2, shift2)
        if self.post_norm:
            x = first(x + self.self_attn(x, attend, relations) / self.scale)
            return second(x + self.mlp(x) / self.scale)
        x = x + self.self_attn(first(x), attend, relations) / self.scale
        return x + self.mlp(second(x)) / self.scale


def _modulated(
    norm: Callable[[Array], Array], scale: Float[Array, "B 1 D"], shift: Float[Array, "B 1 D"]
) -> Callable[[Array], Array]:
    return lambda x: norm(x) * (1 + scale) + shift


class Head(nnx.Module):
    """Linear to the letters; in the heads of ESM and BERT after dense, GELU and norm."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        deep = config.head == "mlp"
        self.dense = _linear(config.width, config.width, bias=True, rngs=rngs) if deep else None
        self.layer_norm = _norm(config, config.width, bias=True, rngs=rngs) if deep else None
        self.decoder = _linear(config.width, config.num_letters, bias=deep, rngs=rngs, std=0.02)

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        if self.dense is not None and self.layer_norm is not None:
            x = self.layer_norm(jax.nn.gelu(self.dense(x), approximate=False))
        return self.decoder(x)


class Classifiers(nnx.Module):
    """Heads on the begin token: a shared dense layer with tanh (BERT's pooler), then one linear map each."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        self.pooler = _linear(config.width, config.width, bias=True, rngs=rngs)
        self.heads = nnx.Dict(
            {name: _linear(config.width, len(labels), bias=True, rngs=rngs) for name, labels in config.classifiers}
        )

    def __call__(self, x: Float[Array, "B D"]) -> dict[str, Float[Array, "B K"]]:
        pooled = jnp.tanh(self.pooler(x))
        return {name: head(pooled) for name, head in self.heads.items()}


class Transformer(nnx.Module):
    """Bidirectional transformer from tokens to logits over the letters.

    Attributes:
        config: the architecture.
        remat: keep only the blocks' inputs for the backward pass and compute the rest again; values stay the same.
    """

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        self.config = config
        self.remat = False
        init = nnx.initializers.normal(0.5 / math.sqrt(config.width) if config.norm == "rms" else 0.02)
        self.embed_tokens = nnx.Embed(config.num_tokens, config.width, embedding_init=init, rngs=rngs)
        self.embed_positions = (
            nnx.Embed(config.max_length, config.width, embedding_init=init, rngs=rngs)
            if config.positions == "learned"
            else None
        )
        self.time_in = nnx.Linear(config.width, config.width, rngs=rngs) if config.time_conditioning else None
        self.layers = nnx.List([Block(config, rngs) for _ in range(config.depth)])
        # Before the first block where norms come after the parts, after the last one where they come before.
        bias = config.final_norm_bias or config.placement == "post"
        self.norm = _norm(config, config.width, bias=bias, rngs=rngs)
        self.lm_head = Head(config, rngs)
        self.classifiers = Classifiers(config, rngs) if config.classifiers else None
        zeros = nnx.initializers.zeros_init()
        self.embed_previous = (
            nnx.Linear(config.num_letters, config.width, use_bias=False, kernel_init=zeros, rngs=rngs)
            if config.self_conditioning
            else None
        )

    def __call__(
        self,
        tokens: Int[Array, "B L"],
        attend: Bool[Array, "B L"],
        time: Float[Array, "B"] | None = None,
        relations: Int[Array, "B L L"] | None = None,
        previous: Float[Array, "B L V"] | None = None,
        segments: Int[Array, "B L"] | None = None,
    ) -> Float[Array, "B L V"]:
        """Logits of the clean letter at each position.

        Args:
            tokens: token ids, letters and specials.
            attend: true at real tokens, false at padding.
            time: noise level in [0, 1] per row; read with ``time_conditioning`` only.
            relations: relation type of each pair of positions; read with ``relations > 0`` only.
            previous: letter probabilities of an earlier prediction, zero where there is none; read with
                ``self_conditioning`` only. They enter by a linear map without bias, so zero and None are the same.
            segments: number of each token's sequence where a row holds several one after another; None for one.
        """
        x = self.lm_head(self.hidden(tokens, attend, time, relations, previous, segments))
        return jnp.concatenate([x[:, :1], x[:, :-1]], axis=1) if self.config.shifted else x

    def classify(self, tokens: Int[Array, "B L"], attend: Bool[Array, "B L"]) -> dict[str, Float[Array, "B K"]]:
        """Logits over the labels of each classifier, by its name."""
        if self.classifiers is None:
            raise InputError("this model has no classifiers")
        return self.classifiers(self.hidden(tokens, attend)[:, 0])

    def hidden(
        self,
        tokens: Int[Array, "B L"],
        attend: Bool[Array, "B L"],
        time: Float[Array, "B"] | None = None,
        relations: Int[Array, "B L L"] | None = None,
        previous: Float[Array, "B L V"] | None = None,
        segments: Int[Array, "B L"] | None = None,
    ) -> Float[Array, "B L D"]:
        """What the heads read; arguments as in calling the network."""
        return self._passes(tokens, attend, time, relations, previous, segments)[-1]

    def logits_by_loop(
        self,
        tokens: Int[Array, "B L"],
        attend: Bool[Array, "B L"],
        time: Float[Array, "B"] | None = None,
        relations: Int[Array, "B L L"] | None = None,
        previous: Float[Array, "B L V"] | None = None,
    ) -> Float[Array, "loops B L V"]:
        """What the head makes of the state after every pass through the stack, for losses on all of them; arguments
        as in calling the network, whose output is the last (before the shift of a ``shifted`` network).
        """
        return jnp.stack([self.lm_head(x) for x in self._passes(tokens, attend, time, relations, previous)])

    def _passes(
        self,
        tokens: Int[Array, "B L"],
        attend: Bool[Array, "B L"],
        time: Float[Array, "B"] | None,
        relations: Int[Array, "B L L"] | None,
        previous: Float[Array, "B L V"] | None,
        segments: Int[Array, "B L"] | None = None,
    ) -> list[Float[Array, "B L D"]]:
        """The state after each of the ``loops`` passes through the stack of blocks, as the heads read it."""
        config = self.config
        seen = attend[:, None, :]
        if segments is not None:
            seen = seen & (segments[:, :, None] == segments[:, None, :])
        x = self._embed(tokens, seen, segments)
        if self.embed_previous is not None and previous is not None:
            x = x + self.embed_previous(previous.astype(x.dtype))
        hidden_time = None
        if self.time_in is not None:
            if time is None:
                raise ValueError("this network is conditioned on time; pass time [B]")
            hidden_time = jax.nn.silu(self.time_in(_sinusoid(time, config.width).astype(x.dtype)))
        if config.placement == "post":
            x = self.norm(x)
        block = nnx.remat(Block.__call__) if self.remat else Block.__call__
        states = []
        for _ in range(config.loops):
            for layer in self.layers:
                x = block(layer, x, seen, relations, hidden_time)
            states.append(x if config.placement == "post" else self.norm(x))
        return states

    def _embed(
        self, tokens: Int[Array, "B L"], seen: Bool[Array, "B Q L"], segments: Int[Array, "B L"] | None
    ) -> Float[Array, "B L D"]:
        config = self.config
        x = self.embed_tokens(tokens)
        if config.mask_dropout:
            masked = tokens == config.num_letters
            total = jnp.maximum(jnp.sum(seen, axis=2), 1)  # a row may be padding only
            shown = jnp.sum(seen & ~masked[:, None, :], axis=2).astype(x.dtype) / total.astype(x.dtype)
            scale = (1.0 - config.mask_dropout) / jnp.maximum(shown, 1e-6)
            x = jnp.where(masked[..., None], 0.0, x * scale[..., None])
        if self.embed_positions is not None:
            if tokens.shape[1] > config.max_length:
                raise InputError(f"{tokens.shape[1]} tokens exceed the model's {config.max_length} learned positions")
            x = x + self.embed_positions(_positions(tokens, segments))
        return x


def _positions(tokens: Int[Array, "B L"], segments: Int[Array, "B L"] | None) -> Int[Array, "#B L"]:
    """Places counted from the start of each segment."""
    place = jnp.arange(tokens.shape[1])[None]
    if segments is None:
        return place
    starts = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
    return place - jax.lax.cummax(jnp.where(starts, place, 0), axis=1)


def _sinusoid(time: Float[Array, "B"], width: int) -> Float[Array, "B D"]:
    half = width // 2
    frequency = 1000.0 * 10_000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = time.astype(jnp.float32)[:, None] * frequency[None, :]
    wave = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return jnp.pad(wave, ((0, 0), (0, width - 2 * half)))
