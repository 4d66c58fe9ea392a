"""What raw files hold: tables, sparse matrices, and arrays inside an .npz (stored ones mapped, others streaming)."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy  # its parts are imported when they are first used

from gamlp.arrays import Array
from gamlp.errors import GamlpError

_csv: Any = pyarrow.csv  # its stubs, where there are any, do not know streams
_BLOCK = 16 << 20  # bytes parsed at a time
_HEAD = 1 << 20  # a first line is shorter than this


def tables(path: Path, kind: Any = np.float64) -> Iterator[Array]:
    """`[rows, columns]` parts of a .csv or .csv.gz without header; an empty field is NaN."""
    try:
        with pa.input_stream(str(path)) as stream:
            width = _width(stream.read(_HEAD), ",")
        with pa.input_stream(str(path)) as stream:
            reader = _csv.open_csv(stream, **_options(width, kind, ",", _BLOCK))
            yield from (_stack(batch.columns) for batch in reader)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise GamlpError(f"not the table it should be ({error})", file=path, hint="fetch it again") from error


def table(path: Path, kind: Any = np.float64) -> Array:
    """All of a table that fits memory."""
    return np.concatenate(list(tables(path, kind)))


def parse(text: bytes, separator: str = ",", kind: Any = np.float32) -> Array:
    """`[lines, columns]` of text in memory; raises ValueError where it is no table of numbers."""
    options = _options(_width(text, separator), kind, separator, len(text) + 1)
    return _stack(_csv.read_csv(pa.BufferReader(text), **options).columns)


def named(path: Path, *, header: bool) -> Any:
    """A small .csv.gz of names and numbers, typed as it is found."""
    try:
        with pa.input_stream(str(path)) as stream:
            options = pa.csv.ReadOptions(autogenerate_column_names=not header)
            return _csv.read_csv(stream, read_options=options)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise GamlpError(f"not the table it should be ({error})", file=path, hint="fetch it again") from error


def _options(width: int, kind: Any, separator: str, block: int) -> dict[str, Any]:
    # Types are fixed from the start: a column that begins with whole numbers may go on with fractions.
    types = {f"f{index}": pa.from_numpy_dtype(kind) for index in range(width)}
    return {
        "read_options": pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block),
        "parse_options": pa.csv.ParseOptions(delimiter=separator, quote_char=False),
        "convert_options": pa.csv.ConvertOptions(column_types=types),
    }


def _width(text: bytes, separator: str) -> int:
    return text.split(b"\n", 1)[0].count(separator.encode()) + 1


def _stack(columns: list[Any]) -> Array:
    return np.stack([column.to_numpy() for column in columns], axis=1) if columns else np.zeros((0, 0))


_SKIP = 16 << 20
_MOST_CELLS = 1 << 34  # of a sparse matrix, which is written dense: 64 GiB


def sparse_matrix(data: Array, indices: Array, offsets: Array, shape: Any, file: Path) -> Any:
    """A CSR matrix of scipy's, checked before: its loops trust what they are given, and a lie ends the process."""
    shape = shape.tolist() if isinstance(shape, np.ndarray) else shape  # of one number, no list
    sizes = tuple(shape) if isinstance(shape, tuple | list) else ()
    whole = len(sizes) == 2 and all(type(size) is int and 0 <= size < 1 << 31 for size in sizes)
    rows, columns = (int(size) for size in sizes) if whole else (0, 0)
    problem = None
    if not whole or rows * columns > _MOST_CELLS:
        problem = f"a matrix of {' x '.join(map(str, sizes)) or 'no'} cells"
    elif any(part.ndim != 1 for part in (data, indices, offsets)) or data.dtype.kind not in "iufb":
        problem = "its parts are not rows of numbers"
    elif indices.dtype.kind not in "iu" or offsets.dtype.kind not in "iu":
        problem = "its indices are not whole numbers"
    elif len(offsets) != rows + 1 or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        problem = f"its offsets do not divide it into {rows} rows"
    elif not len(indices) == len(data) == int(offsets[-1]):
        problem = f"{len(indices)} indices and {len(data)} values where its offsets end at {int(offsets[-1])}"
    elif len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= columns):
        wrong = int(indices.max()) if int(indices.max()) >= columns else int(indices.min())
        problem = f"a column {wrong} of {columns}"
    if problem is not None:
        raise GamlpError(f"a damaged sparse matrix ({problem})", file=file, hint="fetch it again")
    kept = (data.astype(np.float32), indices.astype(np.int64), offsets.astype(np.int64))
    return scipy.sparse.csr_array(kept, shape=(rows, columns))


class Npz:
    """An .npz whose members may be larger than memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            raise GamlpError(f"not a readable .npz ({error})", file=path, hint="fetch it again") from error

    def __enter__(self) -> Npz:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def shape(self, name: str) -> tuple[int, ...]:
        with self._open(name) as file:
            return self._header(name, file)[0]

    def read_all(self, name: str) -> Array:
        """A member that fits memory."""
        with self._open(name) as file:
            shape, dtype, order = self._header(name, file)
            count = int(np.prod(shape, dtype=np.int64))
            return np.frombuffer(self._exactly(file, count * dtype.itemsize), dtype).reshape(shape, order=order)

    def chunks(self, name: str, rows: int) -> Iterator[Array]:
        """Consecutive ranges of rows."""
        with self._open(name) as file:
            shape, dtype, order = self._header(name, file)
            if order == "F" and len(shape) > 1:
                raise GamlpError(f"'{name}' is stored by columns, which cannot stream", file=self.path)
            yield from self._rows(name, file, dtype, shape, 0, rows)

    def edges(self, name: str, count: int) -> Iterator[tuple[Array, Array]]:
        """(source, target) ranges of an array `[2, m]`, whichever order it is stored in."""
        with self._open(name) as file, self._open(name) as other:
            shape, dtype, order = self._header(name, file)
            self._header(name, other)
            if len(shape) != 2 or shape[0] != 2 or dtype.kind not in "iu":
                raise GamlpError(f"'{name}' is no list of edges", file=self.path, hint="fetch it again")
            if order == "F":  # pairs, one after another
                pairs = self._rows(name, file, dtype, (shape[1], 2), 0, count)
                yield from ((pair[:, 0], pair[:, 1]) for pair in pairs)
            else:
                sources = self._rows(name, file, dtype, (shape[1],), 0, count)
                yield from zip(sources, self._rows(name, other, dtype, (shape[1],), shape[1], count))

    def _rows(
        self, name: str, file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], skip: int, rows: int
    ) -> Iterator[Array]:
        count, inner = shape[0], shape[1:]
        size = dtype.itemsize * int(np.prod(inner, dtype=np.int64))
        if (offset := self._stored_at(name)) is not None and count:
            mapped = np.memmap(self.path, dtype, "r", offset + file.tell() + skip * size, shape)
            yield from (mapped[row : row + rows] for row in range(0, count, rows))
            return
        self._skip(file, skip * size)
        for row in range(0, count, rows):
            number = min(rows, count - row)
            yield np.frombuffer(self._exactly(file, number * size), dtype).reshape(number, *inner)

    def _header(self, name: str, file: IO[Any]) -> tuple[tuple[int, ...], np.dtype[Any], Literal["C", "F"]]:
        """Shape, kind and order of a member, which must be as long as they say: nothing is allocated on a lie."""
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            size, stated = math.prod(shape) * dtype.itemsize, self._zip.getinfo(f"{name}.npy").file_size
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise GamlpError(f"'{name}' is no array ({error})", file=self.path, hint="fetch it again") from error
        if dtype.kind not in "iufb":
            raise GamlpError(f"'{name}' is no array of numbers", file=self.path, hint="fetch it again")
        if min(shape, default=0) < 0 or file.tell() + size != stated:
            raise GamlpError(f"'{name}' is not as long as it says", file=self.path, hint="fetch it again")
        return shape, dtype, "F" if fortran else "C"

    def _open(self, name: str) -> IO[bytes]:
        try:
            return self._zip.open(f"{name}.npy")
        except KeyError as error:
            raise GamlpError(f"no array '{name}' inside", file=self.path, hint="fetch it again") from error

    def _stored_at(self, name: str) -> int | None:
        """Where in the file an uncompressed member begins; None where it is compressed."""
        member = self._zip.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        with self.path.open("rb") as file:
            file.seek(member.header_offset + 26)  # the local header repeats name and extra field, at its own length
            name_length, extra_length = struct.unpack("<HH", file.read(4))
        return int(member.header_offset) + 30 + int(name_length) + int(extra_length)

    def _exactly(self, file: IO[bytes], size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        try:
            while len(view):
                got = file.readinto(view)  # type: ignore[attr-defined]
                if not got:
                    raise EOFError("the member ends early")
                view = view[got:]
        except (EOFError, zipfile.BadZipFile, zlib.error, OSError) as error:
            raise GamlpError(f"damaged ({error})", file=self.path, hint="fetch it again") from error
        return data

    def _skip(self, file: IO[bytes], size: int) -> None:
        while size:
            size -= len(self._exactly(file, min(size, _SKIP)))
