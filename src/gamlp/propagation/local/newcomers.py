"""Hops of newcomers alone, of a graph that has grown: what they hear is read and propagated, and nothing else.

The bytes are those of propagating the whole grown graph: a row's sum depends on its neighbours in their order, and on
degrees, which are those of the grown graph; not on what lies beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, View
from gamlp.graph.growth import Around, GrownGraph, ViewLists, around
from gamlp.io import available_memory, even_ranges, format_size, parallel_map, usable_cores
from gamlp.kernel import LANES, HopTask, hop, scale
from gamlp.progress import Progress, silent
from gamlp.propagation.checks import refuse_lost
from gamlp.propagation.first_values import First, FirstValues
from gamlp.propagation.local.hops import column_scales, half_floors
from gamlp.propagation.local.slabs import Resident, Slab, allocate
from gamlp.propagation.operator import Factors, Operator, factors_of, refuse_extremes
from gamlp.propagation.passes import Piece
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import Signal, SignalPart, outline
from gamlp.propagation.store.shards import Assembly, ShardSource
from gamlp.propagation.store.store import HopStore
from gamlp.propagation.store.writer import writing

_ROWS = 1 << 16  # scaled at a time


@dataclass(frozen=True)
class FirstOfRows:
    """First values of some rows, by their places among them."""

    first: First
    rows: Array

    def read(self, rows: Any, columns: slice) -> Array:
        return self.first.read(self.rows[rows], columns)


def propagate_newcomers(
    growth: GrownGraph,
    graph: Graph,
    plan: Plan,
    store: Path,
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> HopStore:
    """A store of the newcomers' hops: row i is the i-th newcomer. `graph` is the grown one, as the model reads it."""
    memory, threads = memory or available_memory() // 2, threads or usable_cores()
    rows = growth.newcomers
    signals = outline(graph, plan, rows, FirstValues(graph, plan.features))
    alone = [_alone(signal, rows) for signal in signals]
    with writing(store, newcomers_of(graph, rows), alone) as writer:
        writer.begin()
        writer.start()
        for view in dict.fromkeys(signal.view for signal in signals if signal.view is not None):
            own = [index for index, signal in enumerate(signals) if signal.view == view]
            lists = ViewLists(growth, graph, view)
            heard = around(lists, rows, max(signals[index].hops for index in own), memory)
            for index in own:
                run = _SignalRun(signals[index], alone[index], lists, heard, rows, memory, threads)
                sources = run.sources(progress)
                leave = None if run.factors.leave is None else run.factors.leave[run.asked]
                assembly = Assembly(alone[index], sources, leave, len(rows), writer.folder_of(alone[index]))
                writer.record(alone[index], list(assembly.write(threads)))
        writer.finish()
    return HopStore.open(store)


def newcomers_of(graph: Graph, rows: Array) -> Graph:
    """Some rows of the target type with no edges: what a store of their hops is of."""
    nodes = graph.nodes
    labels, split = nodes.labels, nodes.split
    alone = replace(
        nodes,
        count=len(rows),
        ids=nodes.ids.of(rows),
        features=None,
        labels=None if labels is None else replace(labels, values=labels.values[rows]),
        split=None if split is None else replace(split, roles=split.roles[rows]),
    )
    return Graph(graph.name, {nodes.name: alone}, {}, nodes.name)


def _alone(signal: Signal, rows: Array) -> Signal:
    """The signal as a store of these rows alone has it."""
    parts = tuple(SignalPart(part.index, FirstOfRows(part.first, rows), None) for part in signal.parts)
    return replace(signal, rows=None, parts=parts)


class _SignalRun:
    """One signal, hop by hop, on what newcomers hear: hop k is computed of the rows that a later hop reads."""

    def __init__(
        self, signal: Signal, alone: Signal, lists: ViewLists, heard: Around, rows: Array, memory: int, threads: int
    ) -> None:
        self.signal, self.alone, self.lists, self.heard, self.threads = signal, alone, lists, heard, threads
        self.memory = memory
        self.asked = np.searchsorted(heard.rows, rows)
        self.factors = _factors(lists, heard, signal.operator)
        self.view: View = lists.view

    def sources(self, progress: Progress) -> tuple[ShardSource, ...]:
        """Newcomers' states of every hop, a range of columns at a time."""
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
            raise GamlpError(
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
            near = self.heard.nearer(hops - k)
            made = allocate(len(near), width, dtype)
            self._hop(k, state, made, near, row_floors)
            state[near] = made
            slabs[k] = Resident(made[np.searchsorted(near, self.asked)], by_node=True)
            progress(f"{self.signal.name}, what newcomers hear", k, hops, "hops")
        return slabs, down, None if down is None else half_floors(down, top)

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

    def _half_factors(self, first: int, last: int) -> tuple[Array | None, float]:
        """float16: scales of columns, by the largest value of the whole graph, since all its rows have the same."""
        if self.signal.dtype != "float16":
            return None, 1.0
        peak, largest = np.zeros(last - first, np.float32), 0.0
        weighted = self.lists.weighted and self.signal.operator.r > 0
        columns = self._column_sums() if weighted else None
        for begin in range(0, self.view.count, _ROWS):
            rows = np.arange(begin, min(begin + _ROWS, self.view.count))
            values = self.signal.parts[0].first.read(slice(begin, rows[-1] + 1), slice(first, last))
            if weighted:
                sums = self.lists.row_sums(rows)
                enter = _diagonals(sums, None if columns is None else columns[rows], self.signal.operator).enter
                assert enter is not None
                values, largest = values * enter[:, None], max(largest, float(enter.max(initial=0)))
            np.maximum(peak, np.maximum(values.max(0), -values.min(0)), out=peak)
        return column_scales(peak), largest if weighted else 1.0

    def _column_sums(self) -> Array | None:
        return self.lists.column_sums() if self.lists.directed else None


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
