"""Exact conditioning of a factorised proposal on a layered automaton (device, log space).

Given log-probabilities of every letter at every position, ``condition`` draws a whole text from the proposal given
that the automaton accepts, and computes the marginals of that conditional and its normaliser (the evidence): backward
messages, then forward sampling (the classic forward-filtering backward-sampling, run from the other end):

    beta_L(s) = [s accepts];   beta_i(s) = logsumexp_v l_i(v) + beta_{i+1}(d_i(s, v))
    P(x_i = v | s) = exp(l_i(v) + beta_{i+1}(d_i(s, v)) - beta_i(s));   log evidence = beta_0(start)

Letters that lead every state of a layer to the same place are one *class* there: sums run over classes, and the mass of
a class is shared out by the proposal. Each state follows a shared row except for at most one class (see
``factor.factor_layer``), so a state's sum is its row's sum without that class, plus one term. Leaving a class out by
subtraction would lose everything when the proposal is peaked; ``_Split`` keeps the largest term of a row apart from the
rest so that neither drowns the other.

All arrays keep the batch last: the automaton is shared by the rows, so gathers and scatters move whole vectors.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.compiler import Layers
from seqdiff.constraints.factor import FactoredLayer, factor_layer
from seqdiff.core.contracts import Conditioned

MAX_TRIES = 64
CPU_ROWS, CPU_STATES = 8, 64
_FLOOR = -jnp.inf


class _Layer(NamedTuple):
    """One position of the automaton and of the batch, as scanned over."""

    rows: Int[Array, "R C"]
    base: Int[Array, "S"]
    symbol: Int[Array, "S"]
    target: Int[Array, "S"]
    accept: Bool[Array, "S"]
    classes: Int[Array, "A"]
    position: Int[Array, ""]
    log_p: Float[Array, "C B"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["rows", "base", "symbol", "target", "accept", "classes"],
    meta_fields=["choices"],
)
class ChainProgram:
    """A layered automaton as padded device arrays; implements the ``Program`` contract.

    Attributes:
        rows: int32 [L, R, C], next state of each shared row by class of symbols; S is dead.
        base: int32 [L, S], the shared row of each state.
        symbol: int32 [L, S], the class in which a state differs from its row; C for none.
        target: int32 [L, S], where that class leads; S is dead.
        accept: bool [L + 1, S], whether a design may end in a state.
        classes: int32 [L, A], the class of each symbol.
        choices: symbols per letter; A = V * choices.
    """

    def __init__(
        self, rows: Array, base: Array, symbol: Array, target: Array, accept: Array, classes: Array, choices: int
    ):
        self.rows, self.base, self.symbol, self.target, self.accept = rows, base, symbol, target, accept
        self.classes, self.choices = classes, choices

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """An exact draw, exact marginals and the log evidence for each row; no hint is needed.

        With hidden placements (``choices > 1``) a text is drawn in proportion to its number of placements, then
        accepted with probability one over that number, which leaves the exact conditional; marginals and evidence
        count placements.
        """
        rows = (keys, log_proposal, canvas, length)
        small = self.accept.shape[1] < CPU_STATES or len(keys) <= CPU_ROWS
        if small or len(keys) % CPU_ROWS or jax.default_backend() != "cpu":
            return self._condition(*rows)
        # On a CPU a few rows at a time stay in its cache: up to twice as fast as all rows of a batch of 16 at once.
        groups = jax.tree.map(lambda x: x.reshape(-1, CPU_ROWS, *x.shape[1:]), rows)
        found = jax.lax.map(lambda group: self._condition(*group), groups)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)

    def _condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
    ) -> Conditioned:
        log_p = self._symbols(log_proposal, canvas)
        betas, evidence = self._backward(log_p, length)
        witness = self._draw_until_accepted(keys, log_p, betas, length)
        marginals = self._marginals(log_p, betas, length)
        place = jnp.arange(canvas.shape[1])[None, :]
        witness = jnp.where(place < length[:, None], witness, canvas)
        return Conditioned(witness, marginals, evidence)

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """Log probability under the proposal that the constraints hold, given the committed letters."""
        return self._backward(self._symbols(log_proposal, canvas), length)[1]

    def _symbols(self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"]) -> Float[Array, "L A B"]:
        """Log-probabilities per symbol, batch last; a committed letter is certain."""
        vocab = log_proposal.shape[-1]
        letters = jnp.arange(vocab)[None, None, :]
        certain = jnp.where(canvas[..., None] == letters, 0.0, _FLOOR)
        log_p = jnp.where((canvas < vocab)[..., None], certain, log_proposal.astype(jnp.float32))
        return jnp.moveaxis(jnp.repeat(log_p, self.choices, axis=-1), 0, -1)

    def _layers(self, log_p: Float[Array, "L A B"]) -> _Layer:
        positions = jnp.arange(log_p.shape[0])
        accept = self.accept[:-1]
        by_class = self._by_class(log_p)
        return _Layer(self.rows, self.base, self.symbol, self.target, accept, self.classes, positions, by_class)

    def _by_class(self, log_p: Float[Array, "L A B"]) -> Float[Array, "L C B"]:
        """Log-probability of each class."""
        count = self.rows.shape[2]
        if count == log_p.shape[1]:
            return log_p
        member = self.classes[:, None, :] == jnp.arange(count)[None, :, None]
        largest = jnp.max(log_p, axis=1, keepdims=True)
        one_each = jnp.where(member[..., None], log_p[:, None], _FLOOR)
        top = jnp.max(one_each, axis=2)
        shift = jnp.where(jnp.isfinite(top), top, _finite(largest))
        return shift + jnp.log(jnp.sum(jnp.exp(one_each - shift[:, :, None]), axis=2))

    def _backward(
        self, log_p: Float[Array, "L A B"], length: Int[Array, "B"]
    ) -> tuple[Float[Array, "L1 S1 B"], Float[Array, "B"]]:
        """beta_0 to beta_L, each with a dead last row, and the evidence."""

        def step(after: Float[Array, "S1 B"], layer: _Layer) -> tuple[Float[Array, "S1 B"], Float[Array, "S1 B"]]:
            row_terms, own_term = _terms(layer, after)
            beta = _split(row_terms).plus(own_term, layer.base, layer.symbol)
            beta = _with_dead(_end(beta, layer.accept, layer.position, length))
            return beta, beta

        size, batch = log_p.shape[0], log_p.shape[-1]
        at_end = _end(jnp.full((self.accept.shape[1], batch), _FLOOR), self.accept[size], size, length)
        last = _with_dead(at_end)
        first, betas = jax.lax.scan(step, last, self._layers(log_p), reverse=True)
        return jnp.concatenate([betas, last[None]]), first[0]

    def _draw(
        self,
        keys: Key[Array, "B"],
        log_p: Float[Array, "L A B"],
        betas: Float[Array, "L1 S1 B"],
        length: Int[Array, "B"],
    ) -> Int[Array, "B L"]:
        """A text per row from the conditional, by Gumbel maximum with noise that float32 does not truncate."""
        size, symbols, batch = log_p.shape
        draw_noise = partial(jax.random.gumbel, shape=(size, symbols), dtype=jnp.float32, mode="high")
        noise = jnp.moveaxis(jax.vmap(draw_noise)(keys), 0, -1)
        lanes = jnp.arange(batch)

        def step(
            state: Int[Array, "B"],
            inputs: tuple[_Layer, Float[Array, "S1 B"], Float[Array, "A B"], Float[Array, "A B"]],
        ) -> tuple[Int[Array, "B"], Int[Array, "B"]]:
            layer, after, log_p, gumbel = inputs
            options = layer.rows[layer.base[state]][:, layer.classes]
            own = layer.classes[None, :] == layer.symbol[state][:, None]
            options = jnp.where(own, layer.target[state][:, None], options)
            scores = log_p.T + after[options, lanes[:, None]] + gumbel.T
            symbol = jnp.argmax(scores, axis=-1).astype(jnp.int32)
            going = layer.position < length
            return jnp.where(going, options[lanes, symbol], state), symbol // self.choices

        start = jnp.zeros((batch,), jnp.int32)
        _, letters = jax.lax.scan(step, start, (self._layers(log_p), betas[1:], log_p, noise))
        return letters.T

    def _draw_until_accepted(
        self,
        keys: Key[Array, "B"],
        log_p: Float[Array, "L A B"],
        betas: Float[Array, "L1 S1 B"],
        length: Int[Array, "B"],
    ) -> Int[Array, "B L"]:
        if self.choices == 1:
            return self._draw(keys, log_p, betas, length)
        vocab = log_p.shape[1] // self.choices
        flat = jnp.zeros((len(keys), log_p.shape[0], vocab))

        def attempt(
            carry: tuple[Int[Array, ""], Bool[Array, "B"], Int[Array, "B L"]],
        ) -> tuple[Int[Array, ""], Bool[Array, "B"], Int[Array, "B L"]]:
            tries, accepted, kept = carry
            folded = [jax.vmap(partial(jax.random.fold_in, data=2 * tries + i))(keys) for i in (0, 1)]
            text = self._draw(folded[0], log_p, betas, length)
            log_placements = self._backward(self._symbols(flat, text), length)[1]
            coin = jnp.log(jax.vmap(jax.random.uniform)(folded[1]))
            kept = jnp.where(accepted[:, None], kept, text)
            return tries + 1, accepted | (coin <= -log_placements), kept

        empty = jnp.zeros((len(keys), log_p.shape[0]), jnp.int32)
        start = (jnp.zeros((), jnp.int32), jnp.zeros((len(keys),), bool), empty)
        return jax.lax.while_loop(lambda c: (c[0] < MAX_TRIES) & ~jnp.all(c[1]), attempt, start)[2]

    def _marginals(
        self, log_p: Float[Array, "L A B"], betas: Float[Array, "L1 S1 B"], length: Int[Array, "B"]
    ) -> Float[Array, "B L V"]:
        """P(x_i = v | constraints) by pushing the posterior of the state forward; zero beyond a row's length."""
        size, symbols, batch = log_p.shape
        states = self.accept.shape[1]

        def step(
            gamma: Float[Array, "S B"], inputs: tuple[_Layer, Float[Array, "S1 B"], Float[Array, "S1 B"]]
        ) -> tuple[Float[Array, "S B"], Float[Array, "C B"]]:
            layer, beta, after = inputs
            row_terms, own_term = _terms(layer, after)
            scale = jnp.where(gamma > 0, beta[:-1], jnp.inf)
            row_mass, own_mass, letter = _split(row_terms).flows(gamma, scale, own_term, layer.base, layer.symbol)
            pushed = jnp.zeros((states + 1, batch)).at[layer.rows.reshape(-1)].add(row_mass.reshape(-1, batch))
            pushed = pushed.at[layer.target].add(own_mass)[:states]
            going = (layer.position < length)[None, :]
            return jnp.where(going, pushed, gamma), jnp.where(going, letter, 0.0)

        start = jnp.zeros((states, batch)).at[0].set(1.0)
        layers = self._layers(log_p)
        _, marginals = jax.lax.scan(step, start, (layers, betas[:-1], betas[1:]))
        if self.rows.shape[2] < symbols:
            at = self.classes[:, :, None]
            share = jnp.take_along_axis(_finite(layers.log_p), at, axis=1)
            marginals = jnp.take_along_axis(marginals, at, axis=1) * jnp.exp(log_p - share)
        letters = marginals.reshape(size, symbols // self.choices, self.choices, batch).sum(axis=2)
        return jnp.moveaxis(letters, -1, 0)


class _Split(NamedTuple):
    """Log terms [R, A, B] of each row as the largest one and the rest, scaled by the rest's own largest.

    Sums that leave one place out are then exact in relative terms. A state that leaves out its row's largest term is
    measured on the scale of the rest; any other keeps the largest term, beside which what underflows is negligible.
    """

    terms: Float[Array, "R A B"]
    top: Float[Array, "R B"]
    top_place: Int[Array, "R B"]
    scale: Float[Array, "R B"]

    def plus(self, own: Float[Array, "S B"], row: Int[Array, "S"], place: Int[Array, "S"]) -> Float[Array, "S B"]:
        """``logsumexp`` of each state's own term and its row without one place (place A leaves nothing out)."""
        # A term is taken off only where the larger top term stays, so that nothing is lost by the subtraction.
        rest = self._rest()
        padded = jnp.pad(rest, ((0, 0), (0, 1), (0, 0))).reshape(-1, own.shape[1])
        others = jnp.maximum(jnp.sum(rest, axis=1)[row] - padded[row * (rest.shape[1] + 1) + place], 0.0)
        scale = self.scale[row]
        top = jnp.where(self.top_place[row] == place[:, None], _FLOOR, self.top[row])
        largest = jnp.maximum(jnp.maximum(top, own), jnp.where(others > 0, scale, _FLOOR))
        shift = _finite(largest)
        smaller = others * jnp.exp(jnp.where(others > 0, scale - shift, 0.0))
        return shift + jnp.log(jnp.exp(top - shift) + jnp.exp(own - shift) + smaller)

    def flows(
        self,
        gamma: Float[Array, "S B"],
        beta: Float[Array, "S B"],
        own: Float[Array, "S B"],
        row: Int[Array, "S"],
        place: Int[Array, "S"],
    ) -> tuple[Float[Array, "R A B"], Float[Array, "S B"], Float[Array, "A B"]]:
        """Posterior mass that leaves by each symbol of each row, by each state's own symbol, and by each symbol.

        Args:
            gamma: posterior of the states.
            beta: log-sum of each state, infinite where it is not visited.
            own: log-term of each state's own symbol.
            row: of each state.
            place: of each state's own symbol; A for none.
        """
        rows, symbols, batch = self.terms.shape
        leaves_out_top = self.top_place[row] == place[:, None]
        share = gamma * jnp.exp(jnp.where(leaves_out_top, self.scale[row], self.top[row]) - beta)
        own_mass = gamma * jnp.exp(own - beta)
        slots = jnp.zeros((rows * (symbols + 1), 2 * batch)).at[row * (symbols + 1) + place]
        kept_top = jnp.where(leaves_out_top, 0.0, share)
        shares, owned = jnp.split(
            slots.add(jnp.concatenate([kept_top, own_mass], axis=1)).reshape(rows, symbols + 1, 2 * batch), 2, axis=2
        )
        with_top = _sums_without_one(shares, symbols)
        without_top = jnp.zeros((rows, batch)).at[row].add(share - kept_top)
        row_mass = with_top * jnp.exp(self.terms - _finite(self.top)[:, None]) + without_top[:, None] * self._rest()
        return row_mass, own_mass, jnp.sum(row_mass, axis=0) + jnp.sum(owned, axis=0)[:symbols]

    def _rest(self) -> Float[Array, "R A B"]:
        """Exponentials of all terms but the largest, on their own scale."""
        at_top = jnp.arange(self.terms.shape[1])[None, :, None] == self.top_place[:, None, :]
        return jnp.where(at_top, 0.0, jnp.exp(self.terms - _finite(self.scale)[:, None]))


def _split(terms: Float[Array, "R A B"]) -> _Split:
    top_place = jnp.argmax(terms, axis=1)
    at_top = jnp.arange(terms.shape[1])[None, :, None] == top_place[:, None, :]
    rest = jnp.max(jnp.where(at_top, _FLOOR, terms), axis=1)
    return _Split(terms, jnp.max(terms, axis=1), top_place, rest)


def _sums_without_one(values: Float[Array, "R A B"], places: int) -> Float[Array, "R P B"]:
    """Sums over axis 1 that leave out place 0, 1, ...; a product, because a sum less one term would not be exact."""
    return jnp.einsum("pa,rab->rpb", 1.0 - jnp.eye(places, values.shape[1]), values)


def _finite(x: Array) -> Array:
    return jnp.where(jnp.isfinite(x), x, 0.0)


def _terms(layer: _Layer, after: Float[Array, "S1 B"]) -> tuple[Float[Array, "R A B"], Float[Array, "S B"]]:
    """Log weight of every symbol of every shared row, and of every state's own symbol."""
    row_terms = layer.log_p[None, :, :] + after[layer.rows]
    with_none = jnp.concatenate([layer.log_p, jnp.full((1, layer.log_p.shape[1]), _FLOOR)])
    return row_terms, with_none[layer.symbol] + after[layer.target]


def _end(
    beta: Float[Array, "S B"], accept: Bool[Array, "S"], position: Int[Array, ""] | int, length: Int[Array, "B"]
) -> Float[Array, "S B"]:
    """``beta`` before a row's end, acceptance at its end, nothing beyond."""
    ended = jnp.where(accept, 0.0, _FLOOR)[:, None]
    return jnp.where(length[None, :] == position, ended, jnp.where(length[None, :] < position, _FLOOR, beta))


def _with_dead(beta: Float[Array, "S B"]) -> Float[Array, "S1 B"]:
    return jnp.concatenate([beta, jnp.full((1, beta.shape[1]), _FLOOR)])


def make_program(layers: Layers, size: int) -> ChainProgram:
    """Device arrays of a layered automaton, padded to ``size`` positions and to round numbers of states and rows.

    Rounding makes constraint sets of similar size share one compiled sampler.
    """
    symbols = layers.targets[0].shape[1]
    grouped = [_group_columns(table) for table in layers.targets]
    count = round_up(max(table.shape[1] for table, _ in grouped))
    if count >= symbols:
        count, grouped = symbols, [(table, np.arange(symbols)) for table in layers.targets]
    factored = [factor_layer(table) for table, _ in grouped]
    states = round_up(layers.width)
    shared = round_up(max(len(layer.rows) for layer in factored))
    rows = np.full((size, shared, count), states, np.int32)
    base = np.zeros((size, states), np.int32)
    symbol = np.full((size, states), count, np.int32)
    target = np.full((size, states), states, np.int32)
    accept = np.zeros((size + 1, states), bool)
    classes = np.zeros((size, symbols), np.int32)
    for i, layer in enumerate(factored):
        _place(layer, rows[i], base[i], symbol[i], target[i], dead=states)
        classes[i] = grouped[i][1]
    for i, good in enumerate(layers.accept):
        accept[i, : len(good)] = good
    arrays = (jnp.asarray(array) for array in (rows, base, symbol, target, accept, classes))
    return ChainProgram(*arrays, choices=layers.choices)


def _group_columns(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct columns of [states, A], in order of their first symbol, and which of them each symbol has."""
    if not len(table):
        return table[:, :1], np.zeros(table.shape[1], np.int32)
    _, first, inverse = np.unique(table, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return table[:, first[order]], rank[inverse.reshape(-1)]


def _place(
    layer: FactoredLayer, rows: np.ndarray, base: np.ndarray, symbol: np.ndarray, target: np.ndarray, *, dead: int
) -> None:
    count, states = len(layer.rows), len(layer.base)
    classes = layer.rows.shape[1]
    rows[:count, :classes] = np.where(layer.rows < 0, dead, layer.rows)
    base[:states] = layer.base
    symbol[:states] = np.where(layer.symbol == classes, rows.shape[1], layer.symbol)
    target[:states] = np.where(layer.target < 0, dead, layer.target)


def round_up(n: int) -> int:
    """The smallest of 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, ... that is at least ``n``."""
    size = 1
    while size < n:
        size *= 2
    return size * 3 // 4 if size >= 16 and n <= size * 3 // 4 else size
