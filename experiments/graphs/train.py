"""Train a network over pairs of nodes on undirected graphs by masked diffusion.

    python -m seqdiff.experiments.graphs.train data=community20_all.g6 hold_out=5 out=runs/community

``data`` is one or several graph files, separated by commas, or the name of a law that fresh graphs are drawn from
without end (``planar``, ``tree``, ``sbm``, ``lobster``, ``community``). The run folder holds ``checkpoints/``,
``log.csv`` and, at the end, ``model/`` with the averaged weights; the same command again continues from the latest
checkpoint. Recipes for the benchmark sets are in ``experiments/recipes/graphs.sh``.
"""

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import SeqdiffError
from seqdiff.experiments.graphs.data import LAWS, SIZED, Draw, GraphBatches, file_graphs, from_law, from_pool
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.models.grid.config import GridConfig
from seqdiff.models.grid.denoiser import GridDenoiser, init_grid
from seqdiff.models.store import load_model, save_model
from seqdiff.training.loop import fit
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.step import Apply, init_state, make_step


class Settings(NamedTuple):
    """The run; every field may be set on the command line as ``field=value``.

    Attributes:
        data: graph files or a law.
        out: folder of the run.
        hold_out: every so-manieth graph of the files is held out for testing; 0 for none.
        low: fewest nodes of a law that has a size.
        high: most nodes of a law that has a size.
        most: larger graphs are left out.
        multiple: graphs are batched by size, rounded up to a multiple of so many nodes.
        kind: of network, ``pairs`` or ``tokens``; this and the next six are fields of ``GridConfig``.
        width: of the residual stream.
        depth: blocks.
        heads: of attention.
        hidden: width of the feed-forward part.
        channels: of the triangle update.
        codes: width of the codes of nodes; 0 for none.
        init_from: a model to start from, of the same architecture.
        optimizer: ``muon`` or ``adamw``.
        rate: peak learning rate.
        decay: share of the steps in which the rate falls to zero.
        average: decay of the averaged weights.
        batch: graphs per step.
        steps: in all.
        stop_at: steps after which this invocation ends; 0 for none.
        save_every: steps between checkpoints.
        seed: of everything.
    """

    data: str = "community"
    out: str = "runs/graphs"
    hold_out: int = 0
    low: int = 12
    high: int = 20
    most: int = 128
    multiple: int = 4
    kind: str = "pairs"
    width: int = 64
    depth: int = 4
    heads: int = 4
    hidden: int = 128
    channels: int = 32
    codes: int = 0
    init_from: str = ""
    optimizer: str = "muon"
    rate: float = 3e-3
    decay: float = 0.3
    average: float = 0.998
    batch: int = 32
    steps: int = 2000
    stop_at: int = 0
    save_every: int = 200
    seed: int = 1


def network_config(settings: Settings) -> GridConfig:
    """The architecture."""
    fields = {name: value for name, value in settings._asdict().items() if name in GridConfig.__dataclass_fields__}
    return GridConfig(num_letters=2, **fields)


def source(settings: Settings) -> Draw:
    """Where the training graphs come from."""
    if settings.data in SIZED or settings.data in LAWS:
        return from_law(settings.data, settings.low, settings.high, settings.most)
    return from_pool(file_graphs(settings.data, most=settings.most, hold_out=settings.hold_out, held=False))


def train(settings: Settings) -> Path:
    """Train as ``settings`` say and return the folder of the model.

    Raises:
        InputError: a file or a value cannot be used.
    """
    batches = GraphBatches(source(settings), batch=settings.batch, multiple=settings.multiple, seed=settings.seed)
    out, alphabet = Path(settings.out), batches.alphabet
    denoiser = _start(settings, alphabet)
    rate = learning_rate(
        peak=settings.rate, steps=settings.steps, warmup=min(100, settings.steps // 10), decay_fraction=settings.decay
    )
    optimizer = make_optimizer(settings.optimizer, rate, adam_rate=1.0, weight_decay=0.01, clip=1.0)
    slots = jnp.asarray(batches.grid.slots)

    def apply(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: object) -> jax.Array:
        network = GridDenoiser(denoiser.graphdef, params, denoiser.config, alphabet)
        return network(tokens, attend, time, {"slots": slots[: tokens.shape[1]]})

    step = make_step(
        apply=cast(Apply, apply),
        process=denoiser.process,
        optimizer=optimizer,
        pad=alphabet.pad,
        times=(0.0, 1.0),
        objective="any_order",
        ema_decay=settings.average,
    )
    described = {k: v for k, v in settings._asdict().items() if k not in ("out", "stop_at", "save_every")}
    described["data"] = ",".join(Path(name).name for name in settings.data.split(","))
    print(f"{sum(leaf.size for leaf in jax.tree.leaves(denoiser.params)):,} parameters", flush=True)
    state = fit(
        init_state(denoiser.params, optimizer),
        step,
        batches,
        steps=min(settings.stop_at or settings.steps, settings.steps),
        seed=settings.seed,
        folder=out / "checkpoints",
        description=described,
        report_every=min(50, settings.save_every),
        save_every=settings.save_every,
        report=_log(out / "log.csv"),
    )
    averaged = GridDenoiser(denoiser.graphdef, jax.device_get(state.average), denoiser.config, alphabet)
    notes = described | {"steps_done": int(state.step), "graphs": int(state.step) * settings.batch}
    save_model(out / "model", averaged, notes=notes)
    return out / "model"


def _start(settings: Settings, alphabet: Alphabet) -> GridDenoiser:
    config = network_config(settings)
    if not settings.init_from:
        return init_grid(config, alphabet, seed=settings.seed)
    denoiser = load_model(settings.init_from, alphabet)
    if not isinstance(denoiser, GridDenoiser) or denoiser.config != config:
        raise SeqdiffError(f"init_from={settings.init_from}: its network differs from the one asked for")
    return denoiser


def _log(path: Path) -> Callable[[dict[str, float]], None]:
    """A line on the terminal and in a CSV file for every report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()

    def report(summary: dict[str, float]) -> None:
        row = {name: f"{value:.6g}" for name, value in summary.items()}
        row["seconds"] = f"{time.perf_counter() - started:.1f}"
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if fresh:
                writer.writeheader()
            writer.writerow(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)

    return report


def main(words: Sequence[str]) -> None:
    """Read ``field=value`` words and train."""
    print(f"model written to {train(read_settings(Settings(), words))}")


if __name__ == "__main__":
    run_main(main)
