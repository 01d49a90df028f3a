"""A ProteinMPNN network as the sampler sees it: a pytree that maps canvases and a structure to logits."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import GIVEN, OPEN
from seqdiff.core.errors import InputError
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.inputs import LETTERS, MPNNInputs
from seqdiff.models.mpnn.network import MPNN, Encoding
from seqdiff.process.noise import Process

CPU_EDGES, ACCELERATOR_EDGES = 1 << 14, 1 << 20


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["params"],
    meta_fields=["graphdef", "config", "alphabet"],
)
class MPNNDenoiser:
    """Implements the ``Denoiser`` contract with ``reads_order``; conditions are what :meth:`encode` returns.

    One pass of the decoder gives every position's distribution given the letters committed before it; positions
    committed in one step are taken one after the other in a fixed order of their own, as in training.

    Attributes:
        graphdef: structure of the network.
        params: its parameters.
        config: its architecture.
        alphabet: the twenty letters.
    """

    reads_order = True
    reads_structure = True

    def __init__(self, graphdef: Any, params: Any, config: MPNNConfig, alphabet: Alphabet):
        if alphabet.letters != LETTERS[: len(alphabet)]:
            raise InputError(f"ProteinMPNN reads the letters {LETTERS[:20]}, the request uses {alphabet.letters}")
        self.graphdef, self.params, self.config, self.alphabet = graphdef, params, config, alphabet

    @property
    def process(self) -> Process:
        """The absorbing process: positions are open or decoded."""
        return Process(mask=self.alphabet.mask)

    def encode(self, inputs: MPNNInputs) -> Encoding:
        """The encoding of a structure, once for all designs; the models are stacked in front."""
        return _encode(self, inputs)

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: Any = None,
        *,
        order: Int[Array, "batch length"] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        if conditions is None:
            raise InputError("this model reads a structure; give 'structure'")
        network = nnx.merge(self.graphdef, self.params)
        known = (canvas < self.alphabet.mask) & valid
        if order is None:
            order = jnp.where(known, GIVEN, OPEN)
        letters = jnp.where(known, canvas, 0)

        def row(given: tuple[Array, Array, Array]) -> Float[Array, "length vocab"]:
            if models == 1:
                # Not mapped over: an axis of one costs as much again.
                return network.decode(jax.tree.map(lambda leaf: leaf[0], conditions), *given)
            return jnp.mean(jax.lax.map(lambda model: network.decode(model, *given), conditions), axis=0)

        models, size, neighbours = conditions.near.shape
        chunk = rows_at_once(len(canvas), size * neighbours)
        return jax.lax.map(row, (letters, known, order), batch_size=chunk)[..., : len(self.alphabet)]


def rows_at_once(rows: int, edges: int) -> int:
    """A divisor of ``rows`` such that what a layer computes for that many stays in the processor's caches.

    On a CPU rows of a few thousand edges are four times as fast in twos as all at once; accelerators want them together
    as long as memory lasts.
    """
    budget = CPU_EDGES if jax.default_backend() == "cpu" else ACCELERATOR_EDGES
    return max(n for n in range(1, rows + 1) if rows % n == 0 and (n == 1 or n * edges <= budget))


@jax.jit
def _encode(denoiser: MPNNDenoiser, inputs: MPNNInputs) -> Encoding:
    network = nnx.merge(denoiser.graphdef, denoiser.params)
    return jax.vmap(network.encode)(inputs)


def split_mpnn(network: MPNN, alphabet: Alphabet) -> MPNNDenoiser:
    """The denoiser of an NNX network."""
    graphdef, params = nnx.split(network, nnx.Param)
    return MPNNDenoiser(graphdef, nnx.to_pure_dict(params), network.config, alphabet)


def init_mpnn(config: MPNNConfig, alphabet: Alphabet, *, seed: int) -> MPNNDenoiser:
    """A denoiser with random parameters."""
    return split_mpnn(MPNN(config, nnx.Rngs(seed)), alphabet)


def abstract_mpnn(config: MPNNConfig, alphabet: Alphabet) -> MPNNDenoiser:
    """A denoiser whose parameters are shapes only, to be filled from a file."""
    return split_mpnn(nnx.eval_shape(lambda: MPNN(config, nnx.Rngs(0))), alphabet)
