"""The loop with a toy network: skipped steps, signals, damaged checkpoints, what is logged."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqdiff.core.errors import InputError, SeqdiffError
from seqdiff.process.noise import Process
from seqdiff.training.interrupt import TrainingInterrupted
from seqdiff.training.loop import fit
from seqdiff.training.optimizer import learning_rate, make_optimizer
from seqdiff.training.sharding import Layout, make_layout
from seqdiff.training.step import TrainState, init_state, make_step

pytestmark = pytest.mark.filterwarnings("ignore")  # orbax and optax warn about their own future
V, PAD, BAD = 5, 6, 7
"""Letters, padding, and a token that makes the network's output infinite."""


@pytest.fixture(autouse=True)
def optax_promotes_its_counters():
    with jax.numpy_dtype_promotion("standard"):
        yield


def apply(params: Any, tokens: jax.Array, attend: jax.Array, time: jax.Array, previous: jax.Array | None) -> jax.Array:
    seen = params["seen"][jnp.minimum(tokens, V)]
    broken = jnp.any(tokens == BAD, axis=1)[:, None, None]
    return seen * jnp.where(broken, jnp.inf, 1.0)


class Batches:
    """Random letters; the batches ``bad`` hold the token that breaks the network; ``on`` is called before a batch."""

    def __init__(self, bad: tuple[int, ...] = (), on: Callable[[int], None] = lambda index: None):
        self.bad, self.on = bad, on

    def __getitem__(self, index: int, /) -> np.ndarray:
        self.on(index)
        tokens = np.random.default_rng(index).integers(0, V, (4, 6)).astype(np.int32)
        if index in self.bad:
            tokens[1, 2] = BAD
        return tokens


def start(optimizer: optax.GradientTransformation) -> TrainState:
    return init_state({"seen": jnp.zeros((V + 1, V))}, optimizer)


def train(folder: Path, batches: Any, **changes: Any) -> tuple[TrainState, list[dict[str, float]]]:
    optimizer, reports = optax.adam(0.1), []
    step = make_step(
        apply=apply, process=Process(mask=V), optimizer=optimizer, pad=PAD, times=(0.1, 1.0), objective="masked",
        ema_decay=0.9,
    )  # fmt: skip
    options: dict[str, Any] = {
        "steps": 12, "seed": 3, "folder": folder / "checkpoints", "description": {"kind": "toy"}, "report_every": 4,
        "save_every": 3, "report": reports.append, "keep": 3, "max_skipped": 3,
    }  # fmt: skip
    return fit(start(optimizer), step, batches, **options | changes), reports


def assert_same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_a_step_that_is_not_finite_changes_nothing_and_is_kept(tmp_path: Path):
    before, _ = train(tmp_path / "before", Batches(), steps=5)
    state, reports = train(tmp_path / "run", Batches(bad=(5,)), steps=6, report_every=6)
    assert int(state.step) == 6
    for name in ("params", "average", "optimizer"):
        assert_same(getattr(state, name), getattr(before, name))
    assert reports[-1]["skipped"] == 1
    assert np.isfinite([reports[-1][name] for name in ("loss", "grad_norm", "cross_entropy")]).all()
    [file] = (tmp_path / "run" / "skipped").iterdir()
    with np.load(file, allow_pickle=False) as kept:
        np.testing.assert_array_equal(kept["tokens"], Batches(bad=(5,))[5])
        assert file.stem == "5"
        assert kept["step"] == 5
        key = jax.random.fold_in(jax.random.key(3), 5)
        np.testing.assert_array_equal(kept["key"], jax.random.key_data(key))


def test_training_goes_on_after_skipped_steps(tmp_path: Path):
    state, reports = train(tmp_path, Batches(bad=(1, 2, 4, 5, 7)))
    assert [record["skipped"] for record in reports] == [2, 3, 0]
    assert int(state.optimizer[0].count) == 7
    assert np.isfinite(state.params["seen"]).all()
    assert len(list((tmp_path / "skipped").iterdir())) == 5


def test_too_many_skipped_steps_in_a_row_end_the_run(tmp_path: Path):
    # Across two reports, after steps 4 and 8.
    with pytest.raises(InputError, match=r"3 steps in a row, 2 to 4, .*lower optimizer.rate") as caught:
        train(tmp_path, Batches(bad=(2, 3, 4)))
    assert "\n" not in str(caught.value)
    assert {file.stem for file in (tmp_path / "skipped").iterdir()} == {"2", "3", "4"}


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_in_a_checkpoint_of_the_step_reached(tmp_path: Path, name: str):
    whole, _ = train(tmp_path / "whole", Batches())

    def send(index: int) -> None:
        if index == 4:
            os.kill(os.getpid(), signal.Signals[name])

    handler = signal.getsignal(signal.Signals[name])
    with pytest.raises(TrainingInterrupted, match=rf"{name} at step 5 of 12; saved in .*/5; run .* again") as caught:
        train(tmp_path / "cut", Batches(on=send))
    assert isinstance(caught.value, SeqdiffError)
    assert not isinstance(caught.value, InputError)
    assert signal.getsignal(signal.Signals[name]) is handler
    first = []
    state, reports = train(tmp_path / "cut", Batches(on=first.append))
    assert first[0] == 5
    assert_same(state, whole)
    assert reports[-1]["step"] == 12


def test_a_second_signal_acts_at_once(tmp_path: Path):
    def send(index: int) -> None:
        if index == 4:
            os.kill(os.getpid(), signal.SIGINT)
            while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                pass  # two that wait together would be taken as one
            os.kill(os.getpid(), signal.SIGINT)

    # Python has no handler of its own where it was started in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, Batches(on=send))
    finally:
        signal.signal(signal.SIGINT, before)


def _truncate(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    whole, _ = train(tmp_path / "whole", Batches())
    train(tmp_path / "run", Batches(), steps=6)
    folder = tmp_path / "run" / "checkpoints"
    _truncate(folder / "6")
    state, _ = train(tmp_path / "run", Batches())
    assert_same(state, whole)
    [line] = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "checkpoints/6 is damaged" in line
    assert "it is now damaged-6, and training goes on from step 3" in line
    assert {path.name for path in folder.iterdir()} >= {"damaged-6", "6", "9", "12"}


def test_when_all_checkpoints_are_damaged_the_error_says_what_to_do(tmp_path: Path):
    train(tmp_path, Batches(), steps=3)
    _truncate(tmp_path / "checkpoints" / "3")
    with pytest.raises(InputError, match=r"3 is damaged .*; delete that folder to begin anew") as caught:
        train(tmp_path, Batches())
    assert "\n" not in str(caught.value)


def test_half_written_checkpoints_are_not_used(tmp_path: Path):
    whole, _ = train(tmp_path / "whole", Batches())
    train(tmp_path / "run", Batches(), steps=6)
    folder = tmp_path / "run" / "checkpoints"
    # What a killed write leaves: orbax's temporary folder, here with one file of the finished one.
    part = folder / "9.orbax-checkpoint-tmp-1"
    (part / "state").mkdir(parents=True)
    (part / "_CHECKPOINT_METADATA").write_bytes((folder / "6" / "_CHECKPOINT_METADATA").read_bytes())
    state, _ = train(tmp_path / "run", Batches())
    assert_same(state, whole)
    assert not part.exists()


def test_the_last_few_checkpoints_are_kept(tmp_path: Path):
    train(tmp_path, Batches(), keep=2, save_every=2)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"10", "12"}
    with pytest.raises(InputError, match="keep=0"):
        train(tmp_path, Batches(), keep=0)


def test_layouts_are_refused_in_one_line(tmp_path: Path):
    devices = len(jax.devices())
    for options, words in [
        ({"sharding": "fdsp"}, "did you mean 'fsdp'"),
        ({"sharding": "fsdp", "fsdp": devices + 1}, f"does not divide the {devices} devices"),
    ]:
        with pytest.raises(InputError, match=words):
            make_layout(**options)


def test_a_matrix_is_split_along_its_largest_axis_that_divides():
    mesh = jax.sharding.AbstractMesh((1, 4), ("data", "fsdp"))
    layout = Layout(mesh)  # pyright: ignore[reportArgumentType]  # no devices are needed to choose an axis
    shapes = {"wide": (8, 12), "tall": (16, 8), "odd": (16, 18), "vector": (16,), "none": (3, 5), "square": (4, 4)}
    found = layout.of({name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()})
    expected = {
        "wide": (None, "fsdp"), "tall": ("fsdp",), "odd": ("fsdp",), "vector": (), "none": (), "square": ("fsdp",)
    }  # fmt: skip
    assert {name: tuple(sharding.spec) for name, sharding in found.items()} == expected


def test_schedules():
    steps, peak = 100, 0.5
    for schedule in ("stable", "cosine"):
        rate = learning_rate(peak=peak, steps=steps, warmup=10, decay_fraction=0.3, schedule=schedule)
        values = np.array([float(rate(step)) for step in range(steps + 1)])
        np.testing.assert_allclose(values[:11], np.linspace(0, peak, 11), atol=1e-7)
        assert values[-1] == pytest.approx(0, abs=1e-7)
        assert (np.diff(values[10:]) <= 1e-7).all()
        middle = peak if schedule == "stable" else peak * (1 + np.cos(np.pi * 35 / 90)) / 2
        assert values[45] == pytest.approx(middle, rel=1e-5)
    for changes, words in [({"schedule": "cosin"}, "did you mean 'cosine'"), ({"warmup": 100}, "leaves none")]:
        with pytest.raises(InputError, match=words):
            learning_rate(
                **{"peak": 1.0, "steps": 100, "warmup": 1, "decay_fraction": 0.3, "schedule": "cosine"} | changes
            )


def test_gradients_are_clipped_to_a_global_norm():
    optimizer = make_optimizer("adamw", lambda _: 1.0, adam_rate=1.0, weight_decay=0.0, clip=0.5)
    params = {"a": jnp.zeros((2, 2)), "b": jnp.zeros(3)}
    grads = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 7.0), params)
    _, state = optimizer.update(grads, optimizer.init(params), params)
    [mu] = [leaf.mu for leaf in jax.tree.leaves(state, is_leaf=lambda x: hasattr(x, "mu")) if hasattr(leaf, "mu")]
    assert float(optax.tree.norm(mu)) == pytest.approx(0.1 * 0.5, rel=1e-5)
