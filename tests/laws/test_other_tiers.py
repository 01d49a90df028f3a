"""The laws of the sampler over tiers that are no automaton: every planner and process, graphs and boards."""

import numpy as np
import pytest

from seqdiff.constraints import compile_constraints, parse_constraint
from seqdiff.constraints.graph import compile as tiers
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.grid import GraphAlphabet, Grid
from seqdiff.core.layout import Layout
from seqdiff.domains.sudoku.board import Board
from seqdiff.process.noise import PROCESSES
from tests.helpers import EVERY_PLANNER
from tests.laws.test_satisfaction import sample_neighbours

GRAPH = GraphAlphabet.make(Grid.make(4))
BOARD = Board(4)
UNITS = [[cell + 1 for cell in unit] for unit in BOARD.units]
CASES: dict[str, tuple[Alphabet, list[dict], str]] = {
    "vetted": (GRAPH, [{"girth": {"min": 4}}, {"connected": {}}], "vetted"),
    "tree": (GRAPH, [{"tree": {}}], "spanning tree"),
    "witness": (GRAPH, [{"degree": {"max": 2}}, {"connected": {}}], "witness"),
    "search": (BOARD.alphabet, [{"all_different": {"groups": UNITS}}], "search"),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    alphabet, items, route = CASES[request.param]
    length = 6 if alphabet is GRAPH else BOARD.cells
    patch = pytest.MonkeyPatch()
    patch.setattr(tiers, "MOST", 0)
    patch.setattr("seqdiff.constraints.distinct_tier.FEW", 0)
    constraints = [parse_constraint(item, alphabet) for item in items]
    compiled = compile_constraints(constraints, Layout(alphabet, length, length))
    patch.undo()
    assert compiled.explain()[0]["route"] == route
    return compiled, constraints, alphabet, length


FAST = ("random", "remdm", "gibbs", "maskgit")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in sorted(EVERY_PLANNER)]
)
@pytest.mark.parametrize("process", ["absorbing", pytest.param("uniform", marks=pytest.mark.slow)])
def test_every_design_obeys(case, name, process):
    compiled, constraints, alphabet, length = case
    planner = EVERY_PLANNER[name]
    if name == "order" and length > 5:
        pytest.skip("the order of this planner is for five positions")
    drawn = sample_neighbours(compiled, alphabet, length, 3, 1.0, planner, steps=3, rows=6, uniform=PROCESSES[process])
    assert all(len(text) == length for text in drawn)
    assert [item.holds(text).reason for text in drawn for item in constraints if not item.holds(text).ok] == []


def test_a_design_depends_on_its_row_only(case):
    compiled, _, alphabet, length = case
    options = {"steps": 2, "uniform": 0.0}
    many = sample_neighbours(compiled, alphabet, length, 5, 1.0, EVERY_PLANNER["random"], rows=5, **options)
    few = sample_neighbours(compiled, alphabet, length, 5, 1.0, EVERY_PLANNER["random"], rows=2, **options)
    assert many[:2] == few
    assert len(set(many)) > 1
    assert np.all([text in many for text in few])
