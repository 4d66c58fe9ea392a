"""How fast a machine is: measured now by the engine's own loops, or read from recorded.yaml, with its source."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.io import DirectReader, DirectWriter, parallel_map
from gamlp.kernel import NUMPY_DTYPES, HopTask, hop
from gamlp.propagation import allocate
from gamlp.recipe import load_yaml

_STATE = 192 << 20  # bytes that rows are gathered from: more than caches hold
_ENTRIES = 3_000_000  # neighbours of one measurement
_DEGREE = 15
_NARROW, _WIDE = 64, 384  # bytes a row: two points of a line
_FILE = 192 << 20  # bytes written and read back
_PATIENCE = 0.4  # seconds after which a slow disk is believed


@dataclass(frozen=True)
class Rates:
    """Bytes or rows a second; a neighbour takes `entry` + `entry_byte` · bytes of its row, on all cores together."""

    entry: float
    entry_byte: float
    memory: float  # bytes of a state that are written front to back
    write: float  # of the disk, past the page cache
    read: float
    flops: float  # of training, where no step of the model was timed
    ingest: float  # edges of tables
    ingest_cells: float  # numbers of tables
    generate: float  # edges
    generate_cells: float
    cores: int
    storage: float  # bytes between an executor of Spark and shared storage
    spark_start: float  # seconds of a step on Spark before its first task ends
    spark_ingest: float  # edges of tables, a core of Spark's
    spark_predict: float  # rows, a core of Spark's
    sources: dict[str, str]

    def entry_seconds(self, row_bytes: int) -> float:
        """Seconds a neighbour."""
        return self.entry + self.entry_byte * row_bytes

    @property
    def measured(self) -> bool:
        return self.sources["sums"].startswith("measured")


@cache
def _recorded() -> dict[str, Any]:
    text = resources.files("gamlp.sizing").joinpath("recorded.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = load_yaml(text)
    return loaded


def recorded_rates(cores: int) -> Rates:
    """Rates of the machine that recorded.yaml names, for as many cores as this one has."""
    found = {name: dict(part) for name, part in _recorded().items()}
    own = found["sums"].pop("cores")
    sources = {name: part.pop("source") for name, part in found.items()}
    values: dict[str, Any] = {key: float(value) for part in found.values() for key, value in part.items()}
    for name in ("entry", "entry_byte"):
        values[name] *= own / cores
    values["flops"] *= cores / own
    return Rates(**values, cores=cores, sources=sources)


def measured_rates(cores: int, dtype: str, folder: Path) -> Rates:
    """Of this machine, now, in about a second: sums of random neighbours' rows, and the disk of this folder."""
    rates = recorded_rates(cores)
    narrow, wide = (_seconds_of_an_entry(size, dtype, cores) for size in (_NARROW, _WIDE))
    slope = max(0.0, (wide - narrow) / (_WIDE - _NARROW))
    rates = replace(rates, entry=max(0.0, narrow - slope * _NARROW), entry_byte=slope)
    rates.sources["sums"] = f"measured now: {_ENTRIES:,} random neighbours in {_STATE >> 20} MiB, {cores} cores"
    try:
        write, read = _disk(folder)
    except OSError:  # a folder that nobody may write to, or a full disk
        return rates
    rates.sources["disk"] = f"measured now: up to {_FILE >> 20} MiB in {folder}"
    return replace(rates, write=write, read=read)


def _seconds_of_an_entry(row_bytes: int, dtype: str, cores: int) -> float:
    """By the engine's own kernel, the better of two rounds; neighbours are random, so that caches help little."""
    width = row_bytes // np.dtype(NUMPY_DTYPES[dtype]).itemsize
    nodes, rows = _STATE // row_bytes, _ENTRIES // _DEGREE
    state, into = allocate(nodes, width, dtype), allocate(rows, width, dtype)
    state.view(np.uint8)[:] = 0  # pages that nobody wrote are all the same one
    into.view(np.uint8)[:] = 0
    offsets = np.arange(rows + 1, dtype=np.int64) * _DEGREE
    neighbours = np.random.default_rng(0).integers(0, nodes, rows * _DEGREE, dtype=np.int32)
    task = HopTask(offsets, neighbours, None, None, 0, False, state, into, dtype)
    step = -(-rows // (16 * cores))
    ranges = [(begin, min(begin + step, rows)) for begin in range(0, rows, step)]
    best = float("inf")
    for _ in range(2):
        begun = time.perf_counter()
        for _ in parallel_map(cores, lambda limits: hop(task, *limits), ranges):
            pass
        best = min(best, time.perf_counter() - begun)
    return best / (rows * _DEGREE)


def _disk(folder: Path) -> tuple[float, float]:
    """Bytes a second written and read past the page cache; a slow disk is asked for less."""
    with tempfile.TemporaryDirectory(prefix=".gamlp-plan-", dir=folder) as work:
        path = Path(work) / "bytes"
        block = np.random.default_rng(0).integers(0, 256, 8 << 20, dtype=np.uint8)
        begun, written = time.perf_counter(), 0
        with DirectWriter(path, 0) as writer:
            while written < _FILE and time.perf_counter() - begun < _PATIENCE:
                writer.append(block)
                written += len(block)
        write = written / (time.perf_counter() - begun)
        begun, got = time.perf_counter(), 0
        with DirectReader(path) as reader:
            while got < written and time.perf_counter() - begun < _PATIENCE:
                got += len(reader.read(got, min(got + (8 << 20), written)))
        return write, got / (time.perf_counter() - begun)
