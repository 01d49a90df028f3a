"""Commands that are Hydra programs: their words become overrides, their mistakes one line, their sweeps one table.

``seqdiff design zinc_finger.yaml n=64 planner=confidence`` is read as follows. A group of the command's config
(``planner``) chooses one of its options. Any other key of a command whose keys are open (``design``, ``bench``) goes
below ``set``, where it wins over the spec and over what the groups say; so a key may be called like a group. ``train``,
``finetune`` and ``evaluate`` have structured schemas and take their keys as they are.

With ``-m`` every combination is a job with a folder of its own below ``out``, named by the values that vary. A job
that fails leaves a note in ``out/failed`` and the others go on; one that is finished is skipped when the sweep is run
again.
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from hydra import main as hydra_main
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from seqdiff.core.cache import use_compilation_cache
from seqdiff.core.errors import InputError, SeqdiffError, unknown_key
from seqdiff.experiments import schema
from seqdiff.experiments.design import SHIPPED
from seqdiff.experiments.jobs import JOBS
from seqdiff.experiments.record import add_facts
from seqdiff.training.interrupt import TrainingInterrupted

OPEN = {"design": ("spec", "out"), "bench": ("out",)}
"""Commands whose other keys go below ``set``, with the keys of their own."""
_FLAGS_WITH_VALUE = ("-c", "--cfg", "-p", "--package", "-cd", "--config-dir", "-i", "--info")
_FLAGS = ("-m", "--multirun", "-h", "--help", "--hydra-help", "--resolve", "-r", "--run", *_FLAGS_WITH_VALUE)
_SWEEP = ("-m", "--multirun")
_LOOK = ("-c", "--cfg", "-i", "--info", "-h", "--help", "--hydra-help")


def run(command: str, words: Sequence[str]) -> int:
    """Run a command and return the exit code.

    Raises:
        InputError: a word or the composed config cannot be used.
        SeqdiffError: the job broke down, or jobs of a sweep failed.
    """
    schema.register()
    overrides = translate(command, words)
    failures: list[SeqdiffError] = []

    def job(config: DictConfig) -> None:
        use_compilation_cache()
        hydra = HydraConfig.get()
        folder = Path(hydra.sweep.dir) / _folder(hydra.job.override_dirname) if hydra.mode == RunMode.MULTIRUN else None
        note = None if folder is None else folder.parent / "failed" / f"{folder.name}.txt"
        try:
            with _one_line(command):
                JOBS[command](config, folder)
        except TrainingInterrupted as stop:
            raise KeyboardInterrupt(str(stop)) from None
        except SeqdiffError as error:
            if note is None:
                failures.append(error)
                return
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(f"{error}\n")
            print(f"{note.stem}: {error}", file=sys.stderr)
        else:
            if folder is not None and note is not None:
                note.unlink(missing_ok=True)
                add_facts(folder, varied=_varied(hydra))

    with _argv(f"seqdiff {command}", overrides), _one_line(command), _own_groups(command, words):
        hydra_main(version_base=None, config_path="pkg://seqdiff.experiments.conf", config_name=command)(job)()
    if failures:
        raise failures[0]
    if set(_SWEEP) & set(words) and not set(_LOOK) & set(words):
        _summarise(overrides)
    return 0


def _varied(hydra: Any) -> dict[str, str]:
    """What distinguishes the job from the others of its sweep."""
    fixed = hydra.job.config.override_dirname.exclude_keys
    found = (word.split("=", 1) for word in hydra.overrides.task if _parse(word).key_or_group not in fixed)
    values = {re.sub(r"^\+\+(set\.)?", "", key): value.strip("'") for key, value in found}
    return values | ({"spec": Path(values["spec"]).stem} if "spec" in values else {})


def _summarise(overrides: Sequence[str]) -> None:
    """The table of a sweep's runs, and its failures."""
    from seqdiff.experiments.results import show_results

    out = Path(next(word for word in reversed(overrides) if word.startswith("out=")).removeprefix("out=").strip("'"))
    show_results(sorted(path for path in out.iterdir() if (path / "run.json").is_file()), out / "results.csv")
    failed = sorted((out / "failed").glob("*.txt"))
    if failed:
        raise SeqdiffError(f"{len(failed)} job(s) failed; {failed[0].stem}: {failed[0].read_text().strip()}")


def translate(command: str, words: Sequence[str]) -> list[str]:
    """The words of a command line as arguments for Hydra.

    Raises:
        InputError: a word is neither a flag nor an override, or asks for several values without ``-m``.
    """
    flags, bare, given = _split(words)
    sweep = bool(set(_SWEEP) & set(flags))
    if bare and command == "design":
        if wrong := next((word for word in bare if not _is_spec(word)), None):
            raise _no_override(wrong)
        given = [f"spec={_choice(bare)}", *given]
    elif bare and command == "bench":
        given = [f"bench={bare[0]}", *([f"words=[{_choice(bare[1:])}]"] if bare[1:] else []), *given]
    elif bare:
        raise _no_override(bare[0])
    if sweep and not any(word.startswith("out=") for word in given):
        given = [*given, f"out=outputs/{Path(bare[0]).stem if bare else command}-sweep"]
    arguments, fixed = [], []
    for word in given:
        override = _parse(word)
        several = override.is_sweep_override()
        if several and not sweep:
            if command != "bench" or "(" in word:
                raise InputError(f"{word!r} asks for several values; give one, or try each with -m")
            override = _parse("{}='{}'".format(*word.split("=", 1)))
        argument = _place(command, override)
        arguments.append(argument)
        if not several:
            fixed.append(_parse(argument).key_or_group)
    if sweep:
        _check_names(given)
        arguments.append(f"hydra.job.config.override_dirname.exclude_keys={[*fixed]}")
    return [*flags, *arguments]


def _split(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Flags with their values, words that stand alone, and overrides."""
    flags, bare, given = [], [], []
    rest = iter(words)
    for word in rest:
        if word.startswith("-"):
            if word not in _FLAGS:
                raise InputError(f"unknown option {word}; see --help")
            flags.append(word)
            if word in _FLAGS_WITH_VALUE:
                flags.append(next(rest, "job"))
        elif "=" in word or word.startswith("~"):
            given.append(word)
        else:
            bare.append(word)
    return flags, bare, given


def _place(command: str, override: Override) -> str:
    """An override as it stands in the command's config."""
    key, text = override.key_or_group, str(override.input_line)
    value = text.split("=", 1)[1] if "=" in text else ""
    options = _groups(command).get(key)
    if options is not None and not override.is_delete():
        if isinstance(override.value(), dict | list):
            return f"++set.{key}={value}"
        chosen = override.value().list if override.is_choice_sweep() else [override.value()]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        for option in chosen:
            name = getattr(option, "text", option)
            if isinstance(name, str) and name not in options:
                raise unknown_key(f"{key} option", name, options)
        return text
    if key.startswith(("hydra.", "hydra/")):
        return text
    if command in OPEN and key not in OPEN[command]:
        return f"++set.{key}={'null' if override.is_delete() else value}"
    shared = key in _all_groups() and key not in _groups(command)
    return f"++set.{key}={value}" if shared else text


def _groups(command: str) -> dict[str, set[str]]:
    """Options of each group that the command's config names."""
    text = files("seqdiff.experiments.conf").joinpath(f"{command}.yaml").read_text(encoding="utf-8")
    named = [next(iter(item)) for item in yaml.safe_load(text)["defaults"] if isinstance(item, dict)]
    return {name: found for name, found in _all_groups().items() if name in named}


def _all_groups() -> dict[str, set[str]]:
    """Options of every group: the files of the config folder and what the registries hold."""
    found = {name: set(options) for name, options in schema.OPTIONS.items()}
    for folder in files("seqdiff.experiments.conf").iterdir():
        if folder.is_dir() and not folder.name.startswith("_"):
            stems = {item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")}
            found[folder.name] = found.get(folder.name, set()) | stems
    return found


def _parse(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        raise _no_override(word) from None


def _no_override(word: str) -> InputError:
    return InputError(f"{word!r} is not an override; write key=value, such as n=64 or sampling.steps=16")


def _is_spec(word: str) -> bool:
    return word.endswith((".yaml", ".yml")) or Path(word).exists() or (SHIPPED / f"{word}.yaml").exists()


def _choice(paths: Sequence[str]) -> str:
    return ",".join("'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'" for path in paths)


def _check_names(given: Sequence[str]) -> None:
    """Refuse specs whose folders would be called alike."""
    specs = [path for word in given if word.startswith("spec=") for path in re.split(r"','|,", word[5:].strip("'"))]
    stems = [Path(path).stem for path in specs]
    if twice := next((stem for stem in stems if stems.count(stem) > 1), None):
        raise InputError(f"two specs are called {twice}; their designs would share a folder, so rename one")


def _folder(dirname: str) -> str:
    """The name of a job's folder: the values that vary, without what they are stored under."""
    name = re.sub(r"\+\+(set\.)?", "", dirname).replace("'", "")
    name = re.sub(r"spec=(?:[^,]*/)?([^/,]+?)\.ya?ml(?=,|$)", r"\1", name)
    return re.sub(r"[/\\\s]+", "-", name) or "run"


@contextmanager
def _argv(program: str, arguments: Sequence[str]):
    """Hydra reads its arguments from ``sys.argv`` and, with this variable, lets errors through."""
    before, shown = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = [program, *arguments], "1"
    try:
        yield
    finally:
        sys.argv = before
        if shown is None:
            del os.environ["HYDRA_FULL_ERROR"]


@contextmanager
def _own_groups(command: str, words: Sequence[str]):
    """With ``--help``, leave out the groups that belong to other commands."""
    if not {"-h", "--help"} & set(words):
        yield
        return
    others = tuple(f"{name}: " for name in _all_groups().keys() - _groups(command).keys())
    try:
        with redirect_stdout(io.StringIO()) as text:
            yield
    finally:
        print("\n".join(line for line in text.getvalue().rstrip().splitlines() if not line.startswith(others)))


@contextmanager
def _one_line(command: str):
    """Errors of Hydra and OmegaConf as one line that names the nearest key."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise _explain(command, f"{error}\n{cause}") from None


def _explain(command: str, text: str) -> InputError:
    if match := re.search(r"Key '(\w+)' (?:is )?not in '(\w+)'", text):
        key, owner = match.groups()
        fields = getattr(getattr(schema, owner, None), "__dataclass_fields__", {})
        return unknown_key("key", key, [name for name in fields if name != "set"])
    if match := re.search(r"[Mm]issing mandatory value: \w+\n\s*full_key: (\S+)", text):
        return InputError(f"{command}: {match[1]} is missing; write {match[1]}=...")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    place = next((f" ({line.split(':', 1)[1].strip()})" for line in lines if line.startswith("full_key:")), "")
    said = next(
        (line for line in reversed(lines) if not re.match(r"(full_key|object_type|reference_type)\b", line)), ""
    )
    return InputError(f"{command}: {said}{place}")
