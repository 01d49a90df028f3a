"""Likelihood of held-out graphs under a network over pairs of nodes, beside what counting makes of the same canvases.

    python -m seqdiff.experiments.graphs.evaluate model=runs/community/model data=community20_all.g6 hold_out=5

Each graph is shown ``repeats`` times, relabelled at random and with another share of its pairs hidden each time. The
mean cross-entropy over the hidden pairs, averaged over evenly spread shares, is the any-order bound on the negative
log-likelihood of the labelled graph, per pair (Hoogeboom et al. 2022); times the number of pairs it is per graph.

The baselines are logistic regressions on counts, fitted to hidden pairs of the training graphs: the share of edges
among the known pairs; that and the two nodes' own shares (degrees); all that and the known common neighbours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from seqdiff.core.errors import InputError
from seqdiff.experiments.graphs.data import LAWS, SIZED, GraphBatches, file_graphs, from_law, from_pool, relabelled
from seqdiff.experiments.settings import read_settings, run_main
from seqdiff.models.grid.denoiser import GridDenoiser
from seqdiff.models.store import load_model

BASELINES = {"density": 2, "degrees": 3, "common neighbours": 4}
"""Baselines by how many of the columns of :func:`counts` they read."""


class Settings(NamedTuple):
    """What to measure; every field may be set on the command line as ``field=value``.

    Attributes:
        model: folder or name.
        data: graph files or a law, as for training.
        hold_out: which graphs of the files were held out; 0 if all of them were.
        train: files that the baselines are fitted to where ``hold_out`` is 0; the file itself otherwise.
        low: fewest nodes of a law that has a size.
        high: most nodes of a law that has a size.
        most: larger graphs are left out.
        graphs: how many to draw of a law.
        repeats: canvases per graph.
        batch: rows at once.
        seed: of labels, hidden pairs and fresh graphs.
    """

    model: str = "community-small"
    data: str = "community"
    hold_out: int = 0
    train: str = ""
    low: int = 12
    high: int = 20
    most: int = 128
    graphs: int = 200
    repeats: int = 20
    batch: int = 32
    seed: int = 1000


class Hidden(NamedTuple):
    """Canvases with some pairs hidden.

    Attributes:
        tokens: complete, PAD beyond a row's length.
        hidden: which positions are hidden.
    """

    tokens: Int[np.ndarray, "N L"]
    hidden: Bool[np.ndarray, "N L"]

    @property
    def shares(self) -> Float[np.ndarray, "N"]:
        """Share of each row's pairs that are hidden."""
        return self.hidden.sum(axis=1) / (self.tokens < 2).sum(axis=1)


def hide(batches: GraphBatches, graphs: Sequence[np.ndarray], repeats: int, seed: int) -> Hidden:
    """``repeats`` canvases of each graph in a row, with the shares of hidden pairs evenly spread."""
    rng = np.random.default_rng(seed)
    nodes = max(map(len, graphs))
    rows = [relabelled(rng, graph) for graph in graphs for _ in range(repeats)]
    tokens = batches.canvases(rows, nodes)
    length = (tokens < 2).sum(axis=1)
    strata = (np.tile(np.arange(repeats), len(graphs)) + rng.random(len(rows))) / repeats
    count = np.clip(np.ceil(strata * length), 1, length)
    noise = np.where(tokens < 2, rng.random(tokens.shape), 2.0)
    rank = noise.argsort(axis=1).argsort(axis=1)
    return Hidden(tokens, rank < count[:, None])


def mean_nats(probability: Float[np.ndarray, "N L"], data: Hidden) -> Float[np.ndarray, "N"]:
    """Mean cross-entropy over the hidden pairs of each row, for a probability of an edge at every position."""
    p = np.clip(probability.astype(np.float64), 1e-7, 1 - 1e-7)
    nats = -np.log(np.where(data.tokens == 1, p, 1 - p))
    return (nats * data.hidden).sum(axis=1) / data.hidden.sum(axis=1)


def predict(model: GridDenoiser, batches: GraphBatches, data: Hidden, batch: int) -> Float[np.ndarray, "N L"]:
    """Probability of an edge at every position under the network."""
    rows, length = data.tokens.shape
    conditions = {"slots": jnp.asarray(batches.grid.slots[:length])}
    call = jax.jit(lambda net, canvas, valid: jax.nn.softmax(net(canvas, valid, jnp.ones(batch), conditions))[..., 1])
    canvas = np.where(data.hidden, model.alphabet.mask, data.tokens)
    padded = np.concatenate([canvas, np.repeat(canvas[-1:], -rows % batch, axis=0)])
    found = [np.asarray(call(model, part, part != model.alphabet.pad)) for part in padded.reshape(-1, batch, length)]
    return np.concatenate(found)[:rows]


def counts(batches: GraphBatches, data: Hidden) -> Float[np.ndarray, "N L F"]:
    """One, log-odds of the row's density, excess log-odds of the two nodes, common neighbours as a share."""
    first, second = batches.grid.slots[: data.tokens.shape[1]].T
    nodes = 1 + int(second.max())
    known = ((data.tokens < 2) & ~data.hidden).astype(np.float64)

    def grid(values: np.ndarray) -> np.ndarray:
        matrix = np.zeros((len(values), nodes, nodes))
        matrix[:, first, second] = matrix[:, second, first] = values
        return matrix

    seen, edge = grid(known), grid(known * (data.tokens == 1))
    prior = edge.sum() / seen.sum()
    density = ((edge.sum(axis=(1, 2)) + 2 * prior) / (seen.sum(axis=(1, 2)) + 2))[:, None]
    own = (edge.sum(axis=2) + 2 * density) / (seen.sum(axis=2) + 2)
    excess = _log_odds(own) - _log_odds(density)
    common = (edge @ edge) / np.maximum(seen @ seen, 1.0)
    columns = [np.ones(data.tokens.shape), np.broadcast_to(_log_odds(density), data.tokens.shape)]
    columns += [excess[:, first] + excess[:, second], common[:, first, second]]
    return np.stack(columns, axis=-1)


def fit_baseline(features: Float[np.ndarray, "N L F"], data: Hidden) -> Float[np.ndarray, "F"]:
    """Weights of a logistic regression on hidden pairs, by Newton's method with a small ridge.

    Each pair weighs as in :func:`mean_nats`, so that the fit minimises what is measured.
    """
    x, y = features[data.hidden], (data.tokens == 1)[data.hidden].astype(np.float64)
    weight = np.broadcast_to(1 / data.hidden.sum(axis=1, keepdims=True), data.hidden.shape)[data.hidden]
    found = np.zeros(x.shape[1])
    for _ in range(25):
        p = _sigmoid(x @ found)
        slope = x.T @ (weight * (p - y)) + 1e-6 * found
        curve = (x * (weight * p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(len(found))
        found -= np.linalg.solve(curve, slope)
    return found


def evaluate(settings: Settings) -> list[str]:
    """Lines of a Markdown table: nats per graph and per pair with standard errors, and per pair by hidden share.

    Raises:
        InputError: a file or model cannot be used.
    """
    test, train = _graphs(settings)
    batches = GraphBatches(from_pool(test), batch=settings.batch, multiple=1, seed=settings.seed)
    model = load_model(settings.model, batches.alphabet)
    if not isinstance(model, GridDenoiser):
        raise InputError(f"model={settings.model} is no model of graphs")
    data = hide(batches, test, settings.repeats, settings.seed)
    fitted = hide(batches, train, settings.repeats, settings.seed + 1)
    nats = {"network": mean_nats(predict(model, batches, data, settings.batch), data)}
    features, train_features = counts(batches, data), counts(batches, fitted)
    for name, width in BASELINES.items():
        weights = fit_baseline(train_features[..., :width], fitted)
        nats[name] = mean_nats(_sigmoid(features[..., :width] @ weights), data)
    pairs = np.array([len(graph) * (len(graph) - 1) / 2 for graph in test])
    fifths = [np.floor_divide(10 * np.minimum(data.shares, 0.999), 2).astype(int) == bin for bin in range(5)]
    lines = ["| | nats per graph | per pair | 0-20 % hidden | 20-40 | 40-60 | 60-80 | 80-100 |", "| --- " * 8 + "|"]
    for name, values in nats.items():
        mean = values.reshape(len(test), -1).mean(axis=1)
        error = (pairs * mean).std(ddof=1) / np.sqrt(len(test)) if len(test) > 1 else np.nan
        shown = " | ".join(f"{values[rows].mean():.4f}" for rows in fifths)
        lines.append(f"| {name} | {(pairs * mean).mean():.2f} ± {error:.2f} | {mean.mean():.4f} | {shown} |")
    return lines


def _graphs(settings: Settings) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Graphs to measure on, and graphs to fit the baselines to."""
    if settings.data in SIZED or settings.data in LAWS:
        draw = from_law(settings.data, settings.low, settings.high, settings.most)
        rngs = [np.random.default_rng([settings.seed, part]) for part in range(2)]
        test, train = ([draw(rng) for _ in range(settings.graphs)] for rng in rngs)
        return test, train
    if not settings.hold_out and not settings.train:
        raise InputError("set hold_out as in training, or train to the files that the baselines are fitted to")
    test = file_graphs(settings.data, most=settings.most, hold_out=settings.hold_out, held=settings.hold_out > 0)
    if settings.train:
        return test, file_graphs(settings.train, most=settings.most, hold_out=0, held=False)
    return test, file_graphs(settings.data, most=settings.most, hold_out=settings.hold_out, held=False)


def _log_odds(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(p / (1 - p))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def main(words: Sequence[str]) -> None:
    """Read ``field=value`` words and measure."""
    print("\n".join(evaluate(read_settings(Settings(), words))))


if __name__ == "__main__":
    run_main(main)
