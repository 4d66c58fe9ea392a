"""A plan over a graph on shared storage, one task a block and hop; the store is byte for byte the local engine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, View, induced_by_tasks
from gamlp.io import Place, Workers, format_size, mapped_rows
from gamlp.progress import Progress, silent
from gamlp.propagation.blocks.run import BlockRun, ViewWork
from gamlp.propagation.blocks.sizing import MEMORY, full_rounds, least_blocks, state_row_bytes, whole_bytes
from gamlp.propagation.first_values import FirstValues
from gamlp.propagation.passes import Pass, plan_passes
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import Signal, outline
from gamlp.propagation.store.store import HopStore
from gamlp.propagation.store.writer import writing

_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class BlockPropagator(ABC):
    """Row blocks of every view (None: by memory and cores), and the bytes a task may hold (None: 1 GiB)."""

    blocks: int | None = None
    memory: int | None = None

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        """Propagate what the store lacks. Interrupted at any moment, run again: the same bytes."""
        place = Place.of(store).resolved()
        signals = outline(
            graph, plan, _kept_rows(graph, plan), FirstValues(graph, plan.features, lambda node_type: None)
        )
        with writing(place, graph, signals) as writer:
            missing = writer.begin()
            if missing:
                passes = whole_passes(missing)
                with self.workers() as workers:
                    views = self._views(graph, missing, passes, workers.slots)
                    writer.start()
                    BlockRun(workers, graph, plan, views, self.memory or MEMORY, writer, progress).run()
            if missing or not writer.up_to_date():
                writer.finish()
            else:
                writer.tidy()
        return HopStore.open(place)

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        """The graph of some rows alone, cut out by tasks; see `gamlp.graph.induced`."""
        if graph.folder is None:
            raise GamlpError(f"graph '{graph.name}' is in memory alone", hint="save it to a folder first")
        place = Place.of(folder).resolved()
        with self.workers() as workers:
            parts = self.blocks or workers.slots
            return induced_by_tasks(
                graph, rows, place, parts, lambda work, numbers, stage: workers.tasks(work, numbers, stage, progress)
            )

    @abstractmethod
    def workers(self) -> AbstractContextManager[Workers]:
        """Asked for once, and only where something is missing."""

    def _views(self, graph: Graph, signals: list[Signal], passes: list[Pass], slots: int) -> list[ViewWork]:
        """What is to be done on every view, in the order of signals."""
        views = list(dict.fromkeys(signal.view for signal in signals if signal.view is not None))
        found = []
        for view in views:
            own = tuple(signal for signal in signals if signal.view == view)
            specs = tuple(spec for spec in passes if spec.view == view)
            found.append(ViewWork(view, own, specs, self._wanted_blocks(graph, view, specs, slots)))
        return found

    def _wanted_blocks(self, graph: Graph, view: View, passes: tuple[Pass, ...], slots: int) -> int:
        """Blocks whose sums, and the rows of one other block, fit a task's memory; and a task for every core."""
        count, memory, row = view.count, self.memory or MEMORY, widest_row(passes)
        relations = [graph.relations[name] for name in view.relations]
        entries, weighted = sum(one.entries for one in relations), any(one.weighted for one in relations)
        least = least_blocks(count, entries, row, memory, weighted)
        if self.blocks is None:
            return full_rounds(least, max(1, slots))
        if self.blocks < least:
            need = format_size(whole_bytes(count, entries, row, weighted) // self.blocks)
            raise GamlpError(
                f"{self.blocks} blocks need {need} in a task, and it may hold {format_size(memory)}",
                hint=f"use --blocks {least} or more, or give tasks more with --memory",
            )
        return self.blocks


def whole_passes(signals: Sequence[Signal]) -> list[Pass]:
    """Passes over blocks: all columns of a signal go together."""
    return [spec for group in plan_passes(signals, _NO_LIMIT) for spec in group]


def widest_row(passes: Sequence[Pass]) -> int:
    """Bytes of a row of the widest of all passes of a view: they share its blocks."""
    return max(state_row_bytes(spec.width, spec.dtype) for spec in passes)


def _kept_rows(graph: Graph, plan: Plan) -> Array | None:
    """Rows to keep, in a mapped file: the driver's memory does not grow with them."""
    if plan.keeps_all:
        return None
    rows = mapped_rows(plan.kept_parts(graph))
    return None if len(rows) == graph.nodes.count else rows
