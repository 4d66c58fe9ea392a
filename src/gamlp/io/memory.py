"""Memory: how much there is, how much was used, and freed blocks that are kept for the next use."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def available_memory() -> int:
    """Bytes free for use now: of the machine, or of the control group this process lives in."""
    found = [_meminfo(), *_group_room()]
    known = [size for size in found if size is not None]
    return min(known) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def anonymous_memory() -> int:
    """RssAnon of this process: memory that no file backs."""
    return _status("RssAnon")


# What torch, Arrow, BLAS, the loader of libraries and Python's threads say when no more memory is given.
_ENDED = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "can't start new thread",
    "failed to map segment",
    "bad_alloc",
    "malloc of size",
    "realloc of size",
)


def memory_ended(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, says that there was no more memory, or no room for a thread.

    >>> memory_ended(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    True
    >>> memory_ended(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        said = str(error).lower() if isinstance(error, (RuntimeError, OSError, ImportError)) else ""
        if any(words in said for words in _ENDED):
            return True
        error = error.__cause__
    return False


class PeakMemory:
    """Resident memory of this process at its most, above what it held when the block began.

    >>> with PeakMemory() as peak:
    ...     held = bytearray(50 << 20)
    >>> peak.bytes > 40 << 20
    True
    """

    bytes: int = 0

    def __enter__(self) -> PeakMemory:
        with suppress(OSError):  # on another system the mark is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = max(0, _status("VmHWM") - self._before)


def _status(name: str) -> int:
    """A line of this process's status, in bytes; 0 where the system keeps none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _group_room() -> list[int]:
    """Limit minus use of this process's control group and of those around it, versions 1 and 2."""
    room = []
    for folder, limit, used in _groups():
        try:
            most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
        except (OSError, ValueError):  # absent, or 'max'
            continue
        room.append(max(0, most - taken + _reclaimable(folder)))
    return room


def _groups() -> list[tuple[Path, str, str]]:
    found = [(_GROUPS, "memory.max", "memory.current")]
    found.append((_GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))
    try:
        lines = _OWN_GROUP.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:  # 4:memory:/path in version 1, 0::/path in version 2
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            root, limit, used = found[0] if controllers == "" else found[1]
            own = root / path.lstrip("/")
            found += [(place, limit, used) for place in (own, *own.parents) if root in place.parents]
    return found


def _reclaimable(folder: Path) -> int:
    """The page cache counts as used, though the system gives it back when memory is asked for."""
    try:
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    before = "total_" if "total_active_file" in counts else ""
    return sum(int(counts.get(f"{before}{name}", 0)) for name in ("active_file", "inactive_file"))


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # names of glibc's mallopt
_NEVER = 2**31 - 1
# Where glibc's own adjustment of these ends up when large blocks are freed, and its number of maps.
_USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20, _MMAP_MAX: 65536}

_lock = threading.Lock()
_users = 0


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Freed blocks stay in the process until the last of these ends; without glibc nothing changes.

    glibc hands large blocks back to the system as soon as they are freed, and the system gives zeroed pages again at
    the next request: every activation of every step is paid for twice, once in page faults and once in work.
    """
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
