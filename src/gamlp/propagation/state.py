"""State matrices: private anonymous memory on huge pages, `[nodes, columns]` in the storage type."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.kernel import NUMPY
from gamlp.sizes import format_size

Array = np.ndarray[Any, Any]


def allocate(rows: int, columns: int, storage: str) -> Array:
    """Fresh zeros, on huge pages where the system grants them: fewer misses on random reads, fewer faults."""
    dtype = np.dtype(NUMPY[storage])
    size = rows * columns * dtype.itemsize
    if size == 0:
        return np.zeros((rows, columns), dtype)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise GamlpError(
            f"the system refuses {format_size(size)} of memory ({error.strerror})", hint="give a smaller --memory"
        ) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(rows, columns)
