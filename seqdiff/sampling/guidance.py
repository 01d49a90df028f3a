"""Guidance: denoisers that wrap a denoiser and tilt its predictions towards a condition or a label.

Wrappers obey the ``Denoiser`` contract, so they nest and the loop does not know about them; constraints act after them
and are kept whatever the strength. Make them with :func:`guide` and :func:`steer`, which return the denoiser that they
were given where guidance would change nothing: no guidance costs no call.

What they sample is a heuristic, except :class:`Predicted` with ``method="exact"`` at strength 1, one position per
step, absorbing noise and a right predictor: that is the posterior given the label (Nisonoff et al. 2025). Goals with
particles (``sampling.goals``) are the exact route.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.process.noise import Process, low_discrepancy_times
from seqdiff.process.readout import reads

FLOOR = -1e4
"""Least log-probability that is mixed, so that minus infinity never meets itself."""

Method = Literal["exact", "taylor"]
Tokens = Int[Array, "B L"]
Valid = Bool[Array, "B L"]
Level = Float[Array, "B"]
Logits = Float[Array, "B L V"]
OneHot = Float[Array, "B L W"]
Layers = dict[str, Array]
_register = jax.tree_util.register_dataclass


class Predictor(Protocol):
    """A pytree that reads a label off a noisy canvas."""

    def __call__(self, canvas: Tokens, valid: Valid, time: Level) -> Float[Array, "B"]:
        """``log p(y | z_t)`` of the wanted label y, for each row; ``time`` is the noise level."""
        ...


class SoftPredictor(Predictor, Protocol):
    """A predictor that can be differentiated in its canvas."""

    def soft(self, onehot: OneHot, valid: Valid, time: Level) -> Float[Array, "B"]:
        """The same of a canvas given as one-hot rows over the V letters and MASK, W = V + 1."""
        ...


@dataclass(frozen=True, eq=False)
class Wrapper:
    """What wrappers share: they are what the denoiser inside is."""

    denoiser: Denoiser

    @property
    def self_conditioning(self) -> bool:
        """Whether the denoiser inside reads its previous prediction."""
        return reads(self.denoiser, "self_conditioning")

    @property
    def reads_order(self) -> bool:
        """Whether the denoiser inside reads the order of commits."""
        return reads(self.denoiser, "reads_order")

    @property
    def process(self) -> Any:
        """The process of the denoiser inside; None if it does not say."""
        return getattr(self.denoiser, "process", None)


@partial(_register, data_fields=["denoiser", "conditions"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Under(Wrapper):
    """A denoiser under conditions of its own, whatever the caller gives."""

    conditions: Any

    def __call__(self, canvas: Tokens, valid: Valid, time: Level, conditions: Any = None, **more: Array) -> Logits:
        return self.denoiser(canvas, valid, time, self.conditions, **more)


@partial(_register, data_fields=["denoiser", "null", "strength"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class ClassifierFree(Wrapper):
    """``log p = g log p_cond + (1 - g) log p_null``, up to a constant (Ho and Salimans 2022; Nisonoff et al. 2025).

    The rows are doubled and the denoiser called once, where the null conditions have the structure of the conditions;
    otherwise, such as with None for null, it is called twice. Leaves of conditions have the rows first, or 1.

    Under absorbing noise this is what mixing the reverse steps gives: a step from MASK reveals a letter with the mixed
    law, only the pace could differ, and the planner sets that. Under uniform noise it is not: Schiff et al. (2025) mix
    ``q(z_s | z_t)``, each a sum over the clean letter, and the power of a sum is no sum of powers. Here the prediction
    of the clean letter is mixed; what a noisy letter says about itself is in both factors and so counts exactly once.
    The two agree at strengths 0 and 1, and where both predictions are certain.

    A denoiser that reads its previous prediction is given the mixed one in both halves: it is what was sampled from.

    Attributes:
        null: conditions that say nothing.
        strength: g; 1 is the conditional model, above 1 exaggerates what the conditions change.
    """

    null: Any
    strength: Float[Array, ""] | float

    def __call__(self, canvas: Tokens, valid: Valid, time: Level, conditions: Any = None, **more: Array) -> Logits:
        rows = canvas.shape[0]
        if jax.tree.structure(conditions) == jax.tree.structure(self.null):
            twice = jax.tree.map(partial(_stack, rows), conditions, self.null)
            double = partial(jax.tree.map, lambda leaf: jnp.concatenate([leaf, leaf]))
            both = self.denoiser(double(canvas), double(valid), double(time), twice, **double(more))
            with_them, without = both[:rows], both[rows:]
        else:
            with_them, without = (
                self.denoiser(canvas, valid, time, given, **more) for given in (conditions, self.null)
            )
        strength = jnp.asarray(self.strength, jnp.float32)
        return strength * _log_p(with_them) + (1.0 - strength) * _log_p(without)


def guide(denoiser: Denoiser, null: Any, strength: float) -> Denoiser:
    """Classifier-free guidance; at strength 1 the denoiser itself, at 0 under the null conditions: one call each."""
    if strength == 1:
        return denoiser
    return Under(denoiser, null) if strength == 0 else ClassifierFree(denoiser, null, float(strength))


@partial(_register, data_fields=["denoiser", "predictor", "strength"], meta_fields=["method", "chunk"])
@dataclass(frozen=True, eq=False)
class Predicted(Wrapper):
    """Guidance by a predictor of the label: the logit of letter v at position i gains
    ``strength * (log f(z with v at i) - log f(z))``.

    ``exact`` asks the predictor about all L V single substitutions (Nisonoff et al. 2025, discrete guidance);
    ``taylor`` takes them from one gradient in the one-hot canvas (TAG, same paper). At strength 1, with the true
    ``f(z) = p(y | z)``, the prediction of one position becomes ``P(x_i | z, y)`` exactly, because
    ``p(v | z) p(y | z, x_i = v)`` is proportional to it. Positions drawn together in one step are not told of each
    other, and steps of ancestral sampling under uniform noise change several letters at once: take small steps.

    Attributes:
        predictor: see :class:`Predictor`; ``taylor`` needs :class:`SoftPredictor`.
        strength: exponent of the likelihood ratio.
        method: ``exact`` or ``taylor``.
        chunk: positions per call of the predictor, which then has B * chunk * V rows.
    """

    predictor: Predictor
    strength: Float[Array, ""] | float
    method: Method = "exact"
    chunk: int = 1

    def __call__(self, canvas: Tokens, valid: Valid, time: Level, conditions: Any = None, **more: Array) -> Logits:
        logits = self.denoiser(canvas, valid, time, conditions, **more).astype(jnp.float32)
        ratio = self._taylor if self.method == "taylor" else self._exact
        found = ratio(canvas, valid, time, logits.shape[-1])
        return logits + jnp.asarray(self.strength, jnp.float32) * jnp.where(valid[..., None], found, 0.0)

    def _exact(self, canvas: Tokens, valid: Valid, time: Level, vocab: int) -> Logits:
        rows, size = canvas.shape
        chunk = min(self.chunk, size)
        repeat = partial(jnp.repeat, repeats=chunk * vocab, axis=0)
        letters = jnp.arange(vocab, dtype=canvas.dtype)

        def substitute(places: Int[Array, "C"]) -> Float[Array, "B C V"]:
            here = (jnp.arange(size)[None, :] == places[:, None])[None, :, None, :]
            changed = jnp.where(here, letters[None, None, :, None], canvas[:, None, None, :])
            found = self.predictor(changed.reshape(-1, size), repeat(valid), repeat(time))
            return found.reshape(rows, chunk, vocab)

        places = jnp.arange(-(-size // chunk) * chunk) % size
        found = jax.lax.map(substitute, places.reshape(-1, chunk))
        found = jnp.moveaxis(found, 0, 1).reshape(rows, -1, vocab)[:, :size]
        return found - self.predictor(canvas, valid, time)[:, None, None]

    def _taylor(self, canvas: Tokens, valid: Valid, time: Level, vocab: int) -> Logits:
        tokens, soft = jnp.clip(canvas, 0, vocab), self.predictor.soft  # pyright: ignore[reportAttributeAccessIssue]
        slope = jax.grad(lambda onehot: jnp.sum(soft(onehot, valid, time)))(jax.nn.one_hot(tokens, vocab + 1))
        return slope[..., :vocab] - jnp.take_along_axis(slope, tokens[..., None], axis=-1)


def steer(
    denoiser: Denoiser, predictor: Predictor, strength: float, method: Method = "exact", *, chunk: int = 1
) -> Denoiser:
    """Guidance by a predictor; at strength 0 the denoiser itself.

    Raises:
        InputError: no such method, or a predictor that cannot be differentiated for ``taylor``.
    """
    if method not in get_args(Method):
        raise unknown_key("method", method, get_args(Method))
    if chunk < 1:
        raise InputError(f"chunk={chunk} must be at least 1: positions per call of the predictor")
    if method == "taylor" and not hasattr(predictor, "soft"):
        raise InputError("method 'taylor' needs a predictor with a method soft(onehot, valid, time); use 'exact'")
    return Predicted(denoiser, predictor, float(strength), method, chunk) if strength else denoiser


def _log_p(logits: Logits) -> Logits:
    return jnp.maximum(jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1), FLOOR)


def _stack(rows: int, given: Array, null: Array) -> Array:
    given, null = jnp.asarray(given), jnp.asarray(null)
    for leaf in (given, null):
        if leaf.ndim == 0 or leaf.shape[0] not in (1, rows):
            raise InputError(f"conditions of shape {leaf.shape} for {rows} rows; the first axis must be the rows, or 1")
    return jnp.concatenate([jnp.broadcast_to(leaf, (rows, *leaf.shape[1:])) for leaf in (given, null)])


@partial(_register, data_fields=["layers", "target", "centre", "scale"], meta_fields=["classes"])
@dataclass(frozen=True, eq=False)
class NoisyPredictor:
    """``log p(y | z_t)`` by a network of one hidden layer and a linear bypass; a :class:`SoftPredictor`.

    It sees the shares of the letters and of MASK, and the noise level. Labels are classes, or numbers whose law is a
    Gaussian with mean and width from the network.

    Attributes:
        layers: parameters of the network.
        target: the wanted label, one or one per row.
        centre: mean of the numbers it was fitted to; 0 for classes.
        scale: their standard deviation; 1 for classes.
        classes: whether labels are classes.
    """

    layers: Layers
    target: Array
    centre: Array
    scale: Array
    classes: bool

    def at(self, target: Array | float) -> "NoisyPredictor":
        """The predictor of another label; compiles nothing new."""
        return replace(self, target=jnp.asarray(target, self.target.dtype))

    def __call__(self, canvas: Tokens, valid: Valid, time: Level) -> Float[Array, "B"]:
        return self.soft(jax.nn.one_hot(canvas, self.layers["into"].shape[0] - 1), valid, time)

    def soft(self, onehot: OneHot, valid: Valid, time: Level) -> Float[Array, "B"]:
        """See :class:`SoftPredictor`."""
        inside = valid.astype(jnp.float32)
        count = jnp.maximum(jnp.sum(inside, axis=1), 1.0)[:, None]
        shares = jnp.sum(onehot * inside[..., None], axis=1) / count * float(onehot.shape[-1])
        x = jnp.concatenate([shares, time[:, None]], axis=1)
        hidden = jax.nn.silu(x @ self.layers["into"] + self.layers["bias"][None])
        out = hidden @ self.layers["out"] + x @ self.layers["bypass"] + self.layers["offset"][None]
        wanted = jnp.broadcast_to(self.target, out.shape[:1])
        if self.classes:
            return jnp.take_along_axis(jax.nn.log_softmax(out, axis=1), wanted[:, None], axis=1)[:, 0]
        wanted = (wanted - self.centre) / self.scale
        width = jnp.exp(jnp.clip(out[:, 1], -5.0, 3.0))
        return jax.scipy.stats.norm.logpdf(wanted, out[:, 0], width) - jnp.log(self.scale)


class PredictorFit(NamedTuple):
    """A predictor, of class 0 or of the mean label, see :meth:`NoisyPredictor.at`; its mean log p(y | z_t) on labels
    that were held out, over all noise levels; and that of the labels' overall law, which does not look at the canvas.
    """

    predictor: NoisyPredictor
    held_out: float
    baseline: float


def fit_predictor(
    process: Process,
    tokens: Int[Array, "n L"] | np.ndarray,
    labels: Array | np.ndarray,
    key: Key[Array, ""],
    *,
    length: Int[Array, "n"] | np.ndarray | None = None,
    hidden: int = 32,
    steps: int = 1500,
    batch: int = 256,
    rate: float = 0.01,
) -> PredictorFit:
    """Train a predictor on sequences that the process has corrupted, at all noise levels alike.

    Adam (Kingma and Ba 2015) with a linearly falling rate on ``-log p(y | z_t)``; a tenth of the data is held out.

    Args:
        process: the forward process of the denoiser that will be guided.
        tokens: clean sequences.
        labels: whole numbers 0, 1, ... for a classifier, floats for a regressor.
        key: of everything random.
        length: of each row; the full width by default.
        hidden: width of the hidden layer.
        steps: of training, with ``batch`` rows each and at first the learning rate ``rate``.
    """
    x, y = jnp.asarray(tokens, jnp.int32), np.asarray(labels)
    rows, size = x.shape
    if y.shape != (rows,) or not np.isfinite(y.astype(float)).all() or rows < 10:
        raise InputError(f"needs one finite label per sequence and at least 10 sequences; got {y.shape} for {rows}")
    classes = y.dtype.kind in "biu"
    valid = jnp.arange(size)[None, :] < jnp.asarray(np.full(rows, size) if length is None else length)[:, None]
    split_key, init_key, train_key, test_key = jax.random.split(key, 4)
    order = jax.random.permutation(split_key, rows)
    test, train = order[: rows // 10], order[rows // 10 :]
    known = y[np.asarray(train)]
    width = process.mask + 2
    outputs = int(y.max()) + 1 if classes else 2
    shapes = {"bias": (hidden,), "out": (hidden, outputs), "bypass": (width, outputs), "offset": (outputs,)}
    layers: Layers = {name: jnp.zeros(shape) for name, shape in shapes.items()}
    layers["into"] = jax.random.normal(init_key, (width, hidden)) / width**0.5
    wanted = jnp.asarray(y, jnp.int32 if classes else jnp.float32)
    if classes:
        share = np.bincount(known.astype(int), minlength=outputs) / len(known)
        baseline = jnp.log(jnp.maximum(jnp.asarray(share, jnp.float32), 1e-12))[wanted[test]]
        model = NoisyPredictor(layers, jnp.int32(0), jnp.float32(0), jnp.float32(1), True)
    else:
        centre, scale = jnp.float32(known.mean()), jnp.float32(max(known.std(), 1e-6))
        baseline = jax.scipy.stats.norm.logpdf(wanted[test], centre, scale)
        model = NoisyPredictor(layers, centre, centre, scale, False)

    def log_p(layers: Layers, key: Key[Array, ""], chosen: Int[Array, "m"]) -> Float[Array, ""]:
        time_key, noise_key = jax.random.split(key)
        t = low_discrepancy_times(time_key, len(chosen), 0.0)
        noisy = jax.vmap(process.corrupt)(jax.random.split(noise_key, len(chosen)), x[chosen], t, valid[chosen])
        aimed = replace(model, layers=layers, target=wanted[chosen])
        return jnp.mean(aimed(noisy, valid[chosen], process.schedule.noise_level(t)))

    def step(carry: Any, now: tuple[Array, Array]) -> tuple[Any, None]:
        layers, mean, square = carry
        key, n = now
        pick_key, loss_key = jax.random.split(key)
        chosen = train[jax.random.randint(pick_key, (batch,), 0, len(train))]
        slope = jax.grad(log_p)(layers, loss_key, chosen)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, square, slope)
        pace = rate * (1.0 - n / steps) / (1.0 - 0.9 ** (n + 1.0))
        root = jax.tree.map(lambda v: jnp.sqrt(v / (1.0 - 0.999 ** (n + 1.0))) + 1e-8, square)
        return (jax.tree.map(lambda p, m, r: p + pace * m / r, layers, mean, root), mean, square), None

    zeros = jax.tree.map(jnp.zeros_like, layers)
    schedule = (jax.random.split(train_key, steps), jnp.arange(steps, dtype=jnp.float32))
    layers, _, _ = jax.jit(partial(jax.lax.scan, step))((layers, zeros, zeros), schedule)[0]
    held = jax.jit(log_p)(layers, test_key, jnp.tile(test, -(-2000 // len(test))))
    return PredictorFit(replace(model, layers=layers), float(held), float(baseline.mean()))
