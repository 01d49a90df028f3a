"""Train the bundled Sudoku network: masked diffusion on generated boards with the clues held fixed.

    python -m seqdiff.experiments.sudoku.train out=runs/sudoku steps=5000

One small stack of blocks is applied over and over with the same weights (``TransformerConfig.loops``). Cells have no
positions; all the network knows of the board is which cells share a row, a column or a box, as a bias on attention, so
it treats symmetric boards alike. The loss is the cross-entropy of hidden cells averaged over every pass ("deep
supervision"): each pass has to get on from where the last one was. The heads start out watching one kind of unit each.

The run folder holds ``puzzles.npy``, ``checkpoints/``, ``log.csv`` and, at the end, ``model/``; the same command again
continues from the latest checkpoint.
"""

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from seqdiff.domains.sudoku.board import BOX, COLUMN, RELATIONS, ROW, Board
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.experiments.sudoku.data import PuzzleBatches, stored_puzzles
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.store import save_model
from seqdiff.process.losses import LossParts, masked_cross_entropy
from seqdiff.process.noise import Process
from seqdiff.training.loop import fit
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.step import StepInfo, TrainState, corrupt, init_state

WATCH = 3.0
"""Logit by which a head prefers the cells of its unit at the start."""


class Settings(NamedTuple):
    """The run; every field may be set on the command line as ``field=value``.

    Attributes:
        out: folder of the run.
        width: of the residual stream.
        depth: blocks.
        loops: passes through the blocks.
        heads: of attention.
        hidden: width of the feed-forward part.
        optimizer: ``muon`` or ``adamw``.
        rate: peak learning rate.
        low: lowest share of open cells that are hidden; the highest is 1.
        puzzles: made before training.
        batch: rows per step.
        steps: in all.
        stop_at: steps after which this invocation ends; 0 for none.
        seed: of everything.
    """

    out: str = "runs/sudoku"
    width: int = 96
    depth: int = 1
    loops: int = 6
    heads: int = 6
    hidden: int = 192
    optimizer: str = "muon"
    rate: float = 3e-3
    low: float = 0.3
    puzzles: int = 12_000
    batch: int = 32
    steps: int = 5_000
    stop_at: int = 0
    seed: int = 1


def network_config(board: Board, settings: Settings) -> TransformerConfig:
    """The architecture: no positions and no frame, only relations between cells."""
    return TransformerConfig(
        num_letters=board.size,
        num_tokens=board.alphabet.num_tokens,
        width=settings.width,
        depth=settings.depth,
        loops=settings.loops,
        heads=settings.heads,
        hidden=settings.hidden,
        positions="none",
        residual_scale=False,
        relations=RELATIONS,
        frame=False,
    )


def watch_units(denoiser: NetworkDenoiser) -> NetworkDenoiser:
    """The denoiser with heads that at the start prefer the cells of one kind of unit, in turn."""
    kinds = np.array([ROW, COLUMN, BOX])[np.arange(denoiser.config.heads) % 3]
    bias = WATCH * ((np.arange(RELATIONS)[:, None] & kinds[None, :]) > 0).astype(np.float32)

    def start(path: tuple[Any, ...], leaf: Array) -> Array:
        return jnp.asarray(bias) if any(getattr(part, "key", None) == "relation_bias" for part in path) else leaf

    params = jax.tree_util.tree_map_with_path(start, denoiser.params)
    return NetworkDenoiser(denoiser.graphdef, params, denoiser.config, denoiser.alphabet, denoiser.process)


def make_step(
    denoiser: NetworkDenoiser, optimizer: optax.GradientTransformation, board: Board, low: float
) -> Callable[[TrainState, Key[Array, ""], Int[Array, "B 2 L"]], tuple[TrainState, StepInfo]]:
    """One optimisation step on a batch of (grid, given) pairs; what is given is never hidden.

    It differs from :func:`seqdiff.training.step.make_step` in the clues and in the loss on every pass. The report's
    ``loss`` is the last pass's cross-entropy of all rows, ``cross_entropy`` that of puzzles with clues alone.
    """
    process, graphdef = denoiser.process, denoiser.graphdef
    relations = jnp.asarray(board.relations())[None]

    def loss(params: Any, key: Key[Array, ""], batch: Int[Array, "B 2 L"]) -> tuple[Float[Array, ""], LossParts]:
        grid, given = batch[:, 0], batch[:, 1]
        noisy = corrupt(process, "masked", key, grid, given == process.mask, (low, 1.0))
        hidden = noisy.tokens == process.mask
        network = nnx.merge(graphdef, params)
        logits = network.logits_by_loop(noisy.tokens, jnp.ones_like(hidden), noisy.level, relations)
        cross = jnp.sum(jax.vmap(masked_cross_entropy, (0, None, None))(logits, grid, hidden), axis=-1)
        scored = jnp.sum(hidden.astype(jnp.float32), axis=-1)
        puzzle = jnp.any(given < process.mask, axis=-1).astype(jnp.float32)
        parts = LossParts(jnp.sum(cross[-1]), jnp.sum(scored), jnp.sum(puzzle * cross[-1]), jnp.sum(puzzle * scored))
        return jnp.sum(jnp.mean(cross, axis=0)) / jnp.maximum(jnp.sum(scored), 1.0), parts

    def step(state: TrainState, key: Key[Array, ""], batch: Int[Array, "B 2 L"]) -> tuple[TrainState, StepInfo]:
        key = jax.random.fold_in(key, state.step)
        (_, parts), grads = jax.value_and_grad(loss, has_aux=True)(state.params, key, batch)
        updates, opt_state = optimizer.update(grads, state.optimizer, state.params)
        params = cast(Any, optax.apply_updates(state.params, updates))
        count = state.step.astype(jnp.float32)
        decay = jnp.minimum(0.998, (1.0 + count) / (10.0 + count))
        average = jax.tree.map(lambda a, p: a + (1.0 - decay) * (p - a), state.average, params)
        return TrainState(state.step + 1, params, average, opt_state), StepInfo(parts, optax.tree.norm(grads))

    return step


def train(settings: Settings) -> Path:
    """Train as ``settings`` say and return the folder of the model."""
    board, out = Board(9), Path(settings.out)
    puzzles = stored_puzzles(out / "puzzles.npy", board, settings.puzzles, settings.seed)
    config = network_config(board, settings)
    process = Process(mask=board.alphabet.mask)
    denoiser = watch_units(init_denoiser(config, board.alphabet, seed=settings.seed, process=process))
    rate = learning_rate(peak=settings.rate, steps=settings.steps, warmup=200, decay_fraction=0.4)
    optimizer = make_optimizer(settings.optimizer, rate, adam_rate=1.0, weight_decay=0.01, clip=1.0)
    size = sum(leaf.size for leaf in jax.tree.leaves(denoiser.params))
    print(f"{size:,} parameters, {len(puzzles):,} puzzles")
    # Not the number of steps: a run may be made longer or shorter before its learning rate begins to fall.
    described = {name: value for name, value in settings._asdict().items() if name not in ("out", "steps", "stop_at")}
    with _Log(out / "log.csv") as log:
        state = fit(
            init_state(denoiser.params, optimizer),
            make_step(denoiser, optimizer, board, settings.low),
            PuzzleBatches(board, puzzles, settings.batch, settings.seed),
            steps=min(settings.stop_at or settings.steps, settings.steps),
            seed=settings.seed,
            folder=out / "checkpoints",
            description=described,
            report_every=50,
            save_every=500,
            report=log,
        )
    averaged = NetworkDenoiser(denoiser.graphdef, jax.device_get(state.average), config, board.alphabet, process)
    notes = described | {"steps": int(state.step), "rows": int(state.step) * settings.batch}
    save_model(out / "model", averaged, notes=notes, dtype="float32")
    return out / "model"


class _Log:
    """A line on the terminal and in ``log.csv`` for every report."""

    FIELDS: tuple[str, ...] = ("step", "loss", "cross_entropy", "grad_norm", "seconds")

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._started = path, time.perf_counter()

    def __enter__(self) -> "_Log":
        fresh = not self._path.exists()
        self._file = open(self._path, "a", newline="")
        self._writer = csv.DictWriter(self._file, self.FIELDS, extrasaction="ignore")
        if fresh:
            self._writer.writeheader()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __call__(self, summary: dict[str, float]) -> None:
        row = summary | {"seconds": time.perf_counter() - self._started}
        row = {name: f"{row[name]:.6g}" for name in self.FIELDS}
        self._writer.writerow(row)
        self._file.flush()
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def main(words: Sequence[str]) -> None:
    """Read ``field=value`` words and train."""
    print(f"model written to {train(read_settings(Settings(), words))}")


if __name__ == "__main__":
    run_main(main)
