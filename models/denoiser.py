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
from seqdiff.process.noise import Process
from seqdiff.process.score_entropy import Output, clean_logits


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["params"],
    meta_fields=["graphdef", "config", "alphabet", "process", "output"],
)
class NetworkDenoiser:
    """Wraps a :class:`Transformer` as the ``Denoiser`` contract: parameters are leaves, structure is static.

    The canvas is framed by BEGIN before position 1 and END after the last valid position; the logits of the frame
    are dropped. What the network puts out is completed to the law of the clean letter given the whole canvas, which
    takes the process and the noise level (see ``seqdiff.process.losses``); in the absorbing process it is that already.

    Attributes:
        graphdef: structure of the network.
        params: its parameters.
        config: its architecture.
        alphabet: letters and special tokens.
        process: the forward process that it was trained for; the absorbing one if None is given.
        output: what the network puts out: letters, or log scores if it was trained on score entropy.
    """

    def __init__(
        self,
        graphdef: Any,
        params: Any,
        config: TransformerConfig,
        alphabet: Alphabet,
        process: Process | None = None,
        output: Output = "letters",
    ):
        self.graphdef = graphdef
        self.params = params
        self.config = config
        self.alphabet = alphabet
        self.process = Process(mask=alphabet.mask) if process is None else process
        self.output: Output = output

    @property
    def self_conditioning(self) -> bool:
        """Whether the network reads its previous prediction."""
        return self.config.self_conditioning

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: dict[str, Array] | None = None,
        previous: Float[Array, "batch length vocab"] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        relations = None if conditions is None else conditions.get("relations")
        tokens = self._frame(canvas, valid)
        if previous is not None:
            previous = jnp.where(valid[..., None], previous, 0.0)
        if self.config.frame:
            if relations is not None:
                relations = jnp.pad(relations, ((0, 0), (1, 1), (1, 1)))
            if previous is not None:
                previous = jnp.pad(previous, ((0, 0), (1, 1), (0, 0)))
        network = nnx.merge(self.graphdef, self.params)
        raw = network(tokens, tokens != self.alphabet.pad, time, relations, previous)
        raw = raw[:, 1:-1] if self.config.frame else raw
        return clean_logits(self.process, self.output, raw, canvas, time)

    def classify(self, tokens: Int[Array, "B L"], valid: Bool[Array, "B L"]) -> dict[str, Float[Array, "B K"]]:
        """Logits over the labels of each of the network's classifiers for complete sequences, by its name."""
        framed = self._frame(tokens, valid)
        return nnx.merge(self.graphdef, self.params).classify(framed, framed != self.alphabet.pad)

    def _frame(self, canvas: Int[Array, "B L"], valid: Bool[Array, "B L"]) -> Int[Array, "B F"]:
        """The network's tokens: PAD to the right of a row, of which the first place is END where there is a frame."""
        tokens = jnp.where(valid, canvas, self.alphabet.pad)
        if not self.config.frame:
            return tokens
        tokens = jnp.pad(tokens, ((0, 0), (1, 1)), constant_values=self.alphabet.pad)
        place = jnp.arange(tokens.shape[1])[None, :]
        tokens = jnp.where(place == 0, self.alphabet.begin, tokens)
        return jnp.where(place == jnp.sum(valid, axis=1)[:, None] + 1, self.alphabet.end, tokens)


def split_network(
    network: Transformer, alphabet: Alphabet, process: Process | None = None, output: Output = "letters"
) -> NetworkDenoiser:
    """The denoiser of an NNX network."""
    graphdef, params = nnx.split(network, nnx.Param)
    return NetworkDenoiser(graphdef, nnx.to_pure_dict(params), network.config, alphabet, process, output)


def init_denoiser(
    config: TransformerConfig,
    alphabet: Alphabet,
    *,
    seed: int,
    process: Process | None = None,
    output: Output = "letters",
) -> NetworkDenoiser:
    """A denoiser with random parameters."""
    return split_network(Transformer(config, nnx.Rngs(seed)), alphabet, process, output)


def abstract_denoiser(config: TransformerConfig, alphabet: Alphabet) -> NetworkDenoiser:
    """A denoiser whose parameters are shapes only, to be filled from a file."""
    network = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0)))
    return split_network(network, alphabet)
