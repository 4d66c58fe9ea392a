"""Slabs by hop → shards by node: `[rows, hops + 1, width]`, checksummed while in cache, written once."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.files import checksum
from gamlp.kernel import NUMPY, scale
from gamlp.propagation.moving import Slab
from gamlp.propagation.passes import Piece
from gamlp.propagation.signals import Signal
from gamlp.propagation.workers import each

Array = np.ndarray[Any, Any]
SHARD_BYTES = 128 << 20
_PIECE_BYTES = 2 << 20  # interleaved, checksummed and written while it is in the cache


@dataclass(frozen=True)
class Source:
    """A piece with its slabs for hops 1.. and the column factors that its state leaves with."""

    piece: Piece
    slabs: Mapping[int, Slab]
    column_factors: Array | None


@dataclass(frozen=True)
class Shard:
    """Positions start..stop of a signal's rows, in one .npy file."""

    name: str
    start: int
    stop: int
    bytes: int = 0
    crc32: int = 0


@dataclass(frozen=True)
class Assembly:
    """Writes the shards of one signal."""

    signal: Signal
    sources: tuple[Source, ...]
    leave: Array | None
    count: int  # nodes of the graph
    folder: Path

    def planned(self) -> list[Shard]:
        """Shards of equal size: their bounds depend on nothing but the signal's shape."""
        rows = self.count if self.signal.rows is None else len(self.signal.rows)
        step = max(1, SHARD_BYTES // self._row_bytes())
        starts = range(0, max(rows, 1), step)
        return [Shard(f"{i:05d}.npy", at, min(at + step, rows)) for i, at in enumerate(starts)]

    def write(self, threads: int) -> Iterator[Shard]:
        """Write what is missing; a shard that is there from an earlier run is checksummed and kept."""
        self.folder.mkdir(exist_ok=True)
        yield from each(threads, self._write_shard, self.planned())

    def _row_bytes(self) -> int:
        return (self.signal.hops + 1) * self.signal.width * np.dtype(NUMPY[self.signal.dtype]).itemsize

    def _write_shard(self, shard: Shard) -> Shard:
        path = self.folder / shard.name
        if path.exists():
            return Shard(shard.name, shard.start, shard.stop, path.stat().st_size, checksum(path))
        beside = path.with_suffix(".part")
        header = _header((shard.stop - shard.start, self.signal.hops + 1, self.signal.width), self.signal.dtype)
        crc, size = zlib.crc32(header), len(header)
        step = max(1, _PIECE_BYTES // self._row_bytes())
        shape = (min(step, shard.stop - shard.start), self.signal.hops + 1, self.signal.width)
        buffer = np.zeros(shape, NUMPY[self.signal.dtype])
        with beside.open("wb", buffering=0) as file:
            _write_all(file, memoryview(header))
            for begin in range(shard.start, shard.stop, step):
                rows = buffer[: min(step, shard.stop - begin)]
                self._fill(rows, begin)
                data = memoryview(rows).cast("B")
                crc, size = zlib.crc32(data, crc), size + len(data)
                _write_all(file, data)
            os.fsync(file.fileno())
        beside.rename(path)
        return Shard(shard.name, shard.start, shard.stop, size, crc)

    def _fill(self, out: Array, begin: int) -> None:
        """out[i, k] = leave[node] · Z^(k)[node], node = the signal's row at begin + i; hop 0 anew from its source."""
        end = begin + len(out)
        for source in self.sources:
            part, columns = source.piece.part, slice(source.piece.first, source.piece.last)
            if part.positions is None:
                nodes: Any = slice(begin, end) if part.rows is None else part.rows[begin:end]
                self._fill_rows(out[:, :, columns], source, nodes, begin, end)
                continue
            first, last = (int(at) for at in np.searchsorted(part.positions, [begin, end]))
            if first == last:
                continue
            assert part.rows is not None
            some = np.zeros((last - first, out.shape[1], source.piece.width), out.dtype)
            self._fill_rows(some, source, part.rows[first:last], first, last)
            out[part.positions[first:last] - begin, :, columns] = some

    def _fill_rows(self, out: Array, source: Source, nodes: Any, begin: int, end: int) -> None:
        piece, dtype = source.piece, self.signal.dtype
        values = piece.part.read(nodes, slice(piece.first, piece.last))
        self._refuse_lost(scale(values, "float32", out[:, 0], dtype), 0)
        leave = None if self.leave is None else np.ascontiguousarray(self.leave[nodes])
        for k in range(1, self.signal.hops + 1):
            slab = source.slabs[k]
            state, rows = slab.values[:, : piece.width], None
            if slab.by_node and not isinstance(nodes, slice):
                rows = nodes
            else:
                state = state[begin:end]
            lost = scale(
                state, dtype, out[:, k], dtype, rows=rows, row_factors=leave, column_factors=source.column_factors
            )
            self._refuse_lost(lost, k)

    def _refuse_lost(self, lost: int, k: int) -> None:
        if lost:
            raise GamlpError(
                f"{lost} values of {self.signal.name} at hop {k} are beyond what float16 holds",
                hint="use --dtype bfloat16 or float32",
            )


def _header(shape: tuple[int, ...], dtype: str) -> bytes:
    # float16 is stored as numpy's own float16; bfloat16, which numpy lacks, as uint16 bits.
    name = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}[dtype]
    text = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(np.dtype(name)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(text, fields)
    return text.getvalue()


def _write_all(file: io.FileIO, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]
