"""Architecture of the denoiser network as one frozen record.

The default describes the ESM C architecture at a small size, so that a model trained here loads in
Transformers' ``EsmcForMaskedLM``; every other field is a departure from it that some published family needs.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from seqdiff.core.errors import InputError, unknown_key


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of :class:`seqdiff.models.transformer.Transformer`.

    Attributes:
        num_letters: letters that the network predicts (the output width V).
        num_tokens: tokens that it reads: letters, mask, pad, begin, end.
        width: size of the residual stream; a multiple of ``heads``.
        depth: number of blocks.
        heads: attention heads.
        hidden: inner width of the feed-forward part.
        norm: ``layer`` (ESM C, BERT) or ``rms`` (Llama).
        qk_norm: normalise queries and keys over the full width before they are cut into heads (ESM C).
        positions: ``rotary``, ``learned`` (up to ``max_length``) or ``none``.
        max_length: number of learned positions, frame tokens included; read by ``positions="learned"`` only.
        rope_theta: base of the rotary frequencies; read by ``positions="rotary"`` only.
        mlp: ``swiglu`` or ``gelu``.
        use_bias: biases in the linear maps of the blocks.
        residual_scale: divide each residual branch by ``sqrt(depth / 36)`` (ESM3 and ESM C).
        time_conditioning: modulate the norms by the noise level (adaLN-Zero, Peebles & Xie 2023). The absorbing process
            does not need it, because the number of masks tells the level; with letters as noise it helps.
        self_conditioning: read an earlier prediction of the same canvas (Chen et al. 2023, Analog Bits).
        relations: number of relation types whose embedding biases attention; 0 for none.
        frame: put begin and end tokens around the canvas, so that the network knows where the chain ends.
    """

    num_letters: int
    num_tokens: int
    width: int = 256
    depth: int = 4
    heads: int = 4
    hidden: int = 512
    norm: Literal["layer", "rms"] = "layer"
    qk_norm: bool = True
    positions: Literal["rotary", "learned", "none"] = "rotary"
    max_length: int = 1026
    rope_theta: float = 10_000.0
    mlp: Literal["swiglu", "gelu"] = "swiglu"
    use_bias: bool = False
    residual_scale: bool = True
    time_conditioning: bool = False
    self_conditioning: bool = False
    relations: int = 0
    frame: bool = True

    def __post_init__(self):
        choices = {"norm": ("layer", "rms"), "positions": ("rotary", "learned", "none"), "mlp": ("swiglu", "gelu")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(allowed)}")
        if self.width % self.heads:
            raise InputError(f"width={self.width} is not a multiple of heads={self.heads}")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise InputError(f"rotary positions need an even head size; width / heads is {self.width // self.heads}")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TransformerConfig":
        """The config that ``data`` describes; unknown keys are refused by name."""
        names = [field.name for field in fields(cls)]
        for key in data:
            if key not in names:
                raise unknown_key("network option", key, names)
        return cls(**data)
