"""Noise schedules: the survival probability alpha(t) of a letter, from 1 at t = 0 (clean) to 0 at t = 1 (noise).

A schedule is given by three closed forms: the survival, the noise level ``1 - alpha`` (in its own formula, because the
difference loses all digits near t = 0) and the slope ``-alpha'``. The continuous-time bound does not depend on the
schedule (Kingma et al. 2021; Shi et al. 2024, MD4); its variance and the pace of sampling do.
"""

from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float

from seqdiff.core.errors import InputError


class Schedule(Protocol):
    """A survival curve."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Probability that a letter survives until time t."""
        ...

    def noise_level(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``1 - alpha(t)``: what denoisers are given as ``time``."""
        ...

    def slope(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``-alpha'(t)``."""
        ...

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``-alpha'(t) / (1 - alpha(t))``: weight of the masked cross-entropy in the bound of the absorbing process."""
        return self.slope(t) / self.noise_level(t)


@dataclass(frozen=True)
class Linear(Schedule):
    """``alpha = 1 - t``; weight ``1 / t``."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 1.0 - t

    def noise_level(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return t

    def slope(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.ones_like(t)


@dataclass(frozen=True)
class Cosine(Schedule):
    """``alpha = 1 - sin(pi t / 2)``: slow at the noisy end (the cosine schedule of MD4)."""

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 1.0 - self.noise_level(t)

    def noise_level(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.sin(0.5 * jnp.pi * t)

    def slope(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return 0.5 * jnp.pi * jnp.maximum(jnp.cos(0.5 * jnp.pi * t), 0.0)


@dataclass(frozen=True)
class Geometric(Schedule):
    """``alpha = exp(-low^(1-t) high^t)`` (the geometric schedule of SEDD, Lou et al. 2024).

    ``alpha(0)`` and ``alpha(1)`` miss 1 and 0 by about ``low`` and ``exp(-high)``.
    """

    low: float = 1e-4
    high: float = 20.0

    def alpha(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.exp(-self._sigma(t))

    def noise_level(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return -jnp.expm1(-self._sigma(t))

    def slope(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self._sigma(t) * jnp.log(self.high / self.low) * self.alpha(t)

    def _sigma(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self.low * (self.high / self.low) ** t


SCHEDULES: dict[str, type[Linear] | type[Cosine] | type[Geometric]] = {
    "linear": Linear,
    "cosine": Cosine,
    "geometric": Geometric,
}


def schedule_name(schedule: Schedule) -> str:
    """The name under which :data:`SCHEDULES` makes ``schedule``.

    Raises:
        InputError: none does, so a file could not say which schedule it is.
    """
    for name, make in SCHEDULES.items():
        if make() == schedule:
            return name
    raise InputError(f"{schedule} has no name; use one of {', '.join(SCHEDULES)} with their default parameters")
