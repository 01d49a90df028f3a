"""The training loop: batches in, checkpoints and a log out, resuming where it stopped.

The compiled step, guarded against losses that are not finite, runs on the layout's mesh, in one process or several.
The loop waits for the device only when it reports. Batch ``n`` is what step ``n`` trains on, so the number of steps
done is also the position in the data.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from seqdiff.training.checkpoint import Checkpoints
from seqdiff.training.guard import Step, Watch, guarded
from seqdiff.training.interrupt import Interrupts, TrainingInterrupted
from seqdiff.training.sharding import Layout, agreed, make_layout, whole_batch
from seqdiff.training.step import StepInfo, TrainState


class Batches(Protocol):
    """Batches by index: of each the rows that are this process's, all processes having equally many.

    A class may also have ``stream(start, stop)``, which gives the same batches in order and reads them ahead.
    """

    def __getitem__(self, index: int, /) -> np.ndarray: ...


Report = Callable[[dict[str, float]], None]


def fit(
    state: TrainState,
    step_fn: Step,
    batches: Batches,
    *,
    steps: int,
    seed: int,
    folder: Path,
    description: dict[str, Any],
    report_every: int,
    save_every: int,
    report: Report,
    layout: Layout | None = None,
    keep: int = 2,
    max_skipped: int = 10,
) -> TrainState:
    """Train until ``steps`` steps are done in all, starting from the folder's latest checkpoint.

    Args:
        state: initial state, used when the folder holds no checkpoint; its buffers are given up.
        step_fn: from :func:`seqdiff.training.step.make_step`.
        batches: batch ``n`` is what step ``n`` trains on.
        steps: total number of steps, those of earlier runs included.
        seed: of corruption noise.
        folder: where checkpoints go; batches that were skipped go to ``skipped`` beside it.
        description: settings that a checkpoint must share to be continued.
        report_every: steps between reports.
        save_every: steps between checkpoints.
        report: called with step, loss (bound, nats per token), cross_entropy, grad_norm, tokens_per_second and
            skipped, the number of steps since the last report whose loss or gradient was not finite.
        layout: where arrays live; whole parameters on every device by default.
        keep: checkpoints that are kept.
        max_skipped: so many skipped steps in a row end the run.

    Raises:
        InputError: too many steps in a row were skipped, or the checkpoint belongs to another run.
        TrainingInterrupted: Ctrl-C or SIGTERM came; a checkpoint of the step reached has been written.
    """
    layout = layout or make_layout()
    checkpoints = Checkpoints(folder, description, keep=keep)
    try:
        state = layout.place(state)
        if restored := checkpoints.restore(state._replace(frozen=None)):
            state = restored[1]._replace(frozen=state.frozen)
        step = int(state.step)
        compiled = jax.jit(guarded(step_fn), donate_argnums=0, out_shardings=(layout.of(state), layout.replicated))
        watch = Watch(folder.parent / "skipped", limit=max_skipped, key=jax.random.key(seed))
        key = layout.create(lambda: jax.random.key(seed))
        window = _Window(step)
        with Interrupts() as interrupts:
            for tokens in _ahead(batches, step, steps):
                state, info = compiled(state, key, layout.batch(tokens))
                window.add(info, tokens.size * jax.process_count())
                step += 1
                due = step % report_every == 0 or step == steps
                if due:
                    report(window.summary(step, watch, lambda index: whole_batch(batches[index])))
                    window = _Window(step)
                # Several processes can only stop together; they ask one another when they report.
                alone, signal = jax.process_count() == 1, bool(interrupts.name)
                stop = signal if alone else due and agreed(signal)
                if step % save_every == 0 or step == steps or stop:
                    checkpoints.save(step, state._replace(frozen=None))
                if stop and step < steps:
                    checkpoints.close()
                    raise TrainingInterrupted(
                        f"{interrupts.name or 'stopped by another process'} at step {step} of {steps}; saved in "
                        f"{checkpoints.folder / str(step)}; run the same command again to go on"
                    )
    finally:
        checkpoints.close()
    return state


def _ahead(batches: Batches, start: int, stop: int) -> Iterator[np.ndarray]:
    """The batches from ``start`` to ``stop``, read ahead where they know how."""
    stream = getattr(batches, "stream", None)
    return iter(stream(start, stop)) if stream else (batches[index] for index in range(start, stop))


class _Window:
    """The steps since the last report."""

    def __init__(self, first: int):
        self._first, self._infos, self._seen = first, [], 0
        self._started = time.perf_counter()

    def add(self, info: StepInfo, tokens: int) -> None:
        self._infos.append(info)
        self._seen += tokens

    def summary(self, step: int, watch: Watch, batch: Callable[[int], np.ndarray]) -> dict[str, float]:
        """Means over the steps that were not skipped; not numbers if all were."""
        infos = jax.device_get(self._infos)
        rate = self._seen / (time.perf_counter() - self._started)
        good = watch.see(self._first, infos, batch)
        columns = zip(*(info.loss for info in good), strict=True) if good else [(np.nan,)] * 4
        nats, tokens, cross_nats, scored = (sum(float(value) for value in column) for column in columns)
        return {
            "step": step,
            "loss": nats / max(tokens, 1.0),
            "cross_entropy": cross_nats / max(scored, 1.0),
            "grad_norm": float(np.mean([info.grad_norm for info in good] or [np.nan])),
            "tokens_per_second": rate,
            "skipped": len(infos) - len(good),
        }
