"""Designs on their structure: an interactive view for notebooks, a static trace for the page.

Confidence is the probability that the model gave the residue when it was committed; residues that were given have none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from Bio.SeqUtils import seq3
from jaxtyping import Float

from seqdiff.core.errors import InputError, missing_extra
from seqdiff.core.structure import ATOMS, BACKBONE
from seqdiff.request.designs import Designs
from seqdiff.request.target import Target
from seqdiff.request.views.figure import GREY, grid, label, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CA = ATOMS.index("CA")
_NONE = -1.0


def view3d(designs: Designs, index: int = 0, width: int = 640, height: int = 420) -> Any:
    """The backbone as a cartoon, residues of the design coloured by confidence (red low, blue high), the rest grey.

    The view loads 3Dmol.js from the net when a notebook shows it; hovering is the viewer's own.

    Args:
        designs: for a structure.
        index: of the design.
        width: in pixels.
        height: in pixels.

    Returns:
        A ``py3Dmol.view``.

    Raises:
        InputError: the designs are for no structure, or there is no such design.
        MissingExtraError: py3Dmol is not installed.
    """
    pdb = to_pdb(designs, index)
    try:
        import py3Dmol
    except ImportError:
        raise missing_extra("py3Dmol", "plots") from None
    view = py3Dmol.view(width=width, height=height)
    view.addModel(pdb, "pdb")
    scheme = {"prop": "b", "gradient": "rwb", "min": 0, "max": 1}
    view.setStyle({}, {"cartoon": {"colorscheme": scheme}})
    view.setStyle({"b": _NONE}, {"cartoon": {"color": GREY}})
    view.setStyle({"hetflag": True}, {"stick": {"colorscheme": "greyCarbon"}})
    view.zoomTo()
    return view


def to_pdb(designs: Designs, index: int = 0) -> str:
    """The first model's backbone as PDB text, residues named as in the design, confidence (-1: none) as B-factor."""
    target, confidence = _target(designs), _confidence(designs, index)
    names = dict(zip(target.residues.tolist(), designs[index].sequence, strict=True))
    structure = target.structures[0]
    lines, serial = [], 0
    for i in range(len(structure)):
        residue = seq3(names[i]).upper() if i in names else structure.name[i][:3]
        for atom in BACKBONE:
            if structure.present[i, atom]:
                serial += 1
                place = f"{structure.chain[i][:1]}{structure.number[i]:4d}{structure.insertion[i] or ' ':1s}"
                x, y, z = structure.coords[i, atom]
                lines.append(
                    f"ATOM  {serial % 100000:5d}  {ATOMS[atom]:<3s} {residue:>3s} {place}   "
                    f"{x:8.3f}{y:8.3f}{z:8.3f}  1.00{confidence[i]:6.2f}          {ATOMS[atom][0]:>2s}"
                )
    return "\n".join([*lines, "END", ""])


def trace(designs: Designs, index: int = 0) -> "Figure":
    """The C-alpha trace of the first model in its two widest directions, coloured by confidence; context is grey.

    Raises:
        InputError: the designs are for no structure, or there is no such design.
        MissingExtraError: matplotlib is not installed.
    """
    target, confidence = _target(designs), _confidence(designs, index)
    structure = target.structures[0]
    known = structure.present[:, CA]
    centred = structure.coords[:, CA] - structure.coords[known, CA].mean(axis=0)
    axes3 = np.linalg.svd(centred[known], full_matrices=False)[2]
    xyz = centred @ axes3.T
    wide, high = np.ptp(xyz[known, :2], axis=0)
    figure, axes = grid(1, 1, 8.0, float(np.clip(7.0 * high / max(wide, 1e-6), 1.4, 4.5)) + 0.3)
    axis = axes[0, 0]
    for i, j in sorted(_bonds(structure.chain, known), key=lambda bond: xyz[list(bond), 2].mean()):
        axis.plot(*xyz[[i, j], :2].T, color="#dcdcd8", linewidth=1.4, zorder=1, solid_capstyle="round")
    mine = known & (confidence != _NONE)
    rest = known & ~mine
    axis.scatter(*xyz[rest, :2].T, color=GREY, s=7, zorder=2, linewidths=0)
    if mine.any():
        deep = np.argsort(xyz[mine, 2])
        colours = confidence[mine][deep]
        image = axis.scatter(
            *xyz[mine][deep, :2].T,
            c=colours,
            cmap="viridis",
            vmin=0,
            vmax=1,
            s=26,
            zorder=3,
            linewidths=0.3,
            edgecolors="white",
        )
        bar = figure.colorbar(image, ax=axis, pad=0.01, fraction=0.03)
        bar.ax.tick_params(labelsize=7)
        bar.ax.set_title("p", fontsize=8, loc="left")
    axis.set_aspect("equal")
    axis.set_axis_off()
    title(axis, f"{label(designs[index].id)} on {label(target.file.name)}; small and grey: not designed")
    return figure


def _bonds(chain: tuple[str, ...], known: np.ndarray) -> Iterator[tuple[int, int]]:
    for i in range(len(chain) - 1):
        if known[i] and known[i + 1] and chain[i] == chain[i + 1]:
            yield i, i + 1


def _target(designs: Designs) -> Target:
    if designs.spec.structure is None:
        raise InputError("these designs are for no structure; a view needs a spec with structure: FILE")
    return designs.spec.structure


def _confidence(designs: Designs, index: int) -> Float[np.ndarray, "residues"]:
    """Of each residue of the structure."""
    if not 0 <= index < len(designs):
        raise InputError(f"there is no design {index}; there are {len(designs)}, counted from 0")
    design, target = designs[index], _target(designs)
    confidence = np.full(len(target.structures[0]), _NONE)
    confidence[target.residues] = np.where(np.asarray(design.order) >= 0, np.exp(design.log_p), _NONE)
    return confidence
