"""Sums of neighbours of one block: dst = step ∘ (Ã src), with the rows of the hop before that the block needs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gamlp.arrays import Array
from gamlp.io import Place, parallel_map
from gamlp.kernel import BLOCK, NUMPY_DTYPES, HopTask, cut_rows, gather_rows, hop, scale
from gamlp.propagation.blocks.hubs import Hub, unit_sums
from gamlp.propagation.blocks.needs import Needs
from gamlp.propagation.blocks.parcels import Parcels
from gamlp.propagation.blocks.pull import pull, pull_parcel, room_for_ranges
from gamlp.propagation.blocks.sizing import sorting_bytes
from gamlp.propagation.local.slabs import allocate

_LINE = 64  # bytes of memory that are read together, whatever is asked for: no slice of a row is narrower
_TOGETHER = 4  # blocks elsewhere that rows are pulled from at once
_ROOM = 1 << 20  # memory is asked for in such pieces
_SCANNED = 1 << 16  # entries that are sorted by source at a time
_MOST = 0.75  # of all rows: who needs so many pulls all, and the next block of the same worker none of them again
Sources = Callable[[int], Place]  # the file of a block of the hop before


class BlockHop:
    """dst[i] = step[rows[i]] · Σ_j w_ij · src[j] for `rows` of a block, in the ascending order of neighbours.

    `index` is a block, or a reader after them: a part of a hub, whose sums go on elsewhere. `name` is that of the hop
    before: what a worker pulled of it whole is used again for its next block (None: never).
    """

    def __init__(
        self,
        needs: Needs,
        index: int,
        rows: Array,
        step: Array,
        loops: bool,
        memory: int,
        floors: Array | None = None,
        parcels: Parcels | None = None,
        name: str | None = None,
    ) -> None:
        self.rows, self.step, self.loops, self.memory, self.floors = rows, step, loops, memory, floors
        self.index, self.parcels, self.name = index, parcels, name
        self.blocks = needs.blocks
        self.bounds = needs.blocks.bounds
        self.offsets, self.weights = needs.blocks.shape_of(index)
        self.places = np.asarray(needs.read("places", index))
        self.needed = np.asarray(needs.read("needed", index))
        self.starts = np.asarray(needs.read("starts", index))
        self.whole, self.used = self.starts, None  # where parcels begin, and what of them is needed
        block = needs.blocks.block_of(index)
        if len(rows) < len(step):
            self.used = self._leave_out(int(self.starts[block]))
        self.own = int(self.starts[block])  # the block's own rows are side by side among the needed

    def _leave_out(self, own: int) -> Array:
        """Some rows are asked for: others' neighbours are not needed. Which of the needed still are."""
        used = np.zeros(len(self.needed), bool)
        used[own : own + len(self.step)] = True
        asked = np.zeros(len(self.step), bool)
        asked[self.rows] = True
        used[self.places[np.repeat(asked, np.diff(self.offsets))]] = True
        upto = np.concatenate([[0], np.cumsum(used)])
        # Entries of rows that are not asked for now lead anywhere; nobody follows them.
        self.places = np.minimum(upto, upto[-1] - 1).astype(np.int32)[self.places]
        self.needed, self.starts = self.needed[used], upto[self.starts]
        return used

    def run(self, sources: Sources, dst: Array, dtype: str) -> tuple[int, int]:
        """Fill dst; returns how many values it could not hold, and the bytes that were pulled."""
        here = sources(0).local is not None
        held = dst.nbytes + self.places.nbytes + self.offsets.nbytes
        room = self.memory - held - (0 if here else room_for_ranges(self.memory))
        row = dst.shape[1] * dst.itemsize
        if here and self._needs_most() and self.bounds[-1] * row <= room:
            return self._from_all(sources, dst, dtype)
        if len(self.needed) * row <= room:
            return self._at_once(sources, dst, dtype)
        columns = room // ((len(self.needed) + len(dst)) * _LINE) * (_LINE // dst.itemsize)
        if here and columns > 0:
            return self._in_slices(sources, dst, dtype, columns)
        sorting = sorting_bytes(len(self.places), self.weights is not None)
        return self._in_groups(sources, dst, dtype, room - 4 * dst.size - sorting)

    def _in_slices(self, sources: Sources, dst: Array, dtype: str, columns: int) -> tuple[int, int]:
        """So many columns at a time, which are independent: nothing is sorted, and each slice is summed in one go.

        For files that are mapped alone: behind a URL every slice would read whole rows again.
        """
        lost = read = 0
        for at in range(0, dst.shape[1], columns):
            some = np.empty((len(dst), min(columns, dst.shape[1] - at)), dst.dtype)
            of_slice = self._at_once(sources, some, dtype, at)
            lost, read = lost + of_slice[0], read + of_slice[1]
            dst[:, at : at + some.shape[1]] = some
        return lost, read

    def _at_once(self, sources: Sources, dst: Array, dtype: str, at: int = 0) -> tuple[int, int]:
        """All needed rows beside each other, as they are stored, columns from `at` on: one call of the kernel."""
        src = _room(len(self.needed), dst.shape[1], dtype)
        read = self._pull(0, len(self.bounds) - 1, sources, src, dtype, dtype, at)
        rows = self.own + self.rows
        task = HopTask(
            self.offsets, self.places, self.weights, _placed(self.step, self.own), self.own, self.loops, src, dst,
            dtype, rows, floors=None if self.floors is None else _placed(self.floors, self.own),
        )  # fmt: skip
        return hop(task, 0, len(self.rows)), read

    def _needs_most(self) -> bool:
        every = len(self.rows) == len(self.step)
        return self.name is not None and every and len(self.needed) >= _MOST * self.bounds[-1]

    def _from_all(self, sources: Sources, dst: Array, dtype: str) -> tuple[int, int]:
        """All rows of the blocks that are needed, by node, so that they serve the worker's next block too."""
        assert self.name is not None
        src, there = _state(self.name, self.bounds[-1], dst.shape[1], dtype)
        read = 0
        for block in range(len(self.bounds) - 1):
            if block not in there and self.starts[block] < self.starts[block + 1]:
                begin, end = self.bounds[block : block + 2]
                rows = np.arange(end - begin)
                read += pull(sources(block), end - begin, rows, src[begin:end], dtype, dtype, 0)
                there.add(block)
        start = self.bounds[self.index]
        task = HopTask(
            self.offsets, self.blocks.neighbours(self.index), self.weights, _placed(self.step, start), start,
            self.loops, src, dst, dtype, start + self.rows,
            floors=None if self.floors is None else _placed(self.floors, start),
        )  # fmt: skip
        return hop(task, 0, len(self.rows)), read

    def _in_groups(self, sources: Sources, dst: Array, dtype: str, room: int) -> tuple[int, int]:
        """Sums in float32 that go on from group to group, in the order of neighbours; then factors and storage.

        Rows are cut into the blocks that the kernel sums by themselves, so that these have the same ends in any groups.
        """
        own = (self.own + self.rows).astype(np.int32) if self.loops else None
        offsets, places, weights = gather_rows(self.offsets, self.places, self.weights, self.rows, own)
        pieces, cuts = cut_rows(offsets)
        sums, read = self._piece_sums(places, weights, cuts, sources, dst.shape[1], dtype, room)
        if not np.array_equal(pieces, np.arange(len(self.rows) + 1)):  # a row is several pieces, or none
            each, whole = np.arange(len(sums), dtype=np.int32), np.empty(dst.shape, np.float32)
            hop(HopTask(pieces, each, None, None, 0, False, sums, whole), 0, len(whole))
            sums = whole
        floors = None if self.floors is None else self.floors[self.rows]
        return scale(sums, "float32", dst, dtype, row_factors=self.step[self.rows], row_floors=floors), read

    def hub_sums(self, hub: Hub, part: int, loop: int, sources: Sources, width: int, dtype: str) -> tuple[Array, int]:
        """Sums of `UNIT` entries each of a part of a hub, in float32, and the bytes that were pulled."""
        listed, at = hub.listed(part, loop if self.loops else None)
        places, weights = self.places[listed], None if self.weights is None else self.weights[listed]
        if at is not None:
            places = np.insert(places, at, np.int32(self.own))
            weights = None if weights is None else np.insert(weights, at, np.float32(1))
        cuts = np.append(np.arange(0, len(places), BLOCK), len(places))
        sorting = sorting_bytes(len(self.places), self.weights is not None)
        room = self.memory - self.places.nbytes - sorting - room_for_ranges(self.memory)
        sums, read = self._piece_sums(places, weights, cuts, sources, width, dtype, room)
        return unit_sums(sums), read

    def _piece_sums(
        self, places: Array, weights: Array | None, cuts: Array, sources: Sources, width: int, dtype: str, room: int
    ) -> tuple[Array, int]:
        """Sums of the entries between two cuts, `BLOCK` at most, over groups of source blocks; bytes pulled."""
        let_go()
        sums = np.zeros((len(cuts) - 1, width), np.float32)
        groups = self._groups((room - sums.nbytes) // (4 * width))
        lows = self.starts[[first for first, _ in groups]]
        order, bounds = by_group(places, lows)
        owners = np.repeat(np.arange(len(sums), dtype=np.int32), np.diff(cuts))[order]
        places, weights = places[order], None if weights is None else weights[order]
        del order
        read = 0
        for (first, last), low, begin, end in zip(groups, lows, bounds, bounds[1:]):
            if begin == end:
                continue
            src = np.empty((int(self.starts[last] - low), width), np.float32)
            read += self._pull(first, last, sources, src, dtype, "float32")
            heads = np.flatnonzero(np.diff(owners[begin:end], prepend=-1))
            touched = owners[begin:end][heads]  # pieces with neighbours in this group; others are not looked at
            some, own_sums = None if weights is None else weights[begin:end], sums[touched]
            ends = np.append(heads, end - begin)
            hop(
                HopTask(ends, places[begin:end] - np.int32(low), some, None, 0, False, src, own_sums, accumulate=True),
                0, len(touched),
            )  # fmt: skip
            sums[touched] = own_sums
            del src, own_sums
        return sums, read

    def _groups(self, room: int) -> list[tuple[int, int]]:
        """Source blocks in runs of no more than `room` needed rows; a block alone is never split."""
        groups, first = [], 0
        for block in range(1, len(self.starts)):
            if block - first > 1 and self.starts[block] - self.starts[first] > room:
                groups.append((first, block - 1))
                first = block - 1
        return [*groups, (first, len(self.starts) - 1)]

    def _pull(self, first: int, last: int, sources: Sources, into: Array, dtype: str, storage: str, at: int = 0) -> int:
        """Needed rows of the source blocks first..last; from elsewhere, those of some blocks come at once.

        Of a slice of columns, those from `at` on; nobody sends slices.
        """
        low, together = int(self.starts[first]), 1 if sources(0).local is not None else _TOGETHER
        room = room_for_ranges(self.memory) // together

        def one(block: int) -> int:
            begin, end = int(self.starts[block]), int(self.starts[block + 1])
            some = into[begin - low : end - low]
            parcel = None if self.parcels is None else self.parcels.parcel(block, self.index)
            read = None if parcel is None else pull_parcel(parcel, self._sent(block), some, dtype, storage, room)
            if read is None:
                rows = self.needed[begin:end].astype(np.int64) - self.bounds[block]
                expected = self.bounds[block + 1] - self.bounds[block]
                read = pull(sources(block), expected, rows, some, dtype, storage, room, at)
            return read

        wanted = [block for block in range(first, last) if self.starts[block] < self.starts[block + 1]]
        return sum(parallel_map(together, one, wanted))

    def _sent(self, block: int) -> Array | None:
        """Which rows of a parcel are needed; None: all."""
        return None if self.used is None else np.flatnonzero(self.used[self.whole[block] : self.whole[block + 1]])


def _placed(values: Array, at: int) -> Array:
    """Values of the block's own rows where these lie among those of src; others are not read."""
    placed = np.empty(at + len(values), np.float32)
    placed[at:] = values
    return placed


def by_group(places: Array, lows: Array) -> tuple[Array, list[int]]:
    """(order, bounds): entries order[bounds[g]:bounds[g + 1]] lead to group g, in their own order.

    Counted in one scan and laid in place in another, so many entries at a time: beside the order, little is held.
    """
    parts = range(0, len(places), _SCANNED)

    def groups(at: int) -> Array:
        return np.searchsorted(lows, places[at : at + _SCANNED], side="right") - 1

    counts = np.zeros(len(lows), np.int64)
    for at in parts:
        counts += np.bincount(groups(at), minlength=len(lows))
    bounds = np.concatenate([[0], np.cumsum(counts)])
    order, filled = np.empty(len(places), np.int32 if len(places) < 1 << 31 else np.int64), bounds[:-1].copy()
    for at in parts:
        of = groups(at)
        some = np.bincount(of, minlength=len(lows))
        begun = np.cumsum(some) - some
        order[np.arange(len(of)) + np.repeat(filled - begun, some)] = at + np.argsort(of, kind="stable")
        filled += some
    return order, bounds.tolist()


_kept = threading.local()


def let_go() -> None:
    """Give back what is kept for whole blocks: what comes next does not count it."""
    _kept.memory = _kept.state = None


def _room(rows: int, columns: int, storage: str) -> Array:
    """A matrix whose memory stays for the next block of this worker: fresh pages cost as much as to fill them."""
    dtype = np.dtype(NUMPY_DTYPES[storage])
    size = rows * columns * dtype.itemsize
    whole: Array | None = getattr(_kept, "memory", None)
    _kept.state = None
    if whole is None or len(whole) < size:
        _kept.memory = whole = None  # before the new one: never two at once
        _kept.memory = whole = allocate(-(-size // _ROOM) or 1, _ROOM // 4, "float32").view(np.uint8).reshape(-1)
    return whole[:size].view(dtype).reshape(rows, columns)


def _state(name: str, rows: int, columns: int, storage: str) -> tuple[Array, set[int]]:
    """The same of a whole hop, and which blocks of it are there: a block before this one pulled them."""
    kept: tuple[str, Array, set[int]] | None = getattr(_kept, "state", None)
    if kept is None or kept[0] != name:
        _kept.state = kept = (name, _room(rows, columns, storage), set())
    return kept[1], kept[2]
