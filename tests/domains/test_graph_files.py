"""Graphs in and out: canvas texts, the sparse encoding, files and certificates."""

import gzip
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqdiff.core.errors import InputError
from seqdiff.core.grid import Grid
from seqdiff.domains.graph.convert import SparseCode, node_order, prufer_to_graph, to_graph, to_text
from seqdiff.domains.graph.files import read_graphs, write_graphs

DATA = Path(__file__).parents[3] / "shared" / "data" / "graphs"
PETERSEN = "IheA@GUAo"
HOSTS = [(i, j) for i in range(3) for j in range(3, 7)]


def same(a: nx.Graph, b: nx.Graph) -> bool:
    return nx.utils.graphs_equal(a, b)


@st.composite
def graphs(draw, directed: bool = False, edges: str = "01", labels: str = "", least: int = 1) -> nx.Graph:
    nodes = draw(st.integers(least, 9))
    graph = nx.DiGraph() if directed else nx.Graph()
    for node in range(nodes):
        graph.add_node(node, **({"label": draw(st.sampled_from(labels))} if labels else {}))
    for j in range(nodes):
        for i in range(nodes if directed else j):
            if i != j and (letter := draw(st.sampled_from(edges))) != edges[0]:
                graph.add_edge(i, j, **({"label": letter} if len(edges) > 2 else {}))
    return graph


@settings(max_examples=60, deadline=None)
@given(st.data())
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("edges", "labels"), [("01", ""), ("01", "ABC"), (".-=", "CNO")])
def test_text_round_trip(directed, edges, labels, data):
    graph = data.draw(graphs(directed, edges, labels))
    grid = Grid.make(9, directed=directed, edge_letters=edges, node_letters=labels)
    back = to_graph(to_text(graph, grid), grid)
    assert same(back, graph)


def test_graph6_is_the_text_of_the_canvas():
    grid = Grid.make(10)
    petersen = nx.from_graph6_bytes(PETERSEN.encode())
    bits = "".join(f"{ord(c) - 63:06b}" for c in PETERSEN[1:])
    assert to_text(petersen, grid) == bits[:45]


def test_names_come_back():
    graph = nx.path_graph(["x", "c", 5])
    grid = Grid.make(4)
    assert to_text(graph, grid) == "101"
    back = to_graph("101", grid, names=node_order(graph))
    assert dict(back.nodes(data="name")) == {0: "x", 1: "c", 2: 5}
    assert node_order(nx.Graph([(2, 0), (1, 0)])) == [0, 1, 2]


def labelled(node: str | None = None, edge: str | None = None) -> nx.Graph:
    graph = nx.path_graph(3)
    for where, label in ((graph.nodes, node), (graph.edges, edge)):
        for key in where:
            where[key]["label"] = label
    return graph


@pytest.mark.parametrize(
    ("graph", "grid", "message"),
    [
        (nx.MultiGraph([(0, 1)]), Grid.make(3), "multigraph"),
        (nx.Graph([(0, 1), (1, 1)]), Grid.make(3), "self-loop at node 1"),
        (nx.DiGraph([(0, 1)]), Grid.make(3), "graph is directed, but the encoding is undirected"),
        (nx.Graph([(0, 1)]), Grid.make(3, directed=True), "graph is undirected, but the encoding is directed"),
        (nx.path_graph(5), Grid.make(4), "has 5 nodes, but the encoding takes 1 to 4"),
        (nx.Graph(), Grid.make(4), "has 0 nodes"),
        (nx.empty_graph(2), Grid.make(7, hosts=HOSTS), "2 nodes have no text of their own .* up to 3"),
        (nx.path_graph(7), Grid.make(7, hosts=HOSTS), "edge 0-1 .* is not one of the pairs"),
        (labelled(edge="2"), Grid.make(3), "label '2', which is not one of 1"),
        (labelled(), Grid.make(3, edge_letters="012"), "edge 0-1 has no label; give it one of 1, 2"),
        (labelled(edge="0"), Grid.make(3, edge_letters="012"), "label '0', which is not one of 1, 2"),
        (labelled(edge="12"), Grid.make(3, edge_letters="012"), "label '12'"),
        (labelled(), Grid.make(3, node_letters="CN"), "node 0 has no label; the encoding takes C, N"),
        (labelled(node="X"), Grid.make(3, node_letters="CN"), "node 0 has the label 'X'"),
        (labelled(node="C"), Grid.make(3), "encoding has no node labels"),
    ],
)
def test_graphs_that_have_no_text(graph, grid, message):
    with pytest.raises(InputError, match=message) as error:
        to_text(graph, grid)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        ("10", None, "2 positions are no whole graph"),
        ("1_1", None, r"'_' at position 2 \(pair 0-2\)"),
        ("101", "ab", "2 node names for a graph of 3 nodes"),
    ],
)
def test_texts_that_are_no_graph(text, names, message):
    with pytest.raises(InputError, match=message):
        to_graph(text, Grid.make(4), names)


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_prufer(code):
    tree = prufer_to_graph(code)
    assert nx.is_tree(tree)
    assert nx.to_prufer_sequence(tree) == code


def test_prufer_limits():
    assert sorted(prufer_to_graph([]).edges) == [(0, 1)]
    with pytest.raises(InputError, match="7 at place 2 is not one of the nodes 0 to 3"):
        prufer_to_graph([1, 7])


@settings(max_examples=100, deadline=None)
@given(graphs(), st.sampled_from(["bfs", "cuthill_mckee"]))
def test_sparse_round_trip(graph, order):
    if not nx.is_connected(graph):
        graph = nx.compose(graph, nx.path_graph(len(graph)))
    code = SparseCode.fit([graph], order)
    text = code.encode(graph, order)
    assert len(text) == code.length(len(graph))
    assert nx.is_isomorphic(code.decode(text), graph)
    assert code.encode(code.decode(text), "bfs") or len(graph) == 1
    assert code.allowed[np.arange(len(text)), code.alphabet.encode(text)].all()


@settings(max_examples=200, deadline=None)
@given(st.text("0123", min_size=21, max_size=21))
def test_every_sparse_text_is_a_connected_graph(text):
    code = SparseCode(nodes=8, window=3, slots=2)
    graph = code.decode(text)
    assert len(graph) == 8
    assert nx.is_connected(graph)
    assert not graph.is_multigraph()
    assert nx.number_of_selfloops(graph) == 0


def test_sparse_wide_window():
    code = SparseCode(nodes=301, window=300, slots=0)
    star = nx.star_graph(300)
    assert nx.is_isomorphic(code.decode(code.encode(star, "bfs")), star)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.star_graph(6), "in the order cuthill_mckee the graph needs window 5 and slots 0"),
        (nx.complete_graph(4), "needs window 3 and slots 2, but the encoding has window 2 and slots 1"),
        (nx.path_graph(9), "has 9 nodes, but the encoding takes at most 8"),
        (nx.Graph([(0, 1), (2, 3)]), "connected graphs only"),
        (nx.DiGraph([(0, 1)]), "is directed"),
        (labelled(node="A"), "has labels"),
    ],
)
def test_sparse_refusals(graph, message):
    with pytest.raises(InputError, match=message):
        SparseCode(nodes=8, window=2, slots=1).encode(graph)


def test_sparse_shape_refusals():
    with pytest.raises(InputError, match="window 1 to"):
        SparseCode(nodes=8, window=0, slots=1)
    with pytest.raises(InputError, match="4 letters: a text has 3 per node"):
        SparseCode(nodes=8, window=2, slots=2).decode("1001")
    with pytest.raises(InputError, match="did you mean 'bfs'"):
        SparseCode(nodes=8, window=2, slots=2).encode(nx.path_graph(3), "bf")


PLAIN = [".g6", ".s6", ".edgelist", ".txt", ".tsv", ".graphml", ".json"]


@pytest.mark.parametrize("suffix", [*PLAIN, *(f"{suffix}.gz" for suffix in PLAIN)])
def test_file_round_trip(suffix, tmp_path):
    path = tmp_path / f"petersen{suffix}"
    petersen = nx.Graph(nx.from_graph6_bytes(PETERSEN.encode()).edges)
    write_graphs(path, [petersen])
    (back,) = read_graphs(path)
    assert set(back) == set(range(10))
    assert set(map(frozenset, back.edges)) == set(map(frozenset, petersen.edges))
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == suffix.endswith(".gz")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(), min_size=2, max_size=4))
@pytest.mark.parametrize("suffix", [".g6", ".s6", ".graphml", ".json"])
def test_many_graphs(suffix, tmp_path_factory, many):
    path = tmp_path_factory.mktemp("many") / f"many{suffix}"
    write_graphs(path, many)
    back = read_graphs(path)
    assert [(sorted(g), sorted(map(sorted, g.edges))) for g in back] == [
        (sorted(g), sorted(map(sorted, g.edges))) for g in many
    ]


@pytest.mark.parametrize("suffix", [".graphml", ".json"])
@pytest.mark.parametrize("directed", [False, True])
def test_labels_and_directions_in_files(suffix, directed, tmp_path):
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from((node, {"label": label}) for node, label in zip("abc", "CNO", strict=True))
    graph.add_edges_from([("a", "b", {"label": "="}), ("b", "c", {"label": "-"})])
    write_graphs(tmp_path / f"g{suffix}", [graph])
    (back,) = read_graphs(tmp_path / f"g{suffix}")
    assert back.is_directed() == directed
    assert same(back, graph)


def test_edge_labels_in_edge_lists(tmp_path):
    (tmp_path / "a.txt").write_text("# made by hand\n0 1 x\n1 2 y  # the last\n\n")
    (graph,) = read_graphs(tmp_path / "a.txt")
    assert graph[1][2] == {"label": "y"}
    write_graphs(tmp_path / "b.tsv", [graph])
    assert (tmp_path / "b.tsv").read_text() == "0\t1\tx\n1\t2\ty\n"


def test_edge_lists_of_networkx_and_others(tmp_path):
    nx.write_edgelist(nx.cycle_graph(5), tmp_path / "nx.edgelist")
    assert same(read_graphs(tmp_path / "nx.edgelist")[0], nx.cycle_graph(5))
    (tmp_path / "both.txt").write_text("1 0\n0 1\nb 0\n")
    (graph,) = read_graphs(tmp_path / "both.txt")
    assert graph.number_of_edges() == 2
    assert set(graph) == {"0", "1", "b"}


def test_golden_files(tmp_path):
    write_graphs(tmp_path / "a.g6", [nx.path_graph(3), nx.complete_graph(4)])
    assert (tmp_path / "a.g6").read_text() == "Bg\nC~\n"
    write_graphs(tmp_path / "a.s6", [nx.path_graph(3)])
    assert (tmp_path / "a.s6").read_text() == ":Bd\n"
    (tmp_path / "b.g6").write_bytes(b">>graph6<<Bg\r\n\r\nC~")
    assert [len(graph) for graph in read_graphs(tmp_path / "b.g6")] == [3, 4]
    (tmp_path / "links.json").write_text('{"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}')
    assert sorted(read_graphs(tmp_path / "links.json")[0].edges) == [(0, 1)]


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node id="&lol2;"/></graph></graphml>"""
GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}</graphml>'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.g6", b"Bg\nC\n", "a.g6, line 2: no graph6"),
        ("a.g6", b"Bg\n:An\n", "a.g6, line 2 is sparse6; call the file .s6"),
        ("a.g6", b"&B\\o\n", "line 1 is digraph6, which is not read"),
        ("a.g6", b"0 1\n", "line 1: graph6 and sparse6 consist of"),
        ("a.g6", b"\n", "a.g6 has no graphs"),
        ("a.g6.gz", b"Bg\n", "damaged archive"),
        ("a.s6", b"Bg\n", "line 1 does not start with ':'"),
        ("a.s6", b":~~~~~~~~\n", "announces 68719476735 nodes; at most 100000 are read"),
        ("a.s6", nx.to_sparse6_bytes(nx.MultiGraph([(0, 1), (0, 1)]), header=False), "a.s6, line 1 is a multigraph"),
        ("a.s6", nx.to_sparse6_bytes(nx.Graph([(0, 1), (1, 1)]), header=False), "a.s6, line 1 has a self-loop"),
        ("a.txt", b"0 1\n0 1\n", "line 2: edge 0 1 stands at line 1 already"),
        ("a.txt", b"0 1 a\n1 0 b\n", "line 2: edge 1 0 stands at line 1 already"),
        ("a.txt", b"0 1\n2 2\n", "line 2: a self-loop at node 2"),
        ("a.txt", b"0 1\n2\n", "line 2: 1 columns"),
        ("a.tsv", b"0 1\n", "line 1: 1 columns; an edge is two nodes and maybe a label, a tab between"),
        ("a.tsv", b"source\ttarget\n0\t1\n", "line 1: 'source target' looks like a heading"),
        ("a.txt", b"\xff\xfe0 1", "byte 1 is no UTF-8"),
        ("a.graphml", LAUGHS.encode(), "a.graphml, line 2: a document type"),
        ("a.graphml", LAUGHS.replace("1.0", '1.0" encoding="UTF-16').encode("utf-16"), "line 2: a document type"),
        ("a.graphml", b"<graphml>", "is no XML: no element found: line 1"),
        ("a.graphml", GRAPHML.format("").encode(), "a.graphml has no graphs"),
        (
            "a.graphml",
            GRAPHML.format("<graph><edge source='a' target='a'/></graph>").encode(),
            "graph 1 has a self-loop",
        ),
        ("a.graphml", GRAPHML.format("<graph><hyperedge/></graph>").encode(), "no GraphML that networkx reads"),
        (
            "a.graphml",
            GRAPHML.format("<graph><edge source='a' target='b'/><edge source='a' target='b'/></graph>").encode(),
            "graph 1 is a multigraph",
        ),
        ("a.json", b"{", "a.json is no JSON: .* line 1"),
        ("a.json", b"[1]", "graph 1 is no node-link data"),
        ("a.json", b'{"nodes": [{"id": 0}], "edges": [{"source": 0}]}', "graph 1: no node-link data"),
        ("a.json", b'{"nodes": [{"id": 0}], "edges": [{"source": 0, "target": 1}]}', "has 1 nodes, but .* make 2"),
        ("a.json", b'{"nodes": [], "edges": [], "multigraph": true}', "graph 1 is a multigraph"),
        (
            "a.json",
            b'{"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}, {"source": 1, "target": 0}]}',
            "graph 1 lists an edge twice",
        ),
        ("a.gml", b"", "the suffix must be one of .g6, .s6"),
    ],
)
def test_bad_files(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_graphs(tmp_path / name)
    assert "\n" not in str(error.value)


def test_defaults_of_graphml(tmp_path):
    keys = "<key id='k' for='node' attr.name='label' attr.type='string'><default>C</default></key>"
    body = "<graph><node id='0'/><node id='1'><data key='k'>N</data></node></graph>"
    (tmp_path / "a.graphml").write_text(GRAPHML.format(keys + body))
    assert dict(read_graphs(tmp_path / "a.graphml")[0].nodes(data="label")) == {0: "C", 1: "N"}


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read_graphs(tmp_path / "none.g6")


@pytest.mark.parametrize(
    ("name", "many", "message"),
    [
        ("a.g6", [nx.DiGraph([(0, 1)])], "graph 1 is directed"),
        ("a.g6", [nx.path_graph(2), labelled(node="C")], "graph 2 has node labels"),
        ("a.txt", [labelled(node="C")], "graph 1 has node labels"),
        ("a.s6", [labelled(edge="C")], "graph 1 has edge labels"),
        ("a.txt", [nx.path_graph(2)] * 2, "holds one graph, not 2"),
        ("a.txt", [nx.empty_graph(3)], "3 isolated nodes"),
        ("a.txt", [nx.path_graph(["a b", "c"])], "the name or label 'a b' is empty or has blanks"),
        ("a.txt", [labelled(edge="#")], "the name or label '#'"),
        ("a.json", [nx.MultiGraph([(0, 1)])], "graph 1 is a multigraph"),
        ("a.json", [nx.Graph([(0, 1, {"label": object()})])], "JSON cannot hold an attribute"),
        ("a.graphml", [nx.Graph([(0, 1, {"label": [1]})])], "GraphML cannot hold an attribute"),
    ],
)
def test_graphs_that_a_format_cannot_hold(name, many, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_graphs(tmp_path / name, many)
    assert not list(tmp_path.iterdir())


def test_archives_are_reproducible(tmp_path):
    for name in ("a.g6.gz", "b.g6.gz"):
        write_graphs(tmp_path / name, [nx.path_graph(3)])
    assert (tmp_path / "a.g6.gz").read_bytes() == (tmp_path / "b.g6.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.g6.gz").read_bytes()) == b"Bg\n"


@pytest.mark.skipif(not DATA.exists(), reason="the benchmark graphs are not beside the repository")
@pytest.mark.parametrize("name", ["planar_test", "tree_test", "lobster_test", "community20_all"])
def test_benchmark_files_come_back_byte_for_byte(name, tmp_path):
    source = DATA / f"{name}.g6"
    write_graphs(tmp_path / "a.g6", read_graphs(source))
    assert (tmp_path / "a.g6").read_bytes() == source.read_bytes()
