"""The loop: what it promises about seeds, batches, given letters, steps and compilations."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import Compiled, compile_constraints
from seqdiff.core.contracts import GIVEN
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.core.status import Outcome
from seqdiff.process.noise import Process
from seqdiff.sampling.batches import Plan, draw_lengths, sample_batches
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import BasePlanner, EntropyBound, Random
from seqdiff.sampling.trace import Moment, Trace
from tests.helpers import EVERY_PLANNER, TINY, Neighbours, make_plan, parse

SIZE = 16
TABLE = np.random.default_rng(0).normal(size=(5, 5, 4)).astype(np.float32)


def compiled(items: list[dict], low: int = 11, high: int = 13) -> Compiled:
    return compile_constraints(parse(items), Layout(TINY, low, high))


SOME = compiled([{"pattern": {"regex": "AB.C"}}, {"run": {"max": 2}}, {"fixed": {2: "D"}}])


def plan(problem: Compiled = SOME, **changes) -> Plan:
    canvas = np.full(SIZE, TINY.mask, np.int32)
    determined = problem.determined()
    canvas[: len(determined)] = np.where(determined >= 0, determined, TINY.mask)
    return make_plan(problem, SIZE, **{"canvas": canvas, "steps": 5, "planner": EntropyBound()} | changes)


def run(problem: Compiled = SOME, *, rows: int = 10, batch: int = 10, seed: int = 3, table=TABLE, **changes):
    batches = sample_batches(
        Neighbours(jnp.asarray(table)),
        problem.program(SIZE),
        plan(problem, **changes),
        seed=seed,
        rows=rows,
        batch=batch,
    )
    parts = [samples for _, samples in batches]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def designs(samples) -> list[str]:
    return [TINY.decode(row[row < 4]) for row in samples.tokens]


UNIFORM = Process(mask=TINY.mask, uniform=1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"planner": EntropyBound()},
        {"planner": EVERY_PLANNER["wino"]},
        {"planner": EVERY_PLANNER["remdm_confidence"]},
        {"planner": EVERY_PLANNER["diffusion_gemma"], "process": UNIFORM},
        {"planner": EVERY_PLANNER["ancestral"], "process": UNIFORM},
        {"planner": EntropyBound(), "particles": 4},
    ],
    ids=lambda changes: "-".join(type(value).__name__ for value in changes.values()),
)
def test_designs_depend_on_seed_and_row_only(changes: dict):
    rows = {batch: designs(run(rows=64, batch=batch, **changes)) for batch in (7, 64)}
    assert rows[7] == rows[64]
    assert designs(run(rows=5, batch=7, **changes)) == rows[64][:5]
    assert designs(run(rows=64, batch=64, seed=4, **changes)) != rows[64]


SOME_PLANNERS = ("entropy_bound", "maskgit", "klass", "remdm", "gibbs", "wino", "blocks", "diffusion_gemma")


@pytest.mark.parametrize("planner", SOME_PLANNERS)
def test_every_design_is_complete_within_its_steps(planner: str):
    for steps in (1, 4, 13):
        check_complete(EVERY_PLANNER[planner], steps)


def check_complete(planner: BasePlanner, steps: int) -> None:
    samples = run(steps=steps, planner=planner)
    lengths = draw_lengths(3, np.arange(10), SOME.lengths())
    assert (samples.outcome == Outcome.DONE).all()
    assert (samples.calls <= steps).all()
    assert len(set(lengths)) > 1
    for row, length, text in zip(range(10), lengths, designs(samples), strict=True):
        assert len(text) == length
        assert all(constraint.holds(text).ok for constraint in [part.constraint for part in SOME.parts])
        order = samples.order[row, :length]
        assert order[1] == GIVEN
        assert samples.log_p[row, 1] == 0
        designed = np.delete(order, 1)
        assert designed.min() >= 0
        assert designed.max() < samples.calls[row]
        assert (samples.log_p[row, :length][order >= 0] < 0).all()


def test_bias_and_temperature_steer():
    bias = np.zeros((SIZE, 4), np.float32)
    bias[:, 2] = 30.0
    assert all(text.count("C") >= len(text) - 3 for text in designs(run(compiled([{"fixed": {2: "D"}}]), bias=bias)))
    cold = run(compiled([], 12, 12), temperature=1e-3, planner=Random(), steps=12, rows=40, batch=40)
    warm = run(compiled([], 12, 12), temperature=1.0, planner=Random(), steps=12, rows=40, batch=40)
    assert cold.log_p[:, :12].mean() > warm.log_p[:, :12].mean() + 0.3


def test_logits_that_are_not_finite_are_reported():
    table = TABLE.copy()
    table[:, :, 1] = np.nan
    assert (run(table=table).outcome == Outcome.NOT_FINITE).all()


def test_letters_that_the_model_rules_out_can_still_be_demanded():
    table = TABLE.copy()
    table[:, :, 0] = -1e30
    samples = run(table=table)
    assert (samples.outcome == Outcome.DONE).all()
    assert all(SOME.parts[0].constraint.holds(text).ok for text in designs(samples))


def test_another_motif_of_the_same_shape_compiles_nothing(caplog: pytest.LogCaptureFixture):
    first = compiled([{"pattern": {"regex": "AB.C"}}, {"run": {"max": 2}}])
    second = compiled([{"pattern": {"regex": "CD.A"}}, {"run": {"max": 2}}])
    run(first)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run(second, seed=9, steps=7, temperature=0.7)
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run(second, planner=EntropyBound(gamma=0.123))
    assert [record for record in caplog.records if "Compiling" in record.getMessage()]


def test_nothing_leaves_the_device_inside_the_loop():
    problem = SOME.program(SIZE)
    settings = plan()
    task = Task(
        keys=row_keys(0, jnp.arange(4)),
        canvas=jnp.broadcast_to(jnp.asarray(settings.canvas), (4, SIZE)),
        length=jnp.full((4,), 12),
        bias=jnp.asarray(settings.bias),
        steps=jnp.int32(5),
        temperature=jnp.ones((2,)),
    )
    denoiser = Neighbours(jnp.asarray(TABLE))

    def go(steps: jax.Array):
        return jax.block_until_ready(
            sample(denoiser, problem, task._replace(steps=steps), EntropyBound(), process=settings.process)
        )

    more = jnp.int32(7)
    go(task.steps)
    with jax.transfer_guard("disallow"):
        go(more)
    jaxpr = str(
        jax.make_jaxpr(lambda task: sample(denoiser, problem, task, EntropyBound(), process=settings.process))(task)
    )
    assert "callback" not in jaxpr


def test_a_trace_records_what_is_asked_for():
    names = ("tokens", "commits", "open", "entropy")
    samples = run(steps=6, rows=4, batch=4, trace=Trace((*names, letters_in_place), 6))
    assert set(samples.trace) == {*names, "letters_in_place"}
    for row in range(4):
        calls = samples.calls[row]
        assert samples.trace["commits"][row].sum() == samples.trace["open"][row, 0]
        assert (samples.trace["tokens"][row, calls - 1] == samples.tokens[row]).all()
        assert (samples.trace["commits"][row, calls:] == 0).all()
        assert samples.trace["letters_in_place"][row, calls - 1] == (samples.tokens[row] < TINY.mask).sum()
        np.testing.assert_array_equal(
            np.diff(samples.trace["open"][row, :calls]), -samples.trace["commits"][row, : calls - 1]
        )
    assert run(steps=6, rows=4, batch=4).trace == {}
    with pytest.raises(InputError, match="did you mean 'entrop"):
        Trace(("entropi",), 6)


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=[])
@dataclass(frozen=True)
class Remembers:
    """Says A while it has no prediction of its own to look at, then the letter after its last."""

    self_conditioning = True

    def __call__(self, canvas, valid, time, conditions=None, *, previous):
        none = jnp.sum(previous, axis=-1, keepdims=True) == 0
        return 30.0 * jnp.where(none, jax.nn.one_hot(0, 4)[None, None], jnp.roll(previous, 1, axis=-1))


def test_a_self_conditioned_denoiser_sees_its_last_prediction():
    problem = compiled([], 12, 12)
    settings = plan(problem, planner=EVERY_PLANNER["left_to_right"], steps=4)
    ((_, samples),) = sample_batches(Remembers(), problem.program(SIZE), settings, seed=0, rows=2, batch=2)
    assert designs(samples) == ["AAABBBCCCDDD"] * 2


def letters_in_place(moment: Moment) -> jax.Array:
    return jnp.sum(moment.tokens < TINY.mask, axis=1)


_TWO_DEVICES = """
import json, jax
from tests.sampling.test_loop import designs, run
print(json.dumps([len(jax.local_devices()), designs(run(rows=6, batch=4))]))
"""


def test_two_devices_give_the_designs_of_one():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", _TWO_DEVICES], env=environment, capture_output=True, text=True, check=True
    )
    devices, found = json.loads(done.stdout)
    assert devices == 2
    assert found == designs(run(rows=6, batch=4))
