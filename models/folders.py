"""Model folders inside the package, and the names of the files in any model folder."""

from pathlib import Path

WEIGHTS, CONFIG = "model.safetensors", "config.json"
BUNDLED = Path(__file__).resolve().parent / "bundled"


def bundled_names() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{WEIGHTS}"))
