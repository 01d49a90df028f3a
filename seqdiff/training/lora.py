"""Low-rank adaptation (LoRA, Hu et al. 2022): the frozen matrix W becomes W + (alpha / rank) A B, and A and B train.

Adapters are a flat mapping from the names of matrices to pairs (A, B), a pytree like any parameters, so that the
training step knows nothing of them but :func:`merge`. B starts at zero, so the first model is the frozen one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from seqdiff.core.errors import InputError

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Attention matrices, which LoRA's authors adapt."""


class Pair(NamedTuple):
    """The factors of one update.

    Attributes:
        a: drawn at random.
        b: zero at first.
    """

    a: Float[Array, "inputs rank"]
    b: Float[Array, "rank outputs"]


Adapters = Mapping[str, Pair]


def init_adapters(key: Key[Array, ""], params: Any, *, rank: int, targets: Sequence[str] = TARGETS) -> dict[str, Pair]:
    """Adapters of every matrix ``kernel`` inside a module named in ``targets``.

    A is drawn from a normal of variance 1 / inputs, by a key that depends on the matrix's name order only.

    Raises:
        InputError: the rank is not positive, or a target names no matrix.
    """
    if rank < 1:
        raise InputError(f"lora.rank={rank} must be at least 1")
    found: dict[str, Pair] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        names = _path(path)
        if leaf.ndim == 2 and names[-1] == "kernel" and set(targets) & set(names):
            inputs, outputs = leaf.shape
            draw = jax.random.normal(jax.random.fold_in(key, len(found)), (inputs, rank), leaf.dtype)
            found[".".join(names)] = Pair(draw * inputs**-0.5, jnp.zeros((rank, outputs), leaf.dtype))
    modules = {part for path, _ in jax.tree_util.tree_leaves_with_path(params) for part in _path(path)}
    if unknown := [target for target in targets if target not in modules]:
        known = sorted(name for name in modules if name.endswith("_proj"))
        raise InputError(f"lora.targets: the network has no {unknown[0]!r}; it has {', '.join(known)}")
    return found


def merge(params: Any, adapters: Adapters, scale: float) -> Any:
    """Parameters with ``scale * A B`` added to each adapted matrix; ``scale`` is alpha / rank."""

    def add(path: Any, leaf: Array) -> Array:
        pair = adapters.get(".".join(_path(path)))
        return leaf if pair is None else leaf + jnp.asarray(scale, leaf.dtype) * (pair.a @ pair.b)

    return jax.tree_util.tree_map_with_path(add, params)


def _path(path: Any) -> list[str]:
    return [str(getattr(part, "key", part)) for part in path]
