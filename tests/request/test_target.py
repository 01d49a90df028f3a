"""``structure:`` in a spec: what is designed, what stays, what is refused, and what a run leaves behind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqdiff
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.experiments.backbones import coiled_coil, to_pdb
from seqdiff.models.mpnn.config import MPNNConfig
from seqdiff.models.mpnn.denoiser import init_mpnn
from seqdiff.request import output
from seqdiff.request.spec import DesignSpec

SMALL = {"neighbours": 6, "width": 8, "depth": 1}
MODEL = init_mpnn(MPNNConfig(**SMALL), PROTEIN, seed=0)
LIGAND = init_mpnn(MPNNConfig(kind="ligand", atoms=3, **SMALL), PROTEIN, seed=0)
MEMBRANE = init_mpnn(MPNNConfig(kind="membrane", **SMALL), PROTEIN, seed=0)


@pytest.fixture
def pdb(tmp_path: Path) -> Path:
    """Three helices of nine residues, A to C; A2 reads W, A3 is modified, B4 lacks its O, and B runs from 101."""
    lines = to_pdb(coiled_coil(3, 9)).splitlines()
    kept = []
    for line in lines:
        chain, number = line[21:22], line[22:26].strip()
        if line.startswith("ATOM"):
            if (chain, number) == ("A", "2"):
                line = line.replace("ALA", "TRP")
            if (chain, number) == ("A", "3"):
                line = line.replace("ALA", "M3L")
            if (chain, number, line[13:15].strip()) == ("B", "4", "O"):
                continue
            if chain == "B":
                line = f"{line[:22]}{int(number) + 100:4d}{line[26:]}"
        kept.append(line)
    path = tmp_path / "three.pdb"
    path.write_text("\n".join(kept) + "\n")
    return path


def spec(structure: Any, **keys: Any) -> DesignSpec:
    return DesignSpec.from_mapping({"structure": structure} | keys)


def test_a_file_alone_designs_all_chains(pdb: Path):
    found = spec(str(pdb))
    assert found.structure.design == ("A", "B", "C")
    assert found.length == (27, 27)
    assert found.structure.native == "AWXAAAAAA" + "A" * 18
    # B104 has no whole backbone, so it keeps its letter.
    assert found.structure.fixed == (13,)
    assert found.places.labels[12] == "B104"


def test_chains_and_what_stays(pdb: Path):
    part = spec({"file": str(pdb), "design": ["A"], "context": "B", "fixed": "A1-2,A9"})
    assert (part.structure.design, part.structure.context) == (("A",), ("B",))
    assert part.structure.fixed == (1, 2, 9)
    assert [constraint.describe() for constraint in part.all_constraints()] == ["fixed 1-2=AW, 9=A"]
    assert len(part.structure.around) == 8
    other = spec({"file": str(pdb), "design": ["A"], "redesign": "A3-8"})
    assert other.structure.fixed == part.structure.fixed
    assert other.structure.context == ("B", "C")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"design": ["A", "C"], "context": [], "fixed": "A1,C5-7", "noise": 0.2, "ligands": False},
        {"design": ["B"], "side_chains": True},
        {"membrane": {"buried": "A4-6,B", "interface": "A3"}},
        {"membrane": True, "models": "all"},
    ],
    ids=str,
)
def test_a_spec_is_read_back_the_same(pdb: Path, options: dict):
    named = [{"forbid": {"letters": "C", "positions": "B"}}] if "B" in str(options) else []
    found = spec({"file": str(pdb), **options}, constraints=named)
    again = DesignSpec.from_mapping(found.to_mapping())
    assert again == found
    assert again.structure == found.structure


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"design": ["D"]}, "no chain 'D' for it; there is A, B, C"),
        ({"design": []}, "names no chain"),
        ({"design": "A", "context": "A"}, "there is B, C"),
        ({"fixed": "A3"}, "A3 (M3L) is none of the twenty"),
        ({"fixed": "A77"}, "no residue A77"),
        ({"fixed": "40"}, "out of range"),
        ({"fixed": "A1", "redesign": "A2"}, "keep one"),
        ({"models": 2}, "no model 2"),
        ({"models": 0}, "at least 1"),
        ({"noise": -1.0}, "noise"),
        ({"chain_ids": "label"}, "PDB file"),
        ({"chain_ids": "auth"}, "author or label"),
        ({"ligands": "no"}, "true or false"),
        ({"membrane": {"inside": "A1"}}, "unknown key 'inside'"),
        ({"chains": ["A"]}, "unknown key 'chains'"),
    ],
    ids=str,
)
def test_refusals(pdb: Path, options: dict, words: str):
    with pytest.raises(InputError) as caught:
        spec({"file": str(pdb), **options})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_spec_needs_the_right_model(pdb: Path):
    with pytest.raises(InputError, match="reads no structure"):
        seqdiff.design(structure=str(pdb), n=1)
    with pytest.raises(InputError, match="add structure: FILE"):
        seqdiff.design(model=MODEL, length=20, n=1)
    with pytest.raises(InputError, match="LigandMPNN only"):
        seqdiff.design(model=MODEL, structure={"file": str(pdb), "side_chains": True}, n=1)
    with pytest.raises(InputError, match="reads no membrane labels"):
        seqdiff.design(model=MODEL, structure={"file": str(pdb), "membrane": True}, n=1)
    with pytest.raises(InputError, match=r"needs structure\.membrane"):
        seqdiff.design(model=MEMBRANE, structure=str(pdb), n=1)
    with pytest.raises(InputError, match="keep one"):
        spec(str(pdb), parent="MKV", keep="1")


def design(model: Any, structure: Any, **keys: Any) -> seqdiff.Designs:
    return seqdiff.design(model=model, structure=structure, **{"n": 2, "sampling": {"steps": 3}} | keys)


def test_options_reach_the_network(pdb: Path):
    """What a structure's options change, the designs' likelihoods show."""
    base = design(MODEL, str(pdb))
    for options in ({"noise": 0.5}, {"context": ["B"], "design": ["A"]}):
        assert not np.allclose(design(MODEL, {"file": str(pdb), **options})[0].log_p[:9], base[0].log_p[:9], atol=1e-4)
    assert design(MODEL, {"file": str(pdb), "noise": 0.0})[0].sequence == base[0].sequence
    labels = [design(MEMBRANE, {"file": str(pdb), "membrane": value}) for value in (True, False, {"buried": "A"})]
    assert len({tuple(np.round(designs[0].log_p, 3)) for designs in labels}) == 3


def test_a_run_can_be_made_again_from_its_folder(pdb: Path, tmp_path: Path):
    constraints = [
        {"tied": {"chains": ["A", "C"]}},
        {"pattern": {"regex": "AAA", "exactly": 0}},
        {"fixed": {"B103": "K"}},
        {"charge": {"min": 2, "region": "B"}},
    ]
    designs = design(MODEL, {"file": str(pdb), "fixed": "B105"}, constraints=constraints)
    assert designs.satisfied == 2
    for found in designs:
        a, b, c = designs.spec.by_chain(found.sequence).values()
        assert a == c
        assert b[2] == "K"
        assert b[3:5] == "AA"
        assert 0.0 <= found.recovery <= 1.0
    folder = tmp_path / "out"
    output.write(designs, folder)
    assert (folder / "three.pdb").read_bytes() == pdb.read_bytes()
    records = [record.id for record in read_fasta(folder / "designs.fasta")]
    assert records == [f"design_000{i}_{chain}" for i in range(2) for chain in "ABC"]
    assert "/".join(designs.spec.by_chain(designs[0].sequence).values()) in (folder / "designs.csv").read_text()
    pdb.unlink()
    again = seqdiff.design(folder / "spec.yaml", model=MODEL)
    assert again.sequences == designs.sequences


def test_patterns_do_not_reach_over_the_end_of_a_chain(pdb: Path):
    """A9 is K and B101 G, so KG stands across the ends; it is neither forbidden nor found there."""
    ends = {"fixed": {"A9": "K", "B101": "G"}}
    keys: dict[str, Any] = {"n": 1, "constraints": [ends, {"pattern": {"regex": "KG", "exactly": 0}}]}
    assert "KG" in design(MODEL, str(pdb), **keys)[0].sequence
    keys["constraints"] = [ends, {"pattern": {"regex": "KG", "at_least": 1}}]
    made = design(MODEL, str(pdb), **keys)
    assert all("KG" in part for part in made.spec.by_chain(made[0].sequence).values())
