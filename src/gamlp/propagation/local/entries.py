"""Entries of a block by ranges of rows: mapped, or streamed from disk where they do not fit memory beside the state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Block, Relation
from gamlp.io import ReadBuffers, StreamedRows, even_ranges, streamable
from gamlp.progress import Progress, silent

_WORTH_A_CALL = 100_000  # entries: fewer are not worth a call of the kernel
_STREAMED = 8 << 20  # entries that are read at a time: 32 MB of neighbours, two chunks of a hop by windows
_AT_ONCE = 256 << 20  # bytes of entries that all threads together have read
WAITING = 2  # further threads that wait for the disk while others sum


@dataclass(frozen=True)
class Entries:
    """CSR of rows of a block; `start` is the node of its first row, `first` where the wanted rows begin in it."""

    start: int
    first: int
    offsets: Array
    neighbours: Array
    weights: Array | None


class BlockEntries(Protocol):
    """Entries of one block, from wherever they are."""

    @property
    def block(self) -> Block: ...

    def workers(self, threads: int) -> int:
        """Threads that are worth having where `threads` compute."""

    def ranges(self, threads: int) -> list[tuple[int, int]]:
        """Row ranges, counted inside the block."""

    def part(self, begin: int, end: int) -> AbstractContextManager[Entries]:
        """Entries of rows begin..end of the block, good inside the block of code."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Mapped:
    """As they are mapped: the system's cache keeps what it can."""

    block: Block

    def workers(self, threads: int) -> int:
        return threads

    def ranges(self, threads: int) -> list[tuple[int, int]]:
        """Large enough to be worth a call, small enough to be spilled while in cache."""
        parts = max(threads, min(self.block.entries // _WORTH_A_CALL, threads * 64))
        return even_ranges(np.asarray(self.block.offsets), parts)

    @contextmanager
    def part(self, begin: int, end: int) -> Iterator[Entries]:
        # Whole arrays, not subclasses of a map: the kernel takes plain memory.
        weights = None if self.block.weights is None else np.asarray(self.block.weights)
        offsets, neighbours = np.asarray(self.block.offsets), np.asarray(self.block.neighbours)
        yield Entries(self.block.start, begin, offsets, neighbours, weights)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Streamed:
    """Read range by range, past the page cache, while other threads sum what was read before."""

    block: Block
    buffers: ReadBuffers  # of all blocks: few of them are read at once
    _neighbours: StreamedRows = field(init=False)
    _weights: StreamedRows | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_neighbours", StreamedRows(self.block.neighbours, self.buffers))
        weights = self.block.weights
        object.__setattr__(self, "_weights", None if weights is None else StreamedRows(weights, self.buffers))

    def workers(self, threads: int) -> int:
        return threads + WAITING

    def ranges(self, threads: int) -> list[tuple[int, int]]:
        size = (4 if self.block.weights is None else 8) * self.workers(threads)
        step = min(_STREAMED, max(1 << 16, _AT_ONCE // size))
        return even_ranges(np.asarray(self.block.offsets), max(threads, -(-self.block.entries // step)))

    @contextmanager
    def part(self, begin: int, end: int) -> Iterator[Entries]:
        offsets = np.asarray(self.block.offsets[begin : end + 1])
        first, last = int(offsets[0]), int(offsets[-1])
        with ExitStack() as stack:
            neighbours = stack.enter_context(self._neighbours.range(first, last))
            weights = None if self._weights is None else stack.enter_context(self._weights.range(first, last))
            yield Entries(self.block.start + begin, 0, offsets - first, neighbours, weights)

    def close(self) -> None:
        self.buffers.drop()


def entries_of(relation: Relation, room: int | None, progress: Progress = silent) -> tuple[BlockEntries, ...]:
    """Of every block; streamed if the relation's entries do not fit `room` bytes of cache (None: they do).

    Files are verified when they are opened here, which takes a while where they are to be streamed, and is told.
    """
    size = sum(block.entries * (8 if block.weighted else 4) for block in relation.blocks)
    if room is None or size <= room:
        return tuple(Mapped(block) for block in relation.blocks)
    buffers = ReadBuffers()
    found: list[BlockEntries] = []
    for block in relation.blocks:
        progress("check neighbours", len(found), len(relation.blocks), "files")
        found.append(Streamed(block, buffers) if _on_disk(block) else Mapped(block))
    progress("check neighbours", len(found), len(found), "files")
    return tuple(found)


def _on_disk(block: Block) -> bool:
    return streamable(block.neighbours) and (block.weights is None or streamable(block.weights))
