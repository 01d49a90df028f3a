"""Groups of different letters: every 4x4 board, puzzles with one and with several solutions, contradictions."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from seqdiff.constraints import distinct_host, parse_constraint
from seqdiff.constraints.distinct import AllDifferent
from seqdiff.constraints.distinct_host import complete, contradiction, maximise
from seqdiff.constraints.distinct_program import DistinctProgram
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Conditioned
from seqdiff.core.errors import InputError, missing_extra
from seqdiff.core.layout import Layout
from tests.helpers import TINY

DIGITS = "123456789"
# Two puzzles of 17 clues from G. Royle's list (CC BY 2.5), with their solutions; the second takes branches.
ROYLE = (
    (
        ".......1.4.........2...........5.4.7..8...3....1.9....3..4..2...5.1........8.6...",
        "693784512487512936125963874932651487568247391741398625319475268856129743274836159",
    ),
    (
        ".......1.4.........2...........5.6.4..8...3....1.9....3..4..2...5.1........8.7...",
        "793684512486512937125973846932751684578246391641398725319465278857129463264837159",
    ),
)


def units(size: int, high: int, wide: int) -> list[tuple[int, ...]]:
    """Rows, columns and boxes of a board."""
    places = [(r, c) for r in range(size) for c in range(size)]
    kinds = (lambda r, c: r, lambda r, c: c, lambda r, c: r // high * high + c // wide)
    return [tuple(p for p, at in enumerate(places) if kind(*at) == unit) for kind in kinds for unit in range(size)]


FOUR, SIX, NINE = units(4, 2, 2), units(6, 2, 3), units(9, 3, 3)


def program(groups: list[tuple[int, ...]], letters: int, **options: int) -> DistinctProgram:
    size = max(map(max, groups)) + 1
    return DistinctProgram.make(groups, np.ones((size, letters), bool), size, **options)


def ids(*texts: str) -> Array:
    return jnp.asarray([[9 if c == "." else DIGITS.index(c) for c in text] for text in texts], jnp.int32)


condition, log_evidence = jax.jit(DistinctProgram.condition), jax.jit(DistinctProgram.log_evidence)
ROWS = {4: 512, 6: 8, 9: 16}
"""Rows of a batch by number of letters, so that tests share compilations."""


def draw(program: DistinctProgram, canvas: Array, log_proposal: Array | None = None, *, seed: int = 0) -> Conditioned:
    """Condition every row of ``canvas``, padded to whole batches; uniform proposal by default."""
    size, vocab = program.allowed.shape
    rows, batch = len(canvas), ROWS[vocab]
    spare = -rows % batch
    proposal = jnp.full((*canvas.shape, vocab), -jnp.log(float(vocab))) if log_proposal is None else log_proposal
    key, canvas = keys(rows + spare, seed), jnp.pad(canvas, ((0, spare), (0, 0)), mode="edge")
    proposal = jnp.pad(proposal, ((0, spare), (0, 0), (0, 0)), mode="edge")
    length = jnp.full((batch,), size, jnp.int32)
    parts = [slice(first, first + batch) for first in range(0, rows + spare, batch)]
    done = [condition(program, key[part], proposal[part], canvas[part], length, canvas[part]) for part in parts]
    return Conditioned(
        *(np.concatenate([np.asarray(leaf) for leaf in leaves])[:rows] for leaves in zip(*done, strict=True))
    )


def keys(n: int, seed: int = 0) -> Array:
    return jax.random.split(jax.random.key(seed), n)


def valid(texts: np.ndarray, groups: list[tuple[int, ...]]) -> bool:
    return all(len(set(row[list(group)].tolist())) == len(group) for row in texts for group in groups)


def different(groups: object) -> AllDifferent:
    return parse_constraint({"all_different": {"groups": groups}}, TINY)  # pyright: ignore[reportReturnType]


def test_words():
    constraint = different(["1-4", [5, 7, "8-"]])
    assert constraint.describe() == "all different in 1-4; 5,7,8-end"
    assert parse_constraint({"all_different": constraint.to_spec()}, TINY) == constraint
    assert constraint.holds("ABCDA-BCD").ok
    assert constraint.holds("ABCBA") == (False, "B at position 2 and at position 4")
    assert constraint.lower(Layout(TINY, 9, 9)).distinct == ((0, 1, 2, 3), (4, 6, 7, 8))
    many = different([[i, i + 1] for i in range(1, 8)])
    assert many.describe() == "all different in 1,2; 2,3; 3,4 and 4 more groups"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("1-4", "write a list of groups"),
        ([], "write a list of groups"),
        (["1-x"], "write first-last"),
        (["1-4", "2-6"], "group 2-6 has 5 positions for 4 letters"),
        ([["1-3", 2]], "group 1-3,2 names a position twice"),
        (["1-2", "8-11"], "position 11 is out of range"),
    ],
)
def test_bad_words(groups: object, words: str):
    with pytest.raises(InputError, match=words) as caught:
        different(groups).lower(Layout(TINY, 10, 10))
    assert "\n" not in str(caught.value)


def test_every_board_of_four_appears():
    drawn = draw(program(FOUR, 4), jnp.full((4096, 16), 4, jnp.int32))
    boards = np.asarray(drawn.witness)
    assert valid(boards, FOUR)
    counts = Counter(map(tuple, boards.tolist()))
    assert len(counts) == 288  # every 4x4 grid; a grid of mean count 14 is missed with probability 6e-7
    variation = 0.5 * sum(abs(n / 4096 - 1 / 288) for n in counts.values())
    assert variation < 0.22  # 0.106 would be sampling noise alone: the law is near uniform, not uniform
    np.testing.assert_allclose(np.asarray(drawn.marginals), 0.25, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(drawn.log_evidence), 0.0, atol=1e-5)


@pytest.mark.parametrize(("groups", "letters"), [(SIX, 6), (NINE, 9)])
def test_empty_boards(groups: list[tuple[int, ...]], letters: int):
    canvas = jnp.full((8, letters**2), letters, jnp.int32)
    proposal = jax.nn.log_softmax(3 * jax.random.normal(jax.random.key(5), (*canvas.shape, letters)), axis=-1)
    boards = np.asarray(draw(program(groups, letters), canvas, proposal).witness)
    assert valid(boards, groups)
    assert len(set(map(tuple, boards.tolist()))) == 8


def test_seventeen_clues():
    puzzles, solutions = (ids(*texts) for texts in zip(*ROYLE, strict=True))
    drawn = draw(program(NINE, 9), puzzles)
    np.testing.assert_array_equal(np.asarray(drawn.witness), np.asarray(solutions))
    known = np.asarray(puzzles) < 9
    np.testing.assert_allclose(np.asarray(drawn.marginals)[known].max(axis=1), 1.0)
    assert np.all(np.take_along_axis(np.asarray(drawn.marginals), np.asarray(solutions)[..., None], axis=2) > 0)
    evidence = log_evidence(program(NINE, 9), jnp.full((2, 81, 9), -jnp.log(9.0)), puzzles, jnp.full((2,), 81))
    np.testing.assert_allclose(np.asarray(evidence), np.asarray(drawn.log_evidence), rtol=1e-6)


def several() -> tuple[Array, set[tuple[int, ...]]]:
    """A 4x4 puzzle and all of its solutions, by trying every board of the search on the host."""
    canvas = np.full(16, 4, np.int32)
    canvas[[0, 1, 6]] = (0, 1, 0)
    found: set[tuple[int, ...]] = set()
    for seed in range(400):
        values = np.random.default_rng(seed).gumbel(size=(16, 4)).astype(np.float32)
        letters = complete(FOUR, [15 if c == 4 else 1 << int(c) for c in canvas], values)
        assert letters is not None
        found.add(tuple(letters))
    return jnp.asarray(canvas), found


def test_several_solutions_are_sampled():
    canvas, solutions = several()
    n = 512
    drawn = np.asarray(draw(program(FOUR, 4), jnp.tile(canvas[None], (n, 1))).witness)
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == solutions
    variation = 0.5 * sum(abs(counts[s] / n - 1 / len(solutions)) for s in solutions)
    print(f"{len(solutions)} solutions, total variation from uniform {variation:.3f}")
    assert variation < 0.25


def test_a_sharp_proposal_is_followed():
    target = jnp.asarray([0, 1, 2, 3, 2, 3, 0, 1, 1, 0, 3, 2, 3, 2, 1, 0])
    proposal = jnp.tile(jax.nn.log_softmax(12.0 * jax.nn.one_hot(target, 4))[None], (32, 1, 1))
    drawn = draw(program(FOUR, 4), jnp.full((32, 16), 4, jnp.int32), proposal)
    assert np.mean(np.asarray(drawn.witness) == np.asarray(target)) > 0.99


def test_rows_do_not_depend_on_their_batch():
    rows = 128  # enough that the last ones are searched in a smaller batch
    puzzles = jnp.tile(ids(ROYLE[0][0], "." * 81, "12" + "." * 79, "." * 80 + "7"), (rows // 4, 1))
    proposal, length = jnp.full((rows, 81, 9), -jnp.log(9.0)), jnp.full((rows,), 81, jnp.int32)
    together = condition(program(NINE, 9), keys(rows), proposal, puzzles, length, puzzles)
    chosen = jnp.arange(100, 116)
    apart = condition(
        program(NINE, 9), keys(rows)[chosen], proposal[:16], puzzles[chosen], length[:16], puzzles[chosen]
    )
    for whole, part in zip(together, apart, strict=True):
        np.testing.assert_allclose(np.asarray(whole)[100:116], np.asarray(part), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(together.witness)[100:116], np.asarray(apart.witness))


def test_other_clues_and_groups_compile_nothing():
    first, second = program(NINE, 9), program([tuple(80 - p for p in group) for group in NINE[::-1]], 9)
    draw(first, ids("." * 81, ROYLE[0][0]))
    before = condition._cache_size()
    drawn = draw(second, ids(ROYLE[1][0], "1" + "." * 80), seed=1)
    assert condition._cache_size() == before
    assert valid(drawn.witness, NINE)


def test_contradictions_on_the_device():
    clash = "55" + "." * 79
    crowded = "12345678." + ".........9".rjust(18, ".") + "." * 54  # the last cell of the first row has no letter left
    drawn = draw(program(NINE, 9), ids(clash, crowded, "." * 81))
    assert np.isneginf(np.asarray(drawn.log_evidence)).tolist() == [True, True, False]
    assert not np.any(np.isnan(np.asarray(drawn.marginals)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("55" + "." * 79, "5 stands at positions 1 and 2, which must differ"),
        ("12345678." + "." * 17 + "9" + "." * 54, "positions 9 and 27 can be nothing but 9, and must differ"),
        ("1" + "." * 11 + "1" + "." * 20 + "1" + "." * 47, None),
    ],
)
def test_contradictions_in_words(text: str, words: str | None):
    found = contradiction(NINE, np.ones((81, 9), bool), np.asarray(ids(text)[0]), DIGITS)
    assert found == words


def test_contradictions_beyond_propagation():
    three = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]  # an odd cycle has no colouring with two letters
    open_cells = np.full(5, 2)
    words = contradiction(three, np.ones((5, 2), bool), open_cells, "AB")
    assert words == "whichever of A, B stands at position 1, the rest contradicts it"
    canvas = jnp.full((1, 5), 2, jnp.int32)
    drawn = condition(program(three, 2), keys(1), jnp.zeros((1, 5, 2)), canvas, jnp.full((1,), 5), canvas)
    assert np.isneginf(np.asarray(drawn.log_evidence))


def test_missing_places_and_free_positions():
    groups, allowed = [(0, 1, 2), (1, 2, 3, 5)], np.ones((7, 4), bool)
    allowed[4] = [False, True, False, False]
    searched = DistinctProgram.make(groups, allowed, 8)
    canvas = jnp.full((16, 8), 4, jnp.int32).at[:, 0].set(2)
    length = jnp.asarray([5, 7] * 8, jnp.int32)
    proposal = jnp.full((16, 8, 4), -jnp.log(4.0))
    drawn: Conditioned = condition(searched, keys(16), proposal, canvas, length, canvas)
    for row, size in zip(np.asarray(drawn.witness), length.tolist(), strict=True):
        present = [tuple(p for p in group if p < size) for group in groups]
        assert valid(row[None], present)
        assert row[0] == 2
        assert row[4] == 1
        assert (row[size:] == 4).all()
    assert not np.asarray(drawn.marginals)[0, 5:].any()


@pytest.mark.parametrize("with_solver", [True, False])
def test_rows_that_run_out_of_branches_go_to_the_host(with_solver: bool, monkeypatch: pytest.MonkeyPatch):
    if with_solver:
        pytest.importorskip("ortools", reason="the solver extra is not installed")
    else:
        monkeypatch.setattr(distinct_host, "maximise", without_solver)
    canvas = jnp.full((4, 36), 6, jnp.int32)
    drawn = draw(program(SIX, 6, branches=0), canvas)
    assert valid(np.asarray(drawn.witness), SIX)
    assert np.isfinite(np.asarray(drawn.log_evidence)).all()


def without_solver(*_: object, **__: object) -> None:
    raise missing_extra("ortools", "solver")


def test_a_hint_is_the_last_resort(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distinct_host, "maximise", lambda *_, **__: None)
    canvas = jnp.full((8, 36), 6, jnp.int32)
    board = jnp.asarray(draw(program(SIX, 6), canvas).witness[0])
    hint = canvas.at[0].set(board)
    length, proposal = jnp.full((8,), 36, jnp.int32), jnp.full((8, 36, 6), -jnp.log(6.0))
    drawn = condition(program(SIX, 6, branches=0), keys(8), proposal, canvas, length, hint)
    np.testing.assert_array_equal(np.asarray(drawn.witness[0]), np.asarray(board))
    assert np.isneginf(np.asarray(drawn.log_evidence)).tolist() == [False] + [True] * 7


def test_the_solver_finds_the_best():
    pytest.importorskip("ortools", reason="the solver extra is not installed")
    values = np.zeros((16, 4), np.float32)
    values[0, 2] = values[5, 3] = 5.0
    best = maximise(FOUR, [15] * 16, values)
    assert best is not None
    assert (best[0], best[5]) == (2, 3)
    assert valid(np.array([best]), FOUR)


def test_too_many_letters():
    wide = Alphabet("wide", "".join(chr(0x100 + i) for i in range(33)))
    with pytest.raises(InputError, match="at most 32 letters, not 33"):
        program([(0, 1)], len(wide))
