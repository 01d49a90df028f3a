"""Likelihoods of given sequences under a masked-diffusion model: by a random number of masked letters, or by a path.

The *bound* in *mask-count form*: the number m of masked letters is uniform on 1..L and their places are a random subset
of that size; then ``L / m`` times the summed cross-entropy at the masked letters has the expectation of the
continuous-time bound of the absorbing process (Hoogeboom et al. 2022, any-order autoregression; Ou et al. 2024), with
less variance than drawing a mask rate and masking each letter independently. A sample costs one row of one call.

A *path* reveals the letters in one order and adds up the log-probability of each given those before it. For a fixed
order the chain rule makes this a law over sequences that sums to one, whatever the model. Its mean over random orders
is minus the same bound, and its spread over orders says how far the model's conditionals disagree. A path costs one
row per letter.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError
from seqdiff.process.losses import masked_cross_entropy
from seqdiff.process.readout import (
    TOKENS_PER_BATCH,
    Progress,
    ask,
    batch_rows,
    call_rows,
    pad,
    padded_size,
    predict,
)


class MaskedNats(NamedTuple):
    """One masked pass over a batch.

    Attributes:
        bound: estimate of the bound of each sequence in nats [B].
        nats: cross-entropy summed over masked letters [B].
        masked: number of masked letters [B].
    """

    bound: Float[Array, "B"]
    nats: Float[Array, "B"]
    masked: Int[Array, "B"]


class Perplexity(NamedTuple):
    """Likelihood of a set of sequences per residue.

    Attributes:
        nats: bound in nats per residue (total over total).
        nats_error: its standard error over sequences (ratio estimator).
        perplexity: ``exp(nats)``.
        perplexity_error: its standard error (delta method).
    """

    nats: float
    nats_error: float
    perplexity: float
    perplexity_error: float


def masked_nats(
    denoiser: Denoiser,
    keys: Key[Array, "B"],
    tokens: Int[Array, "B L"],
    length: Int[Array, "B"],
    stratum: Float[Array, "B"],
    strata: int,
    *,
    mask: int,
) -> MaskedNats:
    """One sample of the bound of each sequence.

    Args:
        denoiser: the model.
        keys: one per row; a row's result depends on its own key, tokens and length only.
        tokens: letter ids, anything beyond the length.
        length: of each row, at least 1.
        stratum: of each row; its share of masked letters is drawn from ``[stratum, stratum + 1) / strata``.
        strata: number of strata; averaging over all of them covers 1..L evenly.
        mask: id of MASK.
    """
    size = tokens.shape[1]
    residues = length.astype(jnp.float32)
    rate_keys, place_keys = (jax.vmap(partial(jax.random.fold_in, data=part))(keys) for part in (0, 1))
    share = (stratum + jax.vmap(jax.random.uniform)(rate_keys)) / strata
    count = jnp.clip(jnp.ceil(share * residues).astype(jnp.int32), 1, length)
    valid = jnp.arange(size)[None, :] < length[:, None]
    noise = jax.vmap(partial(jax.random.uniform, shape=(size,)))(place_keys)
    rank = jnp.argsort(jnp.argsort(jnp.where(valid, noise, jnp.inf), axis=1), axis=1)
    masked = valid & (rank < count[:, None])
    rate = count.astype(jnp.float32) / residues
    logits = predict(denoiser, jnp.where(masked, mask, tokens), valid, rate, letters=mask)
    nats = jnp.sum(masked_cross_entropy(logits, tokens, masked), axis=1)
    return MaskedNats(nats / rate, nats, count)


_masked_nats = jax.jit(masked_nats, static_argnames=("mask", "strata"))


class BoundSamples(NamedTuple):
    """Samples of the bound of many sequences.

    Attributes:
        bound: nats of each sample [n, samples].
        nats: cross-entropy summed over the masked letters of each sample [n, samples].
        masked: masked letters of each sample [n, samples].
        length: residues of each sequence [n].
    """

    bound: np.ndarray
    nats: np.ndarray
    masked: np.ndarray
    length: np.ndarray


def sample_bounds(
    denoiser: Denoiser,
    sequences: Sequence[np.ndarray],
    *,
    mask: int,
    seed: int = 0,
    samples: int = 4,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> Iterator[tuple[list[int], BoundSamples]]:
    """Sample the bound of each sequence; yields (indices, samples) per batch of sequences of similar length.

    The result of sequence i depends on (seed, i) and the sequence only. Rates are stratified over ``samples``.
    """
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    root = jax.random.key(seed)
    first = 0
    while first < len(order):
        size = padded_size(len(sequences[order[first]]))
        most = batch_rows(size, tokens_per_batch)
        chosen = [i for i in order[first : first + most] if len(sequences[i]) <= size]
        first += len(chosen)
        # Samples share calls where sequences are few; a full batch of sequences is one sample per call.
        pairs = [(i, s) for s in range(samples) for i in chosen]
        rows = call_rows(len(pairs), size, tokens_per_batch)
        parts = []
        for start in range(0, len(pairs), rows):
            part = pairs[start : start + rows]
            number, sample = np.array(part + part[-1:] * (rows - len(part)), np.int32).T
            tokens = pad([sequences[i] for i in number], size, mask)
            length = np.array([len(sequences[i]) for i in number], np.int32)
            keys = _sample_keys(root, number, sample)
            found = _masked_nats(denoiser, keys, tokens, length, sample.astype(np.float32), samples, mask=mask)
            parts.append((found, len(part)))
        columns = zip(*[[column[:kept] for column in jax.device_get(found)] for found, kept in parts], strict=True)
        shaped = [np.concatenate(column).reshape(samples, len(chosen)).T for column in columns]
        yield chosen, BoundSamples(*shaped, length=np.array([len(sequences[i]) for i in chosen]))


@jax.jit
def _sample_keys(root: Key[Array, ""], number: Int[Array, "B"], sample: Int[Array, "B"]) -> Key[Array, "B"]:
    """The key of each sample of each sequence."""
    return jax.vmap(lambda i, s: jax.random.fold_in(jax.random.fold_in(root, i), s))(number, sample)


def path_log_probability(
    denoiser: Denoiser,
    sequences: Sequence[np.ndarray],
    *,
    mask: int,
    seed: int = 0,
    orders: int = 1,
    given: Sequence[np.ndarray] | None = None,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Float[np.ndarray, "n orders"]:
    """``sum_k log p(x_o(k) | x_o(1..k-1))`` in nats, with everything from o(k) on masked, for each order o.

    Order j of sequence i depends on (seed, i, j) and the sequence's length only. The mean over orders is an unbiased
    estimate of minus the bound (Uria et al. 2014; Hoogeboom et al. 2022).

    Args:
        denoiser: the model.
        sequences: letter ids of each sequence.
        mask: id of MASK.
        seed: of the orders.
        orders: random orders per sequence.
        given: the orders of each sequence instead, 0-based positions [orders, length], the first revealed first.
        tokens_per_batch: rows times padded length of a call.
        progress: called after each call with the number of letters scored.

    Raises:
        InputError: a given order is not a permutation of its sequence's positions.
    """
    count = np.array([len(sequence) for sequence in sequences], int)
    if given is None:
        ranks = _random_paths(seed, orders, count)
    else:
        ranks = _given_paths(given, count)
        orders = len(ranks[0]) if ranks else orders
    # Questions run over letters within orders within sequences.
    owner = np.repeat(np.arange(len(count)), count * orders)
    if not len(owner):
        return np.zeros((len(count), orders))
    order = np.concatenate([np.repeat(np.arange(orders), length) for length in count])
    step = np.concatenate([np.tile(np.arange(length), orders) for length in count])
    places = np.concatenate([np.argsort(rank, axis=1).ravel() for rank in ranks])[:, None]

    def hide(questions: np.ndarray, size: int) -> np.ndarray:
        rank = pad([ranks[int(owner[q])][order[q]] for q in questions], size, -1)
        return rank >= step[questions, None]

    total = np.zeros((len(count), orders))
    answers = ask(
        denoiser, sequences, owner, places, hide, mask=mask, tokens_per_batch=tokens_per_batch, progress=progress
    )
    for questions, log_p in answers:
        letters = [sequences[int(owner[q])][places[q, 0]] for q in questions]
        np.add.at(total, (owner[questions], order[questions]), log_p[np.arange(len(questions)), 0, letters])
    return total


def _random_paths(seed: int, orders: int, count: np.ndarray) -> list[Int[np.ndarray, "orders L"]]:
    """Rank of each position in each random order of each sequence."""
    ranks = [np.zeros((orders, 0), int)] * len(count)
    sizes = np.array([padded_size(length) for length in count])
    for size in np.unique(sizes):
        group = np.flatnonzero(sizes == size)
        noise = np.array(_path_noise(jax.random.key(seed), group.astype(np.int32), orders, int(size)))
        noise[np.broadcast_to((np.arange(size) >= count[group, None])[:, None], noise.shape)] = np.inf
        rank = np.argsort(np.argsort(noise, axis=-1, kind="stable"), axis=-1)
        for i, row in zip(group, rank, strict=True):
            ranks[i] = row[:, : count[i]]
    return ranks


@partial(jax.jit, static_argnames=("orders", "size"))
def _path_noise(root: Key[Array, ""], number: Int[Array, "n"], orders: int, size: int) -> Float[Array, "n orders L"]:
    """Uniform noise whose ranks are the orders; a number depends on its sequence, order and position only."""

    def draw(sequence: Int[Array, ""], order: Int[Array, ""]) -> Float[Array, "L"]:
        return jax.random.uniform(jax.random.fold_in(jax.random.fold_in(root, sequence), order), (size,))

    return jax.vmap(lambda sequence: jax.vmap(partial(draw, sequence))(jnp.arange(orders)))(number)


def _given_paths(given: Sequence[np.ndarray], count: np.ndarray) -> list[Int[np.ndarray, "orders L"]]:
    """Rank of each position in each given order."""
    paths = [np.atleast_2d(np.asarray(path)) for path in given]
    if len(paths) != len(count) or len({len(path) for path in paths}) > 1:
        raise InputError("give every sequence the same number of orders")
    for i, (path, length) in enumerate(zip(paths, count, strict=True)):
        if path.shape[1] != length or (np.sort(path, axis=1) != np.arange(length)).any():
            raise InputError(f"sequence {i + 1}: an order must name each of the positions 0..{length - 1} once")
    return [np.argsort(path, axis=1) for path in paths]


def gather_bounds(parts: Sequence[tuple[list[int], BoundSamples]]) -> BoundSamples:
    """The batches of :func:`sample_bounds` in the order of the sequences."""
    indices = np.concatenate([np.array(chosen) for chosen, _ in parts])
    back = np.argsort(indices)
    return BoundSamples(*(np.concatenate(column)[back] for column in zip(*(part for _, part in parts), strict=True)))


def perplexity(found: BoundSamples) -> Perplexity:
    """Bound per residue over a set of sequences with its standard error over sequences."""
    nats, length = found.bound.mean(axis=1, dtype=np.float64), found.length.astype(np.float64)
    ratio = nats.sum() / length.sum()
    n = len(length)
    residual = nats - ratio * length
    error = math.sqrt((residual**2).sum() / max(n - 1, 1) * n) / length.sum()
    return Perplexity(ratio, error, math.exp(ratio), math.exp(ratio) * error)


def by_mask_rate(found: BoundSamples, buckets: int = 10) -> list[tuple[float, float, float]]:
    """(lowest rate, highest rate, mean nats per masked letter) for equal buckets of the mask rate; nan where empty."""
    rate = found.masked / found.length[:, None]
    bucket = np.minimum((rate * buckets).astype(int), buckets - 1)
    rows = []
    for b in range(buckets):
        here = bucket == b
        masked = found.masked[here].sum()
        mean = float(found.nats[here].sum(dtype=np.float64) / masked) if masked else math.nan
        rows.append((b / buckets, (b + 1) / buckets, mean))
    return rows
