"""The machine: what it is, how fast it reads memory and writes its disk."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gamlp.io import DirectReader, DirectWriter, parallel_map, usable_cores
from gamlp.kernel import instructions
from gamlp.propagation import allocate
from loops import loops

_RANGE, _PIECE = 64 << 20, 8 << 20  # bytes that a thread reads of a file, and at a time


def describe() -> str:
    """Processor, cores, memory, instruction set in use."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = names[0] if names else platform.processor()
    return f"{name}, {usable_cores()} cores, {memory:.0f} GiB, {instructions()}"


def versions(*more: str) -> str:
    """What the contestants are; of `more` those that are installed."""
    names = ["gamlp", "numpy", "scipy", "torch", "torch-geometric", *(name for name in more if find_spec(name))]
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names)


def best(work: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


class Reader:
    """All cores together read 1 GiB on huge pages, by vectors from front to back; the fastest of all calls is kept."""

    SIZE = 1 << 30

    def __init__(self) -> None:
        self.cores = usable_cores()
        self.memory = allocate(self.cores, self.SIZE // 4 // self.cores, "float32")
        self.memory[:] = 1.0
        self.pool = ThreadPoolExecutor(self.cores)
        self.bandwidth = 0.0  # bytes a second

    def __call__(self) -> None:
        begun = time.perf_counter()
        list(self.pool.map(lambda part: loops().read_memory(part.ctypes.data, part.nbytes // 8), self.memory))
        self.bandwidth = max(self.bandwidth, self.SIZE / (time.perf_counter() - begun))


@cache
def reader() -> Reader:
    """The one of this process."""
    loops()
    return Reader()


def last_cache() -> int:
    """Bytes of the largest cache; 32 MiB where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size.rstrip("K")) << 10 for size in sizes if size.endswith("K")), default=32 << 20)


def disk_seconds(folder: Path, size: int) -> tuple[float, float]:
    """Seconds to write and sync `size` bytes from front to back, and to read them again.

    Writing: the faster of past and through the page cache. Reading: past it, by as many threads as a store is verified.
    """
    piece = np.random.default_rng(0).integers(0, 256, 4 << 20, dtype=np.uint8)
    path = folder / "write-test"

    def direct() -> None:
        with DirectWriter(path, size) as writer:
            for _ in range(size // len(piece)):
                writer.reserve(len(piece))[:] = piece

    def cached() -> None:
        with path.open("wb", buffering=0) as file:
            for _ in range(size // len(piece)):
                file.write(piece)
            os.fsync(file.fileno())

    def range_read(begin: int) -> None:
        with DirectReader(path) as reader:
            for at in range(begin, min(begin + _RANGE, size), _PIECE):
                reader.read(at, at + _PIECE)

    write = best(cached, 1)
    path.unlink()
    write = min(write, best(direct, 2))
    read = best(lambda: parallel_map(usable_cores() + 2, range_read, range(0, size, _RANGE)), 2)
    path.unlink()
    return write, read
