"""Counts, scales, budgets, ties and pairs: words, round trips, what is refused, and agreement with Biopython."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from Bio.SeqUtils import molecular_weight
from Bio.SeqUtils.ProtParam import ProteinAnalysis
from hypothesis import given, settings
from hypothesis import strategies as st

import seqdiff
from seqdiff.constraints import Scale, compile_constraints, parse_constraint
from seqdiff.core.errors import InfeasibleError, InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.codons import DNA
from tests.helpers import TINY, parse

SEQUON = {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}}


def compiled(items: list[dict], length: int, **options):
    return compile_constraints(parse(items, PROTEIN), Layout(PROTEIN, length, length), **options)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"count": {"letters": "KE", "percent": [0, 25]}}, "count EK 0-25 %"),
        ({"charge": {"min": -2, "max": 2}}, "net charge -2..2"),
        ({"charge": {"exactly": 1, "histidine": 0.1, "termini": "n"}}, "net charge exactly 1, H +0.1, termini n"),
        ({"sum": {"property": "gravy", "max": -0.4}}, "gravy at most -0.4"),
        ({"sum": {"weights": {"W": 1, "Y": 0.5}, "min": 2}}, "sum of weights at least 2"),
        ({"mutations": {"parent": "MKV", "max": 1}}, "mutations from the parent (3 residues) at most 1"),
        ({"identity": {"known": {"a": "MKV"}, "max": 0.5}}, "identity 0..0.5 to each of 1 (a)"),
        ({"tied": {"period": 30}}, "repeats every 30"),
        ({"tied": {"groups": [["1-3", "7-9"], [4, 6]], "pool": "sum"}}, "tied 1-3 = 7-9; 4 = 6, log-probabilities add"),
        ({"tied": {"groups": [["1-3", "7-9"]], "weights": [1, 0.5]}}, "tied 1-3 = 7-9, weights 1, 0.5"),
        ({"tied": {"mirror": "2-9"}}, "mirror 2-9"),
        ({"pair": {"positions": [[2, 9]], "allowed": ["CC"]}}, "pair 2-9 C/C"),
        (
            {"pair": {"positions": [[2, 9], [3, 7]], "both_or_neither": "C", "max": 1}},
            "pair 2-9, 3-7 both or neither C, at most 1 of 2",
        ),
        ({"repeat": {"length": 4, "region": "2-"}}, "no word of 4 occurs twice in 2-end"),
    ],
)
def test_words_and_round_trips(item: dict, words: str):
    constraint = parse_constraint(item, PROTEIN)
    assert constraint.describe() == words
    assert parse_constraint({constraint.name: constraint.to_spec()}, PROTEIN) == constraint


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"count": {"letters": "C", "percent": [50, 20]}}, "need 0 <= lowest <= highest <= 100"),
        ({"count": {"letters": "C", "percent": [0, 20], "max": 3}}, "'percent' cannot stand beside 'max'"),
        ({"count": {"letters": False, "max": 1}}, "put letters in quotes"),
        ({"charge": {}}, "needs 'min', 'max' or 'exactly'"),
        ({"charge": {"min": 2, "max": -2}}, "min=2 is more than max=-2"),
        ({"charge": {"max": 2, "histidine": 2}}, "not a charge from 0 to 1"),
        ({"charge": {"max": 2, "termini": "n", "region": "2-5"}}, "belongs to the whole design"),
        ({"sum": {"property": "masss", "max": 2}}, "did you mean 'mass'"),
        ({"sum": {"weights": {"X": 1}, "max": 2}}, "unknown key 'X'"),
        ({"mutations": {"parent": "MKX", "max": 2}}, "'X' at position 3"),
        ({"identity": {"known": {}, "max": 0.5}}, "name a FASTA file"),
        ({"identity": {"known": {"a": "MKV"}, "max": 50}}, "fractions of identical positions"),
        ({"tied": {"period": 3, "mirror": "1-4"}}, "give one of"),
        ({"tied": {"palindrome": "1-4"}}, "have no complement"),
        ({"tied": {"groups": [["1-3", "5-6"]]}}, "of equal length"),
        ({"pair": {"positions": [[3, 3]], "allowed": ["CC"]}}, "paired with itself"),
        ({"pair": {"positions": [[1, 3]], "allowed": ["CCC"]}}, "is not two letters"),
        ({"pair": {"positions": [[1, 3]], "allowed": ["CC"], "min_separation": 5}}, "5 or more positions apart"),
        ({"pair": {"positions": [[1, 3]], "allowed": ["CC"], "min": 2}}, "at least 2 of 1 listed pairs"),
        ({"pair": {"positions": [[1, 3]], "complementary": True}}, "needs an alphabet with complements"),
        ({"repeat": {"length": 1}}, "whole number of at least 2"),
    ],
)
def test_refusals(item: dict, message: str):
    with pytest.raises(InputError, match=message) as caught:
        parse_constraint(item, PROTEIN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"mutations": {"parent": "MKV", "max": 2}}, "the parent has 3 residues, designs have 40"),
        ({"identity": {"known": {"nedd8": "MKV"}, "max": 0.5}}, "nedd8 has 3 residues"),
        ({"tied": {"groups": [["1-3", "40-42"]]}}, "position 42 is out of range"),
        ({"tied": {"period": 40}}, "ties nothing in a design of 40"),
        ({"pair": {"positions": [[1, 41]], "allowed": ["CC"]}}, "position 41 is out of range"),
        ({"sum": {"property": "mass", "max": 9, "resolution": 1e-5}}, "too fine"),
    ],
)
def test_what_does_not_fit_the_canvas(item: dict, message: str):
    with pytest.raises(InputError, match=message):
        compiled([item], 40)


def test_ties_need_one_length():
    with pytest.raises(InputError, match="need one length"):
        compile_constraints(parse([{"tied": {"period": 5}}], PROTEIN), Layout(PROTEIN, 20, 22))


def test_a_thousand_constraints_are_the_limit():
    with pytest.raises(InputError, match="1001 constraints are more than 1000"):
        compiled([{"forbid": {"positions": 1, "letters": "C"}}] * 1001, 10)


@pytest.mark.parametrize(
    ("items", "advice"),
    [
        ([{"count": {"letters": "C", "exactly": 5}}, {"forbid": {"letters": "C", "positions": "4-"}}], "at most 7"),
        ([{"count": {"letters": "C", "min": 30}}], "feasible if count C at least 20"),
        ([{"charge": {"min": 3}}, {"forbid": {"letters": "KR"}}], "feasible if net charge at least 0"),
        ([{"run": {"max": 2}}, {"fixed": {"4-7": "AAAA"}}], "feasible if run of one letter at most 4"),
        (
            [{"mutations": {"parent": "MKVLAGHTPWMKVLAGHTPW", "max": 1}}, {"forbid": {"letters": "M"}}],
            "feasible if mutations from the parent .20 residues. at most 2",
        ),
    ],
)
def test_what_would_help(items: list[dict], advice: str):
    with pytest.raises(InfeasibleError, match=advice):
        compiled(items, 20)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.text("ACDEFGHIKLMNPQRSTVWY", min_size=1, max_size=60))
def test_scales_agree_with_biopython(text: str):
    found = {
        name: float(parse_constraint({"sum": {"property": name, "max": 1e9}}, PROTEIN).holds(text).reason.split()[1])
        for name in ("mass", "gravy", "extinction")
    }
    analysis = ProteinAnalysis(text)
    assert found["mass"] == pytest.approx(molecular_weight(text, "protein"), rel=1e-5, abs=0.05)
    assert found["gravy"] == pytest.approx(analysis.gravy(), rel=1e-4, abs=1e-4)
    assert found["extinction"] == pytest.approx(analysis.molar_extinction_coefficient()[0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.text("ACDEFGHIKLMNPQRSTVWY", min_size=12, max_size=12),
    st.floats(-30, 30),
    st.sampled_from([{}, {"resolution": 0.5}, {"resolution": 7.0}]),
)
def test_a_rounded_sum_never_lets_a_text_out_of_the_window(text: str, shift: float, options: dict):
    mass = molecular_weight(text, "protein")
    (constraint,) = parse(
        [{"sum": {"property": "mass", "min": mass + shift - 10, "max": mass + shift} | options}], PROTEIN
    )
    assert isinstance(constraint, Scale)
    layout = Layout(PROTEIN, 12, 12)
    (part,) = constraint.lower(layout).sums
    total = part.weights[np.arange(12), PROTEIN.encode(text)].sum()
    low, high = part.limits(12)
    accepted = (low is None or total >= low) and (high is None or total <= high)
    assert not accepted or constraint.holds(text).ok


def test_routes():
    """What is exact, what is read as copies or as a forest, and what falls to the solver, with the reason."""
    repeat = compiled([{"tied": {"period": 30}}, {"charge": {"min": -2, "max": 2}}, SEQUON], 120)
    assert repeat.guarantee == "exact"
    assert [part.route for part in repeat.parts] == ["shared letters", "automaton", "automaton x 4 copies"]
    pairs = [[i, 60 - i] for i in range(1, 29)]
    forest = compiled([{"pair": {"positions": pairs, "allowed": [["KR", "DE"], ["DE", "KR"]]}}], 60)
    assert (forest.guarantee, forest.states, forest.parts[0].route) == ("exact", 2, "forest")
    crossing = compiled(
        [{"pair": {"positions": pairs, "allowed": [["KR", "DE"], ["DE", "KR"]]}}, SEQUON], 60, budget=64
    )
    assert crossing.guarantee == "feasible"
    assert "over 64 joint states" in crossing.explain()[0]["note"]
    copies = compiled([{"tied": {"groups": [["1-10", "15-24"]]}}, SEQUON], 30)
    assert copies.parts[1].note == "reads positions that share a letter"


def test_a_palindrome_is_its_own_reverse_complement():
    constraints = parse([{"tied": {"palindrome": "1-8"}}, {"fixed": {1: "G", 3: "T"}}], DNA)
    found = compile_constraints(constraints, Layout(DNA, 8, 8)).determined()
    assert [DNA.letters[i] if i >= 0 else "." for i in found] == list("G.T..A.C")
    with pytest.raises(InfeasibleError):
        compile_constraints(parse([{"tied": {"palindrome": "1-5"}}], DNA), Layout(DNA, 8, 8))
    assert parse([{"tied": {"palindrome": "1-4"}}], TINY)[0].holds("ACDB").ok


@pytest.mark.parametrize(
    ("items", "length", "guarantee"),
    [
        ([{"tied": {"period": 12}}, {"charge": {"exactly": 3}}, SEQUON], 36, "exact"),
        (
            [{"tied": {"groups": [["1-10", "15-24"]]}}, SEQUON, {"repeat": {"length": 3, "region": "5-20"}}],
            30,
            "feasible",
        ),
    ],
)
def test_designs_obey(items: list[dict], length, guarantee: str):
    keys = {"length": length, "constraints": items, "seed": 5, "sampling": {"steps": 4, "batch": 4}}
    designs = seqdiff.design(n=4, **keys)
    assert designs.guarantee == guarantee
    assert designs.satisfied == 4
    assert len(set(designs.sequences)) > 1
    if guarantee == "feasible":
        again = seqdiff.design(n=2, **keys)
        assert again.sequences == designs.sequences[:2]


def test_weights_of_tied_positions_weigh_their_log_probabilities():
    program = compiled([{"tied": {"groups": [["1-2", "4-5"]], "weights": [1.5, -0.5]}}], 6).program(6)
    log_p = jax.nn.log_softmax(jax.random.normal(jax.random.key(0), (1, 6, 20)))
    canvas = jnp.full((1, 6), PROTEIN.mask, jnp.int32)
    found = program.condition(jax.random.split(jax.random.key(1), 1), log_p, canvas, jnp.array([6], jnp.int32), canvas)
    wanted = jax.nn.softmax(1.5 * log_p[0, 0] - 0.5 * log_p[0, 3])
    np.testing.assert_allclose(found.marginals[0, [0, 3]], jnp.stack([wanted, wanted]), atol=1e-5)
    np.testing.assert_allclose(found.marginals[0, 2], jnp.exp(log_p[0, 2]), atol=1e-5)


def test_the_evidence_counts_ties_however_they_are_pooled():
    """Three equal letters of twenty equally likely ones: one in 400, twice."""
    for pool in ("mean", "sum"):
        program = compiled([{"tied": {"groups": [[1, 3, 5], [2, 4, 6]], "pool": pool}}], 6).program(8)
        flat = jnp.full((1, 8, 20), -np.log(20.0), jnp.float32)
        canvas = jnp.full((1, 8), PROTEIN.mask, jnp.int32)
        keys, length = jax.random.split(jax.random.key(0), 1), jnp.array([6], jnp.int32)
        found = program.condition(keys, flat, canvas, length, canvas)
        assert float(found.log_evidence[0]) == pytest.approx(-2 * np.log(400), abs=1e-4)
        assert float(program.log_evidence(flat, canvas, length)[0]) == pytest.approx(-2 * np.log(400), abs=1e-4)
