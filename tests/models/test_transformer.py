"""The network: padding cannot matter, every option is read, files are safe."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.store import bundled_names, load_model, model_notes, save_model

OPTIONS: list[dict] = [
    {},
    {"norm": "rms"},
    {"positions": "learned", "max_length": 40},
    {"positions": "none"},
    {"mlp": "gelu"},
    {"use_bias": True},
    {"residual_scale": False},
    {"qk_norm": False},
    {"time_conditioning": True},
    {"relations": 3},
    {"frame": False},
]


def make(**options) -> NetworkDenoiser:
    config = TransformerConfig(num_letters=20, num_tokens=24, width=28, depth=2, heads=2, hidden=34, **options)
    denoiser = init_denoiser(config, PROTEIN, seed=1)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return NetworkDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), config, PROTEIN)


def logits(denoiser: NetworkDenoiser, size: int, time: float = 0.5, relations: bool = False) -> np.ndarray:
    canvas = np.full((2, size), PROTEIN.mask, np.int32)
    canvas[:, :11] = np.random.default_rng(0).integers(0, 21, (2, 11))
    valid = np.arange(size)[None, :] < np.array([[11], [7]])
    conditions = {"relations": jnp.asarray(np.tri(size, dtype=np.int32)[None].repeat(2, 0))} if relations else None
    found = denoiser(jnp.asarray(canvas), jnp.asarray(valid), jnp.full((2,), time), conditions)
    return np.asarray(found)[valid]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_padding_cannot_matter(options: dict):
    denoiser = make(**options)
    np.testing.assert_allclose(logits(denoiser, 11), logits(denoiser, 19), atol=2e-5)


def test_options_are_read():
    base = logits(make(), 11)
    for options in OPTIONS[1:]:
        assert np.abs(logits(make(**options), 11) - base).max() > 1e-3, options
    timed = make(time_conditioning=True)
    assert np.abs(logits(timed, 11, time=0.9) - logits(timed, 11, time=0.1)).max() > 1e-3
    related = make(relations=3)
    assert np.abs(logits(related, 11, relations=True) - logits(related, 11)).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [({"norm": "batch"}, "norm='batch'"), ({"heads": 5}, "not a multiple"), ({"heads": 4}, "even head size")],
)
def test_options_that_do_not_fit_are_refused(options: dict, words: str):
    with pytest.raises(InputError, match=words):
        TransformerConfig(**{"num_letters": 20, "num_tokens": 24, "width": 28, "heads": 2} | options)
    with pytest.raises(InputError, match="did you mean 'width'"):
        TransformerConfig.from_dict({"widht": 3})


def test_learned_positions_end():
    with pytest.raises(InputError, match="10 learned positions"):
        logits(make(positions="learned", max_length=10), 11)


def test_models_on_disk(tmp_path: Path):
    denoiser = make()
    save_model(tmp_path / "exact", denoiser, notes={"steps": 3}, dtype="float32")
    np.testing.assert_array_equal(logits(load_model(tmp_path / "exact", PROTEIN), 11), logits(denoiser, 11))
    assert model_notes(tmp_path / "exact") == {"steps": 3}
    save_model(tmp_path / "half", denoiser, notes={})
    np.testing.assert_allclose(logits(load_model(tmp_path / "half", PROTEIN), 11), logits(denoiser, 11), atol=0.1)

    weights = tmp_path / "half" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match="truncated") as caught:
        load_model(tmp_path / "half", PROTEIN)
    assert "\n" not in str(caught.value)
    (tmp_path / "half" / "config.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        load_model(tmp_path / "half", PROTEIN)
    with pytest.raises(InputError, match="does not exist"):
        load_model(tmp_path / "none", PROTEIN)
    with pytest.raises(InputError, match="unknown model"):
        load_model("protein-smal", PROTEIN)


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_load_and_are_small(name: str):
    denoiser = load_model(name, PROTEIN)
    folder = Path(__file__).parents[2] / "models" / "bundled" / name
    assert (folder / "model.safetensors").stat().st_size <= 8_000_000
    assert (folder / "README.md").is_file()
    assert model_notes(name)["steps"] > 0
    assert np.isfinite(logits(denoiser, 11)).all()
