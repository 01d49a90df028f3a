"""Vetted graphs: a witness is filled in pair by pair, each choice vetted by the rules, so that it never gets stuck.

This is for rules under which every partial graph that was vetted can be completed: only deletion-closed ones (leave
the rest out), only insertion-closed ones (put the rest in), or connectivity with bridge-addable classes. The open
pairs are visited in random order and take a letter from the proposal among those that are allowed; the product of the
allowed masses is an importance weight, and one of ``draws`` such fillings is chosen by it, which makes the law
approach the proposal given the rules as the draws grow (sampling importance resampling, Rubin 1987). Whole rules are
only asked about edges that were drawn, so that their refusals do not enter the weight.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.graph.canvas import (
    NEVER,
    Canvas,
    Rules,
    State,
    legal_letters,
    legal_mass,
    may_add,
    may_drop,
    whole,
)
from seqdiff.core.contracts import Conditioned

DRAWS = 8


@partial(jax.tree_util.register_dataclass, data_fields=["canvas", "rules"], meta_fields=["draws"])
class FillProgram:
    """Implements the ``Program`` contract for rules that never dead-end."""

    def __init__(self, canvas: Canvas, rules: Rules, draws: int = DRAWS):
        self.canvas, self.rules, self.draws = canvas, rules, draws

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; marginals and evidence look one pair ahead: the latter is an upper bound."""
        del hint
        pooled, letters, agree = self.canvas.pool.gather(log_proposal, canvas)
        open = self.canvas.open(letters, length)
        state = jax.vmap(self.canvas.state)(letters, open, length)
        marginals, evidence = self._ahead(pooled, letters, open, state)

        def tiled(array: Array) -> Array:
            return jnp.repeat(array, self.draws, axis=0)

        seeds = jax.vmap(lambda key: jax.random.split(key, self.draws))(keys).reshape(-1)
        filled, weight = self._fill(
            seeds, tiled(pooled), tiled(letters), tiled(open), jax.tree.map(tiled, state), tiled(length)
        )
        shape = (len(keys), self.draws)
        choose = jax.vmap(lambda key, weight: jax.random.categorical(jax.random.fold_in(key, 1), weight))
        chosen = choose(keys, weight.reshape(shape))
        witness = jnp.take_along_axis(filled.reshape(*shape, -1), chosen[:, None, None], axis=1)[:, 0]
        at = jnp.pad(marginals, ((0, 0), (0, 1), (0, 0)))[:, self.canvas.pool.owner]
        at = jnp.where((jnp.arange(at.shape[1])[None, :] < length[:, None])[..., None], at, 0.0)
        spread = jnp.where(
            jnp.arange(canvas.shape[1])[None, :] < length[:, None], self.canvas.pool.spread(witness, canvas), canvas
        )
        return Conditioned(spread, at, jnp.where(agree, evidence, NEVER))

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """An upper bound: the mass of what each open pair may be by itself."""
        pooled, letters, agree = self.canvas.pool.gather(log_proposal, canvas, add=True)
        open = self.canvas.open(letters, length)
        state = jax.vmap(self.canvas.state)(letters, open, length)
        return jnp.where(agree, self._ahead(pooled, letters, open, state)[1], NEVER)

    def _ahead(
        self, pooled: Float[Array, "B G V"], letters: Int[Array, "B G"], open: Bool[Array, "B G"], state: State
    ) -> tuple[Float[Array, "B G V"], Float[Array, "B"]]:
        """What each open variable may be given what is committed, ``P`` restricted to it, and the mass of it all."""
        variables = jnp.arange(letters.shape[1])

        def legal(state: State, variable: Array) -> Array:
            pairs = self.canvas.pairs[variable]
            add, _ = may_add(self.canvas, self.rules, state.present, pairs)
            drop, _ = may_drop(self.canvas, self.rules, state.hoped, pairs)
            return legal_letters(self.canvas, variable, add, drop)

        may = jax.vmap(lambda row: jax.vmap(partial(legal, row))(variables))(state)
        mass = legal_mass(pooled, may)
        restricted = jnp.where(may, jnp.exp(pooled - jnp.maximum(mass, -1e30)[..., None]), 0.0)
        vocab = pooled.shape[-1]
        known = jax.nn.one_hot(letters, vocab, dtype=jnp.float32)
        marginals = jnp.where(open[..., None], restricted, known)
        given = jnp.take_along_axis(pooled, jnp.clip(letters, 0, vocab - 1)[..., None], axis=-1)[..., 0]
        given = jnp.where(letters < vocab, given, 0.0)
        return marginals, jnp.sum(jnp.where(open, mass, given), axis=1)

    def _fill(
        self,
        keys: Key[Array, "R"],
        pooled: Float[Array, "R G V"],
        letters: Int[Array, "R G"],
        open: Bool[Array, "R G"],
        state: State,
        length: Int[Array, "R"],
    ) -> tuple[Int[Array, "R G"], Float[Array, "R"]]:
        """A complete graph for each row, and the log-weight of it."""
        count = letters.shape[1]
        order_keys, letter_keys = (jax.vmap(partial(jax.random.fold_in, data=n))(keys) for n in (0, 1))
        rank = jax.vmap(lambda key: jax.random.uniform(key, (count,)))(order_keys)
        order = jnp.argsort(jnp.where(open, rank, 2.0), axis=1)
        noise = jax.vmap(lambda key: jax.random.gumbel(key, pooled.shape[1:], mode="high"))(letter_keys)
        nodes = self.canvas.size_at[length]
        most = jnp.max(jnp.sum(open, axis=1))
        step = jax.vmap(self._visit)

        def body(carry: tuple[Array, Array, Array, State]) -> tuple[Array, Array, Array, State]:
            t, letters, weight, state = carry
            variable = order[:, t]
            active = jnp.take_along_axis(open, variable[:, None], axis=1)[:, 0]
            at = jnp.take_along_axis(pooled, variable[:, None, None], axis=1)[:, 0]
            shake = jnp.take_along_axis(noise, variable[:, None, None], axis=1)[:, 0]
            letter, mass, state = step(variable, active, at, shake, state, nodes)
            old = jnp.take_along_axis(letters, variable[:, None], axis=1)[:, 0]
            letters = jax.vmap(lambda row, g, x: row.at[g].set(x))(letters, variable, jnp.where(active, letter, old))
            return t + 1, letters, weight + jnp.where(active, mass, 0.0), state

        start = (jnp.int32(0), letters, jnp.zeros(len(keys)), state)
        _, letters, weight, _ = jax.lax.while_loop(lambda carry: carry[0] < most, body, start)
        return letters, weight

    def _visit(
        self,
        variable: Int[Array, ""],
        active: Bool[Array, ""],
        log_p: Float[Array, "V"],
        noise: Float[Array, "V"],
        state: State,
        nodes: Int[Array, ""],
    ) -> tuple[Int[Array, ""], Float[Array, ""], State]:
        """The letter of one variable, the mass that was allowed, and the graphs with it."""
        canvas, pairs = self.canvas, self.canvas.pairs[variable]
        add, with_it = may_add(canvas, self.rules, state.present, pairs)
        drop, without_it = may_drop(canvas, self.rules, state.hoped, pairs)
        legal = legal_letters(canvas, variable, add, drop)
        letter = jnp.argmax(jnp.where(legal, log_p + noise, NEVER))
        is_edge = canvas.edge[variable]
        drawn = active & is_edge & canvas.present[letter]
        for rule in whole(self.rules, ("down",)):
            refused = ~rule.holds(with_it, nodes, drawn)
            legal &= ~(canvas.present & refused)
            letter = jnp.argmax(jnp.where(legal, log_p + noise, NEVER))
            drawn &= ~refused
        for rule in whole(self.rules, ("up",)):
            absent = active & is_edge & ~canvas.present[letter]
            refused = ~rule.holds(without_it, nodes, absent)
            legal &= canvas.present | ~refused
            letter = jnp.argmax(jnp.where(legal, log_p + noise, NEVER))
        drawn = active & is_edge & canvas.present[letter]
        gone = active & is_edge & ~canvas.present[letter]
        after = State(
            jnp.where(drawn, with_it, state.present),
            jnp.where(gone, without_it, state.hoped),
        )
        return letter.astype(jnp.int32), legal_mass(log_p, canvas.allowed[variable] & legal), after
