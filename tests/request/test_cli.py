"""The command line as a user meets it: files that come out, refusals that are one line, exit codes."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import seqdiff
from seqdiff import cli
from seqdiff.core.errors import InputError
from seqdiff.domains.protein import PROTEIN, read_fasta
from seqdiff.models.store import load_model
from seqdiff.request import run as run_module
from seqdiff.request.spec import DesignSpec

SPECS = Path(__file__).parents[2] / "experiments" / "specs"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Tests neither read nor write the user's compilation cache, and run in an empty folder."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)


def spec(path: Path, **keys) -> str:
    path.write_text(yaml.safe_dump({"length": [20, 24], "n": 5, "constraints": [{"forbid": {"letters": "C"}}]} | keys))
    return str(path)


def test_design_writes_a_folder(tmp_path: Path, model: str, capsys: pytest.CaptureFixture):
    problem = spec(tmp_path / "p.yaml", constraints=[{"fixed": {1: "M"}}, {"pattern": {"regex": "RGD"}}], model=model)
    assert cli.main(["design", problem, "sampling.steps=4", "seed=7", "sampling.batch=2"]) == 0
    out = tmp_path / "outputs" / "p"
    names = {"config.yaml", "designs.fasta", "designs.csv", "designs.json", "spec.yaml", "run.json", "report.html"}
    assert {path.name for path in out.iterdir()} == names
    records = read_fasta(out / "designs.fasta")
    assert [record.id for record in records] == [f"design_{i:04d}" for i in range(5)]
    assert all("seed=7" in record.description and "score=-" in record.description for record in records)
    rows = list(csv.DictReader((out / "designs.csv").read_text().splitlines()))
    assert [row["sequence"] for row in rows] == [str(record.seq) for record in records]
    assert all(row["satisfied"] == "True" and row["2: pattern RGD at least 1"].startswith("yes") for row in rows)
    facts = json.loads((out / "run.json").read_text())
    assert facts["versions"]["seqdiff"] == seqdiff.__version__
    assert facts["satisfied"] == facts["designs"] == 5
    document = json.loads((out / "designs.json").read_text())
    assert document["designs"][0]["order"][0] == -1
    page = (out / "report.html").read_text()
    assert "5 satisfy every constraint" in page
    assert page.count("<svg") == 7
    shown = capsys.readouterr().out
    assert "5 of 5" in shown
    assert "outputs/p" in shown

    # The spec as understood makes the same designs again, whatever the batch; the next run takes another folder.
    assert cli.main(["design", str(out / "spec.yaml"), "sampling.batch=5", "out=again"]) == 0
    assert (tmp_path / "again" / "designs.fasta").read_text() == (out / "designs.fasta").read_text()
    assert cli.main(["design", problem, "n=1", "sampling.steps=1"]) == 0
    assert (tmp_path / "outputs" / "p-2").is_dir()


def test_inpainting_keeps_the_parent(tmp_path: Path, model: str):
    parent = "MKTAYIAKQRQISFVKSHFSRQLEERLG"
    (tmp_path / "parent.fasta").write_text(f">p\n{parent}\n")
    designs = seqdiff.design(
        parent="parent.fasta", keep="5-12,20-", model=model, n=3, constraints=[{"forbid": {"letters": "C"}}],
        sampling={"steps": 3, "planner": "random"},
    )  # fmt: skip
    assert designs.satisfied == 3
    for design in designs:
        assert design.sequence[4:12] == parent[4:12]
        assert design.sequence[19:] == parent[19:]
        assert (design.order[4:12] == -1).all()
        assert "C" not in design.sequence
    assert len(set(designs.sequences)) == 3


REFUSALS = [
    ({"lenght": 5}, [], "unknown key 'lenght'; did you mean 'length'?"),
    ({}, ["sampling.stpes=5"], "did you mean 'steps'?"),
    ({"constraints": [{"conut": {"letters": "C", "max": 1}}]}, [], "constraints[1]: unknown constraint 'conut'"),
    ({"constraints": [{"fixed": {30: "A"}}]}, [], "position 30 is out of range"),
    (
        {"constraints": [{"fixed": {3: "C"}}, {"forbid": {"letters": "C"}}]},
        [],
        "(1) fixed 3=C; (2) forbid C everywhere",
    ),
    ({"length": [9, 3]}, [], "runs backwards"),
    ({"length": "long"}, [], "whole number"),
    ({"n": 0}, [], "at least 1"),
    ({"seed": -1}, [], "whole number"),
    ({"seed": 2**40}, [], "larger than"),
    ({"constraints": {"forbid": {}}}, [], "must be a list"),
    ({"constraints": ["forbid"]}, [], "constraints[1]: constraint 'forbid': write one name and its arguments"),
    ({"sampling": {"temperature": 0}}, [], "above 0"),
    ({"sampling": {"planner": "entropy_bond"}}, [], "did you mean 'entropy_bound'?"),
    ({"sampling": {"planner": {"random": {"gamma": 1}}}}, [], "unknown key 'gamma'"),
    ({"bias": [{"letters": "C"}]}, [], "bias[1]: needs 'add'"),
    ({"bias": [{"letters": "C", "add": 1, "positions": "90"}]}, [], "bias: position 90 is out of range"),
    ({"keep": "1-3"}, [], "'keep' needs 'parent'"),
    ({"parent": "MKTAY", "length": 5}, [], "'parent' needs 'keep'"),
    ({"parent": "MKTAY", "keep": "2-3"}, [], "the parent has 5 residues"),
    ({"parent": "none.fasta", "keep": "2-3"}, [], "cannot read none.fasta"),
    ({"model": "protein-smal"}, [], "unknown model 'protein-smal'"),
    ({}, ["n=1,2"], "asks for several values"),
    ({}, ["n"], "is not an override"),
    ({}, ["~seeds"], "there is no such key"),
    ({}, ["constraints.3.x=1"], "not an item of that list"),
    ({}, ["out=taken"], "is not an empty folder"),
]


@pytest.mark.parametrize(("keys", "words", "message"), REFUSALS, ids=[message for *_, message in REFUSALS])
def test_mistakes_are_one_line_and_leave_nothing(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture, keys: dict, words: list[str], message: str
):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    problem = spec(tmp_path / "p.yaml", **({"model": model} | keys))
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["design", problem, *words]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 1
    assert message in errors[0]
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] in ([], [tmp_path / "outputs"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length: [1, 2", "line 1"),
        ("length: 5\nlength: 6\n", "line 2: key 'length' stands twice"),
        ("- a\n", "has no keys"),
        ("!!python/object/apply:os.system [ls]\n", "line 1"),
    ],
)
def test_files_that_are_no_specs(tmp_path: Path, capsys: pytest.CaptureFixture, text: str, message: str):
    (tmp_path / "p.yaml").write_text(text)
    assert cli.main(["check", str(tmp_path / "p.yaml")]) == 2
    assert message in capsys.readouterr().err
    assert cli.main(["check", str(tmp_path / "none.yaml")]) == 2


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_specs_compile(path: Path, capsys: pytest.CaptureFixture):
    assert cli.main(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    solver = path.stem in ("everything_at_once", "no_repeated_word")
    assert f"guarantee: {'feasible' if solver else 'exact'}" in shown
    assert "plain rejection would accept" in shown
    understood = yaml.safe_load(shown.split("\nconstraint (")[0])
    assert DesignSpec.from_mapping(understood) == DesignSpec.from_mapping(
        yaml.safe_load(path.read_text()), folder=SPECS
    )


def test_acceptance_is_the_share_of_random_sequences(tmp_path: Path, capsys: pytest.CaptureFixture):
    """No Cys and no Trp over ten residues, against the closed form."""
    from seqdiff.domains.protein.properties import BACKGROUND
    from seqdiff.request.problem import prepare

    problem = prepare(DesignSpec.from_mapping({"length": 10, "constraints": [{"forbid": {"letters": "CW"}}]}))
    left = 1 - BACKGROUND[[PROTEIN.letters.index(letter) for letter in "CW"]].sum()
    assert problem.acceptance(BACKGROUND) == pytest.approx(left**10, rel=1e-5)


def test_score_and_export(tmp_path: Path, model: str, capsys: pytest.CaptureFixture):
    (tmp_path / "a.fasta").write_text(">a\nMKTAYIAK\n>b\nGGSGGSAAAA\n")
    assert cli.main(["score", "a.fasta", f"model={model}", "out=s.csv", "samples=2"]) == 0
    assert cli.main(["score", "a.fasta", f"model={model}", "method=pseudo"]) == 0
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["a", "b"]
    assert all(10 < float(row["perplexity"]) < 30 for row in rows)
    assert cli.main(["score", "a.fasta", f"model={model}", "out=s.csv"]) == 2
    assert cli.main(["score", "a.fasta", "metod=pseudo"]) == 2
    (tmp_path / "n.fasta").write_text(">a\n" + "ACGT" * 10 + "\n")
    assert cli.main(["score", "n.fasta", f"model={model}"]) == 2
    assert "looks like nucleotides" in capsys.readouterr().err
    assert cli.main(["export", model, "out=ex"]) == 0
    assert (tmp_path / "ex" / "model.safetensors").is_file()


def test_evaluate_and_train_refuse_unknown_keys(capsys: pytest.CaptureFixture):
    assert cli.main(["evaluate", "data=[x]", "limt=3"]) == 2
    assert cli.main(["train", "data.train=x", "steps=many"]) == 2
    assert cli.main(["train", "data.tarin=x"]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if "error" in line]) == 3


def test_help_shows_examples(capsys: pytest.CaptureFixture):
    for words in (["--help"], ["check", "--help"], ["score", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 0
        assert "examples:" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        cli.main(["desing"])
    assert caught.value.code == 2


def test_an_interrupted_run_keeps_what_is_done(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys):
    real = run_module.sample_batches

    def interrupted(*args, **options):
        for i, part in enumerate(real(*args, **options)):
            if i == 1:
                raise KeyboardInterrupt
            yield part

    monkeypatch.setattr(run_module, "sample_batches", interrupted)
    problem = spec(tmp_path / "p.yaml", model=model, sampling={"batch": 2, "steps": 2})
    assert cli.main(["design", problem, "out=part"]) == 1
    assert len(read_fasta(tmp_path / "part" / "designs.fasta")) == 2
    assert "2 of 5 designs were finished and written to part: interrupted" in capsys.readouterr().err


def test_python_interface(model: str):
    from seqdiff.constraints import Forbid

    designs = seqdiff.design(length=12, n=2, model=model, constraints=[Forbid("CW")], sampling={"steps": 2})
    assert len(designs) == designs.satisfied == 2
    assert "2 satisfy all 1 constraints" in repr(designs)
    assert "<svg" in designs._repr_html_()
    assert np.isfinite(designs[0].score)
    again = seqdiff.design(designs.spec)
    assert again.sequences == designs.sequences
    given = seqdiff.design(designs.spec.to_mapping(), model=load_model(model, PROTEIN))
    assert given.sequences == designs.sequences
    assert given.spec.model == "<NetworkDenoiser>"
    with pytest.raises(InputError, match="either"):
        seqdiff.design(designs.spec, n=3)
    with pytest.raises(InputError, match="did you mean 'length'"):
        seqdiff.design(lenght=3)
    with pytest.raises(AttributeError):
        seqdiff.nothing  # noqa: B018
