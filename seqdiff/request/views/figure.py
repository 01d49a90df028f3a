"""Where the pictures of this package come from: matplotlib, loaded when the first one is drawn.

Pictures are ``matplotlib.figure.Figure`` objects made without pyplot, so that drawing them changes nothing global; they
show themselves in a notebook, are saved with ``savefig`` and enter a page as an SVG inside the page.
"""

import base64
import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from seqdiff.core.errors import InputError, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, safe for colour-blind readers.
COLOURS: tuple[str, ...] = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
GREY = "#b9b9b4"
_SVG: Any = {"svg.hashsalt": "seqdiff", "svg.fonttype": "none", "font.size": 9}


def grid(rows: int, columns: int, width: float, height: float, **options: Any) -> "tuple[Figure, np.ndarray]":
    """A figure and its axes [rows, columns].

    Args:
        rows: of axes.
        columns: of axes.
        width: of the figure in inches.
        height: of the figure in inches.
        **options: of ``Figure.subplots``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from seqdiff.request.views.plot import Plot
    except ImportError:
        raise missing_extra("matplotlib", "plots") from None
    figure = Plot(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        tidy(axis)
    return figure, axes


def tidy(axis: "Axes") -> None:
    """No box, small labels."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, colors="#444")


def title(axis: "Axes", words: str) -> None:
    """A title at the left."""
    axis.set_title(words, loc="left", fontsize=9.5, color="#222")


def label(words: str) -> str:
    """Words from outside, a file's name say, as matplotlib shows them letter by letter."""
    plain = "".join(letter for letter in words if letter.isprintable()).replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def to_uri(figure: "Figure") -> str:
    """The figure as a ``data:`` address of an SVG, the same for the same figure."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_SVG), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font has not
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def some(items: Any, what: str) -> Any:
    """``items`` if there are any.

    Raises:
        InputError: there are none.
    """
    if not len(items):
        raise InputError(f"there is no {what} to draw")
    return items
