"""A matplotlib figure that shows itself in a notebook without pyplot; imported by ``views.figure`` only."""

import io

from matplotlib.figure import Figure


class Plot(Figure):
    """A figure whose value in a notebook cell is its picture."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
