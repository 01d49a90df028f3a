"""Our network against Transformers' ESM C: same weights, same logits."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.export import export_transformers, token_ids


def _denoiser(**options: object) -> NetworkDenoiser:
    config = TransformerConfig(num_letters=20, num_tokens=24, width=24, depth=3, heads=3, hidden=40, **options)  # pyright: ignore
    denoiser = init_denoiser(config, PROTEIN, seed=3)
    # Noise on every tensor, so that biases, norms and zero-initialised parts all matter.
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(5), len(leaves))
    noisy = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return NetworkDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), denoiser.config, PROTEIN)


@pytest.mark.filterwarnings("ignore")  # torch and transformers warn about their own future
def test_logits_equal_those_of_transformers(tmp_path: Path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    denoiser = _denoiser()
    export_transformers(denoiser, tmp_path / "out")
    theirs, report = transformers.EsmcForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    theirs.eval()

    rng = np.random.default_rng(0)
    lengths = np.array([17, 5, 11])
    canvas = rng.integers(0, 20, (3, 17)).astype(np.int32)
    canvas[rng.random(canvas.shape) < 0.4] = PROTEIN.mask
    valid = np.arange(17)[None, :] < lengths[:, None]
    ours = np.asarray(denoiser(jnp.asarray(canvas), jnp.asarray(valid), jnp.full((3,), 0.4)))

    ids = token_ids(PROTEIN)
    tokens = np.full((3, 19), ids[PROTEIN.pad])
    for row, length in enumerate(lengths):
        tokens[row, : length + 2] = ids[[PROTEIN.begin, *canvas[row, :length], PROTEIN.end]]
    with torch.no_grad():
        tokens = torch.tensor(tokens, dtype=torch.long)
        logits = theirs(input_ids=tokens, attention_mask=(tokens != int(ids[PROTEIN.pad])).long()).logits.numpy()
    letters = logits[:, 1:-1][:, :, ids[:20]]
    assert np.ptp(letters[valid]) > 1
    np.testing.assert_allclose(ours[valid], letters[valid], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("option", "value"), [("norm", "rms"), ("mlp", "gelu"), ("residual_scale", False)])
def test_other_architectures_are_refused_by_name(tmp_path: Path, option: str, value: object):
    with pytest.raises(InputError, match=option):
        export_transformers(_denoiser(**{option: value}), tmp_path / "out")
