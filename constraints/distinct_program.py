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
DEPTH = 256
FEWER, FEWEST = 8, 4
RUNNING, SOLVED, IMPOSSIBLE, SPENT = 0, 1, 2, 3


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


class Domains(NamedTuple):
    """Letters that are left, with a last row for nobody.

    Attributes:
        masks: uint32 [L + 1, B]; 0 where there is no such position.
        present: whether the row has the position, bool [L + 1, B].
    """

    masks: UInt32[Array, "L1 B"]
    present: Bool[Array, "L1 B"]


class _Rows(NamedTuple):
    """What the search is at; it never changes the first three."""

    present: Bool[Array, "L1 B"]
    values: Float[Array, "B L V"]
    rank: Int[Array, "L1 B"]
    masks: UInt32[Array, "L1 B"]
    stack: UInt32[Array, "B D L1"]
    depth: Int[Array, "B"]
    nodes: Int[Array, "B"]
    backtracks: Int[Array, "B"]
    status: Int[Array, "B"]


_BATCH_AXES = _Rows(1, 0, 1, 1, 0, 0, 0, 0, 0)  # pyright: ignore[reportArgumentType]


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
        found = _search(self.links, tight, wrong, values, marginals, self.branches)
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
        return _search(self.links, tight, wrong, _perturbed(keys, log_proposal), marginals, self.branches)

    def domains(self, canvas: Int[Array, "B L"], length: Int[Array, "B"]) -> Domains:
        """The letters that are allowed where open and the one that stands there elsewhere, before propagation."""
        size, vocab = self.allowed.shape
        tokens = canvas[..., None]
        fits = self.allowed[None] & ((tokens >= vocab) | (tokens == jnp.arange(vocab, dtype=canvas.dtype)))
        present = jnp.arange(size)[None] < length[:, None]
        masks = jnp.where(present, _masks(fits), jnp.uint32(0))
        return Domains(jnp.pad(masks.T, ((0, 1), (0, 0))), jnp.pad(present.T, ((0, 1), (0, 0))))


def propagate(links: Links, domains: Domains) -> tuple[Domains, Bool[Array, "B"]]:
    """The domains that rounds of propagation leave, and which rows met a contradiction."""

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        masks, wrong, _ = carry
        after, contradicts = _round(links, domains._replace(masks=masks))
        return after, wrong | contradicts, jnp.any((after != masks) & ~(wrong | contradicts))

    wrong = jnp.zeros(domains.masks.shape[1], bool)
    masks, wrong, _ = jax.lax.while_loop(lambda carry: carry[2], again, (domains.masks, wrong, jnp.array(True)))
    return domains._replace(masks=masks), wrong


def _round(links: Links, domains: Domains) -> tuple[UInt32[Array, "L1 B"], Bool[Array, "B"]]:
    """Each rule once, and whether the domains before or after contradict themselves."""
    masks, none = domains.masks, jnp.uint32(0)
    settled = _count(masks) == 1
    placed = jnp.where(settled, masks, none)
    size = jnp.zeros((len(links.members), masks.shape[1]), jnp.int32)
    once = twice = used = clash = size.astype(jnp.uint32)
    for column in links.members.T:
        letters, letter = masks[column], placed[column]
        once, twice = once | letters, twice | once & letters
        used, clash = used | letter, clash | used & letter
        size += domains.present[column].astype(jnp.int32)
    left = _count(once)
    tight = left == size
    hidden = jnp.where(tight, once & ~twice, none)
    after = jnp.where(settled, masks, masks & ~_union(_with_nobody(used), links.owners))
    if len(links.shared):
        confined = _union(masks, links.shared) & ~_union(masks, links.rest)
        confined = jnp.where(tight[links.first], confined, none)
        after &= ~_union(_with_nobody(confined), links.reached)
    forced = after & _union(_with_nobody(hidden), links.owners)
    after = jnp.where(forced != none, forced, after)
    wrong = _any((clash != none) | (left < size))
    return after, wrong | _any((_count(forced) > 1) | (domains.present & (after == none)))


def _search(
    links: Links,
    tight: Domains,
    wrong: Bool[Array, "B"],
    values: Float[Array, "B L V"],
    marginals: Float[Array, "B L V"],
    branches: Int[Array, ""],
) -> Found:
    """Depth first from the propagated domains; positions in no group take their best letter at once."""
    size, batch = len(tight.masks) - 1, len(values)
    free = links.owners[:-1, :1].T == len(links.members) if links.owners.shape[1] else jnp.ones((1, size), bool)
    best = jnp.argmax(jnp.where(marginals > 0, values, -jnp.inf), axis=-1)
    settled = jnp.where(free & tight.present[:-1].T, _bit(best), tight.masks[:-1].T)
    surest_first = jnp.argsort(jnp.argsort(-jnp.max(marginals, axis=-1), axis=1), axis=1)
    zero = jnp.zeros((batch,), jnp.int32)
    rows = _Rows(
        present=tight.present,
        values=values,
        rank=jnp.pad(surest_first.astype(jnp.int32).T, ((0, 1), (0, 0))),
        masks=jnp.pad(settled.T, ((0, 1), (0, 0))),
        stack=jnp.zeros((batch, min(size, DEPTH), size + 1), jnp.uint32),
        depth=zero,
        nodes=zero,
        backtracks=zero,
        status=jnp.where(wrong, IMPOSSIBLE, RUNNING).astype(jnp.int32),
    )
    rows = _run(links, rows, branches)
    letters = (_count(rows.masks[:-1] - jnp.uint32(1))).T  # of a single bit: how many are below it
    return Found(letters, rows.nodes, rows.backtracks, rows.status == SOLVED, rows.status == IMPOSSIBLE)


def _run(links: Links, rows: _Rows, branches: Int[Array, ""]) -> _Rows:
    """Search until every row has ended; the last few in a batch of their own, so that the others are not dragged on."""
    few = len(rows.status) // FEWER
    few = few if few >= FEWEST else 0
    rows = jax.lax.while_loop(
        lambda rows: jnp.sum(rows.status == RUNNING) > few, lambda rows: _pass(links, rows, branches), rows
    )
    if not few:
        return rows
    chosen = jnp.argsort(rows.status != RUNNING, stable=True)[:few]
    part = _Rows(*(jnp.take(leaf, chosen, axis) for leaf, axis in zip(rows, _BATCH_AXES, strict=True)))
    part = _run(links, part, branches)
    merged = [
        whole.at[chosen].set(some) if axis == 0 else whole.at[:, chosen].set(some)
        for whole, some, axis in zip(rows, part, _BATCH_AXES, strict=True)
    ]
    return _Rows(*merged)


def _pass(links: Links, rows: _Rows, branches: Int[Array, ""]) -> _Rows:
    """One round for every row, and then whatever it calls for: take a branch, take one back, end."""
    running = rows.status == RUNNING
    after, wrong = _round(links, Domains(rows.masks, rows.present))
    count = _count(after)
    fixed = running & ~wrong & ~_any(after != rows.masks)
    undecided = _any(count > 1)
    back = running & wrong & (rows.depth > 0)
    full = (rows.nodes >= branches) | (rows.depth >= rows.stack.shape[1])
    branch = fixed & undecided & ~full

    # The position with the fewest letters, among those the surest, takes its best letter; the stack what else there is.
    size = len(rows.masks) - 1
    key = jnp.where(count > 1, count * (size + 1) + rows.rank, jnp.iinfo(jnp.int32).max)
    place = jnp.arange(size + 1)[:, None]
    at = jnp.clip(jnp.max(jnp.where(key == jnp.min(key, axis=0)[None], place, 0), axis=0), 0, size - 1)
    values = jnp.take_along_axis(rows.values, at[:, None, None], axis=1)[:, 0]
    letters = jnp.take_along_axis(after, at[None], axis=0)[0]
    letter = _bit(jnp.argmax(jnp.where(_has(letters, values.shape[1]), values, -jnp.inf), axis=1))
    here = (place == at[None]) & branch[None]
    other = jnp.where(here, after & ~letter[None], after)
    write, read = jax.vmap(jax.lax.dynamic_update_index_in_dim, (0, 0, 0, None)), jax.vmap(jax.lax.dynamic_index_in_dim)
    stack = write(rows.stack, other.T, rows.depth, 0)
    last = read(stack, jnp.maximum(rows.depth - 1, 0))[:, 0].T

    after = jnp.where(back[None], last, jnp.where(here, letter[None], after))
    status = jnp.where(fixed & ~undecided, SOLVED, rows.status)
    status = jnp.where(running & wrong & ~back, IMPOSSIBLE, status)
    status = jnp.where(fixed & undecided & full, SPENT, status)
    deeper, up = branch.astype(jnp.int32), back.astype(jnp.int32)
    return rows._replace(
        masks=jnp.where(running[None], after, rows.masks),
        stack=stack,
        depth=rows.depth + deeper - up,
        nodes=rows.nodes + deeper,
        backtracks=rows.backtracks + up,
        status=status,
    )


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
    inside = jnp.where(_has(tight.masks[:-1].T, vocab), log_proposal.astype(jnp.float32), -jnp.inf)
    mass = jax.nn.logsumexp(inside, axis=-1)
    open = tight.present[:-1].T & (canvas >= vocab)
    marginals = jnp.exp(inside - jnp.where(jnp.isfinite(mass), mass, 0.0)[..., None])
    return marginals, jnp.sum(jnp.where(open, mass, 0.0), axis=1)


def _perturbed(keys: Key[Array, "B"], log_proposal: Float[Array, "B L V"]) -> Float[Array, "B L V"]:
    shape = log_proposal.shape[1:]
    noise = jax.vmap(lambda key: jax.random.gumbel(jax.random.fold_in(key, 1), shape, mode="high"))(keys)
    return log_proposal.astype(jnp.float32) + noise


def _union(masks: UInt32[Array, "N B"], index: Int[Array, "K W"]) -> UInt32[Array, "K B"]:
    """Or over each row of ``index``, column by column: one contiguous gather each, ten times as fast as a reduction."""
    found = jnp.zeros((len(index), masks.shape[1]), jnp.uint32)
    for column in index.T:
        found |= masks[column]
    return found


def _with_nobody(masks: UInt32[Array, "N B"]) -> UInt32[Array, "N1 B"]:
    return jnp.pad(masks, ((0, 1), (0, 0)))


def _any(flags: Bool[Array, "N B"]) -> Bool[Array, "B"]:
    """Any over the first axis; as a product, because a reduction would compute everything before it over again."""
    return (jnp.ones((1, len(flags)), jnp.float32) @ flags.astype(jnp.float32))[0] > 0.5


def _count(masks: UInt32[Array, "*S"]) -> Int[Array, "*S"]:
    return jax.lax.population_count(masks).astype(jnp.int32)


def _bit(letter: Int[Array, "*S"]) -> UInt32[Array, "*S"]:
    return jnp.uint32(1) << letter.astype(jnp.uint32)


def _has(masks: UInt32[Array, "*S"], vocab: int) -> Bool[Array, "*S V"]:
    """Which letters a mask has."""
    bits = jnp.expand_dims(_bit(jnp.arange(vocab)), range(masks.ndim))
    return (masks[..., None] & bits) != jnp.uint32(0)


def _masks(has: Bool[Array, "B L V"]) -> UInt32[Array, "B L"]:
    bits = jnp.where(has, _bit(jnp.arange(has.shape[-1]))[None, None], jnp.uint32(0))
    return jax.lax.reduce(bits, jnp.uint32(0), jax.lax.bitwise_or, (bits.ndim - 1,))
