"""Hops of a graph that has grown, from those of before: rows that cannot have changed are copied, the others made anew.

Z^(k) of a row changes with its list, with its sums, or with Z^(k-1) of one that it hears (`operator` has the factors).
Sums of columns change where somebody new hears a node, and count with r above 0. A store holds X and not Z: with r = 0
they are the same, and what is made anew reads its unchanged neighbours there; else it needs all that it hears from the
first values on, and where that is most of the graph, all of it is propagated. The bytes are the same either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Graph
from gamlp.graph.growth import Around, GrownGraph, TooFar, ViewLists, around, memory_of, who_hears
from gamlp.io import available_memory, usable_cores
from gamlp.kernel import NUMPY_DTYPES
from gamlp.progress import Progress, silent
from gamlp.propagation.first_values import FirstValues
from gamlp.propagation.local.engine import LocalPropagator
from gamlp.propagation.local.some_rows import RowsRun, half_scales, holds_states, rows_alone
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import Signal, outline
from gamlp.propagation.store.patched import PatchedAssembly
from gamlp.propagation.store.store import HopStore, StoredSignal
from gamlp.propagation.store.writer import StoreWriter, writing

_MOST = 0.5  # of the entries: where what is made anew hears more, propagating all of it is as fast
_READ = 10  # bytes of states that hops read in the time in which one of a store is read, verified and copied


@dataclass(frozen=True)
class Regrown:
    """Hops of a grown graph: how many rows of the signal that changed most were made anew, and how many copied.

    `changed`: rows of before whose hops may be others, ascending; None: any may be.
    """

    store: HopStore
    made: int
    copied: int
    changed: Array | None


def propagate_growth(
    growth: GrownGraph,
    before: HopStore,
    graph: Graph,
    plan: Plan,
    store: Path,
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> Regrown:
    """A store of the hops of `graph`, which is `growth` as the model reads it.

    growth: of the graph that `before` has the hops of, as the model reads that one.
    memory, threads: as of `LocalPropagator`, which goes on with what cannot be had for less.
    """
    memory, threads = memory or available_memory() // 2, threads or usable_cores()
    first = FirstValues(graph, plan.features)
    signals = outline(graph, plan, plan.kept_rows(graph), first)
    reach = _Reach(growth, before, graph, plan, first)
    count, made, wrote = graph.nodes.count, 0, False
    with writing(store, graph, signals) as writer:
        missing = {signal.name for signal in writer.begin()}
        for signal in signals:
            change = reach.change(signal, memory)
            made = max(made, count if change is None else len(change.rows))
            if change is not None and signal.name in missing:
                writer.start()
                change.write(writer, memory, threads, progress)
                wrote = True
        if wrote:
            writer.statistics |= first.used
            writer.finish()
    found = LocalPropagator(memory, threads).propagate(graph, plan, store, progress)
    return Regrown(found, made, count - made, reach.changed(signals))


@dataclass(frozen=True)
class _Change:
    """A signal of which some rows are made anew, from what they hear."""

    signal: Signal
    rows: Array
    before: StoredSignal
    lists: ViewLists
    heard: Around

    def pays(self) -> bool:
        """Whether hops that are not computed would take longer than rows that are copied."""
        saved = self.lists.graph.relation.entries - self.heard.lists.entries
        row = self.signal.width * np.dtype(NUMPY_DTYPES[self.signal.dtype]).itemsize
        count = self.lists.graph.nodes.count
        copied = PatchedAssembly(self.signal, (), None, count, self.before.place, self.rows, self.before).copied()
        return saved * row * self.signal.hops > _READ * copied

    def write(self, writer: StoreWriter, memory: int, threads: int, progress: Progress) -> None:
        own = rows_alone(self.signal, self.rows)
        known = self.before if holds_states(self.signal) else None
        run = RowsRun(self.signal, own, self.lists, self.heard, self.rows, memory // 2, threads, known)
        sources, count, folder = run.sources(progress), self.lists.graph.nodes.count, writer.folder_of(self.signal)
        assembly = PatchedAssembly(own, sources, run.leave, count, folder, self.rows, self.before)
        writer.record(self.signal, list(assembly.write(threads)))


class _Reach:
    """Which rows of a signal may have changed, and whether it pays to make these alone."""

    def __init__(self, growth: GrownGraph, before: HopStore, graph: Graph, plan: Plan, first: FirstValues) -> None:
        self.growth, self.before, self.graph, self.plan, self.first = growth, before, graph, plan, first
        self._reached: dict[tuple[int, bool], Array] = {}
        self._scales: dict[str, bool] = {}

    @cached_property
    def lists(self) -> ViewLists | None:
        """None: of several types features may have been made of edges, and against edges no lists are kept."""
        [view, *others] = self.plan.views(self.graph)
        if self.graph.heterogeneous or view.turned or others:
            return None
        return ViewLists(GrownGraph(self.graph, {}, {}), self.graph, view)

    def changed(self, signals: list[Signal]) -> Array | None:
        """Rows of before, ascending, of which some signal may have changed; None: any."""
        found = np.zeros(self.growth.before(self.graph.target), bool)
        for signal in signals:
            if self.lists is None or self._stored(signal) is None:
                return None
            rows = self._rows(signal, self.lists)
            found[rows[rows < len(found)]] = True
        return np.flatnonzero(found)

    def change(self, signal: Signal, memory: int) -> _Change | None:
        """None: all rows are to be made."""
        lists, stored = self.lists, self._stored(signal)
        if lists is None or stored is None:
            return None
        rows, row = self._rows(signal, lists), signal.width * np.dtype(NUMPY_DTYPES[signal.dtype]).itemsize
        if len(rows) > _MOST * self.graph.nodes.count or 2 * len(rows) * row * signal.hops > memory:
            return None
        entries = int(_MOST * self.graph.relation.entries)
        try:
            hops = min(1, signal.hops) if holds_states(signal) else signal.hops
            heard = around(lists, rows, hops, min(memory // 2, memory_of(entries)))
        except TooFar:
            return None
        if 4 * len(heard.rows) * row > memory:
            return None
        change = _Change(signal, rows, stored, lists, heard)
        return change if change.pays() else None

    def _rows(self, signal: Signal, lists: ViewLists) -> Array:
        columns = signal.operator.r > 0
        key = signal.hops, columns
        if key not in self._reached:
            name = lists.view.relations[0]
            heard = self.growth.added[name].neighbours if columns and name in self.growth.added else ()
            begun = np.concatenate([self.growth.newcomers, np.asarray(heard, np.int64)])
            self._reached[key] = who_hears(lists, begun, signal.hops, self.growth.relations[name].changed.rows)
        return self._reached[key]

    def _stored(self, signal: Signal) -> StoredSignal | None:
        """The hops of before, if they were made as these will be."""
        stored = self.before.signals.get(signal.name)
        if stored is None or signal.rows is not None or stored.rows is not None or len(signal.parts) > 1:
            return None
        entry = stored.entry
        if entry.hops < signal.hops or entry.width != signal.width or _made(entry.settings) != _made(signal.settings):
            return None
        known = self.before.manifest.statistics
        if signal.settings.get("scaling") == "standard" and known != self.first.used:
            return None
        return stored if signal.dtype != "float16" or self._same_scales(signal) else None

    def _same_scales(self, signal: Signal) -> bool:
        """Of float16: another scale of a column may round all its rows in another way."""
        if signal.name not in self._scales:
            old = self.growth.base
            alike = {one.name: one for one in outline(old, self.plan, None)}[signal.name]
            assert alike.view is not None and self.lists is not None
            lists = ViewLists(GrownGraph(old, {}, {}), old, alike.view)
            found = half_scales(signal, self.lists).columns, half_scales(alike, lists).columns
            self._scales[signal.name] = bool(np.array_equal(*found))
        return self._scales[signal.name]


def _made(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings but for the digest of statistics, which are compared themselves."""
    return {name: value for name, value in settings.items() if name != "statistics"}
