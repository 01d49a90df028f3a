"""Names of positions in a spec: residues, chains and loops, replaced by positions of the canvas."""

from pathlib import Path
from typing import Any

import pytest

from seqdiff.constraints.tables import Row
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.request.parent import read_parent
from seqdiff.request.places import Places
from seqdiff.request.problem import prepare
from seqdiff.request.spec import DesignSpec

HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTI"
    "SADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)
LIGHT = "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK"
TRASTUZUMAB = {
    "imgt": ("GFNIKDTY", "IYPTNGYT", "SRWGGDGFYAMDY"),
    "kabat": ("DTYIH", "RIYPTNGYTRYADSVKG", "WGGDGFYAMDY"),
    "chothia": ("GFNIKDT", "YPTNGY", "WGGDGFYAMDY"),
}
TRASTUZUMAB_LIGHT = {
    "imgt": ("QDVNTA", "SAS", "QQHYTTPPT"),
    "kabat": ("RASQDVNTAVA", "SASFLYS", "QQHYTTPPT"),
    "chothia": ("RASQDVNTAVA", "SASFLYS", "QQHYTTPPT"),
}
LOOPS = {("A", "CDR3"): (1, 2), ("H", "CDR3"): (6, 7, 8), ("H", "FR1"): (5,)}


@pytest.fixture
def places() -> Places:
    """Chain A on positions 1 to 5, chain H on 6 to 10."""
    numbers = ("-3", "-2", "1", "2", "2A", "50", "51", "52", "52A", "53")
    return Places(chain=tuple("AAAAAHHHHH"), number=numbers, loops=LOOPS, source="x.pdb")


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        ("A1", 3),
        ("A-3", 1),
        ("A:-3", 1),
        ("A:-3-1", "1-3"),
        ("A1-2A", "3-5"),
        ("A1-A2", "3-4"),
        ("A1-A:2", "3-4"),
        ("H52A", 9),
        ("H52a", 9),
        ("H52-52A", "8-9"),
        ("H", "6-10"),
        ("A, H", "1-10"),
        ("H50, H52A, 1-2", "1-2,6,9"),
        ("CDR3", "2-3,7-9"),
        ("H:CDR3", "7-9"),
        ("H:FR1", 6),
        ("A1,H:CDR3", "3,7-9"),
        (["A1", "A2-2A", 7], [3, "4-5", 7]),
        ([["A1", "H50"], ["A2", "H51"]], [[3, 6], [4, 7]]),
    ],
    ids=str,
)
def test_words(places: Places, words: Any, positions: Any):
    assert places.translate(words) == positions


@pytest.mark.parametrize("value", [3, "3", "3-7", "7-end", "1,3-5", None, 2.5, [1, "2-3"]], ids=str)
def test_plain_numbers_stay(places: Places, value: Any):
    assert places.translate(value) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("A9", "'A9': x.pdb has no residue A9 to design; chain A runs from A-3 to A2A"),
        ("A1-9", "'A1-9': x.pdb has no residue A9 to design; chain A runs from A-3 to A2A"),
        ("Z5", "'Z5': x.pdb has the chains A, H to design"),
        ("A2-H50", "'A2-H50': x.pdb has the chains A, H to design"),
        ("A2-1", "'A2-1' runs backwards"),
        ("A1-", "'A1-': write residues of x.pdb such as A-3 or a chain"),
        ("H5x2", "'H5x2': write residues of x.pdb such as A-3 or a chain"),
        ("CDR1", "'CDR1': there is A:CDR3, H:CDR3, H:FR1"),
        ("A:FR1", "'A:FR1': there is A:CDR3, H:CDR3, H:FR1"),
    ],
)
def test_words_that_name_nothing(places: Places, words: str, message: str):
    with pytest.raises(InputError) as error:
        places.translate(words)
    assert str(error.value) == message


def test_loops_need_a_numbering():
    places = Places(("A", "A"), ("1", "2"), source="the parent")
    with pytest.raises(InputError) as error:
        places.translate("CDR3")
    assert str(error.value) == "'CDR3' needs numbered residues; add numbering: imgt (or kabat, chothia)"


def test_spans_and_labels(places: Places):
    assert places.chains == ("A", "H")
    assert (places.span("A"), places.span("H")) == ((1, 5), (6, 10))
    assert places.labels[-2:] == ("H52A", "H53")


@pytest.mark.parametrize(
    ("item", "written"),
    [
        ({"fixed": {"A1": "W", 4: "K", "H52A": "C"}}, {"fixed": {3: "W", 4: "K", 9: "C"}}),
        ({"tied": {"groups": [["A1", "H50"]]}}, {"tied": {"groups": [[3, 6]]}}),
        ({"pair": {"positions": ["A1", "H53"]}}, {"pair": {"positions": [3, 10]}}),
        ({"count": {"letters": "C", "region": "H"}}, {"count": {"letters": "C", "region": "6-10"}}),
        ({"count": {"letters": "A1"}}, {"count": {"letters": "A1"}}),
        ({"charge": {"min": 1}}, {"charge": {"min": 1}}),
        (
            {"table": {"csv": [{"position": "A1-2", "letters": "KR"}]}},
            {"table": {"csv": [{"position": "3-4", "letters": "KR"}]}},
        ),
        ("forbid", "forbid"),
    ],
    ids=str,
)
def test_constraints_are_rewritten(places: Places, item: Any, written: Any):
    assert places.rewrite(item) == [written]


def test_rows_of_a_file_keep_their_line(places: Places):
    row = Row({"position": "A1", "letters": "KR"}, where="a.csv, line 2")
    [rewritten] = places.rewrite({"table": {"csv": [row]}})
    [found] = rewritten["table"]["csv"]  # pyright: ignore[reportIndexIssue]
    assert (dict(found), found.where) == ({"position": "3", "letters": "KR"}, "a.csv, line 2")


def test_tied_chains_go_by_number():
    numbers = ("1", "2", "3", "5", "2", "3", "4", "5")
    places = Places(tuple("AAAABBBB"), numbers, source="x.pdb")
    [tied] = places.rewrite({"tied": {"chains": ["A", "B"]}})
    assert tied == {"tied": {"groups": [["2-3", "5-6"], ["4-4", "8-8"]]}}
    for chains in (["A"], "AB", ["A", "C"]):
        with pytest.raises(InputError, match="name two or more of A, B"):
            places.rewrite({"tied": {"chains": chains}})
    apart = Places(tuple("AB"), ("1", "2"), source="x.pdb")
    with pytest.raises(InputError, match="tied: chains A, B share no residue number"):
        apart.rewrite({"tied": {"chains": ["A", "B"]}})


def test_constraints_that_look_at_neighbours_hold_for_each_chain(places: Places):
    pattern = {"regex": "AA", "exactly": 0}
    regions = [{"pattern": {**pattern, "region": region}} for region in ("1-5", "6-10")]
    assert places.rewrite({"pattern": pattern}) == regions
    assert places.rewrite({"pattern": {**pattern, "region": "A"}}) == regions[:1]
    assert Places(("A",) * 3, ("1", "2", "3")).rewrite({"pattern": pattern}) == [{"pattern": pattern}]


# In a spec.


def read(**keys: Any) -> DesignSpec:
    return DesignSpec.from_mapping(keys)


def test_a_pattern_across_the_end_of_a_chain_is_not_seen():
    spec = read(parent="MKWW/WWKM", keep="A1-2", constraints=[{"pattern": {"regex": "WWW", "exactly": 0}}])
    assert [constraint.to_spec()["region"] for constraint in spec.constraints] == ["1-4", "5-8"]
    assert all(constraint.holds("MKWWWWKM").ok for constraint in spec.constraints)
    assert not all(constraint.holds("MWWWWWKM").ok for constraint in spec.constraints)
    prepare(read(parent="MKWW/WWKM", keep="A,B", constraints=[{"pattern": {"regex": "WWW", "exactly": 0}}]))


def test_sums_run_over_all_chains():
    spec = read(parent="MKWW/WWKM", keep="A1", constraints=[{"count": {"letters": "W", "min": 4}}])
    assert [constraint.holds("MKWWWWKM").ok for constraint in spec.constraints] == [True]


def test_a_parent_of_two_chains():
    spec = read(parent="MKTAY/IAKQ", keep="A2-3,B", bias=[{"letters": "K", "add": -1.0, "positions": "B1"}])
    assert (spec.parent, spec.length) == ("MKTAYIAKQ", (9, 9))
    assert [str(region) for region in spec.keep] == ["2-3", "6-9"]
    assert [str(region) for region in spec.bias[0].regions] == ["6"]
    assert spec.by_chain("ACDEFGHIK") == {"A": "ACDEF", "B": "GHIK"}
    assert spec.to_mapping()["parent"] == "MKTAY/IAKQ"
    again = DesignSpec.from_mapping(spec.to_mapping())
    assert (again, again.places) == (spec, spec.places)


def test_chains_of_a_fasta_file(tmp_path: Path):
    (tmp_path / "fv.fasta").write_text(">heavy\nMKTAY\n>light\nIAKQ\n")
    spec = DesignSpec.from_mapping({"parent": "fv.fasta", "keep": "B1-2"}, folder=tmp_path)
    assert spec.by_chain(spec.parent) == {"A": "MKTAY", "B": "IAKQ"}
    assert [str(region) for region in spec.keep] == ["6-7"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"parent": "MK/AY", "keep": "C"}, "'C': write residues of the parent such as A1 or a chain"),
        ({"parent": "MK/AY", "keep": "B3"}, "no residue B3 to design; chain B runs from B1 to B2"),
        ({"parent": "MK//AY", "keep": "1"}, "parent is empty; name a FASTA file or write the letters"),
        ({"parent": "MKAY", "keep": "A1"}, "region 'A1': write first-last, such as 20-45"),
        ({"length": 4, "numbering": "imgt"}, "'numbering' needs 'parent' beside it"),
        ({"parent": "MKAY", "numbering": "imgtt", "keep": "1"}, "unknown numbering 'imgtt'; did you mean 'imgt'?"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(keys: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        DesignSpec.from_mapping(keys)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# Numbering of antibodies; ANARCII is loaded once for each scheme.


@pytest.mark.filterwarnings("ignore")  # torch, inside ANARCII, warns about its own future
@pytest.mark.parametrize("scheme", TRASTUZUMAB)
def test_loops_of_trastuzumab(scheme: str):
    pytest.importorskip("anarcii")
    letters, places = read_parent(f"{HEAVY}/{LIGHT}", scheme.upper(), Path(), PROTEIN)
    assert letters == HEAVY + LIGHT
    assert places is not None
    assert places.chains == ("H", "L")
    for chain, loops in (("H", TRASTUZUMAB), ("L", TRASTUZUMAB_LIGHT)):
        for name, loop in zip(("CDR1", "CDR2", "CDR3"), loops[scheme], strict=True):
            assert "".join(letters[p - 1] for p in places.positions(f"{chain}:{name}")) == loop
    every = ",".join(f"{chain}:{part}{n}" for chain in "HL" for part in ("FR", "CDR") for n in (1, 2, 3))
    named = places.positions(f"{every},FR4")
    assert sorted(named) == list(range(1, len(letters) + 1))
    if scheme != "imgt":
        assert letters[places.positions("H52A")[0] - 1] == "P"  # RIYPTNGYTR: 50, 51, 52, 52A


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_numbered():
    pytest.importorskip("anarcii")
    with pytest.raises(InputError, match=r"^MKTAYIAKQRQISFVKS\.\.\. holds no antibody variable domain \("):
        read_parent("MKTAYIAKQRQISFVKSHFSRQ", "imgt", Path(), PROTEIN)
    with pytest.raises(InputError, match="parent has 2 domains of chain H; give one heavy, one light, or one of each"):
        read_parent(f"{HEAVY}/{HEAVY}", "imgt", Path(), PROTEIN)
