"""Corpora: what is read in place is what the reader of whole files returns, and bad input is refused in its words."""

import gzip
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.experiments.data import Corpus, open_corpus
from seqdiff.experiments.data.index import find_index

SEQUENCES = ["MKTAYIAK", "ACD", "WWWWYYYYFFFFPPPPGGGG", "M", "ACE"]


def letters(corpus: Corpus) -> list[str]:
    return [PROTEIN.decode(corpus[i]) for i in range(len(corpus))]


def indexed(*paths: Path, **options) -> Corpus:
    return open_corpus(list(paths), whole=0, **options)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fasta(sequences: list[str]) -> str:
    return "".join(f">s{i} protein {i}\n{sequence}\n" for i, sequence in enumerate(sequences))


def write_text(path: Path) -> None:
    path.write_text(fasta(SEQUENCES))


def write_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(fasta(SEQUENCES).encode()))


def write_xz(path: Path) -> None:
    path.write_bytes(lzma.compress(fasta(SEQUENCES).encode()))


def write_parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"id": range(len(SEQUENCES)), "sequence": SEQUENCES}), path, row_group_size=2)


def write_array_record(path: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module", reason="array_record is not installed")
    writer = module.ArrayRecordWriter(str(path), "group_size:2")
    for sequence in SEQUENCES:
        writer.write(sequence.encode())
    writer.close()


FORMATS = {
    "s.fasta": write_text,
    "s.fasta.gz": write_gzip,
    "s.fasta.xz": write_xz,
    "s.parquet": write_parquet,
    "s.arrayrecord": write_array_record,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_sequences(tmp_path: Path, name: str):
    FORMATS[name](tmp_path / name)
    corpus = indexed(tmp_path / name)
    assert letters(corpus) == SEQUENCES
    assert [PROTEIN.decode(corpus.ranked(i)) for i in range(5)] == ["M", "ACD", "ACE", *SEQUENCES[0:3:2]]
    assert corpus.counts.tolist() == np.bincount([len(sequence) for sequence in SEQUENCES]).tolist()
    assert corpus.description == {"files": [name], "sequences": 5, "residues": 35, "skipped": 0}
    assert corpus.residues == 35
    assert letters(pickle.loads(pickle.dumps(corpus))) == SEQUENCES


SEQUENCE = st.text(st.sampled_from(PROTEIN.letters + PROTEIN.letters.lower()), min_size=1, max_size=40)


def looks_like_nucleotides(sequences: list[str]) -> bool:
    long = [sequence for sequence in sequences if len(sequence) >= 20]
    return bool(long) and set("".join(long).upper()) <= set("ACGTN")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), sequences=st.lists(SEQUENCE, min_size=1, max_size=8))
def test_an_index_reads_what_the_whole_file_holds(tmp_path: Path, data: st.DataObject, sequences: list[str]):
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [""] * data.draw(st.integers(0, 1))
    for i, sequence in enumerate(sequences):
        width = data.draw(st.integers(1, 45))
        stop = data.draw(st.sampled_from(["", "*", " "]))
        blank = data.draw(st.sampled_from([[], [""]]))
        text = sequence + stop
        lines += [f">s{i} x > y", *blank, *(text[at : at + width] for at in range(0, len(text), width))]
    last = data.draw(st.sampled_from(["", end]))
    path = tmp_path / "s.fasta"
    path.write_bytes((end.join(lines) + last).encode())
    if looks_like_nucleotides(sequences):
        assert refused(lambda: indexed(path)) == refused(lambda: read_fasta(path))
    else:
        expected = [str(record.seq) for record in read_fasta(path)]
        assert letters(indexed(path)) == letters(open_corpus(path)) == expected
        assert expected == [sequence.upper() for sequence in sequences]


def test_several_files_are_one_corpus(tmp_path: Path):
    (tmp_path / "a.fasta").write_text(">a\nACD\n")
    write_gzip(tmp_path / "b.fasta.gz")
    (tmp_path / "c.fa").write_text(">a\nMM\n")
    paths = [tmp_path / "a.fasta", tmp_path / "b.fasta.gz", tmp_path / "c.fa"]
    assert letters(indexed(*paths)) == letters(open_corpus(paths)) == ["ACD", *SEQUENCES, "MM"]
    ranked = [[PROTEIN.decode(c.ranked(i)) for i in range(7)] for c in (indexed(*paths), open_corpus(paths))]
    assert ranked[0] == ranked[1] == ["M", "MM", "ACD", "ACD", "ACE", *SEQUENCES[0:3:2]]


def test_small_files_leave_no_index(tmp_path: Path):
    write_text(tmp_path / "s.fasta")
    corpus = open_corpus(tmp_path / "s.fasta")
    assert corpus.folder is None
    assert [path.name for path in tmp_path.iterdir()] == ["s.fasta"]
    assert corpus.description == indexed(tmp_path / "s.fasta").description


def test_an_index_is_written_once_and_again_when_the_file_changes(tmp_path: Path):
    path, cache = tmp_path / "s.fasta", tmp_path / "new" / "cache"
    write_text(path)
    first = indexed(path, cache=cache)
    assert first.folder is not None
    assert first.folder.parent == cache
    written = (first.folder / "index.json").stat().st_mtime_ns
    second = indexed(path, cache=cache)
    assert second.folder == first.folder
    assert (first.folder / "index.json").stat().st_mtime_ns == written
    path.write_text(">a\nACDEF\n>b\nMK\n")
    assert letters(indexed(path, cache=cache)) == ["ACDEF", "MK"]
    assert [entry.name for entry in cache.iterdir()] == [first.folder.name], "nothing is left beside the index"
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["s.fasta"]


def test_a_file_that_changes_under_an_open_corpus_is_noticed(tmp_path: Path):
    path = tmp_path / "s.fasta"
    write_text(path)
    corpus = indexed(path)
    path.write_text(">a\nAC\n")
    assert "s.fasta, byte" in refused(lambda: corpus[2])
    assert "record 3" in refused(lambda: corpus[2])


def test_a_damaged_index_is_written_again(tmp_path: Path):
    path = tmp_path / "s.fasta"
    write_text(path)
    folder = indexed(path).folder
    assert folder is not None
    (folder / "index.json").write_text("{")
    assert letters(indexed(path)) == SEQUENCES


BAD = {
    "stop": (">a\nACD\n>b\nMK*MK\n", "record 2 (b): '*' at position 3"),
    "gap": (">a\nAC-D\n", "record 1 (a): '-' at position 3 is a gap"),
    "unknown": (">a\nacd\nxef\n", "record 1 (a): 'X' at position 4 is an unknown residue"),
    "digit": (">a\nAC1D\n", "record 1 (a): '1' at position 3 is not a residue"),
    "no letters": (">a\n>b\nACD\n", "record 1 (a): no sequence"),
    "no id": (">a\nACD\n>\nACD\n", "record 2: no id"),
    "nucleotides": (">a\n" + "ACGT" * 9 + "\n", "looks like nucleotides"),
    "RNA": (">a\n" + "ACGU" * 9 + "\n", "looks like nucleotides"),
    "comment": ("; hello\n>a\nACD\n", "line 1: comment lines are not read"),
    "empty": ("\n\n", "is empty"),
    "GenBank": ("LOCUS x\n", "looks like GenBank"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("compressed", [False, True])
def test_bad_input_is_refused_as_everywhere(tmp_path: Path, name: str, compressed: bool):
    text, words = BAD[name]
    path = tmp_path / ("s.fasta.gz" if compressed else "s.fasta")
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    message = refused(lambda: indexed(path))
    assert str(path) in message
    assert words in message
    assert message == refused(lambda: open_corpus(path)), "the same words with and without an index"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no half index"


def test_records_that_cannot_be_used_are_skipped_on_request(tmp_path: Path):
    path = tmp_path / "s.fasta"
    path.write_text(">a\nACD\n>b\nAXD\n>c\n>d\nMK*\n")
    corpus = open_corpus(path, skip=True)
    assert letters(corpus) == ["ACD", "MK"]
    assert corpus.description["skipped"] == 2
    path.write_text(">b\nAXD\n")
    assert "none of its 1 records" in refused(lambda: open_corpus(path, skip=True))


@pytest.mark.parametrize("name", ["s.fasta.gz", "s.fasta.xz", "s.parquet", "s.arrayrecord"])
@pytest.mark.parametrize("keep", [0.7, 0.0])
def test_damaged_files_are_one_line(tmp_path: Path, name: str, keep: float):
    path = tmp_path / name
    FORMATS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    assert str(path) in refused(lambda: indexed(path))
    path.write_bytes(b"neither of them" * 9)
    assert str(path) in refused(lambda: indexed(path))


def test_what_is_not_there_is_one_line(tmp_path: Path):
    for name in FORMATS:
        assert "No such file" in refused(lambda name=name: indexed(tmp_path / name))
        assert "No such file" in refused(lambda name=name: open_corpus(tmp_path / name))
    assert "at least one file" in refused(lambda: open_corpus([]))
    write_text(tmp_path / "s.fasta")
    assert "another cache folder" in refused(lambda: indexed(tmp_path / "s.fasta", cache=tmp_path / "s.fasta"))


def test_parquet_columns(tmp_path: Path):
    path = tmp_path / "s.parquet"
    write_parquet(path)
    assert "did you mean 'sequence'?" in refused(lambda: indexed(path, column="sequences"))
    assert "record 1: column 'id' holds 0" in refused(lambda: indexed(path, column="id"))


def test_records_of_a_column_are_named_by_their_number(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "s.parquet"
    parquet.write_table(pyarrow.table({"sequence": ["ACD", "AXD"]}), path)
    assert "record 2: 'X' at position 2" in refused(lambda: indexed(path))
    parquet.write_table(pyarrow.table({"sequence": ["ACD", None]}), path)
    assert "record 2: column 'sequence' holds None" in refused(lambda: indexed(path))


def test_two_processes_may_index_at_once(tmp_path: Path):
    """The second to finish finds a finished index in its place, and takes it."""
    path = tmp_path / "s.fasta"
    path.write_text("".join(f">s{i}\nACD\n" for i in range(1 << 16)))
    calls = []

    def meanwhile(_: int) -> None:
        calls.append(find_index([path], None, "sequence", False, None))

    folder = find_index([path], None, "sequence", False, meanwhile)
    assert calls == [folder]
    assert len(indexed(path)) == 1 << 16
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, folder.name}
