"""Memory that a training step frees is kept for the next step.

glibc hands large blocks back to the system as soon as they are freed, and the system gives zeroed pages again at the
next request: every activation of every step is paid for twice, once in page faults and once in work. While a model
is trained or evaluated the blocks stay in the process; afterwards they go back.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # names of glibc's mallopt
_NEVER = 2**31 - 1
# Where glibc's own adjustment of these ends up when large blocks are freed, and its number of maps.
_USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20, _MMAP_MAX: 65536}

_lock = threading.Lock()
_users = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Freed blocks stay in the process until the last of these ends; without glibc nothing changes."""
    global _users
    library = _glibc()
    with _lock:
        _users += 1
        if library is not None and _users == 1:
            library.mallopt(_MMAP_MAX, 0)
            library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if library is not None and _users == 0:
                for name, value in _USUAL.items():
                    library.mallopt(name, value)
                library.malloc_trim(0)


def _glibc() -> Any:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version") else None
