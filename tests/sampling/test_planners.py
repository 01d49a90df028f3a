"""Planners on their own: what they choose, how many, at random where equal, whatever the padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.core.contracts import View
from seqdiff.core.errors import InputError
from seqdiff.process.noise import Process
from seqdiff.sampling.planners import (
    RDM,
    WINO,
    Accept,
    Blocks,
    Confidence,
    Entropy,
    EntropyBound,
    Klass,
    LeftToRight,
    Margin,
    Random,
    ReMDM,
    Spread,
    Threshold,
    UntilStable,
)
from tests.helpers import EVERY_PLANNER

B, L, V = 7, 13, 5
PROCESS = Process(mask=V)


def keys(seed: int = 0, rows: int = B):
    return jax.random.split(jax.random.key(seed), rows)


def view(seed: int = 0, *, rows: int = B, length: int = L, pad: int = 0, sharp: float = 3.0, **changes) -> View:
    """A step in the middle of a run: some positions held, some open."""
    draw = [jax.random.key(seed + part) for part in range(4)]
    marginals = jax.nn.softmax(sharp * jax.random.normal(draw[0], (rows, length, V)))
    open = jax.random.uniform(draw[1], (rows, length)) < 0.7
    letters = jax.random.randint(draw[2], (rows, length), 0, V)
    tokens = jnp.where(open, V, letters)
    made = View(
        marginals=jnp.where(open[..., None], marginals, jax.nn.one_hot(tokens, V)),
        log_model=jnp.log(marginals),
        tokens=tokens,
        canvas=tokens,
        open=open,
        held=~open,
        total=jnp.full((rows,), length),
        quota=jnp.minimum(jnp.arange(rows), jnp.sum(open, axis=1)),
        step=jnp.int32(2),
        steps=jnp.int32(8),
        alpha=jnp.float32(0.25),
        alpha_next=jnp.float32(0.375),
        witness=jnp.where(open, jax.random.randint(draw[3], (rows, length), 0, V), tokens),
    )._replace(**changes)
    if not pad:
        return made

    def wider(leaf, fill):
        return jnp.pad(leaf, ((0, 0), (0, pad)) + ((0, 0),) * (leaf.ndim - 2), constant_values=fill)

    padded = {name: wider(getattr(made, name), V) for name in ("tokens", "canvas", "witness")}
    padded |= {name: wider(getattr(made, name), False) for name in ("open", "held")}
    return made._replace(marginals=wider(made.marginals, 0), log_model=wider(made.log_model, -10.0), **padded)


def moves(planner, seen: View, seed: int = 0, state=None, process: Process = PROCESS):
    if state is None:
        state = planner.init(keys(seed + 50, len(seen.open)), seen.open | seen.held, V)
    return planner.plan(keys(seed, len(seen.open)), state, seen, process)


@pytest.mark.parametrize("name", EVERY_PLANNER)
def test_only_open_positions_whatever_the_padding(name: str):
    planner = EVERY_PLANNER[name]
    found, _ = moves(planner, view())
    commit = np.asarray(found.commit)
    assert not np.any(commit & ~np.asarray(view().open))
    if planner.holds and not planner.reopens and name not in ("maskgit",):
        assert (commit.sum(axis=1) >= np.asarray(view().quota)).all()
    wider, _ = moves(planner, view(pad=4))
    np.testing.assert_array_equal(wider.commit[:, :L], commit)
    for part in ("reopen", "canvas"):
        mine, theirs = getattr(found, part), getattr(wider, part)
        if mine is not None:
            where = np.asarray(view().open if part == "canvas" else view().held)
            np.testing.assert_array_equal(np.asarray(theirs)[:, :L][where], np.asarray(mine)[where])


@pytest.mark.parametrize(
    ("planner", "score"),
    [
        (Confidence(), lambda p: -p.max(axis=-1)),
        (Margin(), lambda p: -(np.sort(p, axis=-1)[..., -1] - np.sort(p, axis=-1)[..., -2])),
        (Entropy(), lambda p: -(p * np.log(p)).sum(axis=-1)),
        (LeftToRight(), lambda p: np.broadcast_to(np.arange(L), p.shape[:2])),
    ],
    ids=["confidence", "margin", "entropy", "left to right"],
)
def test_the_lowest_scores_are_taken(planner, score):
    seen = view()
    commit, open = (np.asarray(part) for part in (moves(planner, seen)[0].commit, seen.open))
    scores = score(np.clip(np.asarray(seen.marginals, float), 1e-30, 1))
    np.testing.assert_array_equal(commit.sum(axis=1), seen.quota)
    for row in range(B):
        taken, left = scores[row][commit[row]], scores[row][open[row] & ~commit[row]]
        assert not len(taken) or not len(left) or taken.max() <= left.min() + 2e-5


def test_entropy_bound_is_the_largest_set_within_gamma():
    seen = view(quota=jnp.ones((B,), jnp.int32))
    commit = np.asarray(moves(EntropyBound(gamma=0.8), seen)[0].commit)
    p = np.clip(np.asarray(seen.marginals), 1e-30, 1)
    entropy = -np.sum(p * np.log(p), axis=-1)
    for row in range(B):
        ordered = np.sort(entropy[row][np.asarray(seen.open)[row]])
        sizes = [n for n in range(1, len(ordered) + 1) if ordered[: n - 1].sum() <= 0.8]
        assert commit[row].sum() == max(sizes)


def test_threshold_takes_what_is_sure_and_the_quota():
    seen = view()
    commit = np.asarray(moves(Threshold(confidence=0.8), seen)[0].commit)
    sure = np.asarray((jnp.max(seen.marginals, axis=-1) >= 0.8) & seen.open)
    assert (commit[sure]).all()
    np.testing.assert_array_equal(commit.sum(axis=1), np.maximum(sure.sum(axis=1), seen.quota))


def test_klass_waits_until_distributions_stand_still():
    planner = Klass(confidence=0.5, divergence=0.01, history=2)
    still = view(sharp=8.0, quota=jnp.zeros((B,), jnp.int32))
    state, counts = None, []
    for step in range(4):
        found, state = moves(planner, still, seed=step, state=state)
        counts.append(int(found.commit.sum()))
    assert counts[0] == counts[1] == 0
    sure = int(((jnp.max(still.marginals, axis=-1) > 0.5) & still.open).sum())
    assert counts[2] == counts[3] == sure > 0
    moved, _ = moves(planner, view(seed=9, sharp=8.0, quota=still.quota), state=state)
    assert moved.commit.sum() < sure


def test_spread_keeps_early_positions_apart():
    rows, length = 20, 64
    open = jnp.ones((rows, length), bool)
    seen = view(rows=rows, length=length)._replace(open=open, held=~open, quota=jnp.full((rows,), 8))
    chosen = np.asarray(moves(Spread(), seen)[0].commit)
    gaps = np.diff(np.stack([np.flatnonzero(row) for row in chosen]), axis=1)
    assert (gaps == 8).all()
    assert len({tuple(np.flatnonzero(row)) for row in chosen}) > 1


def test_blocks_fill_from_the_left():
    seen = view()._replace(quota=jnp.ones((B,), jnp.int32))
    commit = np.asarray(moves(Blocks(inner=Random(), size=4), seen)[0].commit)
    for row in range(B):
        first = np.flatnonzero(np.asarray(seen.open)[row])[0] // 4
        assert (np.flatnonzero(commit[row]) // 4 == first).all()


def test_ties_break_at_random():
    rows = 400
    flat = view(rows=rows, length=4)._replace(
        marginals=jnp.full((rows, 4, V), 1 / V),
        open=jnp.ones((rows, 4), bool),
        held=jnp.zeros((rows, 4), bool),
        quota=jnp.ones((rows,), jnp.int32),
    )
    for seed, planner in enumerate((Random(), Confidence(), Margin(), EntropyBound(gamma=0.0), Threshold())):
        commit = moves(planner, flat, seed=seed)[0].commit
        # 100 expected at each place; a count off by 45 has probability below 1e-6.
        assert np.abs(np.sum(commit, axis=0) - 100).max() < 45


@pytest.mark.parametrize("rule", ["cap", "rescale"])
def test_remdm_keeps_the_share_of_masks(rule: str):
    rows, length, alpha, after = 200, 100, 0.4, 0.5
    held = jnp.asarray(np.broadcast_to(np.arange(length) < length * alpha, (rows, length)))
    seen = view(rows=rows, length=length)._replace(
        open=~held, held=held, alpha=jnp.float32(alpha), alpha_next=jnp.float32(after)
    )
    found, _ = moves(ReMDM(rule=rule, eta=0.3), seen)
    reopened = np.asarray(found.reopen).sum() / (rows * length * alpha)
    sigma = min(0.3, (1 - after) / alpha) if rule == "cap" else 0.3 * min(1.0, (1 - after) / alpha)
    assert abs(reopened - sigma) < 0.03
    clean = (np.asarray(found.commit) | (np.asarray(held) & ~np.asarray(found.reopen))).mean()
    # Standard error 0.004 over 20,000 positions: off by 0.02 has probability below 1e-5.
    assert abs(clean - after) < 0.02


def test_remdm_by_confidence_reveals_like_ancestral_steps():
    seen = view(rows=200, length=100)._replace(alpha=jnp.float32(0.4), alpha_next=jnp.float32(0.5))
    found, _ = moves(ReMDM(rule="confidence", eta=0.9), seen)
    share = np.asarray(found.commit).sum() / np.asarray(seen.open).sum()
    # 14,000 open positions: a standard error of 0.003.
    assert abs(share - 0.1 / 0.6) < 0.015
    assert np.asarray(found.reopen).sum() > 0


def test_rdm_keeps_as_many_letters_as_the_schedule_asks_for():
    seen = view()
    found, _ = moves(RDM(), seen)
    kept = (np.asarray(seen.held) & ~np.asarray(found.reopen)) | np.asarray(found.commit)
    assert (kept.sum(axis=1) == int(np.ceil(0.375 * L))).all()


def test_wino_takes_back_fewer_than_it_committed():
    seen = view(sharp=1.0)
    planner = WINO(wide=0.3, narrow=0.99)
    first, state = moves(planner, seen)
    assert not np.any(first.reopen)
    second, _ = moves(planner, seen, state=state)
    taken, back = np.asarray(first.commit).sum(axis=1), np.asarray(second.reopen).sum(axis=1)
    assert (back <= np.maximum(taken - 1, 0)).all()
    assert back.sum() > 0


@pytest.mark.parametrize("stability", [0, 1, 2])
def test_rows_stop_after_as_many_equal_predictions(stability: int):
    planner = UntilStable(inner=Accept(), stability=stability, entropy=10.0)
    state, stops = None, []
    for step in range(4):
        found, state = moves(planner, view(), seed=step, state=state)
        stops.append(np.asarray(found.stop).all())
    assert stops.index(True) == stability
    restless, _ = moves(planner, view(seed=7), state=state)
    assert stability == 0 or not np.asarray(restless.stop).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EntropyBound(gamma=-1), "gamma=-1"),
        (lambda: Threshold(confidence=2), "confidence=2"),
        (lambda: ReMDM(rule="loop"), "choose one of cap"),
        (lambda: RDM(eta=2.0), "take p2"),
        (lambda: Blocks(inner=Random(), size=0), "size=0"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message: str):
    with pytest.raises(InputError, match=message):
        make()
