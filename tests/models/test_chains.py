"""A canvas of several chains: each is predicted as if it stood alone."""

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.chains import PerChain
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser


def test_each_chain_is_predicted_by_itself():
    config = TransformerConfig(num_letters=20, num_tokens=24, width=8, depth=1, heads=2, hidden=12)
    single = init_denoiser(config, PROTEIN, seed=0)
    both = PerChain(single, ((0, 7), (7, 4)))
    rng = np.random.default_rng(0)
    canvas = rng.integers(0, 21, (3, 16)).astype(np.int32)
    valid = np.broadcast_to(np.arange(16) < 11, (3, 16))
    time = jnp.array([0.1, 0.5, 0.9])
    found = jax.jit(PerChain.__call__)(both, canvas, valid, time)
    for part in (slice(0, 7), slice(7, 11)):
        alone = single(canvas[:, part], jnp.ones((3, part.stop - part.start), bool), time)
        np.testing.assert_allclose(found[:, part], alone, atol=1e-5)
