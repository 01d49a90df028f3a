"""The network: padding cannot matter, every option is read, files are safe."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.export import export_transformers
from seqdiff.models.store import load_model, model_notes, save_model
from seqdiff.process.noise import Process
from seqdiff.process.schedules import Cosine
from seqdiff.process.score_entropy import Output, ScoreDenoiser

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
    {"self_conditioning": True},
]


def make(**options) -> NetworkDenoiser:
    config = TransformerConfig(num_letters=20, num_tokens=24, width=28, depth=1, heads=2, hidden=34, **options)
    denoiser = init_denoiser(config, PROTEIN, seed=1)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [leaf + 0.2 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return NetworkDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), config, PROTEIN)


def logits(
    denoiser: NetworkDenoiser, size: int, time: float = 0.5, relations: bool = False, previous: float | None = None
) -> np.ndarray:
    canvas = np.full((2, size), PROTEIN.mask, np.int32)
    canvas[:, :11] = np.random.default_rng(0).integers(0, 21, (2, 11))
    valid = np.arange(size)[None, :] < np.array([[11], [7]])
    conditions = {"relations": jnp.asarray(np.tri(size, dtype=np.int32)[None].repeat(2, 0))} if relations else None
    earlier = None
    if previous is not None:  # beyond the length stands what must not matter
        earlier = previous * np.random.default_rng(1).dirichlet(np.ones(20), (2, 11)).astype(np.float32)
        earlier = jnp.asarray(np.pad(earlier, ((0, 0), (0, size - 11), (0, 0)), constant_values=3.0))
    found = denoiser(jnp.asarray(canvas), jnp.asarray(valid), jnp.full((2,), time), conditions, earlier)
    return np.asarray(found)[valid]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_padding_cannot_matter(options: dict):
    denoiser = make(**options)
    previous = 1.0 if denoiser.self_conditioning else None
    short, long = (logits(denoiser, size, previous=previous) for size in (11, 19))
    np.testing.assert_allclose(short, long, atol=2e-5)


def test_options_are_read():
    base = logits(make(), 11)
    for options in OPTIONS[1:-1]:
        assert np.abs(logits(make(**options), 11) - base).max() > 1e-3, options
    timed = make(time_conditioning=True)
    assert np.abs(logits(timed, 11, time=0.9) - logits(timed, 11, time=0.1)).max() > 1e-3
    conditioned = make(self_conditioning=True)
    assert np.abs(logits(conditioned, 11, previous=1.0) - logits(conditioned, 11)).max() > 1e-3
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

    config = json.loads((tmp_path / "exact" / "config.json").read_text())
    assert config["process"] == {"uniform": 0.0, "schedule": "linear"}
    hybrid = Process(mask=20, uniform=0.2, schedule=Cosine())
    save_model(tmp_path / "hybrid", with_process(denoiser, hybrid), notes={}, dtype="float32")
    loaded = load_model(tmp_path / "hybrid", PROTEIN)
    assert (loaded.process, loaded.output) == (hybrid, "letters")
    for key, value, words in [
        ("process", {"uniform": 0.2, "schedule": "sine"}, "unknown schedule"),
        ("process", {"uniform": 2.0}, "must lie in"),
        ("output", "letter", "did you mean 'letters'"),
    ]:
        (tmp_path / "hybrid" / "config.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(InputError, match=words):
            load_model(tmp_path / "hybrid", PROTEIN)

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


def with_process(denoiser: NetworkDenoiser, process: Process, output: Output = "letters") -> NetworkDenoiser:
    return NetworkDenoiser(denoiser.graphdef, denoiser.params, denoiser.config, PROTEIN, process, output)


def test_without_a_previous_prediction_the_network_is_the_plain_one():
    """Bit for bit: None, all zero and the option switched off."""
    conditioned = make(self_conditioning=True)
    config = replace(conditioned.config, self_conditioning=False)
    off = init_denoiser(config, PROTEIN, seed=0)
    params = {name: part for name, part in conditioned.params.items() if name != "embed_previous"}
    off = NetworkDenoiser(off.graphdef, params, config, PROTEIN)
    assert not off.self_conditioning
    base = logits(off, 11)
    for found in (logits(conditioned, 11), logits(conditioned, 11, previous=0.0), logits(off, 11, previous=1.0)):
        np.testing.assert_array_equal(found, base)


def test_a_network_of_another_process_is_completed_by_its_own_token():
    """The same weights: raw output for the absorbing process, the own letter's evidence added for others."""
    denoiser = make()
    process = Process(mask=20, uniform=0.4)
    canvas, valid, level = jnp.array([[3, 20, 7]]), jnp.ones((1, 3), bool), jnp.array([0.25])
    raw = denoiser(canvas, valid, level)
    found = with_process(denoiser, process)(canvas, valid, level)
    gain = np.log((0.75 + 0.25 * 0.02) / (0.25 * 0.02))
    own = np.asarray(jax.nn.one_hot(canvas, 20)) * gain
    np.testing.assert_allclose(jax.nn.softmax(found), jax.nn.softmax(raw + own), atol=1e-5)
    scores = with_process(denoiser, Process(mask=20), "scores")(canvas, valid, level)
    np.testing.assert_allclose(jax.nn.softmax(scores), jax.nn.softmax(raw), atol=1e-5)
    np.testing.assert_allclose(
        with_process(denoiser, Process(mask=20, uniform=1.0), "scores")(canvas, valid, level),
        ScoreDenoiser(denoiser, Process(mask=20, uniform=1.0))(canvas, valid, level),
    )


def test_only_models_of_masks_are_exported(tmp_path: Path):
    for other in (
        with_process(make(use_bias=True), Process(mask=20, uniform=0.1)),
        with_process(make(use_bias=True), Process(mask=20), "scores"),
    ):
        with pytest.raises(InputError, match="absorbing process"):
            export_transformers(other, tmp_path / "out")
    with pytest.raises(InputError, match="self_conditioning=False"):
        export_transformers(make(self_conditioning=True), tmp_path / "out")


@pytest.mark.parametrize("name", ["protein-small"])
def test_bundled_models_load_and_are_small(name: str):
    denoiser = load_model(name, PROTEIN)
    folder = Path(__file__).parents[2] / "models" / "bundled" / name
    assert (folder / "model.safetensors").stat().st_size <= 8_000_000
    assert (folder / "README.md").is_file()
    assert model_notes(name)["steps"] > 0
    assert denoiser.process == Process(mask=20)
    assert np.isfinite(logits(denoiser, 11)).all()
