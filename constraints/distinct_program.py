"""Groups of positions whose letters all differ, kept by propagation and search on the device.

Propagation to the fixpoint (``seqdiff.constraints.distinct_search``) gives the marginals, the proposal within the
letters that are left, and an upper bound of the evidence. A witness comes from a depth-first search that tries the
letters in the order of the proposal perturbed by Gumbel noise. Rows that use up their branches are completed on the
host (``seqdiff.constraints.distinct_host``), and what even that does not complete in time keeps its last witness.

Where one completion exists it is found; where there are several, which one is drawn follows the proposal
approximately (``feasible``, not ``exact``).
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.constraints.distinct_host import complete_rows
from seqdiff.constraints.distinct_search import Domains, Found, Links, has, join, propagate, search
from seqdiff.core.contracts import Conditioned
from seqdiff.core.errors import InputError

MAX_LETTERS = 32
BRANCHES = 10_000
FIRST_SECONDS, STEP_SECONDS = 20.0, 0.25


@partial(jax.tree_util.register_dataclass, data_fields=["links", "allowed", "branches"], meta_fields=[])
class DistinctProgram:
    """Groups of different letters; implements the ``Program`` contract. Groups, letters and budget are arrays.

    Attributes:
        links: who is in which group.
        allowed: letters that each position may have, bool [L, V].
        branches: that a row may try on the device, int32 [].
    """

    def __init__(self, links: Links, allowed: Array, branches: Array):
        self.links, self.allowed, self.branches = links, allowed, branches

    @classmethod
    def make(
        cls, groups: Sequence[Sequence[int]], allowed: Bool[np.ndarray, "l V"], size: int, *, branches: int = BRANCHES
    ) -> "DistinctProgram":
        """A program for canvases of ``size`` positions.

        Args:
            groups: 0-based positions whose letters differ.
            allowed: letters that each position may have.
            size: padded length of the canvas.
            branches: that a row may try on the device.

        Raises:
            InputError: more letters than a mask has bits.
        """
        if allowed.shape[1] > MAX_LETTERS:
            raise InputError(f"all_different takes alphabets of at most {MAX_LETTERS} letters, not {allowed.shape[1]}")
        padded = np.pad(allowed, ((0, size - len(allowed)), (0, 0)), constant_values=True)
        return cls(Links.make(groups, size), jnp.asarray(padded), jnp.int32(branches))

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; marginals are those of the propagated domains, the evidence an upper bound.

        The evidence is minus infinity where there is no completion, and where none is found and ``hint`` is none.
        """
        tight, wrong = propagate(self.links, self.domains(canvas, length))
        marginals, evidence = _within(tight, log_proposal, canvas)
        values = _perturbed(keys, log_proposal)
        found = search(self.links, tight, wrong, values, marginals, self.branches)
        inside = tight.present[:-1].T
        known = jnp.all((hint < self.allowed.shape[1]) | ~inside, axis=1) & ~found.impossible
        letters, answered = _complete(self.links, found, tight, values, known)
        letters = jnp.where(answered[:, None], letters, hint)
        return Conditioned(
            witness=jnp.where(inside, letters, canvas),
            marginals=marginals,
            log_evidence=jnp.where(answered | known, evidence, -jnp.inf),
        )

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """Mass of the proposal within the propagated domains: an upper bound; minus infinity where they contradict."""
        tight, wrong = propagate(self.links, self.domains(canvas, length))
        return jnp.where(wrong, -jnp.inf, _within(tight, log_proposal, canvas)[1])

    def search(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
    ) -> Found:
        """The search on the device by itself: no host, no hint."""
        tight, wrong = propagate(self.links, self.domains(canvas, length))
        marginals, _ = _within(tight, log_proposal, canvas)
        return search(self.links, tight, wrong, _perturbed(keys, log_proposal), marginals, self.branches)

    def domains(self, canvas: Int[Array, "B L"], length: Int[Array, "B"]) -> Domains:
        """The letters that are allowed where open and the one that stands there elsewhere, before propagation."""
        size, vocab = self.allowed.shape
        tokens = canvas[..., None]
        fits = self.allowed[None] & ((tokens >= vocab) | (tokens == jnp.arange(vocab, dtype=canvas.dtype)[None, None]))
        present = jnp.arange(size)[None] < length[:, None]
        masks = jnp.where(present, join(fits), jnp.uint32(0))
        return Domains(jnp.pad(masks.T, ((0, 1), (0, 0))), jnp.pad(present.T, ((0, 1), (0, 0))))


def _complete(
    links: Links, found: Found, tight: Domains, values: Float[Array, "B L V"], known: Bool[Array, "B"]
) -> tuple[Int[Array, "B L"], Bool[Array, "B"]]:
    """The letters that were found, here or on the host, and for which rows; rows with no other witness get longer."""
    spent = ~found.solved & ~found.impossible
    seconds = jnp.where(known, STEP_SECONDS, FIRST_SECONDS)
    shape = jax.ShapeDtypeStruct(found.letters.shape, jnp.int32)
    masks = tight.masks[:-1].T

    def ask(*arrays: Array) -> Array:
        return jax.pure_callback(_complete_rows, shape, *arrays)

    asked = (links.members, masks, values, spent, seconds)
    host = jax.lax.cond(jnp.any(spent), ask, lambda *_: jnp.full(shape.shape, -1, jnp.int32), *asked)
    return jnp.where(found.solved[:, None], found.letters, host), found.solved | (host[:, 0] >= 0)


def _complete_rows(*arrays: Array) -> np.ndarray:
    return complete_rows(*(np.asarray(array) for array in arrays))


def _within(
    tight: Domains, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"]
) -> tuple[Float[Array, "B L V"], Float[Array, "B"]]:
    """The proposal within the domains, normalised, and the log of its mass over the open positions."""
    vocab = log_proposal.shape[-1]
    inside = jnp.where(has(tight.masks[:-1].T, vocab), log_proposal.astype(jnp.float32), -jnp.inf)
    mass = jax.nn.logsumexp(inside, axis=-1)
    open = tight.present[:-1].T & (canvas >= vocab)
    marginals = jnp.exp(inside - jnp.where(jnp.isfinite(mass), mass, 0.0)[..., None])
    return marginals, jnp.sum(jnp.where(open, mass, 0.0), axis=1)


def _perturbed(keys: Key[Array, "B"], log_proposal: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
    shape = log_proposal.shape[1:]
    noise = jax.vmap(lambda key: jax.random.gumbel(jax.random.fold_in(key, 1), shape, mode="high"))(keys)
    return log_proposal.astype(jnp.float32) + noise
