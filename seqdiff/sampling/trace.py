"""The trace: statistics of every step, kept on request and only then.

A statistic is a function of a :class:`Moment`, one of the named ones or the user's own. Records are made inside the
compiled loop and come back as arrays ``[rows, size, ...]``; steps that a row did not take stay zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.sampling.planners.base import entropy


class Moment(NamedTuple):
    """One step of the loop.

    Attributes:
        tokens: committed letters after the step, MASK where open [B, L].
        canvas: what the denoiser will see next [B, L].
        witness: the complete sequence that was drawn [B, L].
        marginals: given the constraints, before the step [B, L, V].
        open: positions that were open before the step [B, L].
        commit: positions committed [B, L].
        reopen: positions taken back [B, L].
        log_evidence: [B].
    """

    tokens: Int[Array, "B L"]
    canvas: Int[Array, "B L"]
    witness: Int[Array, "B L"]
    marginals: Float[Array, "B L V"]
    open: Bool[Array, "B L"]
    commit: Bool[Array, "B L"]
    reopen: Bool[Array, "B L"]
    log_evidence: Float[Array, "B"]


Statistic = Callable[[Moment], Array]


def _mean_entropy(moment: Moment) -> Float[Array, "B"]:
    total = jnp.sum(jnp.where(moment.open, entropy(moment.marginals), 0.0), axis=1)
    return total / jnp.maximum(jnp.sum(moment.open, axis=1), 1).astype(jnp.float32)


STATISTICS: dict[str, Statistic] = {
    "tokens": lambda moment: moment.tokens,
    "canvas": lambda moment: moment.canvas,
    "witness": lambda moment: moment.witness,
    "entropy": _mean_entropy,
    "entropies": lambda moment: jnp.where(moment.open, entropy(moment.marginals), 0.0),
    "commits": lambda moment: jnp.sum(moment.commit, axis=1),
    "reopened": lambda moment: jnp.sum(moment.reopen, axis=1),
    "open": lambda moment: jnp.sum(moment.open, axis=1),
    "log_evidence": lambda moment: moment.log_evidence,
}
"""Named statistics; ``entropy`` is the mean over open positions in nats, ``entropies`` that of each."""


@dataclass(frozen=True)
class Trace:
    """What to record.

    Attributes:
        statistics: names of ``STATISTICS`` or functions of a :class:`Moment`.
        size: steps to keep; later ones are not recorded.
    """

    statistics: tuple[str | Statistic, ...]
    size: int

    def __post_init__(self):
        for item in self.statistics:
            if isinstance(item, str) and item not in STATISTICS:
                raise unknown_key("statistic", item, STATISTICS)
        if self.size < 1:
            raise InputError(f"a trace of {self.size} steps records nothing; give the number of steps")

    def empty(self, moment: Moment) -> dict[str, Array]:
        """Zeros for every record; ``moment`` gives shapes only."""
        shapes = jax.eval_shape(self._measure, moment)
        return {
            name: jnp.zeros((leaf.shape[0], self.size, *leaf.shape[1:]), leaf.dtype) for name, leaf in shapes.items()
        }

    def record(
        self, kept: dict[str, Array], step: Int[Array, ""], active: Bool[Array, "B"], moment: Moment
    ) -> dict[str, Array]:
        """``kept`` with this step's statistics of the active rows."""
        index = jnp.minimum(step, self.size - 1)
        write = active & (step < self.size)

        def put(buffer: Array, value: Array) -> Array:
            here = write.reshape(-1, *[1] * (value.ndim - 1))
            return buffer.at[:, index].set(jnp.where(here, value.astype(buffer.dtype), buffer[:, index]))

        return jax.tree.map(put, kept, self._measure(moment))

    def _measure(self, moment: Moment) -> dict[str, Array]:
        named = [
            (item, STATISTICS[item]) if isinstance(item, str) else (item.__name__, item) for item in self.statistics
        ]
        return {name: measure(moment) for name, measure in named}
