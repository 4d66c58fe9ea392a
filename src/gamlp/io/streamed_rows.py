"""Rows of a mapped .npy file that no cache can hold: ranges are read past the page cache, into buffers that are kept.

A sweep over a file that is larger than the memory left evicts every page before it is asked for again, and takes the
pages of others with it. Read directly it costs the disk's time and nothing else.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io.direct import DirectReader


def streamable(values: Any) -> bool:
    """Whether an array is a whole mapped file, whose place on disk is known."""
    return isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap) and values.filename is not None


class StreamedRows:
    """Stands for a mapped array: slices of rows are read from the disk, other rows from the map.

    Any number of threads may read; there are as many readers as ever read at once.
    """

    def __init__(self, values: Any) -> None:
        assert streamable(values)
        self._mapped = values
        self.shape: tuple[int, ...] = values.shape
        self.dtype: np.dtype[Any] = values.dtype
        self._row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        self._free: list[DirectReader] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.shape[0]

    @contextmanager
    def range(self, begin: int, end: int) -> Iterator[Array]:
        """Rows begin..end, good inside the block."""
        with self._lock:
            reader = self._free.pop() if self._free else None
        if reader is None:
            reader = DirectReader(Path(str(self._mapped.filename)))
        try:
            start = int(self._mapped.offset)
            data = reader.read(start + begin * self._row_bytes, start + end * self._row_bytes)
            yield data.view(self.dtype).reshape(end - begin, *self.shape[1:])
        finally:
            with self._lock:
                self._free.append(reader)

    def __getitem__(self, key: Any) -> Array:
        """A copy of what a mapped array would show."""
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            return np.array(self._mapped[key])
        begin, end, _ = rows.indices(len(self))
        with self.range(begin, max(begin, end)) as values:
            return np.array(values[(slice(None), *rest)])

    def close(self) -> None:
        """Close the readers."""
        with self._lock:
            while self._free:
                self._free.pop().close()
