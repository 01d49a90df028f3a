"""Sudoku with the all-different constraint on: everything is solved; at what cost, and whose order avoids branching.

    python -m seqdiff.experiments.sudoku.solve tables=royle17_all.tsv.xz,sudoku_graded.tsv model=sudoku-small

For every stratum: the share that the device search solves (compared with the stored solution), seconds per puzzle
after compilation, the share that propagation alone finishes, and mean branches. Beside them a plain CP-SAT solve of
some of the puzzles (seconds and ratio). For ``order`` puzzles of each stratum, cells are then committed one after the
other with propagation after each, and counted is how often that meets no contradiction at all: in the network's order
with its likeliest letter, and in the order of fewest letters with a random one.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from seqdiff.constraints.distinct_host import maximise
from seqdiff.constraints.distinct_program import DistinctProgram
from seqdiff.constraints.distinct_search import has, propagate
from seqdiff.domains.sudoku.board import Board
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.experiments.sudoku.evaluate import Puzzles, strata
from seqdiff.experiments.sudoku.evaluate import Settings as Strata
from seqdiff.models.store import load_model


class Settings(NamedTuple):
    """What to measure.

    Attributes:
        tables: paths of tables of puzzles, separated by commas; empty for generated ones only.
        splits: which rows of the tables, separated by commas.
        strata: only those whose name begins so, separated by commas; empty for all.
        n: most puzzles per stratum.
        batch: rows at a time.
        reference: puzzles per stratum that plain CP-SAT solves.
        order: puzzles per stratum whose order is followed; 0 for none.
        model: of the order.
        seed: of the draws.
    """

    tables: str = ""
    splits: str = "train,valid,test"
    strata: str = ""
    n: int = 100_000
    batch: int = 1024
    reference: int = 50
    order: int = 100
    model: str = "sudoku-small"
    seed: int = 1


def solve(program: DistinctProgram, puzzles: Puzzles, settings: Settings) -> dict[str, float]:
    """Solve all puzzles of a stratum."""
    count, cells = puzzles.given.shape
    batch = min(settings.batch, count)
    searched = jax.jit(DistinctProgram.search)
    proposal = jnp.full((batch, cells, 9), -np.log(9.0), jnp.float32)
    length = jnp.full((batch,), cells, jnp.int32)
    rows = np.arange(-(-count // batch) * batch) % count
    right, branches, alone, seconds = 0, 0, 0, 0.0
    for start in range(0, len(rows), batch):
        chosen = rows[start : start + batch]
        keys = jax.random.split(jax.random.fold_in(jax.random.key(settings.seed), start), batch)
        given = jnp.asarray(puzzles.given[chosen])
        if start == 0:
            jax.block_until_ready(searched(program, keys, proposal, given, length))
        began = time.perf_counter()
        found = jax.block_until_ready(searched(program, keys, proposal, given, length))
        seconds += time.perf_counter() - began
        own = slice(0, min(batch, count - start))
        same = (np.asarray(found.letters) == puzzles.solutions[chosen]).all(axis=1) & np.asarray(found.solved)
        right += int(same[own].sum())
        branches += int(np.asarray(found.nodes)[own].sum())
        alone += int((np.asarray(found.nodes)[own] == 0).sum())
    return {
        "solved": 100 * right / count,
        "ms": 1000 * seconds / len(rows),
        "alone": 100 * alone / count,
        "branches": branches / count,
    }


def reference(board: Board, puzzles: Puzzles, count: int) -> float:
    """Milliseconds of CP-SAT per puzzle."""
    began = time.perf_counter()
    for given, solution in zip(puzzles.given[:count], puzzles.solutions[:count], strict=True):
        masks = [1 << int(v) if v < board.size else (1 << board.size) - 1 for v in given]
        found = maximise(board.units, masks, np.zeros((board.cells, board.size), np.float32))
        assert found is not None
        assert (np.array(found) == solution).all()
    return 1000 * (time.perf_counter() - began) / min(count, len(puzzles.given))


def follow(program: DistinctProgram, board: Board, puzzles: Puzzles, settings: Settings, network: Any) -> float:
    """Share of puzzles that are filled in without meeting a contradiction, committing cell by cell.

    Args:
        program: propagates.
        board: the geometry.
        puzzles: to fill in.
        settings: how many, and the seed.
        network: says which cell and which letter; None for the cell of fewest letters and a random one.
    """
    canvas = jnp.asarray(puzzles.given[: settings.order])
    count = len(canvas)
    length = jnp.full((count,), board.cells, jnp.int32)
    valid = jnp.ones(canvas.shape, bool)
    conditions = {"relations": jnp.asarray(board.relations())[None]}

    @jax.jit
    def step(key: Any, canvas: Any) -> tuple[Any, Any]:
        tight, wrong = propagate(program.links, program.domains(canvas, length))
        legal = has(tight.masks[:-1].T, board.size)
        few = jnp.sum(legal, axis=-1)
        placed = jnp.where((few == 1) & (canvas >= board.size), jnp.argmax(legal, axis=-1), canvas)
        if network is None:
            score = jax.random.uniform(key, legal.shape)
            sure = -few.astype(jnp.float32)
        else:
            share = jnp.mean((placed >= board.size).astype(jnp.float32), axis=1)
            score = jax.nn.log_softmax(network(placed, valid, share, conditions), axis=-1)
            score = jax.nn.softmax(jnp.where(legal, score, -jnp.inf), axis=-1)
            sure = jnp.max(score, axis=-1)
        open = placed >= board.size
        cell = jnp.argmax(jnp.where(open, sure, -jnp.inf), axis=1)
        letters = jnp.argmax(jnp.where(legal, score, -1.0), axis=-1)
        letter = jnp.take_along_axis(letters, cell[:, None], axis=1)[:, 0]
        chosen = (jnp.arange(board.cells)[None] == cell[:, None]) & open
        return jnp.where(chosen, letter[:, None], placed), wrong

    wrong = jnp.zeros((count,), bool)
    for n in range(board.cells):
        canvas, met = step(jax.random.fold_in(jax.random.key(settings.seed), n), canvas)
        wrong |= met
        if not bool(jnp.any(canvas >= board.size)):
            break
    return 100 * float(np.mean(~np.asarray(wrong) & board.holds(np.asarray(canvas))))


def main(words: Sequence[str]) -> None:
    """Print the table."""
    settings, board = read_settings(Settings(), words), Board(9)
    network: Any = load_model(settings.model, board.alphabet) if settings.order else None
    program = DistinctProgram.make(board.units, np.ones((board.cells, 9), bool), board.cells)
    names = {name: getattr(settings, name) for name in ("tables", "strata", "splits", "n", "seed")}
    found = strata(Strata(**names), board)
    columns = ("stratum", "n", "solved %", "ms", "no branch %", "branches", "CP-SAT ms", "ratio")
    columns += (f"{settings.model} order %", "fewest-letters order %") if settings.order else ()
    table = Table(*columns)
    for name, puzzles in track(found.items(), console=Console(stderr=True)):
        row = solve(program, puzzles, settings)
        plain = reference(board, puzzles, settings.reference)
        cells = [name, f"{len(puzzles.given):,}", f"{row['solved']:.2f}", f"{row['ms']:.2f}", f"{row['alone']:.1f}"]
        cells += [f"{row['branches']:.2f}", f"{plain:.1f}", f"{plain / row['ms']:.0f}"]
        if settings.order:
            cells += [f"{follow(program, board, puzzles, settings, each):.0f}" for each in (network, None)]
        table.add_row(*cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    run_main(main)
