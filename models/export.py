"""Export to Transformers: a folder that ``from_pretrained`` reads, with tokenizer and model card. Needs no torch.

Our network has the architecture of ESM C or ESM-2 under other names (:mod:`seqdiff.models.names`), so tensors are
renamed and linear maps transposed. The vocabulary is ESM's (ids are fixed by its published checkpoints). Tokens that a
seqdiff model has never seen share the mean embedding of the letters, and are predicted with a logit of ``NEVER``.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.importers import ESM2_MASK_DROPOUT, ESM_VOCABULARY
from seqdiff.models.names import ESM2, ESMC, Names, candidates
from seqdiff.models.store import flatten

NEVER = -1e4


class Target(NamedTuple):
    """A class of Transformers that a model can be exported to.

    Attributes:
        name: of the class.
        model_type: as Transformers registers it.
        names: of its tensors.
        vocabulary: size of the embedding.
        required: options that a network must have to be one.
    """

    name: str
    model_type: str
    names: Names
    vocabulary: int
    required: dict[str, Any]


_COMMON = {"norm": "layer", "placement": "pre", "positions": "rotary", "kv_heads": None, "qkv_bias": None}
_COMMON |= {"time_conditioning": False, "self_conditioning": False, "relations": 0, "frame": True, "head": "mlp"}
_COMMON |= {"shifted": False, "classifiers": (), "norm_epsilon": 1e-5}
TARGETS = (
    Target(
        "EsmcForMaskedLM",
        "esmc",
        ESMC,
        64,
        _COMMON
        | {"qk_norm": True, "mlp": "swiglu", "residual_scale": True, "use_bias": False, "final_norm_bias": False}
        | {"mask_dropout": 0.0},
    ),
    Target(
        "EsmForMaskedLM",
        "esm",
        ESM2,
        len(ESM_VOCABULARY),
        _COMMON
        | {"qk_norm": False, "mlp": "gelu", "residual_scale": False, "use_bias": True, "final_norm_bias": True}
        | {"rope_theta": 10_000.0},
    ),
)


def token_ids(alphabet: Alphabet) -> np.ndarray:
    """ESM's id of each of our token ids, int32 [num_tokens]."""
    tokens = (*alphabet.letters, "<mask>", "<pad>", "<cls>", "<eos>")
    return np.array([ESM_VOCABULARY.index(token) for token in tokens], np.int32)


def export_transformers(denoiser: Denoiser, folder: Path) -> Path:
    """Write config, weights in float32, tokenizer files and a model card for ``EsmcForMaskedLM`` or ``EsmForMaskedLM``.

    Raises:
        InputError: the architecture has no counterpart there (names the option), or the folder is not empty.
    """
    from safetensors.numpy import save_file

    if not isinstance(denoiser, NetworkDenoiser):
        raise InputError("only masked language models can be exported; this model reads structures")
    alphabet = denoiser.alphabet
    if not denoiser.process.absorbing or denoiser.output != "letters":
        raise InputError("ESM predicts masked letters; only a model of the absorbing process can be exported")
    target = _target(denoiser.config)
    if not set(alphabet.letters) <= set(ESM_VOCABULARY):
        raise InputError(f"ESM reads amino acids, this model {alphabet.letters!r}")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    ids = token_ids(alphabet)
    tensors = {}
    for name, leaf in flatten(denoiser.params).items():
        value = _wide(name, np.asarray(leaf, np.float32), ids, len(alphabet), target.vocabulary)
        tensors[candidates(target.names, name)[0]] = np.ascontiguousarray(value)
    if target.model_type == "esm":
        # The decoder's bias stands beside it; the contact head, which nothing here trains, says 0.5 everywhere.
        tensors["lm_head.decoder.weight"] = tensors.pop("lm_head.weight")
        config, half = denoiser.config, denoiser.config.width // denoiser.config.heads // 2
        tensors["esm.contact_head.regression.weight"] = np.zeros((1, config.depth * config.heads), np.float32)
        tensors["esm.contact_head.regression.bias"] = np.zeros(1, np.float32)
        frequency = config.rope_theta ** (-np.arange(half, dtype=np.float32) / half)
        tensors["esm.rotary_embeddings.inv_freq"] = frequency.astype(np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(denoiser.config, target))
    _write_tokenizer(folder, target)
    (folder / "README.md").write_text(_card(denoiser, target, sum(leaf.size for leaf in tensors.values())))
    return folder


def _target(config: TransformerConfig) -> Target:
    """The class that a network is; the error names what keeps it from being the nearer one."""
    misses = []
    for target in TARGETS:
        odd = [name for name, wanted in target.required.items() if getattr(config, name) != wanted]
        if target.model_type == "esm" and config.mask_dropout not in (0.0, ESM2_MASK_DROPOUT):
            odd.append("mask_dropout")
        if not odd:
            return target
        misses.append((len(odd), target, odd[0]))
    _, target, name = min(misses, key=lambda miss: miss[0])
    wanted = target.required.get(name, ESM2_MASK_DROPOUT)
    raise InputError(
        f"{target.name} has {name}={wanted!r}, this model {getattr(config, name)!r}; it cannot be exported"
    )


def _wide(name: str, value: np.ndarray, ids: np.ndarray, letters: int, vocabulary: int) -> np.ndarray:
    """A tensor in torch's layout, over the whole vocabulary where it has one."""
    if name == "embed_tokens.embedding":
        table = np.tile(value[:letters].mean(axis=0), (vocabulary, 1))
        table[ids] = value
        return table
    if name.endswith(".kernel"):
        value = value.T
    if name.startswith("lm_head.decoder."):
        table = np.full((vocabulary, *value.shape[1:]), NEVER if value.ndim == 1 else 0.0, np.float32)
        table[ids[:letters]] = value
        return table
    return value


def _config(config: TransformerConfig, target: Target) -> dict[str, Any]:
    index = ESM_VOCABULARY.index
    shared = {
        "architectures": [target.name],
        "model_type": target.model_type,
        "vocab_size": target.vocabulary,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "pad_token_id": index("<pad>"),
        "bos_token_id": index("<cls>"),
        "eos_token_id": index("<eos>"),
        "mask_token_id": index("<mask>"),
        "tie_word_embeddings": False,
        "dtype": "float32",
    }
    if target.model_type == "esmc":
        rope = {"rope_type": "default", "rope_theta": config.rope_theta}
        return shared | {"attention_bias": False, "mlp_bias": False, "rope_parameters": rope}
    return shared | {
        "position_embedding_type": "rotary",
        "token_dropout": bool(config.mask_dropout),
        "emb_layer_norm_before": False,
        "hidden_act": "gelu",
        "layer_norm_eps": config.norm_epsilon,
        "max_position_embeddings": config.max_length,
        "attention_probs_dropout_prob": 0.0,
        "hidden_dropout_prob": 0.0,
    }


def _write_tokenizer(folder: Path, target: Target) -> None:
    """``vocab.txt`` for the slow tokenizer of ESM-2, ``tokenizer.json`` for fast ones, and what names their class."""
    tokens = tuple("|" if token == "<null_1>" and target.model_type == "esmc" else token for token in ESM_VOCABULARY)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    ids = {token: i for i, token in enumerate(tokens)}
    special = ["<cls>", "<pad>", "<eos>", "<unk>", "<mask>"]

    def frame(token: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": 0}}

    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    fast = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[token], "content": token} | added for token in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [frame("<cls>"), sequence, frame("<eos>")],
            "pair": [frame("<cls>"), sequence, frame("<eos>"), {"Sequence": {"id": "B", "type_id": 0}}, frame("<eos>")],
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in ("<cls>", "<eos>")
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"},
    }
    _write_json(folder / "tokenizer.json", fast)
    names = dict(zip(("cls_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True))
    kind = "EsmTokenizer" if target.model_type == "esm" else "EsmcTokenizer"
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind, "model_max_length": 1024} | names)
    _write_json(folder / "special_tokens_map.json", names)


def _card(denoiser: NetworkDenoiser, target: Target, size: int) -> str:
    config = denoiser.config
    return f"""---
library_name: transformers
pipeline_tag: fill-mask
---

# A masked-diffusion protein model, exported from seqdiff

{size:,} numbers, {config.depth} layers of width {config.width}; absorbing process, letters {denoiser.alphabet.letters}.

```python
from transformers import AutoTokenizer, {target.name}

tokenizer = AutoTokenizer.from_pretrained("this-folder")
model = {target.name}.from_pretrained("this-folder")
logits = model(**tokenizer("MKT<mask>LLV", return_tensors="pt")).logits
```

Tokens that the model was not trained on (X, B, U, Z, O and so on) share the mean embedding of the letters and are never
predicted.
"""


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n")
