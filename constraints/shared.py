"""Positions that share letters: pooling a proposal onto the letters to choose, and spreading the answer back.

The members' log-probabilities are averaged, by weights where there are any, and normalised, which keeps a group as
undecided as its members are; with ``pool: sum`` they add, which makes the shared letter's distribution the proposal
given that the members are equal. The letters that a member may have are intersected before, by the compiler.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.chain import ChainProgram
from seqdiff.constraints.readers import Variables
from seqdiff.core.contracts import Conditioned


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["owner", "letters", "weight", "averaged"],
    meta_fields=["steps", "averages"],
)
class Pool:
    """Which variable stands at each position, padded to the canvas.

    Attributes:
        owner: int32 [L], step of the variable; ``steps`` beyond the design.
        letters: int32 [L, V], the letter at a position for each letter of its variable (an involution).
        weight: float32 [L], of a position's log-probabilities.
        averaged: bool [G], variables whose pooled log-probabilities are weighted and then normalised.
        steps: number of variables.
        averages: whether any variable's log-probabilities are averaged.
    """

    def __init__(self, owner: Array, letters: Array, weight: Array, averaged: Array, steps: int, averages: bool):
        self.owner, self.letters, self.weight, self.averaged = owner, letters, weight, averaged
        self.steps, self.averages = steps, averages

    @classmethod
    def make(cls, variables: Variables, size: int) -> "Pool":
        """Arrays for canvases of ``size`` positions."""
        used, vocab = len(variables.owner), len(variables.complement)
        owner = np.full(size, variables.steps, np.int32)
        owner[:used] = variables.owner
        letters = np.tile(np.arange(vocab, dtype=np.int32), (size, 1))
        letters[:used] = [variables.letters(i) for i in range(used)]
        weight = np.ones(size, np.float32)
        weight[:used] = variables.weight
        averaged = np.zeros(variables.steps, bool)
        averaged[variables.owner[variables.weight != 1]] = True
        arrays = (jnp.asarray(array) for array in (owner, letters, weight, averaged))
        return cls(*arrays, steps=variables.steps, averages=bool(averaged.any()))

    def gather(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], *, add: bool = False
    ) -> tuple[Float[Array, "B G V"], Int[Array, "B G"], Bool[Array, "B"]]:
        """The proposal and the canvas by variable, and whether no variable has two different letters.

        A variable of which any member is committed is committed; MASK is V. With ``add`` log-probabilities add whatever
        the constraints ask, as the probability that independent letters are equal needs.
        """
        vocab = log_proposal.shape[-1]
        at = jnp.take_along_axis(log_proposal.astype(jnp.float32), self.letters[None], axis=-1)
        at = at if add else at * self.weight[None, :, None]
        pooled = jnp.zeros((len(canvas), self.steps + 1, vocab)).at[:, self.owner].add(at)[:, :-1]
        if self.averages and not add:
            pooled = jnp.where(self.averaged[None, :, None], jax.nn.log_softmax(pooled, axis=-1), pooled)
        letter = jnp.take_along_axis(self.letters[None], jnp.clip(canvas, 0, vocab - 1)[..., None], axis=-1)[..., 0]
        known = canvas < vocab
        nothing = jnp.full((len(canvas), self.steps + 1), vocab, jnp.int32)
        low = nothing.at[:, self.owner].min(jnp.where(known, letter, vocab))[:, :-1]
        high = jnp.full_like(nothing, -1).at[:, self.owner].max(jnp.where(known, letter, -1))[:, :-1]
        return pooled, low, jnp.all((high < 0) | (low == high), axis=1)

    def spread(self, letters: Int[Array, "B G"], canvas: Int[Array, "B L"]) -> Int[Array, "B L"]:
        """Letters by position; beyond the design the canvas."""
        padded = jnp.pad(letters, ((0, 0), (0, 1)))[:, self.owner]
        at = jnp.take_along_axis(self.letters[None], padded[..., None], axis=-1)[..., 0]
        return jnp.where(self.owner[None] < self.steps, at, canvas)


@partial(jax.tree_util.register_dataclass, data_fields=["chain", "pool"], meta_fields=[])
class SharedProgram:
    """A chain over variables, seen as a program over positions; implements the ``Program`` contract."""

    def __init__(self, chain: ChainProgram, pool: Pool):
        self.chain, self.pool = chain, pool

    @classmethod
    def make(cls, chain: ChainProgram, variables: Variables, size: int) -> "SharedProgram":
        """A program for canvases of ``size`` positions."""
        return cls(chain, Pool.make(variables, size))

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; the evidence is of independent letters, so it counts ties however pooled."""
        pooled, letters, agree = self.pool.gather(log_proposal, canvas)
        steps = jnp.full_like(length, self.pool.steps)
        chosen, marginals, evidence = self.chain.condition(keys, pooled, letters, steps, letters)
        if self.pool.averages:
            evidence = self.log_evidence(log_proposal, canvas, length)
        padded = jnp.pad(marginals, ((0, 0), (0, 1), (0, 0)))[:, self.pool.owner]
        at = jnp.take_along_axis(padded, self.pool.letters[None], axis=-1)
        return Conditioned(self.pool.spread(chosen, canvas), at, jnp.where(agree, evidence, -jnp.inf))

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """See ``core.contracts.Program``."""
        pooled, letters, agree = self.pool.gather(log_proposal, canvas, add=True)
        evidence = self.chain.log_evidence(pooled, letters, jnp.full_like(length, self.pool.steps))
        return jnp.where(agree, evidence, -jnp.inf)
