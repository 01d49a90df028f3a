"""A spec made ready for the sampler: constraints compiled, canvas and bias laid out. No model is needed yet."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.constraints.program import Compiled, compile_constraints
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.layout import format_positions
from seqdiff.process.noise import Process
from seqdiff.request.goals import compile_goals
from seqdiff.request.spec import DesignSpec
from seqdiff.sampling.batches import Plan

BUCKET = 16


@dataclass(frozen=True)
class Problem:
    """A compiled spec.

    Attributes:
        spec: the spec.
        alphabet: its letters.
        compiled: the constraints, fused for the spec's lengths.
    """

    spec: DesignSpec
    alphabet: Alphabet
    compiled: Compiled

    @property
    def chains(self) -> tuple[str, ...]:
        """Names of the chains of the canvas, where it has several."""
        places = self.spec.places
        return () if places is None else places.chains

    @property
    def size(self) -> int:
        """Positions of the padded canvas: lengths are rounded up so that close ones share a compiled loop."""
        return -(-self.spec.length[1] // BUCKET) * BUCKET

    def plan(self, denoiser: Any = None) -> Plan:
        """What the sampler needs beside a denoiser and the program; determined letters are on the canvas already.

        Args:
            denoiser: that designs; its process is absorbing where it does not say, or where there is none.
        """
        determined = self.compiled.determined()
        canvas = np.full(self.size, self.alphabet.mask, np.int32)
        canvas[: len(determined)] = np.where(determined >= 0, determined, self.alphabet.mask)
        sampling = self.spec.sampling
        lengths = self._lengths()
        return Plan(
            canvas=canvas,
            lengths=lengths,
            weights=self._weights(lengths),
            bias=self._bias(),
            steps=sampling.steps,
            temperature=sampling.temperature,
            planner=sampling.planner,
            process=getattr(denoiser, "process", None) or Process(mask=self.alphabet.mask),
            particles=sampling.particles,
            goals=compile_goals(self.spec.goals, self.alphabet, denoiser, self.chains),
            drafts=sampling.drafts,
        )

    def acceptance(self, frequencies: np.ndarray) -> float:
        """Probability that letters drawn independently from ``frequencies`` [V] satisfy the constraints.

        The mean over the lengths that designs can have: an estimate of what plain rejection sampling would accept. With
        constraints that the solver keeps it is an upper bound, because it leaves those out.
        """
        return float(np.exp(self.log_evidence(frequencies, self.compiled.lengths())).mean())

    def log_evidence(self, frequencies: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Log-probability of :meth:`acceptance` for each of ``lengths``, float [len(lengths)]."""
        log_p = jnp.log(jnp.asarray(frequencies, jnp.float32))
        proposal = jnp.broadcast_to(log_p, (len(lengths), self.size, len(log_p)))
        canvas = jnp.full((len(lengths), self.size), self.alphabet.mask, jnp.int32)
        program = self.compiled.relaxation(self.size)
        evidence = jax.jit(type(program).log_evidence)(program, proposal, canvas, jnp.asarray(lengths, jnp.int32))
        return np.asarray(evidence, float)

    def _lengths(self) -> np.ndarray:
        """Feasible lengths that the spec's draw can give."""
        lengths, draw = self.compiled.lengths(), self.spec.draw
        if isinstance(draw, str):
            return lengths
        listed = {n for n, _ in draw}
        kept = np.array([n for n in lengths.tolist() if n in listed])
        if not len(kept):
            raise InputError(f"no length in 'draw' is feasible; feasible are {format_positions(lengths.tolist())}")
        return kept

    def _weights(self, lengths: np.ndarray) -> np.ndarray | None:
        draw = self.spec.draw
        if draw == "uniform":
            return None
        if isinstance(draw, tuple):
            return np.array([dict(draw)[n] for n in lengths.tolist()])
        evidence = self.log_evidence(self.background(), lengths)
        return np.exp(evidence - evidence.max())

    def background(self) -> np.ndarray:
        """Frequencies of the letters where no model is asked: of proteins, or equal ones."""
        own = self.spec.setting
        return own.background if self.alphabet == own.alphabet else np.full(len(self.alphabet), 1 / len(self.alphabet))

    def _bias(self) -> np.ndarray:
        bias = np.zeros((self.size, len(self.alphabet)), np.float32)
        for item in self.spec.bias:
            columns = [self.alphabet.letters.index(letter) for letter in item.letters]
            for region in item.regions:
                region.check(self.spec.layout(self.alphabet), "bias")
                bias[region.first - 1 : region.last, columns] += item.add
        return bias


def prepare(spec: DesignSpec, alphabet: Alphabet | None = None) -> Problem:
    """Compile the constraints of ``spec``.

    Raises:
        InputError: a constraint does not fit the canvas, nothing satisfies them all, or they are over budget.

    Example:
        >>> spec = DesignSpec.from_mapping({"length": 20, "constraints": [{"pattern": {"regex": "RGD"}}]})
        >>> problem = prepare(spec)
        >>> problem.compiled.guarantee, problem.size
        ('exact', 32)
        >>> f"{problem.acceptance(problem.background()):.4f}"  # of random sequences
        '0.0035'
    """
    alphabet = spec.setting.alphabet if alphabet is None else alphabet
    layout = spec.layout(alphabet)
    if layout.max_length > MAX_LENGTH:
        raise InputError(f"length {layout.max_length} is over the limit of {MAX_LENGTH}")
    compiled = compile_constraints(spec.all_constraints(), layout)
    for part in compiled.parts if spec.sampling.drafts else ():
        if "solver" in part.route or "path" in part.route:
            raise InputError(
                f"drafts={spec.sampling.drafts}: speculation needs exact marginals, but {part.constraint.describe()} "
                f"is kept by the {part.route} route; leave drafts out"
            )
    return Problem(spec, alphabet, compiled)


MAX_LENGTH = 8192
