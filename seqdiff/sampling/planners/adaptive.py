"""Planners that decide from the marginals how many positions to commit: few calls where the model is sure.

``quota`` is a floor, so that the run ends within its steps at an even pace; more steps leave more room to adapt.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Moves, Process, View
from seqdiff.sampling.planners.base import BasePlanner, Wrapper, check, confidence, entropy, planner, rank, split


@planner("entropy_bound")
class EntropyBound(BasePlanner):
    """As many low-entropy positions as can be committed at once with a bounded error (Ben-Hamu et al. 2025).

    Positions are taken in order of their conditioned entropy while the sum of entropies less the largest one, which
    bounds the joint dependence that parallel commits ignore, stays at most ``gamma``; never fewer than ``quota``.

    Attributes:
        gamma: the bound in nats; larger means fewer denoiser calls.
    """

    gamma: float = 0.1

    def __post_init__(self):
        check(self.gamma >= 0, f"gamma={self.gamma!r} must be at least 0 (nats)")

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        first, within = within_bound(entropy(view.marginals), keys, view.open, self.gamma)
        return Moves(view.open & (first < jnp.maximum(view.quota, within)[:, None])), state


def within_bound(
    entropies: Float[Array, "B L"], keys: Key[Array, "B"], open: Bool[Array, "B L"], gamma: float
) -> tuple[Int[Array, "B L"], Int[Array, "B"]]:
    """Rank of each open position by entropy, and how many of the first are within the bound (one at least)."""
    ordered = jnp.sort(jnp.where(open, entropies, jnp.inf), axis=-1)
    before = jnp.cumsum(jnp.roll(ordered, 1, axis=-1).at[:, 0].set(0.0), axis=-1)
    within = jnp.sum((before <= gamma) & jnp.isfinite(ordered), axis=-1)
    return rank(entropies, keys, open), within


@planner("threshold")
class Threshold(BasePlanner):
    """Every position whose likeliest letter is probable enough (Fast-dLLM, Wu et al. 2025), ``quota`` at least.

    Attributes:
        confidence: the least probability.
    """

    confidence: float = 0.9

    def __post_init__(self):
        check(0 < self.confidence <= 1, f"confidence={self.confidence!r} must lie in (0, 1]")

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        sure = confidence(view.marginals)
        return Moves(_at_least(sure >= self.confidence, -sure, keys, view)), state


class _Streak(NamedTuple):
    marginals: Float[Array, "B L V"]
    steps: Int[Array, "B L"]


@planner("klass")
class Klass(BasePlanner):
    """Positions that are probable and whose distribution has stopped moving (KLASS, Kim et al. 2025).

    Attributes:
        confidence: the least probability of the likeliest letter.
        divergence: the largest KL divergence from the step before, in nats.
        history: steps in a row that must be that still.
    """

    confidence: float = 0.9
    divergence: float = 0.01
    history: int = 2

    def __post_init__(self):
        check(0 < self.confidence <= 1, f"confidence={self.confidence!r} must lie in (0, 1]")
        check(self.divergence > 0, f"divergence={self.divergence!r} must be above 0 (nats)")
        check(self.history >= 1, f"history={self.history!r} must be at least 1 step")

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> _Streak:
        """No distribution yet: infinitely far from any."""
        return _Streak(jnp.zeros((*open.shape, vocab)), jnp.zeros(open.shape, jnp.int32))

    def plan(self, keys: Key[Array, "B"], state: _Streak, view: View, process: Process) -> tuple[Moves, _Streak]:
        now, before = view.marginals, state.marginals
        ratio = jnp.log(jnp.maximum(now, 1e-30)) - jnp.log(jnp.maximum(before, 1e-30))
        still = jnp.sum(now * ratio, axis=-1) < self.divergence
        streak = jnp.where(still, state.steps + 1, 0)
        sure = confidence(now)
        chosen = (sure > self.confidence) & (streak >= self.history)
        return Moves(_at_least(chosen, -sure, keys, view)), _Streak(now, streak)


def _at_least(
    chosen: Bool[Array, "B L"], score: Float[Array, "B L"], keys: Key[Array, "B"], view: View
) -> Bool[Array, "B L"]:
    """Open positions that are ``chosen`` or among the ``quota`` lowest scores."""
    return view.open & (chosen | (rank(score, keys, view.open) < view.quota[:, None]))


@planner("blocks")
class Blocks(Wrapper):
    """Block after block from the left, any planner inside (semi-autoregressive: LLaDA, Nie et al. 2025; BD3-LM).

    A block opens once the blocks before it are full, or early where they hold fewer open positions than the quota, so
    that block edges do not slow the pace.

    Attributes:
        size: positions per block.
        inner: planner within the block; one that commits letters for good.
    """

    size: int = 32

    def __post_init__(self):
        check(self.size >= 1, f"size={self.size!r} must be at least 1 position")

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> Any:
        """The inner planner's memory."""
        return self.inner.init(keys, open, vocab)

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        first = jnp.arange(view.open.shape[1]) // self.size * self.size
        up_to = jnp.cumsum(view.open, axis=1)
        before_block = jnp.where(first > 0, up_to[:, jnp.maximum(first - 1, 0)], 0)
        allowed = view.open & (before_block < view.quota[:, None])
        return self.inner.plan(keys, state, view._replace(open=allowed), process)


class _Stability(NamedTuple):
    inner: Any
    history: Int[Array, "B S L"]


@planner("until_stable")
class UntilStable(Wrapper):
    """Ends a row early: its predictions have not changed for some steps and are nearly certain (the stop rule of
    DiffusionGemma). Everything open is then committed.

    Attributes:
        inner: the planner inside.
        stability: steps back to which the likeliest letters must be the same; 0 asks for none.
        entropy: the largest mean entropy of the row, in nats.
    """

    reads_marginals: ClassVar[bool] = True
    stability: int = 1
    entropy: float = 0.005

    def __post_init__(self):
        check(self.stability >= 0, f"stability={self.stability!r} must be at least 0 steps")
        check(self.entropy > 0, f"entropy={self.entropy!r} must be above 0 (nats)")

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> _Stability:
        """The inner planner's memory and the last predictions."""
        shape = (open.shape[0], self.stability, open.shape[1])
        return _Stability(self.inner.init(keys, open, vocab), jnp.full(shape, -1, jnp.int32))

    def plan(self, keys: Key[Array, "B"], state: _Stability, view: View, process: Process) -> tuple[Moves, _Stability]:
        moves, inner = self.inner.plan(keys, state.inner, view, process)
        likeliest = jnp.argmax(view.marginals, axis=-1).astype(jnp.int32)
        valid = jnp.any(view.marginals > 0, axis=-1)
        same = (state.history == likeliest[:, None]) | ~valid[:, None]
        mean = jnp.sum(entropy(view.marginals), axis=1) / jnp.maximum(jnp.sum(valid, axis=1), 1).astype(jnp.float32)
        stop = jnp.all(same, axis=(1, 2)) & (mean < self.entropy)
        history = jnp.concatenate([likeliest[:, None], state.history], axis=1)[:, : self.stability]
        stop = stop if moves.stop is None else stop | moves.stop
        return moves._replace(stop=stop), _Stability(inner, history)


@planner("accept")
class Accept(BasePlanner):
    """DiffusionGemma's canvas update: low-entropy positions show their drawn letter, all others fresh noise.

    Acceptance has no memory: nothing is held, every position is drawn again at every step, and the likeliest letters
    are committed at the end. Made for uniform processes; under absorbing ones accepted letters are seen for one step.

    Attributes:
        gamma: bound on the sum of the accepted entropies less the largest, in nats.
    """

    reads_witness: ClassVar[bool] = True
    holds: ClassVar[bool] = False
    commits_mode: ClassVar[bool] = True
    value_dependent: ClassVar[bool] = True
    gamma: float = 0.1

    def __post_init__(self):
        check(self.gamma >= 0, f"gamma={self.gamma!r} must be at least 0 (nats)")

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        assert view.witness is not None
        tie_keys, noise_keys = split(keys, 2)
        first, within = within_bound(entropy(view.marginals), tie_keys, view.open, self.gamma)
        noise = jax.vmap(lambda key: process.noise(key, view.open.shape[1:]))(noise_keys)
        canvas = jnp.where(first < within[:, None], view.witness, noise)
        return Moves(jnp.zeros_like(view.open), canvas=canvas), state


def diffusion_gemma(*, gamma: float = 0.1, stability: int = 1, entropy: float = 0.005) -> UntilStable:
    """DiffusionGemma's sampler (Google 2026): entropy-bound acceptance with its stop rule and published defaults.

    Run it on a uniform process with ``temperature=(0.8, 0.4)`` and at most 48 steps for a canvas of 256.
    """
    return UntilStable(inner=Accept(gamma=gamma), stability=stability, entropy=entropy)
