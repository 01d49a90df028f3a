"""The pages of the documentation, read as a user reads them: their commands, code, files and messages.

A fenced block with ``title="NAME"`` is a file of that name; ``bash`` blocks are commands; ``python`` blocks run one
after the other in one namespace; a ``text`` block that starts with ``seqdiff: error:`` is what the command before it
prints. Each page runs in an empty folder of its own beside the files that it says it uses.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from seqdiff.cli import main
from seqdiff.constraints.base import REGISTRY
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.folders import bundled_names
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.denoiser import init_mpnn
from seqdiff.models.store import save_model
from seqdiff.models.weights.cache import model_folder
from seqdiff.request.domains import DOMAINS
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec, read_mapping
from seqdiff.sampling.planners import PLANNERS

DOCS = Path(__file__).parents[2] / "docs"
SPECS = DOCS.parent / "experiments" / "specs"
GIVEN = (SPECS / "ubiquitin.fasta", SPECS / "models" / "coiled_coil.pdb")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ERROR = "seqdiff: error: "
HOWTO = sorted(page.relative_to(DOCS).as_posix() for page in (DOCS / "howto").glob("*.md"))
PYTHON = ["extending.md", "manual.md", *(page for page in HOWTO if "```python" in (DOCS / page).read_text())]


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in order."""
    return [Block(*match) for match in FENCE.findall((DOCS / page).read_text())]


def write(block: Block, folder: Path) -> Path:
    """The file that a block with a title stands for."""
    path = folder / block.title
    path.parent.mkdir(exist_ok=True)
    path.write_text(block.text)
    return path


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder with the files that pages refer to, and no model but the bundled ones."""
    for path in GIVEN:
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tutorial(tmp_path):
    """Every command of the tutorial, pasted into one shell with an empty cache."""
    script = "\n".join(block.text for block in blocks("tutorial.md") if block.language == "bash")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {
        "PATH": path,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "seqdiff-tutorial" / "outputs" / "first"
    named = {"designs.fasta", "designs.csv", "designs.json", "report.html", "spec.yaml", "run.json"}
    assert named <= {path.name for path in folder.iterdir()}
    assert (folder / "designs.csv").read_text().count(",True,") == 4
    assert "Designs(4 designs, 4 satisfy all 3 constraints" in done.stdout
    assert shown(block.text for block in blocks("tutorial.md") if ERROR in block.text) <= shown(
        [done.stderr, done.stdout]
    )
    table = next(block.text for block in blocks("tutorial.md") if block.text.startswith("constraint "))
    assert shown([table]) <= shown([done.stdout])


def shown(texts) -> set[str]:
    """Lines with blanks squeezed."""
    return {" ".join(line.split()) for text in texts for line in text.splitlines()} - {""}


def test_messages(desk, capsys, monkeypatch):
    """Every error message of the FAQ, letter for letter; ``seqdiff check spec.yaml`` where no command is given."""
    monkeypatch.setenv("SEQDIFF_MODELS", str(desk / "models"))
    config = MPNNConfig(neighbours=4, width=8, depth=1)
    save_model(desk / "models" / "proteinmpnn-020", init_mpnn(config, PROTEIN, seed=0), notes={})
    command, made = "", 0
    for block in blocks("faq.md"):
        if block.title:
            write(block, desk)
            command = "seqdiff check spec.yaml"
        elif block.language == "bash":
            command = block.text
        elif block.text.startswith(ERROR):
            assert main(shlex.split(command)[1:]) == 2, block.text
            assert capsys.readouterr().err.strip().splitlines()[-1] == block.text.strip()
            made += 1
    assert made >= 25


@pytest.mark.parametrize("page", HOWTO)
def test_specs_of_how_to_pages_compile(page, desk):
    """Specs are read and compiled; those that number antibodies only where the extra is here."""
    for block in blocks(page):
        if not block.title.endswith(".yaml"):
            continue
        spec = read_mapping(write(block, desk))
        if "numbering" in spec and importlib.util.find_spec("anarcii") is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch, which anarcii brings along, warns about its own future
            prepare(DesignSpec.from_mapping(spec, folder=desk))


@pytest.mark.parametrize("page", PYTHON)
def test_python_of_pages_runs(page, desk):
    """All Python of a page, in one namespace; what it registers is forgotten afterwards."""
    del desk
    code = "\n".join(block.text for block in blocks(page) if block.language == "python")
    with mock.patch.dict(REGISTRY), mock.patch.dict(PLANNERS), mock.patch.dict(DOMAINS):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("page", HOWTO)
def test_commands_of_how_to_pages_run(page, desk):
    """The commands on files that the page gives, designs of models that are on this machine included."""
    for block in blocks(page):
        if block.title:
            write(block, desk)
    lines = [line for block in blocks(page) if block.language == "bash" for line in block.text.splitlines()]
    for words in (shlex.split(line, comments=True) for line in lines):
        if words[:1] != ["seqdiff"] or not (desk / words[2]).is_file() or not _runs_here(desk / words[2]):
            continue
        assert main(words[1:]) == 0, words


def _runs_here(path: Path) -> bool:
    spec = read_mapping(path) if path.suffix == ".yaml" else {}
    model = spec.get("model", "protein-small")
    return "numbering" not in spec and (model in bundled_names() or model_folder(model) is not None)
