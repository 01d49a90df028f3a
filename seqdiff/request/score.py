"""``seqdiff score``: likelihood of the sequences of a FASTA file."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model
from seqdiff.process.likelihood import pseudo_log_likelihood, sample_bounds

METHODS = ("bound", "pseudo")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How to score.

    Attributes:
        model: bundled name or folder.
        method: ``bound``: likelihood bound by masking at random; ``pseudo``: every position masked alone.
        samples: masked passes per sequence; read by ``bound`` only.
        seed: of the masks.
        out: CSV file to write; empty for none.
    """

    model: str = "protein-small"
    method: str = "bound"
    samples: int = 16
    seed: int = 0
    out: str = ""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ScoreOptions":
        """Read the options; unknown keys and methods are refused."""
        args = dict(check_keys(mapping, tuple(cls.__dataclass_fields__)))
        if args.get("method", "bound") not in METHODS:
            raise unknown_key("method", args["method"], METHODS)
        for key, low in (("samples", 1), ("seed", 0)):
            if key in args:
                args[key] = whole_number(args[key], key, low=low)
        for key in ("model", "out"):
            args[key] = str(args.get(key, getattr(cls, key)))
        return cls(**args)


def score_file(fasta: Path, options: ScoreOptions) -> list[dict[str, Any]]:
    """Score every record, show a table, write a CSV file if asked.

    Raises:
        InputError: the file or an option cannot be used.
    """
    out = Path(options.out) if options.out else None
    if out and out.exists():
        raise InputError(f"out={out} exists; name another file")
    records = read_fasta(fasta)
    denoiser = load_model(options.model, PROTEIN)
    sequences = [PROTEIN.encode(str(record.seq)) for record in records]
    nats = _nats(denoiser, sequences, options)
    rows = [
        {
            "id": record.id,
            "length": len(sequence),
            "nats": round(float(total), 3),
            "nats_per_residue": round(float(total) / len(sequence), 4),
            "perplexity": round(float(np.exp(total / len(sequence))), 3),
        }
        for record, sequence, total in zip(records, sequences, nats, strict=True)
    ]
    _show(rows, options.method)
    if out:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.write_text(buffer.getvalue())
    return rows


def _nats(denoiser: NetworkDenoiser, sequences: list[np.ndarray], options: ScoreOptions) -> np.ndarray:
    """Nats of each sequence."""
    nats = np.zeros(len(sequences))
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("scoring", total=len(sequences))
        if options.method == "pseudo":
            for i, sequence in enumerate(sequences):
                nats[i] = -pseudo_log_likelihood(denoiser, sequence, mask=PROTEIN.mask)
                bar.advance(task)
            return nats
        parts = sample_bounds(denoiser, sequences, mask=PROTEIN.mask, seed=options.seed, samples=options.samples)
        for chosen, found in parts:
            nats[chosen] = found.bound.mean(axis=1, dtype=np.float64)
            bar.advance(task, len(chosen))
    return nats


def _show(rows: list[dict[str, Any]], method: str) -> None:
    table = Table(*rows[0], header_style="bold", box=None)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console = Console()
    console.print(table)
    meaning = "likelihood bound (NELBO)" if method == "bound" else "negative pseudo-log-likelihood"
    total, residues = sum(row["nats"] for row in rows), sum(row["length"] for row in rows)
    console.print(f"{meaning}: {total / residues:.4f} nats per residue over {len(rows)} sequences", highlight=False)
