"""The guard against losses that are not finite.

Its compiled half, :func:`guarded`, keeps the state as it was when a loss or a gradient is not finite, without asking
the host. Its host half, :class:`Watch`, reads the infos when the loop reports: it counts such steps, writes the batch
and the key of each to a file, and stops a run in which nothing else happens any more.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from seqdiff.core.errors import InputError
from seqdiff.training.step import StepInfo, TrainState

Step = Callable[[TrainState, jax.Array, jax.Array], tuple[TrainState, StepInfo]]


def finite(info: StepInfo) -> Bool[Array, ""]:
    """Whether the loss sums and the gradient's norm are finite."""
    return jnp.all(jnp.stack([jnp.isfinite(value) for value in (*info.loss, info.grad_norm)]))


def guarded(step: Step) -> Step:
    """The step, except that one whose loss or gradient is not finite changes nothing but the count of steps.

    Parameters, their average and the optimiser's state, schedule included, stay as they were.
    """

    def guard(state: TrainState, key: jax.Array, tokens: jax.Array) -> tuple[TrainState, StepInfo]:
        new, info = step(state, key, tokens)
        ok = finite(info)

        def kept(updated: Any, before: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(ok, a, b), updated, before)

        return new._replace(
            params=kept(new.params, state.params),
            average=kept(new.average, state.average),
            optimizer=kept(new.optimizer, state.optimizer),
        ), info

    return guard


class Watch:
    """Counts the skipped steps of a run and keeps their batches.

    Attributes:
        skipped: steps skipped since this invocation began.
    """

    def __init__(self, folder: Path, *, limit: int, key: jax.Array):
        """A watch with nothing seen.

        Args:
            folder: made when the first batch is written to it, as ``STEP.npz``.
            limit: so many skipped steps in a row stop the run.
            key: of the run.
        """
        self._folder, self._limit, self._key = folder, limit, key
        self._streak: list[int] = []
        self.skipped = 0

    def see(self, first: int, infos: Sequence[StepInfo], batch: Callable[[int], np.ndarray]) -> list[StepInfo]:
        """Take the infos of the steps from ``first`` on, as host arrays, and return the finite ones.

        Args:
            first: index of the first step.
            infos: one a step.
            batch: gives the batch of a step again, all of its rows.

        Raises:
            InputError: ``limit`` steps in a row were skipped.
        """
        good = []
        for step, info in enumerate(infos, first):
            if np.isfinite([*info.loss, info.grad_norm]).all():
                good.append(info)
                self._streak = []
                continue
            self.skipped += 1
            self._streak.append(step)
            path = self._write(step, batch(step))
            if len(self._streak) >= self._limit:
                raise InputError(
                    f"{len(self._streak)} steps in a row, {self._streak[0]} to {step}, gave a loss or gradient that is "
                    f"not finite; see their batches in {path.parent}, and lower optimizer.rate or optimizer.clip"
                )
        return good

    def _write(self, step: int, tokens: Any) -> Path:
        path = self._folder / f"{step}.npz"
        if jax.process_index() == 0:
            self._folder.mkdir(parents=True, exist_ok=True)
            key = jax.random.key_data(jax.random.fold_in(self._key, step))
            np.savez_compressed(path, tokens=tokens, step=step, key=np.asarray(key))
        return path
