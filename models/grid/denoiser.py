"""A network over pairs of nodes as the sampler sees it: a pytree that maps canvases to logits over the letters."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.grid import GraphAlphabet
from seqdiff.models.grid.config import GridConfig
from seqdiff.models.grid.network import PairGrid, TokenRow, make_network
from seqdiff.process.noise import Process


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["params"],
    meta_fields=["graphdef", "config", "alphabet"],
)
class GridDenoiser:
    """Implements the ``Denoiser`` contract for canvases that are graphs.

    One set of weights serves any number of nodes; which position is which pair comes with each call, as conditions:

    * ``slots``, int32 [length, 2]: the two nodes of each position (twice the same for a node's own label), the same for
      all rows; (0, 0) beyond the last one;
    * ``nodes``, any array of n items, needed only where some pairs have no position: n nodes at most. Otherwise the
      length tells how many there can be.

    Attributes:
        graphdef: structure of the network.
        params: its parameters.
        config: its architecture.
        alphabet: letters of edges and nodes.
    """

    def __init__(self, graphdef: Any, params: Any, config: GridConfig, alphabet: Alphabet):
        if isinstance(alphabet, GraphAlphabet) and alphabet.grid.directed != config.directed:
            ours, asked = ("undirected", "directed") if alphabet.grid.directed else ("directed", "undirected")
            raise InputError(f"this model is of {ours} graphs, not of {asked} ones")
        self.graphdef, self.params, self.config, self.alphabet = graphdef, params, config, alphabet

    @property
    def process(self) -> Process:
        """The absorbing process: positions are open or decided."""
        return Process(mask=self.alphabet.mask)

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: dict[str, Array] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        if conditions is None or "slots" not in conditions:
            raise InputError("this model reads graphs: it needs the nodes of each position as condition 'slots'")
        nodes = most_nodes(canvas.shape[1], self.config.directed)
        if "nodes" in conditions:
            nodes = conditions["nodes"].shape[0]
        slots = jnp.asarray(conditions["slots"], jnp.int32)
        return nnx.merge(self.graphdef, self.params)(canvas, valid, slots, nodes)


def most_nodes(length: int, directed: bool) -> int:
    """Most nodes of a graph with at most so many positions, if every pair of its nodes has one."""
    nodes = 2
    while (nodes + 1) * nodes // (1 if directed else 2) <= length:
        nodes += 1
    return nodes


def split_grid(network: PairGrid | TokenRow, alphabet: Alphabet) -> GridDenoiser:
    """The denoiser of an NNX network."""
    graphdef, params = nnx.split(network, nnx.Param)
    return GridDenoiser(graphdef, nnx.to_pure_dict(params), network.config, alphabet)


def init_grid(config: GridConfig, alphabet: Alphabet, *, seed: int) -> GridDenoiser:
    """A denoiser with random parameters."""
    return split_grid(make_network(config, nnx.Rngs(seed)), alphabet)


def abstract_grid(config: GridConfig, alphabet: Alphabet) -> GridDenoiser:
    """A denoiser whose parameters are shapes only, to be filled from a file."""
    return split_grid(nnx.eval_shape(lambda: make_network(config, nnx.Rngs(0))), alphabet)
