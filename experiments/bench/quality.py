"""Quality against the number of denoiser calls (NFE), for every planner.

    python -m seqdiff.experiments.bench.quality toy [out=toy.json] [plot=toy.svg]
    python -m seqdiff.experiments.bench.quality protein train=train.fasta [test=test.fasta] [out=...] [plot=...]

``toy`` samples a Markov chain of eight letters with its exact denoiser, so whatever is wrong is the sampler's
doing, and a table of all texts of four letters, one position per step, where the law of a sampler can be seen whole.
``protein`` samples a bundled network and scores it by a trigram model of ``train``, a model of another family than the
sampler; ``test`` adds real sequences as the row to compare with.

``out`` is written after every row and read at the start, so an interrupted run goes on and a finished one only draws.
Further options: ``n``, ``length``, ``budgets=4,8``, ``planners=random,spread``, ``reference``: designs of the row to
compare with; for ``toy`` also ``draws``, texts of four letters.

Low perplexity is no merit by itself: a planner that repeats itself has it too, so entropy, repeats and diversity stand
beside it everywhere. Standard errors (``*_error``) are over designs, by a grouped jackknife
where a figure is no mean.
"""

import functools
import json
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seqdiff.constraints.program import compile_constraints
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Denoiser
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.layout import Layout
from seqdiff.domains.protein import PROTEIN, read_fasta
from seqdiff.experiments.baselines import Trigram
from seqdiff.experiments.bench import metrics
from seqdiff.experiments.bench.quality_plot import draw_protein, draw_toy, pivot, tokens_per_call
from seqdiff.experiments.settings import run_main
from seqdiff.models.oracles import JointLaw, MarkovLaw, stationary
from seqdiff.models.store import load_model
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Samples, Task, row_keys, sample
from seqdiff.sampling.planners import (
    P2,
    RDM,
    WINO,
    Ancestral,
    BasePlanner,
    Blocks,
    Confidence,
    Entropy,
    EntropyBound,
    Flow,
    Gibbs,
    Klass,
    LeftToRight,
    Margin,
    MaskGIT,
    Random,
    ReMDM,
    Spread,
    Threshold,
    diffusion_gemma,
)

BUDGETS = (4, 8, 16, 32, 64)
TOY = Alphabet("toy", "ABCDEFGH")
GROUPS = 16
ABSORBING: dict[str, BasePlanner] = {
    "random": Random(),
    "spread": Spread(),
    "left_to_right": LeftToRight(),
    "confidence": Confidence(),
    "margin": Margin(),
    "entropy": Entropy(),
    "blocks(confidence, 16)": Blocks(inner=Confidence(), size=16),
    "threshold 0.9": Threshold(),
    "klass": Klass(),
    "maskgit": MaskGIT(),
    "maskgit, no noise": MaskGIT(noise=0.0, cosine=False),
    "ancestral": Ancestral(),
    "flow": Flow(),
    "remdm cap 0.1": ReMDM(rule="cap", eta=0.1),
    "remdm rescale 0.1": ReMDM(rule="rescale", eta=0.1),
    "remdm confidence 0.9": ReMDM(rule="confidence", eta=0.9),
    "p2": P2(),
    "rdm, noise 1": RDM(noise=1.0),
    "gibbs(random, 2 x 8)": Gibbs(inner=Random(), rounds=2, sites=8),
    "wino": WINO(),
}
UNIFORM: dict[str, BasePlanner] = {
    "uniform: ancestral": Ancestral(),
    "uniform: flow": Flow(),
    "uniform: random, held": Random(),
    "uniform: diffusion_gemma": diffusion_gemma(),
}
GAMMAS = {"toy": (0.1, 0.5, 1.0, 2.0, 4.0), "protein": (1.0, 5.0, 20.0)}
ONE_AT_A_TIME: dict[str, tuple[BasePlanner, int]] = {
    **{name: (ABSORBING[name], 4) for name in ("random", "spread", "left_to_right", "confidence", "margin", "entropy")},
    "entropy_bound 0": (EntropyBound(gamma=0.0), 4),
    "confidence, noise 0.5": (Confidence(noise=0.5), 4),
    "blocks(confidence, 2)": (Blocks(inner=Confidence(), size=2), 4),
    "gibbs(random, 4 x 1)": (Gibbs(inner=Random(), rounds=4, sites=1), 8),
    "random, 2 steps": (Random(), 2),
    "maskgit, no noise": (MaskGIT(noise=0.0, cosine=False), 4),
    "maskgit": (MaskGIT(cosine=False), 4),
    "p2": (P2(), 4),
}
Row = dict[str, Any]


def cases(part: str) -> dict[str, tuple[BasePlanner, float]]:
    """Planners by name, each with its process's share of random letters."""
    bounds = {f"entropy_bound {gamma:g}": EntropyBound(gamma=gamma) for gamma in GAMMAS[part]}
    absorbing = {name: (planner, 0.0) for name, planner in (ABSORBING | bounds).items()}
    return absorbing if part == "protein" else absorbing | {name: (case, 1.0) for name, case in UNIFORM.items()}


def draw(
    denoiser: Denoiser,
    planner: BasePlanner,
    alphabet: Alphabet,
    *,
    name: str,
    n: int,
    length: int,
    steps: int,
    uniform: float = 0.0,
) -> Samples:
    """Designs without constraints at temperature 1, from a seed that depends on the name and the steps."""
    seed = zlib.crc32(f"{name}/{steps}".encode()) & 0x7FFFFFFF
    process = Process(mask=alphabet.mask, uniform=uniform)
    task = Task(
        keys=row_keys(seed, jnp.arange(n)),
        canvas=jnp.full((n, length), alphabet.mask, jnp.int32),
        length=jnp.full((n,), length, jnp.int32),
        bias=jnp.zeros((length, len(alphabet))),
        steps=jnp.int32(steps),
        temperature=jnp.ones((2,)),
    )
    program = compile_constraints((), Layout(alphabet, length, length)).program(length)
    return jax.device_get(sample(denoiser, program, task, planner, process=process))


def markov_chain(letters: int = 8, concentration: float = 0.25, seed: int = 0) -> MarkovLaw:
    """A chain that starts from its stationary law, with Dirichlet rows."""
    rows = np.random.default_rng(seed).dirichlet(np.full(letters, concentration), size=letters)
    transition = jnp.asarray(rows, jnp.float32)
    return MarkovLaw(stationary(transition), transition)


class Known:
    """A law as metrics ask for it again and again: compiled once, its tables computed once."""

    def __init__(self, law: MarkovLaw):
        self.log_prob = jax.jit(law.log_prob)
        self.sample = jax.jit(law.sample, static_argnums=(1, 2))
        self.pair_marginals = functools.cache(law.pair_marginals)


def small_table(length: int = 4, letters: int = 3, seed: int = 0) -> JointLaw:
    """Texts with independent normal log-probabilities of deviation 2: dependence of every order."""
    table = np.random.default_rng(seed).normal(scale=2.0, size=(letters,) * length)
    return JointLaw(jax.nn.log_softmax(jnp.asarray(table, jnp.float32), axis=(0, 1, 2, 3)))


def jackknife(statistic: Callable[[np.ndarray], float], tokens: np.ndarray) -> float:
    """Standard error of a statistic of independent rows, leaving out one group of rows at a time."""
    groups = min(GROUPS, len(tokens) // 2)
    if groups < 2:
        return float("nan")
    number = np.arange(len(tokens)) % groups
    found = np.array([statistic(tokens[number != group]) for group in range(groups)])
    return float(np.sqrt((groups - 1) * found.var()))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of independent values and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def entropy_and_repeats(tokens: np.ndarray) -> Row:
    """Of texts of one length, with errors."""
    share, error = mean_and_error(np.array([metrics.repeats(row).mean() for row in tokens]))
    row = {"entropy": metrics.unigram_entropy(tokens), "entropy_error": jackknife(metrics.unigram_entropy, tokens)}
    return row | {"repeats": share, "repeats_error": error}


def measure_toy(law: metrics.Law, tokens: np.ndarray) -> Row:
    """Pairs one and four apart, likelihood, entropy and repeats of texts of the chain."""
    nll, error = metrics.mean_nll(tokens, law)
    apart = {f"variation_{lag}": metrics.pair_variation(tokens, law, lag) for lag in (1, 4)}
    return {"nll": nll, "nll_error": error} | apart | entropy_and_repeats(tokens)


def measure_protein(scorer: metrics.Scorer, tokens: np.ndarray) -> Row:
    """Perplexity under the scorer, entropy, repeats and diversity of sequences of one length."""
    nats, error = mean_and_error(np.array([scorer.nats(row) for row in tokens]) / tokens.shape[1])
    row = {"perplexity": float(np.exp(nats)), "perplexity_error": float(np.exp(nats)) * error}
    apart = {"diversity": metrics.diversity(tokens), "diversity_error": jackknife(metrics.diversity, tokens)}
    return row | entropy_and_repeats(tokens) | apart


class Ledger:
    """Rows in a file that is whole after every row; rows already there are not measured again."""

    def __init__(self, path: str | None):
        self.path = Path(path) if path else None
        self.rows: list[Row] = json.loads(self.path.read_text()) if self.path and self.path.exists() else []

    def add(self, part: str, planner: str, steps: int, measure: Callable[[], Row]) -> None:
        """Measure a row unless it is there."""
        key = {"part": part, "planner": planner, "steps": steps}
        if any(key.items() <= row.items() for row in self.rows):
            return
        self.rows.append(key | measure())
        print(self.rows[-1], file=sys.stderr, flush=True)
        if self.path:
            self.path.write_text(json.dumps(self.rows, indent=1) + "\n")


def sweep(
    ledger: Ledger,
    part: str,
    denoise: Callable[[float], Denoiser],
    alphabet: Alphabet,
    measure: Callable[[np.ndarray], Row],
    options: "Options",
) -> None:
    """One position at a time, letters in one or two calls, then every planner at every budget, small budgets first."""
    chosen = options.chosen(cases(part))
    cells = [("random", steps) for steps in (options.length, 1, 2) if "random" in chosen]
    for name, steps in cells + [(name, steps) for steps in options.budgets for name in chosen]:
        n = options.reference if name == "random" and steps == options.length else options.n

        def row(name=name, steps=steps, n=n) -> Row:
            planner, uniform = chosen[name]
            samples = draw(
                denoise(uniform), planner, alphabet, name=name, n=n, length=options.length, steps=steps, uniform=uniform
            )
            used = {"n": n, "length": options.length, "calls": float(samples.calls.mean())}
            return used | measure(np.asarray(samples.tokens))

        ledger.add(part, name, steps, row)


def toy(ledger: Ledger, options: "Options") -> None:
    """The chain, its floor and the table of all short texts."""
    law = markov_chain()
    known = Known(law)
    n, length = options.n, options.length

    def floor() -> Row:
        drawn = np.asarray(known.sample(jax.random.key(1), 8 * n, length))
        floors = {lag: metrics.pair_variation_floor(known, n, length, lag) for lag in (1, 4)}
        found = {f"variation_{lag}": at.mean for lag, at in floors.items()}
        found |= {f"variation_{lag}_error": at.deviation for lag, at in floors.items()}
        return {"n": n, "length": length} | measure_toy(known, drawn) | found

    ledger.add("toy", "true draws", 0, floor)
    by_noise = {uniform: replace(law, process=Process(mask=TOY.mask, uniform=uniform)) for uniform in (0.0, 1.0)}
    sweep(ledger, "toy", by_noise.__getitem__, TOY, lambda tokens: measure_toy(known, tokens), options)
    table = small_table()
    p = np.exp(np.asarray(table.table, float))
    true = [
        metrics.divergence(np.asarray(table.sample(key, options.draws, 4)), p / p.sum()).variation
        for key in jax.random.split(jax.random.key(2), 20)
    ]
    for name, (planner, steps) in options.chosen(ONE_AT_A_TIME).items():

        def row(name=name, planner=planner, steps=steps) -> Row:
            letters = Alphabet("table", "ABC")
            samples = draw(table, planner, letters, name=name, n=options.draws, length=4, steps=steps)
            found = metrics.divergence(np.asarray(samples.tokens), p / p.sum())
            _, counts = np.unique(samples.tokens, axis=0, return_counts=True)
            f = counts / counts.sum()
            return {
                "n": options.draws,
                "value_dependent": planner.value_dependent,
                "calls": float(samples.calls.mean()),
                "variation": found.variation,
                "expected": found.expected_variation,
                "deviation": float(np.std(true, ddof=1)),
                "entropy": float(-(f * np.log(f)).sum()),
                "law_entropy": float(-(p * np.log(p)).sum() / p.sum()),
            }

        ledger.add("table", name, steps, row)


def protein(ledger: Ledger, options: "Options") -> None:
    """The bundled network against real sequences."""
    if not options.train:
        raise InputError("the scorer is counted from sequences; give train=FILE.fasta")
    scorer = Trigram([PROTEIN.encode(text) for text in _texts(options.train)], len(PROTEIN))
    if options.test:
        length = options.length
        real = [PROTEIN.encode(text) for text in _texts(options.test) if len(text) >= length]
        rng = np.random.default_rng(0)
        first = [rng.integers(len(text) - length + 1) for text in real]
        crops = {
            "real, from the start": [text[:length] for text in real],
            "real, any window": [text[i : i + length] for text, i in zip(real, first, strict=True)],
        }
        for name, texts in crops.items():
            used = {"n": len(texts), "length": length}
            ledger.add(
                "protein", name, 0, lambda used=used, texts=texts: used | measure_protein(scorer, np.stack(texts))
            )
    model = load_model("protein-small", PROTEIN)
    sweep(ledger, "protein", lambda _: model, PROTEIN, lambda tokens: measure_protein(scorer, tokens), options)


def _texts(path: str) -> list[str]:
    return [str(record.seq) for record in read_fasta(path)]


class Options:
    """Options of the command line, ``key=value`` each."""

    def __init__(self, part: str, words: Sequence[str]):
        toy = part == "toy"
        values = {"out": "", "plot": "", "length": "64", "budgets": ",".join(map(str, BUDGETS)), "planners": ""}
        values |= {"n": "512" if toy else "64", "reference": "512" if toy else "256", "draws": "16384"}
        values |= {"train": "", "test": ""}
        for word in words:
            key, sign, value = word.partition("=")
            if not sign or key not in values:
                raise unknown_key("option", word, [f"{key}=" for key in values])
            values[key] = value
        try:
            self.n, self.length, self.reference, self.draws = (
                int(values[key]) for key in ("n", "length", "reference", "draws")
            )
            self.budgets = tuple(map(int, values["budgets"].split(",")))
        except ValueError:
            raise InputError("n, length, reference, draws and budgets are whole numbers, such as budgets=4,8") from None
        self.out, self.plot, self.train, self.test = (values[key] for key in ("out", "plot", "train", "test"))
        self._planners = [name for name in values["planners"].split(",") if name]

    def chosen(self, known: dict[str, Any]) -> dict[str, Any]:
        """Those planners of ``known`` whose name starts with one that was asked for; all by default."""
        return {name: case for name, case in known.items() if name.startswith(tuple(self._planners or [""]))}


def main(words: Sequence[str]) -> list[Row]:
    """Measure, print Markdown tables, draw."""
    part = words[0] if words else ""
    if part not in ("toy", "protein"):
        raise unknown_key("benchmark", part, ("toy", "protein"))
    options = Options(part, words[1:])
    ledger = Ledger(options.out)
    (toy if part == "toy" else protein)(ledger, options)
    rows = ledger.rows
    for metric in (*("variation_1", "variation_4", "nll", "perplexity", "entropy", "repeats", "diversity"), "calls"):
        if any(row["part"] == part and metric in row for row in rows):
            print(pivot(rows, part, metric), end="\n\n")
    for row in rows:
        if row["part"] == "table":
            print("| {planner} | {steps} | {variation:.4f} | {expected:.4f} | {entropy:.3f} |".format(**row))
    for strict in (False, True) if part == "toy" else (True,):
        print()
        for row in tokens_per_call(rows, part, strict=strict):
            print("| {planner} | {steps} | {calls:.1f} | {tokens_per_call:.1f} |".format(**row))
    if options.plot:
        (draw_toy if part == "toy" else draw_protein)(rows, Path(options.plot))
    return rows


if __name__ == "__main__":
    run_main(main)
