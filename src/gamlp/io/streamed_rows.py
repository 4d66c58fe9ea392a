"""Rows of a mapped .npy file that no cache can hold: ranges are read past the page cache, into buffers that are kept.

A sweep over a file that is larger than the memory left evicts every page before it is asked for again, and takes the
pages of others with it. Read directly it costs the disk's time and nothing else.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io.direct import DirectReader
from gamlp.io.row_arrays import RowShards


def streamable(values: Any) -> bool:
    """Whether an array is a whole mapped file, or several one after the other, whose places on disk are known."""
    if isinstance(values, RowShards):
        return all(place.local is not None for place in values.places)
    owner: Any = values.base if isinstance(values, np.memmap) else None
    return isinstance(owner, mmap.mmap) and values.filename is not None


def stream_rows(values: Any) -> StreamedRows | StreamedShards:
    """A `streamable` array, read past the page cache."""
    return StreamedShards(values) if isinstance(values, RowShards) else StreamedRows(values)


class ReadBuffers:
    """Memory that ranges are read into, kept from one to the next: as many buffers as ranges are ever held at once.

    Streams that are read in turns share them. With some for each, a graph in many files would hold many times as much.
    """

    def __init__(self) -> None:
        self._free: list[Array] = []
        self._lock = threading.Lock()

    @contextmanager
    def reader(self, path: Path) -> Iterator[DirectReader]:
        """Reads a file into one of them; what was read is good inside the block."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        with DirectReader(path, buffer) as reader:
            try:
                yield reader
            finally:
                with self._lock:
                    self._free.append(reader.buffer)

    @property
    def held(self) -> int:
        """Bytes of those that nobody reads into."""
        with self._lock:
            return sum(buffer.nbytes for buffer in self._free)

    def drop(self) -> None:
        """Give their memory back."""
        with self._lock:
            self._free.clear()


class StreamedRows:
    """Stands for a mapped array: slices of rows are read from the disk, other rows from the map.

    Any number of threads may read.
    """

    def __init__(self, values: Any, buffers: ReadBuffers | None = None) -> None:
        assert streamable(values)
        self._mapped = values
        self.shape: tuple[int, ...] = values.shape
        self.dtype: np.dtype[Any] = values.dtype
        self._row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        self._buffers = ReadBuffers() if buffers is None else buffers
        self._uncache()

    def _uncache(self) -> None:
        """What verifying left in the page cache would only break up the memory that huge pages are made of."""
        if hasattr(os, "posix_fadvise"):
            file = os.open(str(self._mapped.filename), os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)

    def __len__(self) -> int:
        return self.shape[0]

    @contextmanager
    def range(self, begin: int, end: int) -> Iterator[Array]:
        """Rows begin..end, good inside the block."""
        start = int(self._mapped.offset)
        with self._buffers.reader(Path(str(self._mapped.filename))) as reader:
            data = reader.read(start + begin * self._row_bytes, start + end * self._row_bytes)
            yield data.view(self.dtype).reshape(end - begin, *self.shape[1:])

    def __getitem__(self, key: Any) -> Array:
        """A copy of what a mapped array would show."""
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            return np.array(self._mapped[key])
        begin, end, _ = rows.indices(len(self))
        with self.range(begin, max(begin, end)) as values:
            return np.array(values[(slice(None), *rest)])

    def close(self) -> None:
        """Give the buffers' memory back."""
        self._buffers.drop()


class StreamedShards:
    """The same of several files one after the other, each opened, and verified, when it is first read."""

    def __init__(self, shards: RowShards) -> None:
        self._shards = shards
        self.shape, self.dtype = shards.shape, shards.dtype
        self._streams: dict[int, StreamedRows] = {}
        self._buffers = ReadBuffers()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        """A copy of what the shards would show."""
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            return np.array(self._shards[key])
        begin, end, _ = rows.indices(len(self))
        parts = []
        while begin < end:
            index = int(np.searchsorted(self._shards.stops, begin, side="right"))
            start = int(self._shards.stops[index - 1]) if index else 0
            stop = min(end, int(self._shards.stops[index]))
            parts.append(self._stream(index)[(slice(begin - start, stop - start), *rest)])
            begin = stop
        if not parts:
            return np.array(self._shards[(slice(0, 0), *rest)] if rest else self._shards[0:0])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _stream(self, index: int) -> StreamedRows:
        with self._lock:
            if index not in self._streams:
                self._streams[index] = StreamedRows(self._shards.shard(index), self._buffers)
            return self._streams[index]

    def close(self) -> None:
        """Give the buffers' memory back."""
        with self._lock:
            self._streams.clear()
        self._buffers.drop()
