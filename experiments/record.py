"""What a run folder says about the run itself: ``run.json`` and ``config.yaml``."""

import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

import seqdiff

PACKAGES = ("jax", "jaxlib", "flax", "numpy", "optax", "orbax-checkpoint", "grain", "hydra-core")


def write_record(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the resolved config and where, when and with what it runs; earlier records of the folder are kept.

    ``run.json`` holds the command, time (UTC), seed, git revision, versions, devices and number of processes of the
    latest invocation, and those of earlier ones in ``earlier``, oldest first.

    Args:
        folder: made if absent.
        config: plain data, every key resolved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))
    record = provenance() | {"seed": config.get("seed")}
    path = folder / "run.json"
    before = json.loads(path.read_text()) if path.exists() else None
    if before is not None:
        record["earlier"] = [*before.pop("earlier", []), before]
    _put(path, record)


def add_facts(folder: Path, **facts: Any) -> None:
    """Add to the ``run.json`` of a folder what is known at the end, such as ``seconds`` and ``metrics``."""
    path = folder / "run.json"
    _put(path, json.loads(path.read_text()) | facts)


def provenance() -> dict[str, Any]:
    """The command, time (UTC), git revision, versions, devices and number of processes."""
    import jax

    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": git_revision(Path(seqdiff.__file__).resolve()),
        "versions": _versions(),
        "platform": platform.platform(),
        "devices": [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()],
        "processes": jax.process_count(),
    }


def _put(path: Path, record: Mapping[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=2, default=str) + "\n")
    part.replace(path)


def git_revision(file: Path) -> str | None:
    """The commit of the checkout that tracks ``file``, ``-dirty`` if tracked files were changed; else None."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=file.parent, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    if git("ls-files", "--error-unmatch", file.name) is None:
        return None
    return git("describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "seqdiff": seqdiff.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
