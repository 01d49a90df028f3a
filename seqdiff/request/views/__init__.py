"""Pictures of designs: for notebooks, for scripts, and for the report page.

Each function takes a :class:`~seqdiff.request.designs.Designs` and returns a matplotlib figure, an SVG
(:func:`drawings`) or a py3Dmol view (:func:`view3d`). ``report`` puts them on a page, ``Designs`` has them as methods.
Modules: ``sequences`` (logo, order, surprise), ``properties`` (histograms), ``diversity``, ``reference`` (nearest known
sequence), ``quality`` (score against calls), ``structure`` (3D), ``drawing``; all draw through ``figure``.
"""

from seqdiff.request.views.diversity import Diversity, diversity, draw_diversity
from seqdiff.request.views.drawing import Drawing, degrees, drawings
from seqdiff.request.views.properties import compare_histograms, histograms
from seqdiff.request.views.quality import score_against_nfe
from seqdiff.request.views.reference import Nearest, Reference, nearest, read_reference
from seqdiff.request.views.sequences import entropy_trace, logo, order_map
from seqdiff.request.views.structure import trace, view3d

__all__ = [
    "Diversity",
    "Drawing",
    "Nearest",
    "Reference",
    "compare_histograms",
    "degrees",
    "diversity",
    "draw_diversity",
    "drawings",
    "entropy_trace",
    "histograms",
    "logo",
    "nearest",
    "order_map",
    "read_reference",
    "score_against_nfe",
    "trace",
    "view3d",
]
