"""One block of one hop: needed rows come in one go where they fit the memory, else some source blocks at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.kernel import NUMPY, HopTask, hop, scale
from gamlp.propagation.blocks import Needs
from gamlp.propagation.state import allocate
from gamlp.row_arrays import open_rows
from gamlp.storage import Place

Array = np.ndarray[Any, Any]
_ROOM = 1 << 20  # memory is asked for in such pieces
Sources = Callable[[int], Place]  # the file of a block of the hop before


class BlockHop:
    """dst[i] = step[rows[i]] · Σ_j w_ij · src[j] for `rows` of a block, in the ascending order of neighbours."""

    def __init__(self, needs: Needs, index: int, rows: Array, step: Array, loops: bool, memory: int) -> None:
        self.rows, self.step, self.loops, self.memory = rows, step, loops, memory
        self.bounds = needs.blocks.bounds
        self.offsets, self.weights = needs.blocks.shape_of(index)
        self.places = np.asarray(needs.read("places", index))
        self.needed = np.asarray(needs.read("needed", index))
        self.starts = np.asarray(needs.read("starts", index))
        if len(rows) < len(step):
            self._leave_out(int(self.starts[index]))
        self.own = int(self.starts[index])  # the block's own rows are side by side among the needed

    def _leave_out(self, own: int) -> None:
        """Some rows are asked for: others' neighbours are not needed."""
        used = np.zeros(len(self.needed), bool)
        used[own : own + len(self.step)] = True
        asked = np.zeros(len(self.step), bool)
        asked[self.rows] = True
        used[self.places[np.repeat(asked, np.diff(self.offsets))]] = True
        upto = np.concatenate([[0], np.cumsum(used)])
        # Entries of rows that are not asked for now lead anywhere; nobody follows them.
        self.places = np.minimum(upto[self.places], upto[-1] - 1).astype(np.int32)
        self.needed, self.starts = self.needed[used], upto[self.starts]

    def run(self, sources: Sources, dst: Array, dtype: str) -> tuple[int, int]:
        """Fill dst; returns how many values it could not hold, and the bytes that were pulled."""
        width, item = dst.shape[1], dst.itemsize
        held = dst.nbytes + self.places.nbytes + self.offsets.nbytes
        if held + len(self.needed) * width * item <= self.memory:
            return self._at_once(sources, dst, dtype)
        return self._in_groups(sources, dst, dtype, self.memory - held - 4 * dst.size - 2 * self.places.nbytes)

    def _at_once(self, sources: Sources, dst: Array, dtype: str) -> tuple[int, int]:
        """All needed rows beside each other, as they are stored: one call of the kernel."""
        src = _room(len(self.needed), dst.shape[1], dtype)
        read = self._pull(0, len(self.bounds) - 1, sources, src, dtype, dtype)
        factors = np.empty(self.own + len(self.step), np.float32)
        factors[self.own :] = self.step
        rows = self.own + self.rows
        task = HopTask(
            self.offsets, self.places, self.weights, factors, self.own, self.loops, src, dst, dtype, rows
        )  # fmt: skip
        return hop(task, 0, len(self.rows)), read

    def _in_groups(self, sources: Sources, dst: Array, dtype: str, room: int) -> tuple[int, int]:
        """Sums in float32 that go on from group to group, in the order of neighbours; then factors and storage."""
        sums = np.zeros(dst.shape, np.float32)
        read = 0
        for first, last in self._groups(room // (4 * dst.shape[1])):
            low, high = int(self.starts[first]), int(self.starts[last])
            if low == high:
                continue
            src = np.empty((high - low, dst.shape[1]), np.float32)
            read += self._pull(first, last, sources, src, dtype, "float32")
            inside = (self.places >= low) & (self.places < high)
            offsets = np.concatenate([[0], np.cumsum(inside)])[self.offsets]
            weights = None if self.weights is None else np.ascontiguousarray(self.weights[inside])
            # The block's own rows lie in one group: a self-loop is added there, in its ascending place.
            loops = self.loops and low <= self.own < high
            start = self.own - low if loops else 0
            task = HopTask(
                offsets, self.places[inside] - np.int32(low), weights, None, start, loops, src, sums,
                rows=start + self.rows, accumulate=True,
            )  # fmt: skip
            hop(task, 0, len(self.rows))
            del src, task
        factors = np.ascontiguousarray(self.step[self.rows])
        return scale(sums, "float32", dst, dtype, row_factors=factors), read

    def _groups(self, room: int) -> list[tuple[int, int]]:
        """Source blocks in runs of no more than `room` needed rows; a block alone is never split."""
        groups, first = [], 0
        for block in range(1, len(self.starts)):
            if block - first > 1 and self.starts[block] - self.starts[first] > room:
                groups.append((first, block - 1))
                first = block - 1
        return [*groups, (first, len(self.starts) - 1)]

    def _pull(self, first: int, last: int, sources: Sources, into: Array, dtype: str, storage: str) -> int:
        """Needed rows of the source blocks first..last, one source at a time."""
        low, read = int(self.starts[first]), 0
        for block in range(first, last):
            begin, end = int(self.starts[block]), int(self.starts[block + 1])
            if begin < end:
                rows = self.needed[begin:end].astype(np.int64) - self.bounds[block]
                expected = self.bounds[block + 1] - self.bounds[block]
                values = _opened(sources(block), expected, into.shape[1], dtype)
                _copy(values, rows, into[begin - low : end - low], dtype, storage)
                read += len(rows) * into.shape[1] * values.itemsize
        return read


_kept = threading.local()


def _room(rows: int, columns: int, storage: str) -> Array:
    """A matrix whose memory stays for the next block of this worker: fresh pages cost as much as to fill them."""
    dtype = np.dtype(NUMPY[storage])
    size = rows * columns * dtype.itemsize
    whole: Array | None = getattr(_kept, "memory", None)
    if whole is None or len(whole) < size:
        _kept.memory = whole = None  # before the new one: never two at once
        _kept.memory = whole = allocate(-(-size // _ROOM) or 1, _ROOM // 4, "float32").view(np.uint8).reshape(-1)
    return whole[:size].view(dtype).reshape(rows, columns)


def _opened(place: Place, rows: int, width: int, dtype: str) -> Array:
    """A block of the hop before: mapped, or fetched whole; one that is damaged is told."""
    values = np.asarray(open_rows(place))
    if values.dtype != NUMPY[dtype] or len(values) != rows or values.shape[1] < width:
        raise GamlpError("is no block of this hop", file=place, hint="run the same command again: it is made anew")
    return values[:, :width]


def _copy(values: Array, rows: Array, into: Array, dtype: str, storage: str) -> None:
    if dtype == storage and len(rows) == len(values):
        into[:] = values
    elif dtype == storage and values.flags.c_contiguous:
        np.take(values, rows, axis=0, out=into, mode="clip")
    else:
        scale(values, dtype, into, storage, rows=rows)
