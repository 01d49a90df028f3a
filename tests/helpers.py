"""Small worlds that can be enumerated, and denoisers whose law is known."""

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from seqdiff.constraints import Compiled, Constraint, parse_constraint
from seqdiff.core.alphabet import Alphabet
from seqdiff.process.noise import Process
from seqdiff.sampling.batches import Plan
from seqdiff.sampling.planners import (
    PLANNERS,
    Ancestral,
    Blocks,
    Confidence,
    EntropyBound,
    Flow,
    Gibbs,
    Order,
    Random,
    ReMDM,
    UntilStable,
    diffusion_gemma,
)

TINY = Alphabet("tiny", "ABCD", {"vowel": "A"}, complement="BADC")


def parse(items: list[dict], alphabet: Alphabet = TINY) -> list[Constraint]:
    return [parse_constraint(item, alphabet) for item in items]


def texts(length: int, letters: str = "ABCD") -> list[str]:
    return ["".join(letters) for letters in itertools.product(letters, repeat=length)]


def conditional(constraints: list[Constraint], log_p: np.ndarray, lengths: list[int]) -> dict[str, float]:
    """Probability of every text under independent letters, zero where a constraint fails; not normalised."""
    weights = {}
    for length in lengths:
        for text in texts(length):
            if all(constraint.holds(text).ok for constraint in constraints):
                weights[text] = float(np.exp(sum(log_p[i, "ABCD".index(letter)] for i, letter in enumerate(text))))
    return weights


def total_variation(drawn: list[str], weights: dict[str, float]) -> float:
    total = sum(weights.values())
    found = {text: drawn.count(text) / len(drawn) for text in set(drawn)}
    every = set(found) | set(weights)
    return 0.5 * sum(abs(found.get(text, 0.0) - weights.get(text, 0.0) / total) for text in every)


def expected_variation(draws: int, weights: dict[str, float]) -> float:
    """An upper estimate of the mean total variation of that many true draws: sum of sqrt(p (1 - p) / (2 pi n))."""
    p = np.array(list(weights.values())) / sum(weights.values())
    return float(np.sqrt(p * (1 - p) / (2 * np.pi * draws)).sum())


def make_plan(compiled: Compiled, size: int, **changes: Any) -> Plan:
    """A plan on the tiny alphabet: one position at a time in random order, unless ``changes`` say otherwise."""
    fields = {
        "canvas": np.full(size, TINY.mask, np.int32),
        "lengths": compiled.lengths(),
        "bias": np.zeros((size, len(TINY)), np.float32),
        "steps": size,
        "temperature": 1.0,
        "planner": Random(),
        "process": Process(mask=TINY.mask),
    }
    return Plan(**fields | changes)


@partial(jax.tree_util.register_dataclass, data_fields=["logits"], meta_fields=[])
class Independent:
    """A denoiser that ignores context: stored logits [L, V]."""

    def __init__(self, logits: Array):
        self.logits = logits

    def __call__(self, canvas: Array, valid: Array, time: Array, conditions: object = None) -> Array:
        return jnp.broadcast_to(self.logits[None], (canvas.shape[0], *self.logits.shape))


@partial(jax.tree_util.register_dataclass, data_fields=["table"], meta_fields=[])
class Neighbours:
    """A denoiser whose logits depend on what stands left and right: table [V + 1, V + 1, V], the last id is MASK."""

    def __init__(self, table: Array):
        self.table = table

    def __call__(self, canvas: Array, valid: Array, time: Array, conditions: object = None) -> Array:
        open = self.table.shape[0] - 1
        padded = jnp.pad(canvas, ((0, 0), (1, 1)), constant_values=open)
        return self.table[padded[:, :-2], padded[:, 2:]]


EVERY_PLANNER = {
    **{name: cls() for name, cls in PLANNERS.items() if name not in ("order", "blocks", "until_stable", "gibbs")},
    "order": Order(priority=np.array([5, 1, 1, 0, 9], np.int32)),
    "blocks": Blocks(inner=Confidence(), size=4),
    "diffusion_gemma": diffusion_gemma(entropy=0.5),
    "until_stable": UntilStable(inner=Ancestral(), entropy=0.5),
    "gibbs": Gibbs(inner=Random(), rounds=3, sites=2),
    "informed": Gibbs(inner=EntropyBound(), rounds=2, informed=True),
    "flow_back": Flow(stochasticity=2.0),
    "remdm_rescale": ReMDM(rule="rescale", eta=0.5),
    "remdm_confidence": ReMDM(rule="confidence", eta=0.9),
    "confidence_noise": Confidence(noise=0.5),
}
"""Every planner, every rule."""
