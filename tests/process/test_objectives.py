"""Bounds and objectives of all processes against independent formulas and enumeration of a small law."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from seqdiff.core.errors import InputError
from seqdiff.process.bounds import sample_nelbo, summarise
from seqdiff.process.likelihood import gather_bounds
from seqdiff.process.losses import (
    OBJECTIVES,
    bound_integrand,
    check_objective,
    log_observation,
    masked_cross_entropy,
    posterior_logits,
)
from seqdiff.process.noise import Process
from seqdiff.process.schedules import SCHEDULES
from seqdiff.process.score_entropy import (
    ScoreDenoiser,
    letters_from_score,
    log_score,
    score_entropy,
    score_from_letters,
)

V, L = 3, 3
SHARES = (0.0, 0.3, 1.0)
LETTERS = np.array(list(itertools.product(range(V), repeat=L)))
CANVASES = np.array(list(itertools.product(range(V + 1), repeat=L)))


def process_of(uniform: float, schedule: str = "linear", letters: int = V) -> Process:
    return Process(mask=letters, uniform=uniform, schedule=SCHEDULES[schedule]())


def q(process: Process, level: float) -> np.ndarray:
    """The law of z given x as a table [letter x, token z] in float64."""
    v, u = process.mask, process.uniform
    table = np.zeros((v, v + 1))
    table[:, :v] = level * u / v + (1 - level) * np.eye(v)
    table[:, v] = level * (1 - u)
    return table


_integrand = jax.jit(bound_integrand, static_argnums=0)


def integrand(process: Process, logits: np.ndarray, z: np.ndarray, x: np.ndarray, t: float | np.ndarray) -> np.ndarray:
    """The integrand of single positions: one row for each."""
    rows = np.broadcast_to(np.asarray(t, np.float32), z.shape)
    return np.asarray(
        _integrand(
            process,
            jnp.asarray(logits, jnp.float32)[:, None],
            jnp.asarray(z)[:, None],
            jnp.asarray(x)[:, None],
            jnp.asarray(rows),
            jnp.ones((len(z), 1), bool),
        )
    )[:, 0]


def single_sites(process: Process, rows: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random predictions, tokens that the process can show, and clean letters."""
    rng = np.random.default_rng(seed)
    v = process.mask
    x = rng.integers(0, v, rows)
    tokens = {0.0: [v], 1.0: range(v)}.get(process.uniform, range(v + 1))
    return rng.normal(size=(rows, v)), rng.choice(np.array([*tokens]), rows), x


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bound_of_the_absorbing_process_is_weighted_masked_cross_entropy(schedule: str):
    process = process_of(0.0, schedule, 5)
    logits, z, x = single_sites(process)
    z[::2] = x[::2]
    t = np.linspace(0.05, 0.95, len(z)).astype(np.float32)
    alpha, slope = jax.vmap(jax.value_and_grad(process.schedule.alpha))(jnp.asarray(t))
    expected = -np.asarray(slope / (1 - alpha)) * (z == 5) * -np.log(softmax(logits)[np.arange(len(x)), x])
    np.testing.assert_allclose(integrand(process, logits, z, x, t), expected, rtol=1e-3)


@pytest.mark.parametrize("t", [0.03, 0.5, 0.97])
def test_bound_of_the_uniform_process_is_that_of_udlm(t: float):
    """Schiff et al. 2025, written with b = V alpha x + 1 - alpha."""
    process = process_of(1.0, letters=5)
    logits, z, x = single_sites(process)
    alpha, rows = 1 - t, np.arange(len(z))
    plug = softmax(logits) / q(process, t)[:, z].T
    plug /= plug.sum(axis=1, keepdims=True)
    b = 5 * alpha * np.eye(5)[x] + 1 - alpha
    bt = 5 * alpha * plug + 1 - alpha
    log_ratio = np.log(b / bt)
    inner = (b / b[rows, z][:, None]) * (log_ratio - log_ratio[rows, z][:, None])
    expected = 1 / (5 * alpha) * (5 / bt[rows, z] - 5 / b[rows, z] + inner.sum(axis=1))
    np.testing.assert_allclose(integrand(process, logits, z, x, t), expected, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("uniform", SHARES)
def test_bound_is_the_limit_of_one_step_divergences(uniform: float):
    """``KL(q(z_s | z_t, x) || sum_v p(v) q(z_s | z_t, v)) / step``: the sampler draws v from p and steps back."""
    process = process_of(uniform, letters=4)
    logits, z, x = single_sites(process)
    p, t, step = softmax(logits), 0.4, 1e-4
    tokens = np.arange(5)
    survive = (1 - t) / (1 - t + step)
    pi = np.array([uniform / 4] * 4 + [1 - uniform])
    forward = survive * np.eye(5) + (1 - survive) * pi[None, :]  # q(z_t | z_s) as [z_s, z_t]
    joint = q(process, t - step)[:, :, None] * forward[None]  # [x, z_s, z_t]
    expected = []
    for row in range(len(z)):
        back = joint[:, tokens, z[row]]
        mass = back.sum(axis=1, keepdims=True)
        back = np.divide(back, mass, out=np.zeros_like(back), where=mass > 0)
        true, model = back[x[row]], p[row] @ back
        held = true > 0
        expected.append((true[held] * np.log(true[held] / model[held])).sum() / step)
    # The one-step divergence differs from its limit by order of the step over the level: 1e-4 / 0.4.
    np.testing.assert_allclose(integrand(process, logits, z, x, t), expected, rtol=3e-3, atol=1e-5)


@pytest.mark.parametrize("uniform", SHARES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_integrand_and_gradient_are_finite_at_both_ends(uniform: float, schedule: str):
    process = process_of(uniform, schedule)
    logits, z, x = single_sites(process, rows=6)

    @jax.jit
    @jax.value_and_grad
    def total(values: Array, t: Array) -> Array:
        rows = jnp.full((6,), t)
        open = jnp.ones((6, 1), bool)
        return bound_integrand(
            process, values[:, None], jnp.asarray(z)[:, None], jnp.asarray(x)[:, None], rows, open
        ).sum()

    for t in (0.0, 1e-6, 1e-3, 1 - 1e-6, 1.0):
        for scale in (1.0, 60.0):
            value, slope = total(jnp.asarray(scale * logits, jnp.float32), jnp.float32(t))
            assert np.isfinite(value)
            assert np.isfinite(slope).all()
            assert value >= -1e-5


# A law over three letters at three positions, and denoisers of it.

TILT = np.sin(np.arange(V) + 2 * np.arange(L)[:, None]).astype(np.float32)[None]
JOINT = np.random.default_rng(4).dirichlet(np.full(V**L, 0.5))


@partial(jax.tree_util.register_dataclass, data_fields=["joint", "tilt"], meta_fields=["process"])
class Exact:
    """P(x_i | z) of :data:`JOINT` by enumeration, its logits tilted by ``tilt`` to make a worse one."""

    def __init__(self, joint: Array, tilt: Array, process: Process):
        self.joint, self.tilt, self.process = joint, tilt, process

    def __call__(self, canvas: Array, valid: Array, time: Array, conditions: object = None) -> Array:
        seen = log_observation(self.process, canvas, time)[:, :L] if not self.process.absorbing else None
        if seen is None:
            same = jax.nn.one_hot(canvas[:, :L], V, dtype=jnp.bool_)
            seen = jnp.where((canvas[:, :L] == V)[..., None], 0.0, jnp.where(same, 0.0, -60.0))
        weight = jnp.log(self.joint)[None] + sum(seen[:, i, LETTERS[:, i]] for i in range(L))
        member = LETTERS.T[:, None] == np.arange(V)[None, :, None]  # [L, V, 27]
        logits = jax.nn.logsumexp(jnp.where(member[None], weight[:, None, None], -1e9), axis=-1) + self.tilt * TILT
        return jnp.pad(logits, ((0, 0), (0, canvas.shape[1] - L), (0, 0)))


def exact(process: Process, tilt: float = 0.0) -> Exact:
    return Exact(jnp.asarray(JOINT, jnp.float32), jnp.float32(tilt), process)


def bounds_by_quadrature(process: Process, tilt: float, nodes: int = 48) -> np.ndarray:
    """The bound of every sequence: Gauss-Legendre in t, all canvases."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    denoiser = exact(process, tilt)

    @jax.jit
    def values(t: Array) -> Array:
        level = jnp.full((len(CANVASES),), process.schedule.noise_level(t))
        logits = denoiser(jnp.asarray(CANVASES), jnp.ones(CANVASES.shape, bool), level)
        rows, open = jnp.full((len(CANVASES),), t), jnp.ones(CANVASES.shape, bool)

        def of(x: Array) -> Array:
            clean = jnp.broadcast_to(x, CANVASES.shape)
            return bound_integrand(process, logits, jnp.asarray(CANVASES), clean, rows, open).sum(axis=1)

        return jax.vmap(of)(jnp.asarray(LETTERS))

    total = np.zeros(len(LETTERS))
    for t, w in zip((points + 1) / 2, weights / 2, strict=True):
        t = np.float32(t)
        table = q(process, float(process.schedule.noise_level(jnp.float32(t))))
        chance = np.prod(table[LETTERS[:, None, :], CANVASES[None, :, :]], axis=2)
        total += w * (chance * np.where(chance > 0, np.asarray(values(t), np.float64), 0)).sum(axis=1)
    return total


@pytest.mark.parametrize("uniform", SHARES)
def test_the_bound_is_the_likelihood_for_the_exact_denoiser_and_above_it_for_others(uniform: float):
    process = process_of(uniform)
    # The quadrature is good to about 2e-3 nats: with letters as noise the integrand has t log t at its ends.
    np.testing.assert_allclose(bounds_by_quadrature(process, 0.0), -np.log(JOINT), atol=4e-3)
    worse = bounds_by_quadrature(process, 1.5)
    # A worse model is another law: its bounds add up to less than one, and lie above on average under the truth.
    assert np.exp(-worse).sum() < 1 + 1e-3
    assert (JOINT * worse).sum() > -(JOINT * np.log(JOINT)).sum() + 0.2


def test_the_absorbing_bound_does_not_depend_on_the_schedule():
    linear, cosine = (bounds_by_quadrature(process_of(0.0, name), 1.5) for name in ("linear", "cosine"))
    np.testing.assert_allclose(linear, cosine, atol=1e-3)
    # The geometric schedule starts at a level of 1e-4 and is steep: more nodes, and 1e-4 of the loss is missing.
    np.testing.assert_allclose(bounds_by_quadrature(process_of(0.0, "geometric"), 1.5, 96), linear, atol=5e-3)


@pytest.mark.parametrize("uniform", SHARES)
def test_sampled_bounds_are_unbiased_and_do_not_depend_on_company(uniform: float):
    process = process_of(uniform)
    truth = bounds_by_quadrature(process, 1.5)
    chosen = [3, 11, 20]
    rows = [LETTERS[i] for i in chosen for _ in range(256)]
    found = summarise(
        gather_bounds(
            list(sample_nelbo(exact(process, 1.5), process, rows, samples=24, seed=2, tokens_per_batch=64 * 768))
        )
    )
    nats = found.nats.reshape(3, 256)
    error = nats.std(axis=1, ddof=1) / 16
    # Five standard errors of the mean over rows, and the error of the quadrature.
    assert (np.abs(nats.mean(axis=1) - truth[chosen]) < 5 * error + 4e-3).all()
    assert (error < 0.1).all()
    # The stated error of a row is an upper estimate: its mean square is not below the variance between rows.
    assert (np.square(found.error.reshape(3, 256)).mean(axis=1) > 0.7 * nats.var(axis=1)).all()

    few = list(sample_nelbo(exact(process, 1.5), process, rows[:5], samples=3, seed=2, tokens_per_batch=1))
    many = list(sample_nelbo(exact(process, 1.5), process, rows[:5], samples=3, seed=2, tokens_per_batch=512))
    np.testing.assert_allclose(gather_bounds(few).bound, gather_bounds(many).bound, rtol=1e-5)
    assert not np.allclose(gather_bounds(few).bound[0], gather_bounds(few).bound[1])


# Score entropy.


@pytest.mark.parametrize("uniform", [0.0, 1.0])
@pytest.mark.parametrize("t", [0.02, 0.5, 0.98])
def test_score_entropy_of_a_denoiser_is_the_bound(uniform: float, t: float):
    process = process_of(uniform, letters=5)
    logits, z, x = single_sites(process)
    shape = (jnp.asarray(logits, jnp.float32)[:, None], jnp.asarray(z)[:, None])
    level, open = jnp.full((len(z),), t), jnp.ones((len(z), 1), bool)
    score = score_from_letters(process, *shape, level)
    found = score_entropy(process, score, shape[1], jnp.asarray(x)[:, None], level, open)[:, 0]
    np.testing.assert_allclose(found, integrand(process, logits, z, x, t), rtol=2e-3, atol=1e-5)
    if uniform:  # the affine form of the score
        p, rho, rows = softmax(logits), (t / (1 - t)) / (t / (1 - t) + 5), np.arange(len(z))
        affine = 1 + p[rows, z][:, None] * (rho - 1) + p * (1 / rho - 1)
        affine[rows, z] = 1
        np.testing.assert_allclose(np.exp(score[:, 0]), affine, rtol=1e-4)
    back = jax.nn.softmax(letters_from_score(process, score, shape[1], level)[:, 0])
    np.testing.assert_allclose(back, softmax(logits), atol=1e-3)


@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_score_entropy_is_zero_at_the_true_ratios(uniform: float):
    process = process_of(uniform, "cosine", 5)
    _, z, x = single_sites(process)
    t = jnp.linspace(0.05, 0.9, len(z))
    with np.errstate(divide="ignore"):
        tables = np.stack([np.log(q(process, float(n))) for n in process.schedule.noise_level(t)])
    rows = np.arange(len(z))
    score = tables[rows, x][:, :5] - tables[rows, x, z][:, None]
    found = score_entropy(
        process,
        jnp.asarray(score, jnp.float32)[:, None],
        jnp.asarray(z)[:, None],
        jnp.asarray(x)[:, None],
        t,
        jnp.ones((len(z), 1), bool),
    )
    np.testing.assert_allclose(found, 0.0, atol=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_expected_score_entropy_is_least_at_the_marginal_ratios(uniform: float):
    process, level = process_of(uniform), 0.4
    table = q(process, level)
    chance = JOINT[:, None] * np.prod(table[LETTERS[:, None, :], CANVASES[None]], axis=2)  # P(x, z)
    shown = chance.sum(axis=0) > 0
    canvases, chance = jnp.asarray(CANVASES[shown]), jnp.asarray(chance[:, shown], jnp.float32)
    index = {tuple(z): i for i, z in enumerate(CANVASES[shown])}
    marginal = np.asarray(chance.sum(axis=0))
    ratio = np.ones((len(canvases), L, V))
    for row, z in enumerate(CANVASES[shown]):
        for i, y in itertools.product(range(L), range(V)):
            moved = (*z[:i], y, *z[i + 1 :])
            ratio[row, i, y] = marginal[index[moved]] / marginal[row]
    rows, open = jnp.full((len(canvases),), level), jnp.ones(canvases.shape, bool)

    @jax.jit
    def expected(score: Array) -> Array:
        def of(x: Array) -> Array:
            return score_entropy(process, score, canvases, jnp.broadcast_to(x, canvases.shape), rows, open).sum(axis=1)

        return jnp.sum(chance * jax.vmap(of)(jnp.asarray(LETTERS)))

    truth = jnp.asarray(np.log(ratio), jnp.float32)
    # Convex in the scores, so a zero gradient is the minimum.
    np.testing.assert_allclose(jax.jit(jax.grad(expected))(truth), 0.0, atol=1e-5)
    noise = jax.random.normal(jax.random.key(0), truth.shape)
    assert expected(truth + 0.3 * noise) > expected(truth) + 0.01
    # The exact denoiser implies them; at letters of the absorbing process nothing is predicted.
    implied = score_from_letters(process, exact(process)(canvases, open, rows), canvases, rows)
    counted = np.asarray(canvases == V) if not uniform else np.ones(canvases.shape, bool)
    np.testing.assert_allclose(np.asarray(implied)[counted], np.asarray(truth)[counted], atol=1e-3)


@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_a_score_network_is_a_denoiser(uniform: float):
    process = process_of(uniform)
    canvas, valid = jnp.asarray([[0, 2, V if not uniform else 1]]), jnp.ones((1, L), bool)
    level = jnp.array([0.6])
    true = exact(process)(canvas, valid, level)
    score = score_from_letters(process, true, canvas, level)
    raw = score - log_score(process, jnp.zeros_like(score), canvas, level)
    found = ScoreDenoiser(lambda *_: raw, process)(canvas, valid, level)
    np.testing.assert_allclose(jax.nn.softmax(found[0, 2]), jax.nn.softmax(true[0, 2]), atol=1e-4)
    noise = 4 * jax.random.normal(jax.random.key(1), raw.shape)
    assert np.isfinite(ScoreDenoiser(lambda *_: noise, process)(canvas, valid, level)).all()
    with pytest.raises(InputError, match="not for a hybrid"):
        ScoreDenoiser(None, process_of(0.5))


# The parts that networks are built from.


def test_outputs_are_completed_by_bayes():
    process = process_of(0.3)
    rng = np.random.default_rng(0)
    raw, z, level = rng.normal(size=(4, 1, V)), np.arange(4)[:, None], np.full(4, 0.35, np.float32)
    found = posterior_logits(process, jnp.asarray(raw, jnp.float32), jnp.asarray(z), jnp.asarray(level))
    weight = softmax(raw) * q(process, 0.35)[:, z].transpose(1, 2, 0)
    np.testing.assert_allclose(jax.nn.softmax(found), weight / weight.sum(axis=-1, keepdims=True), atol=1e-5)
    plain = jnp.asarray(raw, jnp.float32)
    assert (posterior_logits(process_of(0.0), plain, jnp.asarray(z), jnp.asarray(level)) == plain).all()


def test_objectives_that_do_not_fit_are_refused():
    fit = {
        "bound": SHARES,
        "masked": (0.0,),
        "any_order": (0.0,),
        "cross_entropy": (0.3, 1.0),
        "score_entropy": (0.0, 1.0),
    }
    for name, share in itertools.product(OBJECTIVES, SHARES):
        if share in fit[name]:
            check_objective(name, process_of(share))
            continue
        with pytest.raises(InputError) as caught:
            check_objective(name, process_of(share))
        assert "\n" not in str(caught.value)
        assert "use" in str(caught.value) or "defined" in str(caught.value)


def test_masked_cross_entropy_reads_masked_places_only():
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(1, 3, V)), jnp.float32)
    found = masked_cross_entropy(logits, jnp.array([[1, 99, 2]]), jnp.array([[True, False, True]]))
    p = softmax(np.asarray(logits))
    np.testing.assert_allclose(found[0], [-np.log(p[0, 0, 1]), 0.0, -np.log(p[0, 2, 2])], rtol=1e-5)
