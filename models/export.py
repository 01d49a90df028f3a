"""Export to Transformers: a folder that ``EsmcForMaskedLM.from_pretrained`` reads. Writing it needs no torch.

The network is the ESM C architecture under the same names, so tensors are renamed and linear maps transposed. The
vocabulary is ESM C's (ids are fixed by its published checkpoints). Tokens that a seqdiff model has never seen share
the mean embedding of the letters, and are predicted with a logit of ``NEVER``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import flatten

NEVER = -1e4
VOCAB_SIZE = 64
_LETTERS = "LAGVSERTIDPKQNFYMHWC"
_FIRST_LETTER, _CLS, _PAD, _EOS, _MASK = 4, 0, 1, 2, 32
_REQUIRED: dict[str, Any] = {
    "norm": "layer",
    "qk_norm": True,
    "positions": "rotary",
    "mlp": "swiglu",
    "residual_scale": True,
    "time_conditioning": False,
    "self_conditioning": False,
    "relations": 0,
    "frame": True,
}


def token_ids(alphabet: Alphabet) -> np.ndarray:
    """ESM C's id of each of our token ids, int32 [num_tokens]."""
    letters = [_FIRST_LETTER + _LETTERS.index(letter) for letter in alphabet.letters]
    return np.array([*letters, _MASK, _PAD, _CLS, _EOS], np.int32)


def export_transformers(denoiser: NetworkDenoiser, folder: Path) -> Path:
    """Write ``config.json`` and ``model.safetensors`` in float32 for ``EsmcForMaskedLM``.

    Raises:
        InputError: the architecture has no counterpart in ESM C (names the option), or the folder is not empty.
    """
    from safetensors.numpy import save_file

    config, alphabet = denoiser.config, denoiser.alphabet
    for name, wanted in _REQUIRED.items():
        if getattr(config, name) != wanted:
            raise InputError(
                f"ESM C has {name}={wanted!r}, this model {getattr(config, name)!r}; it cannot be exported"
            )
    if not denoiser.process.absorbing or denoiser.output != "letters":
        raise InputError("ESM C predicts masked letters; only a model of the absorbing process can be exported")
    if sorted(alphabet.letters) != sorted(_LETTERS):
        raise InputError(f"ESM C reads the twenty amino acids, this model {alphabet.letters!r}")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    ids = token_ids(alphabet)
    tensors = {}
    for name, leaf in flatten(denoiser.params).items():
        new_name, value = _convert(name, np.asarray(leaf, np.float32), ids)
        tensors[new_name] = np.ascontiguousarray(value)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(config), indent=2) + "\n")
    return folder


def _convert(name: str, value: np.ndarray, ids: np.ndarray) -> tuple[str, np.ndarray]:
    *path, kind = name.split(".")
    inside = ".".join(path) if path[0] == "lm_head" else ".".join(["esmc", *path])
    if kind == "embedding":
        table = np.tile(value[: len(_LETTERS)].mean(axis=0), (VOCAB_SIZE, 1))
        table[ids] = value
        return f"{inside}.weight", table
    if path[-1] == "decoder":
        letters = ids[: len(_LETTERS)]
        if kind == "bias":
            wide = np.full(VOCAB_SIZE, NEVER, np.float32)
            wide[letters] = value
            return f"{inside}.bias", wide
        wide = np.zeros((VOCAB_SIZE, value.shape[0]), np.float32)
        wide[letters] = value.T
        return f"{inside}.weight", wide
    if kind == "kernel":
        return f"{inside}.weight", value.T
    return f"{inside}.{'weight' if kind == 'scale' else 'bias'}", value


def _config(config: TransformerConfig) -> dict[str, Any]:
    return {
        "architectures": ["EsmcForMaskedLM"],
        "model_type": "esmc",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "attention_bias": config.use_bias,
        "mlp_bias": config.use_bias,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "pad_token_id": _PAD,
        "bos_token_id": _CLS,
        "eos_token_id": _EOS,
        "mask_token_id": _MASK,
        "dtype": "float32",
    }
