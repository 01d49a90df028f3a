"""Architecture of the denoiser network as one frozen record.

The default describes the ESM C architecture at a small size, so that a model trained here loads in
Transformers' ``EsmcForMaskedLM``; every other field is a departure from it that some published family needs.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from seqdiff.core.errors import InputError, unknown_key

_CHOICES = {
    "norm": ("layer", "rms"),
    "placement": ("pre", "post"),
    "positions": ("rotary", "learned", "none"),
    "mlp": ("swiglu", "gelu"),
    "head": ("mlp", "linear"),
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of :class:`seqdiff.models.transformer.Transformer`.

    Attributes:
        num_letters: letters that the network predicts (the output width V).
        num_tokens: tokens that it reads: letters, mask, pad, begin, end.
        width: size of the residual stream; a multiple of ``heads``.
        depth: number of blocks.
        loops: times that the stack of blocks is applied, always with the same weights (Dehghani et al. 2019, Universal
            Transformer): more computation for no more parameters.
        heads: attention heads.
        hidden: inner width of the feed-forward part.
        norm: ``layer`` (ESM, BERT) or ``rms`` (Llama).
        norm_epsilon: added to the variance.
        placement: ``pre``: a norm before each part and one after the last block; ``post``: a norm after the embedding
            and after each residual sum (BERT).
        final_norm_bias: whether the norm after the last block has a bias (ESM-2); read by ``norm="layer"`` only.
        qk_norm: normalise queries and keys over the full width before they are cut into heads (ESM C).
        kv_heads: heads of keys and values, a divisor of ``heads`` (grouped-query attention); None for ``heads``.
        positions: ``rotary``, ``learned`` (up to ``max_length``) or ``none``.
        max_length: number of learned positions, frame tokens included; read by ``positions="learned"`` only.
        rope_theta: base of the rotary frequencies; read by ``positions="rotary"`` only.
        mlp: ``swiglu`` or ``gelu``.
        use_bias: biases in the linear maps of the blocks.
        qkv_bias: biases in queries, keys and values; None for ``use_bias`` (Qwen2 has these alone).
        residual_scale: divide each residual branch by ``sqrt(depth / 36)`` (ESM3 and ESM C).
        time_conditioning: modulate the norms by the noise level (adaLN-Zero, Peebles & Xie 2023). The absorbing process
            does not need it, because the number of masks tells the level; with letters as noise it helps.
        self_conditioning: read an earlier prediction of the same canvas (Chen et al. 2023, Analog Bits).
        relations: number of relation types whose embedding biases attention; 0 for none.
        frame: put begin and end tokens around the canvas, so that the network knows where the chain ends.
        mask_dropout: share of masked tokens in training (ESM-2: 0.12). Masks are then embedded as zeros and the other
            tokens scaled by (1 - mask_dropout) / (1 - share of masks in the row); 0 for neither.
        head: ``mlp`` (dense, GELU, norm, linear: ESM, BERT) or ``linear`` (Llama).
        shifted: the output at one token predicts the next (Dream, whose weights began as a causal model); the first
            token is predicted by itself.
        classifiers: names and labels of heads on the begin token (AntiBERTy: species, chain).
    """

    num_letters: int
    num_tokens: int
    width: int = 256
    depth: int = 4
    loops: int = 1
    heads: int = 4
    hidden: int = 512
    norm: Literal["layer", "rms"] = "layer"
    norm_epsilon: float = 1e-5
    placement: Literal["pre", "post"] = "pre"
    final_norm_bias: bool = False
    qk_norm: bool = True
    kv_heads: int | None = None
    positions: Literal["rotary", "learned", "none"] = "rotary"
    max_length: int = 1026
    rope_theta: float = 10_000.0
    mlp: Literal["swiglu", "gelu"] = "swiglu"
    use_bias: bool = False
    qkv_bias: bool | None = None
    residual_scale: bool = True
    time_conditioning: bool = False
    self_conditioning: bool = False
    relations: int = 0
    frame: bool = True
    mask_dropout: float = 0.0
    head: Literal["mlp", "linear"] = "mlp"
    shifted: bool = False
    classifiers: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self):
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(allowed)}")
        if self.loops < 1:
            raise InputError(f"loops={self.loops} must be at least 1: how often the stack of blocks is applied")
        if self.width % self.heads:
            raise InputError(f"width={self.width} is not a multiple of heads={self.heads}")
        if self.heads % (self.kv_heads or self.heads):
            raise InputError(f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}")
        if self.classifiers and not self.frame:
            raise InputError("classifiers read the begin token; they need frame=true")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise InputError(f"rotary positions need an even head size; width / heads is {self.width // self.heads}")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TransformerConfig":
        """The config that ``data`` describes; unknown keys are refused by name."""
        refuse_unknown(cls, data)
        heads = tuple((name, tuple(labels)) for name, labels in data.get("classifiers", ()))
        return cls(**data | {"classifiers": heads})


def refuse_unknown(cls: Any, data: dict[str, Any]) -> None:
    """Refuse keys that are no fields of the config ``cls``, by name."""
    names = [field.name for field in fields(cls)]
    for key in data:
        if key not in names:
            raise unknown_key("network option", key, names)
