"""``seqdiff.design``: from a spec to checked designs."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import seqdiff
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, SeqdiffError
from seqdiff.core.status import Outcome
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.chains import PerChain
from seqdiff.models.store import load_model
from seqdiff.models.uniform import NAME as UNIFORM
from seqdiff.models.uniform import Uniform
from seqdiff.request.designs import Design, Designs
from seqdiff.request.dna import DnaRules, backtranslate
from seqdiff.request.goals import PropertyGoal
from seqdiff.request.labels import LabelGoal
from seqdiff.request.problem import Problem, prepare
from seqdiff.request.spec import DesignSpec, read_mapping
from seqdiff.sampling.batches import Plan, sample_batches
from seqdiff.sampling.goals import goal_failure
from seqdiff.sampling.loop import Samples

Progress = Callable[[str, int], None]


def design(spec: DesignSpec | Mapping[str, Any] | str | Path | None = None, /, **keys: Any) -> Designs:
    """Design sequences that satisfy every constraint.

    Args:
        spec: a :class:`DesignSpec`, a mapping, or the path of a YAML file; see ``docs/spec.md`` for its keys.
        **keys: the same keys as keyword arguments; they replace those of ``spec``. ``model`` may also be a denoiser
            (a callable pytree, see ``seqdiff.core.contracts``), and ``constraints`` may hold constraint objects.

    Returns:
        The designs with scores and the verdicts of the independent check.

    Raises:
        InputError: an unknown key, a value that cannot be used, or constraints that nothing satisfies; before the
            model runs.

    Example:
        >>> import seqdiff
        >>> rules = [{"forbid": {"letters": "C"}}, {"pattern": {"regex": "RGD"}}]
        >>> designs = seqdiff.design(length=16, n=2, constraints=rules, sampling={"steps": 2})
        >>> designs
        Designs(2 designs, 2 satisfy all 2 constraints, guarantee 'exact')
        >>> ["RGD" in sequence for sequence in designs.sequences]
        [True, True]
    """
    model = keys["model"] if callable(keys.get("model")) else None
    if model is not None:
        keys["model"] = f"<{type(model).__name__}>"
    problem = prepare(_spec(spec, keys))
    return run(problem, model)


def run(problem: Problem, model: Denoiser | None = None, progress: Progress = lambda stage, done: None) -> Designs:
    """Sample a prepared problem.

    Args:
        problem: from :func:`seqdiff.request.problem.prepare`.
        model: the denoiser; by default the one that the spec names.
        progress: told of the stage and of the number of designs done.

    Raises:
        SeqdiffError: the denoiser broke down before the first batch was done. Later, or when the user interrupts, the
            designs that are done are returned and ``Designs.stopped`` says why.
    """
    spec = problem.spec
    started = time.perf_counter()
    progress("loading the model", 0)
    denoiser, conditions = _model(problem, model)
    program = problem.compiled.program(problem.size)
    constraints = spec.all_constraints()
    designs: list[Design] = []
    stopped = ""
    progress("compiling the sampler", 0)
    plan = problem.plan(denoiser)
    label = _labels(problem, denoiser)
    batches = sample_batches(
        denoiser, program, plan, seed=spec.seed, rows=spec.n, batch=spec.sampling.batch, conditions=conditions
    )
    try:
        for rows, samples in batches:
            _check(rows, samples)
            labels = label(samples)
            designs += [_design(problem, constraints, int(row), samples, labels, i) for i, row in enumerate(rows)]
            progress("sampling", len(designs))
    except (SeqdiffError, KeyboardInterrupt) as error:
        if not designs:
            raise
        stopped = str(error) or "interrupted"
    except jax.errors.JaxRuntimeError as error:
        failure = goal_failure(error)
        if failure is None:
            raise
        if not designs:
            raise SeqdiffError(failure) from None
        stopped = failure
    if spec.dna is not None:
        progress("writing DNA", 0)
        designs = [_coded(design, spec.dna, spec.seed) for design in designs]
    seconds = time.perf_counter() - started
    facts = {
        "versions": versions(),
        "devices": [str(device) for device in jax.local_devices()],
        "seed": spec.seed,
        "guarantee": problem.compiled.guarantee,
        "law": law(plan),
        "states": problem.compiled.states,
        "constraints": problem.compiled.explain(),
        "seconds": round(seconds, 2),
    }
    return Designs(spec, constraints, problem.compiled.guarantee, tuple(designs), facts, stopped)


def load(name_or_path: str | Path) -> Denoiser:
    """A model by itself, to call or to give to :func:`design` as ``model``.

    Args:
        name_or_path: a bundled name, a name of the catalogue (``seqdiff weights list``) or a model folder.

    Raises:
        InputError: it is not on this machine; the message says how to get it.

    Example:
        >>> denoiser = load("protein-small")
        >>> denoiser.alphabet.letters
        'ACDEFGHIKLMNPQRSTVWY'
    """
    return load_model(name_or_path, PROTEIN)


def _model(problem: Problem, model: Denoiser | None) -> tuple[Denoiser, Any]:
    """The denoiser as the spec's canvas needs it, and what it is conditioned on."""
    spec = problem.spec
    denoiser: Any = model if model is not None else _named(spec.model, problem)
    if not getattr(denoiser, "reads_structure", False):
        if spec.structure is not None:
            raise InputError(f"model {spec.model} reads no structure; take proteinmpnn, or add 'contig'")
        if spec.places is None or len(spec.places.chains) == 1:
            return denoiser, spec.setting.conditions(problem.size)
        ends = [spec.places.span(chain) for chain in spec.places.chains]
        return PerChain(denoiser, tuple((first - 1, last - first + 1) for first, last in ends)), None
    if spec.structure is None:
        raise InputError(f"model {spec.model} reads a structure; add structure: FILE")
    return denoiser, spec.structure.encode(denoiser, problem.size, spec.seed)


def _named(name: str, problem: Problem) -> Any:
    return Uniform(len(problem.alphabet)) if name == UNIFORM else load_model(name, problem.alphabet)


def law(plan: Plan) -> str:
    """How the designs' law relates to the model's, beside the constraints, in words."""
    planner = plan.planner
    if planner.value_dependent:
        return "not the model's: which letters are kept depends on the letters drawn"
    if not plan.process.absorbing or not planner.holds or planner.reopens:
        return "that of the process's reverse steps, the closer the more steps"
    if plan.drafts:
        return "the model's at one position per step, by speculation"
    return "the model's at one position per step; positions committed together are independent given the rest"


def versions() -> dict[str, str]:
    """Versions of what decides a result."""
    packages = ("jax", "jaxlib", "flax", "numpy", "biopython")
    found = {package: importlib.metadata.version(package) for package in packages}
    return {"seqdiff": seqdiff.__version__, "python": platform.python_version()} | found


def _spec(spec: DesignSpec | Mapping[str, Any] | str | Path | None, keys: dict[str, Any]) -> DesignSpec:
    if isinstance(spec, DesignSpec):
        if keys:
            raise InputError("give either a DesignSpec or keyword arguments; use dataclasses.replace to change a spec")
        return spec
    folder, mapping = Path(), spec or {}
    if isinstance(mapping, str | Path):
        folder, mapping = Path(mapping).parent, read_mapping(Path(mapping))
    return DesignSpec.from_mapping({**mapping, **keys}, folder=folder)


def _check(rows: np.ndarray, samples: Samples) -> None:
    for row, code in zip(rows, samples.outcome, strict=True):
        if code != Outcome.DONE:
            raise SeqdiffError(f"design {row}: {Outcome(int(code)).sentence}")


def _coded(design: Design, rules: DnaRules, seed: int) -> Design:
    try:
        return replace(design, coding=backtranslate(design.sequence, rules, seed=seed, row=design.index))
    except InputError as error:
        return replace(design, no_coding=str(error))


def _labels(problem: Problem, denoiser: Any) -> Callable[[Samples], dict[str, np.ndarray]]:
    """What the spec's goals about labels measure of finished designs, by the column's name."""
    goals = [goal for goal in problem.spec.goals if isinstance(goal, LabelGoal)]
    measures = {goal.title: goal.measure(denoiser, problem.chains) for goal in goals}

    def label(samples: Samples) -> dict[str, np.ndarray]:
        length = (samples.tokens < len(problem.alphabet)).sum(axis=1)
        return {title: np.exp(measure(samples.tokens, length)) for title, measure in measures.items()}

    return label


def _design(
    problem: Problem,
    constraints: tuple[Any, ...],
    row: int,
    samples: Samples,
    labels: Mapping[str, np.ndarray],
    i: int,
) -> Design:
    open = samples.tokens[i] < len(problem.alphabet)
    length = int(open.sum())
    sequence = problem.alphabet.decode(samples.tokens[i, :length])
    return Design(
        id=f"design_{row:04d}",
        index=row,
        sequence=sequence,
        log_p=np.asarray(samples.log_p[i, :length]),
        order=np.asarray(samples.order[i, :length]),
        calls=int(samples.calls[i]),
        log_evidence=float(samples.log_evidence[i]),
        verdicts=tuple(constraint.holds(sequence) for constraint in constraints),
        log_normaliser=float(samples.log_normaliser[i]),
        ess=float(samples.ess[i]),
        recovery=None if problem.spec.structure is None else problem.spec.structure.recovery(sequence),
        goals={goal.property: goal.value(sequence) for goal in problem.spec.goals if isinstance(goal, PropertyGoal)}
        | {title: float(values[i]) for title, values in labels.items()},
    )
