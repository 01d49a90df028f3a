"""Benchmarks: each prints its table and can write it as JSON; speed is a ratio within one run."""

from collections.abc import Mapping
from typing import NamedTuple


class Program(NamedTuple):
    """A benchmark or study program.

    Attributes:
        module: with ``main(words)``, which returns its rows or None.
        out: what its own setting ``out`` should be, inside of the run's folder; empty where it has none.
    """

    module: str
    out: str = ""


_HERE, _ABOVE = "seqdiff.experiments.bench", "seqdiff.experiments"
PROGRAMS: Mapping[str, Program] = {
    "antibody": Program(f"{_HERE}.antibody", "rows.json"),
    "ehrlich": Program(f"{_ABOVE}.ehrlich"),
    "extremal": Program(f"{_ABOVE}.extremal"),
    "foreign_speed": Program(f"{_HERE}.foreign_speed", "rows.json"),
    "graph_metrics": Program(f"{_HERE}.graph_metrics"),
    "graphs": Program(f"{_HERE}.graphs"),
    "graphs_evaluate": Program(f"{_ABOVE}.graphs.evaluate"),
    "graphs_train": Program(f"{_ABOVE}.graphs.train", "."),
    "inverse_folding": Program(f"{_HERE}.inverse_folding", "rows.json"),
    "loader": Program(f"{_HERE}.loader", "rows.json"),
    "loop_overhead": Program(f"{_HERE}.loop_overhead", "rows.json"),
    "quality": Program(f"{_HERE}.quality", "rows.json"),
    "specs": Program(f"{_HERE}.specs", "rows.csv"),
    "speculative": Program(f"{_HERE}.speculative", "rows.json"),
    "sudoku_evaluate": Program(f"{_ABOVE}.sudoku.evaluate", "rows.csv"),
    "sudoku_solve": Program(f"{_ABOVE}.sudoku.solve"),
    "sudoku_train": Program(f"{_ABOVE}.sudoku.train", "."),
}
