"""How much designs of a set differ from one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from seqdiff.request.designs import Design, Designs
from seqdiff.request.views.figure import COLOURS, grid, some, title
from seqdiff.request.views.reference import identical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST, ALIGNED_MOST = 1000, 48
LEVELS = (0.9, 0.7, 0.5)


@dataclass(frozen=True)
class Diversity:
    """How designs of a set differ.

    Attributes:
        distinct: number of different designs in the whole set.
        compared: the first so many were compared with one another.
        identity: of each two of them, symmetric with ones on the diagonal [compared, compared].
        measure: what identity means here, in words.
    """

    distinct: int
    compared: int
    identity: Float[np.ndarray, "n n"]
    measure: str

    @property
    def pairs(self) -> Float[np.ndarray, "p"]:
        """Identity of each pair of different designs."""
        return self.identity[np.triu_indices(self.compared, 1)]

    def clusters(self, level: float) -> int:
        """Number of clusters of the compared designs, single linkage: two of ``level`` identity or more are in one."""
        from scipy.sparse.csgraph import connected_components

        return int(connected_components(self.identity >= level, directed=False)[0])


def diversity(designs: Designs) -> Diversity:
    """Compare designs with one another.

    Of equal length, position by position over the positions that were designed in any of them (at most ``MOST``
    designs); else by alignment, identical residues over the shorter one's length (at most ``ALIGNED_MOST``).
    """
    distinct = len(set(designs.sequences))
    if len({len(text) for text in designs.sequences}) <= 1:
        compared = designs.designs[:MOST]
        identity, positions = _by_position(compared)
        return Diversity(distinct, len(compared), identity, f"of the {positions} designed positions")
    texts = designs.sequences[:ALIGNED_MOST]
    return Diversity(distinct, len(texts), _by_alignment(texts), "of the shorter one's residues, aligned")


def draw_diversity(found: Diversity) -> "Figure":
    """The distribution of the identities of pairs.

    Raises:
        InputError: there is no pair.
    """
    pairs = some(found.pairs, "pair of designs")
    figure, axes = grid(1, 1, 5.2, 2.5)
    axis = axes[0, 0]
    axis.hist(
        100 * pairs,
        bins=np.linspace(0, 100, 41).tolist(),
        color=COLOURS[0],
        weights=np.full(len(pairs), 100 / len(pairs)),
    )
    axis.axvline(100 * float(pairs.mean()), color="#222", linewidth=1, linestyle="--")
    axis.set_xlabel(f"identity of two designs (%), {found.measure}", fontsize=8.5)
    axis.set_ylabel("% of pairs", fontsize=8.5)
    title(axis, f"mean {100 * pairs.mean():.1f} %")
    return figure


def _by_position(designs: Sequence[Design]) -> tuple[np.ndarray, int]:
    if not designs:
        return np.ones((0, 0)), 0
    letters = np.array([[ord(letter) for letter in design.sequence] for design in designs])
    open = np.any([np.asarray(design.order) >= 0 for design in designs], axis=0)
    letters = letters[:, open if open.any() else slice(None)]
    same = np.zeros((len(designs), len(designs)), np.float32)
    for letter in np.unique(letters):
        has = (letters == letter).astype(np.float32)
        same += has @ has.T
    return same / letters.shape[1], letters.shape[1]


def _by_alignment(texts: Sequence[str]) -> np.ndarray:
    identity = np.ones((len(texts), len(texts)))
    for i, a in enumerate(texts):
        for j, b in enumerate(texts[:i]):
            identity[i, j] = identity[j, i] = identical(a, b) / min(len(a), len(b))
    return identity
