"""Published checkpoints as denoisers: tensors under other libraries' names become parameters of our networks.

Masked language models (ESM-2 and DPLM, ESM C, BERT-style antibody models) and bidirectional Llama and Qwen2 denoisers
(LLaDA, Dream) are one network with different options (:class:`~seqdiff.models.config.TransformerConfig`). Only the
rows of the vocabulary that stand for the alphabet and its special tokens are kept, so that a denoiser speaks our ids
whatever the checkpoint's are. Every tensor of a checkpoint is either used or named in a list of what is known not to
matter; anything else is refused, because a tensor that is left out without a word changes the model.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import NetworkDenoiser, abstract_denoiser
from seqdiff.models.names import BERT, ESM2, ESMC, LLAMA, Names, candidates
from seqdiff.models.store import flatten

Tensors = Mapping[str, np.ndarray]
Meta = Mapping[str, Any]

ESM_VOCABULARY = ("<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>")
"""The tokens of ESM-2, DPLM and ESM C in id order (ESM C has a chain break in place of ``<null_1>``)."""

ESM2_MASK_DROPOUT = 0.15 * 0.8
"""Share of tokens that ESM-2 masked in training (Lin et al. 2023; constant in its code)."""

SPECIES = ("Camel", "Human", "Mouse", "Rabbit", "Rat", "Rhesus")
CHAINS = ("Heavy", "Light")


class Family(NamedTuple):
    """A published architecture.

    Attributes:
        names: of its tensors.
        config: the network that a checkpoint's own config describes.
        ignored: patterns of tensors that no logit depends on.
        specials: names of MASK, PAD, BEGIN and END in its vocabulary.
    """

    names: Names
    config: Callable[[Meta, Tensors], dict[str, Any]]
    ignored: str
    specials: tuple[str, str, str, str]


def import_model(family: str, tensors: Tensors, meta: Meta, alphabet: Alphabet) -> Denoiser:
    """The denoiser that a checkpoint holds.

    Args:
        family: ``esm2`` (DPLM too), ``esmc``, ``bert``, ``llama`` (LLaDA, Dream, Qwen2) or ``mpnn``.
        tensors: by the checkpoint's names.
        meta: the checkpoint's config, plus ``vocab``, a mapping from token to id, where it is not the family's own.
        alphabet: letters to keep.

    Raises:
        InputError: an option that our network lacks, a tensor that is missing, of another shape or unknown, or a
            vocabulary without one of the letters.
    """
    if family == "mpnn":
        from seqdiff.models.mpnn.convert import from_tensors

        return from_tensors(dict(tensors), dict(meta), alphabet)
    if family not in FAMILIES:
        raise unknown_key("model family", family, [*FAMILIES, "mpnn"])
    described = FAMILIES[family]
    tensors = _fold_token_types(tensors) if family == "bert" else tensors
    config = TransformerConfig(
        num_letters=len(alphabet), num_tokens=alphabet.num_tokens, **described.config(meta, tensors)
    )
    rows = token_rows(alphabet, _vocabulary(family, meta), described.specials, meta, frame=config.frame)
    shapes = abstract_denoiser(config, alphabet)
    params = _fill(shapes.params, tensors, described, rows, len(alphabet))
    return NetworkDenoiser(shapes.graphdef, params, config, alphabet)


def token_rows(
    alphabet: Alphabet,
    vocabulary: Mapping[str, int],
    specials: tuple[str, str, str, str],
    meta: Meta,
    *,
    frame: bool,
) -> np.ndarray:
    """The checkpoint's id of each of our token ids, int32 [num_tokens].

    The id of MASK may also be given as ``mask_token_id``. Without a frame, BEGIN and END are never read, and PAD never
    attended to, so that any row will do.
    """
    mask, pad, begin, end = (vocabulary.get(name) for name in specials)
    mask = meta.get("mask_token_id", None) if mask is None else mask
    pad = meta.get("pad_token_id", None) if pad is None else pad
    if missing := [letter for letter in alphabet.letters if letter not in vocabulary]:
        raise InputError(f"the model's vocabulary has no token {missing[0]!r}; it cannot read {alphabet.name} letters")
    if mask is None:
        raise InputError("the model's vocabulary has no mask token; give 'mask_token_id' in its config.json")
    if frame and (begin is None or end is None):
        raise InputError(f"the model's vocabulary lacks {specials[2] if begin is None else specials[3]}")
    spare = mask if pad is None else pad
    letters = [vocabulary[letter] for letter in alphabet.letters]
    return np.array([*letters, mask, spare, spare if begin is None else begin, spare if end is None else end], np.int32)


def _vocabulary(family: str, meta: Meta) -> Mapping[str, int]:
    if "vocab" in meta:
        return meta["vocab"]
    if family in ("esm2", "esmc"):
        return {token: i for i, token in enumerate(ESM_VOCABULARY)}
    raise InputError("the checkpoint has no vocabulary; put its vocab.txt or tokenizer.json beside it")


def _fill(shapes: Any, tensors: Tensors, family: Family, rows: np.ndarray, letters: int) -> Any:
    used, leaves = set(), []
    for name, shape in flatten(shapes).items():
        options = candidates(family.names, name)
        found = next((option for option in options if option in tensors), None)
        if found is None:
            raise InputError(f"the checkpoint lacks {options[0] if options else name!r}, which its config calls for")
        used |= {found, *options}
        value = np.asarray(tensors[found], np.float32)
        if name == "embed_tokens.embedding":
            value = value[rows]
        elif name.startswith("lm_head.decoder."):
            value = value[rows[:letters]]
        if name.endswith(".kernel"):
            value = value.T
        if value.shape != shape.shape:
            raise InputError(f"{found} has shape {value.shape}, its config says {shape.shape}")
        leaves.append(jnp.asarray(value))
    if extra := sorted(name for name in tensors if name not in used and not re.fullmatch(family.ignored, name)):
        raise InputError(f"the checkpoint has {extra[0]!r}, which no part of the network reads ({len(extra)} tensors)")
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)


def _fold_token_types(tensors: Tensors) -> Tensors:
    """BERT adds the embedding of token type 0 everywhere, which is part of the position embedding then."""
    types, places = "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.position_embeddings.weight"
    if types not in tensors or places not in tensors:
        return tensors
    return dict(tensors) | {places: tensors[places] + tensors[types][:1]}


def _require(meta: Meta, **wanted: Any) -> None:
    """Refuse a checkpoint whose config departs from what the network can be."""
    for key, value in wanted.items():
        if meta.get(key) not in (None, value):
            raise InputError(f"the checkpoint's config has {key}={meta[key]!r}; only {value!r} is supported")


def _sizes(meta: Meta) -> dict[str, Any]:
    """Width and so on, by the names of Transformers or those of LLaDA's own config."""
    found = {}
    for ours, theirs in {
        "width": ("hidden_size", "d_model"),
        "depth": ("num_hidden_layers", "n_layers"),
        "heads": ("num_attention_heads", "n_heads"),
        "hidden": ("intermediate_size", "mlp_hidden_size"),
    }.items():
        value = next((meta[key] for key in theirs if meta.get(key) is not None), None)
        if value is None:
            raise InputError(f"the checkpoint's config lacks {theirs[0]!r}")
        found[ours] = int(value)
    return found


def _rope_theta(meta: Meta) -> float:
    rope = meta.get("rope_parameters") or meta.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise InputError(f"the checkpoint's config has rope_type={kind!r}; only 'default' is supported")
    return float(rope.get("rope_theta", meta.get("rope_theta", 10_000.0)))


def _esm2(meta: Meta, tensors: Tensors) -> dict[str, Any]:
    _require(meta, position_embedding_type="rotary", emb_layer_norm_before=False, hidden_act="gelu")
    return _sizes(meta) | {
        "norm_epsilon": float(meta.get("layer_norm_eps", 1e-5)),
        "final_norm_bias": True,
        "qk_norm": False,
        "mlp": "gelu",
        "use_bias": True,
        "residual_scale": False,
        "mask_dropout": ESM2_MASK_DROPOUT if meta.get("token_dropout", False) else 0.0,
    }


def _esmc(meta: Meta, tensors: Tensors) -> dict[str, Any]:
    _require(meta, hidden_act="silu", attention_bias=False, mlp_bias=False)
    return _sizes(meta) | {"rope_theta": _rope_theta(meta)}


def _bert(meta: Meta, tensors: Tensors) -> dict[str, Any]:
    _require(meta, position_embedding_type="absolute", hidden_act="gelu")
    antiberty = "cls.species.weight" in tensors
    return _sizes(meta) | {
        "norm_epsilon": float(meta.get("layer_norm_eps", 1e-12)),
        "placement": "post",
        "qk_norm": False,
        "positions": "learned",
        "max_length": int(meta["max_position_embeddings"]),
        "mlp": "gelu",
        "use_bias": True,
        "residual_scale": False,
        "classifiers": (("species", SPECIES), ("chain", CHAINS)) if antiberty else (),
    }


def _llama(meta: Meta, tensors: Tensors) -> dict[str, Any]:
    sizes = _sizes(meta)
    _require(
        meta, hidden_act="silu", use_sliding_window=False, mlp_bias=False, head_dim=sizes["width"] // sizes["heads"]
    )
    heads = meta.get("num_key_value_heads", meta.get("n_kv_heads"))
    qkv_bias = any(name.endswith(".q_proj.bias") for name in tensors)
    if any(name.endswith(("o_proj.bias", "attn_out.bias")) for name in tensors):
        raise InputError("the checkpoint has biases in o_proj; only in q_proj, k_proj and v_proj are they supported")
    return sizes | {
        "norm": "rms",
        "norm_epsilon": float(meta.get("rms_norm_eps", 1e-6)),
        "qk_norm": False,
        "kv_heads": int(heads) if heads else None,
        "rope_theta": _rope_theta(meta),
        "qkv_bias": qkv_bias,
        "residual_scale": False,
        "frame": False,
        "head": "linear",
        "shifted": str(meta.get("model_type", "")).lower() == "dream",
    }


_ESM = ("<mask>", "<pad>", "<cls>", "<eos>")
FAMILIES = {
    "esm2": Family(
        ESM2,
        _esm2,
        r".*inv_freq|.*position_ids|esm\.contact_head\..*|esm\.pooler\..*|esm\.embeddings\.position_embeddings\.weight",
        _ESM,
    ),
    "esmc": Family(ESMC, _esmc, r".*inv_freq", _ESM),
    "bert": Family(
        BERT,
        _bert,
        r".*position_ids|.*token_type_embeddings\.weight|bert\.pooler\..*|cls\.(graft|seq_relationship)\..*",
        ("[MASK]", "[PAD]", "[CLS]", "[SEP]"),
    ),
    "llama": Family(LLAMA, _llama, r".*inv_freq", ("<mask>", "<pad>", "<bos>", "<eos>")),
}
