"""The local engine: a plan over a graph on one machine, in a memory budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Relation, induce, union_graphs
from gamlp.io import Place, available_memory, usable_cores
from gamlp.kernel import NUMPY_DTYPES
from gamlp.progress import Progress, overall, silent
from gamlp.propagation.first_values import FirstValues
from gamlp.propagation.local.hops import CHECKPOINT_SECONDS, PassRun
from gamlp.propagation.local.slabs import Slab
from gamlp.propagation.operator import Factors, factors
from gamlp.propagation.passes import Pass, Piece, plan_passes
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import Signal, resolve
from gamlp.propagation.store.shards import Assembly, Shard, ShardSource
from gamlp.propagation.store.store import HopStore
from gamlp.propagation.store.writer import StoreWriter, writing

VIEWS = "views"  # of the folder of work: edges of several relations as one


@dataclass(frozen=True)
class LocalPropagator:
    """Threads and a budget in bytes of anonymous memory (None: half of what is available).

    The bytes written depend on neither.
    """

    memory: int | None = None
    threads: int | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    room: int | None = None  # bytes of files that the page cache holds; None: what is available beside the state

    def propagate(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        """Propagate what the store lacks. Interrupted at any moment, run again: the same bytes."""
        if Place.of(store).local is None:
            raise GamlpError(
                "is a URL, and the local engine writes to a folder", file=str(store), hint="use --engine spark"
            )
        first = FirstValues(graph, plan.features)
        signals = resolve(graph, plan, first)
        with writing(store, graph, signals) as writer:
            missing = writer.begin()
            writer.statistics |= first.used  # kept with the hops, for those of other graphs
            if missing:
                memory = self.memory or available_memory() // 2
                groups = plan_passes(missing, memory)
                writer.start()
                _drop_strangers(writer, groups)
                relations = _relations(graph, groups, writer, memory, progress)
                moved = (max(1, relations[spec.view.name].entries) * spec.depth for passes in groups for spec in passes)
                counted = overall(progress, sum(moved))
                for passes in groups:
                    self._run_group(graph, relations[passes[0].view.name], passes, writer, counted)
            if missing or not writer.up_to_date():
                writer.finish()
            else:
                writer.tidy()
        return HopStore.open(store)

    def induce(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        """The graph of some rows alone; see `gamlp.graph.induced`."""
        return induce(graph, rows, Path(str(folder)), progress=progress)

    def _run_group(
        self, graph: Graph, relation: Relation, passes: list[Pass], writer: StoreWriter, progress: Progress
    ) -> None:
        signals = list({piece.signal.name: piece.signal for spec in passes for piece in spec.pieces}.values())
        nodes = passes[0].view.count
        if all(_written(graph, signal, writer) for signal in signals):  # killed later: slabs may be gone
            for signal in signals:
                self._assemble(graph, signal, [], Factors(np.zeros(0, np.float32), None, None), writer, progress)
            return
        diagonal = factors(relation, passes[0].operator, nodes)
        sources: dict[str, list[ShardSource]] = {signal.name: [] for signal in signals}
        peaks: dict[tuple[str, int], Array] = {}
        for index, spec in enumerate(passes):
            label = f"columns {index + 1} of {len(passes)}, " if len(passes) > 1 else ""
            run = PassRun(
                relation,
                nodes,
                diagonal,
                spec,
                _path(writer.work),
                self.threads or usable_cores(),
                progress,
                label,
                keep_all=len(passes) > 1,
                checkpoint_seconds=self.checkpoint_seconds,
                room=self._room(spec),
                peaks=peaks,
            )
            slabs = run.run()
            for piece in spec.pieces:
                own: dict[int, Slab] = {k: slabs[piece.name, k] for k in range(1, piece.signal.hops + 1)}
                sources[piece.signal.name].append(
                    ShardSource(piece, own, run.half_factors(piece), run.column_floors(piece))
                )
            del slabs, run
        for signal in signals:
            self._assemble(graph, signal, sources.pop(signal.name), diagonal, writer, progress)
            _drop_slabs(writer, [piece for spec in passes for piece in spec.pieces if piece.signal is signal])

    def _room(self, spec: Pass) -> int:
        """Bytes of files that the page cache can keep beside a pass's state."""
        if self.room is not None:
            return self.room
        state = spec.buffers * spec.width * spec.view.count * np.dtype(NUMPY_DTYPES[spec.dtype]).itemsize
        return max(0, available_memory() - state)

    def _assemble(
        self,
        graph: Graph,
        signal: Signal,
        sources: list[ShardSource],
        diagonal: Factors,
        writer: StoreWriter,
        progress: Progress,
    ) -> None:
        assembly = Assembly(signal, tuple(sources), diagonal.leave, graph.nodes.count, writer.folder_of(signal))
        total = len(assembly.planned())
        shards: list[Shard] = []
        for shard in assembly.write(self.threads or usable_cores()):
            shards.append(shard)
            progress(f"write {signal.name}", len(shards), total, "shards")
        writer.record(signal, shards)


def _relations(
    graph: Graph, groups: list[list[Pass]], writer: StoreWriter, memory: int, progress: Progress
) -> dict[str, Relation]:
    """What the hops of every view run on: the graph's own edges, or those of several relations as one, beside."""
    views = list({passes[0].view.name: passes[0].view for passes in groups}.values())
    if graph.heterogeneous:
        own, others = [], views
    else:
        own, others = [view for view in views if not view.turned], [view for view in views if view.turned]
    made = union_graphs(graph, others, _path(writer.work) / VIEWS, memory, progress) if others else {}
    return {view.name: graph.relation for view in own} | {name: view.relation for name, view in made.items()}


def _drop_strangers(writer: StoreWriter, groups: list[list[Pass]]) -> None:
    """Remove unfinished files, and slabs that another budget's column blocks left behind."""
    known = {f"{piece.name}-" for passes in groups for spec in passes for piece in spec.pieces}
    for path in _path(writer.work).iterdir():
        if path.name == VIEWS:
            continue
        if not any(path.name.startswith(name) for name in known):
            Place.of(path).remove()  # of another engine it may be a folder


def _written(graph: Graph, signal: Signal, writer: StoreWriter) -> bool:
    """Whether all shards of a signal are there: one appears when it is whole."""
    assembly = Assembly(signal, (), None, graph.nodes.count, writer.folder_of(signal))
    return all(assembly.is_there(shard) for shard in assembly.planned())


def _drop_slabs(writer: StoreWriter, pieces: list[Piece]) -> None:
    """Slabs whose rows are in shards: their room is the next signal's."""
    for path in _path(writer.work).iterdir():
        if any(path.name.startswith(f"{piece.name}-") for piece in pieces):
            path.unlink()


def _path(place: Place) -> Path:
    assert place.local is not None
    return place.local
