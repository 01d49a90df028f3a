"""Templates, motifs in order, spacings and stretches: specs, words, and automata against enumeration."""

import re
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from seqdiff.constraints import Compiled, compile_constraints, parse_constraint
from seqdiff.constraints.motifs import Motifs
from seqdiff.constraints.template import Template
from seqdiff.core.errors import BudgetError, InfeasibleError, InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from tests.helpers import TINY, parse, texts

LENGTH = 6


def accepted(compiled: Compiled, length: int) -> set[str]:
    """Every text of a length that the joint automaton accepts, by walking it."""
    layers, alive = compiled.layers, {"": 0}
    for i in range(length):
        steps = {text + letter: layers.targets[i][s, v] for text, s in alive.items() for v, letter in enumerate("ABCD")}
        alive = {text: int(state) for text, state in steps.items() if state >= 0}
    return {text for text, state in alive.items() if layers.accept[length][state]}


_regions = st.one_of(
    st.just({}),
    st.tuples(st.integers(1, LENGTH), st.integers(1, LENGTH))
    .map(sorted)
    .map(lambda ends: {"region": f"{ends[0]}-{ends[1]}"}),
    st.integers(1, LENGTH).map(lambda first: {"region": f"{first}-"}),
)
_letters = st.sampled_from(["A", "AB", "vowel", "BCD"])
_motif = st.sampled_from(["A", "A-B", "[AC]-x-D", {"regex": "B|CC"}, {"regex": "D+"}])
_gap = st.one_of(
    st.integers(0, 2),
    st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda pair: sorted(pair)),
    st.integers(0, 2).map(lambda low: [low, None]),
)
_motifs = st.lists(_motif, min_size=2, max_size=3).flatmap(
    lambda ordered: st.one_of(
        st.just({}),
        _gap.map(lambda gap: {"gap": gap}),
        st.lists(
            _gap.filter(lambda gap: isinstance(gap, list)), min_size=len(ordered) - 1, max_size=len(ordered) - 1
        ).map(lambda gaps: {"gap": gaps}),
    ).map(lambda gap: {"ordered": ordered} | gap)
)
_templates = st.one_of(
    st.builds(
        lambda repeat, start: {"repeat": repeat, "start": min(start, len(repeat)), "classes": {"h": "vowel"}},
        st.text("hx.AB", max_size=3).map(lambda text: "h" + text),
        st.integers(1, 4),
    ),
    st.builds(
        lambda given, start: {"heptad": given, "start": start},
        st.dictionaries(st.sampled_from("abcdefg"), _letters, min_size=1),
        st.sampled_from("abcdefg"),
    ),
)
_items = st.one_of(
    st.builds(lambda a, n, r: {"spacing": {"letters": a, "min": n} | r}, _letters, st.integers(1, 8), _regions),
    st.builds(lambda a, n, r: {"stretch": {"letters": a, "max": n} | r}, _letters, st.integers(1, 8), _regions),
    st.builds(lambda args, r: {"motifs": args | r}, _motifs, _regions),
    st.builds(lambda args, r: {"template": args | r}, _templates, _regions),
)


@given(_items)
def test_round_trip(item: dict):
    (constraint,) = parse([item])
    (again,) = parse([{constraint.name: yaml.safe_load(yaml.safe_dump(constraint.to_spec()))}])
    assert again == constraint
    assert hash(again) == hash(constraint)
    assert again.describe() == constraint.describe()
    assert "\n" not in constraint.describe()


def _means(item: dict, text: str) -> bool:
    """What a spec says, written from its words: tries every pair, window or placement."""
    (name, args) = next(iter(item.items()))
    region = str(args.get("region", "1-"))
    first, last = region.split("-")
    text = text[int(first) - 1 : int(last) if last else None]
    letters = str(args.get("letters", "")).replace("vowel", "A")
    if name == "spacing":
        places = [i for i, letter in enumerate(text) if letter in letters]
        return all(abs(i - j) >= args["min"] for i in places for j in places if i != j)
    if name == "stretch":
        size = args["max"] + 1
        return not any(all(x in letters for x in text[i : i + size]) for i in range(len(text) - size + 1))
    if name == "motifs":
        return _placed(args["ordered"], args.get("gap", [0, None]), text, None, 0)
    if "heptad" in args:
        repeat, classes = "abcdefg", args["heptad"]
        start = repeat.index(args["start"])
    else:
        repeat, classes, start = args["repeat"], {"h": "A", "A": "A", "B": "B"}, args["start"] - 1
    wanted = [classes.get(repeat[(start + i) % len(repeat)], "ABCD") for i in range(len(text))]
    return all(letter in {"vowel": "A"}.get(known, known) for letter, known in zip(text, wanted, strict=True))


def _placed(ordered: list, gap: Any, text: str, end: int | None, k: int) -> bool:
    """Whether the motifs from the k-th on can be placed behind ``end``."""
    if k == len(ordered):
        return True
    item = ordered[k]
    regex = item["regex"] if isinstance(item, dict) else item.replace("-", "").replace("x", ".")
    if end is None:
        starts = range(len(text))
    else:
        own = gap[k - 1] if isinstance(gap, list) and isinstance(gap[0], list) else gap
        low, high = own if isinstance(own, list) else (own, own)
        starts = range(end + low, len(text) if high is None else min(end + high + 1, len(text)))
    return any(
        re.fullmatch(regex, text[i:j]) and _placed(ordered, gap, text, j, k + 1)
        for i in starts
        for j in range(i + 1, len(text) + 1)
    )


@settings(max_examples=120, deadline=None)
@given(_items, st.sampled_from([LENGTH, LENGTH - 1]))
def test_automaton_check_and_words_agree(item: dict, low: int):
    (constraint,) = parse([item])
    meant = {length: {t for t in texts(length) if _means(item, t)} for length in range(low, LENGTH + 1)}
    for length in meant:
        assert {text for text in texts(length) if constraint.holds(text).ok} == meant[length]
    try:
        compiled = compile_constraints([constraint], Layout(TINY, low, LENGTH))
    except InfeasibleError:
        assert not any(meant.values())
        return
    assert compiled.lengths().tolist() == [length for length in meant if meant[length]]
    for length in meant:
        assert accepted(compiled, length) == meant[length]


def test_motifs_that_are_too_big_take_the_path():
    (motifs,) = parse([{"motifs": {"ordered": ["L-x(6)-L", "L-x(6)-L"], "gap": [6, 9]}}], PROTEIN)
    compiled = compile_constraints([motifs], Layout(PROTEIN, 60, 60))
    assert [part.route for part in compiled.parts] == ["path"]
    assert motifs.holds("A" * 5 + "LAAAAAAL" + "A" * 7 + "LAAAAAAL").ok
    assert not motifs.holds("A" * 5 + "LAAAAAAL" + "A" * 5 + "LAAAAAAL").ok


def test_motifs_between_the_ends():
    (motifs,) = parse([{"motifs": {"ordered": ["<M-x-R-G-D", {"regex": "KDEL$"}], "gap": [1, 3]}}], PROTEIN)
    assert isinstance(motifs, Motifs)
    assert motifs.describe() == "motifs <M-x-R-G-D, 1-3 between, KDEL$"
    compiled = compile_constraints([motifs], Layout(PROTEIN, 8, 20))
    assert compiled.lengths().tolist() == [10, 11, 12]
    assert motifs.holds("MARGDAKDEL").ok
    assert not motifs.holds("MARGDAKDELA").ok
    (open_end,) = parse([{"motifs": {"ordered": ["A", "C", "A"], "gap": [[0, None], [2, 2]], "region": "2-"}}], PROTEIN)
    assert open_end.describe() == "motifs A, 0 or more between, C, 2 between, A in 2-end"


def test_words():
    described = {
        "spacing of C at least 3": {"spacing": {"letters": "C", "min": 3}},
        "stretch of ACFILMVWY at most 5 in 3-end": {"stretch": {"letters": "hydrophobic", "max": 5, "region": "3-"}},
        "template hKx from its place 2 in 1-35 (K=K, h=LV)": {
            "template": {"repeat": "hKx", "start": 2, "region": "1-35", "classes": {"h": "LV"}}
        },
        "template xx (all free)": {"template": {"repeat": "xx"}},
    }
    for words, item in described.items():
        assert parse_constraint(item, PROTEIN).describe() == words
    reasons = {
        "closest are positions 2 and 4": ({"spacing": {"letters": "C", "min": 3}}, "ACACAAC"),
        "longest is 3, ending at 4": ({"stretch": {"letters": "LV", "max": 2}}, "ALVLAL"),
        "K at position 3 is not h (LV)": (
            {"template": {"repeat": "hx", "classes": {"h": "LV"}, "region": "3-"}},
            "KKKK",
        ),
    }
    for words, (item, text) in reasons.items():
        assert parse_constraint(item, PROTEIN).holds(text) == (False, words)


def test_template_defaults_and_heptads():
    (binary,) = parse([{"template": {"repeat": "hpphppp"}}], PROTEIN)
    assert isinstance(binary, Template)
    assert dict(binary.classes) == {"h": PROTEIN.letter_set("hydrophobic"), "p": PROTEIN.letter_set("polar")}
    assert binary.holds("LKELEKKLKE").ok
    assert not binary.holds("LKEKEKK").ok
    (coil,) = parse([{"template": {"heptad": {"a": "LIV", "d": "L", "g": "negative"}, "start": "d"}}], PROTEIN)
    assert coil == parse_constraint(
        {"template": {"repeat": "a..d..g", "start": 4, "classes": {"a": "ILV", "d": "L", "g": "DE"}}}, PROTEIN
    )
    assert coil.holds("LAAEVAAL").ok
    allowed = coil.lower(Layout(PROTEIN, 5, 9)).allowed
    assert allowed is not None
    assert allowed.sum(axis=1).tolist() == [1, 20, 20, 2, 3, 20, 20, 1, 20]


def test_rules_that_cannot_bind_cost_nothing():
    for item in [{"spacing": {"letters": "C", "min": 1}}, {"stretch": {"letters": "C", "max": 9}}]:
        (constraint,) = parse([item])
        assert compile_constraints([constraint], Layout(TINY, 4, 9)).explain()[0]["states"] == 0
    (once,) = parse([{"spacing": {"letters": "C", "min": 10**6}}])
    words = accepted(compile_constraints([once], Layout(TINY, 4, 4)), 4)
    assert words == {text for text in texts(4) if text.count("C") <= 1}


@pytest.mark.parametrize(
    "item",
    [
        {"template": {"repeat": "hp", "region": "10-61"}},
        {"motifs": {"ordered": ["R-G-D", "K-D-E-L"], "region": "10-61"}},
        {"spacing": {"letters": "C", "min": 1, "region": "70-"}},
        {"stretch": {"letters": "C", "max": 99, "region": "5-99"}},
    ],
)
def test_regions_out_of_range_are_refused(item: dict):
    with pytest.raises(InputError, match="out of range"):
        parse_constraint(item, PROTEIN).lower(Layout(PROTEIN, 20, 60))


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"template": {}}, "either a 'repeat'"),
        ({"template": {"repeat": "hp", "heptad": {"a": "L"}}}, "either a 'repeat'"),
        ({"template": {"repeat": ""}}, "'repeat' is empty"),
        ({"template": {"repeat": "hq"}}, "'q' in the repeat has no class"),
        ({"template": {"repeat": "hp", "classes": {"q": "KR"}}}, "'q' does not occur"),
        ({"template": {"repeat": "hp", "classes": {"hh": "KR"}}}, "'hh' is not one letter"),
        ({"template": {"repeat": "hp", "classes": {"h": ""}}}, "class 'h' is empty"),
        ({"template": {"repeat": "hp", "classes": {"h": "hydrophobe"}}}, "did you mean 'hydrophobic'"),
        ({"template": {"repeat": "hp", "classes": "LV"}}, "write letter: residues"),
        ({"template": {"repeat": "hp", "start": 3}}, "beyond the repeat"),
        ({"template": {"repeat": "hp", "start": 0}}, "whole number"),
        ({"template": {"repeat": "hp", "start": "b"}}, "whole number"),
        ({"template": {"heptad": {"h": "L"}}}, "unknown key 'h'"),
        ({"template": {"heptad": {}}}, "'heptad' is empty"),
        ({"template": {"heptad": {"a": "L"}, "classes": {"a": "L"}}}, "belong to a 'repeat'"),
        ({"template": {"repeat": "hp", "region": "0-3"}}, "start at 1"),
        ({"motifs": {"gap": [1, 2]}}, "needs 'ordered'"),
        ({"motifs": {"ordered": "R-G-D"}}, "list of two motifs"),
        ({"motifs": {"ordered": ["R-G-D"]}}, "list of two motifs"),
        ({"motifs": {"ordered": ["RGD", "K"]}}, "join elements by '-'"),
        ({"motifs": {"ordered": ["", "K"]}}, "empty"),
        ({"motifs": {"ordered": [{"regex": "A*"}, "K"]}}, "empty text"),
        ({"motifs": {"ordered": [{"regex": "A", "exactly": 2}, "K"]}}, "unknown key 'exactly'"),
        ({"motifs": {"ordered": [["A"], "K"]}}, "not a mapping"),
        ({"motifs": {"ordered": ["R>", "K"]}}, "anchors can only stand"),
        ({"motifs": {"ordered": ["R", "<K"]}}, "anchors can only stand"),
        ({"motifs": {"ordered": ["R", {"regex": "^K|L"}]}}, "anchors can only stand"),
        ({"motifs": {"ordered": ["R", "K"], "gap": [3, 1]}}, "runs backwards"),
        ({"motifs": {"ordered": ["R", "K"], "gap": -1}}, "whole number"),
        ({"motifs": {"ordered": ["R", "K"], "gap": None}}, "whole number"),
        ({"motifs": {"ordered": ["R", "K"], "gap": [1, 2, 3]}}, "[least, null] or one number"),
        ({"motifs": {"ordered": ["R", "K"], "gap": [[1, 2], [1, 2]]}}, "2 motifs have 1 between"),
        ({"motifs": {"ordered": ["R", "K"], "gap": [[[1], 2]]}}, "[least, null] or one number"),
        ({"spacing": {"letters": "C"}}, "needs 'min'"),
        ({"spacing": {"letters": "C", "min": 0}}, "at least 1"),
        ({"spacing": {"letters": "", "min": 2}}, "'letters' is empty"),
        ({"spacing": {"letters": "C", "mim": 2}}, "did you mean 'min'"),
        ({"stretch": {"letters": "hydrophobic"}}, "needs 'max'"),
        ({"stretch": {"letters": "hydrophobic", "max": 0}}, "at least 1"),
        ({"stretch": {"letters": "", "max": 2}}, "'letters' is empty"),
        ({"stretch": {"letters": "C", "max": 2, "region": "x"}}, "first-last"),
    ],
)
def test_refusals_are_one_line(item: dict, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint(item, PROTEIN)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gaps_that_are_too_long_are_refused_at_once():
    with pytest.raises(BudgetError, match="more than 2048 positions"):
        parse_constraint({"motifs": {"ordered": ["R", "K"], "gap": [0, 5000]}}, PROTEIN)


def test_template_allows_what_it_says():
    (template,) = parse([{"template": {"repeat": "AB.", "start": 3, "region": "2-5"}}])
    allowed = template.lower(Layout(TINY, 4, 7)).allowed
    assert allowed is not None
    read = ["".join(np.array(list("ABCD"))[row]) for row in allowed]
    assert read == ["ABCD", "ABCD", "A", "B", "ABCD", "ABCD", "ABCD"]
