"""Cost of the constraints: the whole constrained loop over bare forward passes of the same count, in one run.

    python -m seqdiff.experiments.bench.loop_overhead [model=FOLDER] [out=FILE.json] [planners=all|NAME,NAME]

Three planners on three sets of constraints; with ``planners`` those or all, on the background panel and L = 256.

Both sides are one compiled call on the same shapes and the same network; the bare one evaluates the denoiser as often
and does nothing else. The two alternate, and the ratio is that of the fastest repeats.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from seqdiff.core.contracts import Denoiser
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.settings import run_main
from seqdiff.models.store import load_model
from seqdiff.request.planners import parse_planner
from seqdiff.request.problem import Problem, prepare
from seqdiff.request.spec import DesignSpec
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import PLANNERS, BasePlanner

BATCH, STEPS, REPEATS = 16, 8, 3
SETS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "background panel": [
        {"forbid": {"letters": "C"}},
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
        {"run": {"max": 3}},
        {"pattern": {"regex": "[KR][KR]", "exactly": 0}},
        {"pattern": {"regex": "ENLYFQ[GS]", "exactly": 0}},
        {"pattern": {"regex": "N[GD]", "exactly": 0}},
    ],
    "zinc finger": [
        {"fixed": {1: "M"}},
        {"count": {"letters": "M", "exactly": 1}},
        {"pattern": {"prosite": "C-x(2,4)-C-x(3)-[LIVMFYWC]-x(8)-H-x(3,5)-H"}},
        {"count": {"letters": "C", "exactly": 2}},
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
        {"run": {"max": 3}},
    ],
}


EVERY: dict[str, Any] = {
    **{name: name for name in PLANNERS if name not in ("blocks", "gibbs", "order", "until_stable")},
    "blocks": {"blocks": {"inner": "confidence"}},
    "gibbs": {"gibbs": {"inner": "random", "rounds": 2}},
    "order": {"order": {"positions": "101-256,1-100"}},
    "diffusion_gemma": "diffusion_gemma",
}


def main(words: Sequence[str]) -> None:
    """Measure, print the table, write JSON after every row."""
    options = dict(word.split("=", 1) for word in words)
    if unknown := next((key for key in options if key not in ("model", "planners", "out")), None):
        raise unknown_key("option", unknown, ("model", "planners", "out"))
    denoiser = load_model(options.get("model", "protein-small"), PROTEIN)
    table = Table("L", "constraints", "planner", "states", "bare s", "loop s", "ratio", header_style="bold", box=None)
    rows = []
    asked = options.get("planners", "")
    names = list(EVERY) if asked == "all" else asked.split(",") if asked else ["random", "confidence", "entropy_bound"]
    for length in (256,) if asked else (128, 256):
        for name in ("background panel",) if asked else SETS:
            problem = prepare(DesignSpec.from_mapping({"length": length, "constraints": SETS[name]}))
            for planner in names:
                row = measure(denoiser, problem, parse_planner(EVERY[planner]))
                rows.append({"length": length, "constraints": name, "planner": planner} | row)
                figures = (str(row["states"]), f"{row['bare']:.3f}", f"{row['loop']:.3f}", f"{row['ratio']:.3f}")
                table.add_row(str(length), name, planner, *figures)
                if "out" in options:
                    Path(options["out"]).write_text(json.dumps(rows, indent=1) + "\n")
    Console().print(table)


def measure(denoiser: Denoiser, problem: Problem, planner: BasePlanner) -> dict[str, float]:
    """Seconds of the loop and of as many bare forward passes, and their ratio."""
    plan = problem.plan()
    length = jnp.full((BATCH,), problem.spec.length[1], jnp.int32)
    canvas = jnp.asarray(np.broadcast_to(plan.canvas, (BATCH, problem.size)))
    task = Task(
        row_keys(0, jnp.arange(BATCH)), canvas, length, jnp.asarray(plan.bias), jnp.int32(STEPS), jnp.ones((2,))
    )
    program = problem.compiled.program(problem.size)

    def loop() -> Any:
        return sample(denoiser, program, task, planner, process=plan.process)

    calls = int(np.max(loop().calls))

    @jax.jit
    def forwards(denoiser: Denoiser, canvas: jax.Array) -> jax.Array:
        valid = jnp.ones(canvas.shape, bool)

        def step(_: int, canvas: jax.Array) -> jax.Array:
            logits = denoiser(canvas, valid, jnp.full((BATCH,), 0.5))
            # Depends on the logits but never changes the canvas, so that no pass can be left out.
            return jnp.where(jnp.max(logits, axis=-1) > 1e30, 0, canvas)

        return jax.lax.fori_loop(0, calls, step, canvas)

    seconds = _alternate(lambda: forwards(denoiser, canvas), loop)
    return {
        "states": problem.compiled.states,
        "calls": calls,
        "bare": seconds[0],
        "loop": seconds[1],
        "ratio": seconds[1] / seconds[0],
    }


def _alternate(*calls: Callable[[], Any]) -> list[float]:
    """Fastest of ``REPEATS`` timings of each call, taken in turn after one warm-up."""
    for call in calls:
        jax.block_until_ready(call())
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for i, call in enumerate(calls):
            started = time.perf_counter()
            jax.block_until_ready(call())
            best[i] = min(best[i], time.perf_counter() - started)
    return best


if __name__ == "__main__":
    run_main(main)
