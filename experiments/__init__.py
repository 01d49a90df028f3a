"""Experiments: training, evaluation and benchmarks, with their Hydra configs."""
