"""What tests of requests share: a tiny model on disk."""

import pytest

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.models.store import save_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    config = TransformerConfig(num_letters=20, num_tokens=24, width=16, depth=1, heads=2, hidden=24)
    save_model(folder, init_denoiser(config, PROTEIN, seed=0), notes={})
    return str(folder)
