# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Graphs and Sudoku
#
# *A generative model has learnt what my objects look like. Has it learnt the rules? And if not, can the rules be imposed without retraining?*
#
# Everything that seqdiff does for proteins it does for other discrete objects. Two where the rules are easy to check: planar graphs, whose
# positions are pairs of nodes, and Sudoku, whose positions are cells. Both models come with seqdiff; neither was told the rules.

# %% [markdown]
# ## Planar graphs: the model alone
#
# `planar-small` was trained on Delaunay triangulations. Twelve graphs of 16 nodes, and how many can be drawn without crossing edges:

# %%
import networkx as nx

import seqdiff

request = {
    "domain": "graph",
    "model": "planar-small",
    "nodes": 16,
    "n": 12,
    "sampling": {"planner": "random", "steps": 8},
}
alone = seqdiff.design(request)


def planar_and_connected(graph: nx.Graph) -> bool:
    return nx.check_planarity(graph)[0] and nx.is_connected(graph)


good_alone = sum(map(planar_and_connected, alone.objects))
print(f"alone: {good_alone} of {len(alone)} are planar and connected")

# %% [markdown]
# ## The same model under the rules
#
# Each edge is vetted when it is committed, so that the graph can always be completed. `designs.objects` are `networkx` graphs.

# %%
designs = seqdiff.design(request, constraints=[{"planar": {}}, {"connected": {}}])
good = sum(map(planar_and_connected, designs.objects))
print(f"with the constraints: {good} of {len(designs)}")
designs

# %% [markdown]
# Validity under a constraint is by construction, so it is no achievement of the model. What the model contributes is what planar graphs of this
# kind look like. Triangulations are full of triangles; graphs drawn under the rules without a model are planar too, but of another kind.

# %%
from seqdiff.request.views import degrees

ruled = seqdiff.design(request, model="uniform", constraints=[{"planar": {}}, {"connected": {}}])
for name, found in {"model alone": alone, "model and rules": designs, "rules alone": ruled}.items():
    edges = sum(graph.number_of_edges() for graph in found.objects) / len(found)
    triangles = sum(sum(nx.triangles(graph).values()) / 3 for graph in found.objects) / len(found)
    print(f"{name:<17}{edges:.1f} edges and {triangles:.1f} triangles on average")

# %%
degrees(designs)

# %% [markdown]
# ## Sudoku: the model alone
#
# A board with several solutions: 26 clues, no rule enforced. `sudoku-small` fills eight copies of it, several cells at a call. A board is valid
# if every row, column and box holds each digit once.

# %%
import numpy as np

from seqdiff.domains.sudoku.board import Board
from seqdiff.domains.sudoku.formats import parse_board
from seqdiff.experiments.sudoku.evaluate import Puzzles, fill
from seqdiff.models.store import load_model
from seqdiff.sampling.planners import Random

clues = "53..7....6..1.5....98....6.8...6...34..8....17...2...6.6....28....4.9..5....8...9"
board = Board(9)
model = load_model("sudoku-small", board.alphabet)
canvas = np.tile(parse_board(clues, 9, where="clues")[1], (8, 1))
filled = fill(model, board, Puzzles(canvas, canvas), Random(), steps=8)
print(f"alone: {filled.valid.sum()} of {len(filled.valid)} boards are valid")

# %% [markdown]
# ## The same model under the rules
#
# In the domain `sudoku` the rules of the game are always on. Clues are bold on grey in the drawing.

# %%
boards = seqdiff.design(
    domain="sudoku", clues=clues, model="sudoku-small", n=8, sampling={"planner": "random", "steps": 8}
)
boards.drawings()

# %%
print(f"with the rules: {boards.satisfied} of {len(boards)} are valid, {len(set(boards.sequences))} of them different")

# %% [markdown]
# ## The promise

# %%
digits = set(range(1, 10))
for array in boards.objects:  # 9 x 9 arrays of digits
    boxes = array.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    assert all(set(unit.tolist()) == digits for unit in (*array, *array.T, *boxes))
assert good == len(designs) == 12
assert boards.satisfied == len(boards) == 8
assert good_alone < len(alone)
assert filled.valid.sum() < 8
