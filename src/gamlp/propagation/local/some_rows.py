"""Hops of some rows alone: what they hear is read and propagated, and nothing else.

The bytes are those of propagating the whole graph: a row's sum depends on its neighbours in their order, and on
degrees, which are those of the graph; not on what lies beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import View
from gamlp.graph.growth import Around, TooFar, ViewLists
from gamlp.io import even_ranges, format_size, parallel_map
from gamlp.kernel import LANES, HopTask, hop, scale, store_as
from gamlp.progress import Progress
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.first_values import First
from gamlp.propagation.local.hops import column_scales, half_floors
from gamlp.propagation.local.slabs import Resident, Slab, allocate
from gamlp.propagation.operator import Factors, Operator, factors_of, refuse_extremes
from gamlp.propagation.passes import Piece
from gamlp.propagation.signals import Signal, SignalPart
from gamlp.propagation.store.shards import ShardSource
from gamlp.propagation.store.store import StoredSignal

_ROWS = 1 << 16  # scaled at a time
_LOOKED_AT = 16 << 20  # bytes of first values


@dataclass(frozen=True)
class FirstOfRows:
    """First values of some rows, by their places among them."""

    first: First
    rows: Array

    def read(self, rows: Any, columns: slice) -> Array:
        return self.first.read(self.rows[rows], columns)


def rows_alone(signal: Signal, rows: Array) -> Signal:
    """The signal as a store of these rows alone has it."""
    parts = tuple(SignalPart(part.index, FirstOfRows(part.first, rows), None) for part in signal.parts)
    return replace(signal, rows=None, parts=parts)


class RowsRun:
    """One signal, hop by hop, on what some rows hear: hop k is computed of those that a later hop reads.

    known: has the hops of all others that the rows hear themselves, where these are their states; see `holds_states`.
    """

    def __init__(
        self,
        signal: Signal,
        alone: Signal,
        lists: ViewLists,
        heard: Around,
        rows: Array,
        memory: int,
        threads: int,
        known: StoredSignal | None = None,
    ) -> None:
        self.signal, self.alone, self.lists, self.heard, self.threads = signal, alone, lists, heard, threads
        self.memory, self.known = memory, known
        self.asked = np.searchsorted(heard.rows, rows)
        self.factors = _factors(lists, heard, signal.operator)
        self.view: View = lists.view

    @property
    def leave(self) -> Array | None:
        """What the rows' states are multiplied with to be stored."""
        return None if self.factors.leave is None else self.factors.leave[self.asked]

    def sources(self, progress: Progress) -> tuple[ShardSource, ...]:
        """The rows' states of every hop, a range of columns at a time."""
        width = self._widest()
        found = []
        for first in range(0, self.signal.width, width):
            last = min(self.signal.width, first + width)
            slabs, down, floors = self._columns(first, last, progress)
            found.append(ShardSource(Piece(self.alone, self.alone.parts[0], first, last, 0), slabs, down, floors))
        return tuple(found)

    def _widest(self) -> int:
        itemsize = 4 if self.signal.dtype == "float32" else 2
        room = self.memory // (2 * max(1, len(self.heard.rows)) * itemsize) // LANES * LANES
        if room < LANES:
            raise TooFar(
                f"newcomers hear {len(self.heard.rows):,} nodes, more than a memory budget of "
                f"{format_size(self.memory)} holds",
                hint="give more --memory, or grow the graph with gamlp ingest --add, then gamlp predict --graph",
            )
        return room

    def _columns(self, first: int, last: int, progress: Progress) -> tuple[dict[int, Slab], Array | None, Array | None]:
        dtype, width = self.signal.dtype, -(-(last - first) // LANES) * LANES
        down, top = self._half_factors(first, last)
        row_floors = None
        if dtype == "float16" and self.factors.enter is not None:
            row_floors = half_floors(self.factors.enter, top)
        state = allocate(len(self.heard.rows), width, dtype)
        self._enter(state, first, last, down, row_floors)
        slabs: dict[int, Slab] = {}
        hops = self.signal.hops
        for k in range(1, hops + 1):
            near = self.heard.nearer(hops - k if self.known is None else 0)
            made = allocate(len(near), width, dtype)
            self._hop(k, state, made, near, row_floors)
            state[near] = made
            if self.known is not None:
                self._take_known(self.known, k, state, slice(first, last))
            slabs[k] = Resident(made[np.searchsorted(near, self.asked)], by_node=True)
            progress(f"{self.signal.name}, what newcomers hear", k, hops, "hops")
        return slabs, down, None if down is None else half_floors(down, top)

    def _take_known(self, known: StoredSignal, k: int, state: Array, columns: slice) -> None:
        """States of hop k of rows that are heard alone."""
        far = np.flatnonzero(self.heard.distance > 0)
        step = max(1, _LOOKED_AT // (4 * (k + 1) * max(1, self.signal.width)))
        for begin in range(0, len(far), step):
            places = far[begin : begin + step]
            values = known.gather(self.heard.rows[places], k)[:, k, columns]
            state[places, : columns.stop - columns.start] = store_as(values, self.signal.dtype)  # type: ignore[arg-type]

    def _enter(self, state: Array, first: int, last: int, down: Array | None, floors: Array | None) -> None:
        values_of, far = self.signal.parts[0].first, self.heard.rows
        up = None if down is None else 1.0 / down

        def fill(begin: int) -> int:
            part = slice(begin, begin + _ROWS)
            values = values_of.read(far[part], slice(first, last))
            enter = None if self.factors.enter is None else self.factors.enter[part]
            return scale(
                values, "float32", state[part, : last - first], self.signal.dtype,
                row_factors=enter, column_factors=up, row_floors=None if floors is None else floors[part],
            )  # fmt: skip

        lost = sum(parallel_map(self.threads, fill, range(0, len(far), _ROWS)))
        refuse_lost(lost, f"{self.signal.name} at hop 0", self.signal.dtype)

    def _hop(self, k: int, state: Array, made: Array, near: Array, floors: Array | None) -> None:
        block = self.heard.lists
        task = HopTask(
            block.offsets, block.neighbours, block.weights, self.factors.step, 0, self.signal.operator.loops,
            state, made, self.signal.dtype, near, floors=floors,
        )  # fmt: skip
        upto = np.concatenate([[0], np.cumsum(block.offsets[near + 1] - block.offsets[near])])
        ranges = even_ranges(upto, max(self.threads, min(int(upto[-1]) // 100_000, 64 * self.threads)))
        lost = sum(parallel_map(self.threads, lambda limits: hop(task, *limits), ranges))
        refuse_lost(lost, f"{self.signal.name} at hop {k}", self.signal.dtype)

    @cached_property
    def _scales(self) -> HalfScales:
        return half_scales(self.signal, self.lists)

    def _half_factors(self, first: int, last: int) -> tuple[Array | None, float]:
        if self.signal.dtype != "float16":
            return None, 1.0
        return self._scales.columns[first:last], self._scales.top


def holds_states(signal: Signal) -> bool:
    """Whether stored hops are states to the last bit: X = Z with r = 0, where no column is scaled for float16."""
    return signal.operator.r == 0 and signal.dtype != "float16"


@dataclass(frozen=True)
class HalfScales:
    """float16: scales of columns, and the largest factor that a row enters with where edges have weights, else 1."""

    columns: Array
    top: float


def half_scales(signal: Signal, lists: ViewLists) -> HalfScales:
    """By the largest value of the whole graph, since all its rows have the same."""
    peak, largest, count = np.zeros(signal.width, np.float32), 0.0, lists.view.count
    weighted = lists.weighted and signal.operator.r > 0
    columns = lists.column_sums() if weighted and lists.directed else None
    step = max(1, _LOOKED_AT // max(1, 4 * signal.width))
    for begin in range(0, count, step):
        rows = np.arange(begin, min(begin + step, count))
        values = signal.parts[0].first.read(slice(begin, rows[-1] + 1), slice(0, signal.width))
        if weighted:
            sums = lists.row_sums(rows)
            enter = _diagonals(sums, None if columns is None else columns[rows], signal.operator).enter
            assert enter is not None
            values, largest = values * enter[:, None], max(largest, float(enter.max(initial=0)))
        np.maximum(peak, np.maximum(values.max(0), -values.min(0)), out=peak)
    return HalfScales(column_scales(peak), largest if weighted else 1.0)


def _factors(lists: ViewLists, heard: Around, operator: Operator) -> Factors:
    """The diagonals of the rows that are heard, from sums over the whole grown graph."""
    sums = lists.row_sums(heard.rows)
    columns = lists.column_sums()[heard.rows] if lists.directed else None
    if lists.weighted:
        for some in (sums, columns):
            if some is not None:
                refuse_extremes(some)
    return _diagonals(sums, columns, operator)


def _diagonals(rows: Array, columns: Array | None, operator: Operator) -> Factors:
    """`columns`: None where edges have no direction."""
    return factors_of(rows, rows if columns is None else columns, operator, directed=columns is not None)
