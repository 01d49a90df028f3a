"""Reading and writing FASTA: every oddity has its rule."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqdiff.core.errors import InputError
from seqdiff.domains.protein import PROTEIN, properties, read_fasta, read_one, write_fasta
from seqdiff.domains.protein.properties import BACKGROUND

EDGE = Path(__file__).parents[3] / "shared" / "data" / "edge_files"


@pytest.mark.parametrize(
    ("text", "sequences"),
    [
        (">a x\r\nMKT\r\nAY\r\n>b\r\nGG\r\n", ["MKTAY", "GG"]),
        (">a\nmkt ay\n\n\n>b\nG\tG", ["MKTAY", "GG"]),
        ("\n\n>a\nM\nK\nT\n", ["MKT"]),
        (">a\nMKT*\n", ["MKT"]),
        (">gi|1|x|\nACGT\n", ["ACGT"]),
    ],
)
def test_read(tmp_path: Path, text: str, sequences: list[str]):
    path = tmp_path / "a.fasta"
    path.write_bytes(text.encode())
    assert [str(record.seq) for record in read_fasta(path)] == sequences
    packed = tmp_path / "a.fasta.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert [str(record.seq) for record in read_fasta(packed)] == sequences


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"MKT\n", "line 1: the first record must start with '>'"),
        (b"; note\n>a\nMKT\n", "comment lines are not read"),
        (b">a\nMK*T\n", "record 1 (a): '*' at position 3 is a stop"),
        (b">a\nMKT\n>b\nM-T\n", "record 2 (b): '-' at position 2 is a gap"),
        (b">a\nMKX\n", "'X' at position 3 is an unknown residue"),
        (b">a\nmu\n", "'U' at position 2 is selenocysteine"),
        (b">a\nMK1\n", "'1' at position 3 is not a residue"),
        (b">a\n>b\nMKT\n", "record 1 (a): no sequence"),
        (b">\nMKT\n", "record 1: no id"),
        (b">a\nM\n>b\nM\n>a 2\nM\n", "record 3: id 'a' stands at record 1 already"),
        (b">a\nACGTACGTACGTACGTACGT\n>b\nAC\n", "looks like nucleotides"),
        (b">a\nACGUACGUACGUACGUACGU\n", "looks like nucleotides"),
        (b"LOCUS  x\n", "looks like GenBank"),
        (b"\xff\xfe\x00>a", "not a text file"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, data: bytes, words: str):
    path = tmp_path / "a.fasta"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_fasta(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(InputError, match="No such file"):
        read_fasta(tmp_path / "none.fasta")
    with pytest.raises(InputError, match="Is a directory"):
        read_fasta(tmp_path)
    cut = tmp_path / "cut.fasta.gz"
    cut.write_bytes(gzip.compress(b">a\n" + b"MKTAYIAK" * 500)[:40])
    with pytest.raises(InputError, match="damaged archive"):
        read_fasta(cut)
    cut.write_bytes(b">a\nMKT\n")
    with pytest.raises(InputError, match="damaged archive"):
        read_fasta(cut)


def test_choosing_one_record(tmp_path: Path):
    path = tmp_path / "a.fasta"
    path.write_text(">a\nMKT\n>b\nGGS\n")
    assert str(read_one(path, "b").seq) == "GGS"
    with pytest.raises(InputError, match="choose one by its id: a, b"):
        read_one(path)
    with pytest.raises(InputError, match="no record 'c'"):
        read_one(path, "c")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(PROTEIN.letters, min_size=1, max_size=130), min_size=1, max_size=5))
def test_written_files_read_back(tmp_path: Path, texts: list[str]):
    from Bio.Seq import Seq
    from Bio.SeqRecord import SeqRecord

    texts = [f"M{text}" for text in texts]
    path = tmp_path / "out.fasta"
    write_fasta(path, [SeqRecord(Seq(text), id=f"r{i}", description="") for i, text in enumerate(texts)])
    assert [str(record.seq) for record in read_fasta(path)] == texts
    assert max(map(len, path.read_text().splitlines())) <= 60
    assert list(tmp_path.iterdir()) == [path]


GOOD = {
    "fasta_crlf.fasta": 1,
    "fasta_crlf_single_line.fasta": 1,
    "fasta_one_huge_line_titin.fasta": 1,
    "fasta_prodigal_stop_star.faa": 12,
    "msa_a3m_small.a3m": 6,
}


@pytest.mark.skipif(not EDGE.is_dir(), reason="the awkward files lie outside this repository")
def test_awkward_files():
    for path in sorted(EDGE.iterdir()):
        if path.name in ("README.md", "SHA256SUMS"):
            continue
        if path.name in GOOD:
            assert len(read_fasta(path)) == GOOD[path.name]
            continue
        with pytest.raises(InputError) as caught:
            read_fasta(path)
        assert "\n" not in str(caught.value)


def test_properties_of_ubiquitin():
    # 8564.8 Da and pI 6.56 are the values commonly cited for ubiquitin.
    found = properties("MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYNIQKESTLHLVLRLRGG")
    assert found["length"] == 76
    assert found["molecular_weight"] == pytest.approx(8564.8, abs=0.2)
    assert found["isoelectric_point"] == pytest.approx(6.56, abs=0.02)
    assert found["extinction_280nm"] == 1490
    assert pytest.approx(1.0) == BACKGROUND.sum()
