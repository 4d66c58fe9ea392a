"""Rows of .npy files here or elsewhere, one file or several one after the other: read and written part by part."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io.files import map_array, npy_header
from gamlp.io.place import Place, scratch_folder
from gamlp.io.ranges import AT_ONCE, LONGEST, cut_ranges, rounds
from gamlp.io.verified import verify

_HEADER = 1 << 10  # bytes of a file that hold its header
_PIECE = 8 << 20  # bytes written at a time
_HELD = 1 << 18  # row numbers that may be in memory
_files = itertools.count()


def open_rows(place: Place) -> Any:
    """A .npy file: mapped where it is a file here, read in ranges where it is elsewhere."""
    return map_array(place.local) if place.local is not None else RemoteRows(place)


def mapped_rows(parts: Iterable[Array]) -> Array:
    """Row numbers that come some at a time, as one array; of many, in a mapped file that goes with the array."""
    found: list[Array] = []
    parts, count = iter(parts), 0
    for part in parts:
        found.append(part)
        if (count := count + len(part)) > _HELD:
            break
    else:
        return np.concatenate([np.zeros(0, np.int64), *found])
    path = scratch_folder() / f"rows-{next(_files)}.i64"
    with path.open("wb") as file:
        for part in itertools.chain(found, parts):
            file.write(np.ascontiguousarray(part, np.int64).data.cast("B"))
    rows = np.memmap(path, np.int64, "r")
    path.unlink()  # its bytes stay as long as the map
    return np.asarray(rows)


class _Rows:
    """What both kinds share: rows by slice, number or numbers, then columns."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self.range(0, len(self))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, None)
        found = self._rows(rows)
        return found if columns is None else found[..., columns]

    def _rows(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            return self.range(begin, max(begin, end))[::step] if step > 0 else np.asarray(self)[rows]
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            numbers = np.flatnonzero(numbers)
        if numbers.ndim == 0:
            at = int(numbers) % len(self) if -len(self) <= int(numbers) < len(self) else len(self)
            return self.range(at, at + 1)[0]
        return self.take(numbers.astype(np.int64, copy=False))

    def range(self, begin: int, end: int) -> Array:
        raise NotImplementedError

    def take(self, rows: Array) -> Array:
        raise NotImplementedError


class RemoteRows(_Rows):
    """One .npy file behind a URL; nothing is read before it is asked for. `pulled`: bytes that were read of it."""

    def __init__(self, place: Place) -> None:
        self.place, self.pulled = place, 0

    @cached_property
    def _head(self) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        try:
            head = io.BytesIO(self._count(self.place.read(0, _HEADER)))
            version = np.lib.format.read_magic(head)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(head)
            if fortran or dtype.hasobject or dtype.names is not None:
                raise ValueError("an array of another layout")
        except FileNotFoundError as error:
            raise GamlpError("file is missing", file=self.place, hint="it is incomplete; build it again") from error
        except Exception as error:  # numpy raises nearly anything at a damaged header
            message = " ".join(str(error).split())[:200]
            raise GamlpError(f"not a readable .npy array ({message})", file=self.place) from error
        return shape, dtype, head.tell()

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self._head[0]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self._head[1]

    def range(self, begin: int, end: int) -> Array:
        offset, row = self._head[2], self._row_bytes
        end = min(end, len(self))
        data = self.place.read(offset + begin * row, offset + end * row) if end > begin and row else b""
        return self._as_rows(data, max(0, end - begin))

    def take(self, rows: Array) -> Array:
        """Rows in any order, repeats allowed."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        order = np.argsort(rows, kind="stable")
        for part, values, places in self.parts(rows[order]):
            out[order[part]] = values[places]
        return out

    def parts(self, rows: Array, room: int = AT_ONCE) -> Iterator[tuple[slice, Array, Array]]:
        """Ascending rows, range by range: which of them, the rows of the range, and where among these they lie.

        About `room` bytes are held at a time; rows that nobody asked for are read only where they lie between others.
        """
        offset, row = self._head[2], self._row_bytes
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < len(self):
            raise IndexError(f"rows {rows[0]}..{rows[-1]} of {len(self)}")
        cuts = cut_ranges(rows, row, min(LONGEST, room))
        begins, ends = rows[cuts[:-1]], rows[cuts[1:] - 1] + 1
        for first, last in rounds((ends - begins) * row, room):
            wanted = [
                (offset + int(a) * row, offset + int(b) * row) for a, b in zip(begins[first:last], ends[first:last])
            ]
            found = self.place.read_ranges(wanted) if row else [b""] * len(wanted)
            for at, data in zip(range(first, last), found):
                part = slice(int(cuts[at]), int(cuts[at + 1]))
                yield part, self._as_rows(data, int(ends[at] - begins[at])), rows[part] - begins[at]

    @property
    def _row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def _as_rows(self, data: bytes, count: int) -> Array:
        if len(self._count(data)) != count * self._row_bytes:
            raise GamlpError("is shorter than it says", file=self.place, hint="it was cut off; build it again")
        return np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def _count(self, data: bytes) -> bytes:
        self.pulled += len(data)
        return data


class RowShards(_Rows):
    """Files one after the other as one array: `stops[i]` is the first row after file i. Opened when first read.

    With `checksums` a file here is verified then.
    """

    def __init__(
        self,
        places: Sequence[Place],
        stops: Sequence[int],
        shape: tuple[int, ...],
        dtype: np.typing.DTypeLike,
        checksums: Sequence[int] | None = None,
    ) -> None:
        self.places, self.stops = list(places), np.asarray(stops, np.int64)
        self.shape = ((int(self.stops[-1]) if len(self.stops) else 0), *shape)
        self.dtype = np.dtype(dtype)
        self.checksums = checksums
        self._opened: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # who is sent an array opens its files

    def range(self, begin: int, end: int) -> Array:
        parts = []
        first = int(np.searchsorted(self.stops, begin, side="right"))
        while begin < end:
            start = int(self.stops[first - 1]) if first else 0
            stop = min(end, int(self.stops[first]))
            parts.append(self.shard(first)[begin - start : stop - start])
            begin, first = stop, first + 1
        if not parts:
            return np.empty((0, *self.shape[1:]), self.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def take(self, rows: Array) -> Array:
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        owner = np.searchsorted(self.stops, rows, side="right")
        for index in np.unique(owner):
            some = np.flatnonzero(owner == index)
            start = int(self.stops[index - 1]) if index else 0
            out[some] = self.shard(int(index))[rows[some] - start]
        return out

    @property
    def pulled(self) -> int:
        """Bytes that were read from elsewhere."""
        return sum(values.pulled for values in self._opened.values() if isinstance(values, RemoteRows))

    def shard(self, index: int) -> Any:
        """One file, its shape and type checked."""
        if index not in self._opened:
            values = open_rows(self.places[index])
            start = int(self.stops[index - 1]) if index else 0
            expected = (int(self.stops[index]) - start, *self.shape[1:])
            if tuple(values.shape) != expected or values.dtype != self.dtype:
                raise GamlpError(
                    f"holds {values.dtype} of shape {tuple(values.shape)}, not {self.dtype} of shape {expected}",
                    file=self.places[index],
                    hint="it is damaged; build it again",
                )
            if self.checksums is not None and self.places[index].local is not None:
                verify(self.places[index], self.checksums[index], hint="build it again")
            self._opened[index] = values
        return self._opened[index]


class RowSource(Protocol):
    """What can be written: an array, or rows that are picked while they are."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Any: ...


def put_rows(place: Place, values: RowSource) -> list[int]:
    """A .npy file, whole or not at all, written in parts; its bytes and CRC-32."""
    row = int(np.prod(values.shape[1:], dtype=np.int64)) * np.dtype(values.dtype).itemsize
    step = max(1, _PIECE // max(1, row))
    with place.writing() as stream:
        stream.write(npy_header(tuple(values.shape), values.dtype))
        for begin in range(0, len(values) if row else 0, step):
            stream.write(np.ascontiguousarray(values[begin : begin + step]).data)
    return stream.size_and_checksum()


def npy_buffer(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> tuple[memoryview, Array]:
    """Room for a .npy file in memory, and the rows in it: what is computed there is written without a copy."""
    header = npy_header(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    whole = np.empty(len(header) + size, np.uint8)
    whole[: len(header)] = np.frombuffer(header, np.uint8)
    return whole.data, whole[len(header) :].view(dtype).reshape(shape)


def npy_size(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> int:
    """Of the .npy file."""
    return len(npy_header(shape, dtype)) + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
