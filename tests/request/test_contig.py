"""Contigs: the grammar against chains of a file, what it refuses, and what a spec makes of it."""

from io import StringIO
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from seqdiff.constraints import Contig, parse_constraint
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.contig import Given, parse_contig
from seqdiff.domains.protein.structure import Residue, read_chains
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec
from seqdiff.request.tables import show_check

TINY = Alphabet("tiny", "ACDE")


def atom(
    name: str, residue: str, chain: str, label: str, *, record: str = "ATOM", alternate: str = " ", share=1.0
) -> str:
    number, code = (label[:-1], label[-1]) if label[-1].isalpha() else (label, " ")
    return (
        f"{record:<6}    1  {name:<3}{alternate}{residue:>3} {chain}{number:>4}{code}      1.000   2.000   3.000"
        f"{share:6.2f}  0.00           {name[0]}\n"
    )


def residue(name: str, chain: str, label: str, record: str = "ATOM") -> str:
    return "".join(atom(part, name, chain, label, record=record) for part in ("N", "CA", "C"))


CHAIN_A = (("MET", "10"), ("LYS", "11"), ("THR", "11A"), ("GLY", "12"), ("SER", "15"), ("TRP", "16"))


@pytest.fixture
def pdb(tmp_path: Path) -> Path:
    """A 10-16 with an insertion code, two residues missing; B -1-3 with MSE, a modified residue, a ligand; DNA C."""
    text = "".join(residue(name, "A", label) for name, label in CHAIN_A)
    text += residue("HIS", "B", "-1") + residue("PRO", "B", "0") + residue("MSE", "B", "1", "HETATM")
    text += residue("M3L", "B", "2", "HETATM")
    text += atom("CA", "SER", "B", "3", alternate="A", share=0.3) + atom(
        "CA", "VAL", "B", "3", alternate="B", share=0.7
    )
    text += atom("CA", "CA", "B", "90", record="HETATM") + atom("O", "HOH", "B", "91", record="HETATM")
    text += atom("P", "DA", "C", "1")
    path = tmp_path / "small.pdb"
    path.write_text(f"MODEL        1\n{text}ENDMDL\nMODEL        2\n{residue('ALA', 'A', '10')}ENDMDL\nEND\n")
    return path


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    path = tmp_path / "two.fasta"
    path.write_text(">sp|P1 first\nMKTAYIAKQR\n>other\nGSHHW\n")
    return path


def read(path: Path, text: str) -> list:
    return parse_contig(text, read_chains(path), path.name)


def test_residues_are_named_as_in_the_file(pdb: Path):
    chains = read_chains(pdb)
    assert list(chains) == ["A", "B"]
    assert [residue.label for residue in chains["A"]] == ["10", "11", "11A", "12", "15", "16"]
    assert [residue.letter for residue in chains["B"]] == ["H", "P", "M", "", "V"]


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("A10-12", "MKTG"),
        ("A10-A12", "MKTG"),
        ("A10", "M"),
        ("A10-10", "M"),
        ("A11A", "T"),
        ("A11-11A", "KT"),
        ("A11A-12", "TG"),
        ("A10-11", "MK"),
        ("B-1-1", "HPM"),
        ("B-1", "H"),
        ("B3", "V"),
        (" A15-16 ", "SW"),
    ],
)
def test_given_stretches(pdb: Path, text: str, letters: str):
    [segment] = read(pdb, text)
    assert segment.letters == letters


def test_segments_in_order(pdb: Path):
    assert read(pdb, "5/A15-16/30-40,B-1-0/0-3") == [
        (5, 5), Given("A15-16", "SW"), (30, 40), Given("B-1-0", "HP"), (0, 3),
    ]  # fmt: skip
    assert parse_contig("30-40/5", None, "") == [(30, 40), (5, 5)]


def test_structures_agree_between_formats(pdb: Path, tmp_path: Path):
    import gzip

    from Bio.PDB.mmcifio import MMCIFIO
    from Bio.PDB.PDBParser import PDBParser

    writer = MMCIFIO()
    writer.set_structure(PDBParser(QUIET=True).get_structure("small", str(pdb)))
    writer.save(str(tmp_path / "small.cif"))
    (tmp_path / "small.pdb.gz").write_bytes(gzip.compress(pdb.read_bytes()))
    assert read_chains(tmp_path / "small.cif") == read_chains(tmp_path / "small.pdb.gz") == read_chains(pdb)


def test_chains_of_fasta_files(fasta: Path, tmp_path: Path):
    assert read(fasta, "A2-4/B5") == [Given("A2-4", "KTA"), Given("B5", "W")]
    (tmp_path / "named.fasta").write_text(">B\nGG\n>A\nMK\n")
    assert read(tmp_path / "named.fasta", "A1-2") == [Given("A1-2", "MK")]


REFUSALS = [
    ("A12-10", "runs backwards; write A10-12"),
    ("40-30", "runs backwards; write 30-40"),
    ("A11A-11", "runs backwards; write A11-11A"),
    ("A10-12/11A-12", "segment 2 ('11A-12'): names residues without a chain"),
    ("10-12", "uses no residue of small.pdb; put the chain before residue numbers, such as A10-12"),
    ("D1-5", "no protein chain D; it has A, B"),
    ("C1", "no protein chain C"),
    ("a10", "no protein chain a"),
    ("A10-16", "has no residue A13-14; write A10-12/2/A15-16"),
    ("A11A-16", "write A11A-12/2/A15-16"),
    ("A9-12", "has no residue A9; write A10-12"),
    ("A30", "has no residue A30; chain A has A10 to A16"),
    ("A12B", "has no residue A12B; there is A12"),
    ("A10-B2", "runs from chain A to chain B"),
    ("B1-3", "B2 (M3L) is none of the twenty residues"),
    ("A10-12/5/A11A-12", "residues A11A to A12 are in A10-12 already"),
    ("A10/A10", "residues A10 are in A10 already"),
    ("A10-12/0 B1", "chain break"),
    ("A10-12/0/B1", "chain break"),
    ("0-0/A10", "chain break"),
    ("A10-12 30-40", "blank inside"),
    ("A10-12//5", "segment 2 (''): is empty"),
    ("A10-12/", "is empty"),
    ("A", "all of a chain needs its ends"),
    ("A10..12", "write a chain and residues"),
    ("A10–12", "write a chain and residues"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSALS, ids=[text for text, _ in REFUSALS])
def test_refusals_are_one_line(pdb: Path, text: str, words: str):
    with pytest.raises(InputError) as caught:
        read(pdb, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("none.pdb", None, "cannot read"),
        ("empty.pdb", "", "not a structure file"),
        ("empty.cif", "", "not a structure file"),
        ("header.cif", "data_x\n_entry.id x\n", "holds no atoms"),
        ("dna.pdb", atom("P", "DA", "A", "1"), "holds no protein residue"),
        ("x.bcif", "", "BinaryCIF"),
        ("x.fasta", "HEADER    HYDROLASE\n", "looks like PDB"),
        ("damaged.pdb.gz", "not gzip", "cannot read"),
    ],
)
def test_files_without_residues(tmp_path: Path, name: str, text: str | None, words: str):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_chains(tmp_path / name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


_LETTERS = "MKTAYIAKQRQISFVKSHFSRQ"
_CHAINS = {chain: [Residue(i, "", a, a) for i, a in enumerate(_LETTERS, 1)] for chain in ("A", "B", "Hc")}
_gap = st.tuples(st.integers(1, 40), st.integers(0, 20)).map(lambda gap: (gap[0], gap[0] + gap[1]))
_ranges = st.tuples(st.integers(1, len(_LETTERS)), st.integers(0, 6)).map(
    lambda r: (r[0], min(r[0] + r[1], len(_LETTERS)))
)


@given(st.lists(_gap, max_size=4), st.lists(_ranges, min_size=3, max_size=3), st.permutations(list(_CHAINS)), st.data())
def test_grammar(gaps: list, ranges: list, chains: list, data: st.DataObject):
    """Segments written in every legal way are read back as they were meant."""
    meant = [*gaps, *((chain, *ends) for chain, ends in zip(chains, ranges, strict=True))]
    meant = data.draw(st.permutations(meant))
    words, expected = [], []
    for item in meant:
        if len(item) == 2:
            low, high = item
            words.append(str(low) if low == high and data.draw(st.booleans()) else f"{low}-{high}")
            expected.append((low, high))
            continue
        chain, first, last = item
        ways = [f"{chain}{first}-{last}", f"{chain}{first}-{chain}{last}"] + [f"{chain}{first}"] * (first == last)
        words.append(data.draw(st.sampled_from(ways)))
        expected.append(_LETTERS[first - 1 : last])
    text = data.draw(st.sampled_from(["/", " / ", ","])).join(words)
    found = parse_contig(text, _CHAINS, "file")
    assert [part.letters if isinstance(part, Given) else part for part in found] == expected


@given(st.text("AB0123-/, ", max_size=12))
def test_any_text_is_read_or_refused_in_one_line(text: str):
    try:
        assert parse_contig(text, _CHAINS, "file")
    except InputError as error:
        refused = str(error)
    else:
        return
    assert "\n" not in refused


@pytest.mark.parametrize(
    "item",
    [
        ["AC", [0, 2], "D", 1],
        [[1, 2], [0, 1], "A", [0, 2], "A"],
        ["A", [1, 3], "A", [0, 1]],
        [[2, 4]],
        [2, "DE", 1],
    ],
)
def test_the_automaton_and_the_check_agree(item: list):
    """On every text of four letters up to the longest design."""
    contig = parse_constraint({"contig": item}, TINY)
    assert isinstance(contig, Contig)
    low, high = contig.total()
    [scan] = contig.lower(Layout(TINY, low, high + 1)).scans
    accepted = 0
    for length in range(low, high + 1):
        for letters in product(range(4), repeat=length):
            state = scan.automaton.start
            for letter in letters:
                state = int(scan.automaton.row(state)[letter]) if state >= 0 else state
            text = TINY.decode(letters)
            ok = state >= 0 and scan.automaton.accepts(state)
            assert contig.holds(text).ok == ok, text
            accepted += ok
    assert accepted


def test_fixed_contigs_are_letters_only():
    contig = parse_constraint({"contig": [2, {"A1-2": "DE"}, 1]}, TINY)
    lowered = contig.lower(Layout(TINY, 5, 5))
    assert not lowered.scans
    assert lowered.allowed is not None
    assert lowered.allowed.sum(axis=1).tolist() == [4, 4, 1, 1, 4]
    assert contig.holds("AADEA").ok
    assert contig.holds("AAEDA") == (False, "segment 2 (A1-2) has no place")
    assert not contig.holds("AADEAA").ok


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("A1-5", "use the spec's keys"),
        ([], "use the spec's keys"),
        ([""], "empty"),
        (["AXA"], "'X'"),
        ([[3, 1]], "runs backwards"),
        ([[1, 2, 3]], "[fewest, most]"),
        ([0], "no residue"),
        ([True], "whole number"),
        ([{"A1": 3}], "are not letters"),
        ([{"A1": "M", "A2": "K"}], "one source"),
    ],
)
def test_refused_constraints(item: object, words: str):
    with pytest.raises(InputError) as caught:
        parse_constraint({"contig": item}, PROTEIN)
    assert words in str(caught.value)


def test_a_spec_with_a_contig(pdb: Path):
    spec = DesignSpec.from_mapping({"structure": "small.pdb", "contig": "3/A10-12/4-6/B-1-1/2"}, folder=pdb.parent)
    assert spec.length == (16, 18)
    [contig] = spec.constraints
    assert contig.describe() == "contig 3/A10-12/4-6/B-1-1/2"
    assert contig.holds("GGGMKTGAAAAHPMGG").ok
    again = DesignSpec.from_mapping(spec.to_mapping())
    assert again == spec
    shown = StringIO()
    show_check(Console(file=shown, width=120), prepare(spec))
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert ["A10-12", "4", "to", "7", "MKTG"] in lines
    assert ["4-6", "8", "to", "11..13", "to", "design"] in lines
    assert ["B-1-1", "12..14", "to", "14..16", "HPM"] in lines


def test_the_length_beside_a_contig(fasta: Path):
    mapping = {"structure": "two.fasta", "contig": ["A1-5", "5-15"]}
    assert DesignSpec.from_mapping(mapping, folder=fasta.parent).length == (10, 20)
    assert DesignSpec.from_mapping(mapping | {"length": [12, 99]}, folder=fasta.parent).length == (12, 20)
    assert DesignSpec.from_mapping(mapping | {"length": {"draw": "evidence"}}, folder=fasta.parent).length == (10, 20)
    assert DesignSpec.from_mapping({"contig": "0-5"}).length == (1, 5)
    assert DesignSpec.from_mapping({"contig": 50}).length == (50, 50)
    for keys, words in (
        (mapping | {"length": 21}, "the contig has 10 to 20 residues"),
        ({"structure": "two.fasta"}, "'structure' needs 'contig'"),
        ({"contig": "A1-5"}, "the spec needs 'structure' beside 'contig'"),
        (mapping | {"structure": "none.pdb"}, "cannot read none.pdb"),
    ):
        with pytest.raises(InputError) as caught:
            DesignSpec.from_mapping(keys, folder=fasta.parent)
        assert words in str(caught.value)
