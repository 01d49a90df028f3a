"""The training loop: batches in, checkpoints and a log out, resuming where it stopped.

One process drives all local devices: parameters are replicated and each batch is sharded over its rows. The loop
waits for the device only when it reports.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from seqdiff.core.errors import InputError
from seqdiff.training.checkpoint import Checkpoints
from seqdiff.training.step import StepInfo, TrainState


class Batches(Protocol):
    """Batches by index."""

    def __getitem__(self, index: int, /) -> np.ndarray: ...


Report = Callable[[dict[str, float]], None]


def fit(
    state: TrainState,
    step_fn: Callable[[TrainState, jax.Array, jax.Array], tuple[TrainState, StepInfo]],
    batches: Batches,
    *,
    steps: int,
    seed: int,
    folder: Path,
    description: dict[str, Any],
    report_every: int,
    save_every: int,
    report: Report,
) -> TrainState:
    """Train until ``steps`` steps are done in all, starting from the folder's latest checkpoint.

    Args:
        state: initial state, used when the folder holds no checkpoint.
        step_fn: from :func:`seqdiff.training.step.make_step`.
        batches: batch ``n`` is what step ``n`` trains on.
        steps: total number of steps, those of earlier runs included.
        seed: of corruption noise.
        folder: where checkpoints go.
        description: settings that a checkpoint must share to be continued.
        report_every: steps between reports.
        save_every: steps between checkpoints.
        report: called with step, loss (bound, nats per token), cross_entropy, grad_norm and tokens_per_second.

    Raises:
        InputError: the loss is not finite, or the checkpoint belongs to another run.
    """
    mesh = Mesh(np.array(jax.local_devices()), ("batch",))
    replicated = NamedSharding(mesh, PartitionSpec())
    sharded = NamedSharding(mesh, PartitionSpec("batch"))
    state = jax.device_put(state, replicated)
    checkpoints = Checkpoints(folder, description)
    if restored := checkpoints.restore(state._replace(frozen=None)):
        state = restored[1]._replace(frozen=state.frozen)
    step = int(state.step)
    compiled = jax.jit(step_fn, donate_argnums=0)
    key = jax.device_put(jax.random.key(seed), replicated)
    window: list[StepInfo] = []
    started, seen = time.perf_counter(), 0
    try:
        while step < steps:
            tokens = batches[step]
            seen += tokens.size
            state, info = compiled(state, key, jax.device_put(tokens, sharded))
            window.append(info)
            step += 1
            if step % report_every == 0 or step == steps:
                infos = jax.device_get(window)
                report(_summary(step, infos, seen / (time.perf_counter() - started)))
                window, started, seen = [], time.perf_counter(), 0
            if step % save_every == 0 or step == steps:
                checkpoints.save(step, state._replace(frozen=None))
    finally:
        checkpoints.close()
    return state


def _summary(step: int, infos: list[StepInfo], rate: float) -> dict[str, float]:
    total = [sum(float(value) for value in column) for column in zip(*(info.loss for info in infos), strict=True)]
    nats, tokens, cross_nats, scored = total
    if not np.isfinite(nats):
        raise InputError(f"the loss is not finite at step {step}; lower the learning rate or the gradient clip")
    return {
        "step": step,
        "loss": nats / tokens,
        "cross_entropy": cross_nats / max(scored, 1.0),
        "grad_norm": float(np.mean([info.grad_norm for info in infos])),
        "tokens_per_second": rate,
    }
