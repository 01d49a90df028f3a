"""Files that a spec names: looked up beside it, replaced by their contents, refused with file and line."""

from pathlib import Path

import pytest

from seqdiff.core.errors import InputError
from seqdiff.request.spec import DesignSpec

PARENT = "MKTAYIAKQRQISFVK"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parent.fasta").write_text(f">p\n{PARENT}\n")
    (tmp_path / "bare").write_text(f">p\n{PARENT}\n")
    (tmp_path / "set.fasta").write_text(f">a\n{PARENT}\n>b\n{PARENT[::-1]}\n>c\n{PARENT}GG\n")
    (tmp_path / "allowed.csv").write_text("\ufeffposition, letters\r\n2,KR\r\n\r\n3-4,small\r\n")
    return tmp_path


def read(folder: Path, **keys) -> DesignSpec:
    return DesignSpec.from_mapping(keys, folder=folder)


@pytest.mark.parametrize("parent", ["parent.fasta", "bare", {"fasta": "set.fasta", "id": "a"}, PARENT])
def test_sequences(folder: Path, parent: object):
    spec = read(folder, length=16, constraints=[{"mutations": {"parent": parent, "max": 3}}])
    assert spec.constraints[0].to_spec() == {"parent": PARENT, "max": 3}
    assert DesignSpec.from_mapping(spec.to_mapping()) == spec
    assert read(folder, parent=parent, keep="2-3").parent == PARENT


def test_the_parent_of_the_spec_stands_in(folder: Path):
    spec = read(folder, parent="parent.fasta", constraints=[{"mutations": {"max": 3}}])
    assert (spec.parent, spec.keep, spec.length) == (PARENT, (), (16, 16))
    assert spec == read(folder, parent=PARENT, constraints=[{"mutations": {"max": 3, "parent": "parent.fasta"}}])
    assert DesignSpec.from_mapping(spec.to_mapping()) == spec
    other = read(folder, parent=PARENT, constraints=[{"mutations": {"max": 3, "parent": PARENT[::-1]}}])
    assert other.constraints[0].to_spec()["parent"] == PARENT[::-1]


def test_sets_of_sequences(folder: Path):
    (folder / "known.fasta").write_text(f">a\n{PARENT}\n>b\n{PARENT[::-1]}\n")
    spec = read(folder, length=16, constraints=[{"identity": {"known": "known.fasta", "max": 0.8}}])
    known = {"a": PARENT, "b": PARENT[::-1]}
    assert spec.constraints[0].to_spec()["known"] == known
    assert spec == read(folder, length=16, constraints=[{"identity": {"known": known, "max": 0.8}}])


def test_tables(folder: Path, monkeypatch: pytest.MonkeyPatch):
    spec = read(folder, length=16, constraints=[{"table": {"csv": "allowed.csv"}}])
    small = [{"position": 3, "letters": "ACGST"}, {"position": 4, "letters": "ACGST"}]
    assert spec.constraints[0].to_spec() == {"csv": [{"position": 2, "letters": "KR"}, *small]}
    assert DesignSpec.from_mapping(spec.to_mapping()) == spec
    monkeypatch.chdir(folder)
    assert read(Path("elsewhere"), length=16, constraints=[{"table": {"csv": "allowed.csv"}}]) == spec


def test_files_beside_the_spec_come_first(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "here").mkdir()
    (folder / "here" / "parent.fasta").write_text(">q\nGGGG\n")
    monkeypatch.chdir(folder / "here")
    assert read(folder, parent="parent.fasta", keep="1").parent == PARENT


MISTAKES = [
    ("position,letters\n2,KR\n3,KB\n", "bad.csv, line 3: 'KB' has 'B'"),
    ("position,letters\n2,KR\n\n3,hydrophobi\n", "bad.csv, line 4: unknown letter group 'hydrophobi'"),
    ("position,letters\n2,KR\n2,DE\n", "bad.csv, line 3: position 2 is left without a letter"),
    ("position,letters\nx,KR\n", "bad.csv, line 2: region 'x'"),
    ("position,letters\n4-,KR\n", "bad.csv, line 2: position '4-' has no end"),
    ("position,letters\n0,KR\n", "line 2: region '0': positions start at 1"),
    ("position,letters\n4,\n", "bad.csv, line 2: 'letters' is empty"),
    ("position,letter\n2,KR\n", "bad.csv, line 2: unknown key 'letter'; did you mean 'letters'?"),
    ("position,letters\n2,KR,3\n", "bad.csv, line 2: 3 fields, but the header has 2"),
    ("position,position\n2,KR\n", "bad.csv, line 1: column 'position' stands twice"),
    ("position,letters\n", "bad.csv has no rows"),
    ("", "bad.csv has no rows"),
    ('position,letters\n2,"KR\n', "bad.csv is not a CSV file"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_mistakes_in_tables_name_file_and_line(tmp_path: Path, text: str, words: str):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path, length=16, constraints=[{"table": {"csv": "bad.csv"}}])
    assert words in str(caught.value)
    assert str(caught.value).startswith("constraints[1]: table: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"constraints": [{"table": {"csv": "none.csv"}}]}, "constraints[1]: table: cannot read none.csv"),
        ({"constraints": [{"identity": {"known": "none.fasta", "max": 0.5}}]}, "identity: cannot read none.fasta"),
        ({"constraints": [{"mutations": {"parent": "set.fasta", "max": 2}}]}, "choose one by its id: a, b, c"),
        ({"constraints": [{"mutations": {"parent": "MKB", "max": 2}}]}, "mutations: parent: 'B' at position 3"),
        ({"constraints": [{"mutations": {"max": 2}}]}, "mutations: needs 'parent'"),
        ({"parent": PARENT}, "'parent' needs 'keep'"),
        ({"keep": "3"}, "'keep' needs 'parent'"),
        ({"parent": "nothing"}, "parent: 'n' at position 1"),
        ({"parent": {"fasta": "set.fasta", "name": "a"}, "keep": "1"}, "unknown key 'name'"),
    ],
)
def test_refusals_are_one_line(folder: Path, keys: dict, words: str):
    with pytest.raises(InputError) as caught:
        read(folder, **({"length": 16} | keys))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_how_lengths_are_drawn(folder: Path):
    assert read(folder, length=[15, 20]).draw == "uniform"
    assert read(folder, length={"range": [15, 20], "draw": "uniform"}) == read(folder, length=[15, 20])
    for draw, expected in (
        ("evidence", "evidence"),
        ("set.fasta", ((16, 2.0), (18, 1.0))),
        ({17: 1, "19": 2.5, 40: 1}, ((17, 1.0), (19, 2.5))),
    ):
        spec = read(folder, length={"range": [15, 20], "draw": draw})
        assert spec.length == (15, 20)
        assert spec.draw == expected
        assert DesignSpec.from_mapping(spec.to_mapping()) == spec


@pytest.mark.parametrize(
    ("length", "words"),
    [
        ({"draw": "evidence"}, "length needs 'range'"),
        ({"range": [15, 20]}, "needs 'draw'"),
        ({"range": [15, 20], "draws": "uniform"}, "did you mean 'draw'"),
        ({"range": [15, 20], "draw": "evidnce"}, "write uniform, evidence or a FASTA file"),
        ({"range": [50, 60], "draw": "set.fasta"}, "no length of 50 to 60"),
        ({"range": [15, 20], "draw": {"x": 1}}, "length: weight"),
        ({"range": [15, 20], "draw": {16: 0}}, "above 0"),
        ({"range": [15], "draw": "uniform"}, "write a number"),
        ({"range": [20, 15], "draw": "uniform"}, "runs backwards"),
    ],
)
def test_refused_lengths(folder: Path, length: object, words: str):
    with pytest.raises(InputError) as caught:
        read(folder, length=length)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
