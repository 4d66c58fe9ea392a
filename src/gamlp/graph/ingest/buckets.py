"""Edges on disk in buckets of rows, then CSR block by block: a relation larger than memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.graph import Block
from gamlp.kernel import build_csr

_MOST_BUCKETS = 256
_CHUNK = 1 << 20
# Bytes an entry takes in sorting: its copy in row order (8, weighted 12), the result (4 or 8), scratch.
_ENTRY, _WEIGHTED_ENTRY = 14, 28
_ROW = 16


def bucket_count(entries: int, rows: int, weighted: bool, memory: int) -> int:
    """How many buckets make one fit the memory, if edges are spread evenly."""
    need = entries * (_WEIGHTED_ENTRY if weighted else _ENTRY) + rows * _ROW
    return min(_MOST_BUCKETS, max(1, rows), max(1, -(-need // max(1, memory))))


class Buckets:
    """(row, neighbour, weight) entries of one relation, appended in order, kept in files by range of rows.

    `others`: neighbours are not among the rows, but nodes of another type, so many; then no entry is a self-loop.
    """

    def __init__(
        self, folder: Path, rows: int, weighted: bool, count: int, memory: int, others: int | None = None
    ) -> None:
        self.folder = folder
        self.rows = rows
        self._drop_loops = others is None
        self._neighbours = rows if others is None else others
        self.weighted = weighted
        self.entries = 0
        self._width = max(1, -(-rows // count))
        self._count = max(1, -(-rows // self._width))
        self._sizes = np.zeros(self._count, np.int64)
        self._most = max(1, memory // (_WEIGHTED_ENTRY if weighted else _ENTRY))
        folder.mkdir(parents=True)

    def add(self, rows: Array, neighbours: Array, weights: Array | None) -> None:
        """Append entries (int32, float32); within a row they keep this order."""
        self.entries += len(rows)
        if self._count == 1:
            self._append(0, rows, neighbours, weights)
            return
        bucket = (rows // self._width).astype(np.uint8)  # one byte: numpy sorts it by counting
        order = np.argsort(bucket, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=self._count))])
        rows, neighbours = rows[order], neighbours[order]
        weights = None if weights is None else weights[order]
        for index in np.flatnonzero(np.diff(bounds)):
            part = slice(bounds[index], bounds[index + 1])
            self._append(int(index), rows[part], neighbours[part], None if weights is None else weights[part])

    def blocks(self) -> Iterator[Block]:
        """Sorted blocks of rows in order; a bucket's files go as soon as its blocks are made."""
        for index in range(self._count):
            start, stop = index * self._width, min(self.rows, (index + 1) * self._width)
            yield from self._sort(index, start, stop)
            for name in ("rows", "neighbours", "weights"):
                self._file(index, name).unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _sort(self, index: int, start: int, stop: int) -> Iterator[Block]:
        rows, neighbours = self._read(index, "rows", np.int32), self._read(index, "neighbours", np.int32)
        weights = self._read(index, "weights", np.float32) if self.weighted else None
        for low, high in self._ranges(rows, start, stop):
            if high - low == 1 and len(rows) > self._most:
                yield self._hub(rows, neighbours, weights, low)
            else:
                yield self._block(rows, neighbours, weights, low, high)

    def _block(self, rows: Array, neighbours: Array, weights: Array | None, start: int, stop: int) -> Block:
        options = {"symmetric": False, "drop_loops": self._drop_loops}
        return Block.from_edges(rows, neighbours, weights, start=start, stop=stop, **options)

    def _ranges(self, rows: Array, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut a bucket that is too large for memory where its entries say so."""
        if len(rows) <= self._most:
            yield start, stop
            return
        counts = np.zeros(stop - start, np.int64)
        for at in range(0, len(rows), _CHUNK):
            counts += np.bincount(rows[at : at + _CHUNK] - start, minlength=stop - start)
        before = np.concatenate([[0], np.cumsum(counts)])
        low = 0
        while low < stop - start:
            high = int(np.searchsorted(before, before[low] + self._most, side="right")) - 1
            high = min(max(high, low + 1), stop - start)
            yield start + low, start + high
            low = high

    def _hub(self, rows: Array, neighbours: Array, weights: Array | None, row: int) -> Block:
        """One row that may be too large by itself: ranges of its neighbours, sorted as if they were rows."""
        size = sum(int(np.count_nonzero(rows[at : at + _CHUNK] == row)) for at in range(0, len(rows), _CHUNK))
        passes = -(-size // self._most)
        if passes <= 1:
            return self._block(rows, neighbours, weights, row, row + 1)
        found, sums = [], []
        step = -(-self._neighbours // passes)
        for low in range(0, self._neighbours, step):
            high = min(self._neighbours, low + step)
            picked, picked_weights = _pick(rows, neighbours, weights, row, low, high, self._drop_loops)
            offsets, _, merged = build_csr(
                picked,
                np.zeros_like(picked),
                picked_weights,
                start=low,
                stop=high,
                symmetric=False,
                drop_loops=False,
            )
            found.append((low + np.flatnonzero(np.diff(offsets))).astype(np.int32))
            if merged is not None:
                sums.append(merged)
        joined = np.concatenate(found)
        return Block(
            row,
            row + 1,
            np.asarray([0, len(joined)], np.int64),
            joined,
            np.concatenate(sums) if sums else None,
        )

    def _append(self, index: int, rows: Array, neighbours: Array, weights: Array | None) -> None:
        self._sizes[index] += len(rows)
        # Opened for every append: hundreds of buckets must not mean hundreds of open files.
        for name, values in (("rows", rows), ("neighbours", neighbours), ("weights", weights)):
            if values is not None:
                with self._file(index, name).open("ab", buffering=0) as file:
                    _write_all(file, np.ascontiguousarray(values).data.cast("B"))

    def _read(self, index: int, name: str, dtype: type) -> Array:
        if self._sizes[index] == 0:
            return np.zeros(0, dtype)
        # Mapped: pages of the file, which the system may drop, instead of memory of our own.
        return np.memmap(self._file(index, name), dtype, "r", shape=(int(self._sizes[index]),))

    def _file(self, index: int, name: str) -> Path:
        return self.folder / f"{index:05d}.{name}"


def _pick(
    rows: Array, neighbours: Array, weights: Array | None, row: int, low: int, high: int, drop_loops: bool
) -> tuple[Array, Array | None]:
    """Neighbours in [low, high) of one row, with their weights, in order."""
    parts, part_weights = [], []
    for at in range(0, len(rows), _CHUNK):
        chunk = slice(at, at + _CHUNK)
        inside = (rows[chunk] == row) & (neighbours[chunk] >= low) & (neighbours[chunk] < high)
        if drop_loops:
            inside &= neighbours[chunk] != row
        parts.append(neighbours[chunk][inside])
        if weights is not None:
            part_weights.append(weights[chunk][inside])
    return np.concatenate(parts), np.concatenate(part_weights) if part_weights else None


def _write_all(file: object, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]  # type: ignore[attr-defined]
