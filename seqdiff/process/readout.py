"""Reading a model's predictions at chosen places of partly hidden sequences, many questions at a time.

A *question* is one row of one call: a sequence, the positions that are hidden in it, and the places to read. All
scores of given sequences ask many: a pseudo-log-likelihood one per position, a path one per prefix, a mutant one for
the set of its sites. :func:`ask` flattens them, whatever sequence they belong to, into calls of one fixed size per
padded length, so that only the last call of a length has rows to spare and nothing is compiled twice. A question's
answer does not depend on which others share its call.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.contracts import GIVEN, OPEN, Denoiser

SIZE_STEP = 64
TOKENS_PER_BATCH = 4096

Progress = Callable[[int], None]
"""Called after each call of the model with the number of questions that it answered."""

Hide = Callable[[np.ndarray, int], np.ndarray]
"""(question numbers [b], padded length) -> hidden positions, bool [b, padded length]."""


def predict(
    denoiser: Denoiser,
    canvas: Int[Array, "B L"],
    valid: Bool[Array, "B L"],
    level: Float[Array, "B"],
    conditions: Any = None,
    *,
    letters: int,
    order: Int[Array, "B L"] | None = None,
) -> Float[Array, "B L V"]:
    """Logits; what else the denoiser reads is as at the first step.

    A self-conditioning network is told that there is no previous prediction. One that reads the order is told that all
    letters were given, unless an order is.
    """
    if order is None:
        order = jnp.where(canvas < letters, GIVEN, OPEN)
    none = jnp.zeros((*canvas.shape, letters)) if reads(denoiser, "self_conditioning") else None
    return denoiser(canvas, valid, level, conditions, **extras(denoiser, previous=none, order=order))


def reads(denoiser: Any, attribute: str) -> bool:
    """Whether a denoiser says that it reads more than the canvas: ``self_conditioning`` or ``reads_order``."""
    return bool(getattr(denoiser, attribute, False))


def extras(denoiser: Any, *, previous: Any, order: Any) -> dict[str, Any]:
    """The keyword arguments that a denoiser asks for, see ``core.contracts.Denoiser``."""
    found = {"previous": previous} if reads(denoiser, "self_conditioning") else {}
    return found | ({"order": order} if reads(denoiser, "reads_order") else {})


def log_letters(
    denoiser: Denoiser,
    tokens: Int[Array, "B L"],
    length: Int[Array, "B"],
    hidden: Bool[Array, "B L"],
    places: Int[Array, "B M"],
    *,
    mask: int,
) -> Float[Array, "B M V"]:
    """Log-probabilities of every letter at the places of each row; the noise level is the share of hidden letters.

    Args:
        denoiser: the model.
        tokens: letter ids, anything beyond the length.
        length: of each row, at least 1.
        hidden: positions that the model sees as MASK; false beyond the length.
        places: 0-based positions to read.
        mask: id of MASK.
    """
    valid = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
    level = jnp.sum(hidden, axis=1).astype(jnp.float32) / length.astype(jnp.float32)
    logits = predict(denoiser, jnp.where(hidden, mask, tokens), valid, level, letters=mask)
    here = jnp.take_along_axis(logits, places[:, :, None], axis=1)
    return jax.nn.log_softmax(here.astype(jnp.float32), axis=-1)


_log_letters = jax.jit(log_letters, static_argnames="mask")


def ask(
    denoiser: Denoiser,
    sequences: Sequence[np.ndarray],
    owner: Int[np.ndarray, "n"],
    places: Int[np.ndarray, "n m"],
    hide: Hide,
    *,
    mask: int,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Iterator[tuple[Int[np.ndarray, "b"], Float[np.ndarray, "b m V"]]]:
    """Answer ``n`` questions; yields (question numbers, log-probabilities of the letters) per call.

    The next call is under way while the caller works on an answer.

    Args:
        denoiser: the model.
        sequences: letter ids of each sequence.
        owner: which sequence each question is about.
        places: 0-based positions that each question reads; questions that read fewer repeat one.
        hide: which positions a question hides.
        mask: id of MASK.
        tokens_per_batch: rows times padded length of a call.
        progress: see :data:`Progress`.
    """
    pending = None
    for rows, size, chosen in _calls([len(sequences[i]) for i in owner], tokens_per_batch):
        filled = np.concatenate([chosen, np.full(rows - len(chosen), chosen[-1])])
        length = np.array([len(sequences[i]) for i in owner[filled]], np.int32)
        tokens = pad([sequences[i] for i in owner[filled]], size, mask)
        hidden = hide(filled, size)
        answer = _log_letters(denoiser, tokens, length, hidden, places[filled].astype(np.int32), mask=mask)
        if pending is not None:
            yield _fetch(*pending, progress)
        pending = chosen, answer
    if pending is not None:
        yield _fetch(*pending, progress)


def _fetch(chosen: np.ndarray, answer: Array, progress: Progress | None) -> tuple[np.ndarray, np.ndarray]:
    found = np.asarray(answer)[: len(chosen)]
    if progress is not None:
        progress(len(chosen))
    return chosen, found


def _calls(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """(rows, padded length, questions) of each call."""
    sizes = [padded_size(length) for length in lengths]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for size, group in groupby(order, key=sizes.__getitem__):
        questions = np.array(list(group))
        rows = call_rows(len(questions), size, tokens_per_batch)
        for first in range(0, len(questions), rows):
            yield rows, size, questions[first : first + rows]


def hide_places(places: Int[np.ndarray, "n m"]) -> Hide:
    """Hide what is read."""

    def hide(questions: np.ndarray, size: int) -> np.ndarray:
        hidden = np.zeros((len(questions), size), bool)
        np.put_along_axis(hidden, places[questions], True, axis=1)
        return hidden

    return hide


def hide_nothing(questions: np.ndarray, size: int) -> np.ndarray:
    """Every letter stays visible."""
    return np.zeros((len(questions), size), bool)


def pad(sequences: Sequence[np.ndarray], size: int, fill: int) -> Int[np.ndarray, "B L"]:
    """One row per sequence, filled up at the right."""
    tokens = np.full((len(sequences), size), fill, np.int32)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = sequence
    return tokens


def padded_size(length: int) -> int:
    """Length rounded up, so that sequences of similar length share one compiled call."""
    return -(-length // SIZE_STEP) * SIZE_STEP


def batch_rows(size: int, tokens_per_batch: int) -> int:
    """Rows of a full call."""
    return max(1, tokens_per_batch // size)


def call_rows(questions: int, size: int, tokens_per_batch: int) -> int:
    """Rows of each call for that many questions: few need no full one; powers of two keep compiled shapes few."""
    return min(batch_rows(size, tokens_per_batch), 1 << (questions - 1).bit_length())
