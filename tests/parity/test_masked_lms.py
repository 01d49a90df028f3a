"""Published masked language models against Transformers: random weights of ours and theirs, same logits."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, init_denoiser
from seqdiff.models.export import export_transformers
from seqdiff.models.importers import ESM_VOCABULARY, import_model
from seqdiff.models.store import load_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and transformers warn about their own future

LENGTHS = np.array([17, 5, 11])
ESM_IDS = {token: i for i, token in enumerate(ESM_VOCABULARY)}
BERT_IDS = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PROTEIN.letters])}


def _canvas(share: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    canvas = rng.integers(0, 20, (3, 17)).astype(np.int32)
    canvas[rng.random(canvas.shape) < share] = PROTEIN.mask
    return canvas, np.arange(17)[None, :] < LENGTHS[:, None]


def _compare(denoiser: Any, theirs: Any, ids: dict[str, int], names: tuple[str, str, str, str], share: float) -> float:
    """Largest difference of the letters' logits; the model is framed if ``names`` has a begin token."""
    mask, pad, begin, end = (ids.get(name, -1) for name in names)
    letters = np.array([ids[letter] for letter in PROTEIN.letters])
    to_theirs = np.array([*letters, mask])
    canvas, valid = _canvas(share)
    ours = np.asarray(jax.jit(type(denoiser).__call__)(denoiser, canvas, valid, jnp.full((3,), share)))
    frame = int(begin >= 0)
    tokens = np.full((3, 17 + 2 * frame), pad)
    attend = np.zeros(tokens.shape, np.int64)
    for row, length in enumerate(LENGTHS):
        written = to_theirs[canvas[row, :length]]
        framed = [begin, *written, end] if frame else written
        tokens[row, : len(framed)], attend[row, : len(framed)] = framed, 1
    with torch.no_grad():
        out = theirs(input_ids=torch.tensor(tokens), attention_mask=torch.tensor(attend)).logits.numpy()
    out = out[:, frame : 17 + frame][:, :, letters]
    assert np.ptp(out[valid]) > 1
    return float(np.abs(ours - out)[valid].max())


def _noisy(model: Any, scale: float) -> Any:
    """Noise on every tensor, so that biases and norms matter too."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += scale * torch.randn(tensor.shape, generator=generator)
    return model.eval()


def _arrays(model: Any) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


TINY = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40}
MEDIUM = {"hidden_size": 320, "num_hidden_layers": 6, "num_attention_heads": 20, "intermediate_size": 1280}
ESM = ("<mask>", "<pad>", "<cls>", "<eos>")


@pytest.mark.parametrize(
    ("sizes", "scale", "share"), [(TINY, 0.2, 0.4), (TINY, 0.2, 0.0), (TINY, 0.2, 1.0), (MEDIUM, 0.02, 0.4)]
)
@pytest.mark.parametrize("dropout", [True, False])
def test_esm2(sizes: dict[str, int], scale: float, share: float, dropout: bool):
    config = transformers.EsmConfig(
        **sizes,
        vocab_size=33,
        position_embedding_type="rotary",
        token_dropout=dropout,
        pad_token_id=1,
        mask_token_id=32,
    )
    theirs = _noisy(transformers.EsmForMaskedLM(config), scale)
    denoiser = import_model("esm2", _arrays(theirs), config.to_dict(), PROTEIN)
    assert _compare(denoiser, theirs, ESM_IDS, ESM, share) < 1e-4


@pytest.mark.parametrize(("sizes", "scale"), [(TINY, 0.2), (MEDIUM, 0.02)])
def test_esmc(sizes: dict[str, int], scale: float):
    theirs = _noisy(transformers.EsmcForMaskedLM(transformers.EsmcConfig(**sizes)), scale)
    denoiser = import_model("esmc", _arrays(theirs), theirs.config.to_dict(), PROTEIN)
    assert _compare(denoiser, theirs, ESM_IDS, ESM, 0.4) < 1e-4


@pytest.mark.parametrize(("sizes", "scale"), [(TINY, 0.2), (MEDIUM, 0.02)])
def test_bert(sizes: dict[str, int], scale: float):
    config = transformers.BertConfig(**sizes, vocab_size=25, max_position_embeddings=30, hidden_act="gelu")
    theirs = _noisy(transformers.BertForMaskedLM(config), scale)
    meta = config.to_dict() | {"vocab": BERT_IDS}
    denoiser = import_model("bert", _arrays(theirs), meta, PROTEIN)
    assert _compare(denoiser, theirs, BERT_IDS, ("[MASK]", "[PAD]", "[CLS]", "[SEP]"), 0.4) < 1e-4


class _Bidirectional:
    """A causal model without its causal mask: what LLaDA and Dream are."""

    def __init__(self, model: Any, shifted: bool):
        self.model, self.shifted = model, shifted

    def __call__(self, input_ids: Any, attention_mask: Any) -> Any:
        full = torch.zeros((*attention_mask.shape[:1], 1, *attention_mask.shape[1:] * 2))
        full = full.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(torch.float32).min)
        out = self.model(input_ids=input_ids, attention_mask=full)
        if self.shifted:
            out.logits = torch.cat([out.logits[:, :1], out.logits[:, :-1]], dim=1)
        return out


@pytest.mark.parametrize("kind", ["llama", "qwen2", "dream"])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_bidirectional_llama(kind: str, kv_heads: int):
    name = "Llama" if kind == "llama" else "Qwen2"
    config = getattr(transformers, f"{name}Config")(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=kv_heads, intermediate_size=40,
        vocab_size=29, attn_implementation="eager",
    )  # fmt: skip
    theirs = _noisy(getattr(transformers, f"{name}ForCausalLM")(config), 0.2)
    ids = {letter: i + 3 for i, letter in enumerate(PROTEIN.letters)} | {"<mask>": 1, "<pad>": 2}
    meta = config.to_dict() | {"vocab": ids, "model_type": kind}
    denoiser = import_model("llama", _arrays(theirs), meta, PROTEIN)
    both = _Bidirectional(theirs, shifted=kind == "dream")
    assert _compare(denoiser, both, ids, ("<mask>", "<pad>", "", ""), 0.4) < 1e-4


def test_llada_names_are_those_of_llama():
    """The same network under the names of LLaDA's own code."""
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, vocab_size=29
    )
    tensors = _arrays(_noisy(transformers.LlamaForCausalLM(config), 0.2))
    renamed = {}
    for name, value in tensors.items():
        for theirs, llada in {
            "model.embed_tokens": "model.transformer.wte", "model.layers": "model.transformer.blocks",
            "self_attn.": "", "o_proj": "attn_out", "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj",
            "mlp.down_proj": "ff_out", "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm",
            "model.norm": "model.transformer.ln_f", "lm_head": "model.transformer.ff_out",
        }.items():  # fmt: skip
            name = name.replace(theirs, llada)
        renamed[name] = value
    ids = {letter: i + 3 for i, letter in enumerate(PROTEIN.letters)}
    meta = {"d_model": 32, "n_layers": 2, "n_heads": 4, "mlp_hidden_size": 40, "rope_theta": 10_000.0}
    meta |= {"rms_norm_eps": config.rms_norm_eps, "vocab": ids, "mask_token_id": 1, "model_type": "llada"}
    ours = import_model("llama", renamed, meta, PROTEIN)
    same = import_model("llama", tensors, config.to_dict() | {"vocab": ids, "mask_token_id": 1}, PROTEIN)
    canvas, valid = _canvas(0.4)
    np.testing.assert_array_equal(*(np.asarray(one(canvas, valid, jnp.ones(3))) for one in (ours, same)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position_embedding_type": "absolute"}, "position_embedding_type='absolute'"),
        ({"hidden_size": None}, "lacks 'hidden_size'"),
        ({"hidden_size": 48}, "config says"),
        ({"num_hidden_layers": 4}, "lacks 'esm.encoder.layer.3"),
        ({"num_hidden_layers": 2}, "no part of the network reads"),
    ],
)
def test_a_config_that_does_not_fit_is_one_line(change: dict[str, Any], message: str):
    config = transformers.EsmConfig(**TINY, vocab_size=33, position_embedding_type="rotary", pad_token_id=1)
    theirs = transformers.EsmForMaskedLM(config)
    with pytest.raises(InputError, match=message):
        import_model("esm2", _arrays(theirs), config.to_dict() | change, PROTEIN)


ESM2_LIKE: dict[str, Any] = {
    "qk_norm": False, "mlp": "gelu", "residual_scale": False, "use_bias": True, "final_norm_bias": True,
}  # fmt: skip


def _ours(**options: Any) -> NetworkDenoiser:
    config = TransformerConfig(num_letters=20, num_tokens=24, width=24, depth=3, heads=3, hidden=40, **options)
    denoiser = init_denoiser(config, PROTEIN, seed=3)
    leaves, tree = jax.tree.flatten(denoiser.params)
    keys = jax.random.split(jax.random.key(5), len(leaves))
    noisy = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return NetworkDenoiser(denoiser.graphdef, jax.tree.unflatten(tree, noisy), denoiser.config, PROTEIN)


def _exported(denoiser: NetworkDenoiser, folder: Path) -> Any:
    export_transformers(denoiser, folder)
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    return theirs.eval()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "EsmcForMaskedLM"),
        (ESM2_LIKE, "EsmForMaskedLM"),
        (ESM2_LIKE | {"mask_dropout": 0.12}, "EsmForMaskedLM"),
    ],
)
def test_export_gives_the_same_logits(tmp_path: Path, options: dict[str, Any], name: str):
    denoiser = _ours(**options)
    theirs = _exported(denoiser, tmp_path / "out")
    assert type(theirs).__name__ == name
    assert _compare(denoiser, theirs, ESM_IDS, ESM, 0.4) < 1e-4
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    wanted = [ESM_IDS[token] for token in ("<cls>", "M", "K", "<mask>", "W", "<eos>")]
    assert tokenizer("MK<mask>W")["input_ids"] == wanted
    assert tokenizer.mask_token_id == ESM_IDS["<mask>"]
    assert tokenizer.pad_token_id == ESM_IDS["<pad>"]


def test_the_bundled_model_leaves_with_the_same_logits(tmp_path: Path):
    denoiser = load_model("protein-small", PROTEIN)
    assert isinstance(denoiser, NetworkDenoiser)
    theirs = _exported(denoiser, tmp_path / "out")
    assert _compare(denoiser, theirs, ESM_IDS, ESM, 0.4) < 1e-4


@pytest.mark.parametrize("options", [{}, ESM2_LIKE | {"mask_dropout": 0.12}])
def test_what_was_exported_can_be_read_back(tmp_path: Path, options: dict[str, Any]):
    from safetensors.numpy import load_file

    denoiser = _ours(**options)
    folder = export_transformers(denoiser, tmp_path / "out")
    import json

    meta = json.loads((folder / "config.json").read_text())
    family = {"esm": "esm2", "esmc": "esmc"}[meta["model_type"]]
    back = import_model(family, load_file(folder / "model.safetensors"), meta, PROTEIN)
    canvas, valid = _canvas(0.4)
    np.testing.assert_array_equal(*(np.asarray(one(canvas, valid, jnp.ones(3))) for one in (denoiser, back)))


@pytest.mark.parametrize(("option", "value"), [("norm", "rms"), ("mlp", "gelu"), ("residual_scale", False)])
def test_other_architectures_are_refused_by_name(tmp_path: Path, option: str, value: object):
    with pytest.raises(InputError, match=option):
        export_transformers(_ours(**{option: value}), tmp_path / "out")
