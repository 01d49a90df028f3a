"""Graph files in and out, through networkx. The suffix says the format; ``.gz`` may follow any of them:

- ``.g6`` graph6 and ``.s6`` sparse6: one undirected graph a line, without names or labels;
- ``.edgelist``, ``.txt``, ``.tsv``: one undirected graph, an edge a line: two nodes, and a label where edges have one
  (TSV: separated by tabs). Lines from ``#`` on are comments. Isolated nodes cannot be written;
- ``.graphml``: any number of graphs. Document types and entities are refused (they can expand without end);
- ``.json``: node-link data, one graph or a list of them.

Node names that are all whole numbers are read as numbers. Multigraphs and self-loops are refused, and so is writing
what a format would lose (directions, labels). Refusals are one line that names the file and the line or the graph.
"""

import gzip
import io
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import networkx as nx
from networkx.readwrite.graph6 import data_to_n
from networkx.readwrite.graphml import GraphMLReader, GraphMLWriter

from seqdiff.core.errors import InputError
from seqdiff.domains.graph.convert import LABEL, check_simple, node_order

MAX_NODES = 100_000  # a line of a few bytes can announce 2^36 nodes
Found = tuple[str, nx.Graph]


def read_graphs(path: str | Path) -> list[nx.Graph]:
    """All graphs of a file; ``Graph`` or ``DiGraph`` each.

    Raises:
        InputError: see the module's rules.
    """
    path = Path(path)
    form = _format(path)
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is a damaged archive ({error}); get the file again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    graphs = []
    for where, graph in form.read(data, path):
        check_simple(graph, where)
        graphs.append(graph)
    if not graphs:
        raise InputError(f"{path} has no graphs")
    return graphs


def write_graphs(path: str | Path, graphs: Iterable[nx.Graph]) -> None:
    """Write graphs; the file appears whole or not at all.

    Raises:
        InputError: the format cannot hold a graph.
    """
    path = Path(path)
    form = _format(path)
    graphs = list(graphs)
    for number, graph in enumerate(graphs, 1):
        where = f"{path}: graph {number}"
        check_simple(graph, where)
        if graph.is_directed() and not form.directed:
            raise InputError(f"{where} is directed, which this format cannot say; write .json or .graphml")
        if lost := _labelled(graph) - form.labels:
            raise InputError(f"{where} has {min(lost)} labels, which this format cannot hold; write .json or .graphml")
    data = form.write(graphs, path)
    handle, staging = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    except BaseException:
        os.unlink(staging)
        raise


def _labelled(graph: nx.Graph) -> set[str]:
    """Which of nodes and edges have labels."""
    found = {"node"} if any(label is not None for _, label in graph.nodes(data=LABEL)) else set()
    return found | ({"edge"} if any(label is not None for *_, label in graph.edges(data=LABEL)) else set())


def _read_graph6(data: bytes, path: Path) -> Iterator[Found]:
    for where, line in _packed_lines(data, path, b">>graph6<<"):
        if line[:1] in (b":", b"&"):
            kind = "sparse6; call the file .s6" if line[:1] == b":" else "digraph6, which is not read; use .json"
            raise InputError(f"{where} is {kind}")
        with _refusing(where, "no graph6"):
            yield where, nx.from_graph6_bytes(line)


def _read_sparse6(data: bytes, path: Path) -> Iterator[Found]:
    for where, line in _packed_lines(data, path, b">>sparse6<<"):
        if line[:1] != b":":
            raise InputError(f"{where} does not start with ':' as sparse6 does; graph6 files are called .g6")
        with _refusing(where, "no sparse6"):
            nodes, _ = data_to_n([c - 63 for c in line[1:9]])
        if nodes > MAX_NODES:
            raise InputError(f"{where} announces {nodes} nodes; at most {MAX_NODES} are read")
        with _refusing(where, "no sparse6"):
            yield where, nx.from_sparse6_bytes(line)


def _packed_lines(data: bytes, path: Path, header: bytes) -> Iterator[tuple[str, bytes]]:
    """Lines that hold a graph each; the optional header may stand before the first."""
    for number, line in enumerate(data.splitlines(), 1):
        line = line.strip().removeprefix(header if number == 1 else b"")
        if any(not 63 <= c <= 126 for c in line.removeprefix(b":").removeprefix(b"&")):
            raise InputError(f"{path}, line {number}: graph6 and sparse6 consist of the characters '?' to '~' only")
        if line:
            yield f"{path}, line {number}", line


def _write_graph6(graphs: Sequence[nx.Graph], path: Path) -> bytes:
    return b"".join(nx.to_graph6_bytes(_in_order(graph), header=False) for graph in graphs)


def _write_sparse6(graphs: Sequence[nx.Graph], path: Path) -> bytes:
    return b"".join(nx.to_sparse6_bytes(_in_order(graph), header=False) for graph in graphs)


def _in_order(graph: nx.Graph) -> nx.Graph:
    """Bare, on the nodes 0 to n - 1 in this order: networkx packs nodes as they were added, whatever their numbers."""
    number = {node: i for i, node in enumerate(node_order(graph))}
    bare = nx.empty_graph(len(graph))
    bare.add_edges_from((number[u], number[v]) for u, v in graph.edges)
    return bare


def _read_edges(data: bytes, path: Path) -> Iterator[Found]:
    """One graph; an undirected edge may be listed in both directions, but not twice in one."""
    delimiter = "\t" if ".tsv" in path.suffixes else None
    lines: dict[tuple[str, str], int] = {}
    graph = nx.Graph()
    for number, line in enumerate(_text(data, path).splitlines(), 1):
        where = f"{path}, line {number}"
        fields = [field.strip() for field in line.split("#")[0].strip().split(delimiter)]
        if not any(fields):
            continue
        if len(fields) not in (2, 3) or not all(fields):
            apart = "a tab" if delimiter else "blanks"
            raise InputError(f"{where}: {len(fields)} columns; an edge is two nodes and maybe a label, {apart} between")
        u, v = fields[:2]
        if u == v:
            raise InputError(f"{where}: a self-loop at node {u}; remove loops first")
        label = {LABEL: fields[2]} if len(fields) == 3 and fields[2] != "{}" else {}
        if (u, v) in lines or (graph.has_edge(u, v) and graph[u][v] != label):
            before = lines.get((u, v)) or lines[v, u]
            raise InputError(f"{where}: edge {u} {v} stands at line {before} already; multigraphs are not read")
        lines[u, v] = number
        graph.add_edge(u, v, **label)
    if not lines:
        return
    heading = next(iter(lines))
    if len(graph) > 2 and {node for node in graph if not _is_number(node)} == set(heading):
        raise InputError(
            f"{path}, line {lines[heading]}: {' '.join(heading)!r} looks like a heading; put '#' before it"
        )
    yield str(path), _numbered(graph)


def _write_edges(graphs: Sequence[nx.Graph], path: Path) -> bytes:
    if len(graphs) != 1:
        raise InputError(f"{path}: an edge list holds one graph, not {len(graphs)}; write .g6, .json or .graphml")
    graph, delimiter = graphs[0], "\t" if ".tsv" in path.suffixes else " "
    if lonely := list(nx.isolates(graph)):
        raise InputError(f"{path}: {len(lonely)} isolated nodes, which an edge list cannot hold; write .g6 or .json")
    rows = [[str(x) for x in row if x is not None] for row in graph.edges(data=LABEL)]
    if blank := [field for row in rows for field in row if not field or set(field) & set(" \t\r\n#")]:
        raise InputError(
            f"{path}: the name or label {blank[0]!r} is empty or has blanks or '#'; write .json or .graphml"
        )
    return "".join(f"{delimiter.join(row)}\n" for row in rows).encode()


def _read_graphml(data: bytes, path: Path) -> Iterator[Found]:
    _refuse_entities(data, path)
    reader = GraphMLReader()
    with _refusing(str(path), "no GraphML that networkx reads"):
        graphs = list(reader(path=io.BytesIO(data)))
    for number, graph in enumerate(graphs, 1):
        # networkx notes the defaults of attributes, but leaves it to others to apply them.
        for name, view in (("node_default", graph.nodes), ("edge_default", graph.edges)):
            defaults = graph.graph.pop(name)
            for key in view:
                view[key].update(defaults | view[key])
        yield f"{path}: graph {number}", _numbered(graph)


def _refuse_entities(data: bytes, path: Path) -> None:
    """Entities are declared in a document type; without one nothing can expand (the billion laughs attack)."""

    def refuse(*_: Any) -> NoReturn:
        line = parser.CurrentLineNumber
        raise InputError(f"{path}, line {line}: a document type (DOCTYPE, ENTITY) is not read; remove it")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no XML: {error}") from None


def _write_graphml(graphs: Sequence[nx.Graph], path: Path) -> bytes:
    writer = GraphMLWriter(encoding="utf-8")
    with _refusing(str(path), "GraphML cannot hold an attribute"):
        writer.add_graphs(graphs)
    file = io.BytesIO()
    writer.dump(file)
    return file.getvalue()


def _read_json(data: bytes, path: Path) -> Iterator[Found]:
    try:
        found = json.loads(_text(data, path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    for number, item in enumerate(found if isinstance(found, list) else [found], 1):
        where = f"{path}: graph {number}"
        if not isinstance(item, dict) or not isinstance(item.get("nodes"), list):
            raise InputError(f"{where} is no node-link data, an object with 'nodes' and 'edges'")
        if item.get("multigraph"):
            raise InputError(f"{where} is a multigraph; merge parallel edges and set multigraph to false")
        with _refusing(where, "no node-link data"):
            edges = "links" if "links" in item else "edges"
            graph = nx.node_link_graph(item, multigraph=False, edges=edges)
        if graph.number_of_edges() != len(item[edges]):
            raise InputError(f"{where} lists an edge twice; multigraphs are not read")
        if len(graph) != len(item["nodes"]):
            raise InputError(f"{where} has {len(item['nodes'])} nodes, but its edges and ids make {len(graph)}")
        yield where, graph


def _write_json(graphs: Sequence[nx.Graph], path: Path) -> bytes:
    found = [nx.node_link_data(graph, edges="edges") for graph in graphs]
    with _refusing(str(path), "JSON cannot hold an attribute"):
        return (json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n").encode()


def _numbered(graph: nx.Graph) -> nx.Graph:
    """Names that are all whole numbers as numbers."""
    if not all(_is_number(node) for node in graph):
        return graph
    return nx.relabel_nodes(graph, {node: int(node) for node in graph})


def _is_number(name: str) -> bool:
    """Whether a name is a whole number as it is printed; '007' is a name."""
    return name.isascii() and name.isdigit() and str(int(name)) == name


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: byte {error.start + 1} is no UTF-8") from None


@contextmanager
def _refusing(where: str, what: str) -> Iterator[None]:
    """What networkx raises over a bad file, as one line."""
    try:
        yield
    except InputError:
        raise
    except (nx.NetworkXException, ValueError, TypeError, KeyError, IndexError, AttributeError, SyntaxError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{where}: {what} ({reason})") from None


@dataclass(frozen=True)
class _Format:
    """How a format is read and written, and what it can say."""

    read: Callable[[bytes, Path], Iterator[Found]]
    write: Callable[[Sequence[nx.Graph], Path], bytes]
    directed: bool = False
    labels: frozenset[str] = frozenset()


_EDGES = _Format(_read_edges, _write_edges, labels=frozenset({"edge"}))
_ALL = frozenset({"node", "edge"})
_FORMATS = {
    ".g6": _Format(_read_graph6, _write_graph6),
    ".s6": _Format(_read_sparse6, _write_sparse6),
    ".edgelist": _EDGES,
    ".txt": _EDGES,
    ".tsv": _EDGES,
    ".graphml": _Format(_read_graphml, _write_graphml, directed=True, labels=_ALL),
    ".json": _Format(_read_json, _write_json, directed=True, labels=_ALL),
}


def _format(path: Path) -> _Format:
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if suffix not in _FORMATS:
        raise InputError(f"{path}: the suffix must be one of {', '.join(_FORMATS)}, plain or with .gz after it")
    return _FORMATS[suffix]
