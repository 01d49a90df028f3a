"""The forward process: how letters turn into noise, and the exact steps back.

One family covers the field (the interpolating processes of von Ruette et al. 2025, GIDD)::

    q(z_t | x_0) = alpha(t) [z_t = x_0] + (1 - alpha(t)) pi(z_t),    pi = (1 - uniform) MASK + uniform / V letters

``uniform = 0`` is the absorbing process (D3PM absorbing, MDLM, MD4), ``uniform = 1`` the uniform one (D3PM uniform,
UDLM, DiffusionGemma), anything between a hybrid whose models can doubt the letters they see.

The denoiser predicts the clean letter at each position; its ``time`` is the noise level ``1 - alpha``, so a model does
not care which schedule it was trained with or which the sampler walks along.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.errors import InputError
from seqdiff.process.schedules import Linear, Schedule


@dataclass(frozen=True, kw_only=True)
class Process:
    """A forward process over an alphabet whose letters have the ids ``0 .. mask - 1``.

    Attributes:
        mask: id of MASK, and the number of letters V.
        uniform: share of the noise that is random letters; the rest is MASK.
        schedule: survival curve alpha(t).
    """

    mask: int
    uniform: float = 0.0
    schedule: Schedule = field(default_factory=Linear)

    def __post_init__(self):
        if not 0.0 <= self.uniform <= 1.0:
            raise InputError(f"uniform={self.uniform!r} must lie in [0, 1]: the share of noise that is random letters")

    @property
    def absorbing(self) -> bool:
        """Whether a letter, once seen, is certain."""
        return self.uniform == 0.0

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Independent draws of pi."""
        if self.absorbing:
            return jnp.full(shape, self.mask, jnp.int32)
        letter_key, mask_key = jax.random.split(key)
        letters = jax.random.randint(letter_key, shape, 0, self.mask, jnp.int32)
        if self.uniform == 1.0:
            return letters
        return jnp.where(jax.random.uniform(mask_key, shape) < self.uniform, letters, self.mask)

    def noise_probability(self, z: Int[Array, "*n"]) -> Float[Array, "*n"]:
        """pi(z)."""
        return jnp.where(z == self.mask, 1.0 - self.uniform, self.uniform / self.mask)

    def corrupt(
        self, key: Key[Array, ""], x0: Int[Array, "length"], t: Float[Array, ""], open: Bool[Array, "length"]
    ) -> Int[Array, "length"]:
        """A draw of q(z_t | x_0): each open position is noise with probability ``1 - alpha(t)``, independently.

        Positions that are not open (padding, frame tokens, given context) keep their token.
        """
        coin_key, noise_key = jax.random.split(key)
        noisy = jax.random.uniform(coin_key, x0.shape) >= self.schedule.alpha(t)
        return jnp.where(open & noisy, self.noise(noise_key, x0.shape), x0)

    def prior(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Int[Array, "..."]:
        """The canvas at t = 1."""
        return self.noise(key, shape)

    def weight(self, t: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``-alpha'(t) / (1 - alpha(t))``: weight of the masked cross-entropy in the bound of the absorbing process."""
        return self.schedule.weight(t)

    def reveal_probability(self, t: Float[Array, "*n"], s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Probability that a position masked at t is clean at s < t: ``(alpha(s) - alpha(t)) / (1 - alpha(t))``."""
        alpha_t = self.schedule.alpha(t)
        return (self.schedule.alpha(s) - alpha_t) / (1.0 - alpha_t)

    def posterior(
        self,
        key: Key[Array, ""],
        z: Int[Array, "length"],
        x0: Int[Array, "length"],
        alpha_t: Float[Array, ""],
        alpha_s: Float[Array, ""],
    ) -> Int[Array, "length"]:
        """A draw of q(z_s | z_t = z, x_0) for survival ``alpha_s >= alpha_t`` (D3PM eq. 3; discrete DDIM).

        The posterior is a mixture over whether z_t is what z_s was or a later draw of pi, and whether z_s is clean or
        noise; the four weights are drawn from directly.
        """
        coin_key, noise_key = jax.random.split(key)
        step = alpha_t / alpha_s
        fresh = (1.0 - step) * self.noise_probability(z)
        keep = jnp.where(z == x0, alpha_t, 0.0) + step * (1.0 - alpha_s) * self.noise_probability(z)
        clean, noise = fresh * alpha_s, fresh * (1.0 - alpha_s)
        coin = jax.random.uniform(coin_key, z.shape) * (keep + clean + noise)
        drawn = jnp.where(coin < keep + clean, x0, self.noise(noise_key, z.shape))
        return jnp.where(coin < keep, z, drawn)

    def flow(
        self,
        key: Key[Array, ""],
        z: Int[Array, "length"],
        x0: Int[Array, "length"],
        alpha_t: Float[Array, ""],
        alpha_s: Float[Array, ""],
        stochasticity: float,
    ) -> Int[Array, "length"]:
        """One step of discrete flow matching towards x_0 (Campbell et al. 2024; Gat et al. 2024).

        Noise turns clean at rate ``alpha' / (1 - alpha)``, integrated exactly; ``stochasticity`` adds moves in both
        directions that leave the marginals q(z_s | x_0) as they are in the limit of small steps: clean letters turn
        to noise at that rate per unit of alpha, noise turns clean at the rate that balances it.
        """
        coin_key, noise_key = jax.random.split(key)
        churn = stochasticity * (alpha_s - alpha_t)
        open_share = jnp.maximum(1.0 - alpha_t, 1e-6)
        balance = (alpha_t + (1.0 - alpha_t) * self.noise_probability(x0)) / open_share
        to_clean = jnp.minimum((alpha_s - alpha_t) / open_share + churn * balance, 1.0)
        coin = jax.random.uniform(coin_key, z.shape)
        noise = self.noise(noise_key, z.shape)
        return jnp.where(z == x0, jnp.where(coin < churn, noise, z), jnp.where(coin < to_clean, x0, z))


PROCESSES: dict[str, float] = {"absorbing": 0.0, "uniform": 1.0, "hybrid": 0.1}
"""Share of random letters by name; a hybrid's share may be given (0.1 and 0.2 are those of GIDD's models)."""


def low_discrepancy_times(key: Key[Array, ""], batch: int, low: float, high: float = 1.0) -> Float[Array, "batch"]:
    """Times that cover [low, high) evenly: one uniform offset shared by a grid of ``batch`` strata (Kingma et al.
    2021, VDM). Each time is uniform on its own; together their sum of losses has less variance.
    """
    grid = (jax.random.uniform(key) + jnp.arange(batch) / batch) % 1.0
    return low + (high - low) * grid
