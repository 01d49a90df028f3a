"""Pictures and numbers about designs: what they hold, what they refuse; no model is called."""

import sys

import numpy as np
import pytest

from seqdiff.core.errors import InputError, MissingExtraError
from seqdiff.request import views
from seqdiff.request.designs import Design, Designs
from seqdiff.request.picture import places, to_svg
from seqdiff.request.spec import DesignSpec
from seqdiff.request.views.diversity import diversity
from seqdiff.request.views.reference import Reference, identical, nearest, words
from seqdiff.request.views.sequences import committed, information
from seqdiff.request.views.structure import to_pdb

matplotlib = pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")


def made(sequences: list[str], given: int = 1, **keys) -> Designs:
    """Designs as a run would make them: the first ``given`` positions given, the others committed one per call."""
    spec = DesignSpec.from_mapping({"length": [min(map(len, sequences)), max(map(len, sequences))]} | keys)
    constraints = spec.all_constraints()
    return Designs(
        spec, constraints, "exact", tuple(_design(i, text, given, constraints) for i, text in enumerate(sequences))
    )


def _design(i: int, text: str, given: int, constraints) -> Design:
    order = np.r_[np.full(given, -1), np.arange(len(text) - given)]
    log_p = np.where(order >= 0, -1.0 - 0.1 * i, 0.0)
    verdicts = tuple(constraint.holds(text) for constraint in constraints)
    return Design(f"design_{i:04d}", i, text, log_p, order, len(text) - given, -2.0, verdicts)


TEXTS = ["MKTAYIAKQRLE", "MKTAYIAKQRLD", "MRTAYLAKQRLE", "MKTWYIAKQRLE"]


def test_the_logo_measures_information_and_leaves_out_the_ragged_end():
    heights = information(["AC", "AD", "A"], "ACD")
    np.testing.assert_allclose(heights[0], [np.log2(3), 0, 0])
    np.testing.assert_allclose(heights[1], [0, (np.log2(3) - 1) / 2, (np.log2(3) - 1) / 2])
    figure = made([*TEXTS, TEXTS[0] + "GGGG"]).logo()
    assert [axis.get_xlim() for axis in figure.axes] == [(0.4, 12.6)]
    assert len(figure.axes[0].patches) == len(set("".join(TEXTS)))
    with pytest.raises(InputError, match="no position from 14 to 12"):
        made(TEXTS).logo(14, 20)


def test_glyphs_of_a_logo_stand_on_one_another():
    figure = made(["AC", "AD", "AD", "AD"], given=0).logo()
    boxes = [patch.get_path().get_extents() for patch in figure.axes[0].patches]
    heights = information(["AC", "AD", "AD", "AD"], "ACDEFGHIKLMNPQRSTVWY")
    a, c, d = heights[0, 0], heights[1, 1], heights[1, 2]
    expected = [(0, a), (0, c), (c, c + d)]
    np.testing.assert_allclose([(box.y0, box.y1) for box in boxes], expected, atol=1e-6)


def test_order_and_surprise_speak_of_designed_positions_only():
    designs = made(TEXTS, given=3)
    call, nats = committed(designs.designs)
    assert call.min() == 1
    assert call.max() == 9
    assert nats.min() == pytest.approx(1.0)
    drawn = designs.order_map().axes[0].images[1].get_array()
    assert drawn is not None
    assert np.ma.getmaskarray(drawn)[:, :3].all()
    assert _heights(designs.entropy_trace().axes[1]) == [1.0] * 9
    for draw in (Designs.order_map, Designs.entropy_trace):
        with pytest.raises(InputError, match="there is no"):
            draw(made(TEXTS, given=12))


def test_histograms_show_what_differs_and_the_reference(tmp_path):
    fasta = tmp_path / "known$1$.fasta"
    fasta.write_text(">one <script>\nMKTAYIAKQRLEDDKK\n>two\nMXX\n>three\nGGGGGGGAAAA\n")
    figure = made(TEXTS).histograms(fasta)
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_visible()]
    assert titles[0] == "length"
    assert titles[-1] == "composition (%)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["designs", r"known\$1\$.fasta"]
    assert views.read_reference(fasta).skipped == 1
    with pytest.raises(InputError, match="domain graph"):
        _graphs().histograms(fasta)


def _heights(axis) -> list[float]:
    return [bar.get_height() for bar in axis.patches]


def _graphs() -> Designs:
    spec = DesignSpec.from_mapping({"domain": "graph", "nodes": 4})
    return Designs(spec, (), "exact", tuple(_design(i, text, 0, ()) for i, text in enumerate(["111000", "110110"])))


def test_graphs_have_drawings_and_degrees():
    designs = _graphs()
    assert "<circle" in designs.drawings()
    assert designs.drawings()._repr_svg_() == designs.drawings()
    assert sum(_heights(views.degrees(designs).axes[0])) == 4
    with pytest.raises(InputError, match="drawings"):
        designs.logo()
    with pytest.raises(InputError, match="no structure"):
        designs.view3d()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no fasta", "no FASTA record"),
        (b">a\nMXX\n", "none of its 1 records"),
        (b"\xff\xfe\x00", "not a text file"),
        (None, "cannot be read"),
    ],
)
def test_references_that_cannot_be_used_are_refused_in_a_line(tmp_path, content, message):
    path = tmp_path / "known.fasta"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        views.read_reference(path)
    assert "\n" not in str(caught.value)


def test_the_nearest_known_sequence_is_the_one_that_aligns_best():
    rng = np.random.default_rng(0)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    known = ["".join(rng.choice(letters, 60)) for _ in range(50)]
    mutant = known[17][:30] + "W" + known[17][31:]
    found = nearest([mutant, "CCC"], Reference("known", tuple(f"k{i}" for i in range(50)), tuple(known)))
    assert found[0] == ("k17", 59 / 60 if known[17][30] != "W" else 1.0)
    assert found[1].name == ""
    assert np.isnan(found[1].identity)


def test_words_are_those_that_a_loop_finds():
    texts = ["MKTAYMKTAY", "AAAAAA", "MK", "KTAY"]
    wanted = [{text[i : i + 4] for i in range(len(text) - 3)} for text in texts]
    shared = (words(texts) @ words(texts).T).toarray()
    assert shared.tolist() == [[len(a & b) for b in wanted] for a in wanted]


def test_diversity_counts_what_was_designed():
    found = diversity(made(TEXTS, given=6))
    assert found.measure == "of the 6 designed positions"
    assert found.distinct == 4
    assert found.identity[0].tolist() == pytest.approx([1, 5 / 6, 1, 1])
    assert [found.clusters(level) for level in (0.99, 0.5)] == [2, 1]
    mixed = diversity(made(["MKTAYIAKQR", "MKTAYIAKQRLE", "GGGGWWWWGGG"]))
    assert mixed.identity[0, 1] == 1.0
    assert identical("", "MK") == 0
    assert views.draw_diversity(mixed).axes


def test_score_against_calls_of_several_runs():
    runs = {"a": made(TEXTS), "_b$": made(TEXTS, given=6)}
    figure = views.score_against_nfe(runs)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", r" _b\$"]
    with pytest.raises(InputError, match="scored"):
        views.score_against_nfe({"a": made(TEXTS, given=12)})


@pytest.fixture(scope="module")
def on_structure(tmp_path_factory: pytest.TempPathFactory) -> Designs:
    path = tmp_path_factory.mktemp("structure") / "helix.pdb"
    lines, serial = [], 0
    for i in range(6):
        for name, dx in (("N", 0.0), ("CA", 0.5), ("C", 1.0), ("O", 1.2)):
            serial += 1
            x, y, z = 3.0 * np.cos(i + dx), 3.0 * np.sin(i + dx), 1.5 * i + dx
            place = f"{'A' if i < 4 else 'B'}{i + 1:4d} "
            lines.append(
                f"ATOM  {serial:5d}  {name:<3s} ALA {place}   {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00           {name[0]}"
            )
    path.write_text("\n".join([*lines, "END", ""]))
    keys = {"model": "proteinmpnn", "structure": {"file": str(path), "design": ["A"]}}
    spec = DesignSpec.from_mapping(keys)
    return Designs(spec, (), "exact", (_design(0, "WKLM", 1, ()),))


def test_designs_on_their_structure(on_structure, tmp_path):
    gemmi = pytest.importorskip("gemmi")
    (tmp_path / "d.pdb").write_text(to_pdb(on_structure))
    model = gemmi.read_structure(str(tmp_path / "d.pdb"))[0]
    assert [residue.name for residue in model["A"]] == ["TRP", "LYS", "LEU", "MET"]
    assert [residue.name for residue in model["B"]] == ["ALA", "ALA"]
    factors = [residue["CA"][0].b_iso for chain in model for residue in chain]
    assert factors == pytest.approx([-1, *[np.exp(-1)] * 3, -1, -1], abs=0.01)
    assert views.trace(on_structure).axes
    with pytest.raises(InputError, match="no design 3"):
        on_structure.view3d(3)
    pytest.importorskip("py3Dmol", reason="the extra 'plots' is not installed")
    assert "TRP" in on_structure.view3d()._make_html()


def test_without_the_extra_the_error_names_it(monkeypatch, on_structure):
    monkeypatch.setitem(sys.modules, "py3Dmol", None)
    monkeypatch.delitem(sys.modules, "seqdiff.request.views.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (on_structure.view3d, on_structure.entropy_trace):
        with pytest.raises(MissingExtraError, match=r"pip install 'seqdiff\[plots\]'"):
            draw()


def test_a_figure_shows_itself_and_is_the_same_each_time():
    from seqdiff.request.views.figure import to_uri

    figure = made(TEXTS).entropy_trace()
    assert to_uri(figure) == to_uri(made(TEXTS).entropy_trace())
    assert figure._repr_png_().startswith(b"\x89PNG")  # pyright: ignore[reportAttributeAccessIssue]


def test_rows_mark_where_constraints_are():
    designs = made(
        TEXTS,
        constraints=[
            {"fixed": {1: "M"}},
            {"forbid": {"letters": "C", "positions": "3-5,8"}},
            {"count": {"letters": "K", "max": 3, "region": "6-end"}},
            {"run": {"max": 3}},
            {"pattern": {"regex": "AY"}},
        ],
    )
    assert [places(constraint, 12) for constraint in designs.constraints] == [
        [(1, 1)],
        [(3, 5), (8, 8)],
        [(6, 12)],
        [],
        [],
    ]
    svg = to_svg(designs)
    assert svg.count("<title>") == 3
    assert svg.count('rx="2"') == 3  # AY is in three of the four
