"""A checkpoint on disk as arrays and plain data: safetensors or torch files, whole or in shards, with their config.

The layout is that of Hugging Face repositories: ``config.json``, a vocabulary (``vocab.txt``, ``vocab.json`` or
``tokenizer.json``) and ``model.safetensors``, ``pytorch_model.bin`` or an index of shards. A single file of weights is
read with what lies beside it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.models.weights.torch_file import read_torch_file

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
STATE_KEYS = ("model_state_dict", "state_dict")
CONFIG = "config.json"

FAMILIES = {
    "esm": "esm2",
    "esmc": "esmc",
    "bert": "bert",
    "llama": "llama",
    "qwen2": "llama",
    "dream": "llama",
    "llada": "llama",
    "mpnn": "mpnn",
}
"""Families of :func:`seqdiff.models.importers.import_model` by the ``model_type`` of a config, in lower case."""


def family_of(meta: Mapping[str, Any], where: object) -> str:
    """The family that a config's ``model_type`` stands for.

    Raises:
        InputError: there is none, or it is not one that can be imported.
    """
    kind = meta.get("model_type")
    if kind is None:
        raise InputError(f"{where}: config.json has no 'model_type'; known: {', '.join(sorted(FAMILIES))}")
    if str(kind).lower() not in FAMILIES:
        raise InputError(f"{where}: cannot import model_type {kind!r}; known: {', '.join(sorted(FAMILIES))}")
    return FAMILIES[str(kind).lower()]


def read_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Tensors by name, and the config with ``vocab`` added where there is one.

    Args:
        path: a folder in the layout of Hugging Face, or a file of weights.

    Raises:
        InputError: something is missing or damaged.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist")
    folder = path if path.is_dir() else path.parent
    tensors, scalars = read_weights(_weight_files(path) if path.is_dir() else [path])
    return tensors, scalars | read_meta(folder)


def read_weights(files: Iterable[Path]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Tensors of all files, and the plain values that torch files keep beside them."""
    tensors: dict[str, np.ndarray] = {}
    scalars: dict[str, Any] = {}
    for file in files:
        if file.suffix == ".safetensors":
            found, values = _read_safetensors(file), {}
        elif file.suffix in TORCH_SUFFIXES:
            found, values = _split(read_torch_file(file), file)
        else:
            raise InputError(f"{file} is no file of weights; they end in .safetensors or {', '.join(TORCH_SUFFIXES)}")
        tensors |= {_current_name(name): value for name, value in found.items()}
        scalars |= values
    return tensors, scalars


def _current_name(name: str) -> str:
    """Layer norms of the first BERT have ``gamma`` and ``beta``, which Transformers still writes for some models."""
    return re.sub(r"(?<=LayerNorm\.)(gamma|beta)$", lambda part: {"gamma": "weight", "beta": "bias"}[part[0]], name)


def read_meta(folder: Path, config: Path | None = None, vocabulary: Path | None = None) -> dict[str, Any]:
    """The config in ``folder``, or ``{}``, with ``vocab`` added: a mapping from token to id."""
    config = config or folder / CONFIG
    meta = read_json(config) if config.is_file() else {}
    vocab = read_vocabulary(vocabulary) if vocabulary else _find_vocabulary(folder)
    return meta | ({"vocab": vocab} if vocab else {})


def read_vocabulary(path: Path) -> dict[str, int]:
    """Token to id, from one token a line, a JSON mapping, or ``tokenizer.json`` of the tokenizers library."""
    if path.suffix == ".txt":
        return {token: i for i, token in enumerate(path.read_text(encoding="utf-8").splitlines())}
    data = read_json(path)
    if path.name != "tokenizer.json":
        return data
    try:
        vocab = data["model"]["vocab"]
        table = dict(vocab) if isinstance(vocab, dict) else {token: i for i, (token, _) in enumerate(vocab)}
        return table | {token["content"]: token["id"] for token in data.get("added_tokens", [])}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} has no vocabulary; put a vocab.txt with one token a line beside it") from None


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid JSON ({error})") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} does not hold a mapping")
    return data


def _find_vocabulary(folder: Path) -> dict[str, int]:
    for name in ("vocab.txt", "tokenizer.json", "vocab.json"):
        if (folder / name).is_file():
            return read_vocabulary(folder / name)
    return {}


def _weight_files(folder: Path) -> list[Path]:
    """Files of weights in ``folder``: safetensors before torch files, a whole file before shards."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return [folder / name]
        if (index := folder / f"{name}.index.json").is_file():
            return _shards(index)
    for suffixes in ((".safetensors",), TORCH_SUFFIXES):
        found = sorted(file for file in folder.iterdir() if file.suffix in suffixes)
        if len(found) == 1:
            return found
        if found:
            raise InputError(f"{folder} has {len(found)} files of weights and no index; name one of them")
    raise InputError(f"{folder} has no file of weights (model.safetensors or pytorch_model.bin)")


def _shards(index: Path) -> list[Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise InputError(f"{index} has no 'weight_map'")
    shards = sorted(set(names.values()))
    if outside := [name for name in shards if Path(name).name != name]:
        raise InputError(f"{index} points outside its folder: {outside[0]}")
    if missing := [name for name in shards if not (index.parent / name).is_file()]:
        raise InputError(f"{index.parent / missing[0]} is missing, which {index.name} names")
    return [index.parent / name for name in shards]


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (SafetensorError, KeyError) as error:
        raise InputError(f"{path} is truncated or not a safetensors file ({error}); fetch it again") from None
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    return {name: value.astype(np.float32) if value.dtype == bfloat16 else value for name, value in tensors.items()}


def _split(tree: Any, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Tensors and plain values of what a torch file holds: a state dict, or a dict that has one beside other values."""
    if not isinstance(tree, dict):
        raise InputError(f"{path} holds no state dict")
    key = next((key for key in STATE_KEYS if isinstance(tree.get(key), dict)), None)
    state = tree if key is None else tree[key]
    tensors = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    if not tensors:
        raise InputError(f"{path} holds no tensors by name, neither by itself nor under {' or '.join(STATE_KEYS)}")
    plain = str | int | float | bool
    return tensors, {name: value for name, value in tree.items() if isinstance(value, plain)}
