"""Constraints as data: what is read is written back the same, and what is not understood is refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqdiff.constraints import REGISTRY, parse_constraint
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN

_letters = st.one_of(
    st.sampled_from(sorted(PROTEIN.groups)), st.text(PROTEIN.letters, min_size=1, max_size=5).filter(bool)
)
_region = st.sampled_from([{}, {"region": "3-9"}, {"region": "4-"}, {"region": 7}])
_specs = st.one_of(
    st.dictionaries(st.integers(1, 50), st.sampled_from(PROTEIN.letters), min_size=1).map(lambda d: {"fixed": d}),
    st.builds(lambda n, a: {n: {"letters": a}}, st.sampled_from(["allow", "forbid"]), _letters),
    st.builds(
        lambda a, p: {"forbid": {"letters": a, "positions": p}}, _letters, st.sampled_from([3, "2-8,12", [1, "5-6"]])
    ),
    st.builds(lambda r: {"pattern": {"prosite": "<M-x(2,4)-{P}-[ST>]"} | r}, _region),
    st.builds(lambda r, n: {"pattern": {"regex": "N[^P][ST]", "at_most": n} | r}, _region, st.integers(0, 3)),
    st.builds(lambda r: {"pattern": {"regex": "M.*K", "matches": True} | r}, _region),
    st.builds(
        lambda r, a, n: {"count": {"letters": a, "min": n, "max": n + 3} | r}, _region, _letters, st.integers(0, 3)
    ),
    st.builds(lambda r, n: {"run": {"max": n} | r}, _region, st.integers(1, 4)),
)


@given(_specs)
def test_round_trip(item: dict):
    constraint = parse_constraint(item, PROTEIN)
    again = parse_constraint({constraint.name: constraint.to_spec()}, PROTEIN)
    assert again == constraint
    assert again.describe() == constraint.describe()
    assert "\n" not in constraint.describe()


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"patern": {}}, "did you mean 'pattern'"),
        ({"a": 1, "b": 2}, "one name and its arguments"),
        ("fixed", "one name and its arguments"),
        ({"count": {"letter": "C", "exactly": 1}}, "did you mean 'letters'"),
        ({"count": {"letters": "C"}}, "needs 'min', 'max' or 'exactly'"),
        ({"count": {"letters": "C", "exactly": 1, "max": 3}}, "cannot stand beside"),
        ({"count": {"letters": "C", "min": 3, "max": 1}}, "more than"),
        ({"count": {"letters": "C", "min": -1}}, "whole number"),
        ({"count": {"letters": "C", "min": True}}, "whole number"),
        ({"count": {"letters": "", "min": 1}}, "empty"),
        ({"count": {"letters": "hydrophobi", "min": 1}}, "did you mean 'hydrophobic'"),
        ({"allow": {"positions": "2-1", "letters": "A"}}, "runs backwards"),
        ({"allow": {"positions": "0", "letters": "A"}}, "start at 1"),
        ({"allow": {"positions": "x", "letters": "A"}}, "first-last"),
        ({"allow": {"positions": "1", "region": "2", "letters": "A"}}, "keep one"),
        ({"allow": {"letters": "AB"}}, "'B'"),
        ({"fixed": {}}, "position: letter"),
        ({"fixed": {"2-4": "GS"}}, "2 letters"),
        ({"fixed": {2: "U"}}, "'U' at position 1"),
        ({"fixed": {2: "A", "2-3": "GG"}}, "fixed twice"),
        ({"pattern": {}}, "either 'prosite' or 'regex'"),
        ({"pattern": {"prosite": "C-x", "regex": "C"}}, "either 'prosite' or 'regex'"),
        ({"pattern": {"regex": "A*"}}, "empty text"),
        ({"pattern": {"regex": "A", "matches": True, "exactly": 1}}, "without counts"),
        ({"pattern": {"prosite": "C-x(2,1)"}}, "descending"),
        ({"pattern": {"prosite": "C--x"}}, "cannot read element ''"),
        ({"pattern": {"prosite": "C-B"}}, "'B'"),
        ({"pattern": {"prosite": "[G>]-C"}}, "last element"),
        ({"run": {"max": 0}}, "at least 1"),
        ({"run": {}}, "needs 'max'"),
        ({"run": 3}, "not a mapping"),
    ],
)
def test_refusals_are_one_line(item: object, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint(item, PROTEIN)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "item",
    [
        {"fixed": {21: "A"}},
        {"allow": {"positions": "20-61", "letters": "A"}},
        {"pattern": {"regex": "GSG", "region": "10-61"}},
        {"count": {"letters": "C", "max": 1, "region": "70-"}},
        {"run": {"max": 2, "region": "5-99"}},
    ],
)
def test_positions_out_of_range_are_refused(item: dict):
    with pytest.raises(InputError, match="out of range"):
        parse_constraint(item, PROTEIN).lower(Layout(PROTEIN, 20, 60))


def test_every_constraint_is_registered_under_its_name():
    assert {"allow", "count", "fixed", "forbid", "pattern", "run"} <= set(REGISTRY)
    assert all(cls.name == name for name, cls in REGISTRY.items())


@pytest.mark.parametrize(
    ("prosite", "yes", "no"),
    [
        ("N-{P}-[ST]-{P}", ["NASA", "GNGTG"], ["NPSA", "NASP", "NAS"]),
        ("C-x(2,4)-C", ["CAAC", "CAAAAC"], ["CAC", "CAAAAAC"]),
        ("<M-x-K", ["MAK", "MAKA"], ["AMAK"]),
        ("K-D-E-L>", ["AKDEL"], ["KDELA"]),
        ("A-[G>].", ["AG", "CA", "AGC"], ["AC"]),
        ("<A-[G>]", ["A", "AG", "AGC"], ["CA", "AC"]),
        ("[RK](2)-x(0,1)-S", ["RKS", "KKAS"], ["RAS"]),
    ],
)
def test_prosite_syntax(prosite: str, yes: list[str], no: list[str]):
    pattern = parse_constraint({"pattern": {"prosite": prosite}}, PROTEIN)
    assert all(pattern.holds(text).ok for text in yes)
    assert not any(pattern.holds(text).ok for text in no)
