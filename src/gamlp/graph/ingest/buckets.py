"""Edges on disk in buckets of rows, then CSR block by block: a relation larger than memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.graph.graph import Block
from gamlp.kernel import spread_rows

_MOST_BUCKETS = 256
_CHUNK = 1 << 20
# Bytes an entry takes in sorting: its copy in row order (8, weighted 12), the result (4 or 8), scratch, and the result
# of the bucket before, which is being written meanwhile.
_ENTRY, _WEIGHTED_ENTRY = 18, 36
_ROW = 16
_PLACE, _WEIGHTED_PLACE = 6, 22  # bytes of a neighbour of a hub: seen (1), sum (8), and those that are found
_LARGEST = 256 << 20  # bytes that sorting a bucket takes: more memory makes it slower, as caches hold less of it


def bucket_count(entries: int, rows: int, weighted: bool, memory: int) -> int:
    """How many buckets make one fit the memory, if edges are spread evenly."""
    need = entries * (_WEIGHTED_ENTRY if weighted else _ENTRY) + rows * _ROW
    return min(_MOST_BUCKETS, max(1, rows), max(1, -(-need // max(1, min(memory, _LARGEST)))))


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
        self._memory = memory
        entry, copied = (_WEIGHTED_ENTRY, 12) if weighted else (_ENTRY, 8)
        self._most = max(1, memory // entry)
        self._most_picked = max(1, memory // (entry + copied))
        folder.mkdir(parents=True)

    def add(self, rows: Array, neighbours: Array, weights: Array | None, symmetric: bool = False) -> None:
        """Append entries (int32, float32), `symmetric`: both ways; within a row they keep this order."""
        begin, rows, neighbours, weights = spread_rows(
            rows, neighbours, weights, symmetric=symmetric, width=self._width, count=self._count
        )
        self.entries += len(rows)
        for index in np.flatnonzero(np.diff(begin)):
            part = slice(begin[index], begin[index + 1])
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
        if self._sizes[index] <= self._most:
            rows, neighbours = self._read(index, "rows", np.int32), self._read(index, "neighbours", np.int32)
            weights = self._read(index, "weights", np.float32) if self.weighted else None
            yield self._block(rows, neighbours, weights, start, stop)
            return
        # Too large for memory: read some entries at a time, once for every range of rows.
        for low, high, entries in self._ranges(index, start, stop):
            if entries > self._most_picked:
                yield self._hub(index, low)
            else:
                yield self._block(*self._pick(index, low, high), low, high)

    def _block(self, rows: Array, neighbours: Array, weights: Array | None, start: int, stop: int) -> Block:
        options = {"symmetric": False, "drop_loops": self._drop_loops}
        return Block.from_edges(rows, neighbours, weights, start=start, stop=stop, **options)

    def _ranges(self, index: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(first row, row behind the last, entries): ranges whose entries fit in memory, or of one row."""
        counts = np.zeros(stop - start, np.int64)
        for rows, _, _ in self._chunks(index):
            counts += np.bincount(rows - start, minlength=stop - start)
        before = np.concatenate([[0], np.cumsum(counts)])
        low = 0
        while low < stop - start:
            high = int(np.searchsorted(before, before[low] + self._most_picked, side="right")) - 1
            high = min(max(high, low + 1), stop - start)
            yield start + low, start + high, int(before[high] - before[low])
            low = high

    def _pick(self, index: int, low: int, high: int) -> tuple[Array, Array, Array | None]:
        """Entries of a range of rows, in order."""
        parts = []
        for rows, neighbours, weights in self._chunks(index):
            inside = (rows >= low) & (rows < high)
            parts.append((rows[inside], neighbours[inside], None if weights is None else weights[inside]))
        rows, neighbours = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        return rows, neighbours, np.concatenate([part[2] for part in parts]) if self.weighted else None

    def _hub(self, index: int, row: int) -> Block:
        """One row with more entries than fit in memory: a place for every neighbour, so that repeats take none.

        Weights add up in the order of the entries, in float64, as the kernel adds them.
        """
        step = max(1, self._memory // (_WEIGHTED_PLACE if self.weighted else _PLACE))
        found, sums = [], []
        for low in range(0, self._neighbours, step):
            high = min(self._neighbours, low + step)
            seen = np.zeros(high - low, bool)
            total = np.zeros(high - low) if self.weighted else None
            for rows, neighbours, weights in self._chunks(index):
                inside = (rows == row) & (neighbours >= low) & (neighbours < high)
                if self._drop_loops:
                    inside &= neighbours != row
                places = neighbours[inside] - low
                seen[places] = True
                if total is not None and weights is not None:
                    np.add.at(total, places, weights[inside].astype(np.float64))
            places = np.flatnonzero(seen)
            found.append((low + places).astype(np.int32))
            if total is not None:
                with np.errstate(over="ignore"):  # told by who writes the block
                    sums.append(total[places].astype(np.float32))
        joined = np.concatenate(found)
        offsets = np.asarray([0, len(joined)], np.int64)
        return Block(row, row + 1, offsets, joined, np.concatenate(sums) if sums else None)

    def _chunks(self, index: int) -> Iterator[tuple[Array, Array, Array | None]]:
        """(rows, neighbours, weights) of a bucket, some at a time; read, not mapped: pages of a map count as ours."""
        names = ["rows", "neighbours", *(["weights"] if self.weighted else [])]
        with ExitStack() as stack:
            files = [stack.enter_context(self._file(index, name).open("rb")) for name in names]
            for _ in range(0, int(self._sizes[index]), _CHUNK):
                rows, neighbours = (np.fromfile(file, np.int32, _CHUNK) for file in files[:2])
                yield rows, neighbours, np.fromfile(files[2], np.float32, _CHUNK) if self.weighted else None

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


def _write_all(file: object, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]  # type: ignore[attr-defined]
