"""``seqdiff score``: scores of given sequences (FASTA or a table) and of mutants of a parent (a table).

A table keeps its columns as they are and gains the scores. Sequences are scored by

- ``bound``: the likelihood bound, by masking at random;
- ``path``: revealing the letters one by one in random orders;
- ``pseudo``: every position masked alone;

and mutants by ``masked_marginal`` or ``wild_type_marginal``: see ``docs/scoring.md`` for what each means and costs.
"""

import csv
import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.models.mpnn.denoiser import MPNNDenoiser
from seqdiff.models.store import load_model
from seqdiff.process.likelihood import path_log_probability, sample_bounds
from seqdiff.process.ordered import ROWS, ordered_log_probability
from seqdiff.process.pseudo import Marginal, Mutant, mutant_log_odds, pseudo_log_likelihood, site_sets
from seqdiff.process.readout import TOKENS_PER_BATCH, call_rows, pad, padded_size
from seqdiff.request import files
from seqdiff.request.mutations import Sheet, delimiter, mutate, read_mutants, read_sheet
from seqdiff.request.parent import BREAK
from seqdiff.request.target import Target

MARGINALS: dict[str, Marginal] = {"masked_marginal": "masked", "wild_type_marginal": "wild_type"}
METHODS = ("bound", "path", "pseudo", *MARGINALS)
MEANINGS = {
    "bound": "likelihood bound (NELBO)",
    "path": "negative log-probability of a path, mean over orders",
    "pseudo": "negative pseudo-log-likelihood",
}
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How to score.

    Attributes:
        model: bundled name or folder.
        method: one of :data:`METHODS`; empty for ``masked_marginal`` of mutants and ``bound`` of sequences.
        samples: masked passes per sequence; read by ``bound`` only.
        orders: random orders per sequence; read by ``path`` only.
        seed: of the masks and orders.
        parent: what the column ``mutant`` counts from: a FASTA file, ``{fasta: file, id: name}``, or the letters.
        offset: added to a position of the parent it gives the number in the mutants' names.
        against: numeric column to correlate the scores with; empty for none.
        tokens_per_batch: rows times padded length of one call of the model.
        structure: what the sequences should fold to, for models that read structures: a file, or a mapping as in a
            spec; None for none. Such models score by ``path``, over the residues that are designed.
        out: CSV (or ``.tsv``) file to write; empty for none.
    """

    model: str = "protein-small"
    method: str = ""
    samples: int = 16
    orders: int = 4
    seed: int = 0
    parent: Any = ""
    offset: int = 0
    against: str = ""
    tokens_per_batch: int = TOKENS_PER_BATCH
    structure: Any = None
    out: str = ""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ScoreOptions":
        """Read the options; unknown keys and methods are refused."""
        args = dict(check_keys(mapping, tuple(cls.__dataclass_fields__)))
        if args.get("method", "") not in ("", *METHODS):
            raise unknown_key("method", args["method"], METHODS)
        lows = {"samples": 1, "orders": 1, "seed": 0, "offset": -(10**6), "tokens_per_batch": 1}
        for key, low in lows.items():
            if key in args:
                args[key] = whole_number(args[key], key, low=low)
        for key in ("model", "against", "out"):
            args[key] = str(args.get(key, getattr(cls, key)))
        return cls(**args)


@dataclass(frozen=True)
class _Input:
    """What a file asks for: rows to carry through, and sequences or mutants of a parent to score."""

    header: list[str]
    rows: list[list[str]]
    label: str
    where: Callable[[int], str]
    sequences: list[np.ndarray]
    mutants: tuple[np.ndarray, list[Mutant]] | None = None
    """The parent's letter ids and its mutants."""


def score_file(path: Path, options: ScoreOptions) -> list[dict[str, Any]]:
    """Score every row, show a table, write a file if asked.

    Returns:
        The input's columns and the scores of each row.

    Raises:
        InputError: the file or an option cannot be used.
    """
    out = Path(options.out) if options.out else None
    if out and out.exists():
        raise InputError(f"out={out} exists; name another file")
    if out and not out.parent.is_dir():
        raise InputError(f"out={out}: there is no folder {out.parent}")
    given = _read(path, options)
    method = options.method or ("bound" if given.mutants is None else "masked_marginal")
    method = "path" if options.structure is not None and not options.method else method
    if method in MARGINALS and given.mutants is None:
        raise InputError(f"method={method} needs a table with a column 'mutant', and parent=wild_type.fasta")
    names = _score_names(method, options)
    if clash := [name for name in names if name in given.header]:
        raise InputError(f"{path} has a column {clash[0]!r} already; rename it")
    measured = _measured(given, options.against) if options.against else None
    denoiser = load_model(options.model, PROTEIN)
    reads_structure = isinstance(denoiser, MPNNDenoiser)
    if reads_structure != (options.structure is not None):
        needs = "reads a structure; add structure=FILE" if reads_structure else "reads no structure; leave it out"
        raise InputError(f"model {options.model} {needs}")

    meter, start = _Meter(), time.perf_counter()
    if isinstance(denoiser, MPNNDenoiser):
        scores = _score_structure(denoiser, path, given, method, options, meter)
    else:
        scores = _score(denoiser, given, method, options, meter)
    seconds = time.perf_counter() - start
    columns = [[*cells, *(row[name] for name in names)] for cells, row in zip(given.rows, scores, strict=True)]
    rows = [dict(zip([*given.header, *names], row, strict=True)) for row in columns]
    _show(given, rows, names)
    console = Console(highlight=False, soft_wrap=True)
    if method in MEANINGS:
        residues = sum(map(len, given.sequences))
        total = sum(row["nats"] for row in rows)
        console.print(f"{MEANINGS[method]}: {total / residues:.4f} nats per residue over {len(rows)} sequences")
    if measured is not None:
        console.print(_correlation(rows, method, measured, options.against))
    console.print(f"{meter.rows} rows in {meter.calls} calls of the model, {seconds:.1f} s")
    if out:
        _write(rows, out)
    return rows


def _read(path: Path, options: ScoreOptions) -> _Input:
    """The rows of a FASTA file or a table."""
    if not delimiter(path):
        if options.against or options.parent:
            key = "against" if options.against else "parent"
            raise InputError(f"{key}= needs a table (.csv or .tsv); {path} is read as FASTA")
        records = read_fasta(path)
        sequences = [PROTEIN.encode(str(record.seq)) for record in records]
        cells = [[str(record.id), str(len(sequence))] for record, sequence in zip(records, sequences, strict=True)]
        return _Input(["id", "length"], cells, "id", lambda row: f"{path}, record {row + 1}", sequences)
    sheet = read_sheet(path)
    if sheet.has("mutant") and (options.parent or not sheet.has("sequence")):
        return _read_mutants(sheet, options)
    if options.parent:
        raise InputError(f"parent= needs a column 'mutant'; {path} has {', '.join(sheet.header)}")
    if not sheet.has("sequence"):
        raise InputError(f"{path} needs a column 'sequence' or 'mutant'; it has {', '.join(sheet.header)}")
    label = next((name for name in ("id", "name", "mutant") if sheet.has(name)), "")
    return _Input(sheet.header, sheet.rows, label, sheet.where, _sequences(sheet))


def _read_mutants(sheet: Sheet, options: ScoreOptions) -> _Input:
    if not options.parent:
        raise InputError(f"{sheet.path} names mutants; say of what with parent=wild_type.fasta")
    parent = files.sequence(options.parent, sheet.path.parent, PROTEIN, "parent")
    mutants = read_mutants(sheet, parent, PROTEIN, options.offset)
    tokens = PROTEIN.encode(parent)
    sequences = [mutate(tokens, mutant) for mutant in mutants]
    return _Input(sheet.header, sheet.rows, "mutant", sheet.where, sequences, (tokens, list(mutants)))


def _sequences(sheet: Sheet) -> list[np.ndarray]:
    """Letter ids of the column ``sequence``, by the rules of FASTA: blanks and a stop at the end are dropped."""
    texts = ["".join(text.split()).upper().removesuffix("*").replace(BREAK, "") for text in sheet.column("sequence")]
    long = [text for text in texts if len(text) >= 20]
    if long and all(set("ACGTUN").issuperset(text) for text in long):
        raise InputError(f"{sheet.path} looks like nucleotides (only A, C, G, T, U, N); translate it to protein first")
    encoded = []
    for row, text in enumerate(texts):
        try:
            if not text:
                raise InputError("no sequence")
            encoded.append(PROTEIN.encode(text))
        except InputError as error:
            raise InputError(f"{sheet.where(row)}: {error}") from None
    return encoded


class _Meter:
    """Counts calls of the model and the rows in them."""

    def __init__(self):
        self.calls = self.rows = 0

    def add(self, rows: int, calls: int = 1) -> None:
        self.calls += calls
        self.rows += rows


def _score_names(method: str, options: ScoreOptions) -> list[str]:
    """Names of the columns that a method adds."""
    if method in MARGINALS:
        return [method]
    error = ["nats_error"] if method == "path" and options.orders > 1 else []
    return ["nats", *error, "nats_per_residue", "perplexity"]


def _score(
    denoiser: Denoiser, given: _Input, method: str, options: ScoreOptions, meter: _Meter
) -> list[dict[str, float]]:
    """Scores of each row by name."""
    residues = np.array([len(sequence) for sequence in given.sequences])
    work = {
        "bound": len(residues) * options.samples,
        "path": int(residues.sum()) * options.orders,
        "pseudo": int(residues.sum()),
        "masked_marginal": len(site_sets(given.mutants[1])) if given.mutants else 0,
        "wild_type_marginal": 1,
    }
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("scoring", total=work[method])

        def advance(rows: int, calls: int = 1) -> None:
            meter.add(rows, calls)
            bar.advance(task, rows)

        common = {"mask": PROTEIN.mask, "tokens_per_batch": options.tokens_per_batch, "progress": advance}
        if given.mutants is not None and method in MARGINALS:
            odds = mutant_log_odds(denoiser, *given.mutants, marginal=MARGINALS[method], **common)
            return [{method: round(float(value), 4)} for value in odds]
        error = None
        if method == "pseudo":
            nats = -pseudo_log_likelihood(denoiser, given.sequences, **common)
        elif method == "path":
            paths = -path_log_probability(denoiser, given.sequences, seed=options.seed, orders=options.orders, **common)
            nats = paths.mean(axis=1)
            if options.orders > 1:
                error = paths.std(axis=1, ddof=1) / math.sqrt(options.orders)
        else:
            nats = _bounds(denoiser, given.sequences, options, advance)
    return _rows(nats, error, residues)


def _score_structure(
    denoiser: MPNNDenoiser, path: Path, given: _Input, method: str, options: ScoreOptions, meter: _Meter
) -> list[dict[str, float]]:
    """Scores of sequences for a structure, over the residues that are designed."""
    if method != "path":
        raise InputError(f"method={method}: models of structures score by method=path")
    target = Target.from_spec(options.structure, path.parent, PROTEIN)
    length = len(target.native)
    for row, sequence in enumerate(given.sequences):
        if len(sequence) != length:
            raise InputError(f"{given.where(row)}: {len(sequence)} residues, but {target.file.name} has {length}")
    size = padded_size(length)
    scored = np.arange(size) < length
    scored[[p - 1 for p in target.fixed]] = False
    conditions = target.encode(denoiser, size, options.seed)
    paths = -ordered_log_probability(
        denoiser,
        pad(given.sequences, size, PROTEIN.mask),
        scored,
        conditions,
        mask=PROTEIN.mask,
        seed=options.seed,
        orders=options.orders,
    )
    meter.add(paths.size, -(-paths.size // ROWS))
    error = paths.std(axis=1, ddof=1) / math.sqrt(options.orders) if options.orders > 1 else None
    return _rows(paths.mean(axis=1), error, np.full(len(paths), scored.sum()))


def _rows(nats: np.ndarray, error: np.ndarray | None, residues: np.ndarray) -> list[dict[str, float]]:
    rows = []
    for i, (total, length) in enumerate(zip(nats, residues, strict=True)):
        row = {"nats": round(float(total), 3)}
        if error is not None:
            row["nats_error"] = round(float(error[i]), 3)
        row["nats_per_residue"] = round(float(total) / int(length), 4)
        row["perplexity"] = round(math.exp(float(total) / int(length)), 3)
        rows.append(row)
    return rows


def _bounds(
    denoiser: Denoiser,
    sequences: Sequence[np.ndarray],
    options: ScoreOptions,
    advance: Callable[[int, int], None],
) -> np.ndarray:
    nats = np.zeros(len(sequences))
    parts = sample_bounds(
        denoiser,
        sequences,
        mask=PROTEIN.mask,
        seed=options.seed,
        samples=options.samples,
        tokens_per_batch=options.tokens_per_batch,
    )
    for chosen, found in parts:
        nats[chosen] = found.bound.mean(axis=1, dtype=np.float64)
        rows = len(chosen) * options.samples
        size = padded_size(len(sequences[chosen[0]]))
        advance(rows, -(-rows // call_rows(rows, size, options.tokens_per_batch)))
    return nats


def _measured(given: _Input, column: str) -> np.ndarray:
    """The numbers of a column; nan where a cell is empty.

    Raises:
        InputError: no such column, a cell that is no number (names the row), or too few different numbers.
    """
    if column not in given.header:
        raise unknown_key("column", column, given.header)
    place = given.header.index(column)
    values = np.full(len(given.rows), np.nan)
    for row, cells in enumerate(given.rows):
        text = cells[place].strip()
        if text.lower() in ("", "na", "nan"):
            continue
        try:
            values[row] = float(text)
        except ValueError:
            raise InputError(f"{given.where(row)}: {column}={text!r} is not a number") from None
    if len(np.unique(values[np.isfinite(values)])) < 2:
        raise InputError(f"column {column!r} needs two different numbers at least for a correlation")
    return values


def _correlation(rows: list[dict[str, Any]], method: str, measured: np.ndarray, column: str) -> str:
    """One line: Spearman's correlation of the scores, the higher the likelier, with what was measured."""
    name, sign = (method, 1) if method in MARGINALS else ("nats_per_residue", -1)
    there = np.isfinite(measured)
    scores = np.array([sign * row[name] for row in rows])[there]
    left_out = f" ({(~there).sum()} rows without a number left out)" if not there.all() else ""
    if len(np.unique(scores)) < 2:
        return f"no correlation with {column}: all scores are equal{left_out}"
    from scipy.stats import spearmanr

    rho, _ = spearmanr(scores, measured[there])
    label = name if sign == 1 else f"-{name}"
    return f"Spearman correlation of {label} with {column}: {rho:.3f} over {there.sum()} rows{left_out}"


def _show(given: _Input, rows: list[dict[str, Any]], names: list[str]) -> None:
    """The first rows: their label and their scores."""
    lead = ["id", "length"] if given.header == ["id", "length"] else [given.label or "row"]
    table = Table(*lead, *names, header_style="bold", box=None)
    for number, row in enumerate(rows[:SHOWN], 1):
        cells = [str(row[name]) if name in row else str(number) for name in lead]
        table.add_row(*cells, *(str(row[name]) for name in names))
    console = Console()
    console.print(table)
    if len(rows) > SHOWN:
        console.print(f"... and {len(rows) - SHOWN} more rows; out=scores.csv writes all", highlight=False)


def _write(rows: list[dict[str, Any]], out: Path) -> None:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, rows[0], lineterminator="\n", delimiter=delimiter(out) or ",")
    writer.writeheader()
    writer.writerows(rows)
    try:
        with open(out, "x", encoding="utf-8", newline="") as handle:
            handle.write(buffer.getvalue())
    except OSError as error:
        raise InputError(f"cannot write out={out}: {error.strerror or error}") from None
