"""Compiling sets of constraints: routes, sizes, and messages about sets that cannot be."""

import re

import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.errors import BudgetError, InfeasibleError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from tests.helpers import parse

FINGER = {"pattern": {"prosite": "C-x(2,4)-C-x(3)-[LIVMFYWC]-x(8)-H-x(3,5)-H"}}
MAIN = [
    {"fixed": {1: "M"}},
    {"count": {"letters": "M", "exactly": 1}},
    FINGER,
    {"count": {"letters": "C", "exactly": 2}},
    {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    {"run": {"max": 3}},
]


def compile(items: list[dict], low: int, high: int, **options):
    return compile_constraints(parse(items, PROTEIN), Layout(PROTEIN, low, high), **options)


def test_the_main_job_is_small_although_the_finger_alone_is_not():
    compiled = compile(MAIN, 90, 110)
    assert compiled.states == 773
    assert [part.route for part in compiled.parts] == ["letters", *["automaton"] * 5]
    assert compiled.lengths().tolist() == list(range(90, 111))
    determined = compiled.determined()
    assert determined[0] == PROTEIN.letters.index("M")
    assert (determined[1:] == -1).all()
    assert compile([FINGER], 90, 110).parts[0].route == "path"


# Sizes measured by an independent determinisation (states of the minimal automaton, dead state not counted).
@pytest.mark.parametrize(
    ("regex", "states"), [("N[^P][ST]", 4), ("L.{3}L.{2}L", 34), ("[AG].{4}GK[ST]", 56), ("RGD.{5,15}KDEL", 149)]
)
def test_automata_are_minimal(regex: str, states: int):
    compiled = compile([{"pattern": {"regex": regex, "at_least": 1}}], 90, 90)
    middle = len(compiled.layers.accept[45])
    assert middle in (states, states + 1)


def test_the_leucine_zipper_takes_the_path_route():
    compiled = compile([{"pattern": {"regex": "L.{6}L.{6}L.{6}L"}}], 60, 60)
    assert compiled.explain()[0]["route"] == "path"
    with pytest.raises(BudgetError, match=re.escape("L.{6}L.{6}L.{6}L at least 2")):
        compile([{"pattern": {"regex": "L.{6}L.{6}L.{6}L", "at_least": 2}}], 60, 60)


def test_lengths_that_cannot_be_are_left_out():
    compiled = compile([{"pattern": {"regex": "(AC)*", "matches": True}}], 3, 8)
    assert compiled.lengths().tolist() == [4, 6, 8]
    even = compile([{"pattern": {"regex": "A(CD)*K", "matches": True}}], 4, 4)
    assert [PROTEIN.letters[i] for i in even.determined()] == list("ACDK")


@pytest.mark.parametrize(
    ("items", "conflict", "positions"),
    [
        ([{"fixed": {30: "C"}}, {"forbid": {"letters": "C"}}, {"run": {"max": 2}}], 2, (30,)),
        ([*MAIN, {"forbid": {"letters": "H"}}], 2, (100,)),
        ([{"fixed": {"20-22": "GSG"}}, {"pattern": {"regex": "GSG", "exactly": 0, "region": "10-30"}}], 2, (22,)),
        ([{"allow": {"positions": "5-6", "letters": "A"}}, {"forbid": {"positions": "6-7", "letters": "A"}}], 2, (6,)),
        ([{"pattern": {"regex": "A{101}"}}], 1, (100,)),
        ([{"count": {"letters": "any", "max": 99}}], 1, (100,)),
    ],
)
def test_infeasible_sets_name_a_minimal_clash(items: list[dict], conflict: int, positions: tuple[int, ...]):
    with pytest.raises(InfeasibleError) as caught:
        compile(items, 100, 100)
    assert len(caught.value.conflict) == conflict
    assert caught.value.positions == positions
    assert all(words in str(caught.value) for words in caught.value.conflict)
    assert "\n" not in str(caught.value)


def test_shapes_are_rounded_so_that_similar_sets_share_a_loop():
    shapes = [
        np.shape(compile([{"pattern": {"regex": regex}}, {"run": {"max": 3}}], 40, 40).program(48).rows)
        for regex in ("RGD", "KDE")
    ]
    assert shapes[0] == shapes[1]
