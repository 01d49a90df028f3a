"""AntiBERTy with its published weights: against the authors' own class, and what it says of trastuzumab."""

import importlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.denoiser import NetworkDenoiser
from seqdiff.models.store import load_model
from seqdiff.request.weights import get_weights

WHEELS = os.environ.get("SEQDIFF_WHEELS", "")
FILES = ("AntiBERTy_md_smooth/config.json", "vocab.txt", "AntiBERTy_md_smooth/pytorch_model.bin")
HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTI"
    "SADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)
LIGHT = "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK"

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch and transformers warn about their own future
    pytest.mark.skipif(not WHEELS, reason="SEQDIFF_WHEELS names no folder with the antiberty wheel"),
]


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted(Path(WHEELS).glob("antiberty-*.whl"))
    if not found:
        pytest.skip(f"{WHEELS} has no antiberty wheel")
    return found[0]


@pytest.fixture(scope="module")
def ours(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> NetworkDenoiser:
    """The wheel's weights as ``seqdiff weights get antiberty from=WHEEL`` keeps them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQDIFF_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = get_weights(Console(file=io.StringIO()), "antiberty", given=wheel)
        denoiser = load_model("antiberty", PROTEIN)
    assert (folder / "LICENSE").is_file()
    assert isinstance(denoiser, NetworkDenoiser)
    return denoiser


@pytest.fixture(scope="module")
def theirs(wheel: Path) -> Iterator[SimpleNamespace]:
    """The authors' class with their weights, and the ids of their tokens."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sys.path.insert(0, str(wheel))
    try:
        network = importlib.import_module("antiberty.model.AntiBERTy")
        with zipfile.ZipFile(wheel) as files:
            config, vocabulary, weights = (files.read(f"antiberty/trained_models/{name}") for name in FILES)
        # Their class does not call ``post_init``, which sets this in the installed version of Transformers.
        network.AntiBERTy.all_tied_weights_keys = {}
        model = network.AntiBERTy(transformers.BertConfig.from_dict(json.loads(config)))
        tensors = torch.load(io.BytesIO(weights), weights_only=True, map_location="cpu")
        left = model.load_state_dict(tensors, strict=False)
        assert not left.missing_keys
        ids = {token: i for i, token in enumerate(vocabulary.decode().split())}
        yield SimpleNamespace(model=model.eval(), ids=ids, torch=torch)
    finally:
        sys.path.remove(str(wheel))


def canvas(*sequences: str) -> tuple[np.ndarray, np.ndarray]:
    """Letter ids, padded on the right, and which of them there are."""
    length = max(map(len, sequences))
    tokens = np.full((len(sequences), length), PROTEIN.pad, np.int32)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = PROTEIN.encode(sequence)
    return tokens, np.arange(length)[None, :] < np.array([len(s) for s in sequences])[:, None]


@jax.jit
def logits_of(denoiser: NetworkDenoiser, tokens: Any, valid: Any) -> jax.Array:
    return denoiser(jnp.asarray(tokens), jnp.asarray(valid), jnp.zeros(len(tokens)))


def their_outputs(theirs: SimpleNamespace, tokens: np.ndarray, valid: np.ndarray) -> dict[str, np.ndarray]:
    """Logits of letters and classes for rows framed by [CLS] and [SEP], padded on the right."""
    letters = [theirs.ids[letter] for letter in PROTEIN.letters]
    names = np.array([*letters, theirs.ids["[MASK]"]])
    framed = np.full((len(tokens), tokens.shape[1] + 2), theirs.ids["[PAD]"])
    attend = np.zeros(framed.shape, np.int64)
    for row, length in enumerate(valid.sum(axis=1)):
        framed[row, : length + 2] = theirs.ids["[CLS]"], *names[tokens[row, :length]], theirs.ids["[SEP]"]
        attend[row, : length + 2] = 1
    torch = theirs.torch
    with torch.no_grad():
        out = theirs.model(torch.tensor(framed), attention_mask=torch.tensor(attend), return_dict=True)
    found = {"species": out.species_logits.numpy(), "chain": out.chain_logits.numpy()}
    return found | {"letters": out.prediction_logits.numpy()[:, 1:-1][:, :, letters]}


def test_logits_are_those_of_the_authors_class(ours: NetworkDenoiser, theirs: SimpleNamespace):
    """Two lengths side by side, a tenth to all of the letters masked."""
    rng = np.random.default_rng(0)
    tokens, valid = canvas(HEAVY, LIGHT, HEAVY, LIGHT)
    share = np.array([0.1, 0.4, 0.8, 1.0])[:, None]
    tokens = np.where((rng.random(tokens.shape) < share) & valid, PROTEIN.mask, tokens).astype(np.int32)
    found, wanted = np.asarray(logits_of(ours, tokens, valid)), their_outputs(theirs, tokens, valid)["letters"]
    assert np.ptp(wanted[valid]) > 5
    np.testing.assert_allclose(found[valid], wanted[valid], atol=1e-4)


def test_classes_are_those_of_the_authors_class(ours: NetworkDenoiser, theirs: SimpleNamespace):
    tokens, valid = canvas(HEAVY, LIGHT)
    found, wanted = ours.classify(jnp.asarray(tokens), jnp.asarray(valid)), their_outputs(theirs, tokens, valid)
    for name in ("species", "chain"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-4)


def test_trastuzumab(ours: NetworkDenoiser):
    """Each letter of the heavy domain masked by itself, and what domain it is."""
    native = PROTEIN.encode(HEAVY)
    length = len(native)
    tokens = np.where(np.eye(length, dtype=bool), PROTEIN.mask, native[None, :]).astype(np.int32)
    logits = np.asarray(logits_of(ours, tokens, np.ones(tokens.shape, bool)))[np.arange(length), np.arange(length)]
    assert (length, int((logits.argmax(axis=-1) == native).sum())) == (120, 101)
    log_p = np.asarray(jax.nn.log_softmax(jnp.asarray(logits)))[np.arange(length), native]
    assert np.exp(-log_p.mean()) == pytest.approx(1.9055, abs=0.002)

    labels = dict(ours.config.classifiers)
    scores = ours.classify(*map(jnp.asarray, canvas(HEAVY)))
    species, chain = (np.asarray(jax.nn.softmax(scores[name]))[0] for name in ("species", "chain"))
    assert species[labels["species"].index("Human")] == pytest.approx(0.976, abs=0.002)
    assert labels["chain"][int(chain.argmax())] == "Heavy"
