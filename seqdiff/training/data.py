"""Batches by index: batch ``n`` is a function of (corpus, seed, ``n``) alone, so the step number is the whole position.

A sequence, framed by BEGIN and END where the network reads a frame, is a piece; one that is longer than a row is cut
into pieces whose number grows with its length, so that every residue is seen about once an epoch. Pieces are numbered
shortest first. A layout says which pieces share a row:

* ``pad``: one piece per row;
* ``bucket``: the same, but short pieces go to batches of shorter and more rows;
* ``pack``: as many pieces as fit; :func:`segment_ids` tells the network where one ends.

Each epoch permutes all pieces (grain's index shuffle, computed and not stored) and every piece occurs in it once.
Batches are those of the whole run: each process makes its own block of rows, so that the number of processes, worker
threads or restarts changes nothing.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, missing_extra, unknown_key
from seqdiff.training.packing import pack

Layout = Literal["pad", "bucket", "pack"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

_STORED = 1 << 14  # the largest permutation that is kept in memory


class Source(Protocol):
    """Sequences in order of their length.

    Attributes:
        counts: number of sequences of each length, int64 [longest + 1].
    """

    @property
    def counts(self) -> Int[np.ndarray, "lengths"]: ...

    def ranked(self, rank: int) -> Int[np.ndarray, "length"]:
        """Letter ids of the sequence at ``rank``, the shortest first."""
        ...


class InMemory:
    """A source of sequences that are in memory."""

    def __init__(self, sequences: Sequence[Int[np.ndarray, "length"]]):
        sizes = np.array([len(sequence) for sequence in sequences], np.int64)
        self._sequences, self._order = sequences, np.argsort(sizes, kind="stable")
        self.counts = np.bincount(sizes)

    def ranked(self, rank: int) -> Int[np.ndarray, "length"]:
        return self._sequences[self._order[rank]]


def segment_ids(tokens: Int[Array, "batch length"], begin: int) -> Int[Array, "batch length"]:
    """The number of each token's sequence within its row, from the BEGIN tokens; padding counts to the last one."""
    return jnp.cumsum((tokens == begin).astype(jnp.int32), axis=1)


class TokenBatches:
    """Endless batches by index; made by :func:`make_batches`.

    ``batches[n]`` is int32 [rows, length]: the rows of batch ``n`` that belong to this process. Where the pieces of a
    bucket do not fill its last batch, rows of PAD do.

    Attributes:
        shapes: (rows, length) of every kind of batch in this process.
        per_epoch: batches per epoch.
    """

    def __init__(
        self,
        source: Source,
        pieces: "_Pieces",
        kinds: Sequence["_Kind"],
        alphabet: Alphabet,
        seed: int,
        shard: tuple[int, int],
    ):
        self._source, self._pieces, self._kinds = source, pieces, kinds
        self._begin, self._end, self._pad = alphabet.begin, alphabet.end, alphabet.pad
        self._seed, self._shard = seed, shard
        self._ends = np.cumsum([-(-len(kind.rows) // kind.batch) for kind in kinds])
        self.shapes = tuple((kind.batch // shard[1], kind.length) for kind in kinds)
        self.per_epoch = float(self._ends[-1]) if len(kinds) > 1 else len(kinds[0].rows) / kinds[0].batch

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: int) -> Int[np.ndarray, "rows length"]:
        if index < 0:
            raise IndexError(f"batch {index}")
        kind, first, last = self._place(index)
        process, processes = self._shard
        share = kind.batch // processes
        tokens = np.full((share, kind.length), self._pad, np.int32)
        for row, place in zip(tokens, range(first + process * share, last), strict=False):
            epoch, number = divmod(place, len(kind.rows))
            at = 0
            for piece in kind.rows.pieces(number, self._seed, epoch):
                at = self._write(row, at, piece, epoch)
        return tokens

    def stream(self, start: int = 0, stop: int = sys.maxsize, *, threads: int = 2, ahead: int = 8) -> Iterable[Any]:
        """Batches from ``start`` to before ``stop`` in order, read ahead by threads: a grain ``IterDataset``.

        Args:
            start: the first batch, such as the number of steps done.
            stop: the one after the last.
            threads: that read; 0 for none.
            ahead: batches that wait to be used.
        """
        import grain

        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=ahead if threads else 0)
        return grain.MapDataset.source(self).slice(slice(start, stop)).to_iter_dataset(options)

    def _place(self, index: int) -> tuple["_Kind", int, int]:
        """The kind of a batch, and the numbers of its first row and of the row after its last, over all epochs."""
        if len(self._kinds) == 1:
            kind = self._kinds[0]
            return kind, index * kind.batch, (index + 1) * kind.batch
        total = int(self._ends[-1])
        epoch, number = divmod(index, total)
        number = _shuffled(number, total, self._seed, epoch, 0)
        which = int(np.searchsorted(self._ends, number, side="right"))
        kind = self._kinds[which]
        first = (number - (int(self._ends[which - 1]) if which else 0)) * kind.batch
        start = epoch * len(kind.rows)
        return kind, start + first, start + min(first + kind.batch, len(kind.rows))

    def _write(self, row: Int[np.ndarray, "length"], at: int, piece: int, epoch: int) -> int:
        """Write a piece into a row from place ``at`` on; returns the place after it."""
        rank, window, windows = self._pieces.locate(piece)
        tokens = self._source.ranked(rank)
        if self._pieces.frame:
            tokens = np.concatenate([(self._begin,), tokens, (self._end,)])
        if windows > 1:
            # The windows' places are even, each moved by chance within its share of the sequence.
            jitter = np.random.default_rng((self._seed, epoch, rank, window)).random()
            start = int((window + jitter) / windows * (len(tokens) - len(row) + 1))
            tokens = tokens[start : start + len(row)]
        row[at : at + len(tokens)] = tokens
        return at + len(tokens)


def make_batches(
    source: Source,
    alphabet: Alphabet,
    *,
    length: int,
    batch: int,
    seed: int,
    frame: bool = True,
    layout: Layout = "pad",
    buckets: Sequence[int] = (),
    process: int | None = None,
    processes: int | None = None,
) -> TokenBatches:
    """Endless batches of a corpus, by index.

    Args:
        source: of the sequences.
        alphabet: gives the frame and padding ids.
        length: tokens per row, frame tokens included; of the longest rows.
        batch: rows per batch of that length, over all processes. Rows of a bucket of length L are ``length // L``
            times as many, so that batches have about the same number of tokens.
        seed: of the order and of the places where long sequences are cut, below 2**32.
        frame: whether the network reads frame tokens; ``pack`` needs them.
        layout: which pieces share a row; see the module.
        buckets: shorter lengths of ``bucket``, in tokens.
        process: number of this process; JAX's by default.
        processes: how many there are; JAX's by default.

    Raises:
        InputError: no sequences, or a value that cannot be used.
    """
    shard = (
        jax.process_index() if process is None else process,
        jax.process_count() if processes is None else processes,
    )
    _check(source, length, batch, seed, frame, layout, buckets, shard[1])
    pieces = _Pieces(source.counts, length, frame)
    if layout == "pack":
        kinds = [_Kind(_PackedRows(pieces.histogram, length), batch, length)]
    else:
        lengths = [*sorted(set(buckets)), length]
        ends = np.cumsum(pieces.histogram)[lengths]
        starts = [0, *ends[:-1]]
        kinds = [
            _Kind(_SingleRows(int(start), int(end), size), batch * (length // size), size)
            for start, end, size in zip(starts, ends, lengths, strict=True)
            if end > start
        ]
    return TokenBatches(source, pieces, kinds, alphabet, seed, shard)


def _check(
    source: Source,
    length: int,
    batch: int,
    seed: int,
    frame: bool,
    layout: str,
    buckets: Sequence[int],
    processes: int,
) -> None:
    try:
        import grain  # noqa: F401
    except ImportError:
        raise missing_extra("grain", "train") from None
    if layout not in LAYOUTS:
        raise unknown_key("layout", layout, LAYOUTS)
    if not source.counts.sum():
        raise InputError("no training sequences")
    if length < 1 or batch < 1 or not 0 <= seed < 2**32:
        raise InputError(f"length={length}, batch={batch}, seed={seed}: at least 1, 1 and 0 (below 2**32)")
    if batch % processes:
        raise InputError(f"batch={batch} rows do not divide among {processes} processes; choose a multiple")
    if layout == "pack" and not frame:
        raise InputError("layout=pack needs a network that reads frame tokens: they say where sequences begin")
    if (layout == "bucket") != bool(buckets):
        raise InputError(f"layout={layout} with buckets={list(buckets)}: layout=bucket needs lengths, others have none")
    if bad := [size for size in buckets if not 0 < size < length]:
        raise InputError(f"buckets: {bad[0]} is not between 1 and length={length}, which is the last bucket")


class _Pieces:
    """Sequences as pieces of at most ``length`` tokens, numbered from the shortest sequence on.

    Attributes:
        frame: whether a piece has frame tokens.
        histogram: number of pieces of each size in tokens, int64 [length + 1].
    """

    def __init__(self, counts: Int[np.ndarray, "lengths"], length: int, frame: bool):
        sizes = np.arange(len(counts)) + (2 if frame else 0)
        counts = np.where(sizes > 0, counts, 0)
        self.frame, self._windows = frame, np.maximum(-(-sizes // length), 1)
        self._ranks = np.cumsum(counts) - counts
        self._ends = np.cumsum(counts * self._windows)
        self.histogram = np.zeros(length + 1, np.int64)
        np.add.at(self.histogram, np.minimum(sizes, length), counts * self._windows)

    def locate(self, piece: int) -> tuple[int, int, int]:
        """The rank of the piece's sequence, which of its windows it is, and how many it has."""
        size = int(np.searchsorted(self._ends, piece, side="right"))
        windows = int(self._windows[size])
        number, window = divmod(piece - (int(self._ends[size - 1]) if size else 0), windows)
        return int(self._ranks[size]) + number, window, windows


class _Rows(Protocol):
    """The rows of an epoch in shuffled order."""

    def __len__(self) -> int: ...

    def pieces(self, row: int, seed: int, epoch: int) -> Iterable[int]:
        """The pieces of a row."""
        ...


class _Kind(NamedTuple):
    """Batches of one shape: their rows, how many go into a batch of all processes, and tokens per row."""

    rows: _Rows
    batch: int
    length: int


class _SingleRows:
    """A row for each piece of a range; ``stream`` keeps the orders of several ranges apart."""

    def __init__(self, start: int, end: int, stream: int):
        self._start, self._total, self._stream = start, end - start, stream

    def __len__(self) -> int:
        return self._total

    def pieces(self, row: int, seed: int, epoch: int) -> Iterable[int]:
        return (self._start + _shuffled(row, self._total, seed, epoch, self._stream),)


class _PackedRows:
    """Rows of several pieces. Which sizes meet is the same in each epoch; the rows and who has which place change."""

    def __init__(self, histogram: Int[np.ndarray, "sizes"], length: int):
        self._counts = histogram.tolist()
        self._firsts = (np.cumsum(histogram) - histogram).tolist()
        patterns = pack(histogram, length)
        self._ends = np.cumsum([pattern.rows for pattern in patterns])
        used = [0] * (length + 1)
        self._slots: list[list[tuple[int, int]]] = []
        for rows, sizes in patterns:
            slots = []
            for size in sizes:
                slots.append((size, used[size]))
                used[size] += rows
            self._slots.append(slots)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def pieces(self, row: int, seed: int, epoch: int) -> Iterable[int]:
        row = _shuffled(row, len(self), seed, epoch, 0)
        pattern = int(np.searchsorted(self._ends, row, side="right"))
        row -= int(self._ends[pattern - 1]) if pattern else 0
        for size, first in self._slots[pattern]:
            yield self._firsts[size] + _shuffled(first + row, self._counts[size], seed, epoch, size)


def _shuffled(index: int, total: int, *key: int) -> int:
    """Where a permutation of ``total`` items that is drawn by ``key`` sends ``index``.

    Large permutations are computed place by place, which for small ones takes grain far longer than to store them.
    """
    if total <= _STORED:
        return int(_permutation(total, key)[index])
    from grain.experimental import index_shuffle

    return index_shuffle(index, max_index=total - 1, seed=_seed(key), rounds=4)


@lru_cache(maxsize=2048)
def _permutation(total: int, key: tuple[int, ...]) -> Int[np.ndarray, "total"]:
    return np.random.default_rng(key).permutation(total).astype(np.uint16)


@lru_cache(maxsize=2048)
def _seed(key: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1)[0])
