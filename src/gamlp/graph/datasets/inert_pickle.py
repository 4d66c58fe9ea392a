"""Old pickles of arrays, read without building anything that they name.

Planetoid's files and OGB's split_dict.pt are pickles by origin, the exceptions to the rule that no file is unpickled.
What a pickle would call is replaced by stand-ins that only keep what they are given: no function of numpy, scipy or
torch runs on a file's word, since these trust what they get (a dtype or a matrix of wrong insides ends the process).
Arrays are then made from the kept bytes, after every number has been checked.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.datasets.raw_files import sparse_matrix

_LARGEST_FILE = 256 << 20
_NUMBERS = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "b1"}
_STAND_INS = {
    ("numpy", "ndarray"): "other",
    ("numpy", "dtype"): "dtype",
    ("numpy.core.multiarray", "_reconstruct"): "array",
    ("numpy._core.multiarray", "_reconstruct"): "array",
    ("scipy.sparse.csr", "csr_matrix"): "matrix",
    ("scipy.sparse._csr", "csr_matrix"): "matrix",
    ("collections", "defaultdict"): "dict",
    ("collections", "OrderedDict"): "dict",
    ("__builtin__", "list"): "other",
    ("builtins", "list"): "other",
    ("_codecs", "encode"): "bytes",  # how Python 3 writes bytes where a pickle must be readable by Python 2
    ("torch._utils", "_rebuild_tensor_v2"): "tensor",
    ("torch", "LongStorage"): "i8",
    ("torch", "IntStorage"): "i4",
}


class InertPickle:
    """What one file holds. `array`, `matrix`, `lists` and `rows` say what is expected of it.

    `content` is the pickle where it is only a part of the file, and `storage` gives the bytes of a tensor's storage by
    its key; `what` the file should be.
    """

    def __init__(
        self,
        path: Path,
        content: bytes | None = None,
        storage: Callable[[str], bytes] | None = None,
        what: str = "a Planetoid file",
    ) -> None:
        self.path, self._storage, self._what = path, storage, what
        self._kinds = _stand_ins()
        try:
            size = path.stat().st_size if content is None else len(content)
            if size > _LARGEST_FILE:
                raise ValueError("it is far too large")
            with path.open("rb") if content is None else io.BytesIO(content) as file:
                _check_memory(file, size)
                self._found = _Reader(file, self._kinds).load()
        except OSError as error:
            raise GamlpError(f"cannot be read ({error.strerror})", file=path) from error
        except Exception as error:  # whatever a damaged pickle makes the reader say
            raise self._refused(str(error) or type(error).__name__) from error

    def array(self) -> Array:
        """`[rows, columns]` of numbers."""
        found = self._array(self._found)
        if found.ndim != 2:
            raise self._refused("a table of numbers is expected")
        return found

    def matrix(self) -> Any:
        """A sparse matrix, CSR."""
        state = getattr(self._found, "state", None)
        if not isinstance(self._found, self._kinds["matrix"]) or not isinstance(state, dict):
            raise self._refused("a sparse matrix is expected")
        data, indices, offsets = (self._array(state.get(name)) for name in ("data", "indices", "indptr"))
        return sparse_matrix(data, indices, offsets, state.get("_shape"), self.path)

    def lists(self) -> dict[int, list[int]]:
        """Lists of whole numbers by whole numbers."""
        if not isinstance(self._found, dict):
            raise self._refused("lists of neighbours are expected")
        for key, values in self._found.items():
            if type(key) is not int or not isinstance(values, list) or any(type(value) is not int for value in values):
                raise self._refused("lists of whole numbers are expected")
        return dict(self._found)

    def rows(self, *keys: str) -> dict[str, Array]:
        """Numbers of rows by name, `[rows]` each, of a mapping; `keys` lead through mappings inside every entry."""
        if not isinstance(self._found, dict):
            raise self._refused("rows by name are expected")
        found = {}
        for name, value in self._found.items():
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            part = self._tensor(value) if isinstance(value, self._kinds["tensor"]) else self._array(value)
            if not isinstance(name, str) or part.ndim != 1 or part.dtype.kind not in "iu":
                raise self._refused("numbers of rows are expected")
            found[name] = part
        return found

    def _tensor(self, found: Any) -> Array:
        """Of a storage, all or a stretch of it, in one dimension."""
        given = (*found.given, None, None, None, None)
        storage, start, size, stride = given[:4]
        named: tuple[Any, ...] = getattr(storage, "given", ()) if isinstance(storage, self._kinds["storage"]) else ()
        kind = next((name for name in ("i8", "i4") if len(named) > 2 and named[1] is self._kinds[name]), None)
        if self._storage is None or kind is None or not isinstance(named[2], str):
            raise self._refused("a tensor of whole numbers is expected")
        if stride != (1,) or type(start) is not int or not isinstance(size, tuple) or len(size) != 1:
            raise self._refused("a tensor of one dimension is expected")
        content = self._storage(named[2])
        dtype: np.dtype[Any] = np.dtype(f"<{kind}")
        if type(size[0]) is not int or start < 0 or size[0] < 0 or (start + size[0]) * dtype.itemsize > len(content):
            raise self._refused("a tensor reaches beyond its storage")
        return np.frombuffer(content, dtype, size[0], start * dtype.itemsize)

    def _array(self, found: Any) -> Array:
        state = getattr(found, "state", None)
        if not isinstance(found, self._kinds["array"]) or not isinstance(state, tuple) or len(state) != 5:
            raise self._refused("an array is expected")
        _, shape, kind, by_columns, data = state
        content = self._bytes(data)
        if not isinstance(content, bytes) or not isinstance(shape, tuple) or not 1 <= len(shape) <= 2:
            raise self._refused("an array of one or two dimensions is expected")
        if any(type(size) is not int or size < 0 for size in shape):
            raise self._refused("an array's shape is whole numbers")
        dtype = self._dtype(kind)
        if math.prod(shape) * dtype.itemsize != len(content):
            raise self._refused(f"{len(content)} bytes where {math.prod(shape)} numbers are expected")
        return np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C")

    def _bytes(self, data: Any) -> Any:
        """What stands for bytes, as bytes: a text of Python 2, or one with the name of its encoding."""
        given: tuple[Any, ...] = getattr(data, "given", ()) if isinstance(data, self._kinds["bytes"]) else ()
        if len(given) == 2 and given[1] == "latin1":
            data = given[0]
        return data.encode("latin1") if isinstance(data, str) else data

    def _dtype(self, kind: Any) -> np.dtype[Any]:
        named: tuple[Any, ...] = getattr(kind, "given", ()) if isinstance(kind, self._kinds["dtype"]) else ()
        state = getattr(kind, "state", None)
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
        if not named or named[0] not in _NUMBERS or order not in ("<", ">", "|", "="):
            raise self._refused("an array of numbers is expected")
        dtype: np.dtype[Any] = np.dtype(f"{order}{named[0]}")
        return dtype

    def _refused(self, why: str) -> GamlpError:
        return GamlpError(f"not {self._what} ({why})", file=self.path, hint="fetch it again")


def _stand_ins() -> dict[str, type]:
    """Fresh for every file: a pickle may set attributes of what it names."""

    class Kept:
        def __init__(self, *given: Any) -> None:
            self.given, self.state = given, None

        def __setstate__(self, state: Any) -> None:
            self.state = state

    class Lists(dict):  # type: ignore[type-arg]
        def __init__(self, *_: Any) -> None:
            super().__init__()

    names = {"storage", *_STAND_INS.values()} - {"dict"}
    return {**{name: type(name, (Kept,), {}) for name in names}, "dict": Lists}


def _check_memory(file: IO[bytes], size: int) -> None:
    """Refuse a number under which something is to be remembered that is beyond the file: room is made for all below."""
    for operation, argument, _ in pickletools.genops(file):
        if operation.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= int(str(argument)) <= size:
            raise pickle.UnpicklingError(f"remembers something as number {argument}")
    file.seek(0)


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, kinds: dict[str, type]) -> None:
        super().__init__(file, encoding="latin1")
        self._kinds = kinds

    def persistent_load(self, named: Any) -> Any:
        """A tensor's numbers, which torch keeps beside the pickle."""
        return self._kinds["storage"](*(named if isinstance(named, tuple) else ()))

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"names {module}.{name}, which is no array")
        return self._kinds[_STAND_INS[module, name]]
