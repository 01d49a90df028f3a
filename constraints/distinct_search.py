"""Propagation and depth-first search over groups of different letters, for every row of a batch at once.

The letters that a position may still have are the bits of a uint32 mask; the batch is the last axis. One round of
propagation:

* naked single: a position with one letter left takes it from the others of its groups;
* hidden single: in a *tight* group, one with as many letters left as positions, a letter with one place left stands
  there;
* confinement (pointing, claiming): a letter of a tight group whose places all lie in another group too is taken from
  the rest of that other group.

The search: the position with the fewest letters takes its best one; the alternative, everything as it was without that
letter, goes on a stack; a contradiction takes the last alternative back. Each pass of the loop is one round for every
row, whatever the row is at; when few rows are left they go on in a smaller batch.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, UInt32

DEPTH = 256
FEWER, FEWEST = 16, 8
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


def propagate(links: Links, domains: Domains) -> tuple[Domains, Bool[Array, "B"]]:
    """The domains that rounds of propagation leave, and which rows met a contradiction."""

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        masks, wrong, _ = carry
        after, contradicts = _round(links, domains._replace(masks=masks))
        return after, wrong | contradicts, jnp.any((after != masks) & ~(wrong | contradicts)[None])

    wrong = jnp.zeros(domains.masks.shape[1], bool)
    masks, wrong, _ = jax.lax.while_loop(lambda carry: carry[2], again, (domains.masks, wrong, jnp.array(True)))
    return domains._replace(masks=masks), wrong


def _round(links: Links, domains: Domains) -> tuple[UInt32[Array, "L1 B"], Bool[Array, "B"]]:
    """Each rule once, and whether the domains before or after contradict themselves."""
    masks, none = domains.masks, jnp.uint32(0)
    settled = count(masks) == 1
    placed = jnp.where(settled, masks, none)
    size = jnp.zeros((len(links.members), masks.shape[1]), jnp.int32)
    once = twice = used = clash = size.astype(jnp.uint32)
    for column in links.members.T:
        letters, letter = masks[column], placed[column]
        once, twice = once | letters, twice | once & letters
        used, clash = used | letter, clash | used & letter
        size += domains.present[column].astype(jnp.int32)
    left = count(once)
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
    return after, wrong | _any((count(forced) > 1) | (domains.present & (after == none)))


def search(
    links: Links,
    tight: Domains,
    wrong: Bool[Array, "B"],
    values: Float[Array, "B L V"],
    marginals: Float[Array, "B L V"],
    branches: Int[Array, ""],
) -> Found:
    """Depth first from the propagated domains; positions in no group take their best letter at once."""
    size, batch = len(tight.masks) - 1, len(values)
    free = len(links.members) == links.owners[:-1, :1].T if links.owners.shape[1] else jnp.ones((1, size), bool)
    best = jnp.argmax(jnp.where(marginals > 0, values, -jnp.inf), axis=-1)
    settled = jnp.where(free & tight.present[:-1].T, bit(best), tight.masks[:-1].T)
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
    letters = (count(rows.masks[:-1] - jnp.uint32(1))).T  # of a single bit: how many are below it
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
    letters_left = count(after)
    fixed = running & ~wrong & ~_any(after != rows.masks)
    undecided = _any(letters_left > 1)
    back = running & wrong & (rows.depth > 0)
    full = (rows.nodes >= branches) | (rows.depth >= rows.stack.shape[1])
    branch = fixed & undecided & ~full

    # The position with the fewest letters, among those the surest, takes its best letter; the stack what else there is.
    size = len(rows.masks) - 1
    key = jnp.where(letters_left > 1, letters_left * (size + 1) + rows.rank, jnp.iinfo(jnp.int32).max)
    place = jnp.arange(size + 1)[:, None]
    at = jnp.clip(jnp.max(jnp.where(key == jnp.min(key, axis=0)[None], place, 0), axis=0), 0, size - 1)
    values = jnp.take_along_axis(rows.values, at[:, None, None], axis=1)[:, 0]
    letters = jnp.take_along_axis(after, at[None], axis=0)[0]
    letter = bit(jnp.argmax(jnp.where(has(letters, values.shape[1]), values, -jnp.inf), axis=1))
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


def count(masks: UInt32[Array, "*S"]) -> Int[Array, "*S"]:
    """Letters in a mask."""
    return jax.lax.population_count(masks).astype(jnp.int32)


def bit(letter: Int[Array, "*S"]) -> UInt32[Array, "*S"]:
    """The mask of one letter."""
    return jnp.uint32(1) << letter.astype(jnp.uint32)


def has(masks: UInt32[Array, "*S"], vocab: int) -> Bool[Array, "*S V"]:
    """Which letters a mask has."""
    bits = jnp.expand_dims(bit(jnp.arange(vocab)), range(masks.ndim))
    return (masks[..., None] & bits) != jnp.uint32(0)


def join(letters: Bool[Array, "B L V"]) -> UInt32[Array, "B L"]:
    """The mask of some letters."""
    bits = jnp.where(letters, bit(jnp.arange(letters.shape[-1]))[None, None], jnp.uint32(0))
    return jax.lax.reduce(bits, jnp.uint32(0), jax.lax.bitwise_or, (2,))
