"""Columns that go through the hops together, block by block on shared storage: Z^(k+1) = step ∘ (Ã Z^(k)).

A task computes one block of one hop: it pulls the rows of the hop before that its neighbours need, multiplies with
the kernel, and puts its block back. It may be run twice, or anew after a crash: the same bytes appear, whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import Place, npy_buffer, npy_size, open_rows, put_rows
from gamlp.kernel import NUMPY_DTYPES, HopTask, cut_rows, gather_rows, hop, scale
from gamlp.propagation.blocks.layout import Needs
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.first_values import First
from gamlp.propagation.local.hops import column_scales, half_floors
from gamlp.propagation.local.slabs import allocate
from gamlp.propagation.operator import Factors, Operator, factors_of

_ROOM = 1 << 20  # memory is asked for in such pieces
Sources = Callable[[int], Place]  # the file of a block of the hop before


class BlockHop:
    """dst[i] = step[rows[i]] · Σ_j w_ij · src[j] for `rows` of a block, in the ascending order of neighbours."""

    def __init__(
        self,
        needs: Needs,
        index: int,
        rows: Array,
        step: Array,
        loops: bool,
        memory: int,
        floors: Array | None = None,
    ) -> None:
        self.rows, self.step, self.loops, self.memory, self.floors = rows, step, loops, memory, floors
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
        return self._in_groups(sources, dst, dtype, self.memory - held - 4 * dst.size - 4 * self.places.nbytes)

    def _at_once(self, sources: Sources, dst: Array, dtype: str) -> tuple[int, int]:
        """All needed rows beside each other, as they are stored: one call of the kernel."""
        src = _room(len(self.needed), dst.shape[1], dtype)
        read = self._pull(0, len(self.bounds) - 1, sources, src, dtype, dtype)
        rows = self.own + self.rows
        task = HopTask(
            self.offsets, self.places, self.weights, self._by_place(self.step), self.own, self.loops, src, dst, dtype,
            rows, floors=None if self.floors is None else self._by_place(self.floors),
        )  # fmt: skip
        return hop(task, 0, len(self.rows)), read

    def _by_place(self, values: Array) -> Array:
        """Values of the block's own rows where these lie among the needed; others are not read."""
        placed = np.empty(self.own + len(values), np.float32)
        placed[self.own :] = values
        return placed

    def _in_groups(self, sources: Sources, dst: Array, dtype: str, room: int) -> tuple[int, int]:
        """Sums in float32 that go on from group to group, in the order of neighbours; then factors and storage.

        Rows are cut into the blocks that the kernel sums by themselves, so that these have the same ends in any groups.
        """
        own = (self.own + self.rows).astype(np.int32) if self.loops else None
        offsets, places, weights = gather_rows(self.offsets, self.places, self.weights, self.rows, own)
        pieces, cuts = cut_rows(offsets)
        sums = np.zeros((len(cuts) - 1, dst.shape[1]), np.float32)
        read = 0
        for first, last in self._groups((room - sums.nbytes) // (4 * dst.shape[1])):
            low, high = int(self.starts[first]), int(self.starts[last])
            if low == high:
                continue
            src = np.empty((high - low, dst.shape[1]), np.float32)
            read += self._pull(first, last, sources, src, dtype, "float32")
            inside = (places >= low) & (places < high)
            some = None if weights is None else weights[inside]
            ends = np.concatenate([[0], np.cumsum(inside)])[cuts]
            task = HopTask(
                ends, places[inside] - np.int32(low), some, None, 0, False, src, sums, accumulate=True
            )  # fmt: skip
            hop(task, 0, len(sums))
            del src, task
        if not np.array_equal(pieces, np.arange(len(self.rows) + 1)):  # a row is several pieces, or none
            each, whole = np.arange(len(sums), dtype=np.int32), np.empty(dst.shape, np.float32)
            hop(HopTask(pieces, each, None, None, 0, False, sums, whole), 0, len(whole))
            sums = whole
        floors = None if self.floors is None else self.floors[self.rows]
        return scale(sums, "float32", dst, dtype, row_factors=self.step[self.rows], row_floors=floors), read

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
    dtype = np.dtype(NUMPY_DTYPES[storage])
    size = rows * columns * dtype.itemsize
    whole: Array | None = getattr(_kept, "memory", None)
    if whole is None or len(whole) < size:
        _kept.memory = whole = None  # before the new one: never two at once
        _kept.memory = whole = allocate(-(-size // _ROOM) or 1, _ROOM // 4, "float32").view(np.uint8).reshape(-1)
    return whole[:size].view(dtype).reshape(rows, columns)


def _opened(place: Place, rows: int, width: int, dtype: str) -> Array:
    """A block of the hop before: mapped, or fetched whole; one that is damaged is told."""
    values = np.asarray(open_rows(place))
    if values.dtype != NUMPY_DTYPES[dtype] or len(values) != rows or values.shape[1] < width:
        raise GamlpError("is no block of this hop", file=place, hint="run the same command again: it is made anew")
    return values[:, :width]


def _copy(values: Array, rows: Array, into: Array, dtype: str, storage: str) -> None:
    if dtype == storage and len(rows) == len(values):
        into[:] = values
    elif dtype == storage and values.flags.c_contiguous:
        np.take(values, rows, axis=0, out=into, mode="clip")
    else:
        scale(values, dtype, into, storage, rows=rows)


_STEP = 1 << 14  # rows that enter at a time
TOP = ""  # beside names of columns: the largest factor that a row enters with


@dataclass(frozen=True)
class Columns:
    """Columns of one part of a signal, at `at..at + padded` of the state; `rows` is a file of the rows that are kept.

    `kept[i]` of them lie before block i; without `rows` all rows are kept, and the state itself is read back.
    """

    name: str
    first: First
    source: tuple[int, int]  # columns of the first values
    at: int
    padded: int
    hops: int
    rows: Place | None = None
    kept: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return self.source[1] - self.source[0]


@dataclass(frozen=True)
class BlockPass:
    """A pass as tasks know it: `columns` deepest first. `memory` bounds what a task holds beside its block."""

    needs: Needs
    operator: Operator
    dtype: str
    columns: tuple[Columns, ...]
    folder: Place
    memory: int
    scales: dict[str, tuple[float, ...]] = field(default_factory=dict)  # float16: what columns leave with
    top: float = 1.0  # float16, weighted: the largest factor that a row enters with

    @property
    def depth(self) -> int:
        return self.columns[0].hops

    def with_hop(self, k: int) -> tuple[Columns, ...]:
        return tuple(columns for columns in self.columns if columns.hops >= k)

    def width(self, k: int) -> int:
        """Columns of the state at hop k."""
        last = self.with_hop(k)[-1]
        return last.at + last.padded

    def state(self, k: int, index: int) -> Place:
        return self.folder / f"hop{k}" / f"{index:05d}.npy"

    def kept(self, columns: Columns, k: int, index: int) -> Place:
        return self.folder / columns.name / f"hop{k}" / f"{index:05d}.npy"

    def only(self, k: int) -> Place | None:
        """At the last hop only kept rows are computed, where all columns keep the same ones."""
        rows = {columns.rows for columns in self.with_hop(k)}
        return rows.pop() if k == self.depth and k > 0 and len(rows) == 1 else None

    def outputs(self, k: int) -> list[list[tuple[Place, int]]]:
        """For every block, the files that hop k leaves, with their bytes."""
        return [self._outputs_of(k, index) for index in range(len(self.needs.blocks))]

    def _outputs_of(self, k: int, index: int) -> list[tuple[Place, int]]:
        begin, end = self.needs.blocks.bounds[index : index + 2]
        dtype, files = NUMPY_DTYPES[self.dtype], []
        if self.only(k) is None:
            files.append((self.state(k, index), npy_size((end - begin, self.width(k)), dtype)))
        for columns in self.with_hop(k) if k else ():
            if columns.rows is not None:
                shape = (columns.kept[index + 1] - columns.kept[index], columns.padded)
                files.append((self.kept(columns, k, index), npy_size(shape, dtype)))
        return files

    def missing(self, k: int) -> list[int]:
        """Blocks of a hop that are not there, or not whole."""
        return self._lacking(self.outputs(k))

    def _lacking(self, wanted: list[list[tuple[Place, int]]]) -> list[int]:
        folders = {_parent(place): _parent(place).sizes() for place, _ in wanted[0]} if wanted else {}
        return [
            index
            for index, files in enumerate(wanted)
            if any(folders[_parent(place)].get(place.name) != size for place, size in files)
        ]

    def missing_kept(self, k: int) -> list[int]:
        """The same of what is kept of a hop, whether or not its state is still there."""
        states = {self.state(k, index) for index in range(len(self.needs.blocks))}
        return self._lacking([[file for file in files if file[0] not in states] for files in self.outputs(k)])

    def largest(self, index: int) -> dict[str, Any]:
        """One task, for float16: the largest |Z^(0)| of every column in this block, and its largest factor."""
        begin, end = self.needs.blocks.bounds[index : index + 2]
        weighted = self.needs.blocks.weighted
        found: dict[str, Any] = {}
        enter = self._factors(slice(begin, end)).enter
        found[TOP] = float(enter.max(initial=0)) if weighted and enter is not None else 1.0
        for columns in self.columns:
            peak = np.zeros(columns.width, np.float32)
            for at in range(begin, end, _STEP):
                rows = slice(at, min(at + _STEP, end))
                values = columns.first.read(rows, slice(*columns.source))
                if weighted and enter is not None:
                    values = values * enter[at - begin : rows.stop - begin, None]
                np.maximum(peak, np.maximum(values.max(0), -values.min(0)), out=peak)
            found[columns.name] = [float(value) for value in peak]
        return found

    def enter(self, index: int) -> dict[str, Any]:
        """One task: Z^(0) = enter ∘ X^(0) of a block."""
        begin, end = self.needs.blocks.bounds[index : index + 2]
        whole, state = npy_buffer((end - begin, self.width(0)), NUMPY_DTYPES[self.dtype])
        lost = 0
        for at in range(begin, end, _STEP):
            rows = slice(at, min(at + _STEP, end))
            into = state[at - begin : rows.stop - begin]
            factors = self._factors(rows).enter
            for columns in self.columns:
                values = columns.first.read(rows, slice(*columns.source))
                up = None if (down := self.down(columns)) is None else 1.0 / down
                place = into[:, columns.at : columns.at + columns.width]
                lost += scale(
                    values, "float32", place, self.dtype, row_factors=factors, column_factors=up,
                    row_floors=self._row_floors(factors),
                )  # fmt: skip
                into[:, columns.at + columns.width : columns.at + columns.padded] = 0
        refuse_lost(lost, "first values", self.dtype)
        self.state(0, index).put(whole)
        return {"bytes": len(whole)}

    def down(self, columns: Columns) -> Array | None:
        """What a float16 state is multiplied with on its way out; None for other types."""
        return np.asarray(self.scales[columns.name], np.float32) if columns.name in self.scales else None

    def column_floors(self, columns: Columns) -> Array | None:
        """What stored values of float16 columns may be rounded to zero below; None: no value above can be."""
        return None if (down := self.down(columns)) is None else half_floors(down, self.top)

    def _row_floors(self, enter: Array | None) -> Array | None:
        return None if self.dtype != "float16" or enter is None else half_floors(enter, self.top)

    def hop(self, k: int, index: int) -> dict[str, Any]:
        """One task: block `index` of hop k; one that is there already, by a task that died later, is left."""
        if all(place.size() == size for place, size in self._outputs_of(k, index)):
            return {"read": 0, "written": 0}
        begin, end = self.needs.blocks.bounds[index : index + 2]
        rows, only = np.arange(end - begin), self.only(k)
        if only is not None:
            columns = self.with_hop(k)[0]
            rows = np.asarray(open_rows(only)[columns.kept[index] : columns.kept[index + 1]]) - begin
        whole, dst = npy_buffer((len(rows), self.width(k)), NUMPY_DTYPES[self.dtype])
        factors = self._factors(slice(begin, end))
        sums = BlockHop(
            self.needs, index, rows, factors.step, self.operator.loops, self.memory, self._row_floors(factors.enter)
        )
        lost, read = sums.run(lambda block: self.state(k - 1, block), dst, self.dtype)
        refuse_lost(lost, f"hop {k}", self.dtype)
        written = 0
        for columns in self.with_hop(k):
            if columns.rows is not None:
                some = slice(None)
                if only is None:
                    kept = open_rows(columns.rows)[columns.kept[index] : columns.kept[index + 1]]
                    some = np.asarray(kept) - begin  # type: ignore[assignment]
                values = dst[some, columns.at : columns.at + columns.padded]
                put_rows(self.kept(columns, k, index), values)
                written += values.nbytes
        if only is None:
            self.state(k, index).put(whole)
            written += len(whole)
        return {"read": read, "written": written}

    def _factors(self, rows: slice) -> Factors:
        of_rows, of_columns = self.needs.sums()
        return factors_of(of_rows[rows], of_columns[rows], self.operator, directed=self.needs.blocks.directed)


def _parent(place: Place) -> Place:
    return Place(place.url.rsplit("/", 1)[0])


def scales_of(peaks: list[list[float]]) -> tuple[float, ...]:
    """float16: the power of two that every column leaves with, from the largest values of all blocks."""
    return tuple(float(value) for value in column_scales(np.max(np.asarray(peaks, np.float32), axis=0)))
