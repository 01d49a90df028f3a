"""Constrained sequence design by masked diffusion: every design obeys every hard constraint.

``seqdiff.design(...)`` is the front door; ``seqdiff.DesignSpec`` and ``seqdiff.Designs`` are what goes in and comes
out; ``seqdiff.load(...)`` gives a model by itself. Importing this package imports neither JAX nor a model; the first
use does.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from seqdiff.request.designs import Designs
    from seqdiff.request.dna import backtranslate
    from seqdiff.request.run import design, load
    from seqdiff.request.spec import DesignSpec

__all__ = ["DesignSpec", "Designs", "__version__", "backtranslate", "design", "load"]

_HOMES = {
    "DesignSpec": "seqdiff.request.spec",
    "Designs": "seqdiff.request.designs",
    "backtranslate": "seqdiff.request.dna",
    "design": "seqdiff.request.run",
    "load": "seqdiff.request.run",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'seqdiff' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
