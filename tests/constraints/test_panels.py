"""Panels and tags: every entry of the data files is read, told, compiled and checked on literal examples."""

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from seqdiff.constraints import compile_constraints, parse_constraint
from seqdiff.constraints.panel import Entry, Panel, included, panels
from seqdiff.constraints.tag import tags
from seqdiff.core.errors import InfeasibleError, InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from tests.helpers import TINY, parse

CLEAN = "MAELQAIEKLAEQVKAIEAELAQ"
# Texts that break a panel, with the place that the report names, and texts that are near but obey.
EXAMPLES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "tev": ([("AENLYFQGA", "ending at 8"), ("ENLYFQS", "ending at 7")], ["ENLYFQA", "EALYAQG"]),
    "tev_wide": ([("EALYAQG", "ending at 7"), ("AENLYFQS", "ending at 8")], ["EALYAQA", "EALFAQG"]),
    "thrombin": ([("ALVPRGSA", "ending at 7")], ["LVPRAS", "LVPKGS"]),
    "enterokinase": ([("DYKDDDDK", "ending at 8")], ["ADDDK", "DDDDR"]),
    "factor_xa": ([("AIEGR", "ending at 5"), ("IDGR", "ending at 4")], ["IQGR", "IEGK"]),
    "hrv3c": ([("ALEVLFQGP", "ending at 9")], ["LEVLFQGA"]),
    "furin": ([("RAKR", "ending at 4"), ("ARRRRA", "ending at 5")], ["RAAR", "KAKR"]),
    "dibasic": ([("AKRA", "ending at 3"), ("KK", "ending at 2")], ["KARAK", "KHR"]),
    "trypsin": ([("AKA", "ending at 3"), ("RK", "ending at 2")], ["AKPRPA", "AAK"]),
    "tag_removal": ([("LVPRGS", "thrombin"), ("LEVLFQGP", "hrv3c")], ["AKRA", CLEAN]),
    "proteases": ([("RAKR", "furin"), ("AKRA", "dibasic"), ("IEGR", "factor_xa")], [CLEAN, "AKAAR"]),
    "deamidation": ([("ANGA", "ending at 3"), ("NT", "ending at 2")], ["NAG", "GN", "NN"]),
    "isomerisation": ([("ADGA", "ending at 3"), ("DS", "ending at 2")], ["DAG", "GD", "DT"]),
    "dp_cleavage": ([("ADPA", "ending at 3")], ["PD", "DAP"]),
    "oxidation": ([("AAMA", "M at position 3"), ("WAA", "W at position 1"), ("MM", "M at position 2")], ["MAA", "A"]),
    "free_cysteine": ([("AACA", "C at position 3")], ["AASA"]),
    "sequon": ([("ANAT", "ending at 4"), ("NGS", "ending at 3")], ["NPT", "NAA"]),
    "integrin": ([("ARGDA", "ending at 4"), ("LDV", "ending at 3")], ["RGE", "LEV"]),
    "liabilities": ([("ANGA", "deamidation"), ("AAC", "free_cysteine"), ("AW", "oxidation")], ["MAKRA", "NATA"]),
    "developability": (
        [("ANAT", "sequon"), ("AKRA", "dibasic"), ("ARGEDG", "isomerisation"), ("RGD", "integrin"), ("DP", "dp_cl")],
        [CLEAN, "AEALQAK"],
    ),
    "pyroglutamate": ([("QAA", "ending at 1"), ("EQA", "ending at 1")], ["AQE"]),
    "aspartimide": ([("ADGA", "ending at 3")], ["DSA", "GD"]),
    "peptide_solubility": ([("KAAAAAK", "ending at 6")], ["KAAAAK", "AAAAR"]),
    "peptide_synthesis": (
        [("KALLVFK", "ending at 6"), ("KVITIK", "ending at 5"), ("APPPA", "ending at 4"), ("ADPA", "dp_cleavage")],
        ["KALLVK", "KVITK", "APPA", "AKDAEQ"],
    ),
    "background": (
        [("AAAA", "longest is A x 4"), ("ANGA", "[ND]-G"), ("ENLYFQGA", "tev"), ("AC", "free_cysteine")],
        ["AAADNAA", "KAKAPDP"],
    ),
}


def panel(value: object) -> Panel:
    return parse_constraint({"panel": value}, PROTEIN)  # pyright: ignore[reportReturnType]


def test_every_panel_has_examples():
    assert set(EXAMPLES) == set(panels())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str):
    constraint = panel(name)
    bad, good = EXAMPLES[name]
    for text, words in bad:
        verdict = constraint.holds(text)
        assert not verdict.ok, text
        assert words in verdict.reason
        assert "\n" not in verdict.reason
    for text in good:
        assert constraint.holds(text) == (True, f"{len(constraint.rules)} rules kept"), text


@pytest.mark.parametrize("name", EXAMPLES)
def test_entries_are_documented_and_compile(name: str):
    entry = panels()[name]
    assert entry.about.endswith(".")
    assert "\n" not in entry.about + entry.source
    assert len(entry.about) <= 110
    assert entry.source
    assert entry.constraints or entry.panels
    compiled = compile_constraints([panel(name)], Layout(PROTEIN, 30, 30))
    assert compiled.lengths().tolist() == [30]


@pytest.mark.parametrize("name", ["developability", "background", "peptide_synthesis", "proteases"])
def test_the_automaton_agrees_with_the_check(name: str):
    """Random texts, two thirds of them made of the letters that the rules are about."""
    constraint = panel({"name": name, "region": "3-11"})
    layers = compile_constraints([constraint], Layout(PROTEIN, 12, 12)).layers
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    for letters in ["KRDGNSTPC", "AVILTPDG", "AEGLQK"] * 300:
        text = "".join(rng.choice(list(letters), 12))
        state = 0
        for i, token in enumerate(PROTEIN.encode(text)):
            state = int(layers.targets[i][state, token]) if state >= 0 else -1
        accepted = state >= 0 and bool(layers.accept[12][state])
        assert accepted == constraint.holds(text).ok, text
        seen[accepted] += 1
    assert min(seen.values()) > 20


_names = st.lists(st.sampled_from(sorted(EXAMPLES)), min_size=1, max_size=3, unique=True)
_regions = st.sampled_from([{}, {"region": "1-"}, {"region": "3-9"}, {"region": "4-"}, {"region": 7}])


@given(_names, _regions)
def test_round_trip(names: list[str], region: dict):
    constraint = panel({"name": names if len(names) > 1 else names[0]} | region)
    again = panel(yaml.safe_load(yaml.safe_dump(constraint.to_spec())))
    assert again == constraint
    assert hash(again) == hash(constraint)
    assert again.describe() == constraint.describe()
    assert "\n" not in constraint.describe()


@given(_names, st.text("ACDEGKLMNPQRSTW", min_size=1, max_size=24), st.integers(1, 20), st.integers(0, 9))
def test_a_scoped_panel_is_the_panel_of_the_cut_text(names: list[str], text: str, first: int, more: int):
    """All but the exemption of the first Met, which is the design's and not the region's."""
    scoped = panel({"name": names, "region": f"{first}-{first + more}"})
    cut = text[first - 1 : first + more]
    if first > 1 and cut.startswith("M"):
        return
    assert scoped.holds(text).ok == panel({"name": names}).holds(cut).ok


def test_scoping():
    assert panel("developability").describe() == "panel developability"
    scoped = panel({"name": ["tev", "pyroglutamate"], "region": "20-45"})
    assert scoped.describe() == "panel tev, pyroglutamate in 20-45"
    assert not scoped.holds("A" * 19 + "QA").ok
    assert scoped.holds("QA" + "A" * 30).ok
    assert not panel({"name": "oxidation", "region": "5-9"}).holds("AAAAMA").ok
    assert len(panel({"name": "oxidation", "region": "5-9"}).rules) == 1
    with pytest.raises(InputError, match=r"panel tev in 40-61: position 61 is out of range"):
        compile_constraints([panel({"name": "tev", "region": "40-61"})], Layout(PROTEIN, 30, 60))


def test_rules_are_kept_once():
    whole = panel(["developability", "dibasic", "proteases", "tev"])
    described = [rule.constraint.describe() for rule in whole.rules]
    assert len(set(described)) == len(described)
    assert described.count("pattern [KR](2) exactly 0") == 1
    assert panel("aspartimide").rules[0].panel == "aspartimide"


def test_a_clash_names_the_panel():
    constraints = parse([{"panel": "enterokinase"}, {"tag": {"name": "flag", "at": "C"}}], PROTEIN)
    with pytest.raises(InfeasibleError) as caught:
        compile_constraints(constraints, Layout(PROTEIN, 20, 20))
    assert len(caught.value.conflict) == 2
    assert "panel enterokinase" in caught.value.conflict
    met = parse([{"fixed": {1: "M"}}, {"panel": "developability"}, {"tag": {"name": "his6", "at": 2}}], PROTEIN)
    assert compile_constraints(met, Layout(PROTEIN, 20, 30)).lengths().tolist() == list(range(20, 31))


def test_circles_are_refused():
    table = {"a": Entry("", "", (), ("b",)), "b": Entry("", "", (), ("c", "a")), "c": Entry("", "")}
    assert included("c", table) == ["c"]
    with pytest.raises(InputError, match="a > b > a"):
        included("a", table)
    for name in panels():
        assert included(name, panels())[-1] == name


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"panel": "developabilty"}, "did you mean 'developability'"),
        ({"panel": ["tev", "furim"]}, "did you mean 'furin'"),
        ({"panel": {"name": "tev", "regoin": "1-2"}}, "did you mean 'region'"),
        ({"panel": {"region": "1-2"}}, "needs 'name'"),
        ({"panel": []}, "name a panel or a list"),
        ({"panel": [["tev"]]}, "name a panel or a list"),
        ({"panel": None}, "name a panel or a list"),
        ({"panel": {"name": "tev", "region": "5-2"}}, "runs backwards"),
        ({"tag": {"name": "strep", "at": "C"}}, "did you mean 'strep2'"),
        ({"tag": {"name": ["his6"], "at": "C"}}, "unknown tag"),
        ({"tag": {"name": "his6"}}, "needs 'at'"),
        ({"tag": {"name": "his6", "at": "c"}}, "write N, C or the position"),
        ({"tag": {"name": "his6", "at": 0}}, "write N, C or the position"),
        ({"tag": {"name": "his6", "at": True}}, "write N, C or the position"),
        ({"tag": {"name": "his6", "at": "C", "region": 3}}, "unknown key 'region'"),
    ],
)
def test_refusals_are_one_line(item: dict, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint(item, PROTEIN)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_alphabets_are_refused_by_letter():
    with pytest.raises(InputError, match=r"panel: tev: pattern: .*'E'"):
        parse_constraint({"panel": "tev"}, TINY)
    with pytest.raises(InputError, match="tag: 'H' at position 1"):
        parse_constraint({"tag": {"name": "his6", "at": "C"}}, TINY)


@pytest.mark.parametrize("name", list(tags()))
def test_tags(name: str):
    letters = tags()[name].letters
    assert tags()[name].about.endswith(".")
    assert tags()[name].source
    for at in ("N", "C", 2):
        (tag,) = parse([{"tag": {"name": name, "at": at}}], PROTEIN)
        assert parse_constraint({"tag": yaml.safe_load(yaml.safe_dump(tag.to_spec()))}, PROTEIN) == tag
        compiled = compile_constraints([tag], Layout(PROTEIN, 18, 20))
        assert compiled.lengths().tolist() == [18, 19, 20]
        body = "P" * (18 - len(letters))
        texts = {"N": letters + body, "C": body + letters, 2: "P" + letters + body[1:]}
        for place, text in texts.items():
            assert tag.holds(text).ok == (place == at)
        with pytest.raises(InputError, match="out of range; the shortest design has 4"):
            tag.lower(Layout(PROTEIN, 4, 30))


def test_a_tag_ends_every_length():
    (tag,) = parse([{"tag": {"name": "g4s", "at": "C"}}], PROTEIN)
    compiled = compile_constraints([tag], Layout(PROTEIN, 8, 8))
    found = [PROTEIN.letters[i] if i >= 0 else "_" for i in compiled.determined()]
    assert "".join(found) == "___GGGGS"
    assert tag.describe() == "tag g4s (GGGGS) at the C-terminus"
