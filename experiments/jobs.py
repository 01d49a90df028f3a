"""What each command does with its composed config: thin steps from a config to a library call."""

import io
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from seqdiff.core.errors import InputError
from seqdiff.experiments.bench import PROGRAMS
from seqdiff.experiments.record import add_facts, write_record

Job = Callable[[DictConfig, Path | None], None]


def design(config: DictConfig, folder: Path | None) -> None:
    """A spec file with what the groups and the command line say, designed into ``folder`` or ``out``."""
    from seqdiff.experiments.design import design_into, read_spec
    from seqdiff.request.output import claim, free_name

    keys, own = _open(config)
    given, out = str(keys.pop("spec")), str(keys.pop("out"))
    path = Path(given) if given else None
    spec = read_spec(path, keys, own)
    row = folder is not None
    if folder is None:
        folder = claim(Path(out)) if out else free_name(Path("outputs") / (path.stem if path else spec.domain))
    design_into(spec, folder, config={"spec": path.stem if path else ""} | keys | own, row=row)


def train(config: DictConfig, folder: Path | None) -> None:
    """A network from scratch."""
    from seqdiff.experiments.train import train as run

    run(_typed(config, folder))


def finetune(config: DictConfig, folder: Path | None) -> None:
    """A loaded network, further."""
    from seqdiff.experiments.train import finetune as run

    run(_typed(config, folder))


def evaluate(config: DictConfig, folder: Path | None) -> None:
    """Held-out likelihood of a model."""
    from seqdiff.experiments.evaluate import evaluate as run

    run(_typed(config, folder))


def bench(config: DictConfig, folder: Path | None) -> None:
    """One of the benchmark and study programs; what it prints and its rows are kept where ``out`` says."""
    keys, own = _open(config)
    name, words, out = keys.pop("bench", ""), own.pop("words", keys.pop("words", [])), keys.pop("out")
    if name not in PROGRAMS:
        raise InputError(f"name a program: seqdiff bench NAME; known: {', '.join(PROGRAMS)}")
    folder = folder or (Path(out) if out else None)
    if folder is not None and (folder / "run.json").exists():
        print(f"{folder}: finished before", file=sys.stderr)
        return
    program = PROGRAMS[name]
    words = [*map(str, words), *(f"{key}={_word(value)}" for key, value in (keys | own).items())]
    started = time.perf_counter()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        words += [f"out={folder / program.out}"] if program.out else []
    with redirect_stdout(_Tee(sys.stdout)) as tee:
        import_module(program.module).main(words)
    if folder is not None:
        (folder / "output.txt").write_text(tee.kept.getvalue())
        write_record(folder, {"bench": name, "words": words} | keys | own)
        add_facts(folder, seconds=round(time.perf_counter() - started, 2))


JOBS: Mapping[str, Job] = {
    "bench": bench,
    "design": design,
    "evaluate": evaluate,
    "finetune": finetune,
    "train": train,
}
"""Jobs by command."""


def _open(config: DictConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys that groups and experiment set, and the user's own, which replace what an experiment leaves open."""
    keys: Any = OmegaConf.to_container(config, resolve=True)
    own = keys.pop("set")
    if missing := next((key for key, value in keys.items() if value == "???" and key not in own), None):
        raise InputError(f"{missing} is missing; write {missing}=...")
    return {key: value for key, value in keys.items() if value != "???"}, own


def _typed(config: DictConfig, folder: Path | None) -> Any:
    """The config as its dataclass, with the keys that stand below ``set``."""
    own = config.get("set") or {}
    merged = OmegaConf.merge(config, own, {} if folder is None else {"out": str(folder)})
    return OmegaConf.to_object(merged)


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class _Tee(io.TextIOBase):
    """Writes to a stream and keeps what was written."""

    def __init__(self, stream: Any):
        self._stream, self.kept = stream, io.StringIO()

    def write(self, text: str) -> int:
        """Write to both."""
        self.kept.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()
