"""Data at scale: time and memory of indexing and streaming a large FASTA file, beside the speed of training.

    python -m seqdiff.experiments.bench.loader folder=DIR [records=2000000] [out=FILE.json]

Writes a FASTA file of protein-like sequences (letters as frequent as in UniProtKB/Swiss-Prot, log-normal lengths of
mean 250) and prefixes of it into the folder, and deletes them at the end: about 500 bytes of disk per record. Every
measurement runs in a process of its own, so that its peak of memory is its own (Linux: ``VmHWM``). The training step is
that of the default network, optimiser and batch of ``seqdiff train``, on this machine's default device.
"""

import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.data import open_corpus
from seqdiff.experiments.schema import OptimizerConfig, TrainConfig
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.experiments.train import training_network
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.process.noise import Process
from seqdiff.process.schedules import SCHEDULES
from seqdiff.training.data import LAYOUTS, make_batches
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.step import init_state, make_step

MEAN, SPREAD = 250.0, 0.6
"""Mean length and the standard deviation of its logarithm."""

SHARES = {
    "A": 8.25, "R": 5.53, "N": 4.06, "D": 5.46, "C": 1.38, "Q": 3.93, "E": 6.72, "G": 7.07, "H": 2.27, "I": 5.91,
    "L": 9.65, "K": 5.80, "M": 2.41, "F": 3.86, "P": 4.74, "S": 6.65, "T": 5.36, "W": 1.10, "Y": 2.92, "V": 6.86,
}  # fmt: skip
"""Per cent of the letters of UniProtKB/Swiss-Prot."""

LENGTH, BATCH, TOKENS = 512, 64, 10_000_000
BUCKETS = (128, 256)
LINE = 60


class Settings(NamedTuple):
    """What to measure.

    Attributes:
        folder: where the files go while it runs, 1 GB for 2 million records; empty for the system's.
        records: of the largest file.
        out: JSON file to write; empty for none.
    """

    folder: str = ""
    records: int = 2_000_000
    out: str = ""


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    settings = read_settings(Settings(), words)
    total = settings.records
    sizes = sorted({total // 20, total // 2, total})
    folder = Path(tempfile.mkdtemp(prefix="loader-", dir=settings.folder or None))
    try:
        files = generate(folder, sizes)
        rows = [_alone(measure_index, file) | _alone(measure_stream, file) for file in files]
        layouts = {layout: _alone(measure_layout, files[-1], layout) for layout in LAYOUTS}
    finally:
        shutil.rmtree(folder)
    step = _alone(measure_step)
    console = Console()
    console.print(_sizes_table(rows))
    console.print(_speed_table(layouts, step))
    if settings.out:
        found = {"sizes": rows, "layouts": layouts, "step": step}
        Path(settings.out).write_text(json.dumps(found, indent=1) + "\n")


def generate(folder: Path, sizes: list[int], seed: int = 0) -> list[Path]:
    """FASTA files of the first so many of the same sequences, in lines of 60 letters.

    Args:
        folder: where they go.
        sizes: number of records of each, ascending.
        seed: of the sequences.
    """
    rng = np.random.default_rng(seed)
    shares = np.array(list(SHARES.values()))
    table = np.frombuffer("".join(SHARES).encode(), np.uint8)
    table = np.repeat(table, np.diff(np.round(np.cumsum([0, *shares]) / shares.sum() * 65536).astype(int)))
    paths = [folder / f"{size}.fasta" for size in sizes]
    handles = [open(path, "wb") for path in paths]  # noqa: SIM115
    for start in range(0, sizes[-1], 10_000):
        number = min(10_000, sizes[-1] - start)
        lengths = np.maximum(rng.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, number), 10).astype(int)
        ends = np.cumsum(lengths)
        text = table[rng.integers(0, 65536, ends[-1])].tobytes()
        records = []
        for i, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True), start):
            sequence = text[end - length : end]
            lines = [sequence[at : at + LINE] for at in range(0, length, LINE)]
            records.append(b">P%08d generated\n%b\n" % (i, b"\n".join(lines)))
        for size, handle in zip(sizes, handles, strict=True):
            handle.write(b"".join(records[: max(size - start, 0)]))
    for handle in handles:
        handle.close()
    return paths


def measure_index(file: Path) -> dict[str, Any]:
    """Seconds and MB of writing the index; MB of the process before."""
    before, started = _peak(), time.perf_counter()
    corpus = open_corpus(file, whole=0)
    seconds = time.perf_counter() - started
    return {
        "records": len(corpus),
        "file_mb": file.stat().st_size / 1e6,
        "index_s": seconds,
        "before_mb": before,
        "index_mb": _peak(),
    }


def measure_stream(file: Path) -> dict[str, Any]:
    """MB of a process that reads batches of an index."""
    _read(file, "pad")
    return {"stream_mb": _peak()}


def measure_layout(file: Path, layout: str) -> dict[str, float]:
    """Tokens a second of a layout, without padding, and its share of padding."""
    rate, padding = _read(file, layout)
    return {"tokens_per_second": rate, "padding": padding}


def _read(file: Path, layout: Any) -> tuple[float, float]:
    corpus = open_corpus(file, whole=0)
    buckets = BUCKETS if layout == "bucket" else ()
    batches = make_batches(corpus, PROTEIN, length=LENGTH, batch=BATCH, seed=0, layout=layout, buckets=buckets)
    filled, places = 0, 0
    stream = iter(batches.stream())
    next(stream)
    started = time.perf_counter()
    while places < TOKENS:
        tokens = next(stream)
        filled, places = filled + int(np.sum(tokens != PROTEIN.pad)), places + tokens.size
    return filled / (time.perf_counter() - started), 1 - filled / places


def measure_step(steps: int = 10) -> dict[str, Any]:
    """Tokens a second of the training step with the defaults of ``seqdiff train``, padding included."""
    config = TrainConfig()
    network = TransformerConfig(num_letters=len(PROTEIN), num_tokens=PROTEIN.num_tokens, **asdict(config.network))
    denoiser = init_denoiser(network, PROTEIN, seed=0)
    options = OptimizerConfig()
    rate = learning_rate(peak=options.rate, steps=1000, warmup=options.warmup, decay_fraction=options.decay_fraction)
    optimizer = make_optimizer(
        options.name, rate, adam_rate=options.adam_rate, weight_decay=options.weight_decay, clip=options.clip
    )
    process = Process(mask=PROTEIN.mask, uniform=0.0, schedule=SCHEDULES[config.schedule]())
    step = make_step(
        apply=training_network(denoiser, config),
        process=process,
        optimizer=optimizer,
        pad=PROTEIN.pad,
        times=(config.min_time, config.max_time),
        objective="bound",
        ema_decay=options.ema_decay,
    )
    tokens = jax.random.randint(jax.random.key(1), (config.batch, config.length), 0, len(PROTEIN))
    compiled = jax.jit(step, donate_argnums=0)
    state, key = init_state(denoiser.params, optimizer), jax.random.key(0)
    for _ in range(2):  # the first step may compile twice: for new arrays, and for those that a step returned
        state, _ = jax.block_until_ready(compiled(state, key, tokens))
    started = time.perf_counter()
    for _ in range(steps):
        state, _ = compiled(state, key, tokens)
    jax.block_until_ready(state)
    seconds = time.perf_counter() - started
    parameters = sum(leaf.size for leaf in jax.tree.leaves(denoiser.params))
    return {
        "tokens_per_second": tokens.size * steps / seconds,
        "parameters": parameters,
        "device": jax.devices()[0].device_kind,
    }


def _alone(call: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """The result of a call in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *args).result()


def _peak() -> float:
    """The largest resident memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _sizes_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("records", "file MB", "index s", "start MB", "peak MB, indexing", "peak MB, streaming", box=None)
    for row in rows:
        figures = (row[name] for name in ("file_mb", "index_s", "before_mb", "index_mb", "stream_mb"))
        table.add_row(f"{row['records']:,}", *(f"{figure:,.1f}" for figure in figures))
    return table


def _speed_table(layouts: dict[str, dict[str, float]], step: dict[str, Any]) -> Table:
    table = Table("what", "tokens/s", "padding", box=None)
    for layout, row in layouts.items():
        table.add_row(f"loader, {layout}", f"{row['tokens_per_second']:,.0f}", f"{row['padding']:.1%}")
    name = f"training step, {step['parameters'] / 1e6:.1f} M parameters, {step['device']}"
    table.add_row(name, f"{step['tokens_per_second']:,.0f}", "")
    return table


if __name__ == "__main__":
    run_main(main)
