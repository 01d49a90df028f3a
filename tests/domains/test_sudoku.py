"""Sudoku: geometry, text, solver and generator of boards; training and filling on a tiny network."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqdiff.core.errors import InputError
from seqdiff.domains.sudoku.board import BOX, COLUMN, LETTERS, RELATIONS, ROW, Board
from seqdiff.domains.sudoku.formats import format_grid, format_line, parse_board, read_boards, write_boards
from seqdiff.domains.sudoku.generate import (
    apply_symmetry,
    make_puzzle,
    pattern_grid,
    random_grid,
    random_symmetry,
)
from seqdiff.domains.sudoku.solve import place_singles, solutions
from seqdiff.experiments.settings import read_settings
from seqdiff.experiments.sudoku.data import PuzzleBatches, make_puzzles
from seqdiff.experiments.sudoku.evaluate import fill, generated, graded
from seqdiff.experiments.sudoku.train import Settings as TrainSettings
from seqdiff.experiments.sudoku.train import train
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model, model_notes
from seqdiff.sampling.planners import Confidence

SIZES = (4, 6, 9, 16)
EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
DATA = Path(__file__).parents[3] / "shared" / "data" / "sudoku" / "sudoku_graded.tsv"


@pytest.mark.parametrize("size", SIZES)
def test_units_and_relations_agree(size: int):
    board = Board(size)
    assert len(board.units) == 3 * size
    assert all(len(set(unit)) == size for unit in board.units)
    assert board.alphabet.letters == LETTERS[:size]
    expected = np.zeros((board.cells, board.cells), np.int32)
    for bit, kind in ((ROW, 0), (COLUMN, 1), (BOX, 2)):
        for unit in board.units[kind * size : (kind + 1) * size]:
            expected[np.ix_(unit, unit)] += bit
    np.testing.assert_array_equal(board.relations(), expected)
    assert expected.max() == RELATIONS - 1
    assert (np.diag(expected) == ROW + COLUMN + BOX).all()
    high, wide = board.box
    assert {len(peers) for peers in board.peers} == {3 * (size - 1) - (high - 1) - (wide - 1)}


def test_relations_are_zero_beyond_the_cells():
    padded = Board(4).relations(20)
    np.testing.assert_array_equal(padded[:16, :16], Board(4).relations())
    assert not padded[16:].any()
    assert not padded[:, 16:].any()


def test_other_sizes_are_refused():
    with pytest.raises(InputError, match="size=8: Sudoku boards here have 4, 6, 9, 16 rows"):
        Board(8)


@pytest.mark.parametrize("size", SIZES)
@given(data=st.data())
@settings(deadline=None, max_examples=20)
def test_text_round_trip(size: int, data: st.DataObject):
    board = Board(size)
    holes = data.draw(st.lists(st.booleans(), min_size=board.cells, max_size=board.cells))
    canvas = np.where(holes, size, pattern_grid(board)).astype(np.int32)
    for text in (format_line(board, canvas), format_grid(board, canvas), format_grid(board, canvas).lower()):
        found, read = parse_board(text)
        assert found == board
        np.testing.assert_array_equal(read, canvas)


@pytest.mark.parametrize(
    "text",
    [
        EASY.replace(".", "0"),
        EASY.replace(".", "_"),
        "\n".join(f"|{EASY[9 * row : 9 * row + 9]}|" + ("\n+---+---+---+" if row % 3 == 2 else "") for row in range(9)),
    ],
)
def test_ways_to_write_a_board(text: str):
    board, canvas = parse_board(text)
    assert format_line(board, canvas) == EASY


def test_grid_as_written():
    rows = ["1 . | 3 .", ". 4 | 1 2", "----+----", ". . | . .", ". . | . ."]
    assert format_grid(*parse_board("1.3..412........", 4)).splitlines() == rows


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [
        ("1" * 80, None, "80 cells; a board has 16, 36, 81, 256"),
        (EASY, 4, "81 cells; a board of size 4 has 16"),
        (EASY.replace("8", "X", 1), None, "'X' at row 3 column 3 is neither a letter"),
        ("5" + EASY[1:4] + "5" + EASY[5:], None, "5 stands twice in row 1, at row 1 column 1 and row 1 column 5"),
        ("....1...........1...", 4, "20 cells"),
        ("1...1...........", 4, "1 stands twice in column 1, at row 1 column 1 and row 2 column 1, and 0"),
        ("1....1..........", 4, "1 stands twice in box 1, at row 1 column 1 and row 2 column 2"),
    ],
)
def test_refusals_name_the_cells(text: str, size: int | None, words: str):
    with pytest.raises(InputError) as caught:
        parse_board(text, size)
    assert words.removesuffix(", and 0") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files(tmp_path: Path):
    path = tmp_path / "boards.txt"
    nine = Board(9)
    canvases = np.stack([parse_board(text)[1] for text in (EASY, SOLVED)])
    write_boards(path, nine, canvases)
    board, read = read_boards(path)
    assert board == nine
    np.testing.assert_array_equal(read, canvases)
    path.write_text("# two grids\n\n" + "\n\n".join(format_grid(nine, canvas) for canvas in canvases))
    np.testing.assert_array_equal(read_boards(path)[1], canvases)
    path.write_text(("." * 16 + "\n") * 16)
    assert read_boards(path, 4)[1].shape == (16, 16)
    assert read_boards(path, 16)[1].shape == (1, 256)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{EASY}\n{EASY[:-1]}\n", "boards.txt, line 2: 80 cells"),
        (f"# two\n{EASY}\n\n55{EASY[2:]}\n", "boards.txt, line 4: 5 stands twice in row 1"),
        (f"{EASY}\n{'.' * 16}\n", "boards.txt, line 2: a board of size 4 after one of size 9"),
        (EASY[:9] + "\n" + EASY[9:17] + "\n" + EASY[:9], "boards.txt, line 1: 26 cells"),
        ("." * 16 + "\n" + "." * 15, "boards.txt, line 2: 15 cells"),
        ("# none\n", "boards.txt holds no board"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, words: str):
    path = tmp_path / "boards.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_boards(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        read_boards(tmp_path / "absent.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a text file"):
        read_boards(tmp_path / "binary")


def test_solver_counts_the_4x4_grids():
    board = Board(4)
    found = solutions(board, [4] * 16, limit=1000)
    assert len({tuple(grid.tolist()) for grid in found}) == len(found) == 288  # OEIS A107739
    assert board.holds(np.stack(found)).all()


def test_solver_on_clues():
    board, canvas = parse_board(EASY)
    (only,) = solutions(board, canvas.tolist())
    assert format_line(board, only) == SOLVED
    assert format_line(board, place_singles(board, canvas.tolist())) == SOLVED
    wrong = canvas.copy()
    wrong[2] = 0  # no clash with a clue, but no completion
    assert not board.clashes(wrong)
    assert solutions(board, wrong.tolist()) == []


@pytest.mark.parametrize("size", SIZES)
def test_symmetries_keep_grids_and_puzzles_move_along(size: int):
    board, rng = Board(size), np.random.default_rng(size)
    seeds = np.stack([pattern_grid(board), random_grid(board, rng)] * 3)
    assert board.holds(seeds).all()
    cells, letters = random_symmetry(board, rng, len(seeds))
    grids = apply_symmetry(seeds, cells, letters)
    assert board.holds(grids).all()
    assert len(np.unique(grids, axis=0)) > len(grids) // 2  # of the 288 grids of 4x4 some come twice
    holes = rng.random(seeds.shape) < 0.4
    puzzles = apply_symmetry(np.where(holes, size, seeds).astype(np.int32), cells, letters)
    assert ((puzzles == grids) | (puzzles == size)).all()
    assert ((puzzles == size).sum(axis=1) == holes.sum(axis=1)).all()


@pytest.mark.parametrize("clues", [34, 27])
def test_puzzles_have_one_solution(clues: int):
    board, rng = Board(9), np.random.default_rng(5)
    grid = random_grid(board, rng)
    puzzle = make_puzzle(board, grid, clues, rng)
    assert (puzzle < 9).sum() == clues
    (only,) = solutions(board, puzzle.tolist(), limit=3)
    np.testing.assert_array_equal(only, grid)


@pytest.mark.skipif(not DATA.exists(), reason="no shared data beside the checkout")
def test_singles_agree_with_the_published_grades():
    rows = [line.split("\t") for line in DATA.read_text().splitlines()]
    names = rows[0]
    for row in rows[1:4000:60]:
        record = dict(zip(names, row, strict=True))
        board, canvas = parse_board(record["puzzle"])
        done = place_singles(board, canvas.tolist())
        assert bool((done < 9).all()) == (record["guesses"] == "0"), record["id"]
        assert [format_line(board, found) for found in solutions(board, canvas.tolist())] == [record["solution"]]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of a few weights after three steps, in two invocations."""
    out = tmp_path_factory.mktemp("run")
    tiny = TrainSettings(out=str(out), width=12, loops=2, heads=3, hidden=16, puzzles=5, batch=8, steps=3)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an int power
        train(tiny._replace(stop_at=2))
        return train(tiny)


def test_training_resumes_and_writes_a_model(tiny_run: Path):
    notes = model_notes(tiny_run)
    assert notes["steps"] == 3
    assert notes["rows"] == 24
    steps = [line.split(",")[0] for line in (tiny_run.parent / "log.csv").read_text().splitlines()]
    assert steps == ["step", "2", "3"]


def test_filling_keeps_clues_and_rows_do_not_depend_on_the_batch(tiny_run: Path):
    board = Board(9)
    denoiser = load_model(tiny_run, board.alphabet)
    assert isinstance(denoiser, NetworkDenoiser)
    puzzles = generated(board, 34, 3, seed=0)
    found = [fill(denoiser, board, puzzles, Confidence(), steps=2, batch=batch) for batch in (2, 3)]
    np.testing.assert_array_equal(found[0].grids, found[1].grids)
    assert found[0].kept == 1.0
    assert (found[0].grids < 9).all()
    assert (found[0].calls == 2).all()
    assert not found[0].exact.any()


def test_batches_hold_grids_and_their_puzzles():
    board = Board(9)
    batches = PuzzleBatches(board, make_puzzles(board, 3, seed=0), 16, seed=2)
    first, again = batches[4], batches[4]
    np.testing.assert_array_equal(first, again)
    grids, given_letters = first[:, 0], first[:, 1]
    assert board.holds(grids).all()
    assert ((given_letters == grids) | (given_letters == 9)).all()
    clues = (given_letters < 9).sum(axis=1)
    assert (clues[::8] == 0).all()
    assert (np.delete(clues, [0, 8]) >= 22).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["width"], "'width' is no setting"),
        (["widht=3"], "unknown setting 'widht'; did you mean 'width'?"),
        (["width=wide"], "width=wide: width should be a value like 96"),
    ],
)
def test_settings_that_are_refused(words: list[str], message: str):
    with pytest.raises(InputError) as caught:
        read_settings(TrainSettings(), words)
    assert message in str(caught.value)


def test_tables_that_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        graded(str(tmp_path / "absent.tsv"), Board(9), 1)
    (tmp_path / "a.tsv").write_text("source\tsplit\nx\ttest\n")
    with pytest.raises(InputError, match="no column 'puzzle'"):
        graded(str(tmp_path / "a.tsv"), Board(9), 1)
