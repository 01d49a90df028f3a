"""Imported models on this machine: each one a model folder like those that training writes, with its licence beside it.

The folder is ``~/.cache/seqdiff/models`` (``XDG_CACHE_HOME`` is respected), or what ``SEQDIFF_MODELS`` names. A model
appears in it whole or not at all.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.models.folders import BUNDLED, bundled_names
from seqdiff.models.weights.catalogue import (
    HUB_PREFIX,
    Entry,
    find_entry,
    folder_name,
    hub_entry,
    known_names,
    own_entry,
    repository,
)
from seqdiff.models.weights.checkpoint import family_of
from seqdiff.models.weights.sources import Fetched

Importer = Callable[[str, Mapping[str, np.ndarray], Mapping[str, Any], Alphabet], Denoiser]
Writer = Callable[..., None]


def cache_folder() -> Path:
    """Where imported models are kept."""
    if chosen := os.environ.get("SEQDIFF_MODELS"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seqdiff" / "models"


def cached_names() -> list[str]:
    """Names of the folders with a whole model."""
    return sorted(path.parent.name for path in cache_folder().glob("[!.]*/config.json"))


def model_folder(name: str) -> Path | None:
    """The folder of an imported model, by its name, an alias or its repository; None if it is not on this machine."""
    entry = find_entry(name)
    plain = folder_name(entry.name if entry else name)
    return cache_folder() / plain if plain in cached_names() else None


def locate(name_or_path: str | Path) -> Path:
    """The folder of a model: bundled, of the catalogue, a path, or imported before under a name of the user's own.

    Raises:
        InputError: there is none; the message says how to get it.
    """
    name, path = str(name_or_path), Path(name_or_path)
    if name in bundled_names():
        return BUNDLED / name
    if entry := find_entry(name):
        if folder := model_folder(name):
            return folder
        raise InputError(f"{name} is not on this machine yet; run: seqdiff weights get {name} ({entry.terms})")
    if path.is_dir():
        return path
    if folder := model_folder(name):
        return folder
    if name.startswith(HUB_PREFIX):
        raise InputError(f"{name} is not on this machine yet; run: seqdiff weights get {name}")
    if path.suffix or len(path.parts) > 1:
        hint = f"; if it is on Hugging Face, run: seqdiff weights get {name}" if repository(name) else ""
        raise InputError(f"model folder {name!r} does not exist{hint}")
    raise unknown_key("model", name, {*bundled_names(), *known_names(), *cached_names()})


def resolve_entry(name: str, *, given: Path | None) -> Entry:
    """What a user who asks for ``name`` means: an entry of the catalogue, a repository, or a checkpoint of their own.

    Raises:
        InputError: it is none of them, or a bundled model.
    """
    entry = find_entry(name)
    if entry is not None:
        if entry.source is None:
            raise InputError(f"{name} is part of seqdiff; there is nothing to get")
        return entry
    if given is None and Path(name).exists():
        raise InputError(f"choose a name for {name}: seqdiff weights get NAME from={name}")
    if repo := repository(name):
        return hub_entry(repo)
    if given is not None:
        return own_entry(name)
    raise unknown_key("model", name, known_names())


def install(
    entry: Entry,
    fetched: Fetched,
    alphabet: Alphabet,
    *,
    importer: Importer | None = None,
    writer: Writer | None = None,
) -> Path:
    """Turn a checkpoint into a model folder in the cache.

    Args:
        entry: what it is.
        fetched: its files.
        alphabet: letters to keep.
        importer: :func:`seqdiff.models.importers.import_model` unless given.
        writer: :func:`seqdiff.models.store.save_model` unless given.

    Returns:
        The folder. It holds ``model.safetensors``, ``config.json``, ``LICENSE`` and ``CITATION``.

    Raises:
        InputError: the checkpoint is not what its family expects, or the cache cannot be written.
    """
    importer, writer = importer or _importer(), writer or _writer()
    family = entry.family or family_of(fetched.meta, fetched.origin)
    denoiser = importer(family, fetched.tensors, fetched.meta, alphabet)
    target = cache_folder() / folder_name(entry.name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as scratch:
            folder = Path(scratch) / target.name
            writer(folder, denoiser, notes=_notes(entry, fetched, family), dtype="float32")
            (folder / "LICENSE").write_text(fetched.licence_text or _licence(entry), encoding="utf-8")
            (folder / "CITATION").write_text((entry.citation or entry.title) + "\n", encoding="utf-8")
            _put(folder, target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"cannot write to {target.parent} ({reason}); set SEQDIFF_MODELS to a folder") from None
    return target


def _importer() -> Importer:
    from seqdiff.models.importers import import_model

    return import_model


def _writer() -> Writer:
    from seqdiff.models.store import save_model

    return save_model


def _put(folder: Path, target: Path) -> None:
    """Move a finished folder to its place; what stands there unfinished goes, a finished one stays."""
    if target.exists() and not (target / "config.json").is_file():
        shutil.rmtree(target)
    try:
        folder.rename(target)
    except OSError:
        if not (target / "config.json").is_file():
            raise


def _licence(entry: Entry) -> str:
    return "\n".join(line for line in (entry.licence or "unknown", entry.licence_url) if line) + "\n"


def _notes(entry: Entry, fetched: Fetched, family: str) -> dict[str, Any]:
    facts = {
        "name": entry.name,
        "title": entry.title,
        "family": family,
        "origin": fetched.origin,
        "reads": entry.reads,
        "licence": entry.licence,
        "licence_url": entry.licence_url,
        "citation": entry.citation,
    }
    return {key: value for key, value in facts.items() if value}
