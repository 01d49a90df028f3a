"""Allowed letters from tables, profiles and degenerate codons."""

import math
from itertools import product

import numpy as np
import pytest
from Bio.Seq import Seq
from hypothesis import given
from hypothesis import strategies as st

from seqdiff.constraints import Constraint, parse_constraint
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN

LETTERS = PROTEIN.letters
IUPAC = {"A": "A", "C": "C", "G": "G", "T": "T", "R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC",
         "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"}  # fmt: skip


def allowed(constraint: Constraint, length: int) -> list[str]:
    """Letters that the program leaves at each position."""
    table = constraint.lower(Layout(PROTEIN, length, length)).allowed
    assert table is not None
    return ["".join(np.array(list(LETTERS))[row]) for row in table]


def agrees(constraint: Constraint, length: int) -> None:
    """The check keeps the same letters as the program, one position at a time."""
    kept = allowed(constraint, length)
    base = [letters[0] for letters in kept]
    assert constraint.holds("".join(base)).ok
    for i, letter in product(range(length), LETTERS):
        text = "".join([*base[:i], letter, *base[i + 1 :]])
        assert constraint.holds(text).ok == (letter in kept[i])
    again = parse_constraint({constraint.name: constraint.to_spec()}, PROTEIN)
    assert again == constraint
    assert again.describe() == constraint.describe()


def profile(*rows: dict) -> list[dict]:
    return [dict.fromkeys(LETTERS, "0") | row for row in rows]


def test_rows_of_one_position_intersect():
    rows = [
        {"position": "2", "letters": "KRH"}, {"position": "3-4", "letters": "tiny"},
        {"position": "1-2", "letters": "KRM"}, {"position": 6, "letters": "W"},
    ]  # fmt: skip
    table = parse_constraint({"table": {"csv": rows}}, PROTEIN)
    assert allowed(table, 7) == ["KMR", "KR", "AGS", "AGS", LETTERS, "W", LETTERS]
    agrees(table, 7)
    assert table.describe() == "table of 5 positions (1: KMR, 2: KR, 3: AGS, 4: AGS, ...)"
    assert table.holds("KKA").ok
    assert table.holds("KKAW").reason == "W at position 4 is none of AGS"


def test_profiles_keep_letters_of_at_least_min():
    rows = profile({"M": "0.9", "K": 0.05}, {"A": "0.0499", "C": "5e-2"}, {"W": "inf"})
    table = parse_constraint({"table": {"pssm": rows, "min": 0.05}}, PROTEIN)
    assert allowed(table, 4) == ["KM", "C", "W", LETTERS]
    agrees(table, 4)
    placed = [row | {"position": place} for row, place in zip(rows, ("4", "2", "9"), strict=True)]
    assert allowed(parse_constraint({"table": {"pssm": placed, "min": 0.05}}, PROTEIN), 9)[1:4:2] == ["C", "KM"]
    scores = profile({"M": "2"})
    assert allowed(parse_constraint({"table": {"pssm": scores, "min": -1}}, PROTEIN), 1) == [LETTERS]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "either 'csv' or 'pssm'"),
        ({"csv": [{"position": 1, "letters": "A"}], "pssm": profile({"A": 1}), "min": 0}, "either 'csv' or 'pssm'"),
        ({"pssm": profile({"A": 1})}, "'pssm' and 'min' need each other"),
        ({"csv": [{"position": 1, "letters": "A"}], "min": 1}, "'pssm' and 'min' need each other"),
        ({"csv": []}, "a list of rows"),
        ({"csv": ["A"]}, "a list of rows"),
        (
            {"csv": [{"position": 1, "letters": "A"}, {"position": 1, "letters": "C"}]},
            "row 2: position 1 is left without",
        ),
        ({"csv": [{"position": 1}]}, "row 1: needs 'letters'"),
        ({"pssm": profile({"A": 1}, {"A": 0.2}), "min": 0.5}, "row 2: position 2 has no letter of at least 0.5"),
        ({"pssm": [{"A": 1}], "min": 0.5}, "no column C"),
        ({"pssm": profile({"A": 1, "X": 0}), "min": 0.5}, "unknown column 'X'"),
        ({"pssm": profile({"A": "high"}), "min": 0.5}, "A at position 1 is 'high', not a number"),
        ({"pssm": profile({"A": "nan", "C": 1}), "min": 0.5}, "not a number"),
        ({"pssm": profile({"A": 1, "position": 3}, {"A": 1, "position": "3"}), "min": 0.5}, "position 3 stands twice"),
        ({"pssm": profile({"A": 1}), "min": math.nan}, "finite number"),
    ],
)
def test_refused_tables(args: dict, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint({"table": args}, PROTEIN)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(list(IUPAC), min_size=3, max_size=3))
def test_codons_against_biopythons_translation(degenerate: str):
    residues = {str(Seq("".join(bases)).translate()) for bases in product(*(IUPAC[base] for base in degenerate))}
    item = {"codon": {"positions": "2,4-5", "degenerate": degenerate}}
    if residues == {"*"}:
        with pytest.raises(InputError, match="stops only"):
            parse_constraint(item, PROTEIN)
        return
    codon = parse_constraint(item, PROTEIN)
    kept = "".join(sorted(residues - {"*"}))
    assert allowed(codon, 5) == [LETTERS, kept, LETTERS, kept, kept]
    assert ("stop codon" in codon.describe()) == ("*" in residues)


def test_codons_say_what_they_leave_out():
    codon = parse_constraint({"codon": {"positions": "1-2", "degenerate": "NNK"}}, PROTEIN)
    assert codon.describe() == f"codon NNK ({LETTERS}, 1 stop codon left out) at 1-2"
    agrees(codon, 3)
    agrees(parse_constraint({"codon": {"positions": "2-", "degenerate": "ruy"}}, PROTEIN), 3)
    assert parse_constraint({"codon": {"positions": 1, "degenerate": "NDT"}}, PROTEIN).describe() == (
        "codon NDT (CDFGHILNRSVY) at 1"
    )
    assert codon.holds("AA").ok


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"positions": "1"}, "needs 'degenerate'"),
        ({"degenerate": "NNK"}, "needs 'positions'"),
        ({"positions": "1", "degenerate": "NN"}, "'NN' is not a codon of three IUPAC letters"),
        ({"positions": "1", "degenerate": "NNX"}, "IUPAC"),
        ({"positions": "1", "degenerate": "TAR"}, "TAR encodes stops only"),
        ({"positions": "4-2", "degenerate": "NNK"}, "runs backwards"),
    ],
)
def test_refused_codons(args: dict, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint({"codon": args}, PROTEIN)
    assert words in str(caught.value)


def test_positions_beyond_the_longest_design_are_refused():
    for item in (
        {"table": {"csv": [{"position": 9, "letters": "A"}]}},
        {"codon": {"positions": "5-9", "degenerate": "NNK"}},
    ):
        with pytest.raises(InputError, match="position 9 is out of range"):
            parse_constraint(item, PROTEIN).lower(Layout(PROTEIN, 4, 8))
