"""Driving the loop: rows in batches over all local devices, results back on the host."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from seqdiff.core.contracts import Denoiser, Program
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Samples, Task, particle_keys, row_keys, sample
from seqdiff.sampling.particles import Goal
from seqdiff.sampling.planners import BasePlanner
from seqdiff.sampling.speculative import sample_speculative
from seqdiff.sampling.trace import Trace

_LENGTH_STREAM = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every row of a request shares.

    Attributes:
        canvas: int32 [L]; letters where given, MASK where open; L is the padded size.
        lengths: the lengths to draw from for each row.
        weights: of the lengths, None for equal ones.
        bias: float32 [L, V], added to the scaled log-probabilities.
        steps: most denoiser calls per design.
        temperature: of the denoiser's distribution, above 0: one number, or the first and the limit of a line.
        planner: which positions to commit at a step.
        process: whose noise open positions show.
        particles: attempts per design that are weighed against each other.
        goals: soft goals.
        drafts: positions drafted per call by speculative sampling, 0 for none.
        trace: statistics to record, None for none.
    """

    canvas: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray | None = None
    bias: np.ndarray
    steps: int
    temperature: float | tuple[float, float]
    planner: BasePlanner
    process: Process
    particles: int = 1
    goals: tuple[Goal, ...] = ()
    drafts: int = 0
    trace: Trace | None = None


def sample_batches(
    denoiser: Denoiser, program: Program, plan: Plan, *, seed: int, rows: int, batch: int, conditions: Any = None
) -> Iterator[tuple[np.ndarray, Samples]]:
    """Sample rows ``0 .. rows-1``, ``batch`` at a time; yields (row numbers, samples as numpy) of each batch.

    Row i depends on (seed, i) and the plan, not on the batch, which counts particles. Batches have one size, which is a
    multiple of the number of local devices, so the loop compiles once; surplus rows of the last batch are dropped.
    """
    mesh = Mesh(np.array(jax.local_devices()), ("batch",))
    by_row, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    size = -(-min(max(batch // plan.particles, 1), rows) // mesh.size) * mesh.size
    shared = jax.device_put((denoiser, program, plan.planner, conditions, plan.goals), everywhere)
    bias = jax.device_put(jnp.asarray(plan.bias, jnp.float32), everywhere)
    steps = jax.device_put(jnp.int32(plan.steps), everywhere)
    temperature = jax.device_put(jnp.broadcast_to(jnp.asarray(plan.temperature, jnp.float32), (2,)), everywhere)
    for first in range(0, rows, size):
        numbers = np.arange(first, first + size)
        keys = particle_keys(row_keys(seed, jnp.asarray(numbers, jnp.int32)), plan.particles)
        length = np.repeat(draw_lengths(seed, numbers, plan.lengths, plan.weights), plan.particles)
        canvas = np.broadcast_to(plan.canvas, (len(length), len(plan.canvas)))
        keys, canvas, length = jax.device_put((keys, canvas, length), by_row)
        task = Task(keys, canvas, length, bias, steps, temperature)
        model, constraints, planner, given, goals = shared
        if plan.drafts:
            drawn, _ = sample_speculative(
                model, constraints, task, planner, given, process=plan.process, drafts=plan.drafts
            )
        else:
            options = {"process": plan.process, "particles": plan.particles, "trace": plan.trace}
            drawn = sample(model, constraints, task, planner, given, goals, **options)
        samples = jax.device_get(drawn)
        kept = min(size, rows - first)
        yield numbers[:kept], jax.tree.map(lambda leaf, kept=kept: leaf[:kept], samples)


def draw_lengths(seed: int, rows: np.ndarray, lengths: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """A length for each row, by ``weights`` over ``lengths``, int32 [len(rows)]; depends on (seed, row) only."""
    keys = row_keys(seed, jnp.asarray(rows, jnp.int32))
    keys = jax.vmap(lambda key: jax.random.fold_in(key, _LENGTH_STREAM))(keys)
    if weights is not None:
        steps = np.cumsum(weights / weights.sum())
        picked = np.searchsorted(steps, np.asarray(jax.vmap(jax.random.uniform)(keys)), side="right")
        return lengths[np.minimum(picked, len(lengths) - 1)].astype(np.int32)
    picked = jax.vmap(lambda key: jax.random.randint(key, (), 0, len(lengths)))(keys)
    return lengths[np.asarray(picked)].astype(np.int32)
