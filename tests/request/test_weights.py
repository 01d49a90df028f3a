"""``seqdiff weights`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from seqdiff import cli
from seqdiff.models.weights import cache, sources


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SEQDIFF_MODELS", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    save_file({"w": np.ones(2, np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "esm"}')
    (folder / "LICENSE").write_text("terms")
    return folder


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list:
    """Replaces importer and writer; what was imported is recorded."""
    calls = []

    def importer(family, tensors, meta, alphabet):
        calls.append((family, sorted(tensors), alphabet.name))

    def writer(folder: Path, denoiser, *, notes, dtype):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"notes": notes}))

    monkeypatch.setattr(cache, "_importer", lambda: importer)
    monkeypatch.setattr(cache, "_writer", lambda: writer)
    return calls


def test_list(capsys: pytest.CaptureFixture, tmp_path: Path):
    assert cli.main(["weights", "list"]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert "bundled" in rows["protein-small"]
    assert "97 MB, PyPI" in rows["antiberty"]
    assert "yes" not in rows["antiberty"]
    assert "2.8B" in rows["esm2-3b"]
    assert "11.4 GB, HF" in rows["esm2-3b"]
    assert "proteinmpnn = proteinmpnn-020" in shown
    assert str(tmp_path / "cache") in shown


def test_get_and_list(checkpoint: Path, imported: list, capsys: pytest.CaptureFixture, tmp_path: Path):
    assert cli.main(["weights", "get", "dplm-150m", f"from={checkpoint}"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Apache-2.0 https://github.com/bytedance/dplm") < shown.index("wrote ")
    assert "arXiv:2402.18567" in shown
    assert f"wrote {tmp_path / 'cache' / 'dplm-150m'}; use it with model=dplm-150m" in shown
    assert imported == [("esm2", ["w"], "protein")]
    assert (tmp_path / "cache" / "dplm-150m" / "LICENSE").read_text() == "terms"
    assert cli.main(["weights", "get", "dplm-150m"]) == 0
    assert "is on this machine already" in capsys.readouterr().out
    assert len(imported) == 1
    assert cli.main(["weights", "list"]) == 0
    assert any("dplm-150m" in line and "yes" in line for line in capsys.readouterr().out.splitlines())


def test_a_checkpoint_of_ones_own(checkpoint: Path, imported: list, capsys: pytest.CaptureFixture):
    assert cli.main(["weights", "get", "my-esm", "from=checkpoint", "offline=true"]) == 0
    assert "use it with model=my-esm" in capsys.readouterr().out
    assert imported[0][0] == "esm2"


def test_terms_are_shown_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    def download(*args):
        raise AssertionError("downloaded: " + capsys.readouterr().out)

    monkeypatch.setattr(sources, "_download", download)
    with pytest.raises(AssertionError, match="licence MIT https"):
        cli.main(["weights", "get", "antiberty"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["antibertty"], "unknown model 'antibertty'; did you mean 'antiberty'?"),
        (["protein-small"], "nothing to get"),
        (["antiberty", "form=x"], "no key 'form'; it takes from=PATH and offline=true"),
        (["antiberty", "offline=maybe"], "neither true nor false"),
        (["antiberty", "from=3"], "from=3 is not a path"),
        (["antiberty", "from=nowhere"], "from=nowhere does not exist"),
        (["antiberty", "offline=true"], "offline=true; fetch that wheel (97 MB) on another machine"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture):
    assert cli.main(["weights", "get", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_help_shows_examples(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        cli.main(["weights", "get", "--help"])
    assert "seqdiff weights get antiberty" in capsys.readouterr().out
