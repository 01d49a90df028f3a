"""Notebooks: text and ``.ipynb`` say the same, and each runs in a fresh kernel; its own assertions are the check.

    python -m pytest -m '' tests/experiments/test_notebooks.py

runs all of them (as CI does); without ``-m ''`` two. Those of other people's models need these models on the machine.
"""

import pytest

from seqdiff.models.weights.cache import model_folder

WITHOUT = "notebooks need pip install 'seqdiff[notebooks]'"
pytest.importorskip("ipykernel", reason=WITHOUT)
nbclient = pytest.importorskip("nbclient", reason=WITHOUT)
notebooks = pytest.importorskip("seqdiff.experiments.notebooks.__main__", reason=WITHOUT)

MODELS = {"antibody_cdrs": "antiberty", "fixed_backbone": "proteinmpnn"}
"""What a notebook needs beside the bundled models."""
FOLDER, NAMES = notebooks.FOLDER, notebooks.NAMES
QUICK = ("quick_start", "your_own_constraint")


def test_text_and_notebook_say_the_same():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)
    for name in NAMES:
        assert (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8") == notebooks.text(name), (
            f"{name}.ipynb is not what {name}.py says; run python -m seqdiff.experiments.notebooks"
        )


def test_every_notebook_is_on_the_page():
    page = (FOLDER.resolve().parents[1] / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"../experiments/notebooks/{name}.py" in page for name in NAMES)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_notebook_runs(name, tmp_path):
    model = MODELS.get(name)
    if model and model_folder(model) is None:
        pytest.skip(f"{model} is not on this machine; seqdiff weights get {model}")
    client = nbclient.NotebookClient(
        notebooks.notebook(name), timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
