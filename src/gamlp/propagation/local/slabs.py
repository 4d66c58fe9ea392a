"""Slabs: the kept rows of one piece at one hop, as state (Z, not X), in memory or on disk."""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import DirectReader, DirectWriter, atomic_file, format_size
from gamlp.kernel import NUMPY_DTYPES


def allocate(rows: int, columns: int, storage: str) -> Array:
    """Fresh zeros, on huge pages where the system grants them: fewer misses on random reads, fewer faults."""
    dtype = np.dtype(NUMPY_DTYPES[storage])
    size = rows * columns * dtype.itemsize
    if size == 0:
        return np.zeros((rows, columns), dtype)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise GamlpError(
            f"the system refuses {format_size(size)} of memory ({error.strerror})", hint="give a smaller --memory"
        ) from None  # this sentence says more than that of any memory that ends
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(rows, columns)


_STEP_BYTES = 2 << 20


class Reader(Protocol):
    """Rows of a slab, as (values, rows of values or None for all): good until the next call."""

    def rows(self, begin: int, end: int, nodes: Array | None) -> tuple[Array, Array | None]: ...

    def close(self) -> None: ...


class Slab(Protocol):
    def open(self) -> Reader:
        """A reader for one thread."""


@dataclass(frozen=True)
class Resident:
    """A slab that is (a part of) a state matrix: by node, or already by position among the part's rows."""

    values: Array
    by_node: bool

    def open(self) -> Resident:
        return self

    def rows(self, begin: int, end: int, nodes: Array | None) -> tuple[Array, Array | None]:
        if self.by_node and nodes is not None:
            return self.values, nodes
        return self.values[begin:end], None

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class OnDisk:
    """A slab file: rows by position, `width` columns of the storage type."""

    path: Path
    width: int
    storage: str

    def open(self) -> _FileReader:
        return _FileReader(self)


class _FileReader:
    def __init__(self, slab: OnDisk) -> None:
        self._reader = DirectReader(slab.path)
        self._dtype = np.dtype(NUMPY_DTYPES[slab.storage])
        self._width = slab.width

    def rows(self, begin: int, end: int, nodes: Array | None) -> tuple[Array, Array | None]:
        row = self._width * self._dtype.itemsize
        data = self._reader.read(begin * row, end * row)
        return data.view(self._dtype).reshape(-1, self._width), None

    def close(self) -> None:
        self._reader.close()


def spill(path: Path, state: Array, rows: Array | None) -> None:
    """Write rows of a state (None: all); a slab that is there is complete."""
    count = len(state) if rows is None else len(rows)
    row = state.shape[1] * state.dtype.itemsize
    step = max(1, _STEP_BYTES // row)
    with atomic_file(path) as new, DirectWriter(new, count * row) as writer:
        if rows is None and state.flags.c_contiguous:
            writer.append(state.reshape(-1).view(np.uint8))
            count = 0
        for begin in range(0, count, step):
            end = min(begin + step, count)
            into = writer.reserve((end - begin) * row).view(state.dtype).reshape(end - begin, -1)
            if rows is None:
                into[:] = state[begin:end]
            else:
                np.take(state, rows[begin:end], axis=0, out=into)
