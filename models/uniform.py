"""No model: every letter equally likely whatever the canvas. Constraints alone then decide."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

NAME = "uniform"


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["letters"])
class Uniform:
    """Implements the ``Denoiser`` contract with equal probabilities.

    Attributes:
        letters: how many letters there are.
    """

    def __init__(self, letters: int):
        self.letters = letters

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: Any = None,
    ) -> Float[Array, "batch length vocab"]:
        del valid, time, conditions
        return jnp.zeros((*canvas.shape, self.letters), jnp.float32)
