"""What a machine can do at most: lines read at random, bytes to and from the disk, products. Bounds of a large job."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from gamlp.io import DirectReader, DirectWriter, usable_cores

LINE = 64  # bytes
_FILE = 2 << 30


def random_lines(size: int, lines: int = 40_000_000) -> float | None:
    """Lines of a memory of so many bytes that all cores together read at random in a second; None: no compiler."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "gather"
        source = Path(__file__).with_name("gather.cpp")
        subprocess.run([compiler, "-O3", "-std=c++17", "-pthread", str(source), "-o", str(program)], check=True)
        words = [str(program), str(size), str(lines), str(usable_cores())]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return float(said.split()[0])


def products(rows: int = 4096, width: int = 2048, rounds: int = 12) -> float:
    """Multiplications and additions of float32 matrices in a second, by torch with all cores: the best of some."""
    import torch

    torch.set_num_threads(usable_cores())
    left, right = torch.rand(rows, width), torch.rand(width, width)
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begun)
    return 2 * rows * width * width / best


def disk(folder: Path, size: int = _FILE) -> tuple[float, float]:
    """Bytes a second (written, read) past the page cache, the better of two."""
    path = folder / ".bound"
    rates: list[tuple[float, float]] = []
    piece = os.urandom(4 << 20)
    try:
        for _ in range(2):
            begun = time.perf_counter()
            with DirectWriter(path, size) as writer:
                for _ in range(size // len(piece)):
                    writer.reserve(len(piece))[:] = memoryview(piece)
            written = time.perf_counter()
            with DirectReader(path) as reader:
                for at in range(0, size, 16 << 20):
                    reader.read(at, at + (16 << 20))
            rates.append((size / (written - begun), size / (time.perf_counter() - written)))
    finally:
        path.unlink(missing_ok=True)
    return max(write for write, _ in rates), max(read for _, read in rates)
