"""Where compiled loops are kept between runs."""

import os
from pathlib import Path

import jax


def use_compilation_cache() -> None:
    """Keep compiled loops in the user's cache folder, unless ``JAX_COMPILATION_CACHE_DIR`` names a place (or none)."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seqdiff" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
