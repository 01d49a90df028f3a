"""Graphs: training networks over pairs of nodes and measuring them on held-out graphs."""
