"""Models on disk: a folder with ``model.safetensors`` and ``config.json``, or the name of a bundled one."""

import json
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, abstract_denoiser
from seqdiff.process.noise import Process
from seqdiff.process.schedules import SCHEDULES, schedule_name
from seqdiff.process.score_entropy import Output

WEIGHTS, CONFIG = "model.safetensors", "config.json"
BUNDLED = Path(__file__).resolve().parent / "bundled"
FORMAT = 1


def bundled_names() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{WEIGHTS}"))


def flatten(params: Any) -> dict[str, jax.Array]:
    """Parameters by dotted name, such as ``layers.0.mlp.up_proj.kernel``."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {".".join(str(getattr(part, "key", part)) for part in path): leaf for path, leaf in leaves}


def save_model(folder: Path, denoiser: NetworkDenoiser, *, notes: dict[str, Any], dtype: str = "bfloat16") -> None:
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
    config = {
        "format": FORMAT,
        "alphabet": {"name": alphabet.name, "letters": alphabet.letters},
        "network": denoiser.config.to_dict(),
        "process": {"uniform": denoiser.process.uniform, "schedule": schedule_name(denoiser.process.schedule)},
        "output": denoiser.output,
        "notes": notes,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def load_model(name_or_path: str | Path, alphabet: Alphabet, *, dtype: str = "float32") -> NetworkDenoiser:
    """The model of that name or in that folder.

    Args:
        name_or_path: a bundled name (see :func:`bundled_names`) or a folder that :func:`save_model` wrote.
        alphabet: the domain's alphabet; the model must have been trained on the same letters.
        dtype: of the weights in memory.

    Raises:
        InputError: no such model, a damaged file, or another alphabet.
    """
    folder = BUNDLED / str(name_or_path)
    if str(name_or_path) not in bundled_names():
        folder = Path(name_or_path)
        if not folder.is_dir():
            if folder.suffix or len(folder.parts) > 1:
                raise InputError(f"model folder {str(folder)!r} does not exist")
            raise unknown_key("model", name_or_path, bundled_names())
    try:
        config = json.loads((folder / CONFIG).read_text())
    except FileNotFoundError:
        raise InputError(f"{folder} is not a model folder: it has no {CONFIG}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{folder / CONFIG} is not valid JSON (line {error.lineno})") from None
    if config.get("format") != FORMAT:
        raise InputError(f"{folder / CONFIG}: format {config.get('format')!r} is not {FORMAT}; update seqdiff")
    letters = config["alphabet"]["letters"]
    if letters != alphabet.letters:
        raise InputError(f"model {name_or_path} reads letters {letters}, the request uses {alphabet.letters}")
    shapes = abstract_denoiser(TransformerConfig.from_dict(config["network"]), alphabet)
    params = _fill(shapes.params, _read_tensors(folder / WEIGHTS), folder / WEIGHTS, dtype)
    process, output = _process(config, alphabet, folder / CONFIG)
    return NetworkDenoiser(shapes.graphdef, params, shapes.config, alphabet, process, output)


def model_notes(name_or_path: str | Path) -> dict[str, Any]:
    """What ``config.json`` says of how the model was trained."""
    folder = BUNDLED / str(name_or_path) if str(name_or_path) in bundled_names() else Path(name_or_path)
    return json.loads((folder / CONFIG).read_text())["notes"]


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
