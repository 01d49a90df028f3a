"""Scores of generated graphs on a benchmark set, and what the set's own law would score.

    python -m seqdiff.experiments.bench.graph_metrics FILE set=planar data=DIR [repeats=10] [seed=2024]

FILE holds the sample, in any format of ``seqdiff.domains.graph.files``; DIR holds ``planar_train.g6`` and
``planar_test.g6`` (or another set's: tree, lobster, sbm). Printed are V.U.N. with 95 % intervals, the five squared
discrepancies from the test set and their mean ratio to those of the training set.

Beside each stands the floor: fresh graphs of the true law, as many as the sample has, ``repeats`` times, mean +-
standard deviation of one repeat. A score within it is as good as can be seen with so many graphs. A sampler that
enforces a property has it always, so read V.U.N. only next to the ratio.
"""

from pathlib import Path

import networkx as nx
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.domains.graph import metrics
from seqdiff.domains.graph.files import read_graphs
from seqdiff.domains.graph.generators import GENERATORS
from seqdiff.experiments.settings import run_main

# Seed 0 draws the very training trees of the benchmark, which are then not novel.
DEFAULTS = {"set": "", "data": "", "repeats": "10", "seed": "2024"}
Score = dict[str, float]


def main(arguments: list[str]) -> None:
    """Read the arguments, score the sample and the floor, print the table."""
    options = dict(DEFAULTS)
    files = [argument for argument in arguments if "=" not in argument]
    for key, value in (argument.split("=", 1) for argument in arguments if "=" in argument):
        if key not in DEFAULTS:
            raise unknown_key("option", key, DEFAULTS)
        options[key] = value
    if len(files) != 1 or not options["set"] or not options["data"]:
        raise InputError("usage: graph_metrics FILE set=planar data=DIR [repeats=10] [seed=2024]")
    name, repeats, seed = options["set"], _whole(options, "repeats", 2), _whole(options, "seed", 0)
    sets = sorted(set(GENERATORS) - {"community20"})  # community-20 has no split to compare with
    if name not in sets:
        raise unknown_key("set", name, sets)
    sample = read_graphs(files[0])
    train, test = (read_graphs(Path(options["data"]) / f"{name}_{part}.g6") for part in ("train", "test"))
    benchmark = Benchmark(name, train, test)
    rng = np.random.default_rng(seed)
    drawn = [[GENERATORS[name](rng) for _ in sample] for _ in range(repeats)]
    floor = [
        benchmark.score(graphs) for graphs in track(drawn, "true law", console=Console(stderr=True), transient=True)
    ]
    Console().print(table(benchmark, sample, floor))


class Benchmark:
    """A set with its split.

    Attributes:
        name: of the set.
        reference: discrepancies of the training set from the test set.
    """

    def __init__(self, name: str, train: list[nx.Graph], test: list[nx.Graph]):
        self.name = name
        self.train = train
        self.test = metrics.describe(test)
        self.reference = metrics.discrepancies(metrics.describe(train), self.test)

    def shares(self, graphs: list[nx.Graph]) -> dict[str, metrics.Share]:
        """V.U.N. of a sample; without validity where the set has no rule."""
        return metrics.vun(graphs, self.train, metrics.VALID.get(self.name))

    def score(self, graphs: list[nx.Graph]) -> Score:
        """All numbers of a sample."""
        found = metrics.discrepancies(metrics.describe(graphs), self.test)
        shares = {name: share.value for name, share in self.shares(graphs).items()}
        return shares | found | {"ratio": metrics.ratio(found, self.reference)}


def table(benchmark: Benchmark, sample: list[nx.Graph], floor: list[Score]) -> Table:
    """The sample, the floor and the training set, a number a row."""
    found, shares = benchmark.score(sample), benchmark.shares(sample)
    caption = "ratio: references rounded to 4 decimals, zeros dropped (DeFoG's variant)"
    if benchmark.name not in metrics.VALID:
        caption += "; no validity rule for this set"
    result = Table(title=f"{benchmark.name}: {len(sample)} graphs", caption=caption)
    for heading in ("", "sample", f"true law, {len(floor)} x {len(sample)}", "training set"):
        result.add_column(heading, justify="right" if heading else "left")
    for name in found:
        draws = np.array([score[name] for score in floor])
        mean, deviation = draws.mean(), draws.std(ddof=1)
        if name in shares:
            row = (str(shares[name]), f"{100 * mean:.1f} +- {100 * deviation:.1f} %", "")
        elif name == "ratio":
            row = (f"{found[name]:.2f}", f"{mean:.2f} +- {deviation:.2f}", "1")
        else:
            row = (f"{found[name]:.2g}", f"{mean:.2g} +- {deviation:.1g}", f"{benchmark.reference[name]:.4f}")
        result.add_row(name, *row)
    return result


def _whole(options: dict[str, str], key: str, least: int) -> int:
    if not options[key].isdigit() or int(options[key]) < least:
        raise InputError(f"{key}={options[key]}: a whole number from {least} is needed")
    return int(options[key])


if __name__ == "__main__":
    run_main(main)
