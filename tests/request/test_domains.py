"""Graphs and boards through the front door: specs, files, verdicts, refusals."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import yaml

import seqdiff
from seqdiff.core.errors import InputError
from seqdiff.domains.graph import read_graphs
from seqdiff.request import output
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec

pytest.importorskip("rustworkx", reason="the extra 'graphs' is not installed")
SPECS = sorted(
    path
    for folder in ("graphs", "sudoku")
    for path in (Path(__file__).parents[2] / "experiments/specs" / folder).glob("*.yaml")
)
PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
FAST = {"planner": "random", "steps": 3}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_compile_and_read_back(path):
    spec = DesignSpec.from_mapping(yaml.safe_load(path.read_text()), folder=path.parent)
    again = DesignSpec.from_mapping(yaml.safe_load(spec.to_yaml()))
    assert again == spec
    problem = prepare(spec)
    assert all(row["route"] for row in problem.compiled.explain())
    assert len(problem.compiled.lengths())


@pytest.mark.slow
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_specs_design(path):
    designs = seqdiff.design(path)
    assert designs.satisfied == len(designs)


def test_a_graph_design_is_written_as_graph6(tmp_path):
    designs = seqdiff.design(
        domain="graph", nodes=7, n=3, constraints=[{"connected": {}}, {"free": "triangle"}], sampling=FAST
    )
    assert designs.satisfied == 3
    assert all(isinstance(graph, nx.Graph) and nx.is_connected(graph) for graph in designs.objects)
    output.write(designs, tmp_path / "run")
    graphs = read_graphs(tmp_path / "run" / "designs.g6")
    assert [sorted(graph.edges) for graph in graphs] == [sorted(graph.edges) for graph in designs.objects]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<circle" in page
    assert "largest degree" in page


def test_design_i_depends_on_the_seed_and_i_only():
    spec = {
        "domain": "graph",
        "nodes": 6,
        "constraints": [{"degree": {"min": 1, "max": 3}}, {"connected": {}}, {"edges": {"exactly": 7}}],
        "sampling": FAST,
    }
    three = seqdiff.design(spec, n=3)
    one_by_one = seqdiff.design(spec, n=2, sampling=FAST | {"batch": 1})
    assert three.sequences[:2] == one_by_one.sequences
    assert three.sequences == seqdiff.design(spec, n=3).sequences


def test_a_graph_is_completed(tmp_path):
    partial = nx.Graph([(0, 1), (1, 2)])
    partial.add_nodes_from(range(5))
    nx.write_graph6(partial, tmp_path / "partial.g6", header=False)
    spec = DesignSpec.from_mapping(
        {"domain": "graph", "complete": "partial.g6", "constraints": [{"tree": {}}], "n": 4, "sampling": FAST},
        folder=tmp_path,
    )
    designs = seqdiff.design(spec)
    assert designs.satisfied == 4
    assert all(graph.has_edge(0, 1) and graph.has_edge(1, 2) for graph in designs.objects)


def test_labels_of_nodes_and_edges(tmp_path):
    designs = seqdiff.design(
        domain="graph",
        nodes=4,
        edge_labels="sd",
        node_labels="CNO",
        constraints=[{"connected": {}}, {"count": {"letters": "d", "max": 1}}],
        n=3,
        sampling=FAST,
    )
    assert designs.satisfied == 3
    assert all(set(nx.get_node_attributes(graph, "label").values()) <= set("CNO") for graph in designs.objects)
    output.write(designs, tmp_path / "run")
    assert (tmp_path / "run" / "designs.graphml").exists()


@pytest.mark.parametrize(
    "keys",
    [
        {"encoding": "prufer", "nodes": 9},
        {"encoding": "sparse", "nodes": 30, "window": 3, "slots": 1},
        {"encoding": "dag", "nodes": 5},
        {"encoding": "bipartite", "nodes": [2, 3], "constraints": [{"degree": {"min": 1}}]},
        {"nodes": [3, 6], "constraints": [{"connected": {}}]},
    ],
    ids=lambda keys: keys.get("encoding", "sizes"),
)
def test_encodings(keys):
    designs = seqdiff.design(domain="graph", n=4, sampling=FAST, **keys)
    assert designs.satisfied == 4
    graphs = designs.objects
    assert len({tuple(sorted(graph.edges)) for graph in graphs}) > 1
    if keys.get("encoding") == "prufer":
        assert all(nx.is_tree(graph) and len(graph) == 9 for graph in graphs)
    if keys.get("encoding") == "sparse":
        assert all(nx.is_connected(graph) and len(graph) == 30 for graph in graphs)
    if keys.get("encoding") == "dag":
        assert all(nx.is_directed_acyclic_graph(graph) for graph in graphs)


def test_a_sudoku_with_one_solution_needs_no_model(tmp_path):
    designs = seqdiff.design(domain="sudoku", clues=PUZZLE, n=2)
    assert designs.guarantee == "exact"
    assert designs.satisfied == 2
    assert {design.calls for design in designs} == {0}
    assert designs.objects[0].sum() == 9 * 45
    output.write(designs, tmp_path / "run")
    assert (tmp_path / "run" / "designs.txt").read_text().startswith("5 3 4 | 6 7 8 | 9 1 2")
    assert "font-weight" in (tmp_path / "run" / "report.html").read_text()


def test_boards_of_four_are_uniform():
    """288 boards, equally likely: 2,000 draws see nearly all, none more than three times as often as it should be."""
    designs = seqdiff.design(domain="sudoku", size=4, n=2000, sampling=FAST | {"batch": 500})
    seen = np.unique(designs.sequences, return_counts=True)[1]
    assert designs.satisfied == 2000
    assert len(seen) > 280
    assert seen.max() < 3 * 2000 / 288


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"domain": "graphs"}, "did you mean 'graph'"),
        ({"domain": "graph"}, "needs 'nodes'"),
        ({"domain": "graph", "nodes": 4, "length": 6}, "unknown key 'length'"),
        ({"domain": "graph", "nodes": 500}, "2 to 128"),
        ({"domain": "graph", "nodes": 5, "window": 3}, "belongs to encoding: sparse"),
        ({"domain": "graph", "nodes": 5, "constraints": [{"dag": {}}]}, "unknown constraint"),
        ({"domain": "graph", "nodes": 5, "directed": True, "constraints": [{"planar": {}}]}, "undirected"),
        ({"length": 10, "constraints": [{"planar": {}}]}, "set domain: graph"),
        ({"domain": "sudoku", "clues": PUZZLE.replace("53", "55")}, "stands twice in row 1"),
        ({"domain": "sudoku", "clues": PUZZLE[:-1]}, "80 cells"),
        ({"domain": "sudoku", "size": 5}, "size=5"),
    ],
)
def test_mistakes_are_one_line(keys, words):
    with pytest.raises(InputError, match=words) as caught:
        prepare(DesignSpec.from_mapping(keys))
    assert "\n" not in str(caught.value)


def test_contradictory_clues_say_why():
    wrong = "5" + PUZZLE[1:8] + "." + PUZZLE[9:]
    wrong = wrong.replace("53..7....", "53..7.8.4")
    with pytest.raises(InputError, match="no letters differ as asked"):
        prepare(DesignSpec.from_mapping({"domain": "sudoku", "clues": wrong}))
