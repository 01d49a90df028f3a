"""A finished run read back from its folder, as the :class:`Designs` that it was."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqdiff.constraints.base import Verdict
from seqdiff.core.errors import InputError
from seqdiff.request.designs import Design, Designs
from seqdiff.request.dna import Coding
from seqdiff.request.places import Places
from seqdiff.request.spec import DesignSpec, read_mapping

FILES = ("designs.json", "run.json", "spec.yaml")


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders among ``paths``; a folder that holds run folders, as of a sweep, stands for them.

    Raises:
        InputError: a path is neither.
    """
    found: list[Path] = []
    for path in paths:
        inside = (
            [path]
            if (path / FILES[0]).is_file()
            else sorted((file.parent for file in path.glob(f"*/{FILES[0]}")), key=_counting)
        )
        if not inside:
            why = "no such folder" if not path.is_dir() else f"no {FILES[0]} in it or in a folder of it"
            raise InputError(f"{path} is no run of 'seqdiff design': {why}")
        found += [folder for folder in inside if folder not in found]
    return found


def _counting(folder: Path) -> list[tuple[int, str]]:
    """Key that sorts ``run-9`` before ``run-10``."""
    return [(int(part or -1), text) for text, part in re.findall(r"(\D*)(\d*)", folder.name)]


def read_run(folder: Path) -> Designs:
    """Designs, verdicts and facts of a finished run.

    Raises:
        InputError: a file of the run is missing or damaged, or the spec names a constraint that is not known here.
    """
    document, facts = _json(folder / FILES[0]), _facts(folder / FILES[1])
    try:
        spec = DesignSpec.from_mapping(_plain(read_mapping(folder / FILES[2])), folder=folder)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    path = folder / FILES[0]
    try:
        spec = _named(spec, document.get("residues"))
        coded = _codings(folder) if spec.dna is not None else {}
        designs = tuple(_design(item, coded) for item in document["designs"])
        for design in designs:
            spec.setting.alphabet.encode(design.sequence)
        found = Designs(
            spec=spec,
            constraints=spec.all_constraints(),
            guarantee=str(document["guarantee"]),
            designs=designs,
            run=dict(document.get("run", {})) | facts,
            stopped=str(document.get("stopped", "")),
        )
    except InputError as error:
        raise InputError(f"{path} is damaged ({error}); run the design again") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is damaged ({what}); run the design again") from None
    if any(len(design.verdicts) != len(found.constraints) for design in designs):
        raise InputError(f"{path} and {FILES[2]} speak of different constraints; were they edited?")
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}); run the design again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged (not a mapping); run the design again")
    return found


def _facts(path: Path) -> dict[str, Any]:
    """Versions, timings and devices, of the kinds that reports count on."""
    found = _json(path)
    kinds = {"seconds": int | float, "versions": dict, "devices": list, "constraints": list}
    for key, kind in kinds.items():
        if key in found and not isinstance(found[key], kind):
            raise InputError(f"{path} is damaged ({key}: {found[key]!r}); run the design again")
    return found


def _plain(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Without goals that were functions of Python: the spec has kept their names only, such as ``<brightness>``."""
    goals = [goal for goal in mapping.get("goals") or [] if not (isinstance(goal, str) and goal.startswith("<"))]
    return {key: value for key, value in mapping.items() if key != "goals"} | ({"goals": goals} if goals else {})


def _named(spec: DesignSpec, labels: Sequence[str] | None) -> DesignSpec:
    """The spec with the names of positions that the run had, which an antibody's numbering gave."""
    if not labels or spec.structure is not None:
        return spec
    split = [re.fullmatch(r"([A-Za-z]*)(.*)", str(label)) for label in labels]
    chain, number = zip(*((match[1], match[2]) for match in split if match), strict=True)
    return replace(spec, places=Places(chain, number, source="the parent"))


def _design(item: Mapping[str, Any], coded: Mapping[str, Mapping[str, Verdict]]) -> Design:
    name, sequence = str(item["id"]), str(item["sequence"])
    log_p, order = np.array(item["log_p"], float), np.array(item["order"], int)
    if not len(log_p) == len(order) == len(sequence):
        raise ValueError(f"{name}: sequence, log_p and order have different lengths")
    dna = item.get("coding")
    return Design(
        id=name,
        index=int(item["index"]),
        sequence=sequence,
        log_p=log_p,
        order=order,
        calls=int(item["calls"]),
        log_evidence=float(item["log_evidence"]),
        verdicts=tuple(Verdict(bool(verdict["ok"]), str(verdict["reason"])) for verdict in item["verdicts"]),
        log_normaliser=float(item.get("log_normaliser", 0.0)),
        ess=float(item.get("ess", 1.0)),
        recovery=None if item.get("recovery") is None else float(item["recovery"]),
        goals={str(title): float(value) for title, value in item.get("goals", {}).items()},
        coding=None if dna is None else Coding(sequence, str(dna), math.nan, coded.get(name, {}), ""),
        no_coding=str(item.get("no_coding", "")),
    )


def _codings(folder: Path) -> dict[str, dict[str, Verdict]]:
    """Verdicts on each design's DNA, by the rule's words, from the table that a run writes."""
    path = folder / "designs.csv"
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return {
        row["id"]: {
            key.removeprefix("DNA: "): Verdict(cell.startswith("yes"), cell.partition(": ")[2])
            for key, cell in row.items()
            if key.startswith("DNA: ")
        }
        for row in rows
    }
