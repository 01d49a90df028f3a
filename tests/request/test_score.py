"""``seqdiff score`` on tables: columns that stay, scores that are right, rows that are refused by number."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from seqdiff import cli
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model
from seqdiff.process.likelihood import path_log_probability
from seqdiff.process.pseudo import mutation_scan, pseudo_log_likelihood
from seqdiff.request.mutations import parse_mutant

PARENT = "MKTAYIAKQRQISFVKSHFSRQ"
SHEET = 'id,sequence,note,affinity\na,MKTAYIAK,"x, ""y""",1.5\nb, ggsggsaaaa*,007,NA\nc,ACDEF,,-2\n'


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Tests neither read nor write the user's compilation cache, and run in a folder of their own."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)
    Path("wt.fasta").write_text(f">wt\n{PARENT}\n")


@pytest.fixture
def denoiser(model: str) -> NetworkDenoiser:
    return load_model(model, PROTEIN)


def _rows(path: str, delimiter: str = ",") -> list[dict[str, str]]:
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle, delimiter=delimiter))


def test_sequences_of_a_table(model: str, denoiser: NetworkDenoiser, capsys: pytest.CaptureFixture):
    Path("a.csv").write_text(SHEET)
    words = [f"model={model}"]
    assert cli.main(["score", "a.csv", "method=pseudo", "against=affinity", "out=p.csv", *words]) == 0
    rows, before = _rows("p.csv"), _rows("a.csv")
    assert list(rows[0]) == ["id", "sequence", "note", "affinity", "nats", "nats_per_residue", "perplexity"]
    assert [{key: row[key] for key in before[0]} for row in rows] == before
    sequences = [PROTEIN.encode(text) for text in ("MKTAYIAK", "GGSGGSAAAA", "ACDEF")]
    expected = -pseudo_log_likelihood(denoiser, sequences, mask=PROTEIN.mask)
    np.testing.assert_allclose([float(row["nats"]) for row in rows], expected, atol=1e-3)
    shown = capsys.readouterr().out
    assert "over 2 rows (1 rows without a number left out)" in shown
    assert "23 rows in 1 calls of the model" in shown

    assert cli.main(["score", "a.csv", "method=path", "orders=3", "seed=4", "out=o.csv", *words]) == 0
    rows = _rows("o.csv")
    paths = -path_log_probability(denoiser, sequences, mask=PROTEIN.mask, orders=3, seed=4)
    np.testing.assert_allclose([float(row["nats"]) for row in rows], paths.mean(axis=1), atol=1e-3)
    expected = paths.std(axis=1, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose([float(row["nats_error"]) for row in rows], expected, atol=1e-3)

    assert cli.main(["score", "a.csv", "samples=2", "out=b.tsv", *words]) == 0
    assert [row["note"] for row in _rows("b.tsv", "\t")] == ['x, "y"', "007", ""]


def test_mutants_of_a_parent(model: str, denoiser: NetworkDenoiser, capsys: pytest.CaptureFixture):
    mutants = ["M1A", "K2R:I6V", "WT", "q9w", "M1A", "K2K"]
    text = "mutant\tfitness\n" + "".join(f"{mutant}\t{i}\n" for i, mutant in enumerate(mutants))
    with gzip.open("m.tsv.gz", "wt") as handle:
        handle.write(text)
    words = ["parent=wt.fasta", f"model={model}", "against=fitness"]
    assert cli.main(["score", "m.tsv.gz", "out=m.csv", *words]) == 0
    rows = _rows("m.csv")
    assert list(rows[0]) == ["mutant", "fitness", "masked_marginal"]
    assert [row["mutant"] for row in rows] == mutants
    scan = mutation_scan(denoiser, PROTEIN.encode(PARENT), mask=PROTEIN.mask)
    scores = [float(row["masked_marginal"]) for row in rows]
    single = [scan[0, 0], scan[8, PROTEIN.letters.index("W")]]
    np.testing.assert_allclose([scores[0], scores[3]], single, atol=1e-4)
    assert scores[2] == scores[5] == 0
    assert scores[4] == scores[0]
    shown = capsys.readouterr().out
    assert f"{spearmanr(scores, range(6))[0]:.3f} over 6 rows" in shown
    assert "4 rows in 1 calls" in shown

    # The output is an input again; numbers may start elsewhere.
    assert cli.main(["score", "m.csv", "method=wild_type_marginal", "out=w.csv", *words]) == 0
    both = _rows("w.csv")
    assert list(both[0])[2:] == ["masked_marginal", "wild_type_marginal"]
    visible = mutation_scan(denoiser, PROTEIN.encode(PARENT), mask=PROTEIN.mask, marginal="wild_type")
    assert float(both[0]["wild_type_marginal"]) == pytest.approx(visible[0, 0], abs=1e-4)
    Path("s.csv").write_text("mutant\nM24A\nK25R:I29V\n")
    assert cli.main(["score", "s.csv", "offset=23", "out=s2.csv", *words[:2]]) == 0
    assert [row["masked_marginal"] for row in _rows("s2.csv")] == [row["masked_marginal"] for row in rows[:2]]

    # Mutants as whole sequences.
    assert cli.main(["score", "s.csv", "offset=23", "method=pseudo", "out=s3.csv", *words[:2]]) == 0
    whole = PROTEIN.encode("A" + PARENT[1:])
    expected = -pseudo_log_likelihood(denoiser, [whole], mask=PROTEIN.mask)[0]
    assert float(_rows("s3.csv")[0]["nats"]) == pytest.approx(expected, abs=1e-3)


def test_many_rows_are_shown_in_part(model: str, capsys: pytest.CaptureFixture):
    Path("m.csv").write_text("mutant\n" + "".join(f"M1{a}\n" for a in PROTEIN.letters + "ACD"))
    assert cli.main(["score", "m.csv", "parent=wt.fasta", f"model={model}"]) == 0
    assert "and 3 more rows" in capsys.readouterr().out


ROWS = "mutant,fitness\nM1A,1\n"
REFUSALS = [
    (ROWS + "\nA42G,2\n", ["parent=wt.fasta"], "m.csv, row 2 (line 4): A42G, but the parent has positions 1 to 22"),
    (ROWS + "A2G,2\n", ["parent=wt.fasta"], "row 2 (line 3): A2G, but the parent has K at 2"),
    (ROWS + "M1A:M1C,2\n", ["parent=wt.fasta"], "position 1 stands twice"),
    (ROWS + "M1X,2\n", ["parent=wt.fasta"], "X is not one of the protein letters"),
    (ROWS + "p.Met1Ala,2\n", ["parent=wt.fasta"], "'p.Met1Ala' is not a substitution"),
    (ROWS + ",2\n", ["parent=wt.fasta"], "row 2 (line 3): no mutant"),
    ("mutant\nM24A\nK25R\nT26A\n", ["parent=wt.fasta"], "every row fits with offset=23"),
    (ROWS, [], "say of what with parent=wild_type.fasta"),
    (ROWS, ["parent=none.fasta"], "cannot read none.fasta"),
    (ROWS, ["parent=wt.fasta", "offset=x"], "offset='x' is not a whole number"),
    (ROWS, ["parent=wt.fasta", "against=fitnes"], "unknown column 'fitnes'; did you mean 'fitness'?"),
    (ROWS, ["parent=wt.fasta", "against=fitness"], "two different numbers"),
    (ROWS + "M1C,high\n", ["parent=wt.fasta", "against=fitness"], "row 2 (line 3): fitness='high' is not a number"),
    (ROWS, ["parent=wt.fasta", "method=masked"], "unknown method 'masked'; did you mean 'masked_marginal'?"),
    ("mutant,masked_marginal\nM1A,1\n", ["parent=wt.fasta"], "has a column 'masked_marginal' already"),
    ("sequence\nMKT\n", ["parent=wt.fasta"], "parent= needs a column 'mutant'"),
    ("sequence\nMKT\n", ["method=wild_type_marginal"], "needs a table with a column 'mutant'"),
    ("sequences\nMKT\n", [], "needs a column 'sequence' or 'mutant'; it has sequences"),
    ("sequence\nMKT\nMXT\n", [], "row 2 (line 3): 'X' at position 2"),
    ("sequence,id\nMKT,a\n,b\n", [], "row 2 (line 3): no sequence"),
    ("sequence,id\nMKT\n", [], "row 1 (line 2): 1 cells, but the header has 2"),
    ("sequence\n" + "ACGT" * 6 + "\n", [], "looks like nucleotides"),
    ("sequence,sequence\nMKT,MKT\n", [], "column 'sequence' stands twice"),
    ("sequence\n", [], "has no rows"),
    ("sequence\nMKT\n", ["out=m.csv"], "exists; name another file"),
    ("sequence\nMKT\n", ["out=no/s.csv"], "there is no folder no"),
    ("sequence\nMKT\n", ["orders=0"], "orders=0 is not a whole number of at least 1"),
    ("sequence\nMKT\n", ["modle=x"], "did you mean 'model'?"),
]


@pytest.mark.parametrize(("text", "words", "message"), REFUSALS, ids=[message for *_, message in REFUSALS])
def test_mistakes_are_one_line(text: str, words: list[str], message: str, capsys: pytest.CaptureFixture):
    Path("m.csv").write_text(text)
    before = sorted(Path().iterdir())
    assert cli.main(["score", "m.csv", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("seqdiff: error: ")
    assert message in captured.err
    assert captured.out == ""
    assert sorted(Path().iterdir()) == before


def test_files_that_are_no_tables(capsys: pytest.CaptureFixture):
    Path("b.csv").write_bytes(b"\xff\xfe\x00")
    Path("d.csv.gz").write_bytes(b"no archive")
    for name, message in (
        ("b.csv", "not a text file"),
        ("d.csv.gz", "damaged archive"),
        ("none.tsv", "cannot read none.tsv"),
    ):
        assert cli.main(["score", name]) == 2
        assert message in capsys.readouterr().err
    assert cli.main(["score", "wt.fasta", "against=x"]) == 2
    assert "needs a table" in capsys.readouterr().err
    assert cli.main(["score", "wt.fasta", "method=masked_marginal"]) == 2


def test_help_shows_mutants(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as caught:
        cli.main(["score", "--help"])
    assert caught.value.code == 0
    assert "parent=wild_type.fasta" in capsys.readouterr().out


@pytest.mark.parametrize("joint", [":", ",", ";", "+", "/", " "])
def test_joints_of_multiple_mutants(joint: str):
    assert parse_mutant(f"T3A{joint}M1C", PARENT, PROTEIN) == ((0, 1), (2, 0))


def test_a_negative_offset():
    assert parse_mutant("M-1C", PARENT, PROTEIN, offset=-2) == ((0, 1),)
    with pytest.raises(InputError, match="positions -1 to 20"):
        parse_mutant("M-2C", PARENT, PROTEIN, offset=-2)
