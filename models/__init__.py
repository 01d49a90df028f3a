"""Denoiser networks, and models on disk."""
