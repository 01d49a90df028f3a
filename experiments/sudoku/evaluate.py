"""How far the Sudoku network gets without any help from constraints.

    python -m seqdiff.experiments.sudoku.evaluate model=sudoku-small tables=sudoku_graded.tsv n=100 out=rows.csv

Every puzzle has one solution. Clues are held by the canvas; nothing else is enforced, so a grid is *valid* only if
the network filled it in without a clash. Planners differ in which cells they commit at a step: all at once; the
surest cell first (``confidence``, ``margin``); as many as an entropy bound allows; at random. Beside them stand what
needs no network: the share that naked and hidden singles alone solve.

``tables`` are tab-separated (plain or .xz) with the columns split, puzzle and solution, and source and rating where
there are such; by default the rows of the split ``test`` are read. Without them only puzzles generated here are
measured.
"""

import csv
import lzma
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from seqdiff.constraints.program import compile_constraints
from seqdiff.core.contracts import Program
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.layout import Layout
from seqdiff.domains.sudoku.board import Board
from seqdiff.domains.sudoku.formats import parse_board
from seqdiff.domains.sudoku.generate import make_puzzle, random_grid
from seqdiff.domains.sudoku.solve import place_singles
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import BasePlanner, Confidence, EntropyBound, Margin, Random

PLANNERS: dict[str, tuple[BasePlanner, int]] = {
    "one-shot": (Confidence(), 1),
    "confidence": (Confidence(), 81),
    "margin": (Margin(), 81),
    "entropy_bound": (EntropyBound(gamma=0.1), 81),
    "random": (Random(), 81),
}
"""Planner and most denoiser calls, by name."""
GENERATED = (34, 28, 24)
"""Numbers of clues of the puzzles made here; the last is what is wanted, some orders of removal stop earlier."""
MADE = 200
"""Most puzzles that are made for a stratum; making one takes up to a second."""
RATINGS = (0.0, 2.0, 4.0, 6.0, 10.0)
"""Upper ends of the rating bands."""
COLUMNS: tuple[str, ...] = ("stratum", "clues", "planner", "singles", "n", "valid", "exact", "low", "high")
COLUMNS += ("clues kept", "NFE", "seconds")


class Settings(NamedTuple):
    """What to measure; every field may be set on the command line as ``field=value``.

    Attributes:
        model: name or folder.
        tables: paths of tables of puzzles, separated by commas; empty for generated ones only.
        splits: which rows of the tables, separated by commas.
        n: most puzzles per stratum.
        planners: names, separated by commas.
        strata: only those whose name begins so, separated by commas; empty for all.
        temperature: of the network's law; below 1 it commits to what it holds likely.
        batch: rows at a time.
        seed: of generated puzzles and of sampling.
        out: table to write (.csv); empty for none.
    """

    model: str = "sudoku-small"
    tables: str = ""
    splits: str = "test"
    n: int = 100
    planners: str = "one-shot,confidence,margin,entropy_bound,random"
    strata: str = ""
    temperature: float = 0.5
    batch: int = 50
    seed: int = 1
    out: str = ""


class Puzzles(NamedTuple):
    """Puzzles of one kind.

    Attributes:
        given: canvases, MASK where open.
        solutions: the one completion of each.
    """

    given: Int[np.ndarray, "N cells"]
    solutions: Int[np.ndarray, "N cells"]


class Filled(NamedTuple):
    """What became of puzzles.

    Attributes:
        grids: the completed grids.
        valid: whether every unit holds every letter.
        exact: whether the grid is the solution.
        kept: share of clues that are still there.
        calls: denoiser calls of each row.
    """

    grids: Int[np.ndarray, "N cells"]
    valid: Bool[np.ndarray, "N"]
    exact: Bool[np.ndarray, "N"]
    kept: float
    calls: Int[np.ndarray, "N"]


def generated(board: Board, clues: int, n: int, seed: int) -> Puzzles:
    """Fresh puzzles with that number of clues, or the nearest above that random removal reaches."""
    rng = np.random.default_rng((seed, clues, 77))
    grids = np.stack([random_grid(board, rng) for _ in range(n)])
    return Puzzles(np.stack([make_puzzle(board, grid, clues, rng) for grid in grids]), grids)


def graded(path: str, board: Board, n: int, seed: int = 0, splits: str = "test") -> dict[str, Puzzles]:
    """``n`` puzzles of each stratum, drawn at random: by source and, where all have ratings, by band of rating.

    Raises:
        InputError: the file is not there, lacks a column, or holds a text that is no board.
    """
    rows = [{"source": Path(path).name.partition(".")[0], "rating": "", **row} for row in _read_table(path)]
    rows = [row for row in rows if row["split"] in splits.split(",")]
    unrated = {row["source"] for row in rows if not row["rating"]}
    groups: dict[str, list[dict[str, str]]] = {}
    for row in (rows[i] for i in np.random.default_rng(seed).permutation(len(rows))):
        stratum = row["source"] if row["source"] in unrated else f"{row['source']} rating {_band(row['rating'])}"
        groups.setdefault(stratum, []).append(row)
    return {
        name: Puzzles(*(_canvases(board, [row[part] for row in group[:n]], path) for part in ("puzzle", "solution")))
        for name, group in sorted(groups.items())
    }


def _read_table(path: str) -> list[dict[str, str]]:
    try:
        with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(cast(TextIO, file), delimiter="\t"))
    except (OSError, UnicodeDecodeError, lzma.LZMAError, csv.Error) as error:
        raise InputError(f"tables={path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for name in ("split", "puzzle", "solution"):
        if not rows or name not in rows[0]:
            raise InputError(f"tables={path} has no column {name!r}; it should be tab-separated with a line of names")
    return rows


def _band(rating: str) -> str:
    band = next((i for i, end in enumerate(RATINGS) if float(rating) <= end), len(RATINGS) - 1)
    return "0" if band == 0 else f"{RATINGS[band - 1]:g}-{RATINGS[band]:g}"


def _canvases(board: Board, texts: Sequence[str], path: str) -> Int[np.ndarray, "N cells"]:
    return np.stack([parse_board(text, board.size, where=path)[1] for text in texts])


@cache
def free_program(board: Board) -> Program:
    """The program of no constraints at all."""
    return compile_constraints((), Layout(board.alphabet, board.cells, board.cells)).program(board.cells)


def fill(
    denoiser: NetworkDenoiser,
    board: Board,
    puzzles: Puzzles,
    planner: BasePlanner,
    *,
    steps: int,
    temperature: float = 1.0,
    batch: int = 50,
    seed: int = 0,
) -> Filled:
    """Fill every puzzle once. Rows do not depend on the batch they are in."""
    conditions = {"relations": jnp.asarray(board.relations())[None]}
    bias = jnp.zeros((board.cells, board.size))
    n = len(puzzles.given)
    batch = min(batch, n)
    grids, calls = np.empty_like(puzzles.given), np.empty(n, np.int32)
    for first in range(0, n, batch):
        rows = np.minimum(np.arange(first, first + batch), n - 1)
        task = Task(
            keys=row_keys(seed, jnp.asarray(rows, jnp.int32)),
            canvas=jnp.asarray(puzzles.given[rows]),
            length=jnp.full((batch,), board.cells, jnp.int32),
            bias=bias,
            steps=jnp.int32(steps),
            temperature=jnp.full((2,), temperature, jnp.float32),
        )
        drawn = sample(denoiser, free_program(board), task, planner, conditions, process=denoiser.process)
        grids[rows], calls[rows] = jax.device_get((drawn.tokens, drawn.calls))
    given = puzzles.given < board.size
    kept = float((grids == puzzles.given)[given].mean()) if given.any() else 1.0
    return Filled(grids, board.holds(grids), (grids == puzzles.solutions).all(axis=1), kept, calls)


def strata(settings: Settings, board: Board) -> dict[str, Puzzles]:
    """The puzzles to measure, by stratum.

    Raises:
        InputError: a table cannot be read, or no stratum has the name that is asked for.
    """
    found: dict[str, Puzzles] = {}
    for path in filter(None, settings.tables.split(",")):
        found |= graded(path, board, settings.n, settings.seed, settings.splits)
    wanted = tuple(settings.strata.split(","))
    for clues in GENERATED:
        name = f"generated {clues} clues"
        if name.startswith(wanted):
            found[name] = generated(board, clues, min(settings.n, MADE), settings.seed)
    chosen = {name: puzzles for name, puzzles in found.items() if name.startswith(wanted)}
    if not chosen:
        raise unknown_key("stratum", settings.strata, {*found, *(f"generated {clues} clues" for clues in GENERATED)})
    return chosen


def measure(settings: Settings) -> list[dict[str, Any]]:
    """A row for every stratum and planner.

    Raises:
        InputError: a planner, a stratum, the model or a table of puzzles cannot be used.
    """
    board = Board(9)
    names = settings.planners.split(",")
    for name in names:
        if name not in PLANNERS:
            raise unknown_key("planner", name, PLANNERS)
    denoiser = load_model(settings.model, board.alphabet)
    if not isinstance(denoiser, NetworkDenoiser):
        raise InputError(f"model={settings.model} reads structures, not boards")
    options = {"temperature": settings.temperature, "batch": settings.batch, "seed": settings.seed}
    rows = []
    for stratum, puzzles in strata(settings, board).items():
        singles = np.mean([(place_singles(board, row.tolist()) < board.size).all() for row in puzzles.given])
        clues = (puzzles.given < board.size).sum(axis=1).mean()
        for name in names:
            planner, steps = PLANNERS[name]
            started = time.perf_counter()
            rates = _rates(fill(denoiser, board, puzzles, planner, steps=steps, **options))
            seconds = round(time.perf_counter() - started, 1)
            facts = {"stratum": stratum, "clues": round(float(clues), 1), "singles": round(float(singles), 4)}
            rows.append(facts | {"planner": name} | rates | {"seconds": seconds})
            print(f"{stratum}, {name}: {100 * rates['exact']:.1f} % exact", file=sys.stderr, flush=True)
    return rows


def _rates(done: Filled) -> dict[str, Any]:
    """Rates with the 95 % Wilson interval of ``exact``."""
    n = len(done.valid)
    interval = binomtest(int(done.exact.sum()), n).proportion_ci(method="wilson")
    rates = {"valid": done.valid.mean(), "exact": done.exact.mean(), "low": interval.low, "high": interval.high}
    rounded = {name: round(float(rate), 4) for name, rate in (rates | {"clues kept": done.kept}).items()}
    return {"n": n, **rounded, "NFE": round(float(done.calls.mean()), 1)}


def report(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows as a table, rates in percent with their 95 % Wilson interval."""
    names = ("stratum", "clues", "planner", "n", "valid", "exact", "95 %", "clues kept", "NFE", "singles only")
    table = Table(*names, box=None)
    for row in rows:
        rates = {name: f"{100 * row[name]:.1f}" for name in ("valid", "exact", "low", "high", "clues kept", "singles")}
        interval = f"{rates['low']}-{rates['high']}"
        table.add_row(
            *(
                row["stratum"],
                f"{row['clues']:.1f}",
                row["planner"],
                str(row["n"]),
                rates["valid"],
                rates["exact"],
                interval,
            ),
            *(rates["clues kept"], f"{row['NFE']:.1f}", rates["singles"]),
        )
    return table


def main(words: Sequence[str]) -> None:
    """Measure, print and write."""
    settings = read_settings(Settings(), words)
    rows = measure(settings)
    Console(width=140).print(report(rows))
    if settings.out:
        with open(Path(settings.out), "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    run_main(main)
