"""The absorbing process: letters turn into MASK and stay there (D3PM absorbing, MDLM, MD4).

The denoiser sees a canvas in which some letters are MASK and predicts the clean letter at each; known letters are
carried over (SUBS parameterisation of MDLM: no probability on MASK, unmasked positions keep their letter), which
holds here by construction because networks predict letters only and the loss reads masked positions only.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.process.schedules import Linear, Schedule


@dataclass(frozen=True)
class Absorbing:
    """The masking process over an alphabet.

    Attributes:
        mask: id of MASK.
        schedule: survival curve.
    """

    mask: int
    schedule: Schedule = field(default_factory=Linear)

    def corrupt(
        self, key: Key[Array, ""], x0: Int[Array, "length"], t: Float[Array, ""], open: Bool[Array, "length"]
    ) -> Int[Array, "length"]:
        """A draw of q(z_t | x_0): each open position is MASK with probability ``1 - alpha(t)``, independently.

        Positions that are not open (padding, frame tokens, given context) keep their token.
        """
        noise = jax.random.uniform(key, x0.shape)
        return jnp.where(open & (noise >= self.schedule.alpha(t)), self.mask, x0)

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Weight of the masked cross-entropy in the continuous-time bound (MDLM eq. 10, MD4 eq. 4)."""
        return self.schedule.weight(t)

    def prior(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Int[Array, "..."]:
        """The canvas at t = 1: all MASK."""
        del key
        return jnp.full(shape, self.mask, jnp.int32)

    def reveal_probability(self, t: Float[Array, "*n"], s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Probability that a position masked at t is clean at s < t: ``(alpha(s) - alpha(t)) / (1 - alpha(t))``."""
        alpha_t = self.schedule.alpha(t)
        return (self.schedule.alpha(s) - alpha_t) / (1.0 - alpha_t)


def low_discrepancy_times(key: Key[Array, ""], batch: int, low: float, high: float = 1.0) -> Float[Array, "batch"]:
    """Times that cover [low, high) evenly: one uniform offset shared by a grid of ``batch`` strata (Kingma et al.
    2021, VDM). Each time is uniform on its own; together their sum of losses has less variance.
    """
    grid = (jax.random.uniform(key) + jnp.arange(batch) / batch) % 1.0
    return low + (high - low) * grid
