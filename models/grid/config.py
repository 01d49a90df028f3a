"""Architecture of the networks over the pairs of nodes as one frozen record."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from seqdiff.core.errors import InputError
from seqdiff.models.config import TransformerConfig, refuse_unknown


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """Hyperparameters of :class:`seqdiff.models.grid.network.PairGrid` and its sibling over flat tokens.

    Attributes:
        num_letters: letters that the network predicts (the output width V); the first means no edge.
        kind: ``pairs``: a state for each of the n x n pairs; ``tokens``: the shared transformer over the positions.
        directed: whether (i, j) and (j, i) are two arcs.
        width: size of the residual stream; a multiple of ``heads``.
        depth: number of blocks.
        heads: attention heads.
        hidden: inner width of the feed-forward part.
        channels: products that the triangle update sums; read by ``pairs`` only.
        structure: show the network degrees, short paths and components of the edges that are there; read by ``pairs``
            only, where these are functions of what it sees anyway, and take depth to find.
        codes: width of the code that tells each node from the others; 0 for none, which keeps ``pairs`` equivariant.
            ``tokens`` needs some, or it cannot tell which edges meet.
    """

    num_letters: int
    kind: Literal["pairs", "tokens"] = "pairs"
    directed: bool = False
    width: int = 64
    depth: int = 4
    heads: int = 4
    hidden: int = 128
    channels: int = 32
    structure: bool = True
    codes: int = 0

    def __post_init__(self):
        if self.kind not in ("pairs", "tokens"):
            raise InputError(f"kind={self.kind!r}: choose one of pairs, tokens")
        if self.width % self.heads:
            raise InputError(f"width={self.width} is not a multiple of heads={self.heads}")
        if self.kind == "tokens" and not self.codes:
            raise InputError("kind=tokens needs codes of nodes: set codes to 32, say")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "GridConfig":
        """The config that ``data`` describes; unknown keys are refused by name."""
        refuse_unknown(cls, data)
        return cls(**data)

    def transformer(self, relations: int) -> TransformerConfig:
        """The architecture of the shared transformer for ``kind="tokens"``: no positions and no frame."""
        return TransformerConfig(
            num_letters=self.num_letters,
            num_tokens=self.num_letters + 2,
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            hidden=self.hidden,
            positions="none",
            residual_scale=False,
            relations=relations,
            frame=False,
        )
