"""Training on graphs: what batches hold, that a run resumes exactly, that the baselines count."""

from pathlib import Path

import jax
import networkx as nx
import numpy as np
import pytest

from seqdiff.core.errors import InputError
from seqdiff.domains.graph.files import write_graphs
from seqdiff.experiments.graphs.data import GraphBatches, file_graphs, from_law, from_pool
from seqdiff.experiments.graphs.evaluate import Settings as Measure
from seqdiff.experiments.graphs.evaluate import counts, evaluate, fit_baseline, hide, mean_nats
from seqdiff.experiments.graphs.train import Settings, train
from seqdiff.models.store import flatten, load_model

TINY = Settings(
    data="tree", low=4, high=6, width=8, depth=1, heads=2, hidden=8, channels=4, optimizer="adamw", batch=4, steps=4
)


def batches(data: str = "planar", low: int = 5, high: int = 9, multiple: int = 4) -> GraphBatches:
    """Small batches of fresh graphs."""
    return GraphBatches(from_law(data, low, high, 128), batch=6, multiple=multiple, seed=3)


def test_batches_are_graphs_of_the_law_by_size():
    found = batches()
    sizes: set[int] = set()
    for index in range(4):
        tokens = found[index]
        np.testing.assert_array_equal(tokens, found[index])
        assert tokens.shape[1] in (28, 66)
        for row in tokens:
            graph = nx.Graph(
                [tuple(slot) for slot, token in zip(found.grid.slots.tolist(), row, strict=False) if token == 1]
            )
            assert nx.check_planarity(graph)[0]
            assert nx.is_connected(graph)
            assert np.sum(row < 2) == len(graph) * (len(graph) - 1) / 2
            sizes.add(len(graph))
    assert sizes == {5, 6, 7, 8, 9}
    assert not np.array_equal(found[0], found[1])


def test_files_and_what_is_held_out(tmp_path: Path):
    write_graphs(tmp_path / "all.g6", [nx.path_graph(nodes) for nodes in range(3, 13)])
    path = str(tmp_path / "all.g6")
    assert [len(g) for g in file_graphs(path, most=10, hold_out=5, held=False)] == [3, 4, 5, 6, 8, 9, 10]
    assert [len(g) for g in file_graphs(path, most=20, hold_out=5, held=True)] == [7, 12]
    with pytest.raises(InputError, match="none of 10 graphs is left"):
        file_graphs(path, most=2, hold_out=0, held=False)
    with pytest.raises(InputError, match="no graph file and no law"):
        from_law("moon", 4, 5, 128)
    with pytest.raises(InputError, match="sizes go from 4"):
        from_law("planar", 3, 5, 128)


@pytest.mark.filterwarnings("ignore")  # orbax warns about its own future
def test_a_run_resumes_exactly(tmp_path: Path):
    alphabet = batches().alphabet
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an int power
        whole = train(TINY._replace(out=str(tmp_path / "whole")))
        train(TINY._replace(out=str(tmp_path / "parts"), stop_at=2))
        parts = train(TINY._replace(out=str(tmp_path / "parts")))
    one, other = (flatten(load_model(folder, alphabet).params) for folder in (whole, parts))
    for name, leaf in one.items():
        np.testing.assert_array_equal(leaf, other[name])
    lines = evaluate(Measure(model=str(whole), data="tree", low=4, high=6, graphs=4, repeats=2, batch=8))
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["network", "density", "degrees", "common neighbours"]


def test_baselines_recover_a_density():
    rng = np.random.default_rng(0)
    pool = [nx.to_numpy_array(nx.gnp_random_graph(8, 0.3, seed=int(rng.integers(1 << 30)))) for _ in range(150)]
    found = GraphBatches(from_pool(pool), batch=1, multiple=1, seed=0)
    data = hide(found, pool, 4, seed=1)
    assert np.all((data.shares > 0) & (data.shares <= 1))
    assert abs(data.shares.mean() - 0.5) < 0.03
    features = counts(found, data)
    entropy = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    for width in (1, 2, 3, 4):
        weights = fit_baseline(features[..., :width], data)
        nats = mean_nats(1 / (1 + np.exp(-features[..., :width] @ weights)), data)
        assert abs(nats.mean() - entropy) < 0.03
