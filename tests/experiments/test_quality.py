"""Quality and speculation benches, on worlds so small that only their plumbing is tested, and rules on made-up rows."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from seqdiff.core.errors import InputError, MissingExtraError
from seqdiff.experiments.bench import quality, speculative
from seqdiff.experiments.bench.quality_plot import draw_protein, draw_toy, pivot, tokens_per_call

TOY = ["toy", "n=8", "reference=8", "length=8", "budgets=2", "planners=random", "draws=500"]


def toy_row(planner: str, steps: int, variation: float, **more: float) -> dict:
    given = {"part": "toy", "planner": planner, "steps": steps, "length": 64, "calls": float(steps), "nll": 1.0}
    return given | {"variation_1": variation, "variation_4": 0.01, "entropy": 2.0} | more


def protein_row(planner: str, steps: int, **more: float) -> dict:
    given = {"part": "protein", "planner": planner, "steps": steps, "length": 64, "calls": float(steps)}
    return given | {"perplexity": 17.0, "entropy": 2.9, "repeats": 0.03, "diversity": 0.94} | more


def test_rows_are_kept_and_not_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "toy.json"
    rows = quality.main([*TOY, f"out={out}"])
    assert json.loads(out.read_text()) == rows
    assert [(row["part"], row["planner"], row["steps"]) for row in rows] == [
        ("toy", "true draws", 0),
        *[("toy", "random", steps) for steps in (8, 1, 2)],
        ("table", "random", 4),
        ("table", "random, 2 steps", 2),
    ]
    assert all(row["calls"] == row["steps"] for row in rows[1:])
    # One position per step follows the table; two per step do not.
    assert abs(rows[-2]["variation"] - rows[-2]["expected"]) < 5 * rows[-2]["deviation"]
    assert rows[-1]["variation"] > rows[-1]["expected"] + 5 * rows[-1]["deviation"]
    before = capsys.readouterr().out
    assert quality.main([*TOY, f"out={out}"]) == rows
    assert capsys.readouterr().out == before


def test_low_perplexity_by_repetition_is_no_merit():
    rows = [
        protein_row("random", 64),
        protein_row("confidence", 8, perplexity=12.0, entropy=2.4, repeats=0.2),
        protein_row("spread", 8, perplexity=17.3),
        protein_row("spread", 4, perplexity=17.5),
    ]
    assert [(row["planner"], row["tokens_per_call"]) for row in tokens_per_call(rows, "protein")] == [
        ("spread", 8.0),
        ("random", 1.0),
    ]
    assert tokens_per_call(rows[1:], "protein") == []


def test_the_toy_has_a_lenient_and_a_strict_rule():
    law = toy_row("true draws", 0, 0.01, variation_1_error=0.001, variation_4_error=0.001)
    rows = [law, toy_row("spread", 4, 0.0119, nll=1.1), toy_row("spread", 8, 0.011), toy_row("random", 32, 0.02)]
    assert [row["steps"] for row in tokens_per_call(rows, "toy", strict=False)] == [4]
    assert [row["steps"] for row in tokens_per_call(rows, "toy")] == [8]
    assert pivot(rows, "toy", "variation_1").splitlines()[2:4] == [
        "| true draws | 0.0100 |  |  |",
        "| spread | 0.0119 | 0.0110 |  |",
    ]


def test_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(0).normal(size=(4096, 1))
    assert quality.jackknife(lambda rows: float(rows.mean()), x) == pytest.approx(1 / 64, rel=0.5)


def test_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    toys = [toy_row("true draws", 0, 0.01), toy_row("entropy", 4, 0.1), toy_row("entropy_bound 1", 4, 0.1)]
    proteins = [protein_row("random", steps) for steps in (4, 64)]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"seqdiff\[plots\]"):
        draw_toy(toys, tmp_path / "toy.svg")
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    draw_toy(toys, tmp_path / "toy.svg")
    draw_protein(proteins, tmp_path / "protein.svg")
    assert all((tmp_path / name).read_text().startswith("<?xml") for name in ("toy.svg", "protein.svg"))


def test_speculation_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speculative, "ORDERS", {"random": speculative.ORDERS["random"]})
    out = tmp_path / "speculative.json"
    rows = speculative.main(["toy", "n=4", "length=8", "drafts=2", f"out={out}"])
    assert json.loads(out.read_text()) == rows
    assert [row["drafter"] for row in rows] == ["none", "own", "independent letters"]
    for row in rows:
        assert row["calls"] <= row["slowest"] <= 8
        assert row["drafts"] == 1 or 0 <= row["kept"] <= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "unknown benchmark"),
        (["toy", "m=3"], "unknown option"),
        (["toy", "n=few"], "whole numbers"),
        (["protein"], "train=FILE"),
    ],
)
def test_refusals(words: list[str], message: str):
    with pytest.raises(InputError, match=message):
        quality.main(words)
