"""What a run leaves beside its checkpoints: metrics, event files, the record."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import pytest
import yaml

import seqdiff
from seqdiff.core.errors import MissingExtraError
from seqdiff.experiments.record import git_revision, write_record
from seqdiff.training.metrics import JsonLines, TensorBoard, WeightsAndBiases, make_writers, read_metrics


def test_a_resumed_run_takes_back_what_came_after(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    first = JsonLines(path)
    for step in (2, 4, 6):
        first.write({"step": step, "loss": 1.0 / step})
    first.close()
    with path.open("a") as file:
        file.write('{"step": 8, "lo')  # killed while it wrote
    second = JsonLines(path)
    second.write({"step": 6, "loss": float("nan")})
    second.write({"step": 8, "loss": 0.5})
    second.close()
    assert read_metrics(path) == [
        {"step": 2, "loss": 0.5}, {"step": 4, "loss": 0.25}, {"step": 6, "loss": None}, {"step": 8, "loss": 0.5},
    ]  # fmt: skip
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert read_metrics(tmp_path / "none.jsonl") == []


@pytest.mark.filterwarnings("ignore")  # protobuf and tensorboardX about their own future
def test_event_files(tmp_path: Path):
    pytest.importorskip("tensorboardX")
    writer = TensorBoard(tmp_path / "events")
    writer.write({"step": 3, "loss": 1.5})
    writer.close()
    [file] = (tmp_path / "events").iterdir()
    content = file.read_bytes()
    assert file.name.startswith("events.out.tfevents")
    assert b"train/loss" in content
    assert b"train/step" not in content


def test_weights_and_biases_goes_on_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[Any] = []

    def init(**options: Any) -> SimpleNamespace:
        calls.append(options)
        return SimpleNamespace(
            log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("end")
        )

    module = ModuleType("wandb")
    module.init = init  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "wandb", module)
    for step in (1, 2):
        writer = WeightsAndBiases(tmp_path / "run", "proteins", {"seed": 1})
        writer.write({"step": step, "loss": 0.5})
        writer.close()
    first, one, end, second, two, _ = calls
    assert first["project"] == "proteins"
    assert first["id"] == second["id"]
    assert first["resume"] == "allow"
    assert (one, two) == ((1, {"loss": 0.5}), (2, {"loss": 0.5}))
    assert end == "end"


@pytest.mark.parametrize(("module", "extra"), [("tensorboardX", "tensorboard"), ("wandb", "wandb")])
def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str):
    monkeypatch.setitem(sys.modules, module, None)
    options: dict[str, Any] = {"tensorboard": extra == "tensorboard", "wandb": "project" if extra == "wandb" else ""}
    with pytest.raises(MissingExtraError, match=rf"seqdiff\[{extra}\]"):
        make_writers(tmp_path, config={}, **options)


def test_the_record_says_what_ran_where_and_with_what(tmp_path: Path):
    config = {"seed": 7, "network": {"width": 8}, "buckets": [16, 32], "wandb": ""}
    write_record(tmp_path, config)
    write_record(tmp_path, config | {"seed": 8})
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == config | {"seed": 8}
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["seed"] == 8
    assert [earlier["seed"] for earlier in record["earlier"]] == [7]
    assert "earlier" not in record["earlier"][0]
    assert record["versions"]["jax"] == jax.__version__
    assert record["versions"]["seqdiff"] == seqdiff.__version__
    assert len(record["devices"]) == jax.device_count()
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "run.json"}


def test_the_revision_is_of_the_checkout_that_tracks_the_file(tmp_path: Path):
    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    file = tmp_path / "code.py"
    file.write_text("1\n")
    assert git_revision(file) is None
    git("init")
    assert git_revision(file) is None
    git("add", "code.py")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    assert git_revision(file) == commit
    file.write_text("2\n")
    assert git_revision(file) == f"{commit}-dirty"
