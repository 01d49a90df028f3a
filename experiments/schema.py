"""Structured schemas of the experiment configs, and the groups whose options come from registries.

An unknown key or a value of the wrong type is refused: here for ``train``, ``finetune`` and ``evaluate``; by the spec's
own reader for ``design``, and by each program for ``bench``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from seqdiff.experiments.bench import PROGRAMS
from seqdiff.request.domains import DOMAINS
from seqdiff.request.planners import planner_spec
from seqdiff.sampling.planners import PLANNERS
from seqdiff.training.lora import TARGETS


@dataclass
class DataConfig:
    """Sequences: FASTA (plain, .gz or .xz), ``.parquet`` (a text column) or ``.arrayrecord`` (records are letters).

    ``train`` is a file or a list of files. ``layout``: ``pad`` puts one sequence in a row, ``bucket`` the same but
    short ones in rows of the lengths ``buckets``, ``pack`` several in a row, see ``seqdiff.training.data``. ``cache``
    is the folder of a big file's index, beside it by default; ``skip`` leaves out records with letters that are no
    residues, instead of refusing the file.
    """

    train: Any = MISSING
    layout: str = "pad"
    buckets: list[int] = field(default_factory=list)
    cache: str = ""
    column: str = "sequence"
    skip: bool = False


@dataclass
class NetworkConfig:
    """Fields of ``TransformerConfig``; see there."""

    width: int = 224
    depth: int = 4
    heads: int = 7
    hidden: int = 448
    norm: str = "layer"
    qk_norm: bool = True
    positions: str = "rotary"
    max_length: int = 1026
    rope_theta: float = 10_000.0
    mlp: str = "swiglu"
    use_bias: bool = False
    residual_scale: bool = True
    time_conditioning: bool = False
    self_conditioning: bool = False


@dataclass
class OptimizerConfig:
    """See ``seqdiff.training.optimizer``."""

    name: str = "muon"
    rate: float = 3e-3
    adam_rate: float = 1.0
    weight_decay: float = 0.01
    clip: float = 1.0
    schedule: str = "stable"
    warmup: int = 100
    decay_fraction: float = 0.3
    ema_decay: float = 0.999


@dataclass
class DistributedConfig:
    """Processes that train together; see ``seqdiff.training.sharding.join_processes``.

    ``coordinator`` is HOST:PORT of process 0, the same in all; ``auto`` finds it and the rest under SLURM.
    """

    coordinator: str = ""
    processes: int = 0
    process: int = -1


@dataclass
class FitConfig:
    """What training from scratch and fine-tuning share.

    Times are drawn from ``min_time`` to ``max_time`` and become noise levels through the schedule. ``length`` counts
    tokens per row, frame tokens included; longer sequences are cut. ``stop_at`` ends this invocation early without
    changing the schedule; run again to go on.

    ``objective``: ``bound`` trains on the likelihood bound; ``any_order`` on the same from counts of masked letters,
    with less variance; ``masked`` on the mean over masked letters, which is less noisy and cares less for low levels;
    ``cross_entropy`` on the mean over all letters (uniform and hybrid); ``score_entropy`` makes the network put out
    ratios of probabilities (absorbing and uniform). ``masked`` and ``any_order`` need the absorbing process.

    Scale: ``accumulate`` passes each batch in so many parts; ``compute`` is ``float32`` or ``bfloat16``, parameters
    being float32 always; ``remat`` recomputes the blocks in the backward pass; ``sharding`` is ``none`` (one device),
    ``data`` or ``fsdp``, with ``fsdp`` devices to a copy of the parameters (0: all). ``keep`` checkpoints are kept;
    ``max_skipped`` steps in a row that are not finite end the run. ``tensorboard`` writes event files beside
    ``metrics.jsonl``, ``wandb`` names a Weights & Biases project.
    """

    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    min_time: float = 0.02
    max_time: float = 1.0
    objective: str = "bound"
    length: int = 128
    batch: int = 32
    steps: int = 1000
    stop_at: int = 0
    seed: int = 0
    out: str = "runs/train"
    set: dict[str, Any] = field(default_factory=dict)
    report_every: int = 20
    save_every: int = 200
    keep: int = 2
    accumulate: int = 1
    compute: str = "float32"
    remat: bool = False
    sharding: str = "data"
    fsdp: int = 0
    max_skipped: int = 10
    tensorboard: bool = False
    wandb: str = ""
    distributed: DistributedConfig = field(default_factory=DistributedConfig)


@dataclass
class TrainConfig(FitConfig):
    """``seqdiff train``.

    ``process`` is the noise: ``absorbing`` (MASK), ``uniform`` (random letters; ``network.time_conditioning=true``
    helps, since the canvas does not show how noisy it is) or ``hybrid`` (mostly MASK; ``uniform`` sets the share of
    random letters, 0.1 by default).
    """

    network: NetworkConfig = field(default_factory=NetworkConfig)
    process: str = "absorbing"
    uniform: float | None = None
    schedule: str = "linear"
    init_from: str = ""


@dataclass
class LoraConfig:
    """See ``seqdiff.training.lora``; rank 0 trains all parameters."""

    rank: int = 0
    alpha: float = 16.0
    targets: list[str] = field(default_factory=lambda: list(TARGETS))


@dataclass
class FinetuneConfig(FitConfig):
    """``seqdiff finetune``: a loaded masked language model as a masked diffusion model of your sequences.

    The network and its process are the model's. With ``lora.rank`` above 0 only low-rank updates of the matrices named
    in ``lora.targets`` train; they are merged into the weights that are written.
    """

    model: str = MISSING
    lora: LoraConfig = field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(name="adamw", rate=1e-4, ema_decay=0.99, warmup=50)
    )
    length: int = 256
    batch: int = 16
    out: str = "runs/finetune"


@dataclass
class EvaluateConfig:
    """``seqdiff evaluate``: held-out likelihood of a model, beside counting baselines when ``train`` is given."""

    data: list[str] = MISSING
    model: str = "protein-small"
    train: str = ""
    limit: int = 0
    samples: int = 4
    tokens_per_batch: int = 4096
    seed: int = 0
    out: str = ""
    set: dict[str, Any] = field(default_factory=dict)


def _planners() -> dict[str, Any]:
    """Planners with their options' defaults; those that need an argument are written in the spec."""
    found = {}
    for name, cls in PLANNERS.items():
        try:
            found[name] = {"planner": planner_spec(cls())}
        except TypeError:
            continue
    return found


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bench": {name: {"bench": name} for name in PROGRAMS},
    "domain": {name: {"domain": name} for name in DOMAINS},
    "planner": _planners(),
}
"""Options of the groups that registries hold, with what each sets."""
_PACKAGES = {"planner": "sampling"}


def register() -> None:
    """Make the schemas and the registries' options known to Hydra."""
    store: Any = ConfigStore.instance()
    for group, options in OPTIONS.items():
        for name, node in options.items():
            store.store(group=group, name=name, package=_PACKAGES.get(group, "_global_"), node=node)
    store.store(name="evaluate_schema", node=EvaluateConfig)
    store.store(name="finetune_schema", node=FinetuneConfig)
    store.store(name="train_schema", node=TrainConfig)
