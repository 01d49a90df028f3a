"""A network as the sampler sees it: a pytree that maps canvases to logits over the letters."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.models.config import TransformerConfig
from seqdiff.models.transformer import Transformer


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["graphdef", "config", "alphabet"])
class NetworkDenoiser:
    """Wraps a :class:`Transformer` as the ``Denoiser`` contract: parameters are leaves, structure is static.

    The canvas is framed by BEGIN before position 1 and END after the last valid position; the logits of the frame
    are dropped.
    """

    def __init__(self, graphdef: Any, params: Any, config: TransformerConfig, alphabet: Alphabet):
        self.graphdef = graphdef
        self.params = params
        self.config = config
        self.alphabet = alphabet

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: dict[str, Array] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        relations = None if conditions is None else conditions.get("relations")
        tokens = jnp.where(valid, canvas, self.alphabet.pad)
        if self.config.frame:
            # PAD to the right of a row is END at the first such place, so the row itself shifts by one.
            length = jnp.sum(valid, axis=1)
            tokens = jnp.pad(tokens, ((0, 0), (1, 1)), constant_values=self.alphabet.pad)
            place = jnp.arange(tokens.shape[1])[None, :]
            tokens = jnp.where(place == 0, self.alphabet.begin, tokens)
            tokens = jnp.where(place == length[:, None] + 1, self.alphabet.end, tokens)
            if relations is not None:
                relations = jnp.pad(relations, ((0, 0), (1, 1), (1, 1)))
        network = nnx.merge(self.graphdef, self.params)
        logits = network(tokens, tokens != self.alphabet.pad, time, relations)
        return logits[:, 1:-1] if self.config.frame else logits


def split_network(network: Transformer, alphabet: Alphabet) -> NetworkDenoiser:
    """The denoiser of an NNX network."""
    graphdef, params = nnx.split(network, nnx.Param)
    return NetworkDenoiser(graphdef, nnx.to_pure_dict(params), network.config, alphabet)


def init_denoiser(config: TransformerConfig, alphabet: Alphabet, *, seed: int) -> NetworkDenoiser:
    """A denoiser with random parameters."""
    return split_network(Transformer(config, nnx.Rngs(seed)), alphabet)


def abstract_denoiser(config: TransformerConfig, alphabet: Alphabet) -> NetworkDenoiser:
    """A denoiser whose parameters are shapes only, to be filled from a file."""
    network = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0)))
    return split_network(network, alphabet)
