"""Structure files: every example file is read or refused as pinned here, and as other readers and formats have it."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS
from seqdiff.domains.protein.structure import read_chains, read_structure

DATA = Path(__file__).parents[3] / "shared" / "data"
EDGE, ENTRIES = DATA / "edge_files", DATA / "structures"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder with example structures is not here")
CA = ATOMS.index("CA")


def refusal(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_structure(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


READ = [
    ("structures/1A8O.cif", {"A": 70}, "MDIRQGPKEP", 0),
    ("structures/1A8O.pdb", {"A": 70}, "MDIRQGPKEP", 0),
    ("structures/1AKI.cif", {"A": 129}, "KVFGRCELAA", 0),
    ("structures/1AKI.pdb", {"A": 129}, "KVFGRCELAA", 0),
    ("structures/1BC8.pdb", {"C": 93}, "MDSAITLWQF", 406),
    ("structures/1CRN.pdb", {"A": 46}, "TTCCPSIVAR", 0),
    ("structures/1PRW.pdb", {"A": 148}, "ADQLTEEQIA", 7),
    ("structures/1QYS.pdb", {"A": 92}, "DIQVQVNIDD", 0),
    ("structures/1UBQ.pdb", {"A": 76}, "MQIFVKTLTG", 0),
    ("structures/1YCR.pdb", {"A": 85, "B": 13}, "ETLVRPKPLL", 0),
    ("structures/3HTN.pdb", {"A": 143, "B": 139, "C": 143}, "NMYSYKKIGN", 96),
    ("structures/4GYT.pdb", {"A": 177, "B": 177}, "SLHLPKYDDF", 2),
    ("structures/5L33.pdb", {"A": 106}, "HMPEEEKAAR", 0),
    ("structures/6MRR.pdb", {"A": 68}, "GWSTELEKHR", 0),
    ("edge_files/cif_altloc_other_residue_name.cif", {"A": 1}, "P", 0),
    ("edge_files/cif_repeated_auth_ids.cif", {"A": 3}, "SDQ", 228),
    ("edge_files/pdb_altlocs_one_residue.pdb", {"A": 6}, "MSRNTT", 0),
    ("edge_files/pdb_insertion_codes_one_model.pdb", {"A": 11}, "HXEGKFTSEFX", 1),
    ("edge_files/pdb_microheterogeneity_1ejg.pdb", {"A": 46}, "TTCCPSIVAR", 0),
    ("edge_files/pdb_nmr_38_models_1l2y.pdb.gz", {"A": 20}, "NLYIQWLKDGGPSSGRPPPS", 0),
    ("edge_files/pdb_odd_occupancy.pdb", {"A": 1}, "D", 0),
]
REFUSED = [
    ("bcif_gzip_3jqh.bcif.gz", "BinaryCIF is not read; give the entry as mmCIF or PDB"),
    ("cif_1mom_min.cif", "holds no atoms"),
    ("cif_1ssu_mod.cif", "holds no protein residue"),
    ("cif_4q9r_min.cif", "holds no atoms"),
    ("pdb_header_only.pdb", "holds no atoms"),
    ("pdb_many_oddities.pdb", "holds no protein residue"),
    ("pdb_two_tiny_models.pdb", "holds no protein residue"),
]


@needs_data
@pytest.mark.parametrize(("name", "chains", "letters", "ligand"), READ, ids=[name for name, *_ in READ])
def test_example_files(name: str, chains: dict[str, int], letters: str, ligand: int):
    [structure] = read_structure(DATA / name)
    assert {chain: structure.chain.count(chain) for chain in structure.chains} == chains
    assert structure.letters.startswith(letters)
    assert len(structure.ligand_coords) == len(structure.ligand_elements) == ligand
    assert structure.coords.shape == (len(structure), 37, 3)
    assert structure.present[:, CA].all()
    assert len(set(structure.labels)) == len(structure)
    assert not structure.coords[~structure.present].any()
    assert (structure.ligand_elements > 1).all()
    same = {chain: [residue.letter or "X" for residue in part] for chain, part in read_chains(DATA / name).items()}
    assert "".join("".join(part) for part in same.values()) == structure.letters


@needs_data
@pytest.mark.parametrize(("name", "words"), REFUSED)
def test_example_files_that_are_refused(name: str, words: str):
    assert words in refusal(EDGE / name)


@needs_data
def test_all_example_files_are_pinned():
    pinned = {Path(name).name for name, *_ in READ + REFUSED}
    held = {path.name for path in ENTRIES.glob("*.[pc]*")}
    held |= {path.name for kind in ("pdb", "cif", "bcif") for path in EDGE.glob(f"{kind}_*")}
    assert held == pinned


@needs_data
def test_many_oddities_of_one_file():
    """A lone modified residue is no protein; the second model has duplicates, alternatives and insertion codes."""
    [structure] = read_structure(EDGE / "pdb_many_oddities.pdb", models=[2])
    assert (structure.chain.count("A"), structure.chain.count("B")) == (85, 10)
    assert "A0" not in structure.labels
    assert structure.complete.all()
    names = dict(zip(structure.labels, structure.name, strict=True))
    assert [names[p] for p in ("A2", "A3", "A4", "A10", "A14", "A16", "A80", "A81", "B45", "B51A")] == [
        *("ARG", "CYS", "GLY", "GLY", "ALA", "TRP", "SER", "LYS", "SEP", "ALA"),
    ]
    assert structure.letters[structure.labels.index("B45")] == "X"
    assert structure.present.sum(axis=1)[structure.labels.index("A15")] == 8
    assert len(structure.ligand_coords) == 56


@needs_data
@pytest.mark.parametrize("path", sorted(ENTRIES.glob("*.[pc]*")), ids=lambda path: path.name)
def test_agrees_with_biopython(path: Path):
    """Sequences and every atom; Bio.PDB also prefers the more occupied location, atom by atom."""
    from Bio.PDB.MMCIFParser import MMCIFParser
    from Bio.PDB.PDBParser import PDBParser
    from Bio.SeqUtils import seq1

    parser = MMCIFParser(QUIET=True) if path.suffix == ".cif" else PDBParser(QUIET=True)
    found: dict[str, list] = {"labels": [], "letters": [], "coords": []}
    parsed = parser.get_structure("x", str(path))
    assert parsed is not None
    for chain in parsed[0]:
        for part in chain:
            if "CA" in part and part.get_resname() != "CA":
                found["labels"].append(f"{chain.id}{part.id[1]}{part.id[2].strip()}")
                found["letters"].append("M" if part.get_resname() == "MSE" else seq1(part.get_resname()))
                slots = np.full((37, 3), np.nan, np.float32)
                for other in part:
                    name = "SD" if other.name == "SE" else other.name
                    if name in ATOMS:
                        slots[ATOMS.index(name)] = other.coord
                found["coords"].append(slots)
    [structure] = read_structure(path)
    assert structure.labels == tuple(found["labels"])
    assert structure.letters == "".join(found["letters"])
    np.testing.assert_array_equal(np.where(structure.present[..., None], structure.coords, np.nan), found["coords"])


_LOCATIONS = {
    "3HTN.pdb": {"C167"},
    "4GYT.pdb": {"A170"},
    "5L33.pdb": {"A40", "A74"},
    "cif_altloc_other_residue_name.cif": {"A22"},
    "pdb_altlocs_one_residue.pdb": {"A27"},
}
_NO_RESIDUE = {"1PRW.pdb": {"A115"}, "pdb_insertion_codes_one_model.pdb": {"A2", "A11"}}


@needs_data
@pytest.mark.parametrize("name", [Path(name).name for name, *_ in READ if not name.endswith(".gz")])
def test_where_prody_differs(name: str):
    """LigandMPNN reads through ProDy: location A rather than the more occupied one, fewer modified residues."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prody = pytest.importorskip("prody", reason="ProDy is not installed")
    prody.confProDy(verbosity="none")
    path = (EDGE if (EDGE / name).exists() else ENTRIES) / name
    parsed = (prody.parseMMCIF if path.suffix == ".cif" else prody.parsePDB)(str(path)).select("occupancy > 0")
    [structure] = read_structure(path)
    at = {label: i for i, label in enumerate(structure.labels)}
    seen, differ = set(), set()
    for other in parsed.select("protein"):
        label, slot = f"{other.getChid()}{other.getResnum()}{other.getIcode()}", other.getName()
        seen.add(label)
        i, k = at[label], ATOMS.index(slot) if slot in ATOMS else CA
        if (
            slot in ATOMS
            and structure.present[i, k]
            and np.abs(structure.coords[i, k] - other.getCoords()).max() > 1e-3
        ):
            differ.add(label)
    assert differ == _LOCATIONS.get(name, set())
    assert set(at) - seen == _NO_RESIDUE.get(name, set())


@needs_data
def test_microheterogeneity_of_crambin():
    [structure] = read_structure(EDGE / "pdb_microheterogeneity_1ejg.pdb")
    names = dict(zip(structure.labels, structure.name, strict=True))
    assert (names["A22"], names["A25"]) == ("PRO", "LEU")
    assert structure.complete.all()


@needs_data
@pytest.mark.parametrize("entry", ["1A8O", "1AKI"])
def test_formats_give_equal_arrays(entry: str):
    [pdb], [cif] = (read_structure(ENTRIES / f"{entry}.{suffix}") for suffix in ("pdb", "cif"))
    for key in ("chain", "insertion", "name", "letters", "labels"):
        assert getattr(pdb, key) == getattr(cif, key)
    for key in ("number", "coords", "present", "ligand_coords", "ligand_elements"):
        np.testing.assert_array_equal(getattr(pdb, key), getattr(cif, key))


@needs_data
def test_names_of_the_label():
    [author], [label] = (read_structure(ENTRIES / "1A8O.cif", chain_ids=ids) for ids in ("author", "label"))
    assert (author.labels[0], author.labels[-1]) == ("A151", "A220")
    assert (label.labels[0], label.labels[-1]) == ("A1", "A70")
    np.testing.assert_array_equal(author.coords, label.coords)
    assert "the author's names only" in refusal(ENTRIES / "1A8O.pdb", chain_ids="label")


@needs_data
@pytest.mark.parametrize("name", ["a", "a.txt", "a.ent", "a.pdb1", "a.PDB", "a.pdb.gz", "a.gz", "a.cif", "a.fasta"])
def test_contents_decide_the_format(tmp_path: Path, name: str):
    for entry in ("1A8O.pdb", "1A8O.cif"):
        data = (ENTRIES / entry).read_bytes()
        data = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n") if name == "a.txt" else data
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        [structure] = read_structure(tmp_path / name)
        assert len(structure) == 70
        assert len(read_chains(tmp_path / name)["A"]) == 70


@needs_data
def test_models():
    path = EDGE / "pdb_nmr_38_models_1l2y.pdb.gz"
    every = read_structure(path, models=None)
    assert [structure.model for structure in every] == list(range(1, 39))
    picked = read_structure(path, models=[38, 2])
    assert [structure.model for structure in picked] == [38, 2]
    np.testing.assert_array_equal(picked[1].coords, every[1].coords)
    assert np.abs(every[0].coords - every[1].coords).max() > 0.1
    assert "has 38 models; there is no model 39" in refusal(path, models=[1, 39])
    assert "no model 0" in refusal(path, models=[0])
