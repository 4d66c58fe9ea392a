"""A .npy file that is written from front to back, past the page cache, and summed on the way."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io.checksums import _crc32, combined
from gamlp.io.direct import DirectWriter
from gamlp.io.files import npy_header

_PIECE = 4 << 20  # bytes that are summed and copied while they are in the processor's cache


class StreamedArray:
    """Rows of one shape, appended. `expected` rows have their space reserved; when it ends, `rows` are there.

    `crc32` is that of the whole file, known when the block has ended well.
    """

    def __init__(self, path: Path, row: tuple[int, ...], dtype: np.typing.DTypeLike, expected: int) -> None:
        self.path, self.rows, self.crc32 = path, 0, 0
        self._row, self._dtype, self._expected = row, np.dtype(dtype), expected
        self._bytes = self._body = 0
        self._opened = ExitStack()

    def __enter__(self) -> StreamedArray:
        header = npy_header((self._expected, *self._row), self._dtype)
        row = int(np.prod(self._row, dtype=np.int64)) * self._dtype.itemsize
        size = len(header) + self._expected * row
        self._file = self._opened.enter_context(DirectWriter(self.path, size, min(_PIECE, size)))
        self._file.append(np.frombuffer(header, np.uint8))
        return self

    def append(self, values: Array) -> None:
        """Rows of the type of the file."""
        if values.dtype != self._dtype or values.shape[1:] != self._row:
            raise ValueError(f"{values.dtype} {values.shape} for rows of {self._row} {self._dtype}")
        data: Any = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        for begin in range(0, len(data), _PIECE):
            piece = data[begin : begin + _PIECE]
            self._body = _crc32(piece, self._body)
            self._file.append(piece)
        self.rows, self._bytes = self.rows + len(values), self._bytes + len(data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.__exit__(kind, error, at)
        if kind is not None:
            return
        header = npy_header((self.rows, *self._row), self._dtype)
        if self.rows != self._expected:  # numpy leaves room for any number of rows
            with self.path.open("r+b") as file:
                file.write(header)
                file.flush()
                os.fsync(file.fileno())
        self.crc32 = combined(_crc32(header), self._body, self._bytes)
