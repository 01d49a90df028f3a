"""Constraints on graphs, measured: does everything drawn obey, how close is the law to uniform, what does it cost.

    python -m seqdiff.experiments.bench.graphs n=1000

For each set of constraints: the route; how many of ``n`` graphs on eight nodes, drawn under equal odds for every
pair, pass the check by networkx; seconds for 100 of them after compilation; and on five nodes (six where five allow
none) the total variation between the isomorphism classes of ``n`` draws and the uniform law over labelled graphs that
obey (by enumeration of all of them), beside what as many exact draws would show.
"""

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from seqdiff.constraints import Compiled, Constraint, compile_constraints, parse_constraint
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import Layout
from seqdiff.domains.graph import to_graph
from seqdiff.domains.graph.certificates import certificate
from seqdiff.experiments.settings import read_settings, run_main

SETS: list[list[dict[str, Any]]] = [
    [{"connected": {}}],
    [{"acyclic": {}}],
    [{"tree": {}}],
    [{"bipartite": {}}],
    [{"planar": {}}],
    [{"outerplanar": {}}],
    [{"colourable": {"colours": 3}}],
    [{"girth": {"min": 5}}],
    [{"free": "triangle"}],
    [{"free": "C4"}],
    [{"free": "K4"}],
    [{"free": {"of": "claw", "induced": True}}],
    [{"degree": {"max": 3}}],
    [{"degree": {"min": 2}}],
    [{"degree": {"exactly": 3}}],
    [{"edges": {"min": 6, "max": 8}}],
    [{"k_connected": {"nodes": 2}}],
    [{"diameter": {"max": 2}}],
    [{"caterpillar": {}}],
    [{"independence": {"max": 2}}],
    [{"planar": {}}, {"connected": {}}],
    [{"girth": {"min": 5}}, {"connected": {}}],
    [{"bipartite": {}}, {"free": "C4"}, {"connected": {}}],
    [{"colourable": {"colours": 3}}, {"connected": {}}, {"free": "K4"}],
    [{"degree": {"exactly": 3}}, {"connected": {}}],
    [{"planar": {}}, {"connected": {}}, {"edges": {"exactly": 9}}],
    [{"planar": {}}, {"degree": {"max": 3}}, {"connected": {}}],
    [{"free": "triangle"}, {"diameter": {"max": 2}}],
    [{"k_connected": {"nodes": 2}}, {"outerplanar": {}}],
    [{"lobster": {}}, {"connected": {}}, {"degree": {"max": 3}}],
    [{"free": "K4"}, {"independence": {"max": 3}}],
]


EVEN = [items for items in SETS if {"degree": {"exactly": 3}} in items]
"""Sets that no graph on five nodes satisfies: their deviation is measured on six."""


class Settings(NamedTuple):
    """The run.

    Attributes:
        n: graphs per set.
        only: substring of the sets to run; empty for all.
        seed: of the draws.
    """

    n: int = 1000
    only: str = ""
    seed: int = 0


def compiled(items: Sequence[dict[str, Any]], nodes: int) -> Compiled:
    """The constraints on so many nodes."""
    alphabet = GraphAlphabet.make(Grid.make(nodes))
    length = alphabet.grid.length()
    return compile_constraints([parse_constraint(item, alphabet) for item in items], Layout(alphabet, length, length))


def draws(problem: Compiled, n: int, seed: int) -> tuple[list[str], float]:
    """First witnesses of an empty canvas under equal odds, and the seconds that the second call took."""
    length = problem.layout.max_length
    program = problem.program(length)
    canvas = jnp.full((n, length), 2, jnp.int32)
    log_p = jnp.full((n, length, 2), np.log(0.5), jnp.float32)
    condition = jax.jit(type(program).condition)
    for repeat in range(2):
        started = time.perf_counter()
        keys = jax.random.split(jax.random.key(seed + repeat), n)
        found = condition(program, keys, log_p, canvas, jnp.full((n,), length, jnp.int32), canvas)
        witness = np.asarray(found.witness)
        seconds = time.perf_counter() - started
    return [problem.layout.alphabet.decode(row) for row in witness], seconds


def deviation(constraints: Sequence[Constraint], grid: Grid, texts: Sequence[str], seed: int) -> tuple[float, float]:
    """Total variation of isomorphism classes to the uniform law over labelled graphs, and that of exact draws."""
    every = ("".join(letters) for letters in itertools.product("01", repeat=grid.length()))
    classes = Counter(
        certificate(to_graph(text, grid)) for text in every if all(item.holds(text).ok for item in constraints)
    )
    law = {name: count / classes.total() for name, count in classes.items()}
    rng = np.random.default_rng(seed)

    def variation(counts: Counter[bytes]) -> float:
        return 0.5 * sum(abs(counts[name] / len(texts) - law.get(name, 0.0)) for name in {*law, *counts})

    exact = [Counter(dict(zip(law, rng.multinomial(len(texts), list(law.values())), strict=True))) for _ in range(20)]
    found = Counter(certificate(to_graph(text, grid)) for text in texts)
    return variation(found), float(np.mean([variation(counts) for counts in exact]))


def main(words: Sequence[str]) -> None:
    """Print the table."""
    settings = read_settings(Settings(), words)
    columns = ("constraints", "route", "obey, 8 nodes", "s per 100", "variation, 5 nodes", "of exact draws")
    table = Table(*columns, title=f"{settings.n} draws a set")
    for items in track([items for items in SETS if settings.only in str(items)], console=Console(stderr=True)):
        large, small = compiled(items, 8), compiled(items, 6 if items in EVEN else 5)
        texts, seconds = draws(large, settings.n, settings.seed)
        kept = sum(all(part.constraint.holds(text).ok for part in large.parts) for text in texts)
        few, _ = draws(small, settings.n, settings.seed)
        rules = [part.constraint for part in small.parts]
        found, exact = deviation(rules, small.layout.alphabet.grid, few, settings.seed)  # pyright: ignore[reportAttributeAccessIssue]
        words_ = "; ".join(rule.describe() for rule in rules)
        routes = ", ".join(dict.fromkeys(str(row["route"]) for row in large.explain()))
        cells = (words_, routes, f"{kept} of {len(texts)}", f"{100 * seconds / settings.n:.2f}")
        table.add_row(*cells, f"{found:.3f}", f"{exact:.3f}")
    Console(width=140).print(table)


if __name__ == "__main__":
    run_main(main)
