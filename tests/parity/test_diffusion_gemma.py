"""Our sampler against Transformers' DiffusionGemma: same logits, same draws, same decisions.

The reference has no memory of what it accepts, so a run of it is a list of steps that can be compared one at a time.
Exact parity has three exceptions, all of them ties in exact arithmetic that float32 may break either way: a sum of
entropies at the bound, two entropies at the edge of the accepted set, two likeliest letters. Rows that come that close
are left out and counted; ``DOUBTS`` is the largest share of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from seqdiff.sampling.planners import diffusion_gemma
from seqdiff.sampling.trace import Moment, Trace

VOCAB, CANVAS, ROWS, STEPS = 99, 16, 4, 8
HOT, COLD = 0.8, 0.4
PINS = (40.0, 14.0, 9.0, 0.0)
NEAR = 1e-4
EDGE = 2e-5
DOUBTS = 0.01
MODE_GAP = 0.03

pytestmark = pytest.mark.filterwarnings("ignore")  # torch and transformers warn about their own future


class Step(NamedTuple):
    """One denoising step of the reference, as arrays; ``first`` where a canvas begins."""

    first: bool
    seen: np.ndarray
    logits: np.ndarray
    drawn: np.ndarray
    noise: np.ndarray
    accepted: np.ndarray
    shown: np.ndarray
    processed: np.ndarray
    likeliest: np.ndarray
    finished: np.ndarray


def tiny_model(seed: int, sharpness: float) -> Any:
    """The real network, small and random: every weight perturbed, norms and the two sets of layer scalars included."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
        pytest.skip("this version of transformers has no DiffusionGemma")
    text = transformers.DiffusionGemmaTextConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        sliding_window=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_global_key_value_heads=1,
        global_head_dim=24,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=8,
        max_position_embeddings=128,
    )
    vision = transformers.Gemma4VisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
    )
    config = transformers.DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=CANVAS)
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.tensor(0.1 * rng.standard_normal(tuple(weight.shape)), dtype=weight.dtype)
            weight.copy_(noise if weight.ndim > 1 else weight + noise)
        model.lm_head.weight.mul_(sharpness)  # some positions almost certain, others not
        for name, scalar in model.named_buffers():
            if name.endswith("layer_scalar"):
                scalar.fill_(0.8 if "decoder" in name else 1.1)
    return model


def pins(rng: np.random.Generator) -> np.ndarray:
    """Logits added to each row so that some settle at once, some late, some never."""
    targets = rng.integers(0, VOCAB, (ROWS, CANVAS))
    return (np.array(PINS)[:, None, None] * np.eye(VOCAB)[targets]).astype(np.float32)


def generate(
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    prompt: np.ndarray,
    pin: np.ndarray,
    *,
    gamma: float,
    stability: int,
    kappa: float,
    canvases: int = 1,
    replay: tuple[list[np.ndarray], list[np.ndarray]] | None = None,
) -> tuple[list[Step], np.ndarray]:
    """Run the reference and record every step; with ``replay`` its categorical and uniform draws are those given."""
    import torch
    import transformers

    multinomial, randint, forward, denoise = torch.multinomial, torch.randint, model.forward, model._denoising_step
    drawn, uniform, logits, steps = [], [], [], []

    def draw_letters(*args: Any, **options: Any) -> Any:
        letters = multinomial(*args, **options)
        if replay is not None:
            letters = torch.tensor(replay[0][len(drawn)].reshape(-1, 1), dtype=letters.dtype)
        drawn.append(letters.numpy().reshape(ROWS, CANVAS))
        return letters

    def draw_uniform(*args: Any, **options: Any) -> Any:
        letters = randint(*args, **options)
        if replay is not None:
            letters = torch.tensor(replay[1][len(uniform)], dtype=letters.dtype)
        uniform.append(letters.numpy())
        return letters

    def pinned(*args: Any, **options: Any) -> Any:
        outputs = forward(*args, **options)
        outputs.logits = outputs.logits + torch.from_numpy(pin)
        logits.append(outputs.logits.numpy())
        return outputs

    def recorded(*, current_canvas: Any, cur_step: int, sampler: Any, **options: Any) -> Any:
        found = denoise(current_canvas=current_canvas, cur_step=cur_step, sampler=sampler, **options)
        shown, likeliest, processed, finished = (part.clone().numpy() for part in found)
        step = Step(
            first=cur_step == STEPS,
            seen=current_canvas.clone().numpy(),
            logits=logits[-1],
            drawn=drawn[-1],
            noise=uniform[-1],
            accepted=sampler.accepted_token_mask.clone().numpy(),
            shown=shown,
            processed=processed,
            likeliest=likeliest,
            finished=finished,
        )
        steps.append(step)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(torch, "multinomial", draw_letters)
        patch.setattr(torch, "randint", draw_uniform)
        patch.setattr(model, "forward", pinned)
        patch.setattr(model, "_denoising_step", recorded)
        outputs = model.generate(
            torch.tensor(prompt),
            max_new_tokens=canvases * CANVAS,
            max_denoising_steps=STEPS,
            sampler_config=transformers.models.diffusion_gemma.generation_diffusion_gemma.EntropyBoundSamplerConfig(
                gamma
            ),
            t_max=HOT,
            t_min=COLD,
            stability_threshold=stability,
            confidence_threshold=kappa,
            cache_implementation="dynamic",
            disable_compile=True,
        )
    return steps, outputs.sequences.numpy()[:, prompt.shape[1] :]


@dataclass(frozen=True, kw_only=True, eq=False)
class Replayed(Process):
    """A uniform process whose noise was drawn before, told apart from letters by ids above MASK."""

    letters: Any

    def noise(self, key: Any, shape: tuple[int, ...]) -> Any:
        return self.letters.reshape(shape) + self.mask + 1


@dataclass(frozen=True, kw_only=True)
class Marked(Process):
    """A uniform process whose noise is told apart from letters by ids above MASK."""

    def noise(self, key: Any, shape: tuple[int, ...]) -> Any:
        return super().noise(key, shape) + self.mask + 1


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0, 0, 0, 0, 0))
def plan_row(planner: Any, key: Any, state: Any, marginals: Any, drawn: Any, seen: Any, noise: Any) -> Any:
    """One step of our planner for each row alone, so that the process of a row has that row's noise."""
    key, state, marginals, drawn, seen = jax.tree.map(lambda x: x[None], (key, state, marginals, drawn, seen))
    everywhere = jnp.ones(drawn.shape, bool)
    view = View(
        marginals=marginals,
        log_model=jnp.log(marginals),
        tokens=jnp.full_like(drawn, VOCAB),
        canvas=seen,
        open=everywhere,
        held=~everywhere,
        total=jnp.sum(everywhere, axis=1),
        quota=jnp.ones((1,), jnp.int32),
        step=jnp.int32(0),
        steps=jnp.int32(STEPS),
        alpha=jnp.float32(0.0),
        alpha_next=jnp.float32(0.1),
        witness=drawn,
    )
    moves, state = planner.plan(key, state, view, Replayed(mask=VOCAB, uniform=1.0, letters=noise))
    return jax.tree.map(lambda x: x[0], (moves, state))


def temperature(step: int) -> np.ndarray:
    """As the loop computes it: linear from the first to the limit, in float32."""
    return np.float32(HOT) + np.float32(COLD - HOT) * (np.float32(step) / np.float32(STEPS))


def unclear(scaled: np.ndarray, accepted: np.ndarray, gamma: float, kappa: float) -> np.ndarray:
    """Rows in which rounding could decide something, from the logits after temperature."""
    log_p = scaled.astype(np.float64) - scaled.max(axis=-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    entropies = -(np.exp(log_p) * log_p).sum(axis=-1)
    ordered = np.sort(entropies, axis=-1)
    bound = np.abs(np.cumsum(ordered, axis=-1) - ordered - gamma).min(axis=-1) < NEAR
    last = np.where(accepted, entropies, -np.inf).max(axis=-1)
    edge = np.where(accepted, np.inf, entropies).min(axis=-1) - last < EDGE
    top = np.sort(scaled, axis=-1)
    letters = (top[..., -1] - top[..., -2]).min(axis=-1) < NEAR
    return bound | edge | letters | (np.abs(entropies.mean(axis=-1) - kappa) < NEAR)


@pytest.mark.parametrize(("gamma", "sharpness", "kappa"), [(0.1, 8.0, 0.3), (20.0, 3.0, 1.5)])
def test_every_step_decides_what_the_reference_decides(
    monkeypatch: pytest.MonkeyPatch, gamma: float, sharpness: float, kappa: float
):
    """Teacher-forced: our planner is given the reference's logits, letters and noise at every step of two canvases."""
    counts = {"rows": 0, "unclear": 0, "partial": 0, "early": 0, "late": 0}
    for seed, stability in ((0, 0), (1, 1), (2, 2), (3, 1)):
        model, rng = tiny_model(seed, sharpness), np.random.default_rng(seed)
        import torch

        torch.manual_seed(seed)
        prompt = rng.integers(3, VOCAB, (ROWS, (5, 13)[seed % 2]))
        options = {"gamma": gamma, "stability": stability, "kappa": kappa}
        steps, _ = generate(monkeypatch, model, prompt, pins(rng), canvases=2, **options)
        assert sum(step.first for step in steps) == 2
        planner = diffusion_gemma(gamma=gamma, stability=stability, entropy=kappa)
        follow(planner, steps, options, counts)
    assert counts["unclear"] <= DOUBTS * counts["rows"], counts
    assert counts["rows"] >= 150, counts
    assert min(counts["partial"], counts["early"], counts["late"]) >= 8, counts


def follow(planner: Any, steps: list[Step], options: dict[str, Any], counts: dict[str, int]) -> None:
    """Compare step by step; rows that came close to a tie are left out until the canvas ends."""
    index, state, active, skip = 0, None, None, None
    for number, step in enumerate(steps):
        if step.first:
            index, active, skip = 0, np.ones(ROWS, bool), np.zeros(ROWS, bool)
            init_keys = jax.random.split(jax.random.key(number), ROWS)
            state = planner.init(init_keys, jnp.ones((ROWS, CANVAS), bool), VOCAB)
        scaled = step.logits / temperature(index)
        np.testing.assert_allclose(scaled[active], step.processed[active], rtol=1e-6, atol=1e-6)
        marginals = jax.nn.softmax(jnp.asarray(scaled), axis=-1)
        keys = jax.random.split(jax.random.key(1000 + number), ROWS)
        drawn, seen, noise = (jnp.asarray(part, jnp.int32) for part in (step.drawn, step.seen, step.noise))
        moves, state = plan_row(planner, keys, state, marginals, drawn, seen, noise)

        skip |= unclear(scaled, step.accepted, options["gamma"], options["kappa"])
        clear, live = ~skip, active & ~skip
        canvas = np.asarray(moves.canvas)
        np.testing.assert_array_equal((canvas < VOCAB)[clear], step.accepted[clear])
        np.testing.assert_array_equal((canvas % (VOCAB + 1))[live], step.shown[live])
        np.testing.assert_array_equal(np.asarray(marginals).argmax(axis=-1)[live], step.likeliest[live])
        if options["stability"]:
            np.testing.assert_array_equal(np.asarray(state.history)[live, 0], step.likeliest[live])
        np.testing.assert_array_equal(np.asarray(moves.stop)[live], step.finished[live])
        assert not np.asarray(moves.commit).any()

        accepted = step.accepted.sum(axis=1)
        counts["rows"] += int(active.sum())
        counts["unclear"] += int(skip.sum())
        counts["partial"] += int((live & (accepted > 1) & (accepted < CANVAS)).sum())
        counts["early"] += int((active & step.finished).sum()) if index < STEPS - 1 else 0
        counts["late"] += int((~step.finished).sum()) if index == STEPS - 1 else 0
        active = ~step.finished
        index += 1


@partial(jax.tree_util.register_dataclass, data_fields=["pin"], meta_fields=["host"])
@dataclass(frozen=True)
class Hosted:
    """A denoiser that calls a function on the host."""

    pin: Any
    host: Callable[[Any, Any], np.ndarray]
    self_conditioning: ClassVar[bool] = True

    def __call__(self, canvas: Any, valid: Any, time: Any, conditions: Any = None, *, previous: Any) -> Any:
        shape = jax.ShapeDtypeStruct((*canvas.shape, VOCAB), jnp.float32)
        return jax.pure_callback(self.host, shape, canvas % (VOCAB + 1), previous) + self.pin


def marginals(moment: Moment) -> Any:
    return moment.marginals


@pytest.mark.parametrize(("gamma", "sharpness", "stability", "kappa"), [(0.1, 8.0, 1, 0.3), (20.0, 3.0, 0, 1.5)])
def test_whole_designs_equal_those_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, gamma: float, sharpness: float, stability: int, kappa: float
):
    """Closed loop: we sample with the reference's network, then the reference is given our draws."""
    model, rng = tiny_model(7, sharpness), np.random.default_rng(7)
    import torch

    prompt, pin, starts = rng.integers(3, VOCAB, (ROWS, 5)), pins(rng), []

    def network(canvas: Any, previous: Any) -> np.ndarray:
        canvas, previous = np.array(canvas), np.array(previous)
        hint = None
        if previous.any():
            hint = torch.from_numpy(np.log(np.maximum(previous, 1e-38)))
        else:
            starts.append(canvas)
        with torch.no_grad():
            tokens = torch.tensor(canvas, dtype=torch.long)
            found = model(input_ids=torch.tensor(prompt), decoder_input_ids=tokens, self_conditioning_logits=hint)
        return found.logits.numpy()

    letters = Alphabet("tokens", "".join(chr(0x4E00 + i) for i in range(VOCAB)))
    task = Task(
        keys=row_keys(3, jnp.arange(ROWS)),
        canvas=jnp.full((ROWS, CANVAS), VOCAB, jnp.int32),
        length=jnp.full((ROWS,), CANVAS, jnp.int32),
        bias=jnp.zeros((CANVAS, VOCAB)),
        steps=jnp.int32(STEPS),
        temperature=jnp.array([HOT, COLD]),
    )
    samples = sample(
        Hosted(jnp.asarray(pin), network),
        compile_constraints([], Layout(letters, CANVAS, CANVAS)).program(CANVAS),
        task,
        diffusion_gemma(gamma=gamma, stability=stability, entropy=kappa),
        process=Marked(mask=VOCAB, uniform=1.0),
        trace=Trace(("canvas", "witness", marginals), STEPS),
    )
    samples = jax.tree.map(np.asarray, samples)
    by_step = {name: np.moveaxis(kept, 1, 0) for name, kept in samples.trace.items()}
    shown = [starts[0], *(by_step["canvas"] % (VOCAB + 1))]
    steps, sequences = generate(
        monkeypatch,
        model,
        prompt,
        pin,
        gamma=gamma,
        stability=stability,
        kappa=kappa,
        replay=(list(by_step["witness"]), shown),
    )

    assert (samples.outcome == Outcome.DONE).all()
    assert len(steps) == samples.calls.max()
    assert len(set(samples.calls)) >= 3
    ended = [1 + [*(step.finished[row] for step in steps), True].index(True) for row in range(ROWS)]
    np.testing.assert_array_equal(samples.calls, np.minimum(ended, STEPS))
    for index, step in enumerate(steps):
        live, going = samples.calls > index, samples.calls > index + 1
        assert not (live & unclear(step.processed, step.accepted, gamma, kappa)).any()
        np.testing.assert_array_equal(step.seen[live], shown[index][live])
        theirs = np.asarray(jax.nn.softmax(jnp.asarray(step.processed), axis=-1))
        np.testing.assert_allclose(by_step["marginals"][index][live], theirs[live], atol=1e-4, rtol=0)
        np.testing.assert_array_equal((by_step["canvas"][index] < VOCAB)[going], step.accepted[going])

    # Our last commit draws at a thousandth of the temperature, theirs is an argmax: the same but for near ties.
    last = np.stack([steps[calls - 1].processed[row] for row, calls in enumerate(samples.calls)])
    top = np.sort(last, axis=-1)
    apart = top[..., -1] - top[..., -2] > MODE_GAP
    assert apart.mean() > 0.9
    np.testing.assert_array_equal(samples.tokens[apart], sequences[apart])
    assert (samples.order == samples.calls[:, None] - 1).all()
