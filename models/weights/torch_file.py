"""Files that ``torch.save`` wrote, read without PyTorch and without running what is in them.

Such a file is a zip archive: ``data.pkl``, a pickle that describes nested dicts, lists and tensors, and one file of raw
little-endian numbers for every storage. A pickle is a program, so it is read twice: first its operations are listed and
anything that plain data has no use for is refused, then it is run by an unpickler that knows an ordered dict, the two
functions that make a tensor from a storage, and the names of the storage types. A tensor is a view of its storage, with
bounds checked, so that a forged shape reads nothing outside the file and allocates nothing.
"""

import io
import math
import pickle
import pickletools
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from seqdiff.core.errors import InputError

LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How files of torch before 1.6 begin."""

STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "bool",
}

OPERATIONS = re.compile(
    "PROTO|FRAME|STOP|MARK|POP|POP_MARK|NONE|NEWTRUE|NEWFALSE|INT|BININT|BININT1|BININT2|LONG|LONG1|LONG4|FLOAT|BINFLOAT"
    "|BINUNICODE|SHORT_BINUNICODE|BINSTRING|SHORT_BINSTRING|BINBYTES|SHORT_BINBYTES|EMPTY_DICT|DICT|SETITEM|SETITEMS"
    "|EMPTY_LIST|LIST|APPEND|APPENDS|EMPTY_TUPLE|TUPLE|TUPLE1|TUPLE2|TUPLE3|BINPUT|LONG_BINPUT|BINGET|LONG_BINGET"
    "|MEMOIZE|GLOBAL|STACK_GLOBAL|REDUCE|BUILD|BINPERSID"
)
"""Operations of a pickle that holds plain data and tensors."""

MAX_DIMENSIONS = 64


def read_torch_file(path: Path) -> Any:
    """What ``torch.save`` put into ``path``: nested dicts, lists and scalars, with NumPy arrays for tensors.

    Args:
        path: a ``.pt``, ``.pth`` or ``.bin`` file in torch's zip format.

    Returns:
        The object; tensors are read-only arrays of their own type, bfloat16 as float32.

    Raises:
        InputError: the file is missing, damaged or in the old format, or it holds more than plain data and
            dense tensors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _load(archive, path)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except zipfile.BadZipFile as error:
        with path.open("rb") as file:
            legacy = file.read(len(LEGACY_MAGIC)) == LEGACY_MAGIC
        if legacy:
            raise InputError(
                f"{path} is in the format of torch before 1.6; open it once with torch.load(..., weights_only=True) "
                "and save its tensors with safetensors.torch.save_file"
            ) from None
        raise InputError(f"{path} is truncated or not a file of torch.save ({error}); fetch it again") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file of torch.save") from None


def _load(archive: zipfile.ZipFile, path: Path) -> Any:
    names = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(names) != 1:
        raise InputError(f"{path} is a zip file, but not one of torch.save: it has no data.pkl")
    root = names[0].removesuffix("data.pkl")
    try:
        if f"{root}byteorder" in archive.namelist() and _stored(archive, f"{root}byteorder") != b"little":
            raise InputError(f"{path} was written on a big-endian machine; save it as safetensors there")
        program = _stored(archive, names[0])
        _check_operations(program, path)
        return _Reader(program, archive, root, path).load()
    except (InputError, zipfile.BadZipFile):
        raise
    except Exception as error:  # what lies in a pickle decides what the unpickler raises
        raise InputError(f"{path} is damaged: {type(error).__name__} in data.pkl ({error})") from None


def _check_operations(program: bytes, path: Path) -> None:
    """Refuse operations that plain data has no use for, and memo slots that would make the unpickler allocate."""
    for operation, argument, _ in pickletools.genops(program):
        if not OPERATIONS.fullmatch(operation.name):
            raise InputError(f"{path} holds more than tensors: its pickle uses {operation.name}; {_WAY_OUT}")
        if operation.name == "LONG_BINPUT" and int(argument) > len(program):  # pyright: ignore[reportArgumentType]
            raise InputError(f"{path} is damaged: memo slot {argument} in data.pkl")


_WAY_OUT = "save its tensors as safetensors instead"


class _StateDict(dict):
    """An ordered dict of the file. Its attributes (torch keeps versions there) are dropped."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _OrderedDict:
    """What stands for ``collections.OrderedDict``: callable, and without attributes that a pickle could set."""

    __slots__ = ()

    def __call__(self, *items: Any) -> _StateDict:
        return _StateDict(*items)


class _StorageType(NamedTuple):
    name: str


class _Storage(NamedTuple):
    """Numbers of one storage, one-dimensional."""

    values: np.ndarray


class _RebuildTensor:
    """What stands for ``torch._utils._rebuild_tensor_v2``."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> np.ndarray:
        """A view of ``storage``; ``rest`` is about gradients."""
        if not isinstance(storage, _Storage):
            raise ValueError("a tensor without a storage")
        numbers = (offset, *size, *stride)
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("sizes and strides must be non-negative integers")
        if len(size) != len(stride) or len(size) > MAX_DIMENSIONS:
            raise ValueError(f"{len(size)} sizes, {len(stride)} strides")
        values = storage.values
        if 0 in size:
            return np.zeros(size, values.dtype)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if last >= len(values) or math.prod(size) > len(values):
            raise ValueError(f"a tensor of size {tuple(size)} does not fit its storage of {len(values)} numbers")
        steps = [step * values.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False)


class _RebuildParameter:
    """What stands for ``torch._utils._rebuild_parameter``."""

    __slots__ = ()

    def __call__(self, data: Any, *rest: Any) -> Any:
        return data


GLOBALS = {
    ("collections", "OrderedDict"): _OrderedDict(),
    ("torch._utils", "_rebuild_tensor_v2"): _RebuildTensor(),
    ("torch._utils", "_rebuild_parameter"): _RebuildParameter(),
    **{("torch", name): _StorageType(name) for name in STORAGES},
}
"""All that a pickle can name, and what it gets. None of it can be changed by a pickle."""


class _Reader(pickle.Unpickler):
    def __init__(self, program: bytes, archive: zipfile.ZipFile, root: str, path: Path):
        super().__init__(io.BytesIO(program))
        self._archive, self._root, self._path = archive, root, path
        self._storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        """One of ``GLOBALS``."""
        try:
            return GLOBALS[module, name]
        except KeyError:
            self._refuse(f"{module}.{name}")

    def _refuse(self, name: str) -> NoReturn:
        raise InputError(f"{self._path} holds more than dense tensors: it names {name!r}; {_WAY_OUT}")

    def persistent_load(self, pid: Any) -> _Storage:
        """The storage that ``("storage", type, key, device, numbers)`` names."""
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], _StorageType)):
            raise ValueError("an unknown kind of storage")
        kind, key, count = pid[1].name, pid[2], pid[4]
        if not isinstance(key, str) or type(count) is not int:
            raise ValueError("an unknown kind of storage")
        if key not in self._storages:
            self._storages[key] = _Storage(_numbers(_stored(self._archive, f"{self._root}data/{key}"), STORAGES[kind]))
        storage = self._storages[key]
        if len(storage.values) < count:
            raise ValueError(f"storage {key} holds {len(storage.values)} numbers, not {count}")
        return storage


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member that is stored as it is, so that no more is read than the file holds."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which torch.save never does")
    return archive.read(info)


def _numbers(data: bytes, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return np.frombuffer(data, ml_dtypes.bfloat16).astype(np.float32)
    if dtype == "bool":
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, dtype)
