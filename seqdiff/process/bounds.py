"""Likelihood bounds of given sequences under any process, by Monte Carlo over noise levels and canvases.

The bound depends on the schedule only through its two ends, so levels are drawn as squares of even numbers in (0, 1):
the integrand grows like ``1 / level`` at corrupted positions, and with even levels its variance would be infinite. Each
row's levels are stratified over its samples (low discrepancy: Kingma et al. 2021, VDM) with an offset of its own.

What a finite range of levels leaves out: the prior term ``KL(q_1 || pi)`` is zero and the reconstruction term
``-log P(x | z_0)`` is zero at level 0, and levels here run from 0 to 1. A sampler that starts at survival ``a1 > 0`` or
stops at level ``n0 > 0`` draws from another law than the one that is bounded: such a schedule (geometric: 1e-4) owes up
to ``n0 L log V`` nats more. Weights are clipped below a level of 1e-6, which hides ``1e-6 L`` times the loss there.

For the absorbing process :mod:`seqdiff.process.likelihood` estimates the same number from mask counts, with less
variance. :func:`sample_nelbo` yields the same record as its ``sample_bounds``, so ``gather_bounds`` and ``perplexity``
(with its standard error over sequences) apply; :func:`summarise` gives each sequence with its own error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from seqdiff.core.contracts import Denoiser
from seqdiff.process.likelihood import BoundSamples, MaskedNats
from seqdiff.process.losses import bound_integrand, masked_cross_entropy
from seqdiff.process.noise import Process
from seqdiff.process.readout import batch_rows, pad, padded_size, predict
from seqdiff.process.schedules import Linear


class Bound(NamedTuple):
    """Bounds of single sequences.

    Attributes:
        nats: bound on ``-log p`` of each sequence [n].
        error: its standard error over the samples [n]; with stratified levels an upper estimate. nan for one sample.
    """

    nats: np.ndarray
    error: np.ndarray


def nelbo(
    denoiser: Denoiser,
    keys: Key[Array, "B"],
    tokens: Int[Array, "B L"],
    length: Int[Array, "B"],
    root: Float[Array, "B"],
    *,
    process: Process,
) -> MaskedNats:
    """One sample of the bound of each sequence.

    Args:
        denoiser: the model.
        keys: one per row; a row's result depends on its own key, tokens, length and root only.
        tokens: letter ids, anything beyond the length.
        length: of each row.
        root: square root of the noise level of each row; even in (0, 1) over the samples.
        process: the forward process; its schedule is not read.

    Returns:
        The sample, the plain cross-entropy at corrupted positions (MASK or another letter) and their number.
    """
    even, level = replace(process, schedule=Linear()), root**2
    valid = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
    clean = jnp.where(valid, tokens, 0)
    noisy = jax.vmap(even.corrupt)(keys, clean, level, valid)
    logits = predict(denoiser, jnp.where(valid, noisy, process.mask), valid, level, letters=process.mask)
    corrupted = valid & (noisy != clean)
    return MaskedNats(
        2.0 * root * jnp.sum(bound_integrand(even, logits, noisy, clean, level, valid), axis=1),
        jnp.sum(masked_cross_entropy(logits, clean, corrupted), axis=1),
        jnp.sum(corrupted, axis=1),
    )


_nelbo = jax.jit(nelbo, static_argnames="process")


def sample_nelbo(
    denoiser: Denoiser,
    process: Process,
    sequences: Sequence[np.ndarray],
    *,
    seed: int = 0,
    samples: int = 16,
    tokens_per_batch: int = 4096,
) -> Iterator[tuple[list[int], BoundSamples]]:
    """Sample the bound of each sequence; yields (indices, samples) per batch of sequences of similar length.

    The result of sequence i depends on (seed, i) and the sequence only.

    Args:
        denoiser: the model.
        process: its forward process.
        sequences: letter ids.
        seed: of levels and corruption.
        samples: strata of the noise level, one network call each.
        tokens_per_batch: tokens per network call.
    """
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    root = jax.random.key(seed)
    first = 0
    while first < len(order):
        size = padded_size(len(sequences[order[first]]))
        rows = batch_rows(size, tokens_per_batch)
        chosen = [i for i in order[first : first + rows] if len(sequences[i]) <= size]
        first += len(chosen)
        filled = [*chosen, *([chosen[-1]] * (rows - len(chosen)))]
        tokens = pad([sequences[i] for i in filled], size, process.mask)
        length = np.array([len(sequences[i]) for i in filled], np.int32)
        keys = jax.vmap(partial(jax.random.fold_in, root))(jnp.array(filled, jnp.int32))
        level_keys, noise_keys = (jax.vmap(partial(jax.random.fold_in, data=part))(keys) for part in (0, 1))
        offset = jax.vmap(jax.random.uniform)(level_keys)
        parts = []
        for s in range(samples):
            sample_keys = jax.vmap(partial(jax.random.fold_in, data=s))(noise_keys)
            level_root = (offset + s) / samples
            parts.append(_nelbo(denoiser, sample_keys, tokens, length, level_root, process=process))
        stacked = [np.stack(column, axis=1)[: len(chosen)] for column in zip(*jax.device_get(parts), strict=True)]
        yield chosen, BoundSamples(*stacked, length=length[: len(chosen)])


def summarise(found: BoundSamples) -> Bound:
    """The bound of each sequence and its standard error over samples."""
    draws = found.bound.astype(np.float64)
    count = draws.shape[1]
    spread = draws.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.full(len(draws), np.nan)
    return Bound(draws.mean(axis=1), spread)
