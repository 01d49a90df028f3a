"""A picture of graphs: small drawings side by side, as SVG (no plotting library needed).

Planar graphs are drawn without crossings where that looks no worse; others by springs (Kamada and Kawai 1989, or
Fruchterman and Reingold 1991 for large ones). The drawing of a graph is always the same.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from html import escape

import networkx as nx
import numpy as np
from jaxtyping import Float

from seqdiff.domains.graph.convert import LABEL

SIZE, MARGIN, CAPTION, COLUMNS = 190, 16, 18, 6
SPRINGS_BELOW = 100  # nodes; Kamada-Kawai costs n^3
EDGE, GIVEN, NODE = "#8a94a6", "#b3261e", "#2b5c8a"
# Label colours differ in lightness too, for colour-blind readers; labels are written out as well.
FILLS = ("#b7cbe4", "#f2d64b", "#e4f1dc", "#f6cfc4", "#f3dbe9", "#f1ecd9")


def graph_svg(
    graphs: Sequence[nx.Graph],
    names: Sequence[str],
    limit: int = 24,
    given: Collection[tuple[Hashable, Hashable]] = (),
) -> str:
    """Small multiples of drawn graphs, as SVG text.

    Args:
        graphs: undirected or directed (edges with arrow heads); ``label`` of nodes is written into them, ``label`` of
            edges beside them.
        names: a caption for each.
        limit: draw the first so many.
        given: edges that were given at the start, drawn thicker, in either direction where undirected.
    """
    shown = list(zip(graphs, names, strict=True))[:limit]
    columns = max(1, min(COLUMNS, len(shown)))
    width, height = columns * SIZE, max(1, math.ceil(len(shown) / columns)) * (SIZE + CAPTION) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-sans-serif, Helvetica, Arial, sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for i, (graph, name) in enumerate(shown):
        x, y = i % columns * SIZE, i // columns * (SIZE + CAPTION)
        parts.append(f'<g transform="translate({x} {y})">')
        parts.append(f'<text x="{SIZE / 2}" y="14" fill="#333" text-anchor="middle">{escape(name)}</text>')
        parts += [f'<g transform="translate(0 {CAPTION})">', *_drawing(graph, given), "</g></g>"]
    rest = f"{len(graphs) - len(shown)} more not drawn" if len(graphs) > len(shown) else ""
    note = "; ".join(text for text in ("thick: given" if given else "", rest) if text)
    parts.append(f'<text x="6" y="{height - 8}" fill="#777">{note}</text>' if note else "")
    return "\n".join([*filter(None, parts), "</svg>\n"])


def layout(graph: nx.Graph) -> dict[Hashable, Float[np.ndarray, "2"]]:
    """Places of the nodes, in the square of side SIZE with a margin; the same for the same graph."""
    simple = nx.Graph(graph.edges) if graph.number_of_edges() else nx.Graph()
    simple.add_nodes_from(graph)
    places = _free_layout(simple)
    xy = np.array([places[node] for node in simple], float).reshape(-1, 2)
    low, span = xy.min(axis=0, initial=np.inf), np.ptp(xy, axis=0) if len(xy) else np.ones(2)
    inner = SIZE - 2 * MARGIN
    scale = np.where(span > 1e-9, inner / np.maximum(span, 1e-9), 0)
    corner = MARGIN + np.where(span > 1e-9, 0, inner / 2)
    return {node: (place - low) * scale + corner for node, place in zip(simple, xy, strict=True)}


def _free_layout(graph: nx.Graph) -> dict[Hashable, np.ndarray]:
    """Springs, from a planar drawing where there is one; that drawing itself where springs make many crossings."""
    planar, embedding = nx.check_planarity(graph)
    start = _planar_layout(graph, embedding) if planar and len(graph) > 2 else None
    if len(graph) and nx.is_connected(graph) and len(graph) < SPRINGS_BELOW:
        places = nx.kamada_kawai_layout(graph, pos=start)
    else:
        places = nx.spring_layout(graph, pos=start, seed=0, iterations=100)
    return places if start is None or _crossings(graph, places) <= len(graph) // 16 else start


def _planar_layout(graph: nx.Graph, embedding: nx.PlanarEmbedding) -> dict[Hashable, np.ndarray]:
    """The longest face on a circle and every other node amid its neighbours (Tutte 1963).

    That is free of crossings for 3-connected graphs; where it is not, networkx's drawing on a grid.
    """
    faces = [embedding.traverse_face(u, v) for u, v in embedding.edges]
    outer = max(faces, key=len, default=[])
    if len(outer) < 3 or len(set(outer)) < len(outer) or not nx.is_connected(graph):
        return nx.planar_layout(graph)
    inner = [node for node in graph if node not in set(outer)]
    angle = 2 * np.pi * np.arange(len(outer)) / len(outer)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    laplacian = nx.laplacian_matrix(graph, [*outer, *inner]).toarray().astype(float)
    n = len(outer)
    inside = np.linalg.solve(laplacian[n:, n:], -laplacian[n:, :n] @ rim)
    places = dict(zip([*outer, *inner], np.concatenate([rim, inside]), strict=True))
    apart = len(np.unique(np.round(list(places.values()), 6), axis=0)) == len(places)
    return places if apart and not _crossings(graph, places) else nx.planar_layout(graph)


def _crossings(graph: nx.Graph, places: dict[Hashable, np.ndarray]) -> int:
    """How many pairs of straight edges cross."""
    ends = np.array([(places[u], places[v]) for u, v in graph.edges], float).reshape(-1, 2, 2)
    a, b = ends[:, 0], ends[:, 1]

    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
        """On which side of each line p-q (rows) each point r (columns) is; 0 at an end of it."""
        along, out = (q - p)[:, None], r[None] - p[:, None]
        cross = along[..., 0] * out[..., 1] - along[..., 1] * out[..., 0]
        return np.where(np.abs(cross) < 1e-12, 0, np.sign(cross))

    apart = (side(a, b, a) * side(a, b, b)) < 0
    return int((apart & apart.T).sum()) // 2


def _drawing(graph: nx.Graph, given: Collection[tuple[Hashable, Hashable]]) -> list[str]:
    places = layout(graph)
    thick = set(given) if graph.is_directed() else {frozenset(pair) for pair in given}
    labels = {node: str(label) for node, label in graph.nodes(data=LABEL) if label is not None}
    radius = 7.0 if labels else max(1.6, min(5.0, 28 / math.sqrt(max(1, len(graph)))))
    fills = dict(zip(sorted(set(labels.values())), FILLS * len(labels), strict=False))
    parts = []
    for u, v, label in graph.edges(data=LABEL):
        known = ((u, v) if graph.is_directed() else frozenset((u, v))) in thick
        parts += _edge(places[u], places[v], radius, directed=graph.is_directed(), given=known)
        if label is not None:
            x, y = (places[u] + places[v]) / 2
            parts.append(f'<text x="{x:.1f}" y="{y - 2:.1f}" fill="#333" font-size="8">{escape(str(label))}</text>')
    for node in graph:
        x, y = places[node]
        fill = fills.get(labels.get(node, ""), NODE)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" stroke="#fff" stroke-width="0.6"/>'
        )
        if node in labels:
            text = escape(labels[node])
            parts.append(
                f'<text x="{x:.1f}" y="{y + 3:.1f}" fill="#222" text-anchor="middle" font-size="9">{text}</text>'
            )
    return parts


def _edge(a: np.ndarray, b: np.ndarray, radius: float, *, directed: bool, given: bool) -> list[str]:
    """A line, and for an arc a head where it meets the node."""
    colour, thickness = (GIVEN, 2.4) if given else (EDGE, 1.0)
    way = (b - a) / max(float(np.hypot(*(b - a))), 1e-9)
    tip = b - way * radius
    base = tip - way * 5
    end = base if directed else b
    parts = [
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}" '
        f'stroke-width="{thickness}"/>'
    ]
    if directed:
        across = np.array([-way[1], way[0]]) * 2.6
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, base + across, base - across))
        parts.append(f'<polygon points="{corners}" fill="{colour}"/>')
    return parts
