"""The report page: what stands on it, what a run read back is, what is refused."""

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from seqdiff.constraints.base import Verdict
from seqdiff.core.errors import InputError
from seqdiff.request import output
from seqdiff.request.designs import Design, Designs
from seqdiff.request.dna import backtranslate
from seqdiff.request.report import build_report, page
from seqdiff.request.spec import DesignSpec
from seqdiff.request.stored import read_run

CONSTRAINTS = [{"fixed": {1: "M"}}, {"forbid": {"letters": "C"}}, {"pattern": {"regex": "RGD"}}]
EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "input", "br"}


def made(n: int = 4, length: int = 20, seed: int = 0, **keys) -> Designs:
    """Designs as a run would make them."""
    spec = DesignSpec.from_mapping({"length": length, "n": n, "seed": seed, "constraints": CONSTRAINTS} | keys)
    rng = np.random.default_rng(seed)
    letters = np.array(list("ADEFGHIKLMNPQRSTVWY"))
    texts = ["M" + "".join(rng.choice(letters, length - 4)) + "RGD" for _ in range(n)]
    designs = [
        Design(
            id=f"design_{i:04d}",
            index=i,
            sequence=text,
            log_p=np.r_[0.0, rng.normal(-2, 0.3, length - 1)],
            order=np.r_[-1, rng.integers(0, 8, length - 1)],
            calls=8 + i % 2,
            log_evidence=-3.0,
            verdicts=tuple(constraint.holds(text) for constraint in spec.constraints),
        )
        for i, text in enumerate(texts)
    ]
    facts = {"versions": {"seqdiff": "1"}, "devices": ["cpu:0"], "seconds": 1.5, "law": "the model's"}
    return Designs(spec, spec.constraints, "exact", tuple(designs), facts)


@contextmanager
def uninstalled() -> Iterator[None]:
    """As where the extra is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "seqdiff.request.views.plot", raising=False)
        patch.setitem(sys.modules, "matplotlib.figure", None)
        yield


@pytest.fixture
def no_figures() -> Iterator[None]:
    """Without the extra."""
    with uninstalled():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with uninstalled():
        output.write(made(2), folder)
    return folder


class _Balanced(HTMLParser):
    """Collects tags; complains where they are not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_is_well_formed():
    text = page(made())
    tags = _Balanced(text).tags
    assert tags.count("script") == 1
    assert "link" not in tags
    outside = re.findall(r'(?:src|href)="(?!data:)[^"]*"|url\(|@import|https?://(?!www\.w3\.org/2000/svg)', text)
    assert outside == []
    for heading in (
        "Spec as understood",
        "Constraints, checked",
        "Designs",
        "Diversity",
        "Quality and cost",
        "Provenance",
    ):
        assert f"<h2>{heading}" in text
    assert "4 designs" in text
    assert "4 satisfy every constraint" in text


def test_figures_are_in_the_page():
    pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")
    text = page(made())
    for name in ("Sequence logo", "Order of commitment", "Surprise", "Properties", "Identity of two", "Score against"):
        assert f'<img alt="{name}' in text


@pytest.mark.usefixtures("no_figures")
def test_without_the_extra_the_page_names_it():
    text = page(made())
    assert "<img" not in text
    assert text.count("pip install &#x27;seqdiff[plots]&#x27;") >= 5


@pytest.mark.usefixtures("no_figures")
def test_a_failed_constraint_is_seen():
    designs = made()
    bad = replace(designs[1], verdicts=(Verdict(True, "in place"), Verdict(False, f"C at 3 {EVIL}"), Verdict(True, "")))
    text = page(replace(designs, designs=(designs[0], bad, *designs[2:])))
    assert "3 satisfy every constraint" in text
    assert "3 of 4" in text
    assert "<i class=no title=" in text
    reasons = text[text.index("forbid C everywhere") :]
    assert reasons.index("design_0001: C at 3") < reasons.index("design_0000: ")


@pytest.mark.usefixtures("no_figures")
def test_words_from_outside_are_escaped(tmp_path):
    fasta = tmp_path / f"{EVIL[8:13]}&.fasta"
    designs = made()
    fasta.write_text(f">{EVIL}\n{designs[0].sequence}\n")
    named = tuple(replace(design, id=f"{design.id}{EVIL}") for design in designs)
    evil = replace(designs, designs=named, run=designs.run | {"git": EVIL, "law": EVIL}, stopped=EVIL)
    evil = replace(evil, spec=replace(evil.spec, model=EVIL))
    text = page(evil, fasta, title=EVIL)
    assert _Balanced(text).tags.count("script") == 1
    assert "alert(1)</script>" not in text
    assert "100.0" in text  # the first design is known
    assert "alert(1)</script>" not in evil._repr_html_()


@pytest.mark.usefixtures("no_figures")
def test_a_run_reads_back_as_it_was(tmp_path):
    designs = made()
    output.write(designs, tmp_path / "run")
    again = read_run(tmp_path / "run")
    assert again.spec == designs.spec
    assert again.sequences == designs.sequences
    assert again.rows() == designs.rows()
    assert again.run["seconds"] == 1.5
    build_report([tmp_path / "run"], tmp_path / "pages" / "run.html")
    body = (tmp_path / "pages" / "run.html").read_text()
    assert "<title>seqdiff: run</title>" in body
    assert body.count("design_0002") == (tmp_path / "run" / "report.html").read_text().count("design_0002")


@pytest.mark.usefixtures("no_figures")
def test_dna_reads_back(tmp_path):
    pytest.importorskip("python_codon_tables", reason="the extra 'dna' is not installed")
    designs = made(2, dna={"avoid": ["BsaI"]})
    rules = designs.spec.dna
    coded = tuple(replace(design, coding=backtranslate(design.sequence, rules)) for design in designs)
    output.write(replace(designs, designs=coded), tmp_path / "run")
    again = read_run(tmp_path / "run")
    assert all(design.coding and design.coding.verdicts["no BsaI site"].ok for design in again)
    assert "DNA: no BsaI site" in page(again)


@pytest.mark.usefixtures("no_figures")
def test_several_runs_are_compared(tmp_path):
    for steps in (4, 16):
        output.write(made(seed=steps, sampling={"steps": steps}), tmp_path / "sweep" / f"steps_{steps}")
    build_report([tmp_path / "sweep"], tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text()
    _Balanced(text)
    assert "2 runs, 8 designs" in text
    heads = re.findall(r"<th>([^<]*)</th>", text)
    assert heads[:5] == ["run", "seed", "sampling.steps", "designs", "satisfied"]
    assert text.index("steps_4") < text.index("steps_16")
    assert "<td>sampling.temperature</td>" in text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "designs.json").unlink(), "no designs.json"),
        (lambda run: (run / "run.json").unlink(), "cannot read .*run.json"),
        (lambda run: (run / "spec.yaml").unlink(), "cannot read the spec"),
        (lambda run: (run / "designs.json").write_text("{"), "damaged"),
        (lambda run: (run / "run.json").write_text("[]"), "not a mapping"),
        (lambda run: (run / "run.json").write_text('{"seconds": "x"}'), "seconds"),
        (lambda run: _edit(run, lambda document: document.pop("guarantee")), "no 'guarantee'"),
        (lambda run: _edit(run, lambda document: document["designs"][0]["order"].pop()), "different lengths"),
        (lambda run: _edit(run, lambda document: document["designs"][0].update(sequence=EVIL[:20])), "damaged"),
        (lambda run: _edit(run, lambda document: document["designs"][0]["verdicts"].pop()), "different constraints"),
        (lambda run: _edit(run, lambda document: document.update(designs=3)), "damaged"),
        (
            lambda run: (run / "spec.yaml").write_text("length: 20\nconstraints: [{glow: 3}]"),
            "unknown constraint 'glow'",
        ),
    ],
)
def test_damaged_runs_are_refused_in_a_line(finished, tmp_path, damage, message):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    damage(run)
    with pytest.raises(InputError, match=message) as caught:
        build_report([run], tmp_path / "page.html")
    assert "\n" not in str(caught.value)
    assert str(run) in str(caught.value)
    assert not (tmp_path / "page.html").exists()


def _edit(run: Path, change) -> None:
    document = json.loads((run / "designs.json").read_text())
    change(document)
    (run / "designs.json").write_text(json.dumps(document))


@pytest.mark.usefixtures("no_figures")
def test_refusals_without_a_run(finished, tmp_path):
    with pytest.raises(InputError, match="name one or more"):
        build_report([], tmp_path / "page.html")
    with pytest.raises(InputError, match="no such folder"):
        build_report([tmp_path / "none"], tmp_path / "page.html")
    with pytest.raises(InputError, match="cannot be written"):
        build_report([finished], finished)


def test_a_large_run_stays_usable():
    designs = made(1000, 500)
    started = time.perf_counter()
    text = page(designs)
    assert len(text) < 10e6
    assert time.perf_counter() - started < 60
    assert text.count('<tr><td class="id">') == 1000
    assert "The first 60 of 1000 designs" in text


def test_a_notebook_shows_verdicts_and_coloured_rows():
    html = made(30)._repr_html_()
    tags = _Balanced(html).tags
    assert "script" not in tags
    assert tags.count("svg") == 24 + 2
    assert "the first 24 of 30 designs" in html
    assert "30 of 30" in html


@pytest.mark.usefixtures("no_figures")
def test_nothing_designed_and_no_designs_make_a_page():
    designs = made(1)
    fixed = replace(designs[0], order=np.full(20, -1), calls=0)
    assert "1 design," in page(replace(designs, designs=(fixed,)))
    assert "0 designs" in page(replace(designs, designs=()))
