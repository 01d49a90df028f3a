"""Constraints on graphs and the programs that keep them."""
