"""The output folder of a run: written whole beside its place, then moved there, so that it is never half there."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.fasta import write_fasta
from seqdiff.request.designs import Designs
from seqdiff.request.report import page


def claim(folder: Path) -> Path:
    """Refuse a folder that holds something, before any work is done.

    Raises:
        InputError: the folder is not empty, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"out={folder} exists and is not an empty folder; name another with out=DIR")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out={folder} cannot be made: {error.strerror}") from None
    return folder


def free_name(folder: Path) -> Path:
    """``folder``, or the first of ``folder-2``, ``folder-3``, ... that does not exist."""
    name, n = folder, 1
    while name.exists():
        n += 1
        name = folder.with_name(f"{folder.name}-{n}")
    return name


def write(designs: Designs, folder: Path, beside: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write ``designs.fasta`` or the domain's own files, ``designs_dna.fasta`` where DNA was asked for,
    ``designs.csv``, ``designs.json``, ``spec.yaml``, ``run.json``, ``report.html`` and, of a design for a structure,
    its file; and the texts of ``beside`` under their names.
    """
    claim(folder)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        designs.spec.setting.write(staging, [design.id for design in designs], designs.sequences)
        if designs.spec.setting.sequential:
            write_fasta(staging / "designs.fasta", designs.records())
        if designs.spec.dna is not None:
            write_fasta(staging / "designs_dna.fasta", designs.coding_records())
        (staging / "designs.csv").write_text(designs.to_csv())
        (staging / "designs.json").write_text(designs.to_json() + "\n")
        spec = designs.spec
        if spec.structure is not None:
            kept = Path(shutil.copyfile(spec.structure.file, staging / spec.structure.file.name))
            spec = replace(spec, structure=replace(spec.structure, file=Path(kept.name)))
        (staging / "spec.yaml").write_text(spec.to_yaml())
        facts = designs.run | {"designs": len(designs), "satisfied": designs.satisfied}
        facts |= {"acceptance": designs.acceptance, "stopped": designs.stopped}
        (staging / "run.json").write_text(json.dumps(facts, indent=2) + "\n")
        for name, text in beside.items():
            (staging / name).write_text(text)
        (staging / "report.html").write_text(page(designs))
        if folder.exists():
            folder.rmdir()
        staging.chmod(0o755)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
