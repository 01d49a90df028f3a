"""Looped networks: the stack of blocks applied several times with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig
from seqdiff.models.transformer import Transformer


def make(loops: int, placement: str = "pre") -> Transformer:
    config = TransformerConfig.from_dict(
        {"num_letters": 5, "num_tokens": 9, "width": 12, "depth": 2, "heads": 2, "hidden": 14, "relations": 3}
        | {"loops": loops, "placement": placement, "time_conditioning": True}
    )
    network = Transformer(config, nnx.Rngs(3))
    leaves, tree = jax.tree.flatten(nnx.state(network, nnx.Param))
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    nnx.update(network, jax.tree.unflatten(tree, noisy))
    return network


def inputs() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(0, 6, (2, 7)), jnp.int32)
    attend = jnp.asarray(np.arange(7)[None, :] < np.array([[7], [5]]))
    return tokens, attend, jnp.array([0.2, 0.9]), jnp.asarray(rng.integers(0, 3, (2, 7, 7)), jnp.int32)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_two_loops_are_the_stack_applied_twice(placement: str):
    once, twice = make(1, placement), make(2, placement)
    # A third network whose four blocks are the two blocks repeated.
    long = make(1, placement)
    long.layers = nnx.List([*twice.layers, *twice.layers])
    np.testing.assert_allclose(twice(*inputs()), long(*inputs()), rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(twice(*inputs()) - once(*inputs()))).max() > 0.01


def test_loops_share_their_weights():
    shapes = [jax.tree.map(jnp.shape, nnx.to_pure_dict(nnx.state(make(loops), nnx.Param))) for loops in (1, 3)]
    assert shapes[0] == shapes[1]


def test_logits_of_every_pass_end_in_those_of_the_network():
    three = make(3)
    passes = three.logits_by_loop(*inputs())
    assert passes.shape == (3, 2, 7, 5)
    np.testing.assert_allclose(passes[0], make(1)(*inputs()), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(passes[1], make(2)(*inputs()), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(passes[2], three(*inputs()), rtol=1e-5, atol=1e-5)


def test_no_loop_is_refused():
    with pytest.raises(InputError, match="loops=0 must be at least 1"):
        make(0)
