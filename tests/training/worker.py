"""Training runs in processes of their own, because the number of devices and processes is fixed when JAX starts.

``python -m tests.training.worker FASTA OUT NAME=VALUE...`` runs the tests' small config with fields replaced, several
runs one after the other where ``--`` stands between them, and writes float32 models.
"""

import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.schema import DataConfig, DistributedConfig, NetworkConfig, OptimizerConfig, TrainConfig
from seqdiff.experiments.train import run
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.models.store import flatten, load_model
from seqdiff.process.noise import Process
from seqdiff.training.metrics import read_metrics
from seqdiff.training.sharding import is_main, join_processes, make_layout

FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def small(fasta: Path, out: Path, **changes: Any) -> TrainConfig:
    """Two blocks, odd sizes but for the ones that shard; ``optimizer`` and ``network`` take their fields flat."""
    fields: dict[str, Any] = {
        "data": DataConfig(train=str(fasta), **changes.pop("data", {})),
        "network": NetworkConfig(width=16, depth=2, heads=2, hidden=24),
        "optimizer": OptimizerConfig(name=changes.pop("optimizer", "muon"), rate=0.01, warmup=2, ema_decay=0.5),
        "length": 24,
        "batch": 16,
        "steps": 6,
        "report_every": 1,
        "save_every": 3,
        "out": str(out),
    }
    return TrainConfig(**fields | changes)


def train_small(config: TrainConfig) -> Path:
    """Like ``seqdiff train``, but the model is written in float32."""
    join_processes(**vars(config.distributed))
    network = TransformerConfig(num_letters=20, num_tokens=PROTEIN.num_tokens, **vars(config.network))
    denoiser = init_denoiser(network, PROTEIN, seed=config.seed)
    if is_main():
        Path(config.out).mkdir(parents=True, exist_ok=True)
        (Path(config.out) / "share.json").write_text(json.dumps(_share(denoiser.params, config)))
    return run(config, denoiser, Process(mask=PROTEIN.mask), {}, dtype="float32")


def _share(params: Any, config: TrainConfig) -> float:
    layout = make_layout(config.sharding, config.fsdp)
    shapes = [
        (leaf.shape, sharding.shard_shape(leaf.shape))
        for leaf, sharding in zip(jax.tree.leaves(params), jax.tree.leaves(layout.of(params)), strict=True)
    ]
    whole, part = (sum(math.prod(pair[i]) for pair in shapes) for i in range(2))
    return part / whole


def start(
    fasta: Path, *runs: tuple[Path, dict[str, Any]], devices: int = 1, cache: Path | None = None
) -> subprocess.Popen:
    """A process with so many virtual CPU devices that trains one run after the other."""
    words: list[str] = []
    for out, changes in runs:
        words += ["--", str(out), json.dumps(changes)]
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{FLAGS} --xla_force_host_platform_device_count={devices}",
    }
    if cache is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.worker", str(fasta), *words[1:]]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen) -> None:
    """Wait for a process that should succeed."""
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors


def difference(a: Path, b: Path) -> tuple[float, float]:
    """The largest differences of two runs' reported losses and final weights."""
    first, second = ([record["loss"] for record in read_metrics(out / "metrics.jsonl")] for out in (a, b))
    models = [flatten(load_model(out / "model", PROTEIN).params) for out in (a, b)]
    weights = (np.abs(np.asarray(leaf) - np.asarray(models[1][name])).max() for name, leaf in models[0].items())
    return float(np.abs(np.subtract(first, second)).max()), float(max(weights))


def share(out: Path) -> float:
    """The part of the network's parameters that one device held."""
    return json.loads((out / "share.json").read_text())


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def main(words: Sequence[str]) -> None:
    """Read runs from the command line."""
    fasta, *rest = words
    while rest:
        out, changes, *rest = rest
        rest = rest[1:]
        changes = json.loads(changes)
        if "distributed" in changes:
            changes["distributed"] = DistributedConfig(**changes["distributed"])
        train_small(small(Path(fasta), Path(out), **changes))
        print(f"{out} on {jax.device_count()} devices", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
