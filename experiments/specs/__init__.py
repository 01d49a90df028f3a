"""Example design specs."""
