"""How large things are on Spark: blocks, memory of a task, bytes that move at a hop, storage. Arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.io import GAP, LONGEST, expected_read
from gamlp.propagation.store.shards import SHARD_BYTES

MEMORY = 1 << 30  # of a task, where nothing is said
# A place among the needed rows, and what they are sorted by source with: the places again, their order, whose they are,
# and one of these in that order. Weights are there three times then.
_OF_PLACE, _OF_SORTING, _OF_WEIGHT = 4, 16, 12
_OF_A_PROCESS = 500 << 20  # bytes of Python and its libraries, a core
_OF_NEEDED = 4  # bytes of a row number
_OF_A_TASK = 4 << 30  # bytes of neighbours' rows that make a task worth its cost: about a second of work


def state_row_bytes(columns: int, dtype: str) -> int:
    """A row of sums while it is computed, and as it is stored: half types are summed as float32."""
    return columns * (4 if dtype == "float32" else 6)


def least_blocks(nodes: int, entries: int, row_bytes: int, memory: int, weighted: bool = False) -> int:
    """Blocks of which one task holds: its own sums, the rows of one other block, and its entries."""
    return max(1, -(-whole_bytes(nodes, entries, row_bytes, weighted) // memory))


def full_rounds(blocks: int, slots: int) -> int:
    """As many blocks or some more: where `slots` tasks run at once, none of them waits for the last blocks."""
    return -(-blocks // slots) * slots


def small_blocks_together(blocks: int, moved: int, slots: int) -> int:
    """Blocks that share a task of Spark's, so that its own cost hardly counts; never so many that a slot is idle."""
    return max(1, min(-(-blocks // max(1, slots)), _OF_A_TASK // max(1, moved)))


def whole_bytes(nodes: int, entries: int, row_bytes: int, weighted: bool = False) -> int:
    """What all tasks together would hold at once: 2 · nodes · row + entries · 20, with weights 32."""
    return 2 * nodes * row_bytes + entries * _OF_PLACE + sorting_bytes(entries, weighted)


def sorting_bytes(entries: int, weighted: bool) -> int:
    """What entries are sorted with by the block that they lead to, where needed rows come some blocks at a time."""
    return entries * (_OF_SORTING + (_OF_WEIGHT if weighted else 0))


def executor_memory(cores: int, memory: int) -> int:
    """What Python needs on an executor, beside Java's own."""
    return cores * (memory + _OF_A_PROCESS)


def parcels_pay(wanted: Array, rows: Array, row_bytes: int, used: Array | None = None) -> Array:
    """Whether `wanted` of `rows` rows, lying anywhere, cost less as a parcel: written, and read with one request.

    `used`: those of them that are read, where a hop asks for some rows alone.
    """
    read, requests = expected_read(wanted if used is None else used, rows, row_bytes)
    return np.asarray(read + GAP * requests > 2 * wanted * row_bytes + GAP)


@dataclass(frozen=True)
class RemoteReads:
    """Bytes and requests of one hop of all blocks behind a URL."""

    read: int  # rows of the hop before, and what lies between them
    sent: int  # parcels that are written for the next hop
    requests: int
    ranges: int  # bytes that would be read without parcels
    whole: int  # and with whole files


@dataclass(frozen=True)
class Sizing:
    """One plan: hops of `columns` columns over nodes with `entries` stored neighbours."""

    nodes: int
    entries: int
    columns: int
    hops: int
    dtype: str = "float32"
    kept: int | None = None  # rows that the store keeps; None: all
    memory: int = MEMORY
    slots: int = 1  # tasks at once
    weighted: bool = False
    at_least: int = 1  # blocks that others, which share them, need

    @property
    def item(self) -> int:
        return 4 if self.dtype == "float32" else 2

    @property
    def blocks(self) -> int:
        row_bytes = state_row_bytes(self.columns, self.dtype)
        least = least_blocks(self.nodes, self.entries, row_bytes, self.memory, self.weighted)
        return full_rounds(max(self.at_least, least), self.slots)

    @property
    def task_bytes(self) -> int:
        """What a task holds at least: 2 · n / B rows of sums, and its entries."""
        row_bytes = state_row_bytes(self.columns, self.dtype)
        return whole_bytes(self.nodes, self.entries, row_bytes, self.weighted) // self.blocks

    @property
    def state(self) -> int:
        """Bytes of one hop of all nodes on shared storage."""
        return self.nodes * self.columns * self.item

    @property
    def lists(self) -> int:
        """Bytes of needed rows and of neighbours as places among them, written once."""
        return self.entries * 4 + self.needed * self.blocks * _OF_NEEDED

    @property
    def needed(self) -> int:
        """Rows that a block needs at most: all of its entries differ, or it needs every node."""
        return min(self.nodes, -(-self.entries // self.blocks)) + -(-self.nodes // self.blocks)

    @property
    def pulled(self) -> int:
        """Bytes that all tasks of a hop read of the hop before, at most."""
        return self.needed * self.blocks * self.columns * self.item

    @property
    def remote(self) -> RemoteReads:
        """The same behind a URL, where neighbours lie anywhere: a block reads its own rows, and some of every other."""
        blocks, row_bytes, rows = self.blocks, self.columns * self.item, -(-self.nodes // self.blocks)
        wanted = (self.needed - rows) / max(1, blocks - 1)
        pairs, own = blocks * (blocks - 1), self.state
        read, requests = (float(each) for each in expected_read(np.asarray(wanted), np.asarray(rows), row_bytes))
        pieces, ranges = -(-own // LONGEST), int(own + pairs * read)
        if bool(parcels_pay(np.asarray(wanted), np.asarray(rows), row_bytes)):
            sent = int(pairs * wanted * row_bytes)
            return RemoteReads(own + sent, sent, 2 * pairs + pieces, ranges, blocks * own)
        return RemoteReads(ranges, 0, int(pairs * (1 + requests)) + pieces, ranges, blocks * own)

    @property
    def storage(self) -> int:
        """Bytes beside the graph while it runs: lists, states (all of them where all rows are kept), the store."""
        states = self.hops + 1 if self.kept is None else 2
        return self.lists + states * self.state + self.store

    @property
    def store(self) -> int:
        rows = self.nodes if self.kept is None else self.kept
        return rows * (self.hops + 1) * self.columns * self.item

    @property
    def shards(self) -> int:
        return max(1, -(-self.store // SHARD_BYTES))

    @property
    def rounds(self) -> int:
        """How often every core takes a block at one hop."""
        return -(-self.blocks // self.slots)

    def kernel_seconds(self, entries_per_second: float) -> float:
        """Of a hop, where a core sums up so many neighbours a second."""
        return self.entries / self.blocks / entries_per_second * self.rounds

    def storage_seconds(self, bytes_per_second: float) -> float:
        """Of a hop, where all executors together read and write so many bytes a second: rows, places, the next hop."""
        return (self.pulled + self.entries * 4 + self.state) / bytes_per_second

    def remote_seconds(self, bytes_per_second: float, requests_per_second: float) -> float:
        """The same behind a URL, with parcels and requests."""
        moved = self.remote.read + self.remote.sent + self.entries * 4 + self.state
        return moved / bytes_per_second + self.remote.requests / requests_per_second
