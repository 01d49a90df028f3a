"""Noise schedules: the survival probability alpha(t) of a letter, from 1 at t = 0 (clean) to 0 at t = 1 (noise).

The loss weight of the absorbing process is ``-alpha'(t) / (1 - alpha(t))`` (Shi et al. 2024, MD4; Sahoo et al.
2024, MDLM). The continuous-time bound does not depend on the schedule; its variance and the pace of sampling do.
"""

from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float


class Schedule(Protocol):
    """A survival curve and its loss weight."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Probability that a letter survives until time t."""
        ...

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``-alpha'(t) / (1 - alpha(t))``, the weight of the masked cross-entropy at time t."""
        ...


@dataclass(frozen=True)
class Linear:
    """``alpha = 1 - t``; weight ``1 / t``."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 1.0 - t

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 1.0 / t


@dataclass(frozen=True)
class Cosine:
    """``alpha = 1 - sin(pi t / 2)``: slow at the noisy end (the cosine schedule of MD4)."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 1.0 - jnp.sin(0.5 * jnp.pi * t)

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 0.5 * jnp.pi / jnp.tan(0.5 * jnp.pi * t)


@dataclass(frozen=True)
class Geometric:
    """``alpha = exp(-low^(1-t) high^t)`` (the geometric schedule of SEDD, Lou et al. 2024).

    ``alpha(0)`` and ``alpha(1)`` miss 1 and 0 by about ``low`` and ``exp(-high)``.
    """

    low: float = 1e-4
    high: float = 20.0

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.exp(-self._sigma(t))

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        sigma = self._sigma(t)
        return sigma * jnp.log(self.high / self.low) / jnp.expm1(sigma)

    def _sigma(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self.low * (self.high / self.low) ** t


SCHEDULES: dict[str, type[Linear] | type[Cosine] | type[Geometric]] = {
    "linear": Linear,
    "cosine": Cosine,
    "geometric": Geometric,
}
