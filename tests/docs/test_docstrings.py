"""The examples in docstrings, run in every module of the library."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import seqdiff

FOLDER = Path(seqdiff.__file__).parent
FINDER = doctest.DocTestFinder(exclude_empty=True)


def modules() -> list[str]:
    """Modules whose text holds an example."""
    found = pkgutil.walk_packages(seqdiff.__path__, "seqdiff.")
    files = {name: FOLDER.parent.joinpath(*name.split(".")) for _, name, _ in found}
    texts = {name: (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")) for name, path in files.items()}
    return sorted(name for name, path in texts.items() if ">>> " in path.read_text())


def test_there_are_examples():
    assert len(modules()) >= 10


@pytest.mark.parametrize("name", modules())
def test_examples(name: str):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
