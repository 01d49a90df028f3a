"""Models on disk: a folder with ``model.safetensors`` and ``config.json``, by its path or by a name."""

import json
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, abstract_denoiser
from seqdiff.models.folders import CONFIG, WEIGHTS
from seqdiff.models.grid.config import GridConfig
from seqdiff.models.grid.denoiser import GridDenoiser, abstract_grid
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.denoiser import MPNNDenoiser, abstract_mpnn
from seqdiff.models.weights.cache import locate
from seqdiff.process.noise import Process
from seqdiff.process.schedules import SCHEDULES, schedule_name
from seqdiff.process.score_entropy import Output

FORMAT = 1
KINDS = {NetworkDenoiser: "transformer", MPNNDenoiser: "mpnn", GridDenoiser: "grid"}
Model = NetworkDenoiser | MPNNDenoiser | GridDenoiser


def flatten(params: Any) -> dict[str, jax.Array]:
    """Parameters by dotted name, such as ``layers.0.mlp.up_proj.kernel``."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {".".join(str(getattr(part, "key", part)) for part in path): leaf for path, leaf in leaves}


def save_model(folder: Path, denoiser: Model, *, notes: dict[str, Any], dtype: str = "bfloat16") -> None:
    """Write ``denoiser`` to ``folder``.

    Args:
        folder: made if absent.
        denoiser: what to write.
        notes: plain data about how it was trained, kept in ``config.json``.
        dtype: of the stored weights.
    """
    from safetensors.flax import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: leaf.astype(dtype) for name, leaf in flatten(denoiser.params).items()}
    save_file(tensors, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    alphabet = denoiser.alphabet
    config: dict[str, Any] = {
        "format": FORMAT,
        "kind": KINDS[type(denoiser)],
        "alphabet": {"name": alphabet.name, "letters": alphabet.letters},
        "network": denoiser.config.to_dict(),
    }
    if isinstance(denoiser, NetworkDenoiser):
        schedule = schedule_name(denoiser.process.schedule)
        config |= {"process": {"uniform": denoiser.process.uniform, "schedule": schedule}, "output": denoiser.output}
    (folder / CONFIG).write_text(json.dumps(config | {"notes": notes}, indent=2) + "\n")


def load_model(name_or_path: str | Path, alphabet: Alphabet, *, dtype: str = "float32") -> Model:
    """The model of that name or in that folder.

    Args:
        name_or_path: a bundled name, a name of the weight catalogue that is on this machine, or a folder that
            :func:`save_model` wrote.
        alphabet: the domain's alphabet; the model must have been trained on the same letters.
        dtype: of the weights in memory.

    Raises:
        InputError: no such model, a damaged file, or another alphabet.
    """
    folder = locate(name_or_path)
    config = _read_config(folder)
    letters = config["alphabet"]["letters"]
    if letters != alphabet.letters:
        raise InputError(f"model {name_or_path} reads letters {letters}, the request uses {alphabet.letters}")
    kind = config.get("kind", "transformer")
    if kind not in KINDS.values():
        raise InputError(f"{folder / CONFIG}: {unknown_key('kind', kind, KINDS.values())}")
    if kind == "mpnn":
        shapes = abstract_mpnn(MPNNConfig.from_dict(config["network"]), alphabet)
    elif kind == "grid":
        shapes = abstract_grid(GridConfig.from_dict(config["network"]), alphabet)
    else:
        shapes = abstract_denoiser(TransformerConfig.from_dict(config["network"]), alphabet)
    params = _fill(shapes.params, _read_tensors(folder / WEIGHTS), folder / WEIGHTS, dtype)
    if isinstance(shapes, MPNNDenoiser):
        return MPNNDenoiser(shapes.graphdef, params, shapes.config, alphabet)
    if isinstance(shapes, GridDenoiser):
        return GridDenoiser(shapes.graphdef, params, shapes.config, alphabet)
    process, output = _process(config, alphabet, folder / CONFIG)
    return NetworkDenoiser(shapes.graphdef, params, shapes.config, alphabet, process, output)


def model_notes(name_or_path: str | Path) -> dict[str, Any]:
    """What ``config.json`` says of how the model was trained."""
    return _read_config(locate(name_or_path))["notes"]


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text())
    except FileNotFoundError:
        raise InputError(f"{folder} is not a model folder: it has no {CONFIG}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{folder / CONFIG} is not valid JSON (line {error.lineno})") from None
    if config.get("format") != FORMAT:
        raise InputError(
            f"{folder / CONFIG}: format {config.get('format')!r} is not {FORMAT}; another library's model is read by: "
            f"seqdiff weights get NAME from={folder}"
        )
    return config


def _process(config: dict[str, Any], alphabet: Alphabet, path: Path) -> tuple[Process, Output]:
    """The process and output of a model; absorbing and letters where its file does not say."""
    data = {"uniform": 0.0, "schedule": "linear"} | config.get("process", {})
    output = config.get("output", "letters")
    if data["schedule"] not in SCHEDULES:
        raise InputError(f"{path}: {unknown_key('schedule', data['schedule'], SCHEDULES)}")
    if output not in get_args(Output):
        raise InputError(f"{path}: {unknown_key('output', output, get_args(Output))}")
    return Process(mask=alphabet.mask, uniform=data["uniform"], schedule=SCHEDULES[data["schedule"]]()), output


def _read_tensors(path: Path) -> dict[str, jax.Array]:
    from safetensors import SafetensorError
    from safetensors.flax import load_file

    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except SafetensorError as error:
        raise InputError(f"{path} is truncated or not a safetensors file ({error}); fetch it again") from None


def _fill(shapes: Any, tensors: dict[str, jax.Array], path: Path, dtype: str) -> Any:
    wanted = flatten(shapes)
    if missing := sorted(set(wanted) - set(tensors)):
        raise InputError(f"{path} lacks {missing[0]!r} ({len(missing)} tensors); it belongs to another config")
    if extra := sorted(set(tensors) - set(wanted)):
        raise InputError(f"{path} has {extra[0]!r}, which its config does not describe ({len(extra)} tensors)")
    for name, leaf in wanted.items():
        if tensors[name].shape != leaf.shape:
            raise InputError(f"{path}: {name} has shape {tensors[name].shape}, its config says {leaf.shape}")
    leaves = [np.asarray(tensors[name]).astype(dtype) for name in wanted]
    return jax.tree.unflatten(jax.tree.structure(shapes), [jax.numpy.asarray(leaf) for leaf in leaves])
