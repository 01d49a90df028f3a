"""Structure files: every rule of the reader on small texts, and what is refused."""

import gzip
from pathlib import Path

import gemmi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqdiff.core.errors import InputError
from seqdiff.core.structure import ATOMS, Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.atoms import one_letter
from seqdiff.domains.protein.structure import read_structure


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


def test_models_must_agree(tmp_path: Path):
    one = f"MODEL        1\n{residue()}ENDMDL\n"
    path = write(tmp_path, one + f"MODEL        2\n{residue('ALA')}ENDMDL\n")
    assert len(read_structure(path)) == 1
    assert "models 1 and 2 differ in residues: A1 (GLY) and A1 (ALA)" in refusal(path, models=[1, 2])
    path = write(tmp_path, one + f"MODEL        2\n{residue()}{residue(place='A2', x=3.8)}ENDMDL\n")
    assert "differ in residues: 1 and 2 of them" in refusal(path, models=None)
    path = write(tmp_path, one + f"MODEL        2\n{atom('O', 'HOH', het=True)}ENDMDL\n")
    assert "holds no protein residue in model 2" in refusal(path, models=[2])


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
    codes = [gemmi.expand_one_letter(letter, gemmi.ResidueKind.AA) for letter in PROTEIN.letters]
    assert "".join(one_letter(code or "") for code in codes) == PROTEIN.letters


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


def test_text_that_is_not_ascii_keeps_its_columns(tmp_path: Path):
    (tmp_path / "a.pdb").write_bytes(
        b"REMARK \xc3\xa9\xff\n" + residue(x=5).replace("  0.00 ", "  0.00\u00e5").encode("latin-1")
    )
    [structure] = read_structure(tmp_path / "a.pdb")
    assert (structure.labels, x_of(structure, 0, "N")) == (("A1",), 5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["pdb", "cif"]), st.lists(st.tuples(st.integers(0, 600), st.binary(max_size=3)), max_size=5))
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, kind: str, damages: list[tuple[int, bytes]]):
    text = residue("SER") + side_chain("A", 0.4, 10) + side_chain("B", 0.6, 20)
    data = text.encode() if kind == "pdb" else f"{CIF}ATOM 7 C CA . GLY A 1 1 1.0 2.0 3.0\n".encode()
    for place, new in damages:
        data = data[:place] + new + data[place + 1 :]
    (tmp_path / f"a.{kind}").write_bytes(data)
    try:
        assert len(read_structure(tmp_path / f"a.{kind}"))
    except InputError as error:
        refused = str(error)
    else:
        return
    assert "\n" not in refused
