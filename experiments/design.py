"""``seqdiff design``: one spec into one folder, alone or as a row of a campaign.

A row is written whole or not at all, and a finished one is left alone, so that running a campaign again goes on where
it ended. What an interruption leaves of a row goes into ``stopped`` beside it.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from seqdiff.core.errors import InputError, SeqdiffError
from seqdiff.experiments.record import provenance
from seqdiff.request import output
from seqdiff.request.overrides import overlay
from seqdiff.request.problem import prepare
from seqdiff.request.run import run
from seqdiff.request.spec import DesignSpec, read_mapping
from seqdiff.request.tables import show_designs

SHIPPED = Path(__file__).parent / "specs"


def read_spec(path: Path | None, groups: Mapping[str, Any], own: Mapping[str, Any]) -> DesignSpec:
    """The spec of a file, with the keys of the chosen groups and then the user's own laid over it.

    Args:
        path: of the file, or the name of a shipped spec; None where the keys say everything.
        groups: keys that the groups and the experiment set.
        own: keys of the command line.

    Raises:
        InputError: no such file, or a key or value that cannot be used; names the file.
    """
    if path is not None and not path.exists() and not path.suffix and (SHIPPED / f"{path}.yaml").exists():
        path = SHIPPED / f"{path}.yaml"
    mapping = {} if path is None else read_mapping(path)
    for keys in (groups, own):
        mapping = overlay(mapping, keys)
    if path is None and not mapping:
        raise InputError("name a spec, an experiment or keys: seqdiff design SPEC.yaml, or length=60 n=4")
    try:
        return DesignSpec.from_mapping(mapping, folder=path.parent if path else Path())
    except InputError as error:
        raise InputError(f"{path}: {error}" if path else str(error)) from None


def design_into(spec: DesignSpec, folder: Path, *, config: Mapping[str, Any], row: bool = False) -> None:
    """Design and write, with progress on the terminal.

    Args:
        spec: what to design.
        folder: where to.
        config: what groups and command line said, for the record.
        row: whether it is a row of a campaign, which is skipped where it is finished.

    Raises:
        SeqdiffError: it stopped early (what is done is on disk), or a design fails the independent check.
        KeyboardInterrupt: the user interrupted; what is done is on disk.
    """
    console = Console(stderr=True)
    if row and _finished(spec, folder):
        console.print(f"{folder.name}: finished before", highlight=False)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("compiling the constraints", total=spec.n)
        problem = prepare(spec)
        designs = run(problem, progress=lambda stage, done: bar.update(task, description=stage, completed=done))
    designs = replace(designs, run=designs.run | provenance())
    if row and designs.stopped:
        folder = output.free_name(folder.parent / "stopped" / folder.name)
    output.write(designs, folder, {"config.yaml": yaml.safe_dump(dict(config), sort_keys=False)})
    if row:
        console.print(f"{folder.name}: {designs.satisfied} of {len(designs)} satisfy every constraint", highlight=False)
    else:
        show_designs(Console(), designs, problem, folder)
    if designs.stopped:
        words = f"{len(designs)} of {spec.n} designs were finished and written to {folder}: {designs.stopped}"
        raise KeyboardInterrupt(words) if designs.stopped == "interrupted" else SeqdiffError(words)
    if uncoded := [design for design in designs if design.no_coding]:
        first = uncoded[0]
        raise InputError(
            f"{len(uncoded)} of {len(designs)} designs were written without DNA; {first.id}: {first.no_coding}"
        )
    if designs.satisfied < len(designs):
        raise SeqdiffError(f"{len(designs) - designs.satisfied} designs fail the independent check; please report this")


def _finished(spec: DesignSpec, folder: Path) -> bool:
    """Whether the row is there.

    Raises:
        InputError: what is there answers another spec, or is something else.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return False
    try:
        facts = json.loads((folder / "run.json").read_text())
        same = (folder / "spec.yaml").read_text() == spec.to_yaml() or spec.structure is not None
    except (OSError, ValueError):
        raise InputError(f"{folder} is not a finished row; move it away") from None
    if not same or facts.get("seed") != spec.seed:
        raise InputError(f"{folder} holds designs of another spec; take another out=DIR, or move it away")
    return True
