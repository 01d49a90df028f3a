"""What speculation saves: calls in depth, rows and seconds against one position at a time, in one run.

    python -m seqdiff.experiments.bench.speculative [toy|protein] [n=32] [length=64] [drafts=2,4,8] [out=FILE.json]

``toy`` is the Markov chain of ``seqdiff.experiments.bench.quality`` with its exact denoiser, ``protein`` the bundled
network; both by default. Drafts are the sampler's own (its last logits) or, on the chain, those of independent letters.

*Calls* are rounds of the denoiser one after another (mean over designs; a batch lasts as long as its slowest design),
*kept* the drafted letters kept per round, *rows* the rows of the network that the whole batch evaluated, per design. A
round commits one letter more than it keeps unless it keeps all. Seconds are the faster of two runs after a warm-up.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.constraints.program import compile_constraints
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Denoiser, Program
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.layout import Layout
from seqdiff.domains.protein import PROTEIN
from seqdiff.experiments.bench import metrics
from seqdiff.experiments.bench.quality import TOY, markov_chain
from seqdiff.experiments.settings import run_main
from seqdiff.models.oracles import MarkovLaw
from seqdiff.models.store import load_model
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import LeftToRight, Random, Spread
from seqdiff.sampling.planners.ranking import FixedOrder
from seqdiff.sampling.speculative import sample_speculative

ORDERS: dict[str, FixedOrder] = {"random": Random(), "spread": Spread(), "left_to_right": LeftToRight()}
REPEATS = 2
COLUMNS = ("part", "order", "drafter", "drafts", "calls", "slowest", "kept", "kept_share", "rows", "seconds")
Row = dict[str, Any]


def measure(
    part: str,
    denoiser: Denoiser,
    alphabet: Alphabet,
    drafters: dict[str, Denoiser | None],
    *,
    n: int,
    length: int,
    drafts: Sequence[int],
    law: MarkovLaw | None = None,
) -> Iterator[Row]:
    """One position at a time, then every number of drafts with every drafter, for every order."""
    program = compile_constraints((), Layout(alphabet, length, length)).program(length)
    process = Process(mask=alphabet.mask)
    task = Task(
        keys=row_keys(0, jnp.arange(n)),
        canvas=jnp.full((n, length), alphabet.mask, jnp.int32),
        length=jnp.full((n,), length, jnp.int32),
        bias=jnp.zeros((length, len(alphabet))),
        steps=jnp.int32(length),
        temperature=jnp.ones((2,)),
    )
    for order, planner in ORDERS.items():
        head: Row = {"part": part, "order": order, "n": n, "length": length}
        seconds, samples = _fastest(lambda planner=planner: sample(denoiser, program, task, planner, process=process))
        plain = {"drafter": "none", "drafts": 1, "calls": float(samples.calls.mean()), "rows": float(length)}
        yield head | plain | {"slowest": length, "seconds": seconds} | _variation(samples.tokens, law)
        for name, drafter in drafters.items():
            for k in drafts:
                found = _speculate(denoiser, program, task, planner, drafter, process=process, k=k)
                tokens = found.pop("tokens")
                yield head | {"drafter": name, "drafts": k} | found | _variation(tokens, law)


def _speculate(
    denoiser: Denoiser,
    program: Program,
    task: Task,
    planner: FixedOrder,
    drafter: Denoiser | None,
    *,
    process: Process,
    k: int,
) -> Row:
    seconds, (samples, fared) = _fastest(
        lambda: sample_speculative(denoiser, program, task, planner, drafter=drafter, process=process, drafts=k)
    )
    rounds = samples.calls - int(drafter is None)
    return {
        "calls": float(samples.calls.mean()),
        "slowest": int(samples.calls.max()),
        "kept": float(fared.accepted.sum() / rounds.sum()),
        "kept_share": float(fared.accepted.sum() / fared.drafted.sum()),
        "rows": float(rounds.max() * k + int(drafter is None)),
        "seconds": seconds,
        "tokens": samples.tokens,
    }


def _fastest(call: Callable[[], Any]) -> tuple[float, Any]:
    result = jax.device_get(call())
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - started)
    return best, result


def _variation(tokens: np.ndarray, law: MarkovLaw | None) -> Row:
    return {} if law is None else {"variation": metrics.pair_variation(tokens, law)}


def rows_of(part: str, *, n: int, length: int, drafts: Sequence[int]) -> Iterator[Row]:
    """The rows of one world."""
    if part == "toy":
        law = markov_chain()
        independent = replace(law, transition=jnp.broadcast_to(law.start, law.transition.shape))
        drafters = {"own": None, "independent letters": independent}
        return measure(part, law, TOY, drafters, n=n, length=length, drafts=drafts, law=law)
    model = load_model("protein-small", PROTEIN)
    return measure(part, model, PROTEIN, {"own": None}, n=n, length=length, drafts=drafts)


def main(words: Sequence[str]) -> list[Row]:
    """Measure, print a Markdown table, write JSON after every row."""
    parts = [word for word in words if "=" not in word] or ["toy", "protein"]
    for part in parts:
        if part not in ("toy", "protein"):
            raise unknown_key("benchmark", part, ("toy", "protein"))
    values = {"n": "32", "length": "64", "drafts": "2,4,8", "out": ""}
    for key, value in (word.split("=", 1) for word in words if "=" in word):
        if key not in values:
            raise unknown_key("option", key, values)
        values[key] = value
    try:
        n, length, drafts = int(values["n"]), int(values["length"]), [int(k) for k in values["drafts"].split(",")]
    except ValueError:
        raise InputError("n, length and drafts are whole numbers, such as drafts=2,4") from None
    rows: list[Row] = []
    print("| " + " | ".join((*COLUMNS, "variation")) + " |\n|" + " --- |" * (len(COLUMNS) + 1))
    for part in parts:
        for row in rows_of(part, n=n, length=length, drafts=drafts):
            rows.append(row)
            cells = (row.get(name, "") for name in (*COLUMNS, "variation"))
            print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")
            if values["out"]:
                Path(values["out"]).write_text(json.dumps(rows, indent=1) + "\n")
    return rows


if __name__ == "__main__":
    run_main(main)
