"""Witnesses that move: a Markov chain over complete graphs that satisfy everything and agree with what is committed.

Where no rule says which partial graphs can be completed, a complete feasible graph is kept and moved instead, so that
validity never depends on luck. A move *flips* a variable to a letter drawn from the proposal, *swaps* the letters of
an edge and of a non-edge, or *switches* two edges ab, cd to ac, bd, which keeps every degree. Each is symmetric apart
from the proposal's odds, and is refused if it leaves the feasible set (Metropolis), so that the chain's stationary
law is the proposal given the constraints on whatever the moves connect. The first witness comes from a solver, which
maximises a perturbed proposal (``seqdiff.constraints.graph.first``), one host call at the start; later steps go on
from the last one.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.graph.bits import put
from seqdiff.constraints.graph.canvas import NEVER, Canvas, Rules, legal_mass, whole
from seqdiff.constraints.graph.first import find_first
from seqdiff.constraints.graph.rules import LocalRule
from seqdiff.core.contracts import Conditioned

SWEEPS, FIRST_SWEEPS = 1, 4


@partial(jax.tree_util.register_dataclass, data_fields=["weights", "low", "high"], meta_fields=[])
class Windows:
    """Sums that stay within bounds.

    Attributes:
        weights: int32 [K, G, V], of each letter of each variable.
        low: int32 [n + 1, K], least sum, by number of nodes.
        high: int32 [n + 1, K], largest.
    """

    def __init__(self, weights: Array, low: Array, high: Array):
        self.weights, self.low, self.high = weights, low, high


class _Walk(NamedTuple):
    letters: Int[Array, "G"]
    rows: Array
    sums: Int[Array, "K"]
    visits: Float[Array, "G V"]


class _Move(NamedTuple):
    variables: Int[Array, "4"]
    letters: Int[Array, "4"]
    active: Bool[Array, "4"]
    log_ratio: Float[Array, ""]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["canvas", "rules", "windows", "variable_of", "handle"],
    meta_fields=["switches"],
)
class MovesProgram:
    """Implements the ``Program`` contract for any rules.

    Attributes:
        canvas: variables.
        rules: local and whole rules.
        windows: sums within bounds.
        variable_of: int32 [n, n], the variable that decides on a pair; -1 for none.
        handle: of the first witnesses.
        switches: whether edges may be switched in twos; variables then decide on one pair each.
    """

    def __init__(
        self, canvas: Canvas, rules: Rules, windows: Windows, variable_of: Array, handle: Array, switches: bool
    ):
        self.canvas, self.rules, self.windows = canvas, rules, windows
        self.variable_of, self.handle, self.switches = variable_of, handle, switches

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; marginals are averages over the walk, the evidence that of single letters."""
        pooled, letters, agree = self.canvas.pool.gather(log_proposal, canvas)
        vocab = pooled.shape[-1]
        open = self.canvas.open(letters, length)
        _, known, _ = self.canvas.pool.gather(log_proposal, hint)
        fresh = jnp.any(open & (known >= vocab), axis=1)
        noise_keys, walk_keys = (jax.vmap(partial(jax.random.fold_in, data=n))(keys) for n in (0, 1))
        noise = jax.vmap(lambda key: jax.random.gumbel(key, pooled.shape[1:], mode="high"))(noise_keys)
        start = find_first(self.handle, pooled + noise, letters, length, known, fresh)
        start = jnp.where(letters < vocab, letters, start)
        sweeps = jnp.where(fresh, FIRST_SWEEPS, SWEEPS)
        steps = sweeps * jnp.sum(open, axis=1)
        walk = self._walk(walk_keys, pooled, start, open, length, steps)
        allowed = self.canvas.allowed[None]
        alone = jnp.where(allowed, jnp.exp(pooled - legal_mass(pooled, allowed)[..., None]), 0.0)
        # Mixed with the letters' own law, so that what the walk never left does not count as determined.
        blended = (walk.visits + alone) / (1.0 + steps.astype(jnp.float32))[:, None, None]
        shown = jax.nn.one_hot(jnp.where(open, vocab, letters), vocab, dtype=jnp.float32)
        marginals = jnp.where(open[..., None], blended, shown)
        inside = jnp.arange(canvas.shape[1])[None, :] < length[:, None]
        at = jnp.pad(marginals, ((0, 0), (0, 1), (0, 0)))[:, self.canvas.pool.owner]
        witness = jnp.where(inside, self.canvas.pool.spread(walk.letters, canvas), canvas)
        evidence = jnp.where(agree, self._mass(pooled, letters, open), NEVER)
        return Conditioned(witness, jnp.where(inside[..., None], at, 0.0), evidence)

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """An upper bound: the mass of the letters that are allowed at all."""
        pooled, letters, agree = self.canvas.pool.gather(log_proposal, canvas, add=True)
        return jnp.where(agree, self._mass(pooled, letters, self.canvas.open(letters, length)), NEVER)

    def _mass(self, pooled: Float[Array, "B G V"], letters: Int[Array, "B G"], open: Bool[Array, "B G"]) -> Array:
        vocab = pooled.shape[-1]
        own = jnp.take_along_axis(pooled, jnp.clip(letters, 0, vocab - 1)[..., None], axis=-1)[..., 0]
        given = jnp.where(letters < vocab, own, 0.0)
        return jnp.sum(jnp.where(open, legal_mass(pooled, self.canvas.allowed[None]), given), axis=1)

    def _walk(
        self,
        keys: Key[Array, "B"],
        pooled: Float[Array, "B G V"],
        letters: Int[Array, "B G"],
        open: Bool[Array, "B G"],
        length: Int[Array, "B"],
        steps: Int[Array, "B"],
    ) -> _Walk:
        """Walk each row for its number of steps."""
        canvas, vocab = self.canvas, pooled.shape[-1]
        here = canvas.edge[None, :] & (canvas.first[None, :] < length[:, None])
        rows = jax.vmap(canvas.graph)(here & canvas.present[jnp.clip(letters, 0, vocab - 1)])
        valid = canvas.first[None, :] < length[:, None]
        shown = jax.nn.one_hot(jnp.where(valid, letters, vocab), vocab, dtype=jnp.int32)
        sums = jnp.einsum("bgv,kgv->bk", shown, self.windows.weights)
        walk = _Walk(letters, rows, sums, jnp.zeros_like(pooled))
        nodes = canvas.size_at[length]
        step = jax.vmap(self._step)

        def body(carry: tuple[Array, _Walk]) -> tuple[Array, _Walk]:
            t, walk = carry
            fresh = jax.vmap(partial(jax.random.fold_in, data=t))(keys)
            return t + 1, step(fresh, pooled, open, nodes, t < steps, walk)

        most = jnp.max(steps)
        return jax.lax.while_loop(lambda carry: carry[0] < most, body, (jnp.int32(0), walk))[1]

    def _step(
        self,
        key: Key[Array, ""],
        log_p: Float[Array, "G V"],
        open: Bool[Array, "G"],
        nodes: Int[Array, ""],
        active: Bool[Array, ""],
        walk: _Walk,
    ) -> _Walk:
        """One move of one row."""
        kinds = [self._flip, self._swap, *([self._switch] if self.switches else [])]
        kind_key, move_key, accept_key = jax.random.split(key, 3)
        moves = [kind(jax.random.fold_in(move_key, n), log_p, open, walk) for n, kind in enumerate(kinds)]
        kind = jax.random.randint(kind_key, (), 0, len(kinds))
        move: _Move = jax.tree.map(lambda *leaves: jnp.stack(leaves)[kind], *moves)
        accept = active & (jnp.log(jax.random.uniform(accept_key, minval=1e-12)) < move.log_ratio)
        move = move._replace(active=move.active & accept & (move.letters != walk.letters[move.variables]))
        ok, rows, sums = self._try(walk, move, nodes)
        ok &= jnp.any(move.active)
        # Writes of moves that are not made go nowhere.
        at = jnp.where(ok & move.active, move.variables, len(walk.letters))
        letters = walk.letters.at[at].set(move.letters, mode="drop")
        rows, sums = jnp.where(ok, rows, walk.rows), jnp.where(ok, sums, walk.sums)
        seen = jax.nn.one_hot(letters, log_p.shape[1], dtype=jnp.float32)
        return _Walk(letters, rows, sums, walk.visits + jnp.where(active, seen, 0.0))

    def _try(self, walk: _Walk, move: _Move, nodes: Int[Array, ""]) -> tuple[Array, Array, Array]:
        """Whether a move stays feasible, and the graph and the sums after it."""
        canvas = self.canvas
        old = walk.letters[move.variables]
        pairs = jnp.where(move.active[:, None, None], canvas.pairs[move.variables], -1)
        was, will = canvas.present[old], canvas.present[move.letters]
        width = pairs.shape[1]
        flat = pairs.reshape(-1, 2)
        gains = jnp.repeat(will & ~was, width)
        losses = jnp.repeat(was & ~will, width)

        def edit(rows: Array, which: Array, value: bool, closed: str) -> tuple[Array, Array]:
            def one(m: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
                rows, ok = state
                i, j = (jnp.where(which[m], end, -1) for end in (flat[m, 0], flat[m, 1]))
                for rule in self.rules:
                    if isinstance(rule, LocalRule) and rule.closed == closed:
                        ok &= (i < 0) | rule.ok(rows, i, j)
                return put(rows, i, j, jnp.bool_(value), directed=canvas.directed), ok

            return jax.lax.fori_loop(0, len(flat), one, (rows, jnp.bool_(True)))

        # Deletion-closed classes are asked with the losses gone, insertion-closed ones with the gains there.
        lost, _ = edit(walk.rows, losses, False, "")
        after, ok_down = edit(lost, gains, True, "down")
        gained, _ = edit(walk.rows, gains, True, "")
        _, ok_up = edit(gained, losses, False, "up")
        change = self.windows.weights[:, move.variables, move.letters] - self.windows.weights[:, move.variables, old]
        sums = walk.sums + jnp.sum(jnp.where(move.active[None, :], change, 0), axis=1)
        ok = ok_down & ok_up & jnp.all((sums >= self.windows.low[nodes]) & (sums <= self.windows.high[nodes]))
        some = jnp.any(move.active)
        for rule in whole(self.rules, ("down",)):
            ok &= rule.holds(after, nodes, some & ok & jnp.any(gains & (flat[:, 0] >= 0)))
        for rule in whole(self.rules, ("up",)):
            ok &= rule.holds(after, nodes, some & ok & jnp.any(losses & (flat[:, 0] >= 0)))
        for rule in whole(self.rules, ("",)):
            ok &= rule.holds(after, nodes, some & ok)
        return ok, after, sums

    def _flip(self, key: Key[Array, ""], log_p: Array, open: Array, walk: _Walk) -> _Move:
        """A variable takes a letter from the proposal: heat bath, so the odds cancel."""
        del walk
        pick, draw = jax.random.split(key)
        variable = _one_of(pick, open)
        letter = jax.random.categorical(draw, jnp.where(self.canvas.allowed[variable], log_p[variable], NEVER))
        return _move([(variable, letter)], jnp.any(open), jnp.float32(0.0))

    def _swap(self, key: Key[Array, ""], log_p: Array, open: Array, walk: _Walk) -> _Move:
        """An edge and a non-edge swap letters."""
        first, second = jax.random.split(key)
        present = self.canvas.present[walk.letters]
        edges = open & self.canvas.edge
        g, h = _one_of(first, edges & present), _one_of(second, edges & ~present)
        x, y = walk.letters[g], walk.letters[h]
        fits = jnp.any(edges & present) & jnp.any(edges & ~present)
        fits &= self.canvas.allowed[g, y] & self.canvas.allowed[h, x]
        return _move([(g, y), (h, x)], fits, log_p[g, y] + log_p[h, x] - log_p[g, x] - log_p[h, y])

    def _switch(self, key: Key[Array, ""], log_p: Array, open: Array, walk: _Walk) -> _Move:
        """Edges ab and cd become ac and bd, each with the letter of one of them."""
        first, second, turn = jax.random.split(key, 3)
        present = self.canvas.present[walk.letters]
        edges = open & self.canvas.edge & present
        g, h = _one_of(first, edges), _one_of(second, edges)
        a, b = self.canvas.pairs[g, 0, 0], self.canvas.pairs[g, 0, 1]
        c, d = self.canvas.pairs[h, 0, 0], self.canvas.pairs[h, 0, 1]
        flipped = jax.random.bernoulli(turn)
        c, d = jnp.where(flipped, d, c), jnp.where(flipped, c, d)
        u, v = self.variable_of[a, c], self.variable_of[b, d]
        fits = jnp.any(edges) & (a != c) & (b != d) & (u >= 0) & (v >= 0) & (u != v)
        fits &= open[u] & open[v] & ~present[u] & ~present[v]
        x, y, o, p = walk.letters[g], walk.letters[h], walk.letters[u], walk.letters[v]
        allowed = self.canvas.allowed
        fits &= allowed[g, o] & allowed[h, p] & allowed[u, x] & allowed[v, y]
        gain = log_p[g, o] + log_p[h, p] + log_p[u, x] + log_p[v, y]
        return _move(
            [(g, o), (h, p), (u, x), (v, y)], fits, gain - log_p[g, x] - log_p[h, y] - log_p[u, o] - log_p[v, p]
        )


def _one_of(key: Key[Array, ""], among: Bool[Array, "G"]) -> Int[Array, ""]:
    """A uniform choice; anything where there is none."""
    return jnp.argmax(jnp.where(among, jax.random.uniform(key, among.shape), -1.0))


def _move(changes: list[tuple[Any, Any]], fits: Bool[Array, ""], log_ratio: Float[Array, ""]) -> _Move:
    spare = [(jnp.int32(0), jnp.int32(0))] * (4 - len(changes))
    variables, letters = (jnp.stack([jnp.asarray(item[n], jnp.int32) for item in [*changes, *spare]]) for n in (0, 1))
    return _Move(variables, letters, fits & (jnp.arange(4) < len(changes)), log_ratio)
