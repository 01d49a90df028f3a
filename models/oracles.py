"""Exact denoisers of known laws, for telling what a sampler does from what a network does.

A trained network is wrong in ways that nobody knows, so samples that look odd blame no one. Here the law of the clean
text is given (a table of all texts, a Markov chain, a hidden Markov model) and the prediction at every position is its
exact posterior ``P(x_i | z)`` given the whole noisy canvas; whatever a sample law lacks is then the sampler's own doing
(the protocol of "Is your diffusion sampler actually correct?", arXiv 2602.19619, with letters as noise too).

Positions are corrupted one by one, so the posterior of a text is the law times ``prod_i q(z_i | x_i)``. Each oracle
computes the *hollow* prediction, in which position i is not told its own token, and multiplies the own token's
``q(z_i | x_i)`` back in; with ``leave_one_out`` it stops before that, which is what Gibbs correctors need. Sums over
texts are taken on the table; sums over chains by forward-backward in log space (Rabiner 1989), O(L S^2) per row.

In the absorbing process letters are certain at every noise level and MASK says nothing. In the others a token counts
as much as the noise level says, given context included: the canvas does not tell which letters are certain.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jax.tree_util import register_dataclass as register
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.process.losses import log_observation
from seqdiff.process.noise import Process

FLOOR = -60.0
"""Least log-probability of a prediction: finite, and far below anything that is ever drawn."""

IMPOSSIBLE = -1e4
"""Log-likelihood of a letter other than the one in plain sight. It is finite so that a canvas that the law rules out
is explained by the texts that contradict it least, instead of by nothing."""

STATIC = ["process", "leave_one_out"]
_HIGHEST = jax.lax.Precision.HIGHEST

Tokens = Int[Array, "batch length"]
Valid = Bool[Array, "batch length"]


@dataclass(frozen=True, eq=False)
class Law(ABC):
    """The law of clean texts and its exact denoiser.

    Attributes:
        process: the forward process whose canvases it reads; the absorbing one by default.
        leave_one_out: whether predictions ignore the position's own token.
    """

    process: Process = field(default=None, kw_only=True)  # pyright: ignore[reportAssignmentType]
    leave_one_out: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        if self.process is None:
            # Letters are the last axis of every law's last table.
            object.__setattr__(self, "process", Process(mask=jax.tree.leaves(self)[-1].shape[-1]))

    def __call__(
        self, canvas: Tokens, valid: Valid, time: Float[Array, "batch"], conditions: object = None
    ) -> Float[Array, "batch length vocab"]:
        """Log-probabilities of the letters, as the ``Denoiser`` contract says; none is below :data:`FLOOR`."""
        evidence = _evidence(self.process, canvas, valid, time)
        log_p = jnp.maximum(jax.nn.log_softmax(self._hollow(evidence), axis=-1), FLOOR)
        if self.leave_one_out:
            return log_p
        return jnp.maximum(jax.nn.log_softmax(log_p + evidence, axis=-1), FLOOR)

    @abstractmethod
    def _hollow(self, evidence: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
        """Log posterior of each letter given the evidence at all other positions, up to a constant per position."""

    @abstractmethod
    def log_prob(self, tokens: Tokens, valid: Valid | None = None) -> Float[Array, "batch"]:
        """Log-probability of each text; of its valid prefix if ``valid`` is given."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], n: int, length: int) -> Int[Array, "n length"]:
        """True draws."""

    @abstractmethod
    def pair_marginals(self, length: int, lag: int = 1) -> Float[Array, "places vocab vocab"]:
        """``P(x_i = a, x_(i + lag) = b)`` for each of the ``length - lag`` places i."""


@partial(register, data_fields=["table"], meta_fields=STATIC)
@dataclass(frozen=True, eq=False)
class JointLaw(Law):
    """A table of all texts of one short length.

    A canvas may be longer than the texts, for padding's sake, or shorter: it is then their prefix.

    Attributes:
        table: log-probabilities up to a constant, one axis per position; flattened, the texts stand in the order of
            :attr:`texts`.
    """

    table: Float[Array, "*vocab"]

    @property
    def texts(self) -> Int[np.ndarray, "n length"]:
        """All texts in the order of the flattened table."""
        return enumerate_texts(self.process.mask, self.table.ndim)

    def _hollow(self, evidence: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
        size, width = self.table.ndim, evidence.shape[1]
        seen = jnp.pad(evidence[:, :size], ((0, 0), (0, max(0, size - width)), (0, 0)))
        # Position i's evidence, laid along axis i of the table.
        along = [jnp.expand_dims(seen[:, i], _other_axes(size, i)) for i in range(size)]
        others = [sum(along[:i] + along[i + 1 :], self.table[None]) for i in range(size)]
        hollow = [logsumexp(table, axis=_other_axes(size, i)) for i, table in enumerate(others)]
        return jnp.pad(jnp.stack(hollow[:width], axis=1), ((0, 0), (0, max(0, width - size)), (0, 0)))

    def log_prob(self, tokens: Tokens, valid: Valid | None = None) -> Float[Array, "batch"]:
        log_p = self.table - logsumexp(self.table)
        if valid is None and tokens.shape[1] == log_p.ndim:
            return log_p[tuple(tokens.T)]
        valid = jnp.ones(tokens.shape, jnp.bool_) if valid is None else valid
        match = jax.nn.one_hot(tokens, self.process.mask, dtype=jnp.bool_) | ~valid[..., None]
        total = log_p[None]
        for i in range(min(tokens.shape[1], log_p.ndim)):
            total = jnp.where(jnp.expand_dims(match[:, i], _other_axes(log_p.ndim, i)), total, -jnp.inf)
        return logsumexp(total, axis=tuple(range(1, log_p.ndim + 1)))

    def sample(self, key: Key[Array, ""], n: int, length: int | None = None) -> Int[Array, "n length"]:
        log_p = self.table.ravel()
        index = jax.vmap(lambda key: jax.random.categorical(key, log_p))(jax.random.split(key, n))
        return jnp.asarray(self.texts)[index, :length]

    def pair_marginals(self, length: int | None = None, lag: int = 1) -> Float[Array, "places vocab vocab"]:
        p = jnp.exp(self.table - logsumexp(self.table))
        places = range((p.ndim if length is None else length) - lag)
        return jnp.stack([p.sum(tuple({*range(p.ndim)} - {i, i + lag})) for i in places])


@partial(register, data_fields=["start", "transition"], meta_fields=STATIC)
@dataclass(frozen=True, eq=False)
class MarkovLaw(Law):
    """A Markov chain over the letters, of any length; the rest of a padded canvas is summed out.

    Attributes:
        start: law of the first letter.
        transition: law of the next letter (column) given a letter (row); zeros are allowed.
    """

    start: Float[Array, "vocab"]
    transition: Float[Array, "vocab vocab"]

    def _hollow(self, evidence: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
        return _hollow_states(self.start, self.transition, evidence)

    def log_prob(self, tokens: Tokens, valid: Valid | None = None) -> Float[Array, "batch"]:
        valid = jnp.ones(tokens.shape, jnp.bool_) if valid is None else valid
        letters = jnp.where(valid, tokens, 0)
        first = jnp.log(self.start)[letters[:, :1]]
        later = jnp.log(self.transition)[letters[:, :-1], letters[:, 1:]]
        return jnp.sum(jnp.where(valid, jnp.concatenate([first, later], axis=1), 0.0), axis=1)

    def sample(self, key: Key[Array, ""], n: int, length: int) -> Int[Array, "n length"]:
        return _walks(key, self.start, self.transition, n, length)

    def pair_marginals(self, length: int, lag: int = 1) -> Float[Array, "places vocab vocab"]:
        return _state_pairs(self.start, self.transition, length, lag)


@partial(register, data_fields=["start", "transition", "emission"], meta_fields=STATIC)
@dataclass(frozen=True, eq=False)
class HiddenMarkovLaw(Law):
    """A Markov chain over S hidden states, each of which emits a letter: dependence that no window of letters ends.

    Attributes:
        start: law of the first state.
        transition: law of the next state (column) given a state (row); zeros are allowed.
        emission: law of the letter (column) given a state (row); zeros are allowed.
    """

    start: Float[Array, "states"]
    transition: Float[Array, "states states"]
    emission: Float[Array, "states vocab"]

    def _hollow(self, evidence: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
        by_state = jnp.log(jnp.matmul(jnp.exp(evidence), self.emission.T, precision=_HIGHEST))
        states = _hollow_states(self.start, self.transition, jnp.maximum(by_state, IMPOSSIBLE))
        return jnp.log(jnp.matmul(jax.nn.softmax(states, axis=-1), self.emission, precision=_HIGHEST))

    def log_prob(self, tokens: Tokens, valid: Valid | None = None) -> Float[Array, "batch"]:
        valid = jnp.ones(tokens.shape, jnp.bool_) if valid is None else valid
        emitted = jnp.where(valid[..., None], jnp.log(self.emission).T[jnp.where(valid, tokens, 0)], 0.0)
        log_transition = jnp.log(self.transition)

        def step(carry: tuple[Array, Array], emitted: Array) -> tuple[tuple[Array, Array], None]:
            total, states = carry
            states = states + emitted
            # An impossible prefix keeps minus infinity as its total and a blank page for its states.
            scale = logsumexp(states, axis=-1, keepdims=True)
            states = jnp.where(jnp.isfinite(scale), states - scale, 0.0)
            return (total + scale[:, 0], logsumexp(states[:, :, None] + log_transition[None], axis=1)), None

        first = jnp.broadcast_to(jnp.log(self.start), (tokens.shape[0], self.start.shape[0]))
        (total, _), _ = jax.lax.scan(step, (jnp.zeros(tokens.shape[0]), first), jnp.moveaxis(emitted, 1, 0))
        return total

    def sample(self, key: Key[Array, ""], n: int, length: int) -> Int[Array, "n length"]:
        state_key, letter_key = jax.random.split(key)
        states = _walks(state_key, self.start, self.transition, n, length)
        emit = jax.vmap(lambda key, states: jax.random.categorical(key, jnp.log(self.emission)[states]))
        return emit(jax.random.split(letter_key, n), states).astype(jnp.int32)

    def pair_marginals(self, length: int, lag: int = 1) -> Float[Array, "places vocab vocab"]:
        pairs = _state_pairs(self.start, self.transition, length, lag)
        return jnp.einsum("sa,ist,tb->iab", self.emission, pairs, self.emission, precision=_HIGHEST)


def enumerate_texts(letters: int, length: int) -> Int[np.ndarray, "n length"]:
    """All texts in the order of ``itertools.product``: the last letter changes fastest."""
    return np.indices((letters,) * length, dtype=np.int32).reshape(length, -1).T


def joint_of(law: Law, length: int) -> JointLaw:
    """A law's table over all texts of a length, with the same process and options."""
    letters = law.process.mask
    table = law.log_prob(jnp.asarray(enumerate_texts(letters, length))).reshape((letters,) * length)
    return JointLaw(table, process=law.process, leave_one_out=law.leave_one_out)


def stationary(transition: Float[Array, "states states"]) -> Float[Array, "states"]:
    """The law that a chain with one recurrent class keeps: ``pi T = pi``, summing to one, by least squares."""
    size = transition.shape[0]
    balance = np.concatenate([np.asarray(transition, np.float64).T - np.eye(size), np.ones((1, size))])
    pi = np.linalg.lstsq(balance, np.eye(size + 1)[-1], rcond=None)[0]
    return jnp.asarray(np.maximum(pi, 0.0) / np.maximum(pi, 0.0).sum(), jnp.float32)


def _evidence(
    process: Process, canvas: Int[Array, "B L"], valid: Bool[Array, "B L"], level: Float[Array, "B"]
) -> Float[Array, "B L V"]:
    """``log q(z_i | x_i = v)`` up to a constant per position; zero at padding."""
    if process.absorbing:
        other = ~jax.nn.one_hot(canvas, process.mask, dtype=jnp.bool_) & (canvas < process.mask)[..., None]
        found = jnp.where(other, IMPOSSIBLE, 0.0)
    else:
        found = log_observation(process, canvas, level)
    return jnp.where(valid[..., None], found, 0.0)


def _hollow_states(
    start: Float[Array, "S"], transition: Float[Array, "S S"], evidence: Float[Array, "B L S"]
) -> Float[Array, "B L S"]:
    """Log posterior of each state given the evidence at all other positions, up to a constant per position."""
    log_transition = jnp.log(transition)[None]

    def forward(before: Array, seen: Array) -> tuple[Array, Array]:
        after = logsumexp((before + seen)[:, :, None] + log_transition, axis=1)
        return after - jnp.max(after, axis=-1, keepdims=True), before

    def backward(after: Array, seen: Array) -> tuple[Array, Array]:
        before = logsumexp((after + seen)[:, None, :] + log_transition, axis=2)
        return before - jnp.max(before, axis=-1, keepdims=True), after

    steps = jnp.moveaxis(evidence, 1, 0)
    first = jnp.broadcast_to(jnp.log(start), steps.shape[1:])
    _, left = jax.lax.scan(forward, first, steps)
    _, right = jax.lax.scan(backward, jnp.zeros_like(first), steps, reverse=True)
    return jnp.moveaxis(left + right, 0, 1)


def _walks(
    key: Key[Array, ""], start: Float[Array, "S"], transition: Float[Array, "S S"], n: int, length: int
) -> Int[Array, "n L"]:
    log_transition = jnp.log(transition)
    noise = jax.vmap(lambda key: jax.random.gumbel(key, (length, start.shape[0])))(jax.random.split(key, n))

    def step(log_p: Array, noise: Array) -> tuple[Array, Array]:
        state = jnp.argmax(log_p + noise, axis=-1).astype(jnp.int32)
        return log_transition[state], state

    first = jnp.broadcast_to(jnp.log(start), (n, start.shape[0]))
    return jax.lax.scan(step, first, jnp.moveaxis(noise, 1, 0))[1].T


def _state_pairs(
    start: Float[Array, "S"], transition: Float[Array, "S S"], length: int, lag: int
) -> Float[Array, "places S S"]:
    with jax.default_matmul_precision("highest"):
        _, marginals = jax.lax.scan(lambda p, _: (p @ transition, p), start, length=length - lag)
        return marginals[:, :, None] * jnp.linalg.matrix_power(transition, lag)[None]


def _other_axes(size: int, i: int) -> tuple[int, ...]:
    """Axes of a batch of tables [B, V, ..., V] that belong to positions other than i."""
    return tuple(j + 1 for j in range(size) if j != i)
