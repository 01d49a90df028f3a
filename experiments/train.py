"""``seqdiff train`` and ``finetune``: fit a network to the sequences of a FASTA file and write a model folder.

The run folder holds ``config.yaml`` and ``run.json`` (what was run, where and with what), ``checkpoints/``,
``metrics.jsonl`` and, at the end, ``model/`` with the averaged weights. Running the same command again continues from
the latest checkpoint, on the same devices or others.
"""

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.data import open_corpus
from seqdiff.experiments.record import add_facts, write_record
from seqdiff.experiments.schema import FinetuneConfig, FitConfig, LoraConfig, TrainConfig
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.store import load_model, save_model
from seqdiff.process.losses import Objective, check_objective
from seqdiff.process.noise import PROCESSES, Process
from seqdiff.process.schedules import SCHEDULES
from seqdiff.training.data import TokenBatches, make_batches, segment_ids
from seqdiff.training.loop import fit
from seqdiff.training.lora import init_adapters, merge
from seqdiff.training.metrics import Writer, make_writers
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.sharding import is_main, join_processes, make_layout, to_host, wait_for_all
from seqdiff.training.step import Apply, init_state, make_step, output_of

COMPUTE = ("float32", "bfloat16")


def train(config: TrainConfig) -> Path:
    """Train as ``config`` says and return the folder of the model.

    Raises:
        InputError: a file or a value cannot be used.
    """
    join_processes(**asdict(config.distributed))
    process = _process(config)
    described = {"process": {"uniform": process.uniform, "schedule": config.schedule}, "init_from": config.init_from}
    return run(config, _start(config), process, described)


def finetune(config: FinetuneConfig) -> Path:
    """Train a loaded model further, whole or through low-rank adapters, and return the folder of the result.

    Raises:
        InputError: a file or a value cannot be used, or the model is no sequence model.
    """
    join_processes(**asdict(config.distributed))
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
    """Train a denoiser and write checkpoints, metrics and, at the end, the model.

    Args:
        config: of the run.
        denoiser: to start from.
        process: whose noise is trained on.
        described: what else a checkpoint must share to be continued.
        lora: of adapters; None trains all parameters.
        dtype: of the weights that are written.
    """
    console = Console(stderr=True, quiet=not is_main())
    out, objective = Path(config.out), cast(Objective, config.objective)
    check_objective(objective, process)
    layout = make_layout(config.sharding, config.fsdp)
    optimizer = _optimizer(config)
    batches, data = _batches(config, denoiser)
    adapt, params, frozen = None, denoiser.params, None
    if lora is not None:
        adapt = partial(merge, scale=lora.alpha / lora.rank)
        params = init_adapters(jax.random.key(config.seed), denoiser.params, rank=lora.rank, targets=lora.targets)
        frozen = denoiser.params
    step = make_step(
        apply=training_network(denoiser, config),
        process=process,
        optimizer=optimizer,
        pad=PROTEIN.pad,
        times=(config.min_time, config.max_time),
        objective=objective,
        ema_decay=config.optimizer.ema_decay,
        self_conditioning=denoiser.self_conditioning,
        accumulate=config.accumulate,
        adapt=adapt,
    )
    size, trained = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (denoiser.params, params))
    console.print(
        f"{data['sequences']:,} sequences, {data['residues']:,} residues; {trained:,} of {size:,} parameters; "
        f"{config.steps:,} steps of {config.batch} x {config.length} tokens on {layout.mesh.size} device(s)"
    )
    description = _description(config, denoiser, data) | described
    stop = min(config.stop_at or config.steps, config.steps)
    start = layout.place(jax.device_get((params, frozen)))
    state = layout.create(lambda params, frozen: init_state(params, optimizer, frozen), *start)
    with _Reporter(out, config, console, stop) as report:
        state = fit(
            state,
            step,
            batches,
            steps=stop,
            seed=config.seed,
            folder=out / "checkpoints",
            description=json.loads(json.dumps(description)),  # as it is read back, so that it compares equal
            report_every=config.report_every,
            save_every=config.save_every,
            report=report,
            layout=layout,
            keep=config.keep,
            max_skipped=config.max_skipped,
        )
    weights = state.average if adapt is None else layout.create(adapt, state.frozen, state.average)
    weights = to_host(weights)
    if is_main():
        averaged = NetworkDenoiser(denoiser.graphdef, weights, denoiser.config, PROTEIN, process, output_of(objective))
        notes = description | {"steps": int(state.step), "tokens": int(state.step) * config.batch * config.length}
        save_model(out / "model", averaged, notes=notes, dtype=dtype)
        console.print(f"model written to {out / 'model'}")
    wait_for_all("model written")
    return out / "model"


def _optimizer(config: FitConfig) -> optax.GradientTransformation:
    options = config.optimizer
    rate = learning_rate(
        peak=options.rate,
        steps=config.steps,
        warmup=options.warmup,
        decay_fraction=options.decay_fraction,
        schedule=options.schedule,
    )
    return make_optimizer(
        options.name, rate, adam_rate=options.adam_rate, weight_decay=options.weight_decay, clip=options.clip
    )


def training_network(denoiser: NetworkDenoiser, config: FitConfig) -> Apply:
    """The network as a function of its parameters, which computes and remembers as the config says."""
    from flax import nnx

    if config.compute not in COMPUTE:
        raise unknown_key("compute", config.compute, COMPUTE)
    network = nnx.merge(denoiser.graphdef, denoiser.params)
    network.remat = config.remat
    if config.compute != "float32":
        network.set_attributes(dtype=jnp.dtype(config.compute))
    graphdef = nnx.split(network, nnx.Param)[0]
    packed = config.data.layout == "pack"

    def apply(
        params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: jax.Array | None
    ) -> jax.Array:
        segments = segment_ids(tokens, PROTEIN.begin) if packed else None
        network = nnx.merge(graphdef, params)
        return network(tokens, attend, time, previous=previous, segments=segments).astype(jnp.float32)

    return apply


def _batches(config: FitConfig, denoiser: NetworkDenoiser) -> tuple[TokenBatches, dict[str, Any]]:
    """The batches, and what describes the data."""
    data = config.data
    files = data.train if isinstance(data.train, list) else [data.train]
    if not all(isinstance(file, str) and file for file in files):
        raise InputError(f"data.train={data.train!r} is neither a file name nor a list of file names")
    with Console(stderr=True).status("reading the sequences") as status:
        corpus = open_corpus(
            files,
            cache=data.cache or None,
            column=data.column,
            skip=data.skip,
            progress=lambda done: status.update(f"indexing the sequences: {done:,}"),
        )
    batches = make_batches(
        corpus,
        PROTEIN,
        length=config.length,
        batch=config.batch,
        seed=config.seed,
        frame=denoiser.config.frame,
        layout=cast(Any, data.layout),
        buckets=data.buckets,
    )
    return batches, corpus.description | {"layout": data.layout, "buckets": list(data.buckets)}


def _description(config: FitConfig, denoiser: NetworkDenoiser, data: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint must share to be continued. How the work is spread over devices may change."""
    optimizer = asdict(config.optimizer) | {"decay_fraction": None}
    if config.optimizer.schedule == "cosine":
        optimizer["steps"] = config.steps
    return {
        "network": denoiser.config.to_dict(),
        "optimizer": optimizer,
        "data": data,
        "times": [config.min_time, config.max_time],
        "objective": config.objective,
        "compute": config.compute,
        "length": config.length,
        "batch": config.batch,
        "seed": config.seed,
    }


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
    if not isinstance(denoiser, NetworkDenoiser) or denoiser.config != network:
        raise InputError(f"init_from={config.init_from}: its network differs from the config's; set network.* alike")
    return denoiser


class _Reporter:
    """A progress bar on the terminal and a record per report in the run folder; in the main process only."""

    def __init__(self, out: Path, config: FitConfig, console: Console, steps: int):
        self._out, self._config = out, config
        self._started = time.perf_counter()
        self._writers: list[Writer] = []
        self._last: dict[str, float] = {}
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
        if is_main():
            config, plain = self._config, asdict(self._config)
            write_record(self._out, plain)
            self._writers = make_writers(self._out, tensorboard=config.tensorboard, wandb=config.wandb, config=plain)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        for writer in self._writers:
            writer.close()
        if is_main() and self._last:
            add_facts(self._out, metrics={name: self._last[name] for name in ("step", "loss", "cross_entropy")})

    def __call__(self, summary: dict[str, float]) -> None:
        record = summary | {"seconds": round(time.perf_counter() - self._started, 3)}
        self._last = record
        for writer in self._writers:
            writer.write(record)
        self._bar.update(self._task, completed=summary["step"], loss=summary["loss"], rate=summary["tokens_per_second"])
