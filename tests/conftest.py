"""Strict numerics for the whole session: what JAX would promote or reuse in silence is an error here.

The tests compile hundreds of small programs and run each for moments, so the compiler is told not to optimise and to
leave out the fusion emitters, which take half of its time.
"""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture(autouse=True, scope="session")
def _absl_leaves_the_captured_streams_open():
    """absl's log handler holds the standard error it was born with, pytest's own, and closes it when Hydra starts."""
    from absl import logging

    logging.get_absl_handler().python_handler.close = lambda: None
