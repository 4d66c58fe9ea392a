"""Slabs by hop → shards by node: `[rows, hops + 1, width]`, checksummed while in cache, written once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.io import DirectWriter, Place, npy_header, parallel_map
from gamlp.kernel import NUMPY_DTYPES, crc32, scale
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.local.slabs import Reader, Slab
from gamlp.propagation.passes import Piece
from gamlp.propagation.signals import Signal

SHARD_BYTES = 128 << 20
_PIECE_BYTES = 2 << 20  # interleaved, checksummed and written while it is in the cache


@dataclass(frozen=True)
class ShardSource:
    """A piece with its slabs for hops 1.., the column factors that its state leaves with, and its columns' floors."""

    piece: Piece
    slabs: Mapping[int, Slab]
    column_factors: Array | None
    floors: Array | None


@dataclass(frozen=True)
class Shard:
    """Positions start..stop of a signal's rows, in one .npy file."""

    name: str
    start: int
    stop: int
    bytes: int = 0
    crc32: int = 0


def planned_shards(rows: int, row_bytes: int) -> list[Shard]:
    """Shards of equal size for so many rows."""
    step = max(1, SHARD_BYTES // row_bytes)
    starts = range(0, max(rows, 1), step)
    return [Shard(f"{i:05d}.npy", at, min(at + step, rows)) for i, at in enumerate(starts)]


@dataclass(frozen=True)
class Assembly:
    """Writes the shards of one signal."""

    signal: Signal
    sources: tuple[ShardSource, ...]
    leave: Array | None
    count: int  # nodes of the graph
    folder: Place

    def planned(self) -> list[Shard]:
        """Shards of equal size: their bounds depend on nothing but the signal's shape."""
        rows = self.count if self.signal.rows is None else len(self.signal.rows)
        return planned_shards(rows, self._row_bytes())

    def write(self, threads: int) -> Iterator[Shard]:
        """Write all of them."""
        # Two more than cores: while some wait for the disk, others interleave and checksum.
        yield from parallel_map(threads + 2, self.write_shard, self.planned())

    def _row_bytes(self) -> int:
        return (self.signal.hops + 1) * self.signal.width * np.dtype(NUMPY_DTYPES[self.signal.dtype]).itemsize

    def is_there(self, shard: Shard) -> bool:
        """Whether an earlier run has written it: it appears when it is whole."""
        return (self.folder / shard.name).size() == self._whole(shard)

    def _whole(self, shard: Shard) -> int:
        return len(self._header(shard)) + (shard.stop - shard.start) * self._row_bytes()

    def _header(self, shard: Shard) -> bytes:
        shape = (shard.stop - shard.start, self.signal.hops + 1, self.signal.width)
        return npy_header(shape, NUMPY_DTYPES[self.signal.dtype])

    def write_shard(self, shard: Shard) -> Shard:
        """Write one shard; one that is there from an earlier run is checksummed and kept."""
        place = self.folder / shard.name
        shape, header = (self.signal.hops + 1, self.signal.width), self._header(shard)
        whole = self._whole(shard)
        if self.is_there(shard):
            return Shard(shard.name, shard.start, shard.stop, whole, place.checksum())
        crc, size = crc32(header), len(header)
        step = max(1, _PIECE_BYTES // self._row_bytes())
        with ExitStack() as stack:
            path = stack.enter_context(place.atomic_file())
            file = stack.enter_context(DirectWriter(path, whole, _PIECE_BYTES))
            readers = [
                {k: stack.enter_context(closing(slab.open())) for k, slab in source.slabs.items()}
                for source in self.sources
            ]
            file.reserve(len(header))[:] = np.frombuffer(header, np.uint8)
            for begin in range(shard.start, shard.stop, step):
                count = min(step, shard.stop - begin)
                data = file.reserve(count * self._row_bytes())
                self._fill(data.view(NUMPY_DTYPES[self.signal.dtype]).reshape(count, *shape), begin, readers)
                crc, size = crc32(data.data, crc), size + len(data)
        return Shard(shard.name, shard.start, shard.stop, size, crc)

    def _fill(self, out: Array, begin: int, readers: list[dict[int, Reader]]) -> None:
        """out[i, k] = leave[node] · Z^(k)[node], node = the signal's row at begin + i; hop 0 anew from its source."""
        end = begin + len(out)
        for source, hops in zip(self.sources, readers):
            part, columns = source.piece.part, slice(source.piece.first, source.piece.last)
            if part.positions is None:
                nodes: Any = slice(begin, end) if part.rows is None else part.rows[begin:end]
                self._fill_rows(out[:, :, columns], source, hops, nodes, begin, end)
                continue
            first, last = (int(at) for at in np.searchsorted(part.positions, [begin, end]))
            if first == last:
                continue
            assert part.rows is not None
            some = np.zeros((last - first, out.shape[1], source.piece.width), out.dtype)
            self._fill_rows(some, source, hops, part.rows[first:last], first, last)
            out[part.positions[first:last] - begin, :, columns] = some

    def _fill_rows(
        self, out: Array, source: ShardSource, readers: dict[int, Reader], nodes: Any, begin: int, end: int
    ) -> None:
        piece, dtype = source.piece, self.signal.dtype
        values = piece.part.first.read(nodes, slice(piece.first, piece.last))
        lost = scale(values, "float32", out[:, 0], dtype, column_floors=source.floors)
        refuse_lost(lost, f"{self.signal.name} at hop 0", dtype)
        leave = None if self.leave is None else np.ascontiguousarray(self.leave[nodes])
        numbers = None if isinstance(nodes, slice) else nodes
        for k in range(1, self.signal.hops + 1):
            state, rows = readers[k].rows(begin, end, numbers)
            lost = scale(
                state[:, : piece.width],
                dtype,
                out[:, k],
                dtype,
                rows=rows,
                row_factors=leave,
                column_factors=source.column_factors,
                column_floors=source.floors,
            )
            refuse_lost(lost, f"{self.signal.name} at hop {k}", dtype)
