"""Structure files: every rule of the reader on small texts, every example file, and agreement with other readers."""

import gzip
import warnings
from pathlib import Path

import gemmi
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, Structure
from seqdiff.domains.protein.atoms import one_letter
from seqdiff.domains.protein.structure import read_chains, read_structure

DATA = Path(__file__).parents[3] / "shared" / "data"
EDGE, ENTRIES = DATA / "edge_files", DATA / "structures"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder with example structures is not here")
CA = ATOMS.index("CA")


def atom(
    name: str, residue: str = "GLY", place: str = "A1", x: float = 0.0, *, alt: str = " ", occ: float = 1.0, het=False
) -> str:
    """A line of a PDB file; ``place`` is chain, number and perhaps insertion code."""
    number, code = (place[1:-1], place[-1]) if place[-1].isalpha() else (place[1:], " ")
    element = "SE" if name == "SE" else name[0]
    column = f"{name:<4}" if len(name) == 4 or len(element) == 2 else f" {name:<3}"
    return (
        f"{'HETATM' if het else 'ATOM':<6}    1 {column}{alt}{residue:>3} {place[0]}{number:>4}{code}   "
        f"{x:8.3f}{2:8.3f}{3:8.3f}{occ:6.2f}  0.00          {element:>2}\n"
    )


def residue(name: str = "GLY", place: str = "A1", x: float = 0.0, **options) -> str:
    """Four atoms in a row, the next residue's 3.8 further on within reach of a peptide bond."""
    return "".join(atom(a, name, place, x + d, **options) for a, d in (("N", 0), ("CA", 1.4), ("C", 2.5), ("O", 3)))


def write(folder: Path, text: str, name: str = "a.pdb") -> Path:
    (folder / name).write_text(text)
    return folder / name


def read(folder: Path, text: str, **options) -> Structure:
    [structure] = read_structure(write(folder, text), **options)
    return structure


def x_of(structure: Structure, i: int, name: str) -> float:
    return round(float(structure.coords[i, ATOMS.index(name), 0]), 3)


def refusal(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_structure(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


# --- every example file ------------------------------------------------------------------------------------------

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


# --- other readers and formats -----------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("path", sorted(ENTRIES.glob("*.[pc]*")), ids=lambda path: path.name)
def test_agrees_with_biopython(path: Path):
    """Sequences and every atom; Bio.PDB also prefers the more occupied location, atom by atom."""
    from Bio.PDB.MMCIFParser import MMCIFParser
    from Bio.PDB.PDBParser import PDBParser
    from Bio.SeqUtils import seq1

    parser = MMCIFParser(QUIET=True) if path.suffix == ".cif" else PDBParser(QUIET=True)
    found: dict[str, list] = {"labels": [], "letters": [], "coords": []}
    for chain in parser.get_structure("x", str(path))[0]:
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


def test_models_must_agree(tmp_path: Path):
    one = f"MODEL        1\n{residue()}ENDMDL\n"
    path = write(tmp_path, one + f"MODEL        2\n{residue('ALA')}ENDMDL\n")
    assert len(read_structure(path)) == 1
    assert "models 1 and 2 differ in residues: A1 (GLY) and A1 (ALA)" in refusal(path, models=[1, 2])
    path = write(tmp_path, one + f"MODEL        2\n{residue()}{residue(place='A2', x=3.8)}ENDMDL\n")
    assert "differ in residues: 1 and 2 of them" in refusal(path, models=None)
    path = write(tmp_path, one + f"MODEL        2\n{atom('O', 'HOH', het=True)}ENDMDL\n")
    assert "holds no protein residue in model 2" in refusal(path, models=[2])


# --- rules -------------------------------------------------------------------------------------------------------


def side_chain(label: str, occ: float, x: float, names: tuple[str, ...] = ("CB", "OG")) -> str:
    return "".join(atom(name, "SER", x=x, alt=label, occ=occ) for name in names)


def test_the_most_occupied_conformer_is_read(tmp_path: Path):
    backbone = residue("SER")
    first = read(tmp_path, backbone + side_chain("A", 0.4, 10) + side_chain("B", 0.6, 20))
    assert (x_of(first, 0, "CB"), x_of(first, 0, "OG")) == (20, 20)
    equal = read(tmp_path, backbone + side_chain("B", 0.5, 20) + side_chain("A", 0.5, 10))
    assert x_of(equal, 0, "CB") == 20
    mixed = backbone + side_chain("A", 0.9, 10, ("CB",)) + side_chain("B", 0.5, 20)
    assert x_of(read(tmp_path, mixed), 0, "CB") == 20
    nothing = read(tmp_path, backbone + side_chain("A", 0.0, 10))
    assert x_of(nothing, 0, "CB") == 10


def test_an_atom_of_the_conformer_goes_before_one_without_label(tmp_path: Path):
    text = residue("SER") + side_chain(" ", 0.5, 10, ("CB",)) + side_chain("B", 0.5, 20)
    assert x_of(read(tmp_path, text), 0, "CB") == 20


def test_microheterogeneity(tmp_path: Path):
    """The more occupied name is read; atoms without a label are both names', wherever they stand."""
    text = residue("SER", alt="A", occ=0.3) + residue("VAL", alt="B", occ=0.7, x=1)
    structure = read(tmp_path, text)
    assert (structure.name, structure.letters, x_of(structure, 0, "N")) == (("VAL",), "V", 1)
    text = residue("LEU") + atom("CB", "LEU", alt="A", occ=0.4, x=5) + atom("CB", "ILE", alt="B", occ=0.6, x=6)
    structure = read(tmp_path, text)
    assert (structure.letters, x_of(structure, 0, "CB"), structure.complete.all()) == ("I", 6, True)


@needs_data
def test_microheterogeneity_of_crambin():
    [structure] = read_structure(EDGE / "pdb_microheterogeneity_1ejg.pdb")
    names = dict(zip(structure.labels, structure.name, strict=True))
    assert (names["A22"], names["A25"]) == ("PRO", "LEU")
    assert structure.complete.all()


def test_names_that_stand_for_two_residues(tmp_path: Path):
    """A copy far away or of another name is another residue; the same atom again is not."""
    far = write(tmp_path, residue() + "TER\n" + residue(x=30))
    assert "A1 stands for two residues (GLY and GLY)" in refusal(far)
    other = write(tmp_path, residue() + residue("ALA", x=30))
    assert "A1 stands for two residues (GLY and ALA)" in refusal(other)
    again = read(tmp_path, residue() + residue(x=0.5))
    assert (again.labels, x_of(again, 0, "N")) == (("A1",), 0)


def test_numbers_codes_and_chains(tmp_path: Path):
    text = residue(place="A-5") + residue(place="B1") + "TER\n" + residue(place="A0", x=3.8)
    text += residue(place="A0A", x=7.6) + residue(place=" 7")
    structure = read(tmp_path, text)
    assert structure.labels == ("A-5", "A0", "A0A", "A7", "B1")
    assert structure.chains == ("A", "B")
    assert structure.number.tolist() == [-5, 0, 0, 7, 1]
    assert read(tmp_path, residue(place="AA000")).number.tolist() == [10000]


def test_atoms_of_a_residue(tmp_path: Path):
    """OXT has a slot, hydrogens and unknown names have none, residues without CA are left out."""
    text = residue("ALA") + atom("OXT", "ALA", x=9) + atom("HA", "ALA") + atom("D1", "ALA") + atom("XYZ", "ALA")
    text += atom("N", "GLY", "A2") + atom("CA", "GLY", "A3")
    structure = read(tmp_path, text)
    assert structure.labels == ("A1", "A3")
    assert structure.present.sum(axis=1).tolist() == [5, 1]
    assert x_of(structure, 0, "OXT") == 9
    assert structure.complete.tolist() == [True, False]
    assert not len(structure.ligand_coords)


def test_heterogens(tmp_path: Path):
    """A peptide bond makes a residue of a heterogen; selenomethionine needs none; the rest are ligands."""
    text = residue() + residue("SEP", "A2", 3.8, het=True)
    text += residue("MSE", "A9", 50, het=True) + atom("SE", "MSE", "A9", 51, het=True)
    chain = read(tmp_path, text)
    assert (chain.letters, chain.name) == ("GXM", ("GLY", "SEP", "MSE"))
    assert x_of(chain, 2, "SD") == 51
    free = residue("GLU", "A301", 70, het=True) + residue("SAM", "A302", 80, het=True)
    cap = "".join(atom(name, "ACE", "A0", -1, het=True) for name in ("C", "CH3", "O"))
    other = atom("CA  ", "CA", "A401", 90, het=True).replace(" C\n", "CA\n") + atom("P", "DA", "B1") + atom("CA", "DA")
    dropped = atom("O", "HOH", "A500", het=True) + atom("O", "DUM", "A501", het=True) + atom("OH2", "TIP", "A502")
    whole = read(tmp_path, text + free + cap + other + dropped)
    assert whole.letters == chain.letters
    assert sorted(whole.ligand_elements.tolist()) == sorted([7, 6, 6, 8] * 2 + [6, 6, 8] + [20, 15, 6])
    assert read(tmp_path, residue("GLU", het=True) + residue("GLY", "A2", 3.8, het=True)).letters == "EG"


def test_ligands_have_one_conformer(tmp_path: Path):
    text = residue() + atom("C1", "LIG", "A9", 5, alt="A", occ=0.4, het=True)
    text += atom("C1", "LIG", "A9", 6, alt="B", occ=0.6, het=True) + atom("N2", "LIG", "A9", 7, occ=0.0, het=True)
    structure = read(tmp_path, text)
    assert structure.ligand_coords[:, 0].tolist() == [7, 6]
    assert structure.ligand_elements.tolist() == [7, 6]


def test_letters():
    names = {"ALA": "A", "MSE": "M", "HIE": "H", "HSD": "H", "CYX": "C", "GLH": "E"}
    assert {name: one_letter(name) for name in names} == names
    assert not any(map(one_letter, ("SEC", "PYL", "UNK", "ASX", "GLX", "SEP", "M3L", "DAL", "ACE", "DA", "")))
    assert one_letter("HSE", het=True) == ""
    assert (
        sum(bool(one_letter(gemmi.expand_one_letter(a, gemmi.ResidueKind.AA))) for a in map(chr, range(65, 91))) == 20
    )


# --- numbers that are none, files that are none ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (30, "     abc", "line 2: x 'abc' is not a number"),
        (38, "     nan", "line 2: y 'nan' is not a number"),
        (46, "********", "line 2: z '********' is not a number"),
        (30, "        ", "line 2: x '' is not a number"),
        (30, "  1.0.00", "line 2: x '1.0.00' is not a number"),
        (22, "  x1", "line 2: residue number 'x1' is not a number"),
    ],
)
def test_numbers_that_are_none(tmp_path: Path, column: int, value: str, words: str):
    line = atom("CA")
    line = line[:column] + value + line[column + len(value) :]
    assert words in refusal(write(tmp_path, atom("N") + line))


@pytest.mark.parametrize(
    ("cut", "words"), [(30, "line 2: x '' is not a number"), (50, "line 2"), (54, None), (60, None), (66, None)]
)
def test_lines_that_are_cut(tmp_path: Path, cut: int, words: str | None):
    path = write(tmp_path, atom("N") + atom("CA", x=5)[:cut] + "\n")
    if words:
        assert words in refusal(path)
    else:
        assert x_of(read_structure(path)[0], 0, "CA") == 5


CIF = "data_x\nloop_\n" + "".join(
    f"_atom_site.{key}\n"
    for key in (
        *("group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id"),
        *("label_entity_id", "label_seq_id", "Cartn_x", "Cartn_y", "Cartn_z"),
    )
)


@pytest.mark.parametrize("value", ["abc", "nan", "?", ".", "inf"])
def test_coordinates_of_mmcif_that_are_none(tmp_path: Path, value: str):
    path = write(tmp_path, f"{CIF}ATOM 7 C CA . GLY A 1 1 {value} 2.0 3.0\n", "a.cif")
    assert "atom 7 (CA of GLY A1) has coordinates that are not numbers" in refusal(path)


def test_mmcif_of_several_blocks_and_few_columns(tmp_path: Path):
    text = f"# made by hand\ndata_notes\n_entry.id x\n{CIF}ATOM 7 C CA . GLY A 1 1 1.0(2) 2.0 3.0\n"
    [structure] = read_structure(write(tmp_path, text, "notes"))
    assert (structure.labels, x_of(structure, 0, "CA")) == (("A1",), 1)
    text = f"{CIF}ATOM 7 C CA . GLY A 1 . 1.0 2.0 3.0\n"
    assert "has no label number" in refusal(write(tmp_path, text, "a.cif"), chain_ids="label")


PACKED = gzip.compress(residue().encode(), mtime=0)
NO_STRUCTURES = [
    ("empty.pdb", b"", "is not a structure file"),
    ("empty.cif", b"", "is not a structure file"),
    ("empty", b"", "is not a structure file"),
    ("words.pdb", b"some words\n", "is not a structure file"),
    ("words.txt", b"some words\n", "give a PDB or mmCIF file"),
    ("words.cif", b"some words\n", "line 1: expected block header"),
    ("cut.cif", CIF.encode() + b"ATOM 7 C CA\n", "Wrong number of values"),
    ("binary", bytes(range(256)), "is not a structure file"),
    ("seq.fasta", b">a\nMKT\n", "is not a structure file"),
    ("block.cif", b"data_x\n_entry.id x\n", "holds no atoms"),
    ("water.pdb", atom("O", "HOH", het=True).encode(), "holds no protein residue"),
    ("bare.gz", b"plain", "cannot read"),
    ("cut.pdb.gz", PACKED[:-9], "cannot read"),
    ("spoilt.pdb.gz", PACKED[:12] + bytes(40), "cannot read"),
    ("model.bcif", b"x", "BinaryCIF"),
    ("packed", b"\x83\xa7encoder\xa8seqdiff\x00", "BinaryCIF"),
]


@pytest.mark.parametrize(("name", "data", "words"), NO_STRUCTURES, ids=[name for name, *_ in NO_STRUCTURES])
def test_files_that_are_none(tmp_path: Path, name: str, data: bytes, words: str):
    (tmp_path / name).write_bytes(data)
    assert words in refusal(tmp_path / name)


def test_files_that_are_not_there(tmp_path: Path):
    assert "No such file" in refusal(tmp_path / "none.pdb")
    assert "Is a directory" in refusal(tmp_path)
