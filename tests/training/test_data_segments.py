"""Packed rows: the network computes for each sequence of a row what it computes for it alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.transformer import Transformer
from seqdiff.training.data import InMemory, make_batches, segment_ids

OPTIONS: list[dict[str, Any]] = [
    {},
    {"positions": "learned"},
    {"mask_dropout": 0.12},
    {"norm": "rms", "placement": "post", "kv_heads": 1, "qk_norm": False},
    {"shifted": True},
]


def network(**options: Any) -> Transformer:
    fields: dict[str, Any] = {"width": 12, "depth": 1, "heads": 2, "hidden": 16, "max_length": 64} | options
    config = TransformerConfig(num_letters=len(PROTEIN), num_tokens=PROTEIN.num_tokens, **fields)
    return Transformer(config, nnx.Rngs(0))


def masked(tokens: np.ndarray) -> np.ndarray:
    """The same tokens with about a third of the letters masked, decided by the letter and its neighbour."""
    after = np.roll(tokens, -1, axis=-1)
    return np.where((tokens < 20) & ((tokens + after) % 3 == 0), PROTEIN.mask, tokens)


@nnx.jit
def run(model: Transformer, tokens: Any, segments: Any) -> jax.Array:
    return model(jnp.asarray(tokens), jnp.asarray(tokens != PROTEIN.pad), segments=segments)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_packed_sequence_has_the_logits_it_has_alone(options: dict[str, Any]):
    rng = np.random.default_rng(0)
    found = [rng.integers(0, 20, rng.integers(1, 17)).astype(np.int32) for _ in range(17)]
    made = make_batches(InMemory(found), PROTEIN, length=37, batch=3, seed=0, layout="pack", process=0, processes=1)
    tokens = masked(made[0])
    attend, segments = tokens != PROTEIN.pad, np.asarray(segment_ids(jnp.asarray(tokens), PROTEIN.begin))
    assert segments.max() > 2
    places = [
        (b, np.flatnonzero((segments[b] == s) & attend[b])) for b in range(3) for s in range(1, segments[b].max() + 1)
    ]
    alone = np.full((len(places), 37), PROTEIN.pad, np.int32)
    for row, (b, where) in zip(alone, places, strict=True):
        row[: len(where)] = tokens[b, where]
    model = network(**options)
    packed = run(model, tokens, segments)
    for (b, where), expected in zip(places, run(model, alone, None), strict=True):
        # The first place is BEGIN, which nothing is predicted at; a shifted network reads it from the place before.
        np.testing.assert_allclose(packed[b, where][1:], expected[1 : len(where)], atol=2e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_padding_leave_gradients_finite(options: dict[str, Any]):
    model = network(**options)
    graphdef, params = nnx.split(model, nnx.Param)
    tokens = jnp.full((2, 9), PROTEIN.pad, jnp.int32).at[0].set(jnp.arange(9))

    @jax.jit
    @jax.grad
    def slope(params: Any) -> jax.Array:
        out = nnx.merge(graphdef, params)(tokens, tokens != PROTEIN.pad)
        return jnp.sum(jnp.where((tokens < 20)[..., None], jnp.square(out), 0.0))

    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(slope(params)))
