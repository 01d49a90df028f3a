"""``seqdiff train`` and ``finetune``: fit a network to the sequences of a FASTA file and write a model folder.

The run folder holds ``checkpoints/``, ``log.csv`` and, at the end, ``model/`` with the averaged weights. Running the
same command again continues from the latest checkpoint.
"""

import csv
import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.experiments.schema import FinetuneConfig, FitConfig, LoraConfig, TrainConfig
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.store import load_model, save_model
from seqdiff.process.losses import Objective, check_objective
from seqdiff.process.noise import PROCESSES, Process
from seqdiff.process.schedules import SCHEDULES
from seqdiff.training.data import crop_batches
from seqdiff.training.loop import Batches, fit
from seqdiff.training.lora import init_adapters, merge
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.step import init_state, make_step, output_of


def train(config: TrainConfig) -> Path:
    """Train as ``config`` says and return the folder of the model.

    Raises:
        InputError: a file or a value cannot be used.
    """
    process = _process(config)
    described = {"process": {"uniform": process.uniform, "schedule": config.schedule}, "init_from": config.init_from}
    return run(config, _start(config), process, described)


def finetune(config: FinetuneConfig) -> Path:
    """Train a loaded model further, whole or through low-rank adapters, and return the folder of the result.

    Raises:
        InputError: a file or a value cannot be used, or the model is no sequence model.
    """
    denoiser = load_model(config.model, PROTEIN)
    if not isinstance(denoiser, NetworkDenoiser):
        raise InputError(f"model={config.model} reads structures; only masked language models can be fine-tuned")
    described = {"model": config.model, "lora": asdict(config.lora)}
    lora = config.lora if config.lora.rank else None
    return run(config, denoiser, denoiser.process, described, lora=lora, dtype="float32")


def run(
    config: FitConfig,
    denoiser: NetworkDenoiser,
    process: Process,
    described: dict[str, Any],
    lora: LoraConfig | None = None,
    dtype: str = "bfloat16",
) -> Path:
    """Train a denoiser and write checkpoints, a log and, at the end, the model.

    Args:
        config: of the run.
        denoiser: to start from.
        process: whose noise is trained on.
        described: what else a checkpoint must share to be continued.
        lora: of adapters; None trains all parameters.
        dtype: of the weights that are written.
    """
    console = Console(stderr=True)
    out = Path(config.out)
    check_objective(config.objective, process)
    objective = cast(Objective, config.objective)
    sequences = [PROTEIN.encode(str(record.seq)) for record in read_fasta(config.data.train)]
    options = config.optimizer
    rate = learning_rate(
        peak=options.rate, steps=config.steps, warmup=options.warmup, decay_fraction=options.decay_fraction
    )
    optimizer = make_optimizer(
        options.name, rate, adam_rate=options.adam_rate, weight_decay=options.weight_decay, clip=options.clip
    )
    graphdef = denoiser.graphdef

    def apply(
        params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: jax.Array | None
    ) -> jax.Array:
        from flax import nnx

        return nnx.merge(graphdef, params)(tokens, attend, time, previous=previous)

    adapt, params, frozen = None, denoiser.params, None
    if lora is not None:
        adapt = partial(merge, scale=lora.alpha / lora.rank)
        params = init_adapters(jax.random.key(config.seed), denoiser.params, rank=lora.rank, targets=lora.targets)
        frozen = denoiser.params
    step = make_step(
        apply=apply,
        process=process,
        optimizer=optimizer,
        pad=PROTEIN.pad,
        times=(config.min_time, config.max_time),
        objective=objective,
        ema_decay=options.ema_decay,
        self_conditioning=denoiser.self_conditioning,
        adapt=adapt,
    )
    windows = crop_batches(
        sequences, PROTEIN, length=config.length, batch=config.batch, seed=config.seed, frame=denoiser.config.frame
    )
    batches = cast(Batches, windows)
    residues = sum(map(len, sequences))
    size, trained = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (denoiser.params, params))
    console.print(
        f"{len(sequences):,} sequences, {residues:,} residues; {trained:,} of {size:,} parameters; "
        f"{config.steps:,} steps of {config.batch} x {config.length} tokens on {len(jax.local_devices())} device(s)"
    )
    description = described | {
        "network": denoiser.config.to_dict(),
        "optimizer": asdict(options) | {"decay_fraction": None},
        "data": {"file": Path(config.data.train).name, "sequences": len(sequences), "residues": residues},
        "times": [config.min_time, config.max_time],
        "objective": config.objective,
        "length": config.length,
        "batch": config.batch,
        "seed": config.seed,
    }
    # As JSON reads it back, so that a checkpoint's description compares equal.
    description = json.loads(json.dumps(description))
    out.mkdir(parents=True, exist_ok=True)
    stop = min(config.stop_at or config.steps, config.steps)
    with _Reporter(out / "log.csv", console, stop) as report:
        state = fit(
            init_state(params, optimizer, frozen),
            step,
            batches,
            steps=stop,
            seed=config.seed,
            folder=out / "checkpoints",
            description=description,
            report_every=config.report_every,
            save_every=config.save_every,
            report=report,
        )
    weights = state.average if adapt is None else adapt(state.frozen, state.average)
    averaged = NetworkDenoiser(
        graphdef, jax.device_get(weights), denoiser.config, PROTEIN, process, output_of(objective)
    )
    notes = description | {"steps": int(state.step), "tokens": int(state.step) * config.batch * config.length}
    save_model(out / "model", averaged, notes=notes, dtype=dtype)
    console.print(f"model written to {out / 'model'}")
    return out / "model"


def _process(config: TrainConfig) -> Process:
    if config.schedule not in SCHEDULES:
        raise unknown_key("schedule", config.schedule, SCHEDULES)
    if config.process not in PROCESSES:
        raise unknown_key("process", config.process, PROCESSES)
    uniform = PROCESSES[config.process]
    if config.uniform is not None:
        if config.process != "hybrid" or not 0.0 < config.uniform < 1.0:
            raise InputError(
                f"uniform={config.uniform:g} with process={config.process}: it is the share of random letters of "
                "process=hybrid, between 0 and 1"
            )
        uniform = config.uniform
    return Process(mask=PROTEIN.mask, uniform=uniform, schedule=SCHEDULES[config.schedule]())


def _start(config: TrainConfig) -> NetworkDenoiser:
    network = TransformerConfig(num_letters=len(PROTEIN), num_tokens=PROTEIN.num_tokens, **asdict(config.network))
    if not config.init_from:
        return init_denoiser(network, PROTEIN, seed=config.seed)
    denoiser = load_model(config.init_from, PROTEIN)
    if denoiser.config != network:
        raise InputError(f"init_from={config.init_from}: its network differs from the config's; set network.* alike")
    return denoiser


class _Reporter:
    """A progress bar on the terminal and a row per report in ``log.csv``."""

    FIELDS: tuple[str, ...] = ("step", "loss", "cross_entropy", "grad_norm", "tokens_per_second", "seconds")

    def __init__(self, path: Path, console: Console, steps: int):
        self._path, self._started = path, time.perf_counter()
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}  {task.fields[rate]:,.0f} tokens/s"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("train", total=steps, loss=np.nan, rate=0.0)

    def __enter__(self) -> "_Reporter":
        self._bar.start()
        fresh = not self._path.exists()
        self._file = open(self._path, "a", newline="")
        self._writer = csv.DictWriter(self._file, self.FIELDS)
        if fresh:
            self._writer.writeheader()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        self._file.close()

    def __call__(self, summary: dict[str, float]) -> None:
        seconds = time.perf_counter() - self._started
        self._writer.writerow({name: f"{value:.6g}" for name, value in (summary | {"seconds": seconds}).items()})
        self._file.flush()
        self._bar.update(self._task, completed=summary["step"], loss=summary["loss"], rate=summary["tokens_per_second"])
