"""A model of single chains on a canvas that holds several: each chain is a row of its own.

Antibody and protein language models read one chain at a time. Constraints may still run over all of them, such as the
net charge of a heavy and a light domain together.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.contracts import Denoiser


@partial(jax.tree_util.register_dataclass, data_fields=["denoiser"], meta_fields=["spans"])
class PerChain:
    """Implements the ``Denoiser`` contract by one call over rows times chains.

    Attributes:
        denoiser: of single chains.
        spans: first position (from 0) and length of each chain, in the canvas's order.
    """

    def __init__(self, denoiser: Denoiser, spans: tuple[tuple[int, int], ...]):
        self.denoiser, self.spans = denoiser, spans

    @property
    def process(self) -> Any:
        """That of the denoiser inside; None if it does not say."""
        return getattr(self.denoiser, "process", None)

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: Any = None,
    ) -> Float[Array, "batch length vocab"]:
        rows, size = canvas.shape
        longest = max(length for _, length in self.spans)
        place = np.stack([np.minimum(first + np.arange(longest), size - 1) for first, _ in self.spans])
        inside = np.stack([np.arange(longest) < length for _, length in self.spans])
        split = [part[:, place].reshape(-1, longest) for part in (canvas, valid)]
        inside = jnp.tile(jnp.asarray(inside), (rows, 1))
        logits = self.denoiser(split[0], split[1] & inside, jnp.repeat(time, len(self.spans)), conditions)
        logits = logits.reshape(rows, len(self.spans) * longest, -1)
        back = np.zeros(size, np.int32)
        for number, (first, length) in enumerate(self.spans):
            back[first : first + length] = number * longest + np.arange(length)
        return logits[:, back]

    def classify(
        self, tokens: Int[Array, "B L"], valid: Bool[Array, "B L"], chain: int
    ) -> dict[str, Float[Array, "B K"]]:
        """What the denoiser's classifiers say of one chain."""
        first, length = self.spans[chain]
        part = slice(first, first + length)
        return self.denoiser.classify(tokens[:, part], valid[:, part])  # pyright: ignore[reportAttributeAccessIssue]
