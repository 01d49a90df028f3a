"""Benchmarks: each prints its table and can write it as JSON; speed is a ratio within one run."""
