"""Groups of positions whose letters all differ, kept by propagation and search on the device.

The letters that a position may still have are the bits of a uint32, its *domain*. One round of propagation, for every
row of a batch at once and with the batch as the last axis:

* naked single: a position with one letter left takes it from the others of its groups;
* hidden single: in a *tight* group, one with as many letters left as positions, a letter with one place left stands
  there;
* confinement (pointing, claiming): a letter of a tight group whose places all lie in another group too is taken from
  the rest of that other group.

Propagation to the fixpoint gives the marginals (the proposal within the domains) and an upper bound of the evidence. A
witness comes from a depth-first search: the position with the fewest letters takes its best letter under the proposal
perturbed by Gumbel noise; the alternative, everything as it was without that letter, goes on a stack; a contradiction
takes the last alternative back. Each pass of the loop is one round for every row, whatever the row is at; when few
rows are left they go on in a smaller batch. Rows that use up their branches are completed on the host
(``seqdiff.constraints.distinct_host``), and what even that does not complete in time keeps its last witness.

Where one completion exists it is found; where there are several, which one is drawn follows the proposal approximately
(``feasible``, not ``exact``).
"""

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, Key, UInt32

from seqdiff.core.contracts import Conditioned
from seqdiff.core.errors import InputError

MAX_LETTERS = 32
BRANCHES = 10_000
FIRST_SECONDS, STEP_SECONDS = 20.0, 0.25
FEWER, FEWEST = 8, 4
RUNNING, SOLVED, IMPOSSIBLE, SPENT = 0, 1, 2, 3
_NONE = jnp.uint32  # of a mask


class Found(NamedTuple):
    """What the search made of each row.

    Attributes:
        letters: a completion, int32 [B, L]; only where solved.
        nodes: branches that were tried.
        backtracks: how many of them were taken back.
        solved: whether a completion was found.
        impossible: whether there is proof that none exists.
    """

    letters: Int[Array, "B L"]
    nodes: Int[Array, "B"]
    backtracks: Int[Array, "B"]
    solved: Bool[Array, "B"]
    impossible: Bool[Array, "B"]


class Links(NamedTuple):
    """Who is in which group, as padded index arrays; L, G and P stand for nobody.

    Attributes:
        members: int32 [G, M], positions of each group.
        owners: int32 [L + 1, K], groups of each position.
        shared: int32 [P, I], positions that both groups of an ordered pair have.
        rest: int32 [P, R], the other positions of the first group.
        first: int32 [P], the first group.
        reached: int32 [L + 1, Q], pairs of which each position is in the second group only.
    """

    members: Int32[Array, "G M"]
    owners: Int32[Array, "L1 K"]
    shared: Int32[Array, "P I"]
    rest: Int32[Array, "P R"]
    first: Int32[Array, "P"]
    reached: Int32[Array, "L1 Q"]

    @classmethod
    def make(cls, groups: Sequence[Sequence[int]], size: int) -> "Links":
        """Arrays for canvases of ``size`` positions; pairs of groups that share a single position confine nothing."""
        sets = [frozenset(group) for group in groups]
        pairs = [(a, b) for a, b in permutations(range(len(sets)), 2) if len(sets[a] & sets[b]) > 1]
        owners: list[list[int]] = [[] for _ in range(size + 1)]
        reached: list[list[int]] = [[] for _ in range(size + 1)]
        for number, group in enumerate(sets):
            for position in group:
                owners[position].append(number)
        for number, (a, b) in enumerate(pairs):
            for position in sets[b] - sets[a]:
                reached[position].append(number)
        return cls(
            _padded([sorted(group) for group in sets], size),
            _padded(owners, len(sets)),
            _padded([sorted(sets[a] & sets[b]) for a, b in pairs], size),
            _padded([sorted(sets[a] - sets[b]) for a, b in pairs], size),
            jnp.asarray([a for a, _ in pairs], jnp.int32),
            _padded(reached, len(pairs)),
        )


def _padded(rows: Sequence[Sequence[int]], nobody: int) -> Int32[Array, "N M"]:
    width = max(map(len, rows), default=0)
    return jnp.asarray([[*row, *[nobody] * (width - len(row))] for row in rows], jnp.int32).reshape(len(rows), width)


class _Rows(NamedTuple):
    """What the search is at, and what it never changes (the first two)."""

    values: Float[Array, "B L1 V"]
    rank: Int[Array, "L1 B"]
    domains: UInt32[Array, "L1 B"]
    stack: UInt32[Array, "B D L1"]
    depth: Int[Array, "B"]
    nodes: Int[Array, "B"]
    backtracks: Int[Array, "B"]
    status: Int[Array, "B"]


_BATCH = _Rows(0, 1, 1, 0, 0, 0, 0, 0)  # the axis of the batch


@partial(jax.tree_util.register_dataclass, data_fields=["links", "allowed", "branches"], meta_fields=[])
class DistinctProgram:
    """Groups of different letters; implements the ``Program`` contract. Groups, letters and budget are arrays."""

    def __init__(self, links: Links, allowed: Array, branches: Array):
        self.links, self.allowed, self.branches = links, allowed, branches

    @classmethod
    def make(
        cls, groups: Sequence[Sequence[int]], allowed: Bool[np.ndarray, "L V"], size: int, *, branches: int = BRANCHES
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
            raise InputError(f"all_different: {allowed.shape[1]} letters are more than {MAX_LETTERS}")
        bits = np.uint32(1) << np.arange(allowed.shape[1], dtype=np.uint32)
        masks = np.zeros(size, np.uint32)
        masks[: len(allowed)] = (allowed * bits).sum(axis=1, dtype=np.uint32)
        return cls(Links.make(groups, size), jnp.asarray(masks), jnp.int32(branches))

    def condition(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
        hint: Int[Array, "B L"],
    ) -> Conditioned:
        """See ``core.contracts.Program``; marginals are those of the propagated domains, the evidence an upper bound.

        Where no completion is found and ``hint`` is none, the evidence is minus infinity.
        """
        domains = self._domains(canvas, length)
        tight, wrong = _fixpoint(self.links, domains)
        marginals, evidence = _within(tight, log_proposal, canvas)
        values = _perturbed(keys, log_proposal)
        found = self._search(tight, wrong, values, marginals)
        known = _complete(hint, canvas, length, log_proposal.shape[-1])
        letters = self._host(found, tight, values, known)
        solved = letters[:, :1] >= 0
        letters = jnp.where(solved, letters, hint)
        dead = found.impossible | ~(solved[:, 0] | known)
        inside = jnp.arange(canvas.shape[1])[None] < length[:, None]
        return Conditioned(jnp.where(inside, letters, canvas), marginals, jnp.where(dead, -jnp.inf, evidence))

    def log_evidence(
        self, log_proposal: Float[Array, "B L V"], canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> Float[Array, "B"]:
        """Mass of the proposal within the propagated domains: an upper bound; minus infinity where they contradict."""
        tight, wrong = _fixpoint(self.links, self._domains(canvas, length))
        return jnp.where(wrong, -jnp.inf, _within(tight, log_proposal, canvas)[1])

    def search(
        self,
        keys: Key[Array, "B"],
        log_proposal: Float[Array, "B L V"],
        canvas: Int[Array, "B L"],
        length: Int[Array, "B"],
    ) -> Found:
        """The search on the device alone, for measurements."""
        tight, wrong = _fixpoint(self.links, self._domains(canvas, length))
        marginals, _ = _within(tight, log_proposal, canvas)
        return self._search(tight, wrong, _perturbed(keys, log_proposal), marginals)

    def propagate(
        self, canvas: Int[Array, "B L"], length: Int[Array, "B"]
    ) -> tuple[UInt32[Array, "B L"], Bool[Array, "B"]]:
        """Masks of the letters that propagation leaves, and whether it met a contradiction."""
        tight, wrong = _fixpoint(self.links, self._domains(canvas, length))
        return tight[:-1].T, wrong

    def _domains(self, canvas: Int[Array, "B L"], length: Int[Array, "B"]) -> UInt32[Array, "L1 B"]:
        """Masks before propagation; none beyond the length, and in the last row, which is nobody's."""
        letters = canvas.T
        given = _bit(jnp.clip(letters, 0, MAX_LETTERS - 1))
        masks = jnp.where(letters < self._mask(), given, _EVERY) & self.allowed[:, None]
        return masks
