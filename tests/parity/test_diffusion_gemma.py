"""Our sampler against Transformers' DiffusionGemma: same logits and draws, same decisions.

Sets, canvases, predictions and stops must be equal; marginals agree to 1e-4. What float32 may break either way is left
out and counted, at most ``DOUBTS`` rows of a hundred and more: a sum of entropies or their mean within ``NEAR`` of its
bound, entropies within ``EDGE`` at the end of the accepted set, the two likeliest letters within ``LETTERS``.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import View
from seqdiff.core.layout import Layout
from seqdiff.core.status import Outcome
from seqdiff.process.noise import Process
from seqdiff.sampling.loop import Task, row_keys, sample
from seqdiff.sampling.planners import UntilStable, diffusion_gemma
from seqdiff.sampling.trace import Moment, Trace

VOCAB, CANVAS, ROWS, STEPS = 99, 16, 4, 8
HOT, COLD = 0.8, 0.4
DOUBTS, NEAR, EDGE, LETTERS = 2, 1e-4, 2e-5, 1e-5
MODE_GAP = 0.03

pytestmark = pytest.mark.filterwarnings("ignore")  # torch and transformers warn about their own future


class Case(NamedTuple):
    """``sharpness`` scales the logits; ``pins`` are logits that draw the letters of each row to a target."""

    gamma: float
    sharpness: float
    pins: tuple[float, ...]
    kappa: float
    stability: int = 0

    def planner(self) -> UntilStable:
        return diffusion_gemma(gamma=self.gamma, stability=self.stability, entropy=self.kappa)


CASES = [Case(0.1, 8.0, (40.0, 14.0, 9.0, 0.0), 0.3), Case(20.0, 2.0, (40.0, 8.0, 5.0, 0.0), 0.3)]


class Reference:
    """The real network, small and random: all weights perturbed, norms and both sets of layer scalars included."""

    def __init__(self, case: Case, seed: int, prompt_length: int):
        self.torch = torch = pytest.importorskip("torch")
        self.library = library = pytest.importorskip("transformers")
        if not hasattr(library, "DiffusionGemmaForBlockDiffusion"):
            pytest.skip("this version of transformers has no DiffusionGemma")
        torch.set_num_threads(1)  # more only wait for each other
        sizes = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 128}
        layers = {"layer_types": ["sliding_attention"] * 2 + ["full_attention"], "sliding_window": 8}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
        wide = {"num_global_key_value_heads": 1, "global_head_dim": 24}
        experts = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 8}
        text = library.DiffusionGemmaTextConfig(num_hidden_layers=3, **sizes, **layers, **heads, **wide, **experts)
        eyes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
        vision = library.Gemma4VisionConfig(hidden_size=16, intermediate_size=16, **eyes)
        config = library.DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=CANVAS)
        self.case, self.model = case, library.DiffusionGemmaForBlockDiffusion(config).eval()
        rng = np.random.default_rng(seed)
        with torch.no_grad():
            for weight in self.model.parameters():
                noise = torch.tensor(0.1 * rng.standard_normal(tuple(weight.shape)), dtype=weight.dtype)
                weight.copy_(noise if weight.ndim > 1 else weight + noise)
            self.model.lm_head.weight.mul_(case.sharpness)
            for name, scalar in self.model.named_buffers():
                if name.endswith("layer_scalar"):
                    scalar.fill_(0.8 if "decoder" in name else 1.1)
        torch.manual_seed(seed)
        self.prompt = torch.tensor(rng.integers(3, VOCAB, (ROWS, prompt_length)))
        targets = np.eye(VOCAB)[rng.integers(0, VOCAB, (ROWS, CANVAS))]
        self.pin = (np.array(case.pins)[:, None, None] * targets).astype(np.float32)

    def generate(
        self, monkeypatch: pytest.MonkeyPatch, canvases: int = 1, letters: Any = None, noise: Any = None
    ) -> Any:
        """The steps of a run, and its designs; ``letters`` and ``noise`` replace its categorical and uniform draws."""
        torch, model, case = self.torch, self.model, self.case
        forward, denoise, steps = model.forward, model._denoising_step, []

        def recorder(draw: Callable[..., Any], replay: list[np.ndarray] | None, kept: list[np.ndarray]) -> Any:
            def recorded_draw(*args: Any, **options: Any) -> Any:
                found = draw(*args, **options)
                if replay is not None:
                    found = torch.tensor(replay[len(kept)], dtype=found.dtype).reshape(found.shape)
                kept.append(found.numpy().reshape(ROWS, CANVAS).copy())
                return found

            return recorded_draw

        def pinned(**options: Any) -> Any:
            outputs = forward(**options)
            outputs.logits = outputs.logits + torch.from_numpy(self.pin)
            logits.append(outputs.logits.numpy())
            return outputs

        def recorded(*, current_canvas: Any, cur_step: int, sampler: Any, **options: Any) -> Any:
            found = denoise(current_canvas=current_canvas, cur_step=cur_step, sampler=sampler, **options)
            outputs = zip(("shown", "likeliest", "processed", "finished"), found, strict=True)
            step = SimpleNamespace(**{name: part.numpy().copy() for name, part in outputs})
            step.index, step.seen = STEPS - cur_step, current_canvas.numpy().copy()
            step.accepted = sampler.accepted_token_mask.numpy().copy()
            step.logits, step.drawn, step.noise = logits[-1], drawn[-1], uniform[-1]
            steps.append(step)
            return found

        logits, drawn, uniform = [], [], []
        sampler = self.library.models.diffusion_gemma.generation_diffusion_gemma.EntropyBoundSamplerConfig(case.gamma)
        bounds = {"sampler_config": sampler, "confidence_threshold": case.kappa, "stability_threshold": case.stability}
        limits = {"t_max": HOT, "t_min": COLD, "max_denoising_steps": STEPS, "max_new_tokens": canvases * CANVAS}
        with monkeypatch.context() as patch:
            patch.setattr(torch, "multinomial", recorder(torch.multinomial, letters, drawn))
            patch.setattr(torch, "randint", recorder(torch.randint, noise, uniform))
            patch.setattr(model, "forward", pinned)
            patch.setattr(model, "_denoising_step", recorded)
            cache = {"cache_implementation": "dynamic", "disable_compile": True}
            outputs = model.generate(self.prompt, **bounds, **limits, **cache)
        return steps, outputs.sequences.numpy()[:, self.prompt.shape[1] :]


@dataclass(frozen=True, kw_only=True)
class Marked(Process):
    """A process whose noise is told apart from letters by ids above MASK; drawn before where ``drawn`` is given."""

    drawn: Any = None

    def noise(self, key: Any, shape: tuple[int, ...]) -> Any:
        letters = super().noise(key, shape) if self.drawn is None else self.drawn.reshape(shape)
        return letters + self.mask + 1


def letters_of(canvas: Any) -> Any:
    return canvas % (VOCAB + 1)


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0, 0, 0, 0, 0))
def plan_rows(planner: Any, key: Any, state: Any, marginals: Any, drawn: Any, seen: Any, noise: Any) -> Any:
    """One step of our planner for each row alone, so that the process of a row has that row's noise."""
    key, state, marginals, drawn, seen = jax.tree.map(lambda x: x[None], (key, state, marginals, drawn, seen))
    everywhere, one = jnp.ones(drawn.shape, bool), jnp.ones((1,), jnp.int32)
    rows = {"marginals": marginals, "log_model": jnp.log(marginals), "tokens": jnp.full_like(drawn, VOCAB)}
    places = {"open": everywhere, "held": ~everywhere, "total": CANVAS * one, "quota": one}
    clock = {"step": jnp.int32(0), "steps": jnp.int32(STEPS), "alpha": jnp.float32(0), "alpha_next": jnp.float32(0.1)}
    view = View(canvas=seen, witness=drawn, **rows, **places, **clock)
    moves, state = planner.plan(key, state, view, Marked(mask=VOCAB, uniform=1.0, drawn=noise))
    return jax.tree.map(lambda x: x[0], (moves, state))


def unclear(scaled: np.ndarray, accepted: np.ndarray, case: Case) -> np.ndarray:
    """Rows in which rounding could decide something, from the logits after temperature."""
    log_p = scaled.astype(np.float64) - scaled.max(axis=-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    entropies = -(np.exp(log_p) * log_p).sum(axis=-1)
    ordered = np.sort(entropies, axis=-1)
    bound = np.abs(np.cumsum(ordered, axis=-1) - ordered - case.gamma).min(axis=-1) < NEAR
    last, first = np.where(accepted, entropies, 0.0).max(axis=-1), np.where(accepted, np.inf, entropies).min(axis=-1)
    letters = gap(scaled).min(axis=-1) < LETTERS
    return bound | (first - last < EDGE) | letters | (np.abs(entropies.mean(axis=-1) - case.kappa) < NEAR)


def gap(scaled: np.ndarray) -> np.ndarray:
    top = np.sort(scaled, axis=-1)
    return top[..., -1] - top[..., -2]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"gamma{case.gamma}")
def test_every_step_decides_what_the_reference_decides(monkeypatch: pytest.MonkeyPatch, case: Case):
    """Our planner is given the reference's logits, letters and noise at every step of two canvases."""
    counts = Counter()
    for seed, stability, prompt_length in ((0, 0, 5), (1, 1, 13), (2, 2, 5), (3, 1, 5)):
        case = case._replace(stability=stability)
        steps, _ = Reference(case, seed, prompt_length).generate(monkeypatch, canvases=2)
        assert sum(step.index == 0 for step in steps) == 2
        follow(steps, case, counts)
    assert counts["unclear"] <= DOUBTS, counts
    assert counts["rows"] >= 100, counts
    assert min(counts["some accepted"], counts["early stops"], counts["never stops"]) >= 8, counts


def follow(steps: list[SimpleNamespace], case: Case, counts: Counter[str]) -> None:
    planner, everywhere = case.planner(), jnp.ones((ROWS, CANVAS), bool)
    for number, step in enumerate(steps):
        init_keys, plan_keys = (jax.random.split(key, ROWS) for key in jax.random.split(jax.random.key(number)))
        if step.index == 0:
            active, skip = np.ones(ROWS, bool), np.zeros(ROWS, bool)
            state = planner.init(init_keys, everywhere, VOCAB)
        # The loop's own schedule, in float32.
        temperature = np.float32(HOT) + np.float32(COLD - HOT) * (np.float32(step.index) / np.float32(STEPS))
        scaled = step.logits / temperature
        np.testing.assert_allclose(scaled[active], step.processed[active], rtol=1e-6, atol=1e-6)
        marginals = jax.nn.softmax(jnp.asarray(scaled), axis=-1)
        drawn, seen, noise = (jnp.asarray(part, jnp.int32) for part in (step.drawn, step.seen, step.noise))
        moves, state = plan_rows(planner, plan_keys, state, marginals, drawn, seen, noise)

        # Rows that came close to a tie are left out until the canvas ends, finished ones but for what they accept.
        doubt = unclear(scaled, step.accepted, case)
        counts["unclear"] += int((doubt & ~skip).sum())
        skip |= doubt
        live, canvas = active & ~skip, np.asarray(moves.canvas)
        np.testing.assert_array_equal((canvas < VOCAB)[~skip], step.accepted[~skip])
        np.testing.assert_array_equal(letters_of(canvas)[live], step.shown[live])
        np.testing.assert_array_equal(np.asarray(marginals).argmax(axis=-1)[live], step.likeliest[live])
        remembered = step.likeliest[live, None][:, : case.stability]
        np.testing.assert_array_equal(np.asarray(state.history)[live, :1], remembered)
        np.testing.assert_array_equal(np.asarray(moves.stop)[live], step.finished[live])
        assert not np.asarray(moves.commit).any()

        ends, accepted = step.index == STEPS - 1, step.accepted.sum(axis=1)
        counts["rows"] += int(live.sum())
        counts["some accepted"] += int((live & (accepted > 1) & (accepted < CANVAS)).sum())
        counts["early stops"] += 0 if ends else int((live & step.finished).sum())
        counts["never stops"] += int((live & ~step.finished).sum()) if ends else 0
        active = ~step.finished


@partial(jax.tree_util.register_dataclass, data_fields=["pin"], meta_fields=["host"])
@dataclass(frozen=True)
class Hosted:
    """A denoiser that calls a function on the host."""

    pin: Any
    host: Callable[[Any, Any], np.ndarray]
    self_conditioning: ClassVar[bool] = True

    def __call__(self, canvas: Any, valid: Any, time: Any, conditions: Any = None, *, previous: Any) -> Any:
        shape = jax.ShapeDtypeStruct((*canvas.shape, VOCAB), jnp.float32)
        return jax.pure_callback(self.host, shape, letters_of(canvas), previous) + self.pin


def marginals(moment: Moment) -> Any:
    return moment.marginals


@pytest.mark.parametrize(("case", "stability"), [(CASES[0], 1), (CASES[1], 0)], ids=["gamma0.1", "gamma20"])
def test_whole_designs_equal_those_of_the_reference(monkeypatch: pytest.MonkeyPatch, case: Case, stability: int):
    """The loop samples with the reference's network; the reference, given the same draws, goes the same way."""
    case, starts = case._replace(stability=stability), []
    reference = Reference(case, seed=7, prompt_length=5)
    torch = reference.torch

    def network(canvas: Any, previous: Any) -> np.ndarray:
        canvas, hint = torch.tensor(np.array(canvas), dtype=torch.long), None
        if np.any(previous):
            hint = torch.tensor(np.log(np.maximum(previous, 1e-38)))
        else:
            starts.append(canvas.numpy())
        with torch.no_grad():
            outputs = reference.model(reference.prompt, decoder_input_ids=canvas, self_conditioning_logits=hint)
        return outputs.logits.numpy()

    letters = Alphabet("tokens", "".join(chr(0x4E00 + i) for i in range(VOCAB)))
    blank, lengths = jnp.full((ROWS, CANVAS), VOCAB, jnp.int32), jnp.full((ROWS,), CANVAS, jnp.int32)
    clock = (jnp.int32(STEPS), jnp.array([HOT, COLD]))
    samples = sample(
        Hosted(jnp.asarray(reference.pin), network),
        compile_constraints([], Layout(letters, CANVAS, CANVAS)).program(CANVAS),
        Task(row_keys(3, jnp.arange(ROWS)), blank, lengths, jnp.zeros((CANVAS, VOCAB)), *clock),
        case.planner(),
        process=Marked(mask=VOCAB, uniform=1.0),
        trace=Trace(("canvas", "witness", marginals), STEPS),
    )
    samples = jax.tree.map(np.asarray, samples)
    canvas, witness, found = (np.moveaxis(samples.trace[name], 1, 0) for name in ("canvas", "witness", "marginals"))
    shown = [starts[0], *letters_of(canvas)]
    steps, sequences = reference.generate(monkeypatch, letters=list(witness), noise=shown)

    calls = np.stack([~step.finished for step in steps]).sum(axis=0) + 1
    np.testing.assert_array_equal(samples.calls, np.minimum(calls, STEPS))
    assert len(set(samples.calls)) >= 3
    assert (samples.outcome == Outcome.DONE).all()
    for step in steps:
        live, going = samples.calls > step.index, samples.calls > step.index + 1
        assert not (live & unclear(step.processed, step.accepted, case)).any()
        np.testing.assert_array_equal(step.seen[live], shown[step.index][live])
        theirs = np.asarray(jax.nn.softmax(jnp.asarray(step.processed), axis=-1))
        np.testing.assert_allclose(found[step.index][live], theirs[live], atol=1e-4, rtol=0)
        np.testing.assert_array_equal((canvas[step.index] < VOCAB)[going], step.accepted[going])

    # The last commit draws at a thousandth of the temperature where theirs is an argmax: the same but for near ties.
    last = np.stack([steps[calls - 1].processed[row] for row, calls in enumerate(samples.calls)])
    apart = gap(last) > MODE_GAP
    assert apart.mean() > 0.9
    np.testing.assert_array_equal(samples.tokens[apart], sequences[apart])
    assert (samples.order == samples.calls[:, None] - 1).all()
