"""``seqdiff evaluate``: bound per residue of held-out sequences, by file and mask rate, beside counting baselines."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.experiments.baselines import Trigram, Unigram
from seqdiff.experiments.record import add_facts, write_record
from seqdiff.experiments.schema import EvaluateConfig
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model
from seqdiff.process.likelihood import by_mask_rate, gather_bounds, perplexity, sample_bounds


def evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Evaluate as ``config`` says, print a table and return its figures by file; ``out`` is a folder that keeps them.

    Raises:
        InputError: a file or a value cannot be used.
    """
    for key in ("samples", "tokens_per_batch"):
        if getattr(config, key) < 1:
            raise InputError(f"{key}={getattr(config, key)} must be at least 1")
    if not config.data:
        raise InputError("data is empty; name one FASTA file or more: data=[test.fasta]")
    denoiser = load_model(config.model, PROTEIN)
    held_out = {path: _read(path, config.limit) for path in config.data}
    baselines = []
    if config.train:
        train = _read(config.train, 0)
        baselines = [Unigram(train, len(PROTEIN)), Trigram(train, len(PROTEIN))]
    results = {}
    for path, sequences in held_out.items():
        result = _bounds(denoiser, sequences, path, config)
        for baseline in baselines:
            result[baseline.name] = float(np.exp(sum(map(baseline.nats, sequences)) / sum(map(len, sequences))))
        results[path] = result
    _show(results, [baseline.name for baseline in baselines])
    if config.out:
        out = Path(config.out)
        write_record(out, asdict(config))
        (out / "evaluation.json").write_text(json.dumps({"model": config.model, "results": results}, indent=1) + "\n")
        figures = {f"perplexity {Path(path).name}": result["perplexity"] for path, result in results.items()}
        add_facts(out, metrics=figures)
    return results


def _read(path: str, limit: int) -> list[np.ndarray]:
    records = read_fasta(path)
    return [PROTEIN.encode(str(record.seq)) for record in (records[:limit] if limit else records)]


def _bounds(
    denoiser: NetworkDenoiser, sequences: list[np.ndarray], path: str, config: EvaluateConfig
) -> dict[str, Any]:
    parts = []
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(Path(path).name, total=len(sequences))
        for part in sample_bounds(
            denoiser,
            sequences,
            mask=PROTEIN.mask,
            seed=config.seed,
            samples=config.samples,
            tokens_per_batch=config.tokens_per_batch,
        ):
            parts.append(part)
            bar.advance(task, len(part[0]))
    found = gather_bounds(parts)
    return {
        "sequences": len(sequences),
        "residues": int(found.length.sum()),
        **perplexity(found)._asdict(),
        "by_mask_rate": by_mask_rate(found),
    }


def _show(results: dict[str, dict[str, Any]], baselines: list[str]) -> None:
    console = Console()
    table = Table("file", "sequences", "nats per residue", "perplexity", *baselines, header_style="bold", box=None)
    rates = Table("mask rate", *(Path(path).name for path in results), header_style="bold", box=None)
    for path, result in results.items():
        table.add_row(
            Path(path).name,
            f"{result['sequences']:,}",
            f"{result['nats']:.4f} ± {result['nats_error']:.4f}",
            f"{result['perplexity']:.3f} ± {result['perplexity_error']:.3f}",
            *(f"{result[name]:.3f}" for name in baselines),
        )
    console.print(table)
    columns = [result["by_mask_rate"] for result in results.values()]
    for rows in zip(*columns, strict=True):
        low, high, _ = rows[0]
        rates.add_row(f"{low:.1f}-{high:.1f}", *(f"{mean:.4f}" for _, _, mean in rows))
    console.print("nats per masked letter, by mask rate")
    console.print(rates)
