"""Ehrlich functions, closed-form stand-ins for a biophysical assay, solved by constraints instead of by search.

    python -m seqdiff.experiments.ehrlich states=20 length=32 motifs=4 motif_length=4 n=100

An Ehrlich function (Stanton et al. 2024, "Closed-Form Test Functions for Biophysical Sequence Design Benchmarking",
arXiv:2407.00236) is ``-inf`` for a sequence with a transition that its Markov chain bans. For any other it is the
product over motifs of the best quantized fraction of the motif's elements that stand, with their spacing, at one place.
Optimizers search for its maximum of 1; here both halves of the definition are hard constraints: banned transitions are
a pattern that never occurs and spaced motifs are patterns that do, so every single draw is feasible, or optimal.
While the joint automaton fits (the default size does) draws are exact; longer spacings go to the solver, which takes
seconds per design.

:func:`make_ehrlich` follows the construction of pytorch-holo 0.0.5 with numpy's random numbers, so instances of equal
seeds differ; ``tests/parity/test_ehrlich.py`` compares the values on holo's own instances.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console
from rich.table import Table

from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, SeqdiffError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.request.problem import prepare
from seqdiff.request.run import run
from seqdiff.request.spec import DesignSpec

BASELINE_DRAWS = 10_000
UNUSED = 1e-30  # probability of letters that are no states, small and with a finite logarithm


@dataclass(frozen=True, kw_only=True, eq=False)
class Ehrlich:
    """One Ehrlich function; state ``i`` is the alphabet's letter ``i``.

    Attributes:
        transitions: probability of each state after each state [S, S]; 0 is banned.
        motifs: states of each motif [c, k].
        offsets: places of a motif's elements after its first, ascending from 0 [c, k].
        length: of the sequences.
        quantization: levels above 0 that a motif's presence can take; divides k.
    """

    transitions: np.ndarray
    motifs: np.ndarray
    offsets: np.ndarray
    length: int
    quantization: int

    def feasible(self, states: np.ndarray) -> np.ndarray:
        """Whether each sequence [N, L] has no banned transition [N]; any state may come first."""
        return np.all(self.transitions[states[:, :-1], states[:, 1:]] > 0, axis=1)

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Value of each sequence [N, L]: from 0 to 1, or minus infinity where infeasible [N]."""
        value = np.ones(len(states))
        for motif, offsets in zip(self.motifs, self.offsets, strict=True):
            places = np.arange(self.length - offsets[-1])[:, None] + offsets
            found = (states[:, places] == motif).sum(axis=-1).max(axis=-1)
            value *= found * self.quantization // len(motif) / self.quantization
        return np.where(self.feasible(states), value, -np.inf)

    def of_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Value of each sequence of letters, all of this function's length [N]."""
        return self(np.stack([PROTEIN.encode(text) for text in texts]))

    def feasibility(self) -> list[dict[str, Any]]:
        """Constraints that hold exactly for the feasible sequences: states only, and no banned transition."""
        used, rest = np.split(np.array(list(PROTEIN.letters)), [len(self.transitions)])
        items: list[dict[str, Any]] = [{"forbid": {"letters": "".join(rest)}}] if len(rest) else []
        pairs = [f"{used[a]}{used[b]}" for a, b in np.argwhere(self.transitions == 0)]
        return items + ([{"pattern": {"regex": f"(?:{'|'.join(pairs)})", "exactly": 0}}] if pairs else [])

    def optimality(self) -> list[dict[str, Any]]:
        """Constraints that, with those of :meth:`feasibility`, hold exactly for the sequences of value 1."""
        patterns = []
        for motif, offsets in zip(self.motifs, self.offsets, strict=True):
            gaps = ["." * (gap - 1) for gap in np.diff(offsets, prepend=-1)]
            patterns.append("".join(gap + PROTEIN.letters[state] for gap, state in zip(gaps, motif, strict=True)))
        return [{"pattern": {"regex": pattern, "at_least": 1}} for pattern in patterns]


def make_ehrlich(
    *, states: int, length: int, motifs: int, motif_length: int, quantization: int | None = None, seed: int = 0
) -> Ehrlich:
    """A random Ehrlich function of which some feasible sequence has the value 1.

    The construction is holo's (Stanton et al. 2024): transition probabilities are a softmax of normal noise
    at temperature 1/2, kept on a cyclic band whose rows are shuffled and on the diagonal; the motifs are consecutive
    pieces of one stationary walk, which makes every motif and their succession feasible; each motif's gaps share
    ``length // motifs`` places at random. From three states on, fewer states ban a letter than a closed set of states
    would need, so that the chain is always ergodic.

    Args:
        states: size of the alphabet, 3 to 20.
        length: of the sequences, at least ``motifs * motif_length``.
        motifs: number of motifs.
        motif_length: elements of each motif, at least 2.
        quantization: levels of a motif's presence, a divisor of ``motif_length``; by default ``motif_length``.
        seed: of numpy's generator.

    Raises:
        InputError: a number is out of its range.
    """
    quantization = motif_length if quantization is None else quantization
    if not 3 <= states <= len(PROTEIN):
        raise InputError(f"states must be 3 to {len(PROTEIN)}, got {states}")
    if motifs < 1 or motif_length < 2:
        raise InputError(f"need at least 1 motif of at least 2 elements, got {motifs} of {motif_length}")
    if length < motifs * motif_length:
        raise InputError(
            f"{motifs} motifs of {motif_length} elements need length {motifs * motif_length}, got {length}"
        )
    if quantization < 1 or motif_length % quantization:
        raise InputError(f"quantization must divide the motif length {motif_length}, got {quantization}")
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    rng = np.random.default_rng(seed)
    transitions = _transitions(rng, states)
    walk = _walk(rng, transitions, motifs * motif_length)
    weights = rng.random((motifs, motif_length - 1))
    spare = (length - motifs * motif_length) // motifs
    gaps = 1 + np.floor(spare * weights / weights.sum(axis=1, keepdims=True)).astype(int)
    offsets = np.concatenate([np.zeros((motifs, 1), int), gaps.cumsum(axis=1)], axis=1)
    return Ehrlich(
        transitions=transitions,
        motifs=walk.reshape(motifs, motif_length),
        offsets=offsets,
        length=length,
        quantization=quantization,
    )


def _transitions(rng: np.random.Generator, states: int) -> np.ndarray:
    weights = np.exp(2.0 * rng.normal(size=(states, states)))
    apart = (np.arange(states)[None, :] - np.arange(states)[:, None]) % states
    band = np.minimum(apart, states - apart) <= int(0.4 * states)
    weights *= band[rng.permutation(states)] | np.eye(states, dtype=bool)
    return weights / weights.sum(axis=1, keepdims=True)


def _walk(rng: np.random.Generator, transitions: np.ndarray, steps: int) -> np.ndarray:
    """States of one walk of the chain from its stationary distribution."""
    states = len(transitions)
    balance = np.concatenate([transitions.T - np.eye(states), np.ones((1, states))])
    stationary = np.linalg.lstsq(balance, np.eye(states + 1)[-1], rcond=None)[0].clip(0)
    walk = [rng.choice(states, p=stationary / stationary.sum())]
    while len(walk) < steps:
        walk.append(rng.choice(states, p=transitions[walk[-1]]))
    return np.array(walk)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Uniform:
    """A denoiser to which all letters are equally likely, so that designs are uniform given the constraints."""

    letters: int = field(default=len(PROTEIN), metadata={"static": True})

    def __call__(self, canvas: Array, valid: Array, time: Array, conditions: Any = None) -> Array:
        return jnp.zeros((*canvas.shape, self.letters))


def compare(function: Ehrlich, *, n: int, seed: int, steps: int, model: str = "uniform") -> list[dict[str, Any]]:
    """Uniform letters, feasible designs and optimal designs: one row each.

    A row has the number of ``draws``, how many are ``feasible`` and ``optimal``, the ``mean`` (of the feasible ones)
    and ``max`` value, and for designs the ``guarantee``, the probability that plain ``rejection`` of uniform letters
    accepts a sequence, whether that is a ``bound`` from above, and ``seconds`` of sampling, compilation included.
    """
    states = len(function.transitions)
    uniform = np.random.default_rng(seed).integers(0, states, (BASELINE_DRAWS, function.length))
    rows = [{"sequences": "uniform"} | _summary(function(uniform))]
    frequencies = np.where(np.arange(len(PROTEIN)) < states, 1 / states, UNUSED)
    denoiser: Denoiser | None = Uniform() if model == "uniform" else None
    sampling = {"planner": "random", "steps": steps, "batch": min(n, 64)}
    keys = {"length": function.length, "n": n, "seed": seed, "sampling": sampling}
    keys |= {} if denoiser else {"model": model}
    feasible = function.feasibility()
    for name, items in (("feasible", feasible), ("optimal", feasible + function.optimality())):
        problem = prepare(DesignSpec.from_mapping(keys | {"constraints": items}))
        designs = run(problem, denoiser)
        # Motifs kept as one placement count placements and a solver's relaxation leaves some out: bounds from above.
        routes = " ".join(str(row["route"]) for row in problem.compiled.explain())
        facts = {
            "guarantee": designs.guarantee,
            "rejection": problem.acceptance(frequencies),
            "bound": "path" in routes or "solver" in routes,
            "seconds": designs.run["seconds"],
        }
        rows.append({"sequences": name} | _summary(function.of_texts(designs.sequences)) | facts)
    return rows


def _summary(values: np.ndarray) -> dict[str, Any]:
    kept = values[np.isfinite(values)]
    mean, best = (float(kept.mean()), float(kept.max())) if len(kept) else (math.nan, -math.inf)
    return {"draws": len(values), "feasible": len(kept), "optimal": int((kept == 1).sum()), "mean": mean, "max": best}


def show(console: Console, function: Ehrlich, rows: Sequence[dict[str, Any]]) -> None:
    """Print the function and the rows of :func:`compare`; ``<`` marks a bound, ``law`` is the guarantee."""
    motifs = ", ".join(item["pattern"]["regex"] for item in function.optimality())
    banned = int((function.transitions == 0).sum())
    console.print(f"{banned} banned transitions of {function.transitions.size}; motifs {motifs}", highlight=False)
    table = Table("sequences", header_style="bold", box=None)
    for column in ("draws", "feasible", "h = 1", "mean h", "max h", "law", "rejection", "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        accepts = f"{'< ' * row['bound']}{row['rejection']:.2g}" if "rejection" in row else ""
        shares = (f"{row[key] / row['draws']:.2%}" for key in ("feasible", "optimal"))
        figures = (f"{row['mean']:.4f}", f"{row['max']:.4f}", row.get("guarantee", ""))
        seconds = str(row.get("seconds", ""))
        table.add_row(row["sequences"], str(row["draws"]), *shares, *figures, accepts, seconds)
    console.print(table)


class Settings(NamedTuple):
    """The function and the draws.

    Attributes:
        states: size of the alphabet, 3 to 20.
        length: of the sequences, at least motifs x motif length.
        motifs: number of motifs.
        motif_length: elements of each motif.
        quantization: levels of a motif's presence; 0 for the motif length.
        n: designs of each kind.
        seed: of the function and of the designs.
        model: ``uniform``, a bundled name or a folder.
        steps: most denoiser calls for a design.
    """

    states: int = 20
    length: int = 32
    motifs: int = 4
    motif_length: int = 4
    quantization: int = 0
    n: int = 100
    seed: int = 0
    model: str = "uniform"
    steps: int = 16


def main(words: Sequence[str]) -> list[dict[str, Any]]:
    """Make a function, draw designs and print the comparison.

    Raises:
        InputError: an impossible size.
        SeqdiffError: a draw is not what was promised.
    """
    settings = read_settings(Settings(), words)
    function = make_ehrlich(
        states=settings.states,
        length=settings.length,
        motifs=settings.motifs,
        motif_length=settings.motif_length,
        quantization=settings.quantization or None,
        seed=settings.seed,
    )
    rows = compare(function, n=settings.n, seed=settings.seed, steps=settings.steps, model=settings.model)
    show(Console(), function, rows)
    _, feasible, optimal = rows
    if not feasible["feasible"] == optimal["optimal"] == settings.n:
        raise SeqdiffError("a draw is not what was promised; please report this")
    return rows


if __name__ == "__main__":
    run_main(main)
