"""Position automata against Python's own ``re`` on every short text."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqdiff.constraints.automaton import FullMatch, MatchCounter
from seqdiff.constraints.parts import Automaton
from seqdiff.constraints.pattern import match_ends
from seqdiff.constraints.regex import MAX_POSITIONS, parse_regex
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import BudgetError, InputError

ABC = Alphabet("abc", "ABC")
TEXTS = ["".join(t) for n in range(6) for t in itertools.product("ABC", repeat=n)]

_atoms = st.sampled_from(["A", "B", "C", ".", "[AB]", "[^A]", "[A-B]"])
_repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "*?"])
_regexes = st.recursive(
    st.builds(lambda atom, repeat: atom + repeat, _atoms, _repeats),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b, r: f"(?:{a}|{b}){r}", inner, inner, _repeats),
    ),
    max_leaves=5,
)
_anchored = st.builds(
    lambda start, body, end, other: f"{start}{body}{end}" + (f"|{other}" if other else ""),
    st.sampled_from(["", "^"]),
    _regexes,
    st.sampled_from(["", "$"]),
    st.sampled_from(["", "^B", "C$", "(^|A)C", "B([AC]|$)"]),
)


def run(automaton: Automaton, text: str) -> bool:
    state = automaton.start
    for letter in text:
        state = int(automaton.row(state)["ABC".index(letter)])
        if state < 0:
            return False
    return automaton.accepts(state)


@settings(max_examples=60, deadline=None)
@given(_anchored)
def test_full_match(pattern: str):
    automaton = FullMatch(parse_regex(pattern, ABC))
    wrong = [text for text in TEXTS if run(automaton, text) != (re.fullmatch(pattern, text) is not None)]
    assert not wrong


@settings(max_examples=60, deadline=None)
@given(_anchored, st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2)))
def test_counting(pattern: str, low: int, extra: int | None):
    nfa = parse_regex(pattern, ABC)
    if nfa.nullable:
        return
    high = None if extra is None else low + extra
    automaton = MatchCounter(nfa, low, high)
    for text in TEXTS:
        count = len(match_ends(pattern, text))
        assert run(automaton, text) == (count >= low and (high is None or count <= high)), text


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("A(B", "unterminated"),
        (r"A\b", "at"),
        (r"(A)\1", "groupref"),
        ("A(?=B)", "assert"),
        (r"\w", "category"),
        ("AX", "'X' is not one of"),
        ("(?i)a", "inline flags"),
        ("[[A]]", "set"),
    ],
)
def test_refusals_are_one_line_and_name_the_cause(pattern: str, words: str):
    with pytest.raises(InputError, match=words) as caught:
        parse_regex(pattern, ABC)
    assert "\n" not in str(caught.value)


def test_repeats_have_a_budget():
    with pytest.raises(BudgetError, match=str(MAX_POSITIONS)):
        parse_regex("((A{50}){50}){50}", ABC)
