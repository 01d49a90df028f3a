"""Training: the same seed gives the same model, a run that was cut goes on as if it had not been."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.experiments.schema import (
    DataConfig,
    FinetuneConfig,
    LoraConfig,
    NetworkConfig,
    OptimizerConfig,
    TrainConfig,
)
from seqdiff.experiments.train import finetune, train, training_network
from seqdiff.models.config import TransformerConfig
from seqdiff.models.denoiser import init_denoiser
from seqdiff.models.store import flatten, load_model, save_model
from seqdiff.process.schedules import SCHEDULES
from seqdiff.training.metrics import read_metrics
from seqdiff.training.step import Loss

pytestmark = pytest.mark.filterwarnings("ignore")  # orbax and grain warn about their own future


@pytest.fixture(autouse=True)
def optax_promotes_its_counters():
    """Optax raises a float to an int power, which the session's strict promotion refuses."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(autouse=True, scope="module")
def runs_share_compiled_programs(tmp_path_factory: pytest.TempPathFactory):
    """Runs of one config compile the same program; only the first of them pays for it."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("programs")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def fasta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.fasta"
    rng = np.random.default_rng(0)
    starts = ["".join(rng.choice(list("ACDE"), 9)) for _ in range(40)]
    path.write_text("".join(f">s{i}\nM{start * 3}K\n" for i, start in enumerate(starts)))
    return path


def config(fasta: Path, out: Path, **changes) -> TrainConfig:
    fields = {
        "data": DataConfig(train=str(fasta)),
        "network": NetworkConfig(width=8, depth=1, heads=2, hidden=12),
        "optimizer": OptimizerConfig(name="adamw", rate=0.01, warmup=2),
        "length": 24,
        "batch": 6,
        "steps": 8,
        "report_every": 2,
        "save_every": 2,
        "out": str(out),
    }
    return TrainConfig(**fields | changes)


def leaves(folder: Path) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(load_model(folder, PROTEIN).params)]


def equal(a: Path, b: Path) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def test_a_run_that_was_cut_resumes_to_the_same_result(fasta: Path, tmp_path: Path):
    whole = train(config(fasta, tmp_path / "whole"))
    again = train(config(fasta, tmp_path / "again"))
    assert equal(whole, again)
    train(config(fasta, tmp_path / "cut", stop_at=4))
    assert equal(train(config(fasta, tmp_path / "cut")), whole)
    other = train(config(fasta, tmp_path / "other", seed=1))
    assert not equal(other, whole)
    assert [record["step"] for record in read_metrics(tmp_path / "cut" / "metrics.jsonl")] == [2, 4, 6, 8]

    with pytest.raises(InputError, match="written with batch=6, this run has 5"):
        train(config(fasta, tmp_path / "cut", batch=5))


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("muon", {"objective": "masked", "schedule": "cosine"}),
        ("adamw", {"objective": "any_order"}),
        ("adamw", {"objective": "score_entropy", "schedule": "geometric", "process": "uniform"}),
        ("muon", {"objective": "bound", "process": "hybrid", "uniform": 0.3}),
    ],
    ids=str,
)
def test_loss_falls(fasta: Path, tmp_path: Path, options: dict, optimizer: str):
    changes = {
        "steps": 40,
        "network": NetworkConfig(width=16, depth=1, heads=2, hidden=24, time_conditioning=True, self_conditioning=True),
        "optimizer": OptimizerConfig(name=optimizer, rate=0.03, warmup=5),
        "save_every": 40,
    } | options
    folder = train(config(fasta, tmp_path / "run", report_every=5, batch=16, **changes))
    nats = [record["cross_entropy"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert nats[-1] < nats[0] - 0.2
    model = load_model(folder, PROTEIN)
    assert model.process.uniform == {"uniform": 1.0, "hybrid": 0.3}.get(options.get("process", ""), 0.0)
    assert type(model.process.schedule) is SCHEDULES[options.get("schedule", "linear")]
    assert (model.output == "scores") == (options["objective"] == "score_entropy")
    assert model.self_conditioning


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of ESM-2's architecture."""
    folder = tmp_path_factory.mktemp("published")
    network = TransformerConfig(
        num_letters=20, num_tokens=24, width=16, depth=2, heads=2, hidden=24, qk_norm=False, mlp="gelu", use_bias=True,
        residual_scale=False, final_norm_bias=True, mask_dropout=0.12,
    )  # fmt: skip
    save_model(folder, init_denoiser(network, PROTEIN, seed=0), notes={}, dtype="float32")
    return folder


@pytest.mark.parametrize("rank", [0, 2])
def test_fine_tuning(fasta: Path, published: Path, tmp_path: Path, rank: int):
    def tuned(out: str, **changes) -> Path:
        fields = {
            "model": str(published), "data": DataConfig(train=str(fasta)), "lora": LoraConfig(rank=rank), "length": 24,
            "optimizer": OptimizerConfig(name="adamw", rate=0.02, warmup=5, ema_decay=0.9), "steps": 60, "batch": 16,
            "report_every": 10, "save_every": 30, "out": str(tmp_path / out),
        }  # fmt: skip
        return finetune(FinetuneConfig(**fields | changes))

    folder = tuned("run")
    nats = [record["cross_entropy"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    # Adapters of attention alone can do little for a random network whose head is frozen.
    assert nats[-1] < nats[0] - (0.03 if rank else 0.15)
    before, after = (flatten(load_model(path, PROTEIN).params) for path in (published, folder))
    moved = {name: np.asarray(after[name] - before[name]) for name in before}
    changed = {name for name, difference in moved.items() if np.abs(difference).max() > 0}
    if rank == 0:
        assert "embed_tokens.embedding" in changed
    else:
        assert changed == {f"layers.{i}.self_attn.{p}_proj.kernel" for i in range(2) for p in "qkvo"}
        assert all(np.linalg.matrix_rank(moved[name], tol=1e-5) <= rank for name in changed)
    # Cut and continued, it ends where it would have.
    tuned("cut", stop_at=30)
    assert equal(tuned("cut"), folder)


def test_rematerialisation_keeps_less_for_the_backward_pass(tmp_path: Path):
    """In bytes, by shape evaluation; that results stay the same is in ``test_scale``."""

    def kept(remat: bool) -> int:
        settings = config(tmp_path, tmp_path, remat=remat, network=NetworkConfig(width=16, depth=6, heads=2, hidden=24))
        network = TransformerConfig(num_letters=20, num_tokens=PROTEIN.num_tokens, **asdict(settings.network))
        denoiser = init_denoiser(network, PROTEIN, seed=0)
        loss = Loss(
            apply=training_network(denoiser, settings), process=denoiser.process, pad=PROTEIN.pad, times=(0.1, 1.0),
            objective="masked",
        )  # fmt: skip

        def backward(params: Any, key: jax.Array, tokens: jax.Array) -> Any:
            draw = loss.draw(key, tokens)
            return jax.vjp(lambda params: loss.total(loss.parts(params, draw)), params)[1]

        shapes = jax.eval_shape(backward, denoiser.params, jax.random.key(0), jnp.zeros((8, 24), jnp.int32))
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    assert kept(True) < 0.3 * kept(False)


def test_adapters_need_matrices_that_exist(fasta: Path, published: Path, tmp_path: Path):
    config = FinetuneConfig(
        model=str(published), data=DataConfig(train=str(fasta)), lora=LoraConfig(rank=2, targets=["query"]),
        out=str(tmp_path / "run"),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"no 'query'; it has down_proj, k_proj"):
        finetune(config)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": "linaer"}, "did you mean 'linear'"),
        ({"objective": "bond"}, "did you mean 'bound'"),
        ({"process": "gaussian"}, "unknown process"),
        ({"objective": "masked", "process": "uniform"}, "counts masked letters"),
        ({"uniform": 0.1}, "process=hybrid"),
        ({"uniform": 1.5, "process": "hybrid"}, "between 0 and 1"),
        ({"init_from": "nowhere/model"}, "does not exist"),
        ({"data": DataConfig(train="none.fasta")}, "No such file"),
        ({"optimizer": OptimizerConfig(name="sgd")}, "choose one of"),
        ({"optimizer": OptimizerConfig(schedule="linear")}, "optimizer.schedule"),
        ({"accumulate": 4}, "batch=6 does not divide into accumulate=4 parts"),
        ({"compute": "float16"}, "did you mean 'bfloat16'"),
        ({"sharding": "fdsp"}, "did you mean 'fsdp'"),
    ],
)
def test_refusals(fasta: Path, tmp_path: Path, changes: dict, words: str):
    with pytest.raises(InputError, match=words):
        train(config(fasta, tmp_path / "run", **changes))
