"""Write the ``.ipynb`` of every notebook of this folder from its text form.

    python -m seqdiff.experiments.notebooks

A notebook is reviewed as text, ``NAME.py`` in jupytext's percent format, and opened as ``NAME.ipynb``, which holds the
same cells without outputs. Cells are named by their place, so that the same text gives the same file.
"""

from pathlib import Path

import jupytext
import nbformat

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("__")))


def notebook(name: str) -> nbformat.NotebookNode:
    """The notebook that ``NAME.py`` says, without outputs."""
    found = jupytext.read(FOLDER / f"{name}.py", fmt="py:percent")
    found.metadata = {"kernelspec": dict(found.metadata["kernelspec"])}
    for place, cell in enumerate(found.cells):
        cell["id"] = f"cell-{place:02d}"
    return found


def text(name: str) -> str:
    """What ``NAME.ipynb`` must hold."""
    return nbformat.writes(notebook(name)) + "\n"


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / f"{each}.ipynb").write_text(text(each), encoding="utf-8")
