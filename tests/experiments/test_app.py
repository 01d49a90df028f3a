"""Hydra programs: every shipped config composes and is usable, sweeps are campaigns, mistakes are one line."""

import csv
import json
import re
from pathlib import Path

import pytest
import yaml

from seqdiff import cli
from seqdiff.core.errors import InputError
from seqdiff.experiments import app, schema
from seqdiff.experiments.bench import PROGRAMS
from seqdiff.experiments.design import read_spec
from seqdiff.request import run as run_module
from seqdiff.request.problem import prepare

CONF = Path(app.__file__).parent / "conf"
EXPERIMENTS = sorted((CONF / "experiment").glob("*.yaml"))
COMMANDS = ("bench", "design", "evaluate", "finetune", "train")


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)


def composed(command: str, words: list[str], capsys: pytest.CaptureFixture) -> dict:
    """The config as ``--cfg job`` shows it."""
    capsys.readouterr()
    assert cli.main([command, *words, "--cfg", "job"]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def spec(path: Path, **keys) -> str:
    path.write_text(yaml.safe_dump({"length": 12, "n": 2, "sampling": {"steps": 2}} | keys))
    return str(path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_is_usable(path: Path, capsys: pytest.CaptureFixture):
    lines = path.read_text().splitlines()
    command, name, needs = re.fullmatch(r"# seqdiff (\w+) experiment=(\w+)(.*)", lines[1]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert name == path.stem
    assert f"| `{name}` | `{lines[1][2:]}` |" in (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    config = composed(command, [f"experiment={name}", *needs.replace('"', "").split()], capsys)
    assert "???" not in yaml.safe_dump(config | config.get("set", {})), "its first line shows all that is missing"
    if command == "design":
        given, own = config.pop("spec"), config.pop("set")
        config.pop("out")
        prepare(read_spec(Path(given) if given else None, config, own))
    elif command == "bench":
        settings = getattr(__import__(PROGRAMS[config["bench"]].module, fromlist=["Settings"]), "Settings", None)
        keys = set(config) - {"bench", "words", "out", "set"}
        assert settings is None or keys <= set(settings._fields)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_composes(command: str, capsys: pytest.CaptureFixture):
    base = {"evaluate": ["data=[x]"], "finetune": ["model=protein-small", "data.train=x"], "train": ["data.train=x"]}
    groups = app._groups(command)
    assert set(groups) >= {"experiment", "launcher"}
    for group, options in groups.items():
        for option in sorted(options - {"__init__"}) if group not in ("experiment", "launcher") else ():
            assert composed(command, [*base.get(command, []), f"{group}={option}"], capsys)
    folders = {path.name for path in CONF.iterdir() if path.is_dir() and not path.name.startswith("_")}
    used = set().union(*(app._groups(name) for name in COMMANDS))
    assert folders | set(schema.OPTIONS) == used


@pytest.mark.parametrize("launcher", ["ray", "processes", "slurm"])
def test_launchers_compose(launcher: str, capsys: pytest.CaptureFixture):
    pytest.importorskip(
        "hydra_plugins.hydra_submitit_launcher" if launcher != "ray" else "hydra_plugins.hydra_ray_launcher"
    )
    assert composed("design", ["length=12", f"launcher={launcher}"], capsys)["set"] == {"length": 12}


def test_groups_and_keys_of_a_design():
    groups = {"sampling": {"planner": {"margin": {"noise": 0.0}}, "steps": 8}, "constraints": [{"run": {"max": 3}}]}
    found = read_spec(None, groups, {"length": 20, "sampling": {"steps": 3}, "constraints": {"0": {"run": {"max": 2}}}})
    assert (found.length, found.sampling.steps, type(found.sampling.planner).__name__) == ((20, 20), 3, "Margin")
    assert (
        found.constraints[0].describe()
        == read_spec(None, {}, {"length": 9, "constraints": [{"run": {"max": 2}}]}).constraints[0].describe()
    )
    assert read_spec(Path("zinc_finger"), {}, {"n": None}).n == 16


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("design", ["planner=confidense"], "unknown planner option 'confidense'; did you mean 'confidence'?"),
        ("design", ["experiment=zinc_fingr"], "did you mean 'zinc_finger'?"),
        ("design", [], "name a spec"),
        ("design", ["--multi"], "unknown option --multi"),
        ("design", ["length=12", "seed=1,2"], "try each with -m"),
        ("bench", ["lop_overhead"], "did you mean 'loop_overhead'?"),
        ("bench", [], "name a program"),
        ("bench", ["extremal", "nods=12"], "did you mean 'nodes'?"),
        ("train", ["data.tarin=x"], "did you mean 'train'?"),
        ("train", ["steps=many"], "could not be converted to Integer (steps)"),
        ("train", [], "data.train is missing; write data.train=..."),
        ("train", ["data.train=x", "process=unifrom"], "did you mean 'uniform'?"),
        ("evaluate", ["data=[none.fasta]"], "none.fasta"),
        ("finetune", ["data.train=x"], "model is missing"),
    ],
)
def test_mistakes_are_one_line(command: str, words: list[str], message: str, capsys: pytest.CaptureFixture):
    assert cli.main([command, *words]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert message in lines[0]


def test_two_specs_of_one_name_are_refused(tmp_path: Path):
    paths = [tmp_path / "a" / "p.yaml", tmp_path / "b" / "p.yaml"]
    for path in paths:
        path.parent.mkdir()
        spec(path)
    with pytest.raises(InputError, match="two specs are called p"):
        app.translate("design", ["-m", *map(str, paths)])


def test_a_campaign_resumes_and_merges(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Specs x seeds: a bad spec stops nobody, an interruption leaves no half row, finished rows are not made again."""
    good, bad = spec(tmp_path / "good.yaml"), spec(tmp_path / "bad.yaml", constraints=[{"fixed": {30: "A"}}])
    words = ["design", "-m", good, bad, "model=uniform", "seed=0,1", "out=camp"]
    assert cli.main(words) == 1
    shown = capsys.readouterr()
    assert "2 job(s) failed; seed=0,bad: " in shown.err
    assert "position 30 is out of range" in shown.err
    camp = tmp_path / "camp"
    done = {"seed=0,good", "seed=1,good"}
    assert {path.parent.name for path in camp.glob("*/run.json")} == done
    facts = json.loads((camp / "seed=1,good" / "run.json").read_text())
    assert facts["seed"] == 1
    assert {"git", "versions", "command", "devices"} <= set(facts)

    real, calls = run_module.sample_batches, []

    def interrupted(*args, **options):
        calls.append(options["seed"])
        for part in real(*args, **options):
            yield part
            raise KeyboardInterrupt

    spec(tmp_path / "bad.yaml", length=14, n=20)
    monkeypatch.setattr(run_module, "sample_batches", interrupted)
    assert cli.main([*words, "sampling.batch=16"]) == 1
    assert (
        "16 of 20 designs were finished and written to camp/stopped/seed=0,bad: interrupted" in capsys.readouterr().err
    )
    assert calls == [0]
    assert {path.parent.name for path in camp.glob("*/run.json")} == done
    monkeypatch.setattr(run_module, "sample_batches", real)

    assert cli.main([*words, "sampling.batch=16"]) == 0
    assert "seed=1,good: finished before" in capsys.readouterr().err
    with open(camp / "designs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == ["seed=0,bad"] * 20 + ["seed=0,good"] * 2 + ["seed=1,bad"] * 20 + [
        "seed=1,good"
    ] * 2
    assert all(row["satisfied"] == "True" for row in rows)
    with open(camp / "results.csv", newline="") as file:
        results = list(csv.DictReader(file))
    assert [(row["spec"], row["seed"], row["designs"]) for row in results] == [
        ("bad", "0", "20"), ("good", "0", "2"), ("bad", "1", "20"), ("good", "1", "2"),
    ]  # fmt: skip

    capsys.readouterr()
    assert cli.main(["report", "camp/seed=0,good", "camp/seed=1,good", "out=both.html"]) == 0
    assert "page written to both.html" in capsys.readouterr().out
    assert cli.main(["report", "camp", "refrence=x"]) == 2
    assert "did you mean 'reference'?" in capsys.readouterr().err
    assert cli.main(["report", "nothing"]) == 2
    assert "holds no finished run" in capsys.readouterr().err

    spec(tmp_path / "good.yaml", length=13)
    assert cli.main(words) == 1
    assert "holds designs of another spec" in capsys.readouterr().err


def test_bench_keeps_what_a_program_prints(tmp_path: Path, capsys: pytest.CaptureFixture):
    words = ["bench", "ehrlich", "states=6", "length=10", "motifs=1", "motif_length=3", "n=4", "steps=4", "out=e"]
    assert cli.main(words) == 0
    assert "banned transitions" in (tmp_path / "e" / "output.txt").read_text()
    assert yaml.safe_load((tmp_path / "e" / "config.yaml").read_text())["states"] == 6
    assert cli.main(words) == 0
    assert "finished before" in capsys.readouterr().err


def test_words_that_an_experiment_leaves_open_reach_the_program():
    words = ["bench", "experiment=planar_floor", "words=[none.g6]", "data=nowhere"]
    assert cli.main(words) == 2, "there is no such file"


def test_help_lists_the_groups_of_the_command(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as stop:
        cli.main(["design", "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert "planner: accept, ancestral, confidence" in shown
    assert "training:" not in shown
