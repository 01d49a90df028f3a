"""What a run reports, one record of numbers per report: JSON lines always, TensorBoard and Weights & Biases on request.

Only one process writes. A run that resumes from an earlier step than it had reported takes back the records after it,
so that its ``metrics.jsonl`` is that of a run which was never cut.
"""

import json
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from seqdiff.core.errors import missing_extra


class Writer(Protocol):
    """Takes records that hold ``step`` and other numbers."""

    def write(self, record: Mapping[str, float]) -> None:
        """Take one record; its step is above that of the one before."""
        ...

    def close(self) -> None:
        """Flush."""
        ...


class JsonLines:
    """A JSON object per line, written through to disk at once; numbers that are not finite are null."""

    def __init__(self, path: Path):
        self._path, self._file = path, None

    def write(self, record: Mapping[str, float]) -> None:
        """Append a line; the first one removes lines of the same step or later, and half a line."""
        if self._file is None:
            kept = [line for line in read_metrics(self._path) if line["step"] < record["step"]]
            self._path.write_text("".join(map(_line, kept)))
            self._file = self._path.open("a")
        self._file.write(_line(record))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _line(record: Mapping[str, float | None]) -> str:
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in record.items()}
    return json.dumps(finite) + "\n"


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The records of a ``metrics.jsonl``, none if there is no file; a last line that was cut is left out."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


class TensorBoard:
    """Scalars in a TensorBoard event file, by tensorboardX.

    Raises:
        MissingExtraError: tensorboardX is not installed.
    """

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboardX", "tensorboard") from None
        self._open, self._folder, self._writer = SummaryWriter, folder, None

    def write(self, record: Mapping[str, float]) -> None:
        """Add the scalars; the first call hides those of the same step or later."""
        step = int(record["step"])
        if self._writer is None:
            self._writer = self._open(str(self._folder), purge_step=step)
        for name, value in record.items():
            if name != "step":
                self._writer.add_scalar(f"train/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A Weights & Biases run; the run's id is kept in ``wandb_id`` so that a resumed run goes on with it.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]):
        try:
            import wandb
        except ImportError:
            raise missing_extra("wandb", "wandb") from None
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "wandb_id"
        if not kept.exists():
            kept.write_text(secrets.token_hex(8))
        self._run = wandb.init(
            project=project, dir=str(folder), name=folder.name, id=kept.read_text(), resume="allow", config=dict(config)
        )

    def write(self, record: Mapping[str, float]) -> None:
        """Log the numbers."""
        values = {name: value for name, value in record.items() if name != "step"}
        self._run.log(values, step=int(record["step"]))

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def make_writers(folder: Path, *, tensorboard: bool, wandb: str, config: Mapping[str, Any]) -> list[Writer]:
    """The writers of a run folder: ``metrics.jsonl``, ``tensorboard/`` and, for a project's name, Weights & Biases."""
    writers: list[Writer] = [JsonLines(folder / "metrics.jsonl")]
    if tensorboard:
        writers.append(TensorBoard(folder / "tensorboard"))
    if wandb:
        writers.append(WeightsAndBiases(folder, wandb, config))
    return writers
