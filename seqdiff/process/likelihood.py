"""Likelihoods of given sequences under a masked-diffusion model.

The bound in *mask-count form*: the number m of masked letters is uniform on 1..L and their places are a random subset
of that size; then ``L / m`` times the summed cross-entropy at the masked letters has the expectation of the
continuous-time bound of the absorbing process (Hoogeboom et al. 2022, any-order autoregression; Ou et al. 2024), with
less variance than drawing a mask rate and masking each letter independently.

Functions take canvases padded to one size and are meant to be jitted; ``batches`` of sequences are made by the caller.
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
from seqdiff.process.losses import masked_cross_entropy

SIZE_STEP = 64


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
    stratum: Float[Array, ""] | float,
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
        stratum: the share of masked letters is drawn from ``[stratum, stratum + 1) / strata``.
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
    logits = denoiser(jnp.where(masked, mask, tokens), valid, rate)
    nats = jnp.sum(masked_cross_entropy(logits, tokens, masked), axis=1)
    return MaskedNats(nats / rate, nats, count)


def masked_each(
    denoiser: Denoiser,
    tokens: Int[Array, "L"],
    length: Int[Array, ""],
    places: Int[Array, "B"],
    *,
    mask: int,
) -> Float[Array, "B V"]:
    """Log-probabilities of every letter at each of ``places``, each masked alone in a copy of the sequence."""
    size = tokens.shape[0]
    position = jnp.arange(size)[None, :]
    canvas = jnp.where(position == places[:, None], mask, tokens[None, :])
    valid = jnp.broadcast_to(position < length, canvas.shape)
    logits = denoiser(canvas, valid, jnp.broadcast_to(1.0 / length.astype(jnp.float32), places.shape))
    here = jnp.take_along_axis(logits, places[:, None, None], axis=1)[:, 0]
    return jax.nn.log_softmax(here.astype(jnp.float32), axis=-1)


_masked_nats = jax.jit(masked_nats, static_argnames=("mask", "strata"))
_masked_each = jax.jit(masked_each, static_argnames="mask")


def single_site_log_probabilities(
    denoiser: Denoiser, tokens: np.ndarray, *, mask: int, batch: int = 32
) -> Float[np.ndarray, "L V"]:
    """Log-probability of every letter at every position, that position masked and all others visible.

    Args:
        denoiser: the model.
        tokens: letter ids [L].
        mask: id of MASK.
        batch: positions per call.
    """
    length = len(tokens)
    padded = np.full(padded_size(length), mask, np.int32)
    padded[:length] = tokens
    rows = []
    for first in range(0, length, batch):
        places = np.minimum(np.arange(first, first + batch), length - 1).astype(np.int32)
        rows.append(np.asarray(_masked_each(denoiser, padded, jnp.int32(length), places, mask=mask)))
    return np.concatenate(rows)[:length]


def pseudo_log_likelihood(denoiser: Denoiser, tokens: np.ndarray, *, mask: int) -> float:
    """Sum over positions of the log-probability of the letter given all others, in nats (Salazar et al. 2020)."""
    log_p = single_site_log_probabilities(denoiser, tokens, mask=mask)
    return float(log_p[np.arange(len(tokens)), tokens].sum())


def mutation_scores(denoiser: Denoiser, tokens: np.ndarray, *, mask: int) -> Float[np.ndarray, "L V"]:
    """Log-odds of every letter against the wild type at every position (masked marginals, Meier et al. 2021)."""
    log_p = single_site_log_probabilities(denoiser, tokens, mask=mask)
    return log_p - log_p[np.arange(len(tokens)), tokens][:, None]


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
    tokens_per_batch: int = 4096,
) -> Iterator[tuple[list[int], BoundSamples]]:
    """Sample the bound of each sequence; yields (indices, samples) per batch of sequences of similar length.

    The result of sequence i depends on (seed, i) and the sequence only. Rates are stratified over ``samples``.
    """
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    root = jax.random.key(seed)
    first = 0
    while first < len(order):
        size = padded_size(len(sequences[order[first]]))
        rows = max(1, tokens_per_batch // size)
        chosen = [i for i in order[first : first + rows] if len(sequences[i]) <= size]
        first += len(chosen)
        filled = [*chosen, *([chosen[-1]] * (rows - len(chosen)))]
        tokens = np.full((rows, size), mask, np.int32)
        for row, i in enumerate(filled):
            tokens[row, : len(sequences[i])] = sequences[i]
        length = np.array([len(sequences[i]) for i in filled], np.int32)
        keys = jax.vmap(partial(jax.random.fold_in, root))(jnp.array(filled, jnp.int32))
        parts = []
        for s in range(samples):
            step_keys = jax.vmap(partial(jax.random.fold_in, data=s))(keys)
            parts.append(_masked_nats(denoiser, step_keys, tokens, length, jnp.float32(s), samples, mask=mask))
        stacked = [np.stack(column, axis=1)[: len(chosen)] for column in zip(*jax.device_get(parts), strict=True)]
        yield chosen, BoundSamples(*stacked, length=length[: len(chosen)])


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


def padded_size(length: int) -> int:
    """Length rounded up, so that sequences of similar length share one compiled call."""
    return -(-length // SIZE_STEP) * SIZE_STEP
