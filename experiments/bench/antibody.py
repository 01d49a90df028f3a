"""Constrained antibody design with AntiBERTy, against rejection from the same network.

    python -m seqdiff.experiments.bench.antibody [n=128] [scored=32] [batch=16] [out=FILE.json]

The heavy chain of trastuzumab with three stretches of 33 positions designed, random order, 11 denoiser calls of three
positions each, temperature 1. Two panels of rules: a short one that a third of free designs passes, and a full one that
none passes. Free designs, designs under each panel and rejection (free designs that pass) come from one process, equal
in network, steps and seed.

``scored`` designs of each kind are scored by pseudo-log-likelihood: each designed position masked in turn, everything
else in sight, nats per designed position. ``out`` is written after every kind. Errors are standard errors over designs;
that of the identity, a mean over pairs, is a grouped jackknife.

:func:`options` and :func:`timed` serve the other benchmarks of published models too.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from rich.console import Console
from rich.table import Table

from seqdiff.constraints.base import Constraint
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, SeqdiffError, unknown_key
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.bench.quality import jackknife, mean_and_error
from seqdiff.experiments.settings import run_main
from seqdiff.process.readout import ask, hide_places
from seqdiff.request.designs import Designs
from seqdiff.request.problem import Problem, prepare
from seqdiff.request.run import load, run
from seqdiff.request.spec import DesignSpec

PARENT = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
    "SRWGGDGFYAMDYWGQGTLVTVSS"
)
STRETCHES = ("DTYIH", "RIYPTNGYTRYADSVKG", "WGGDGFYAMDY")
CALLS = 11
SPANS = tuple((PARENT.index(stretch) + 1, PARENT.index(stretch) + len(stretch)) for stretch in STRETCHES)
DESIGNED = ",".join(f"{first}-{last}" for first, last in SPANS)
PLACES = np.concatenate([np.arange(first - 1, last) for first, last in SPANS])
Row = dict[str, Any]


def touching(regex: str) -> list[Row]:
    """No match of a pattern of two letters with at least one of them designed."""
    return [{"pattern": {"regex": regex, "exactly": 0, "region": f"{first - 1}-{last + 1}"}} for first, last in SPANS]


SHORT: list[Row] = [
    {"forbid": {"positions": DESIGNED, "letters": "C"}},
    {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    {"charge": {"min": 0, "max": 3}},
]
FULL: list[Row] = [
    *SHORT,
    {"forbid": {"positions": DESIGNED, "letters": "MW"}},
    *touching("N[GST]|D[GS]"),
    *touching("[KR][KR]"),
    {"run": {"max": 3}},
    {"mutations": {"max": 10}},
]
PANELS: dict[str, list[Row]] = {"none": [], "short": SHORT, "full": FULL}


@dataclass(frozen=True)
class Timed:
    """Designs and the time that they took.

    Attributes:
        designs: what came out.
        first: seconds until the first batch was there, compilation included.
        batch: median seconds of the batches after it; nan if there was one only.
        core: median processor seconds of the same batches, or of the first if there was one only.
    """

    designs: Designs
    first: float
    batch: float
    core: float


def timed(problem: Problem, model: Denoiser) -> Timed:
    """Run a problem with a stopwatch on its batches; the independent check of each design is part of the time."""
    ticks: list[tuple[float, float]] = []

    def progress(stage: str, done: int) -> None:
        if stage in ("compiling the sampler", "sampling"):
            ticks.append((time.perf_counter(), time.process_time()))

    designs = run(problem, model, progress)
    if designs.stopped:
        raise SeqdiffError(designs.stopped)
    gaps = np.diff(np.array(ticks), axis=0)
    later = np.median(gaps[1:], axis=0) if len(gaps) > 1 else np.array([np.nan, gaps[0, 1]])
    return Timed(designs, float(gaps[0, 0]), float(later[0]), float(later[1]))


def options(words: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """``key=value`` words over their defaults.

    Raises:
        InputError: a word is no ``key=value`` or its key is unknown.
    """
    values = dict(defaults)
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or key not in values:
            raise unknown_key("option", word, [f"{key}=" for key in values])
        values[key] = value
    return values


def whole(values: Mapping[str, str], key: str) -> int:
    """An option that is a whole number of at least 1."""
    if not values[key].isdigit() or int(values[key]) < 1:
        raise InputError(f"{key}={values[key]}: write a whole number of at least 1, such as {key}=16")
    return int(values[key])


def problem(panel: Sequence[Row], n: int, batch: int) -> Problem:
    """The design task under a panel of rules."""
    last = 0
    keep = []
    for first, end in SPANS:
        keep.append(f"{last + 1}-{first - 1}")
        last = end
    keep.append(f"{last + 1}-{len(PARENT)}")
    sampling = {"planner": "random", "steps": CALLS, "temperature": 1.0, "batch": batch}
    spec = {"model": "antiberty", "parent": PARENT, "keep": ",".join(keep), "n": n, "seed": 0}
    return prepare(DesignSpec.from_mapping({**spec, "constraints": list(panel), "sampling": sampling}))


def constraints(panel: Sequence[Row]) -> tuple[Constraint, ...]:
    """The rules of a panel, for checking texts."""
    return problem(panel, 1, 1).spec.constraints


def passes(texts: Sequence[str], rules: Sequence[Constraint]) -> np.ndarray:
    """Which texts obey all rules, by the independent check."""
    return np.array([all(rule.holds(text).ok for rule in rules) for text in texts])


def mean_identity(tokens: Int[np.ndarray, "n L"]) -> float:
    """Mean share of equal positions over pairs of different rows."""
    n = len(tokens)
    same = sum((row[None, :] == tokens).sum() for row in tokens) - tokens.size
    return float(same / (n * (n - 1) * tokens.shape[1]))


def pseudo_scores(denoiser: Denoiser, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
    """Mean over the designed positions of the log-probability of the letter given all others, in nats."""
    sequences = [PROTEIN.encode(text) for text in texts]
    owner, places = np.repeat(np.arange(len(texts)), len(PLACES)), np.tile(PLACES, len(texts))[:, None]
    letters = np.stack(sequences)[owner, places[:, 0]]
    total = np.zeros(len(texts))
    for questions, log_p in ask(denoiser, sequences, owner, places, hide_places(places), mask=PROTEIN.mask):
        np.add.at(total, owner[questions], log_p[np.arange(len(questions)), 0, letters[questions]])
    return total / len(PLACES)


def likelihood(denoiser: Denoiser, texts: Sequence[str], scored: int) -> Row:
    """Pseudo-log-likelihood of the designed positions of the first texts."""
    score, error = mean_and_error(pseudo_scores(denoiser, texts[:scored]))
    return {"scored": min(scored, len(texts)), "pll": score, "pll_error": error}


def diversity(texts: Sequence[str]) -> Row:
    """How far the designed positions are from one another and from the parent."""
    tokens = np.stack([PROTEIN.encode(text) for text in texts])[:, PLACES]
    return {
        "unique": len(set(texts)) / len(texts),
        "identity": mean_identity(tokens),
        "identity_error": jackknife(mean_identity, tokens),
        "parent": float((tokens == PROTEIN.encode(PARENT)[PLACES][None, :]).mean()),
    }


def measure(n: int, scored: int, batch: int, out: str) -> list[Row]:
    """A row for the free designs and two for each panel: accepted free designs and ours."""
    denoiser = load("antiberty")
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr, flush=True)
        if out:
            Path(out).write_text(json.dumps(rows, indent=1) + "\n")

    free = timed(problem([], n, batch), denoiser)
    texts = free.designs.sequences
    each = free.batch / batch
    spent = {"seconds": each, "first": free.first}
    add({"panel": "none", "way": "free", "satisfied": n, **spent, **diversity(texts)})
    for name in ("short", "full"):
        rules = constraints(PANELS[name])
        accepted = [text for text, ok in zip(texts, passes(texts, rules), strict=True) if ok]
        row = {"panel": name, "way": "rejection", "satisfied": len(accepted)}
        row["seconds"] = each * n / len(accepted) if accepted else float("inf")
        add(row | (likelihood(denoiser, accepted, scored) | diversity(accepted) if len(accepted) > 1 else {}))
        ours = timed(problem(PANELS[name], n, batch), denoiser)
        found = ours.designs.sequences
        spent = {"seconds": ours.batch / batch, "first": ours.first, "states": ours.designs.run["states"]}
        row = {"panel": name, "way": "ours", "satisfied": int(passes(found, rules).sum()), **spent}
        add(row | likelihood(denoiser, found, scored) | diversity(found))
    add({"panel": "", "way": "parent", "pll": float(pseudo_scores(denoiser, [PARENT])[0])})
    return rows


def report(rows: Sequence[Row], n: int) -> Table:
    """The rows as a table."""
    table = Table(
        *("panel", "way", f"satisfied of {n}", "s per valid design", "nats per designed position", "unique"),
        *("mean identity", "parent's letter"),
        box=None,
    )
    for row in rows:
        pair = {
            key: f"{row[key]:.3f} +- {row[f'{key}_error']:.3f}" for key in ("pll", "identity") if f"{key}_error" in row
        }
        table.add_row(
            row["panel"],
            row["way"],
            str(row.get("satisfied", "")),
            f"{row['seconds']:.2f}" if "seconds" in row else "",
            pair.get("pll", f"{row['pll']:.3f}" if "pll" in row else ""),
            f"{row['unique']:.2f}" if "unique" in row else "",
            pair.get("identity", ""),
            f"{row['parent']:.2f}" if "parent" in row else "",
        )
    return table


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    values = options(words, {"n": "128", "scored": "32", "batch": "16", "out": ""})
    n, scored, batch = (whole(values, key) for key in ("n", "scored", "batch"))
    if n % batch or n == batch:
        raise InputError(f"n={n} and batch={batch}: write n as twice the batch or another larger multiple of it")
    Console().print(report(measure(n, scored, batch, values["out"]), n))


if __name__ == "__main__":
    run_main(main)
