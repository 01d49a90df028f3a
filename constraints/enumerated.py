"""Small spaces, exactly: all solutions are listed once, and the proposal is conditioned on the list.

It is used where few combinations of letters are possible at all.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.readers import Variables
from seqdiff.constraints.shared import Pool
from seqdiff.constraints.tiers import Tier
from seqdiff.core.contracts import Conditioned

MOST = 4096


def combinations(allowed: np.ndarray) -> int:
    """How many texts the allowed letters of the variables, bool [G, V], make."""
    return math.prod(allowed.sum(axis=1).tolist())


def solutions(allowed: np.ndarray, holds: Callable[[np.ndarray], bool]) -> np.ndarray:
    """Every combination of allowed letters for which ``holds``, int32 [N, G]."""
    choices = [np.flatnonzero(row).tolist() for row in allowed]
    found = [letters for letters in itertools.product(*choices) if holds(np.array(letters))]
    return np.array(found, np.int32).reshape(len(found), len(allowed))


def listed(found: np.ndarray, variables: Variables, length: int, vocab: int) -> Tier:
    """The tier of a list of all solutions, int32 [N, G]."""
    letters = (found[:, :, None] == np.arange(vocab)).any(axis=0)
    lengths = np.array([length])
    return Tier("enumerated", lengths, lambda size: EnumeratedProgram.make(found, variables, size), letters=letters)


@partial(jax.tree_util.register_dataclass, data_fields=["solutions", "pool"], meta_fields=[])
class EnumeratedProgram:
    """Implements the ``Program`` contract by a list of solutions, int32 [N, G]; exact."""

    def __init__(self, solutions: Array, pool: Pool):
        self.solutions, self.pool = solutions, pool

    @classmethod
    def make(cls, solutions: np.ndarray, variables: Variables, size: int) -> "EnumeratedProgram":
        """A program for canvases of ``size`` positions."""
        return cls(jnp.asarray(solutions), Pool.make(variables, size))

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``."""
        del hint
        pooled, letters, _ = self.pool.gather(log_proposal, canvas)
        weight = self._weights(pooled, letters)
        chosen = jax.vmap(lambda key, row: jax.random.categorical(key, row, mode="high"))(keys, weight)
        share = jax.nn.softmax(jnp.maximum(weight, -1e30), axis=1)
        shown = jax.nn.one_hot(self.solutions, log_proposal.shape[-1], dtype=jnp.float32)
        marginals = jnp.einsum("bn,ngv->bgv", share, shown)
        at = jnp.pad(marginals, ((0, 0), (0, 1), (0, 0)))[:, self.pool.owner]
        evidence = self.log_evidence(log_proposal, canvas, length)
        return Conditioned(self.pool.spread(self.solutions[chosen], canvas), at, evidence)

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """See ``core.contracts.Program``."""
        del length
        pooled, letters, agree = self.pool.gather(log_proposal, canvas, add=True)
        evidence = jax.nn.logsumexp(self._weights(pooled, letters), axis=1)
        return jnp.where(agree, evidence, -jnp.inf)

    def _weights(self, pooled: Float[Array, "B G V"], letters: Int[Array, "B G"]) -> Float[Array, "B N"]:
        """Log-probability of each solution; minus infinity where it differs from the canvas."""
        vocab = pooled.shape[-1]
        shown = jax.nn.one_hot(self.solutions, vocab, dtype=jnp.float32)
        differs: Bool[Array, "B N"] = jnp.any(
            (letters[:, None, :] < vocab) & (letters[:, None, :] != self.solutions[None]), axis=2
        )
        return jnp.where(differs, -jnp.inf, jnp.einsum("bgv,ngv->bn", pooled, shown))
