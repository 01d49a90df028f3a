"""Ehrlich functions: the evaluator by hand and by brute force, the construction, and designs that are never worse."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import seqdiff
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.ehrlich import Ehrlich, Uniform, compare, main, make_ehrlich
from tests.helpers import parse

SIZES = [
    {"states": 20, "length": 32, "motifs": 4, "motif_length": 4},
    {"states": 4, "length": 7, "motifs": 2, "motif_length": 3},
    {"states": 9, "length": 30, "motifs": 3, "motif_length": 6, "quantization": 3},
    {"states": 3, "length": 5, "motifs": 1, "motif_length": 2, "quantization": 1},
    {"states": 20, "length": 64, "motifs": 8, "motif_length": 8, "quantization": 8},
]
SAMPLING = {"planner": "random", "steps": 4}


def _brute_force(function: Ehrlich, text: str) -> float:
    """The definition of Stanton et al. 2024, a letter at a time."""
    states = [PROTEIN.letters.index(letter) for letter in text]
    for before, after in itertools.pairwise(states):
        if function.transitions[before, after] == 0:
            return -np.inf
    value = Fraction(1)
    for motif, offsets in zip(function.motifs.tolist(), function.offsets.tolist(), strict=True):
        best = Fraction(0)
        for place in range(len(states)):
            if place + offsets[-1] < len(states):
                present = [states[place + offset] == state for state, offset in zip(motif, offsets, strict=True)]
                level = Fraction(sum(present), len(motif)) * function.quantization // 1
                best = max(best, Fraction(level, function.quantization))
        value *= best
    return float(value)


def _optimum(function: Ehrlich) -> np.ndarray:
    """A sequence of value 1: the motifs one after the other, gaps filled with the state before them."""
    states: list[int] = []
    for motif, offsets in zip(function.motifs.tolist(), function.offsets.tolist(), strict=True):
        gaps = [*np.diff(offsets), 1]
        states += [state for state, gap in zip(motif, gaps, strict=True) for _ in range(gap)]
    return np.array(states + [states[-1]] * (function.length - len(states)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("AADCCA", 1.0),
        ("AADCDA", 0.5),
        ("DADADC", 0.25),
        ("DDDDDD", 0.0),  # half of A.D and nothing of CC
        ("ACDCCA", -np.inf),  # AC is banned
        ("CCCCDA", 0.5),  # half of A.D: the one that starts at the end has no room
        ("CCAADD", 1.0),
    ],
)
def test_values_by_hand(text: str, value: float):
    function = Ehrlich(
        transitions=np.array([[0.5, 0, 0.5], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]),
        motifs=np.array([[0, 2], [1, 1]]),
        offsets=np.array([[0, 2], [0, 1]]),
        length=6,
        quantization=2,
    )
    assert function.of_texts([text]).tolist() == [value]
    assert _brute_force(function, text) == value


@pytest.mark.parametrize(("quantization", "levels"), [(4, [0, 0.25, 0.5, 0.75, 1]), (2, [0, 0, 0.5, 0.5, 1])])
def test_quantization_rounds_down(quantization: int, levels: list[float]):
    function = Ehrlich(
        transitions=np.full((5, 5), 0.2),
        motifs=np.array([[0, 1, 2, 3]]),
        offsets=np.array([[0, 1, 3, 4]]),
        length=5,
        quantization=quantization,
    )
    assert function.of_texts(["FFFFF", "AFFFF", "ACFFF", "ACFDF", "ACFDE"]).tolist() == levels


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_values_by_brute_force(size: dict, seed: int):
    function = make_ehrlich(**size, seed=seed)
    rng = np.random.default_rng(seed)
    # Uniform sequences are rarely feasible: mutate an optimal one more and more instead.
    states = np.tile(_optimum(function), (200, 1))
    change = rng.random(states.shape) < np.linspace(0, 0.5, 200)[:, None]
    states = np.where(change, rng.integers(0, size["states"], states.shape), states)
    values = function(states)
    assert values.tolist() == [_brute_force(function, PROTEIN.decode(row)) for row in states]
    assert len(set(values)) > 2 - (size["states"] == 3)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_construction_follows_holo(size: dict):
    states = size["states"]
    for seed in range(20):
        function = make_ehrlich(**size, seed=seed)
        allowed = function.transitions > 0
        np.testing.assert_allclose(function.transitions.sum(axis=1), 1)
        assert allowed.diagonal().all()
        band = min(2 * int(0.4 * states) + 1, states)
        assert set(allowed.sum(axis=1)) <= {band, min(band + 1, states)}
        reach = np.linalg.matrix_power(allowed.astype(float), states)
        assert (reach > 0).all()  # with the diagonal: irreducible and aperiodic
        assert function.motifs.shape == function.offsets.shape == (size["motifs"], size["motif_length"])
        assert (np.diff(function.offsets) >= 1).all()
        assert (function.offsets[:, 0] == 0).all()
        assert function.offsets[:, -1].max() < size["length"] // size["motifs"]
        assert function(_optimum(function)[None]).tolist() == [1.0]


def test_seeds_make_different_functions():
    one, again, other = (make_ehrlich(**SIZES[0], seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transitions, again.transitions)
    np.testing.assert_array_equal(one.motifs, again.motifs)
    assert (one.motifs != other.motifs).any()


def test_constraints_hold_exactly_where_the_value_says():
    for seed in range(3):
        function = make_ehrlich(**SIZES[1], seed=seed)
        feasible, optimal = (parse(items, PROTEIN) for items in (function.feasibility(), function.optimality()))
        texts = ["".join(letters) for letters in itertools.product(PROTEIN.letters[:4], repeat=7)][seed::7]
        texts += [PROTEIN.decode(_optimum(function))]
        for text, value in zip(texts, function.of_texts(texts), strict=True):
            assert all(constraint.holds(text).ok for constraint in feasible) == (value >= 0)
            assert (all(constraint.holds(text).ok for constraint in feasible + optimal)) == (value == 1)


@pytest.mark.parametrize(("states", "seed"), [(20, 0), (7, 3)])
def test_every_design_is_feasible(states: int, seed: int):
    function = make_ehrlich(states=states, length=24, motifs=2, motif_length=4, seed=seed)
    constraints = function.feasibility()
    designs = seqdiff.design(length=24, n=64, seed=seed, model=Uniform(), constraints=constraints, sampling=SAMPLING)
    values = function.of_texts(designs.sequences)
    assert np.isfinite(values).all()
    assert len(set(designs.sequences)) == 64


@pytest.mark.parametrize("seed", range(1))
def test_every_design_is_optimal(seed: int):
    function = make_ehrlich(states=20, length=20, motifs=2, motif_length=4, seed=seed)
    constraints = function.feasibility() + function.optimality()
    designs = seqdiff.design(length=20, n=32, seed=seed, model=Uniform(), constraints=constraints, sampling=SAMPLING)
    assert designs.guarantee == "exact"
    assert [_brute_force(function, text) for text in designs.sequences] == [1.0] * 32
    assert len(set(designs.sequences)) == 32


def test_comparison_knows_what_rejection_would_accept():
    function = make_ehrlich(states=6, length=10, motifs=1, motif_length=3, seed=5)
    uniform, feasible, optimal = compare(function, n=8, seed=0, steps=4)
    allowed = (function.transitions > 0).astype(float)
    exact = np.linalg.matrix_power(allowed, 9).sum() / 6**10
    assert feasible["rejection"] == pytest.approx(exact, rel=1e-3)
    for key, row in (("feasible", feasible), ("optimal", optimal)):
        assert row[key] == row["draws"] == 8
        assert not row["bound"]
        # Four standard errors of the share among the uniform draws.
        error = np.sqrt(row["rejection"] / uniform["draws"])
        assert abs(uniform[key] / uniform["draws"] - row["rejection"]) < 4 * error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": 2}, "3 to 20"),
        ({"states": 21}, "3 to 20"),
        ({"length": 15}, "need length 16"),
        ({"motif_length": 1}, "at least 2 elements"),
        ({"motifs": 0}, "at least 1 motif"),
        ({"quantization": 3}, "divide the motif length 4"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_sizes_are_refused(change: dict, message: str):
    with pytest.raises(InputError, match=message):
        make_ehrlich(**SIZES[0] | change)


def test_command_prints_the_comparison(capsys: pytest.CaptureFixture):
    small = ["states=6", "length=10", "motifs=1", "motif_length=3", "n=4", "steps=4"]
    assert [row["feasible"] for row in main(small)][1:] == [4, 4]
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("banned transitions", "uniform", "feasible", "optimal", "100.00%", "exact"))


def test_command_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="states"):
        main(["states=40"])
    with pytest.raises(InputError, match="did you mean 'states'"):
        main(["stats=4"])
