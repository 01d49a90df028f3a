"""Names of other libraries' tensors for the parts of our network, one table per published family.

A table maps our modules to theirs; where several names are in use the first one is written and any is read. The last
part of a name follows from the kind of tensor: our ``kernel``, ``scale`` and ``embedding`` are their ``weight``, and
linear maps are transposed. :mod:`seqdiff.models.importers` reads through a table, :mod:`seqdiff.models.export` writes.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

Names = Mapping[str, tuple[str, ...]]


def _names(**modules: str | tuple[str, ...]) -> Names:
    """A table from keywords; ``__`` stands for a dot, ``layers__attention`` for ``layers.{i}.attention``."""
    table = {}
    for ours, theirs in modules.items():
        ours = ours.replace("__", ".")
        ours = re.sub(r"^layers\.", "layers.{i}.", ours)
        table[ours] = (theirs,) if isinstance(theirs, str) else theirs
    return MappingProxyType(table)


ESMC = _names(
    embed_tokens="esmc.embed_tokens",
    layers__input_layernorm="esmc.layers.{i}.input_layernorm",
    layers__post_attention_layernorm="esmc.layers.{i}.post_attention_layernorm",
    layers__self_attn__q_proj="esmc.layers.{i}.self_attn.q_proj",
    layers__self_attn__k_proj="esmc.layers.{i}.self_attn.k_proj",
    layers__self_attn__v_proj="esmc.layers.{i}.self_attn.v_proj",
    layers__self_attn__o_proj="esmc.layers.{i}.self_attn.o_proj",
    layers__self_attn__q_norm="esmc.layers.{i}.self_attn.q_norm",
    layers__self_attn__k_norm="esmc.layers.{i}.self_attn.k_norm",
    layers__mlp__gate_proj="esmc.layers.{i}.mlp.gate_proj",
    layers__mlp__up_proj="esmc.layers.{i}.mlp.up_proj",
    layers__mlp__down_proj="esmc.layers.{i}.mlp.down_proj",
    norm="esmc.norm",
    lm_head__dense="lm_head.dense",
    lm_head__layer_norm="lm_head.layer_norm",
    lm_head__decoder="lm_head.decoder",
)

ESM2 = _names(
    embed_tokens="esm.embeddings.word_embeddings",
    layers__input_layernorm="esm.encoder.layer.{i}.attention.LayerNorm",
    layers__post_attention_layernorm="esm.encoder.layer.{i}.LayerNorm",
    layers__self_attn__q_proj="esm.encoder.layer.{i}.attention.self.query",
    layers__self_attn__k_proj="esm.encoder.layer.{i}.attention.self.key",
    layers__self_attn__v_proj="esm.encoder.layer.{i}.attention.self.value",
    layers__self_attn__o_proj="esm.encoder.layer.{i}.attention.output.dense",
    layers__mlp__up_proj="esm.encoder.layer.{i}.intermediate.dense",
    layers__mlp__down_proj="esm.encoder.layer.{i}.output.dense",
    norm="esm.encoder.emb_layer_norm_after",
    lm_head__dense="lm_head.dense",
    lm_head__layer_norm="lm_head.layer_norm",
    lm_head__decoder=("lm_head", "lm_head.decoder", "esm.embeddings.word_embeddings"),
)

BERT = _names(
    embed_tokens="bert.embeddings.word_embeddings",
    embed_positions="bert.embeddings.position_embeddings",
    norm="bert.embeddings.LayerNorm",
    layers__input_layernorm="bert.encoder.layer.{i}.attention.output.LayerNorm",
    layers__post_attention_layernorm="bert.encoder.layer.{i}.output.LayerNorm",
    layers__self_attn__q_proj="bert.encoder.layer.{i}.attention.self.query",
    layers__self_attn__k_proj="bert.encoder.layer.{i}.attention.self.key",
    layers__self_attn__v_proj="bert.encoder.layer.{i}.attention.self.value",
    layers__self_attn__o_proj="bert.encoder.layer.{i}.attention.output.dense",
    layers__mlp__up_proj="bert.encoder.layer.{i}.intermediate.dense",
    layers__mlp__down_proj="bert.encoder.layer.{i}.output.dense",
    lm_head__dense="cls.predictions.transform.dense",
    lm_head__layer_norm="cls.predictions.transform.LayerNorm",
    lm_head__decoder=("cls.predictions.decoder", "cls.predictions", "bert.embeddings.word_embeddings"),
    classifiers__pooler="bert.pooler.dense",
    classifiers__heads__species="cls.species",
    classifiers__heads__chain="cls.chain",
)

LLAMA = _names(
    embed_tokens=("model.embed_tokens", "model.transformer.wte"),
    layers__input_layernorm=("model.layers.{i}.input_layernorm", "model.transformer.blocks.{i}.attn_norm"),
    layers__post_attention_layernorm=(
        "model.layers.{i}.post_attention_layernorm",
        "model.transformer.blocks.{i}.ff_norm",
    ),
    layers__self_attn__q_proj=("model.layers.{i}.self_attn.q_proj", "model.transformer.blocks.{i}.q_proj"),
    layers__self_attn__k_proj=("model.layers.{i}.self_attn.k_proj", "model.transformer.blocks.{i}.k_proj"),
    layers__self_attn__v_proj=("model.layers.{i}.self_attn.v_proj", "model.transformer.blocks.{i}.v_proj"),
    layers__self_attn__o_proj=("model.layers.{i}.self_attn.o_proj", "model.transformer.blocks.{i}.attn_out"),
    layers__mlp__gate_proj=("model.layers.{i}.mlp.gate_proj", "model.transformer.blocks.{i}.ff_proj"),
    layers__mlp__up_proj=("model.layers.{i}.mlp.up_proj", "model.transformer.blocks.{i}.up_proj"),
    layers__mlp__down_proj=("model.layers.{i}.mlp.down_proj", "model.transformer.blocks.{i}.ff_out"),
    norm=("model.norm", "model.transformer.ln_f"),
    lm_head__decoder=("lm_head", "model.transformer.ff_out", "model.embed_tokens", "model.transformer.wte"),
)


def candidates(names: Names, tensor: str) -> list[str]:
    """Their names for our tensor, the one to write first; none where the table has no such module."""
    module, kind = tensor.rsplit(".", 1)
    index = re.match(r"layers\.(\d+)\.", module)
    theirs = names.get(re.sub(r"^layers\.\d+\.", "layers.{i}.", module), ())
    suffix = "bias" if kind == "bias" else "weight"
    found = [f"{name.replace('{i}', index[1]) if index else name}.{suffix}" for name in theirs]
    return found
