"""Planners that rank the open positions and commit as many as an even pace asks for.

Scores come from the conditioned marginals, from positions or from noise, never from the letters drawn, so that one
commit per step follows the model's law exactly. ``MaskGIT`` is the exception, kept because the field uses it.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Moves, Process, View
from seqdiff.sampling.planners.base import (
    BasePlanner,
    check,
    confidence,
    entropy,
    gumbel,
    leaf,
    letter_log_probability,
    margin,
    planner,
    rank,
    split,
    uniform,
)

ORDER_BITS = 16


@dataclass(frozen=True, kw_only=True)
class FixedOrder(BasePlanner):
    """An order that is known before anything is drawn; ``quota`` positions per step."""

    reads_marginals: ClassVar[bool] = False

    @abstractmethod
    def order(self, keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Float[Array, "B L"]:
        """Low where a position comes early."""

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> Float[Array, "B L"]:
        """The order of each row."""
        return self.order(keys, open)

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        return Moves(rank(state, keys, view.open) < view.quota[:, None]), state


@planner("random")
class Random(FixedOrder):
    """Uniformly random positions: ancestral sampling at an even pace (with as many steps as positions: first-hitting
    sampling, Zheng et al. 2024).
    """

    def order(self, keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Float[Array, "B L"]:
        return uniform(keys, open)


@planner("left_to_right")
class LeftToRight(FixedOrder):
    """In the order of the chain, as an autoregressive model would."""

    def order(self, keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Float[Array, "B L"]:
        return jnp.broadcast_to(jnp.arange(open.shape[1], dtype=jnp.float32), open.shape)


@planner("spread")
class Spread(FixedOrder):
    """Positions far from each other first: the van der Corput order with a random digital shift of each row.

    Parallel commits err by the dependence between them, which decays along a chain; a low-discrepancy order keeps them
    apart (Besnier et al. 2025, Halton scheduler, in one dimension).
    """

    def order(self, keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Float[Array, "B L"]:
        last = jnp.sum(jnp.cumsum(open[:, ::-1], axis=1) > 0, axis=1)
        bits = jnp.ceil(jnp.log2(jnp.maximum(last, 2).astype(jnp.float32))).astype(jnp.int32)
        shift = jax.vmap(lambda key, n: jax.random.randint(key, (), 0, 1 << n))(keys, bits)
        place = jnp.arange(open.shape[1])[None, :] ^ shift[:, None]
        reverse = jnp.zeros_like(place)
        for bit in range(ORDER_BITS):
            reverse = reverse | (((place >> bit) & 1) << (ORDER_BITS - 1 - bit))
        return reverse.astype(jnp.float32)


@planner("order")
class Order(FixedOrder):
    """The user's order.

    Attributes:
        priority: int32 [L] or shorter; positions with the lowest number are committed first, those beyond the end last,
            equal ones at random.
    """

    priority: Any = leaf()

    def order(self, keys: Key[Array, "B"], open: Bool[Array, "B L"]) -> Float[Array, "B L"]:
        size = open.shape[1]
        given = jnp.asarray(self.priority).astype(jnp.float32)[:size]
        last = jnp.float32(jnp.iinfo(jnp.int32).max)
        return jnp.broadcast_to(jnp.pad(given, (0, size - len(given)), constant_values=last)[None], open.shape)


@dataclass(frozen=True, kw_only=True)
class _Ranked(BasePlanner):
    """The ``quota`` positions of lowest score.

    Attributes:
        noise: scale of Gumbel noise on the score (Kim et al. 2025 use 0.5; Dream calls it ``alg_temp``); 0 for none.
    """

    noise: float = 0.0

    def __post_init__(self):
        check(self.noise >= 0, f"noise={self.noise!r} must be at least 0")

    @abstractmethod
    def score(self, view: View) -> Float[Array, "B L"]:
        """Low where a position should be committed early."""

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        tie_keys, noise_keys = split(keys, 2)
        score = self.score(view)
        if self.noise:
            score = score - self.noise * gumbel(noise_keys, score)
        return Moves(rank(score, tie_keys, view.open) < view.quota[:, None]), state


@planner("confidence")
class Confidence(_Ranked):
    """The largest probability of the likeliest letter first (top probability)."""

    def score(self, view: View) -> Float[Array, "B L"]:
        return -confidence(view.marginals)


@planner("margin")
class Margin(_Ranked):
    """The largest lead of the likeliest letter over the next first (Kim et al. 2025, "Train for the worst")."""

    def score(self, view: View) -> Float[Array, "B L"]:
        return -margin(view.marginals)


@planner("entropy")
class Entropy(_Ranked):
    """The lowest entropy first (Dream, Ye et al. 2025)."""

    def score(self, view: View) -> Float[Array, "B L"]:
        return entropy(view.marginals)


@planner("maskgit")
class MaskGIT(BasePlanner):
    """The letters drawn with the largest probability first, with annealed Gumbel noise (Chang et al. 2022).

    Ranking by what was drawn favours likely letters even at one position per step: the law is not the model's. LLaDA's
    "low confidence" rule is the same at ``noise=0, cosine=False``.

    Attributes:
        noise: scale of the Gumbel noise at the first step; falls to 0 at the last.
        cosine: commit few positions early and many late, as published; else at an even pace.
    """

    reads_witness: ClassVar[bool] = True
    value_dependent: ClassVar[bool] = True
    noise: float = 4.5
    cosine: bool = True

    def __post_init__(self):
        check(self.noise >= 0, f"noise={self.noise!r} must be at least 0")

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        assert view.witness is not None
        tie_keys, noise_keys = split(keys, 2)
        done = (view.step + 1).astype(jnp.float32) / view.steps.astype(jnp.float32)
        drawn = jnp.log(jnp.maximum(letter_log_probability(view.marginals, view.witness), 1e-30))
        score = -drawn - self.noise * (1.0 - done) * gumbel(noise_keys, drawn)
        count = view.quota
        if self.cosine:
            left = jnp.floor(jnp.cos(0.5 * jnp.pi * done) * view.total.astype(jnp.float32)).astype(jnp.int32)
            count = jnp.maximum(jnp.sum(view.open, axis=1) - left, 1)
        return Moves(rank(score, tie_keys, view.open) < count[:, None]), state


@planner("ancestral")
class Ancestral(BasePlanner):
    """The process's own reverse step: a draw of q(z_s | z_t, x_0) at the drawn letters x_0 (D3PM, Austin et al. 2021;
    MDLM; UDLM; discrete DDIM).

    Absorbing: each open position is committed with probability ``(alpha_s - alpha_t) / (1 - alpha_t)``. Uniform and
    hybrid: nothing is certain before the end; the last step takes the drawn letters.
    """

    reads_marginals: ClassVar[bool] = False
    reads_witness: ClassVar[bool] = True
    holds: ClassVar[bool] = False

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        assert view.witness is not None
        step = jax.vmap(lambda key, z, x0: process.posterior(key, z, x0, view.alpha, view.alpha_next))
        return _as_moves(step(keys, view.canvas, view.witness), view, process), state


@planner("flow")
class Flow(BasePlanner):
    """Discrete flow matching (Campbell et al. 2024; Gat et al. 2024).

    Attributes:
        stochasticity: rate at which clean letters turn to noise again, balanced by more moves to clean ones; 0 gives
            the plain flow. On the absorbing process that is remasking.
    """

    reads_marginals: ClassVar[bool] = False
    reads_witness: ClassVar[bool] = True
    holds: ClassVar[bool] = False
    stochasticity: float = 0.0

    def __post_init__(self):
        check(self.stochasticity >= 0, f"stochasticity={self.stochasticity!r} must be at least 0")

    @property
    def reopens(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether committed letters may turn to MASK."""
        return self.stochasticity > 0

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        assert view.witness is not None

        def step(key: Key[Array, ""], z: Int[Array, "L"], x0: Int[Array, "L"]) -> Int[Array, "L"]:
            return process.flow(key, z, x0, view.alpha, view.alpha_next, self.stochasticity)

        moves = _as_moves(jax.vmap(step)(keys, view.canvas, view.witness), view, process)
        if self.reopens:
            moves = moves._replace(settled=jnp.broadcast_to(view.step + 1 >= view.steps, view.total.shape))
        return moves, state


def _as_moves(canvas: Int[Array, "B L"], view: View, process: Process) -> Moves:
    """The step to ``canvas`` as commits; a letter is certain under the absorbing process only."""
    if not process.absorbing:
        return Moves(jnp.zeros_like(view.open), canvas=canvas)
    return Moves(view.open & (canvas != process.mask), reopen=view.held & (canvas == process.mask))
