"""DNA that encodes a design: the protein stays, every rule holds by checks written here, and clashes are named."""

import re
from pathlib import Path

import numpy as np
import pytest
from Bio import Restriction
from Bio.Seq import Seq
from hypothesis import given, settings
from hypothesis import strategies as st

from seqdiff import backtranslate, cli
from seqdiff.core.errors import InfeasibleError, InputError
from seqdiff.domains.protein.codons import RESIDUE, TRIPLETS, site_regex, usage
from seqdiff.request.dna import DnaRules

RULES = {"host": "e_coli", "avoid": ["BsaI", "EcoRI", "RGATCY"], "gc": [40, 60], "rare": 0.1, "run": 4, "stop": "TAA"}


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.text("ACDEFGHIKLMNPQRSTVWY", min_size=16, max_size=30))
def test_every_rule_holds(protein: str):
    try:
        coding = backtranslate(protein, RULES)
    except InfeasibleError:  # such as poly-K, whose GC content cannot reach 40 %
        return
    dna = coding.dna
    assert str(Seq(dna).translate()) == protein + "*"
    assert dna.endswith("TAA")
    assert not Restriction.BsaI.search(Seq(dna)) and not Restriction.EcoRI.search(Seq(dna))  # noqa: PT018
    assert not re.search("[AG]GATC[CT]", dna)
    assert 40 <= 100 * sum(base in "GC" for base in dna) / len(dna) <= 60
    assert not re.search(r"([ACGT])\1{4}", dna)
    table = dict(zip(TRIPLETS, usage("e_coli"), strict=True))
    assert min(table[dna[i : i + 3]] for i in range(0, len(dna) - 3, 3)) >= 0.1
    assert all(verdict.ok for verdict in coding.verdicts.values())
    assert coding.guarantee == "exact"


def test_codons_follow_the_host():
    """2,000 leucines: shares within four standard errors of the table (chance of a false alarm below 1e-3)."""
    dna = backtranslate("L" * 2000, {"host": "e_coli", "stop": "none"}).dna
    codons = [dna[i : i + 3] for i in range(0, len(dna), 3)]
    for triplet, residue, share in zip(TRIPLETS, RESIDUE, usage("e_coli"), strict=True):
        if residue == "L":
            assert codons.count(triplet) / 2000 == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 2000))


def test_windows_go_to_the_solver_when_they_must():
    coding = backtranslate("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ", {"window": 30, "window_gc": [35, 65], "gc": [45, 55]})
    contents = [sum(base in "GC" for base in coding.dna[i : i + 30]) / 30 for i in range(0, len(coding.dna) - 29, 3)]
    assert all(0.35 <= content <= 0.65 for content in contents)


@pytest.mark.parametrize(
    ("protein", "rules", "message"),
    [
        ("MX", {}, "'X' at position 2 has no codon"),
        ("", {}, "no residue"),
        ("MK", {"host": "e_colli"}, "did you mean 'e_coli'"),
        ("MK", {"avoid": ["BsaX"]}, "unknown restriction enzyme 'BsaX'"),
        ("MK", {"gc": [60, 40]}, "need 0 <= lowest"),
        ("MK", {"window": 30}, "need each other"),
        ("MK", {"hots": "e_coli"}, "did you mean 'host'"),
        ("MMMM", {"gc": [60, 80], "stop": "none"}, "encodes the protein; .2. GC content 60-80 %"),
        ("MW", {"avoid": ["ATGTGG"]}, "no ATGTGG site"),
    ],
)
def test_refusals(protein: str, rules: dict, message: str):
    with pytest.raises(InputError, match=message):
        backtranslate(protein, rules)


def test_rules_round_trip():
    rules = DnaRules.from_mapping(RULES)
    assert DnaRules.from_mapping(rules.to_spec()) == rules


def test_sites_are_found_on_both_strands():
    assert re.search(site_regex("BsaI"), "AAGGTCTCAA")
    assert re.search(site_regex("BsaI"), "AAGAGACCAA")
    assert not re.search(site_regex("EcoRI"), "GAATTA")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture):
    fasta, out = tmp_path / "p.fasta", tmp_path / "coding.fasta"
    fasta.write_text(">a\nMKTAYIAKQR\n>b\nMSGHHHHHHW\n")
    assert cli.main(["backtranslate", str(fasta), "host=s_cerevisiae", "avoid=[BsaI]", f"out={out}"]) == 0
    assert out.read_text().count(">") == 2
    assert cli.main(["backtranslate", str(fasta), f"out={out}"]) == 2
    assert "exists" in capsys.readouterr().err
    assert cli.main(["backtranslate", str(fasta), "gc=[90,95]", f"out={tmp_path / 'no.fasta'}"]) == 2
    assert "record a" in capsys.readouterr().err
    assert not (tmp_path / "no.fasta").exists()


def test_designs_come_with_dna(tmp_path: Path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("length: 16\nn: 2\ndna: {host: e_coli, avoid: [BsaI], run: 5}\nsampling: {steps: 2}\n")
    out = tmp_path / "out"
    assert cli.main(["design", str(spec), f"out={out}"]) == 0
    assert (out / "designs_dna.fasta").read_text().count(">") == 2
    assert "DNA: no BsaI site" in (out / "designs.csv").read_text()
    assert "DNA: no BsaI site" in (out / "report.html").read_text()
    again = tmp_path / "again"
    assert cli.main(["design", str(out / "spec.yaml"), f"out={again}"]) == 0
    assert (again / "designs_dna.fasta").read_text() == (out / "designs_dna.fasta").read_text()
