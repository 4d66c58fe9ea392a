"""How much memory there is to use."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> int:
    """Bytes free for use now: of the machine, or of the control group this process lives in."""
    found = [_meminfo(), *_group_room()]
    known = [size for size in found if size is not None]
    return min(known) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def anonymous_memory() -> int:
    """RssAnon of this process: memory that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _group_room() -> list[int | None]:
    """Limit minus use, for cgroup version 2 and 1."""
    room: list[int | None] = []
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            room.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # absent, or 'max'
            room.append(None)
    return [size for size in room if size is not None and size > 0]
