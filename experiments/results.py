"""A table across runs: the keys in which their configs differ, and what each run measured."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from seqdiff.core.errors import InputError
from seqdiff.request.views.comparison import flat

FIGURES = ("designs", "satisfied", "acceptance", "seconds")
"""Numbers of ``run.json`` that are shown beside its ``metrics``."""
_NOT_KEYS = ("out", "set")


def collect(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """A row per run: the keys that vary over the runs, its figures, its name.

    Raises:
        InputError: a folder holds no finished run, or its files cannot be read.
    """
    runs = [(folder.name, *_read(folder)) for folder in folders]
    keys = list(dict.fromkeys(key for _, config, _ in runs for key in config))
    differ = [key for key in keys if len({str(config.get(key)) for _, config, _ in runs}) > 1]
    return [{key: config.get(key, "") for key in differ} | figures | {"run": name} for name, config, figures in runs]


def merge_designs(folders: Sequence[Path], out: Path) -> int:
    """One table of the designs of many runs, with the run's name in front; returns the number of rows."""
    rows: list[dict[str, str]] = []
    for folder in folders:
        if (folder / "designs.csv").is_file():
            with open(folder / "designs.csv", newline="") as file:
                rows += [{"run": folder.name} | row for row in csv.DictReader(file)]
    if rows:
        _write(rows, out)
    return len(rows)


def show_results(folders: Sequence[Path], out: Path | None = None) -> None:
    """Print the table and, where ``out`` is given, write it there and the designs of all runs beside it."""
    rows, console = collect(folders), Console()
    if not rows:
        console.print("no finished runs")
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns, header_style="bold", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_short(row.get(column, "")) for column in columns))
    console.print(table)
    if out is not None:
        _write(rows, out)
        merged = merge_designs(folders, out.parent / "designs.csv")
        words = f", and {merged:,} designs to {out.parent / 'designs.csv'}" if merged else ""
        console.print(f"table written to {out}{words}", highlight=False, soft_wrap=True)


def report(paths: Sequence[Path], *, out: str = "", reference: str = "") -> None:
    """What ``seqdiff report`` does: a table of the runs, and a page about those that hold designs.

    Args:
        paths: folders of runs, or folders that hold such.
        out: the page; by default ``report.html`` in the run's folder, or in the folder that all runs lie in.
        reference: FASTA of known sequences to compare with; empty for none.

    Raises:
        InputError: a path holds no finished run, or a file is damaged.
    """
    from seqdiff.request.report import build_report

    folders = [folder for path in paths for folder in _runs(path)]
    if not folders:
        raise InputError("name one or more folders of runs: seqdiff report RUN ...")
    show_results(folders)
    designed = [folder for folder in folders if (folder / "designs.json").is_file()]
    if not designed:
        if out or reference:
            raise InputError("no folder holds designs, so there is no page to write; leave out= and reference= away")
        return
    home = designed[0] if len(designed) == 1 else Path(os.path.commonpath([path.resolve() for path in designed]))
    page = Path(out) if out else home / "report.html"
    with Console(stderr=True).status(f"writing {page}"):
        build_report(designed, page, Path(reference) if reference else None)
    Console().print(f"page written to {page}", highlight=False, soft_wrap=True)


def _runs(path: Path) -> list[Path]:
    """The folder, if it is a run's, or the runs in it."""
    if (path / "run.json").is_file():
        return [path]
    found = sorted(child.parent for child in path.glob("*/run.json"))
    if not found:
        raise InputError(f"{path} holds no finished run: there is no run.json in it or in a folder of it")
    return found


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was set, with dotted keys, and the figures; of a job of a sweep, what distinguishes it from the others."""
    try:
        facts = json.loads((folder / "run.json").read_text())
        path = folder / "config.yaml"
        config = yaml.safe_load(path.read_text()) if path.is_file() else {}
    except OSError:
        raise InputError(f"{folder} holds no finished run: it has no run.json") from None
    except (ValueError, yaml.YAMLError):
        raise InputError(f"{folder}: run.json or config.yaml is damaged") from None
    figures = {name: facts[name] for name in FIGURES if name in facts} | facts.get("metrics", {})
    if "varied" in facts:
        return facts["varied"], figures
    keys = flat(config or {}) | ({"seed": facts["seed"]} if "seed" in facts else {})
    return {key: value for key, value in keys.items() if key.split(".")[0] not in _NOT_KEYS}, figures


def _write(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
