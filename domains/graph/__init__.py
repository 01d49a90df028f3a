"""Graphs: canvas texts of networkx graphs, file formats, certificates, metrics, generators and pictures."""

from seqdiff.domains.graph.convert import SparseCode, node_order, prufer_to_graph, to_graph, to_text
from seqdiff.domains.graph.files import read_graphs, write_graphs

__all__ = ["SparseCode", "node_order", "prufer_to_graph", "read_graphs", "to_graph", "to_text", "write_graphs"]
