"""Optimisers and learning-rate schedules, all optax.

``muon`` (Jordan et al. 2024, ``optax.contrib.muon``) orthogonalises the momentum of the matrices inside the blocks;
embeddings, the output layer, norms and biases are handled by AdamW, as its authors advise.
"""

from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from seqdiff.core.errors import InputError, unknown_key

SCHEDULES = ("stable", "cosine")


def learning_rate(
    *, peak: float, steps: int, warmup: int, decay_fraction: float, schedule: str = "stable"
) -> optax.Schedule:
    """Linear warm-up to ``peak`` over ``warmup`` steps, then one of two ways down to zero at ``steps``.

    ``stable`` stays at the peak and falls linearly over the last ``decay_fraction`` of the steps. A run can be
    prolonged by raising ``steps`` before its decay begins (warmup-stable-decay, Hu et al. 2024). ``cosine`` falls along
    half a cosine from the end of the warm-up (Loshchilov & Hutter 2017); all of it depends on ``steps``.

    Raises:
        InputError: no such schedule, or a warm-up longer than a cosine run.
    """
    if schedule not in SCHEDULES:
        raise unknown_key("optimizer.schedule", schedule, SCHEDULES)
    if schedule == "cosine":
        if warmup >= steps:
            raise InputError(f"optimizer.warmup={warmup} leaves none of the {steps} steps to schedule=cosine")
        return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, steps)
    decay = max(1, round(steps * decay_fraction))
    stable = max(0, steps - warmup - decay)
    return optax.join_schedules(
        [
            optax.linear_schedule(0.0, peak, max(1, warmup)),
            optax.constant_schedule(peak),
            optax.linear_schedule(peak, 0.0, decay),
        ],
        [warmup, warmup + stable],
    )


def make_optimizer(
    name: str, rate: optax.Schedule, *, adam_rate: float, weight_decay: float, clip: float
) -> optax.GradientTransformation:
    """The optimiser called ``name``: ``muon`` or ``adamw``, with gradients clipped to the global norm ``clip``.

    Args:
        name: which optimiser.
        rate: learning rate of the matrices inside the blocks (muon) or of everything (adamw).
        adam_rate: ratio of the learning rate of all other parameters to ``rate``; read by muon only.
        weight_decay: decoupled weight decay.
        clip: largest global norm of a gradient.
    """
    if name == "adamw":
        update = optax.adamw(rate, b2=0.98, weight_decay=weight_decay, mask=_matrices)
    elif name == "muon":
        update = muon(
            rate,
            weight_decay=weight_decay,
            adam_b2=0.98,
            adam_weight_decay=0.0,
            adam_learning_rate=lambda step: adam_rate * rate(step),
            muon_weight_dimension_numbers=_muon_dimensions,
            consistent_rms=0.2,
        )
    else:
        raise InputError(f"optimizer {name!r}: choose one of adamw, muon")
    return optax.chain(optax.clip_by_global_norm(clip), update)


def _is_block_matrix(path: tuple[Any, ...], leaf: jax.Array) -> bool:
    names = [str(getattr(part, "key", getattr(part, "name", part))) for part in path]
    return leaf.ndim == 2 and "layers" in names and "kernel" in names


def _matrices(params: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim == 2, params)


def _muon_dimensions(params: Any) -> Any:
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: MuonDimensionNumbers() if _is_block_matrix(path, leaf) else None, params
    )
