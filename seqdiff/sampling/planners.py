"""Planners: which open positions to commit at a step.

A planner scores positions and chooses how many. Scores come from the conditioned marginals or from noise, never from
the sampled letters, so that one commit per step follows the model's law exactly. Noise for ties is drawn for each
position from the row's own key, so padding and batch composition cannot change a choice.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Random:
    """Uniformly random positions, ``quota`` per step: ancestral sampling with evenly spread commits."""

    reads_marginals: ClassVar[bool] = False

    def plan(
        self,
        keys: Key[Array, "B"],
        marginals: Float[Array, "B L V"],
        open: Bool[Array, "B L"],
        quota: Int[Array, "B"],
    ) -> Bool[Array, "B L"]:
        del marginals
        return _first(jnp.zeros(open.shape), keys, open) < quota[:, None]


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """The ``quota`` positions whose likeliest letter has the largest conditioned probability."""

    reads_marginals: ClassVar[bool] = True

    def plan(
        self,
        keys: Key[Array, "B"],
        marginals: Float[Array, "B L V"],
        open: Bool[Array, "B L"],
        quota: Int[Array, "B"],
    ) -> Bool[Array, "B L"]:
        return _first(-jnp.max(marginals, axis=-1), keys, open) < quota[:, None]


@dataclass(frozen=True, kw_only=True)
class EntropyBound:
    """As many low-entropy positions as can be committed at once with a bounded error (Ben-Hamu et al. 2025).

    Positions are taken in order of their conditioned entropy while the sum of entropies less the largest one, which
    bounds the joint dependence that parallel commits ignore, stays at most ``gamma``; never fewer than ``quota``.

    Attributes:
        gamma: the bound in nats; larger means fewer denoiser calls.
    """

    reads_marginals: ClassVar[bool] = True
    gamma: float = 0.1

    def __post_init__(self):
        if not self.gamma >= 0:
            raise InputError(f"gamma={self.gamma!r} must be at least 0 (nats)")

    def plan(
        self,
        keys: Key[Array, "B"],
        marginals: Float[Array, "B L V"],
        open: Bool[Array, "B L"],
        quota: Int[Array, "B"],
    ) -> Bool[Array, "B L"]:
        terms = jnp.where(marginals > 0, -marginals * jnp.log(jnp.where(marginals > 0, marginals, 1.0)), 0.0)
        entropy = jnp.sum(terms, axis=-1)
        rank = _first(entropy, keys, open)
        ordered = jnp.sort(jnp.where(open, entropy, jnp.inf), axis=-1)
        before = jnp.cumsum(jnp.roll(ordered, 1, axis=-1).at[:, 0].set(0.0), axis=-1)
        within = jnp.sum((before <= self.gamma) & jnp.isfinite(ordered), axis=-1)
        return open & (rank < jnp.maximum(quota, within)[:, None])


def _first(score: Float[Array, "B L"], keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Int[Array, "B L"]:
    """Rank of each open position by ascending score, ties in random order; L for positions that are not open."""
    length = open.shape[1]
    noise = jax.vmap(partial(jax.random.uniform, shape=(length,)))(keys)
    order = jnp.lexsort((noise, jnp.where(open, score, jnp.inf)), axis=-1)
    return jnp.where(open, jnp.argsort(order, axis=-1), length)


PLANNERS: dict[str, type[Random] | type[Confidence] | type[EntropyBound]] = {
    "random": Random,
    "confidence": Confidence,
    "entropy_bound": EntropyBound,
}
