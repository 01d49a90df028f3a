"""Structured schema of the experiment configs: an unknown key or a value of the wrong type is refused."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from seqdiff.training.lora import TARGETS


@dataclass
class DataConfig:
    """FASTA files (plain, .gz or .xz)."""

    train: str = MISSING


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
    warmup: int = 100
    decay_fraction: float = 0.3
    ema_decay: float = 0.999


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
    report_every: int = 20
    save_every: int = 200


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


def register() -> None:
    """Make the schemas known to Hydra."""
    store: Any = ConfigStore.instance()
    store.store(name="evaluate_schema", node=EvaluateConfig)
    store.store(name="finetune_schema", node=FinetuneConfig)
    store.store(name="train_schema", node=TrainConfig)
