"""More devices, processes, parts and cuts than one change nothing: the same losses and the same final weights.

Runs are made by processes of their own, see ``worker``; all that one test compares start from the same weights.
"""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqdiff.training.metrics import read_metrics
from tests.training.worker import difference, finish, free_port, share, start

LOSS, WEIGHT = 1e-5, 1e-5
"""Largest differences allowed; about 1e-6 and 3e-7 are seen, of losses near 2.5 and weights up to 1."""
FEW: dict[str, dict[str, Any]] = {
    "one": {"sharding": "none", "optimizer": "adamw"},
    "data": {"sharding": "data", "optimizer": "adamw"},
    "fsdp in parts": {"sharding": "fsdp", "accumulate": 2, "remat": True, "optimizer": "adamw"},
    "bfloat16": {"sharding": "none", "compute": "bfloat16", "optimizer": "adamw"},
}
MORE: dict[str, dict[str, Any]] = {
    "one": {"sharding": "none"},
    "fsdp": {"sharding": "fsdp"},
    "copies of shards": {"sharding": "fsdp", "fsdp": 2},
    "in parts": {"sharding": "none", "accumulate": 4},
    "remat": {"sharding": "none", "remat": True},
    "data": {"sharding": "data"},
    "adamw": {"sharding": "none", "optimizer": "adamw"},
    "adamw fsdp": {"sharding": "fsdp", "optimizer": "adamw"},
    "packed": {"sharding": "none", "data": {"layout": "pack"}},
    "packed fsdp": {"sharding": "fsdp", "data": {"layout": "pack"}, "accumulate": 2},
    "buckets": {"sharding": "none", "data": {"layout": "bucket", "buckets": [16]}},
    "buckets data": {"sharding": "data", "data": {"layout": "bucket", "buckets": [16]}},
}
REFERENCE = {"adamw fsdp": "adamw", "packed fsdp": "packed", "buckets data": "buckets"}
"""What a run of MORE is compared with, if not with ``one``."""


@pytest.fixture(scope="module")
def fasta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.fasta"
    rng = np.random.default_rng(0)
    starts = ["".join(rng.choice(list("ACDE"), rng.integers(2, 10))) for _ in range(40)]
    path.write_text("".join(f">s{i}\nM{start * 3}K\n" for i, start in enumerate(starts)))
    return path


def assert_same_training(one: Path, other: Path) -> None:
    loss, weight = difference(one, other)
    print(f"{other.name}: losses differ by {loss:.1e}, weights by {weight:.1e}")
    assert loss < LOSS
    assert weight < WEIGHT


def pair(fasta: Path, out: Path, **changes: Any) -> list[subprocess.Popen]:
    """Two processes of two devices that train together."""
    coordinator = f"localhost:{free_port()}"
    members = [{"coordinator": coordinator, "processes": 2, "process": number} for number in range(2)]
    return [start(fasta, (out, {"distributed": member, "sharding": "fsdp"} | changes), devices=2) for member in members]


def test_devices_parts_and_processes_change_nothing(fasta: Path, tmp_path: Path):
    processes = pair(fasta, tmp_path / "two processes", optimizer="adamw")
    finish(start(fasta, *((tmp_path / name, changes) for name, changes in FEW.items()), devices=8))
    for process in processes:
        finish(process)
    for name in ("data", "fsdp in parts", "two processes"):
        assert_same_training(tmp_path / "one", tmp_path / name)
    # One of the two wrote the log.
    steps = [record["step"] for record in read_metrics(tmp_path / "two processes" / "metrics.jsonl")]
    assert steps == [1, 2, 3, 4, 5, 6]
    # Lower precision is near, and was used.
    loss, weight = difference(tmp_path / "one", tmp_path / "bfloat16")
    print(f"bfloat16: losses differ by {loss:.1e}, weights by {weight:.1e}")
    assert 1e-5 < loss < 0.02
    assert 1e-5 < weight < 0.05
    # A device held an eighth of all matrices, norms and biases being whole.
    assert (share(tmp_path / "one"), share(tmp_path / "data")) == (1, 1)
    assert 0.125 < share(tmp_path / "fsdp in parts") < 0.25


@pytest.mark.slow
def test_more_layouts_change_nothing(fasta: Path, tmp_path: Path):
    finish(start(fasta, *((tmp_path / name, changes) for name, changes in MORE.items()), devices=8))
    for name in MORE.keys() - {"one", *REFERENCE.values()}:
        assert_same_training(tmp_path / REFERENCE.get(name, "one"), tmp_path / name)


@pytest.mark.slow
def test_one_process_goes_on_where_two_stopped(fasta: Path, tmp_path: Path):
    for process in pair(fasta, tmp_path / "run", stop_at=3):
        finish(process)
    finish(start(fasta, (tmp_path / "run", {"sharding": "data"})))
    finish(start(fasta, (tmp_path / "one", {"sharding": "none"})))
    assert_same_training(tmp_path / "one", tmp_path / "run")


def killed(fasta: Path, out: Path, programs: Path, at: list[int], changes: dict[str, Any]) -> None:
    """Train, killing the process once its log has reached each of the steps ``at`` in turn, and go on to the end."""
    for step in at:
        process = start(fasta, (out, changes), cache=programs)
        while process.poll() is None:
            records = read_metrics(out / "metrics.jsonl")
            if records and records[-1]["step"] >= step:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
    finish(start(fasta, (out, changes), cache=programs))


@pytest.mark.parametrize(("kills", "steps"), [(1, 60), pytest.param(6, 400, marks=pytest.mark.slow)])
def test_a_run_that_was_killed_ends_in_the_same_bits(fasta: Path, tmp_path: Path, kills: int, steps: int):
    programs, changes = (
        tmp_path / "programs",
        {"steps": steps, "save_every": 7, "report_every": 1, "optimizer": "adamw"},
    )
    finish(start(fasta, (tmp_path / "whole", changes), cache=programs))
    at = sorted(int(step) for step in np.random.default_rng(kills).integers(10, steps - 20, kills))
    killed(fasta, tmp_path / "killed", programs, at, changes)
    assert difference(tmp_path / "whole", tmp_path / "killed") == (0, 0)
