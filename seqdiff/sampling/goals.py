"""Soft goals: what a design should rather have, as log-potentials for the particles.

A *measure* maps complete sequences to numbers: :class:`JaxGoal` (a traceable function), :class:`HostGoal` (any Python
function of strings), :class:`Regressor` (trained on measured sequences). :func:`maximise`, :func:`target` and
:func:`between` turn a measure into a log-potential r(x) in nats; a measure is itself the potential that it returns.
With particles, designs follow ``p(x | constraints) exp(r(x))`` (see ``sampling.particles``).

All are pytrees whose numbers are leaves, so another weight, centre or regressor of the same shape compiles nothing.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import rankdata

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, SeqdiffError, unknown_key
from seqdiff.sampling.particles import Goal

FLOOR = -1e4
"""Least log-potential: the ratio of two weights stays defined where a goal says minus infinity."""

Number = Float[Array, ""] | float
_register = jax.tree_util.register_dataclass


@partial(_register, data_fields=["weight"], meta_fields=["fn"])
@dataclass(frozen=True)
class JaxGoal:
    """A traceable function of tokens.

    Attributes:
        fn: ``fn(tokens [B, L], length [B]) -> [B]``; static, so a module-level function or a hashable object, not a new
            lambda each time. It must ignore what lies beyond the length.
        weight: multiplies what it returns.
    """

    fn: Callable[[Array, Array], Array]
    weight: Number = 1.0

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        return _weighted(self.weight, self.fn(tokens, length).astype(jnp.float32))


@partial(_register, data_fields=["weight"], meta_fields=["fn", "alphabet", "name"])
@dataclass(frozen=True)
class HostGoal:
    """A Python function of a list of sequences, called once per step with the whole batch.

    Attributes:
        fn: ``fn(sequences) -> numbers``, one finite number per sequence, the same whenever it is asked; static, and
            a new function compiles the loop anew.
        alphabet: the letters.
        weight: multiplies what it returns.
        name: for messages.
    """

    fn: Callable[[list[str]], Sequence[float]]
    alphabet: Alphabet
    weight: Number = 1.0
    name: str = "goal"

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        shape = jax.ShapeDtypeStruct(length.shape, jnp.float32)
        found = jax.pure_callback(partial(_on_host, self.fn, self.alphabet, self.name), shape, tokens, length)
        return _weighted(self.weight, found)


class GoalError(SeqdiffError):
    """A goal's function failed. Raised inside the loop, where JAX wraps it; see :func:`goal_failure`."""


def goal_failure(error: BaseException) -> str | None:
    """What a :class:`HostGoal` complained about, from the error that the sampler raised; None if it was no goal."""
    found = [line for line in str(error).splitlines() if GoalError.__name__ + ": " in line]
    return found[-1].split(GoalError.__name__ + ": ", 1)[1] if found else None


def _on_host(
    fn: Callable[[list[str]], Sequence[float]], alphabet: Alphabet, name: str, tokens: Array, length: Array
) -> np.ndarray:
    rows = zip(np.asarray(tokens), np.asarray(length), strict=True)
    sequences = [alphabet.decode(row[:size]) for row, size in rows]
    try:
        values = np.asarray(fn(sequences), np.float32)
    except Exception as error:
        why = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        raise GoalError(f"goal {name!r} failed: {why}") from error
    if values.shape != (len(sequences),):
        raise GoalError(
            f"goal {name!r} returned shape {values.shape} for {len(sequences)} sequences; return one number each"
        )
    if not np.isfinite(values).all():
        first = int(np.argmin(np.isfinite(values)))
        raise GoalError(f"goal {name!r} returned {values[first]} for {sequences[first]}; return finite numbers")
    return values


@partial(_register, data_fields=["value", "weight"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Linear:
    """``weight * value``.

    Attributes:
        value: the measure.
        weight: nats per unit; negative to minimise.
    """

    value: Goal
    weight: Number

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        return _weighted(self.weight, self.value(tokens, length))


@partial(_register, data_fields=["value", "low", "high", "width"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Window:
    """``-d^2 / (2 width^2)`` with d the distance of the value from the interval from low to high.

    Attributes:
        value: the measure.
        low: lower end, in the measure's units.
        high: upper end; the lower one for a Gaussian.
        width: standard deviation of the Gaussian flanks.
    """

    value: Goal
    low: Number
    high: Number
    width: Number

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        value = self.value(tokens, length)
        low, high, width = (jnp.asarray(end, jnp.float32) for end in (self.low, self.high, self.width))
        distance = jnp.maximum(jnp.maximum(low - value, value - high), 0.0) / width
        return jnp.maximum(-0.5 * distance**2, FLOOR)


def maximise(value: Goal, weight: float) -> Linear:
    """Rather more of ``value``: ``weight`` nats per unit."""
    return Linear(value, weight)


def minimise(value: Goal, weight: float) -> Linear:
    """Rather less of ``value``: ``weight`` nats per unit."""
    return Linear(value, -weight)


def target(value: Goal, centre: float, width: float) -> Window:
    """``value`` near ``centre``: a Gaussian log-potential of standard deviation ``width``."""
    return between(value, centre, centre, width)


def between(value: Goal, low: float, high: float, width: float) -> Window:
    """``value`` within [low, high], all alike there, with Gaussian flanks of standard deviation ``width``.

    Raises:
        InputError: an empty interval or a width that is not positive.
    """
    if not low <= high or not width > 0:
        raise InputError(f"low={low}, high={high}, width={width}: needs low <= high and a width above 0")
    return Window(value, low, high, width)


def _weighted(weight: Number, value: Float[Array, "B"]) -> Float[Array, "B"]:
    return jnp.maximum(jnp.asarray(weight, jnp.float32) * value, FLOOR)


@partial(_register, data_fields=["intercept", "letters", "words", "positions", "weight"], meta_fields=["word"])
@dataclass(frozen=True, eq=False)
class Regressor:
    """A linear function of letter shares, shares of words of a fixed length, and letters by position.

    Attributes:
        intercept: float32 [].
        letters: of the share of each letter, float32 [V].
        words: of the share of each word among the windows, float32 [V ** word], the first letter most significant.
        positions: of the letter at each of the first P positions, float32 [P, V].
        word: letters per word, 0 for none.
        weight: multiplies the prediction.
    """

    intercept: Float[Array, ""]
    letters: Float[Array, "V"]
    words: Float[Array, "W"]
    positions: Float[Array, "P V"]
    word: int = 0
    weight: Number = 1.0

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        size, vocab = tokens.shape[1], len(self.letters)
        place = jnp.arange(size)[None, :]
        letter = jnp.clip(tokens, 0, vocab - 1)
        valid = place < length[:, None]
        count = jnp.maximum(length, 1).astype(jnp.float32)
        value = self.intercept + jnp.sum(jnp.where(valid, self.letters[letter], 0.0), axis=1) / count
        if 0 < self.word <= size:
            windows = size - self.word + 1
            code = sum(
                (letter[:, j : windows + j] * vocab ** (self.word - 1 - j) for j in range(self.word)),
                start=jnp.zeros_like(letter[:, :windows]),
            )
            count = length - self.word + 1
            inside = place[:, :windows] < count[:, None]
            total = jnp.sum(jnp.where(inside, self.words[code], 0.0), axis=1)
            value += total / jnp.maximum(count, 1).astype(jnp.float32)
        if known := min(size, len(self.positions)):
            chosen = self.positions[jnp.arange(known)[None, :], letter[:, :known]]
            value += jnp.sum(jnp.where(valid[:, :known], chosen, 0.0), axis=1)
        return _weighted(self.weight, value)


class RegressorFit(NamedTuple):
    """A regressor and how well its kind predicts sequences that it has not seen.

    Attributes:
        regressor: fitted to all data with the chosen penalty.
        penalty: the chosen one, as a share of the largest squared singular value of the features.
        r2: cross-validated share of the variance explained; the choice of the penalty makes it a little too good.
        spearman: cross-validated rank correlation; nan where a side is constant.
        curve: (penalty, cross-validated R^2) of all penalties.
    """

    regressor: Regressor
    penalty: float
    r2: float
    spearman: float
    curve: tuple[tuple[float, float], ...]


FEATURES = ("composition", "words", "positions")
PENALTIES = tuple(float(p) for p in np.logspace(-6, 1, 15))


def fit_regressor(
    sequences: Sequence[str],
    values: Sequence[float] | np.ndarray,
    alphabet: Alphabet,
    *,
    features: Sequence[str] = ("composition",),
    word: int = 2,
    penalties: Sequence[float] = PENALTIES,
    folds: int = 5,
    seed: int = 0,
) -> RegressorFit:
    """Ridge regression in closed form (Hoerl and Kennard 1970), the penalty chosen by cross-validation.

    Groups of features are scaled to the same total variance. One singular value decomposition per fold serves all
    penalties.

    Args:
        sequences: what was measured.
        values: the measurements.
        alphabet: the letters.
        features: of :data:`FEATURES`; ``positions`` suits sequences that align without gaps.
        word: letters per word.
        penalties: to choose from, relative to the largest squared singular value.
        folds: of the cross-validation.
        seed: of the folds.
    """
    y = np.asarray(values, float)
    if y.shape != (len(sequences),) or not np.isfinite(y).all():
        raise InputError(f"values must be {len(sequences)} finite numbers, one per sequence")
    if len(y) < 2 * folds or folds < 2:
        raise InputError(f"{len(y)} sequences are too few for {folds} folds; at least two per fold, and two folds")
    for name in features:
        if name not in FEATURES:
            raise unknown_key("feature", name, FEATURES)
    groups = {name: _feature(name, [alphabet.encode(s) for s in sequences], len(alphabet), word) for name in features}
    scales = {name: np.sqrt(max(x.var(axis=0).sum(), 1e-12)) for name, x in groups.items()}
    x = np.concatenate([groups[name] / scales[name] for name in groups], axis=1)
    fold = np.random.default_rng(seed).permutation(len(y)) % folds
    predicted = np.empty((len(penalties), len(y)))
    for k in range(folds):
        coefficients, intercepts = _ridge(x[fold != k], y[fold != k], penalties)
        predicted[:, fold == k] = coefficients @ x[fold == k].T + intercepts[:, None]
    spread = max(float(((y - y.mean()) ** 2).sum()), 1e-12)
    r2 = 1.0 - ((predicted - y) ** 2).sum(axis=1) / spread
    best = int(np.argmax(r2))
    coefficients, intercepts = _ridge(x, y, [penalties[best]])
    parts = dict(
        zip(groups, np.split(coefficients[0], np.cumsum([g.shape[1] for g in groups.values()])[:-1]), strict=True)
    )
    parts = {name: part / scales[name] for name, part in parts.items()}
    vocab = len(alphabet)
    regressor = Regressor(
        intercept=jnp.asarray(intercepts[0], jnp.float32),
        letters=jnp.asarray(parts.get("composition", np.zeros(vocab)), jnp.float32),
        words=jnp.asarray(parts.get("words", np.zeros(0)), jnp.float32),
        positions=jnp.asarray(parts.get("positions", np.zeros(0)).reshape(-1, vocab), jnp.float32),
        word=word if "words" in parts else 0,
    )
    curve = tuple(zip(map(float, penalties), map(float, r2), strict=True))
    return RegressorFit(regressor, float(penalties[best]), float(r2[best]), _spearman(predicted[best], y), curve)


def _feature(name: str, rows: list[np.ndarray], vocab: int, word: int) -> np.ndarray:
    """Features of one group, float64 [n, d], as :class:`Regressor` reads them."""
    if name == "positions":
        table = np.zeros((len(rows), max(map(len, rows)), vocab))
        for out, row in zip(table, rows, strict=True):
            out[np.arange(len(row)), row] = 1.0
        return table.reshape(len(rows), -1)
    word = 1 if name == "composition" else word
    table = np.zeros((len(rows), vocab**word))
    for out, row in zip(table, rows, strict=True):
        windows = len(row) - word + 1
        code = sum(
            (row[j : windows + j] * vocab ** (word - 1 - j) for j in range(word)), start=np.zeros(max(windows, 0), int)
        )
        out += np.bincount(code, minlength=vocab**word) / max(windows, 1)
    return table


def _ridge(x: np.ndarray, y: np.ndarray, penalties: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [penalties, d] and intercepts [penalties]."""
    centre, mean = x.mean(axis=0), y.mean()
    left, singular, right = np.linalg.svd(x - centre, full_matrices=False)
    top = max(float(singular[0]) ** 2, 1e-12)
    shrunk = singular / (singular**2 + top * np.asarray(penalties)[:, None])
    coefficients = (shrunk * (left.T @ (y - mean))) @ right
    return coefficients, mean - coefficients @ centre


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
