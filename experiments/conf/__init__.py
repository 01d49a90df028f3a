"""Hydra configs, composed by module name."""
