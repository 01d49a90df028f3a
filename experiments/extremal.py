"""Graphs with many edges and a forbidden subgraph: sample under the constraint, improve locally, train on the best,
repeat.

    python -m seqdiff.experiments.extremal nodes=20 free=C4 rounds=3 known=c4free_extremal_numbers.tsv out=runs/c4

PatternBoost (Charton, Ellenberg, Wagner and Williamson 2024) with one change: the sampler keeps the constraint, so
that nothing has to be repaired. The first round samples without a model, every pair leaning towards an edge; later
rounds sample with a network over pairs of nodes that was trained on the best graphs so far. The table shows, for each
round, what was sampled and what local search made of it; ``known`` is a table of optima (columns n and max_edges).
"""

import csv
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
from rich.console import Console
from rich.table import Table

import seqdiff
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.domains.graph import write_graphs
from seqdiff.domains.graph.certificates import unique
from seqdiff.experiments.graphs.train import Settings as TrainSettings
from seqdiff.experiments.graphs.train import train
from seqdiff.experiments.settings import read_settings, run_main

Legal = Callable[[list[int], int, int], bool]


class Settings(NamedTuple):
    """The search; every field may be set on the command line as ``field=value``.

    Attributes:
        nodes: of the graphs.
        free: what they must not have: ``triangle``, ``C4`` or ``girth5`` (neither).
        rounds: of sampling; the first has no model.
        samples: graphs per round.
        keep: best graphs that the next model is trained on.
        moves: local moves per graph.
        lean: nats by which a pair leans towards an edge.
        steps: of training in each round.
        calls: of the model for each sample.
        known: table of optima; empty for none.
        seed: of everything.
        out: folder for models and the best graphs.
    """

    nodes: int = 16
    free: str = "C4"
    rounds: int = 3
    samples: int = 64
    keep: int = 32
    moves: int = 2000
    lean: float = 3.0
    steps: int = 200
    calls: int = 16
    known: str = ""
    seed: int = 0
    out: str = "runs/extremal"


def _no_triangle(rows: list[int], u: int, v: int) -> bool:
    return not rows[u] & rows[v]


def _no_square(rows: list[int], u: int, v: int) -> bool:
    left, second = rows[u], 0
    while left:
        low = left & -left
        second |= rows[low.bit_length() - 1]
        left ^= low
    return not second & ~(1 << u) & rows[v]


RULES: dict[str, tuple[list[dict], tuple[Legal, ...]]] = {
    "triangle": ([{"free": "triangle"}], (_no_triangle,)),
    "C4": ([{"free": "C4"}], (_no_square,)),
    "girth5": ([{"girth": {"min": 5}}], (_no_triangle, _no_square)),
}


def improve(graph: nx.Graph, rules: Sequence[Legal], moves: int, rng: random.Random) -> nx.Graph:
    """Take a few edges out, put in what fits in random order, keep what is no smaller; ``moves`` times."""
    nodes = graph.number_of_nodes()
    rows = [sum(1 << v for v in graph[u]) for u in range(nodes)]
    pairs = [(u, v) for u in range(nodes) for v in range(u)]
    best = sum(row.bit_count() for row in rows) // 2
    for _ in range(moves):
        trial = [*rows]
        edges = [(u, v) for u, v in pairs if trial[u] >> v & 1]
        for u, v in rng.sample(edges, min(rng.choice((0, 1, 1, 2, 3)), len(edges))):
            trial[u] ^= 1 << v
            trial[v] ^= 1 << u
        rng.shuffle(pairs)
        for u, v in pairs:
            if not trial[u] >> v & 1 and all(legal(trial, u, v) for legal in rules):
                trial[u] |= 1 << v
                trial[v] |= 1 << u
        size = sum(row.bit_count() for row in trial) // 2
        if size >= best:
            rows, best = trial, size
    found = nx.empty_graph(nodes)
    found.add_edges_from((u, v) for u in range(nodes) for v in range(u) if rows[u] >> v & 1)
    return found


def search(settings: Settings) -> list[nx.Graph]:
    """Run all rounds, print the table, write the best graphs and return them.

    Raises:
        InputError: an unknown ``free`` or a table that cannot be read.
    """
    if settings.free not in RULES:
        raise unknown_key("free", settings.free, RULES)
    constraints, rules = RULES[settings.free]
    optimum = _optimum(settings.known, settings.nodes) if settings.known else None
    rng = random.Random(settings.seed)
    out = Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)
    pool: list[nx.Graph] = []
    table = Table("round", "sampled mean", "sampled best", "improved mean", "improved best", "distinct best", "optimum")
    for number in range(settings.rounds):
        model = "uniform" if number == 0 else str(_fit(pool[: settings.keep], out / f"round{number}", settings))
        designs = seqdiff.design(
            domain="graph",
            nodes=settings.nodes,
            model=model,
            n=settings.samples,
            seed=settings.seed + number,
            constraints=constraints,
            bias=[{"letters": "1", "add": settings.lean}],
            sampling={"planner": "random", "steps": settings.calls, "batch": settings.samples},
        )
        assert designs.satisfied == len(designs)
        better = [improve(graph, rules, settings.moves, rng) for graph in designs.objects]
        before, after = ([graph.number_of_edges() for graph in graphs] for graphs in (designs.objects, better))
        pool = sorted([*pool, *better], key=lambda graph: -graph.number_of_edges())
        pool = [graph for graph, new in zip(pool, unique(pool), strict=True) if new]
        top = sum(graph.number_of_edges() == pool[0].number_of_edges() for graph in pool)
        cells = (number, f"{np.mean(before):.2f}", max(before), f"{np.mean(after):.2f}", max(after), top, optimum or "")
        table.add_row(*map(str, cells))
    best = [graph for graph in pool if graph.number_of_edges() == pool[0].number_of_edges()]
    write_graphs(out / "best.g6", best)
    console = Console()
    console.print(f"{settings.nodes} nodes, no {settings.free}: {settings.samples} samples a round")
    console.print(table)
    return best


def _fit(graphs: Sequence[nx.Graph], out: Path, settings: Settings) -> Path:
    """A network trained on the graphs."""
    out.mkdir(parents=True, exist_ok=True)
    write_graphs(out / "train.g6", graphs)
    return train(
        TrainSettings(
            data=str(out / "train.g6"),
            out=str(out),
            width=32,
            depth=3,
            hidden=64,
            channels=16,
            batch=16,
            steps=settings.steps,
            save_every=settings.steps,
            average=0.98,
            multiple=1,
            seed=settings.seed,
        )
    )


def _optimum(path: str, nodes: int) -> int:
    try:
        with open(path, newline="") as file:
            rows = {int(row["n"]): int(row["max_edges"]) for row in csv.DictReader(file, delimiter="\t")}
    except (OSError, KeyError, ValueError):
        raise InputError(f"known={path} is no table with columns n and max_edges") from None
    if nodes not in rows:
        raise InputError(f"known={path} has no row for n={nodes}")
    return rows[nodes]


def main(words: Sequence[str]) -> None:
    """Read ``field=value`` words and search."""
    search(read_settings(Settings(), words))


if __name__ == "__main__":
    run_main(main)
