"""Every example spec: compiled, sampled and checked, against rejection from the same model.

    python -m seqdiff.experiments.bench.specs n=100 out=specs.csv

For each spec of ``experiments/specs`` this draws ``n`` designs with the random planner, once with the constraints and
once without any, with equal numbers of denoiser calls, in one process. It reports whether every design passes the
independent check, what the constraints cost (median time of a batch over that of one without constraints), which share
of the unconstrained designs passes by chance, and seconds per valid design for both ways. Where no unconstrained design
passes, the share is the mean evidence under the model's first proposal: an upper bound for the solver's specs.
"""

import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from seqdiff.constraints.program import compile_constraints
from seqdiff.core.errors import unknown_key
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.models.store import load_model
from seqdiff.request.problem import Problem, prepare
from seqdiff.request.spec import DesignSpec, Sampling, read_mapping
from seqdiff.sampling.batches import sample_batches
from seqdiff.sampling.planners import Random

COLUMNS = (
    *("spec", "guarantee", "states", "compile s", "satisfied", "cost ratio", "s per design"),
    *("passes by chance", "counted", "s per valid by rejection"),
)


def measure(path: Path, n: int, steps: int, batch: int) -> dict[str, Any]:
    """One row of the table."""
    spec = DesignSpec.from_mapping(read_mapping(path), folder=path.parent)
    spec = replace(spec, n=n, sampling=Sampling(planner=Random(), steps=steps, batch=batch), dna=None)
    started = time.perf_counter()
    problem = prepare(spec)
    compiled = time.perf_counter() - started
    free = replace(problem, compiled=compile_constraints((), spec.layout(problem.alphabet)))
    ours, seconds, evidence = _draw(problem)
    others, plain, _ = _draw(free)
    constraints = spec.all_constraints()
    passed = sum(all(constraint.holds(text).ok for constraint in constraints) for text in others)
    share = passed / n if passed else float(np.exp(evidence).mean())
    return {
        "spec": path.stem,
        "guarantee": problem.compiled.guarantee,
        "states": problem.compiled.states,
        "compile s": round(compiled, 2),
        "satisfied": sum(all(constraint.holds(text).ok for constraint in constraints) for text in ours),
        "cost ratio": round(seconds / plain, 2),
        "s per design": round(seconds / batch, 3),
        "passes by chance": f"{share:.2g}",
        "counted": bool(passed),
        "s per valid by rejection": f"{plain / batch / share:.2g}" if share else "inf",
    }


def _draw(problem: Problem) -> tuple[list[str], float, np.ndarray]:
    """Designs, the median seconds of a batch after the first, and the evidence under the first proposals."""
    spec = problem.spec
    denoiser, program = load_model(spec.model, problem.alphabet), problem.compiled.program(problem.size)
    texts, evidence, seconds, started = [], [], [], time.perf_counter()
    batches = sample_batches(denoiser, program, problem.plan(), seed=0, rows=spec.n, batch=spec.sampling.batch)
    for _, samples in batches:
        seconds.append(time.perf_counter() - started)
        texts += [problem.alphabet.decode(t for t in row if t < problem.alphabet.mask) for row in samples.tokens]
        evidence += samples.log_evidence.tolist()
        started = time.perf_counter()
    return texts, float(np.median(seconds[1:] or seconds)), np.array(evidence)


class Settings(NamedTuple):
    """What to measure.

    Attributes:
        n: designs per spec.
        steps: denoiser calls per design.
        batch: designs side by side.
        out: table to write (.csv); empty for none.
    """

    n: int = 100
    steps: int = 16
    batch: int = 20
    out: str = ""


def main(words: Sequence[str]) -> list[dict[str, Any]]:
    """Measure the specs named by words without ``=``, all by default."""
    names = [word for word in words if "=" not in word]
    settings = read_settings(Settings(), [word for word in words if "=" in word])
    folder = Path(str(files("seqdiff.experiments").joinpath("specs")))
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    for name in names:
        if name not in known:
            raise unknown_key("spec", name, known)
    rows = []
    for name in names or known:
        rows.append(measure(folder / f"{name}.yaml", settings.n, settings.steps, settings.batch))
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    table = Table(*COLUMNS, box=None)
    for row in rows:
        table.add_row(*(str(row[column]) for column in COLUMNS))
    Console().print(table)
    if settings.out:
        with open(settings.out, "w", newline="") as handle:
            writer = csv.DictWriter(handle, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    return rows


if __name__ == "__main__":
    run_main(main)
