"""Planners that take commits back.

Reopening is always safe for hard constraints: forgetting a letter only adds completions. It changes the law: what is
said of that stands with each planner.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Moves, Process, View
from seqdiff.sampling.planners.base import (
    BasePlanner,
    Wrapper,
    check,
    confidence,
    gumbel,
    leaf,
    letter_log_probability,
    planner,
    rank,
    split,
    uniform,
)


def _at_end(view: View) -> Bool[Array, "B"]:
    """Settled at the last step only."""
    return jnp.broadcast_to(view.step + 1 >= view.steps, view.total.shape)


@planner("remdm")
class ReMDM(BasePlanner):
    """Ancestral steps with extra remasking that leaves every single-time marginal as it was (Wang et al. 2025).

    A held letter is masked with probability sigma; an open position is committed with probability
    ``(alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t)``; sigma is at most ``min(1, (1 - alpha_s) / alpha_t)``.

    Attributes:
        rule: ``cap``: sigma is ``eta`` or its limit; ``rescale``: ``eta`` times the limit; ``confidence``: as
            ``rescale``, shared among the held letters by ``softmax(-p)`` of their probabilities when committed.
        eta: strength; published are 0.008 (cap) and 0.015 (rescale) for a thousand steps, larger for fewer.
    """

    reopens: ClassVar[bool] = True
    rule: str = "cap"
    eta: float = 0.02

    def __post_init__(self):
        rules = ("cap", "rescale", "confidence")
        check(self.rule in rules, f"rule={self.rule!r}: choose one of {', '.join(rules)}")
        check(0 <= self.eta <= 1, f"eta={self.eta!r} must lie in [0, 1]")

    reads_marginals = property(lambda self: self.rule == "confidence")  # pyright: ignore[reportAssignmentType]
    reads_witness = property(lambda self: self.rule == "confidence")  # pyright: ignore[reportAssignmentType]
    value_dependent = property(lambda self: self.rule == "confidence")  # pyright: ignore[reportAssignmentType]

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> Float[Array, "B L"]:
        """Probability of each held letter when it was committed."""
        return jnp.ones(open.shape)

    def plan(
        self, keys: Key[Array, "B"], state: Float[Array, "B L"], view: View, process: Process
    ) -> tuple[Moves, Any]:
        commit_keys, reopen_keys = split(keys, 2)
        limit = jnp.minimum((1.0 - view.alpha_next) / jnp.maximum(view.alpha, 1e-6), 1.0)
        sigma = jnp.minimum(self.eta, limit) if self.rule == "cap" else self.eta * limit
        # The confidence rule gives open positions no share of sigma, so they follow the plain ancestral step.
        extra = 0.0 if self.rule == "confidence" else sigma
        reveal = (view.alpha_next - (1.0 - extra) * view.alpha) / jnp.maximum(1.0 - view.alpha, 1e-6)
        commit = view.open & (uniform(commit_keys, view.open) < reveal)
        forget = jnp.broadcast_to(sigma, view.open.shape)
        if self.rule == "confidence":
            assert view.witness is not None
            weight = jnp.where(view.held, jnp.exp(-state), 0.0)
            forget = sigma * weight / jnp.maximum(jnp.sum(weight, axis=1, keepdims=True), 1e-9)
            probability = jnp.exp(letter_log_probability(jnp.log(jnp.maximum(view.marginals, 1e-30)), view.witness))
            state = jnp.where(commit, probability, state)
        reopen = view.held & (uniform(reopen_keys, view.open) < forget)
        return Moves(commit, reopen, settled=_at_end(view)), state


@planner("p2")
class P2(BasePlanner):
    """Path planning (Peng et al. 2025): at each step the letters, held or drawn, that score best are kept, as many as
    the schedule asks for; the others are masked.

    Held letters score ``eta`` times their log-probability, drawn ones theirs. Without a ``scorer`` both come from the
    denoiser (self-planning), whose predictions at letters that it sees are only as good as its training there.

    Attributes:
        eta: weight of held letters; above 1 masks more, 0 never masks.
        noise: scale of Gumbel noise on the scores of drawn letters.
        scorer: None, or a pytree called as ``scorer(canvas, valid, time) -> [B, L]`` with the canvas of drawn letters:
            log-probability that each letter is right. One more network call per step, not counted as NFE.
    """

    reads_witness: ClassVar[bool] = True
    value_dependent: ClassVar[bool] = True
    reopens: ClassVar[bool] = True
    reads_marginals: ClassVar[bool] = False
    eta: float = 1.0
    noise: float = 0.0
    scorer: Any = leaf(default=None)

    def __post_init__(self):
        check(self.eta >= 0, f"eta={self.eta!r} must be at least 0")
        check(self.noise >= 0, f"noise={self.noise!r} must be at least 0")

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        assert view.witness is not None
        tie_keys, noise_keys = split(keys, 2)
        considered = view.open | view.held
        if self.scorer is None:
            score = letter_log_probability(view.log_model, view.witness)
        else:
            valid = considered | (view.tokens < process.mask)
            score = self.scorer(view.witness, valid, 1.0 - jnp.broadcast_to(view.alpha, view.total.shape))
        drawn = score + self.noise * gumbel(noise_keys, score)
        score = jnp.where(view.held, self.eta * score, drawn)
        kept = jnp.ceil(view.alpha_next * view.total.astype(jnp.float32)).astype(jnp.int32)
        chosen = rank(-score, tie_keys, considered) < kept[:, None]
        return Moves(view.open & chosen, view.held & ~chosen, settled=_at_end(view)), state


@planner("rdm")
class RDM(P2):
    """Reparameterised diffusion (Zheng et al. 2023): path planning with the denoiser's own scores for all letters."""

    def __post_init__(self):
        super().__post_init__()
        check(self.eta == 1.0 and self.scorer is None, "rdm has no options beside 'noise'; take p2 for others")


@planner("gibbs")
class Gibbs(Wrapper):
    """A predictor, then a corrector: once all is committed, some positions are opened and drawn again, several times.

    With random sites, one at a time, each round is a Gibbs step within the constraints and leaves the law of a
    consistent model as it is. ``informed`` picks the held letters that the denoiser finds least certain (Zhao et al.
    2024), which presumes predictions that ignore the letter itself.

    Attributes:
        inner: the predictor; it has ``steps - rounds`` calls.
        rounds: denoiser calls for correction.
        sites: positions drawn again per round.
        informed: choose by certainty instead of at random.
    """

    reopens: ClassVar[bool] = True
    rounds: int = 8
    sites: int = 1
    informed: bool = False

    def __post_init__(self):
        check(self.rounds >= 1, f"rounds={self.rounds!r} must be at least 1")
        check(self.sites >= 1, f"sites={self.sites!r} must be at least 1 position")

    value_dependent = property(  # pyright: ignore[reportAssignmentType]
        lambda self: self.informed or self.inner.value_dependent
    )

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> tuple[Any, Int[Array, "B"]]:
        """The inner planner's memory and the rounds begun."""
        return self.inner.init(keys, open, vocab), jnp.zeros(len(open), jnp.int32)

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        plan_keys, site_keys = split(keys, 2)
        inner, begun = state
        left = jnp.maximum(view.steps - view.step - self.rounds, 1)
        open = jnp.sum(view.open, axis=1)
        quota = jnp.where(begun > 0, open, -(-open // left))
        calls = jnp.maximum(view.steps - self.rounds, 1)
        moves, inner = self.inner.plan(plan_keys, inner, view._replace(quota=quota, steps=calls), process)
        # A round commits what is open; then, if any is left to begin, it opens the next sites.
        correcting = begun > 0
        commit = jnp.where(correcting[:, None], view.open, moves.commit)
        full = jnp.all(commit | ~view.open, axis=1)
        begin = full & (begun < self.rounds)
        score = jnp.zeros(view.open.shape)
        if self.informed:
            model = jnp.exp(view.log_model)
            here = jnp.exp(letter_log_probability(view.log_model, view.tokens))
            likeliest = jnp.where(here >= confidence(model), 0.0, confidence(model))
            score = here - likeliest
        sites = rank(score, site_keys, view.held) < self.sites
        reopen = sites & begin[:, None]
        if moves.reopen is not None:
            reopen |= moves.reopen & ~correcting[:, None]
        settled = full & ~begin
        return moves._replace(commit=commit, reopen=reopen, settled=settled), (inner, begun + begin.astype(jnp.int32))


@planner("wino")
class WINO(BasePlanner):
    """Wide in, narrow out (Hong et al. 2025): commit whatever looks likely, take back what then looks unlikely.

    The published verification hides each letter from itself by a shadow block. Here a held letter is judged by the
    denoiser's prediction at its place, which a network that sees the letter makes too kindly; use hollow denoisers for
    the published rule.

    Attributes:
        wide: open positions whose likeliest letter is more probable than this are committed.
        narrow: held letters less probable than this are reopened, always fewer than were committed last.
        most: commits per step are at most ``max(most of the open ones, 5)``, and 20.
    """

    value_dependent: ClassVar[bool] = True
    reopens: ClassVar[bool] = True
    wide: float = 0.6
    narrow: float = 0.9
    most: float = 0.7

    def __post_init__(self):
        for name in ("wide", "narrow", "most"):
            value = getattr(self, name)
            check(0 < value <= 1, f"{name}={value!r} must lie in (0, 1]")

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> Int[Array, "B"]:
        """How many positions the last step committed."""
        return jnp.zeros(len(open), jnp.int32)

    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        wide_keys, narrow_keys = split(keys, 2)
        sure = confidence(view.marginals)
        open = jnp.sum(view.open, axis=1)
        wide = jnp.sum(view.open & (sure > self.wide), axis=1)
        cap = jnp.minimum(jnp.maximum((self.most * open.astype(jnp.float32)).astype(jnp.int32), 5), 20)
        count = jnp.maximum(jnp.minimum(wide, cap), view.quota)
        commit = rank(-sure, wide_keys, view.open) < count[:, None]
        kept = jnp.exp(letter_log_probability(view.log_model, view.tokens))
        doubtful = view.held & (kept < self.narrow)
        reopen = doubtful & (rank(kept, narrow_keys, doubtful) < (state - 1)[:, None])
        settled = ~jnp.any(reopen, axis=1)
        return Moves(commit, reopen, settled=settled), jnp.sum(commit, axis=1)
