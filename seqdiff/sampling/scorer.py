"""A trained planner for path planning: a small head that tells right letters from wrong ones (Peng et al. 2025).

The head reads what a denoiser says of a full canvas and is trained on the denoiser's own mistakes: known sequences are
corrupted, the gaps are filled by drawing from the denoiser, and the head learns which of the letters are the true ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError
from seqdiff.process.noise import Process
from seqdiff.process.readout import pad
from seqdiff.sampling.planners.base import confidence, entropy, letter_log_probability, margin

FEATURES = ("bias", "log-probability", "lead of the likeliest", "margin", "entropy", "log-probability, neighbours")


@partial(jax.tree_util.register_dataclass, data_fields=["denoiser", "weights"], meta_fields=[])
@dataclass(frozen=True)
class LetterScorer:
    """Log-probability that each letter of a full canvas is right, for ``P2(scorer=...)``.

    Attributes:
        denoiser: judges the canvas; it may be another one than samples.
        weights: of the features, float32 [F].
    """

    denoiser: Denoiser
    weights: Float[Array, "F"]

    def __call__(
        self, canvas: Int[Array, "B L"], valid: Bool[Array, "B L"], time: Float[Array, "B"]
    ) -> Float[Array, "B L"]:
        return jax.nn.log_sigmoid(jnp.einsum("blf,f->bl", self.features(canvas, valid), self.weights))

    def features(self, canvas: Int[Array, "B L"], valid: Bool[Array, "B L"]) -> Float[Array, "B L F"]:
        """What the head reads at each position; see ``FEATURES``."""
        logits = self.denoiser(canvas, valid, jnp.zeros(len(canvas))).astype(jnp.float32)
        log_p = jnp.maximum(jax.nn.log_softmax(logits, axis=-1), -20.0)
        own = jnp.where(valid, letter_log_probability(log_p, canvas), 0.0)
        p = jnp.exp(log_p)
        around = 0.5 * (jnp.pad(own, ((0, 0), (1, 0)))[:, :-1] + jnp.pad(own, ((0, 0), (0, 1)))[:, 1:])
        lead = jnp.log(confidence(p)) - own
        return jnp.stack([jnp.ones_like(own), own, lead, margin(p), entropy(p), around], axis=-1)


def fit_scorer(
    denoiser: Denoiser,
    process: Process,
    sequences: Sequence[np.ndarray],
    *,
    seed: int = 0,
    rounds: int = 4,
    penalty: float = 1e-2,
) -> LetterScorer:
    """Train the head by logistic regression (Newton's method).

    Args:
        denoiser: of an absorbing process.
        process: how sequences are corrupted.
        sequences: letter ids, one array each; held out from the denoiser's training for honest weights.
        seed: of corruption and draws.
        rounds: noise levels per sequence.
        penalty: of the squared weights, per letter.

    Raises:
        InputError: no sequences, or the process is not absorbing.
    """
    if not sequences or not process.absorbing:
        raise InputError("fit_scorer needs sequences and an absorbing process")
    size = max(map(len, sequences))
    tokens = pad(sequences, size, process.mask)
    valid = jnp.asarray(tokens < process.mask)
    scorer = LetterScorer(denoiser, jnp.zeros(len(FEATURES)))

    @jax.jit
    def examples(scorer: LetterScorer, key: Array, tokens: Array, t: Array) -> tuple[Array, Array, Array]:
        noise_key, draw_key = jax.random.split(key)
        keys = jax.random.split(noise_key, len(tokens))
        z = jax.vmap(process.corrupt)(keys, tokens, t, valid)
        drawn = jax.random.categorical(draw_key, scorer.denoiser(z, valid, 1.0 - process.schedule.alpha(t)), axis=-1)
        filled = jnp.where(z == process.mask, drawn.astype(jnp.int32), z)
        return scorer.features(filled, valid), filled == tokens, valid & (z == process.mask)

    found = []
    for n in range(rounds):
        t = jnp.full((len(sequences),), (n + 0.5) / rounds)
        found.append(examples(scorer, jax.random.key(seed + n), jnp.asarray(tokens), t))
    features, right, used = (np.concatenate([np.asarray(part[i]) for part in found]) for i in range(3))
    return LetterScorer(denoiser, jnp.asarray(_logistic(features[used], right[used], penalty), jnp.float32))


def _logistic(x: np.ndarray, y: np.ndarray, penalty: float, steps: int = 25) -> np.ndarray:
    x, y = x.astype(np.float64), y.astype(np.float64)
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - y) / len(y) + penalty * weights
        curvature = (x * (p * (1 - p))[:, None]).T @ x / len(y) + penalty * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, gradient)
    return weights
