"""The domains that a spec can name. Nothing else in the request layer asks which domain it is: it asks the setting."""

from seqdiff.core.errors import unknown_key
from seqdiff.request.domains.base import Setting
from seqdiff.request.domains.graph import GraphSetting
from seqdiff.request.domains.protein import ProteinSetting
from seqdiff.request.domains.sudoku import SudokuSetting

DOMAINS: dict[str, type[Setting]] = {"protein": ProteinSetting, "graph": GraphSetting, "sudoku": SudokuSetting}


def domain_named(name: object) -> type[Setting]:
    """The class of a domain.

    Raises:
        InputError: there is none of that name.
    """
    if name not in DOMAINS:
        raise unknown_key("domain", name, DOMAINS)
    return DOMAINS[str(name)]
