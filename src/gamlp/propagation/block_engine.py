"""A plan over a graph on shared storage, one task a block and hop; the store is byte for byte the local engine's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph.graph import Graph
from gamlp.graph.induced_blocks import induced_by_tasks
from gamlp.graph.manifest import digest, features_files
from gamlp.progress import Progress, overall, silent
from gamlp.propagation.block_pass import BlockPass, Columns, scales_of
from gamlp.propagation.block_shards import ShardWriting, StoredColumns
from gamlp.propagation.blocks import Blocks, Needs, where_seen
from gamlp.propagation.first import CHUNK, ColumnSums, FirstFeatures, FirstLabels, StoredFeatures
from gamlp.propagation.passes import Pass, Piece, plan_passes
from gamlp.propagation.plan import FeatureSignal, LabelSignal, Plan, Statistics
from gamlp.propagation.shards import Shard
from gamlp.propagation.signals import Signal, folds_of, outline, statistics_of, training_rows
from gamlp.propagation.sizing import (
    MEMORY,
    full_rounds,
    least_blocks,
    small_blocks_together,
    state_row_bytes,
    whole_bytes,
)
from gamlp.propagation.store import HopStore
from gamlp.propagation.writing import PLAN, StoreWriter, writing
from gamlp.row_arrays import put_rows
from gamlp.sizes import format_size
from gamlp.storage import Place, scratch

Array = np.ndarray[Any, Any]
_NO_LIMIT = 1 << 62


class Tasks(Protocol):
    """Runs `work(number)` for every number, somewhere; see `gamlp.cluster.run_tasks`."""

    def __call__(
        self,
        work: Callable[[int], dict[str, Any]],
        numbers: Sequence[int],
        stage: str,
        progress: Progress,
        together: int = 1,
    ) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Workers:
    """Who does the tasks, and how many at once."""

    tasks: Tasks
    slots: int


@dataclass(frozen=True)
class BlockEngine:
    """Row blocks (None: by memory and cores), and the bytes a task may hold (None: 1 GiB)."""

    blocks: int | None = None
    memory: int | None = None

    def run(self, graph: Graph, plan: Plan, store: str | Path | Place, progress: Progress = silent) -> HopStore:
        """Propagate what the store lacks. Interrupted at any moment, run again: the same bytes."""
        place = Place.of(store).resolved()
        signals = outline(graph, plan, _kept_rows(graph, plan), readers=False)
        with writing(place, graph, signals) as writer:
            missing = writer.begin()
            if missing:
                groups = plan_passes(missing, _NO_LIMIT)
                passes = [spec for group in groups for spec in group]
                with self.workers() as workers:
                    wanted = self._wanted_blocks(graph, passes, workers.slots)
                    writer.start()
                    memory = self.memory or MEMORY
                    _Run(workers, graph, plan, missing, passes, wanted, memory, writer, progress).run()
            if missing or not writer.up_to_date():
                writer.finish()
            else:
                writer.tidy()
        return HopStore.open(place)

    def induced(self, graph: Graph, rows: Array, folder: str | Path | Place, progress: Progress = silent) -> Graph:
        """The graph of some rows alone, cut out by tasks; see `gamlp.graph.induced`."""
        if graph.folder is None:
            raise GamlpError(f"graph '{graph.name}' is in memory alone", hint="save it to a folder first")
        place = Place.of(folder).resolved()
        with self.workers() as workers:
            parts = self.blocks or workers.slots
            return induced_by_tasks(
                graph, rows, place, parts, lambda work, numbers, stage: workers.tasks(work, numbers, stage, progress)
            )

    def workers(self) -> AbstractContextManager[Workers]:
        """Asked for once, and only where something is missing."""
        raise NotImplementedError

    def _wanted_blocks(self, graph: Graph, passes: list[Pass], slots: int) -> int:
        """Blocks whose sums, and the rows of one other block, fit a task's memory; and a task for every core."""
        count, memory = graph.nodes.count, self.memory or MEMORY
        row = max(state_row_bytes(spec.width, spec.dtype) for spec in passes)
        entries = graph.relation.entries
        least = least_blocks(count, entries, row, memory)
        if self.blocks is None:
            return full_rounds(least, max(1, slots))
        if self.blocks < least:
            need = format_size(whole_bytes(count, entries, row) // self.blocks)
            raise GamlpError(
                f"{self.blocks} blocks need {need} in a task, and it may hold {format_size(memory)}",
                hint=f"use --blocks {least} or more, or give tasks more with --memory",
            )
        return self.blocks


class _Run:
    """One run of the engine: what the driver decides; the work itself is in tasks."""

    def __init__(
        self,
        workers: Workers,
        graph: Graph,
        plan: Plan,
        signals: list[Signal],
        passes: list[Pass],
        blocks: int,
        memory: int,
        writer: StoreWriter,
        progress: Progress,
    ) -> None:
        self.workers, self.graph, self.plan, self.signals, self.writer = workers, graph, plan, signals, writer
        self.memory, self.passes = memory, passes
        self.place = self._graph_place()
        self.blocks = Blocks.of(graph, self.place, blocks)
        self.work = writer.work / f"blocks-{digest([list(self.blocks.bounds), self.place.url])}"
        for name in writer.work.names():  # of another number of blocks, or of another engine
            if name not in (self.work.name, "graph"):
                (writer.work / name).remove()
        hops = sum(spec.depth for spec in self.passes)
        self.progress = overall(progress, hops * len(self.blocks), counted="blocks")

    def run(self) -> None:
        needs = self._find_needs()
        features = self._features()
        answers = self._put_answers()
        statistics = self._statistics(features)
        stored: dict[str, list[StoredColumns]] = {}
        for spec in self.passes:
            moved = self._move(spec, needs, features, answers, statistics)
            for piece, columns in zip(spec.pieces, moved.columns):
                stored.setdefault(piece.signal.name, []).append(
                    StoredColumns(moved, columns, piece.part.index, self._positions(piece))
                )
        for signal in self.signals:
            self._write(signal, stored[signal.name])

    def _tasks(
        self, work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, width: int | None = None
    ) -> list[dict[str, Any]]:
        """A task for each number; with the `width` of a state, of blocks so small that some may share one."""
        seen, together = (self.writer.place / PLAN, self.place / "graph.json"), 1
        if width is not None:
            moved = self.graph.relation.entries * width * 4 // len(self.blocks)
            together = small_blocks_together(len(numbers), moved, self.workers.slots)
        return self.workers.tasks(partial(where_seen, seen, work), numbers, stage, self.progress, together)

    def _graph_place(self) -> Place:
        """Where tasks find the graph: its folder, or a copy beside the store of one that is in memory alone."""
        if self.graph.folder is not None:
            return Place.of(self.graph.folder).resolved()
        place = self.writer.work / "graph"
        if not (place / "graph.json").exists():
            made = self.graph.save(scratch() / f"graph-{id(self)}", replace=True)
            assert isinstance(made.folder, Path)
            files = sorted(path for path in made.folder.rglob("*") if path.is_file())
            for path in sorted(files, key=lambda path: path.name == "graph.json"):
                (place / path.relative_to(made.folder).as_posix()).put_file(path)
        return place

    def _find_needs(self) -> Needs:
        needs = Needs(self.blocks, self.work / "needs")
        self._tasks(needs.find, needs.missing(), "neighbours")
        if self.blocks.directed:
            self._tasks(needs.add_columns, needs.missing_columns(), "column sums")
        return needs

    def _features(self) -> StoredFeatures | None:
        features = self.graph.nodes.features
        if features is None:
            return None
        stops = getattr(features.values, "stops", None)
        stops = (len(features.values),) if stops is None else tuple(int(stop) for stop in stops)
        sharded = (
            len(stops) > 1 or getattr(features.values, "places", [Place("features.npy")])[0].name != "features.npy"
        )
        names = features_files(self.graph.target, list(stops) if sharded else None)
        places = tuple(self.place / name for name in names)
        return StoredFeatures(places, stops, features.width, features.values.dtype, features.dtype)

    def _statistics(self, features: StoredFeatures | None) -> Statistics | None:
        """Mean and deviation of every column, added up by tasks in the order of rows."""
        plan = self.plan.features
        if plan is None or plan.scaling != "standard" or plan.statistics is not None or features is None:
            return None if plan is None else plan.statistics
        chunks = max(1, -(-features.stops[-1] // (CHUNK * len(self.blocks))))
        sums = ColumnSums(features, self.work / "statistics", chunks)
        self._tasks(sums.add, range(sums.tasks()), "means")
        mean = sums.total() / max(1, features.stops[-1])
        squares = ColumnSums(features, self.work / "statistics", chunks, tuple(mean.tolist()))
        self._tasks(squares.add, range(squares.tasks()), "deviations")
        return statistics_of(mean, squares.total() / max(1, features.stops[-1]))

    def _put_answers(self) -> Place:
        """Labels and roles as this graph has them, for tasks to read; written a part at a time."""
        place, labels = self.work / "answers", self.plan.labels
        nodes = self.graph.nodes
        if labels is None or nodes.labels is None or nodes.split is None:
            return place
        put_rows(place / "labels.npy", nodes.labels.values)
        put_rows(place / "split.npy", nodes.split.roles)
        if labels.folds > 1:
            train = training_rows(nodes.split)
            put_rows(place / "train.npy", train)
            put_rows(place / "folds.npy", folds_of(train, labels).astype(np.int16))
        return place

    def _move(
        self,
        spec: Pass,
        needs: Needs,
        features: StoredFeatures | None,
        answers: Place,
        statistics: Statistics | None,
    ) -> BlockPass:
        """All hops of one pass; goes on from the last hop that is whole."""
        folder = self.work / f"pass-{digest([[piece.name for piece in spec.pieces], spec.dtype, spec.operator.r])}"
        columns = tuple(self._columns(piece, folder, features, answers, statistics) for piece in spec.pieces)
        moved = BlockPass(needs, spec.operator, spec.dtype, columns, folder, self.memory)
        if spec.dtype == "float16":
            peaks = self._tasks(moved.largest, range(len(self.blocks)), "largest values")
            scales = {each.name: scales_of([peak[each.name] for peak in peaks]) for each in columns}
            moved = replace(moved, scales=scales)
        done = _whole_hops(moved)
        for k in range(done + 1, moved.depth + 1):
            if k == 1:
                self._tasks(moved.enter, moved.missing(0), "first values", spec.width)
            stage = f"hop {k} of {moved.depth}"
            self._tasks(partial(moved.hop, k), moved.missing(k), stage, moved.width(k))
            if all(each.rows is not None for each in moved.moving(k - 1)):
                (folder / f"hop{k - 1}").remove()  # what is kept of it lies beside
        return moved

    def _columns(
        self,
        piece: Piece,
        folder: Place,
        features: StoredFeatures | None,
        answers: Place,
        statistics: Statistics | None,
    ) -> Columns:
        first: FirstFeatures | FirstLabels
        if piece.signal.name.startswith("features"):
            assert features is not None and isinstance(self.plan.features, FeatureSignal)
            first = FirstFeatures(features, self.plan.features.scaling, statistics)
        else:
            assert isinstance(self.plan.labels, LabelSignal) and self.graph.nodes.labels is not None
            without = piece.part.index if piece.signal.name == "crossfit" else None
            soft = features if self.plan.labels.soft else None
            first = FirstLabels(answers, self.graph.nodes.labels.classes, without, soft)
        rows: Place | None = None
        kept: tuple[int, ...] = ()
        if piece.part.rows is not None:
            rows = folder / f"{piece.name}.rows.npy"
            put_rows(rows, piece.part.rows)
            kept = tuple(int(at) for at in np.searchsorted(piece.part.rows, self.blocks.bounds))
        at, source = piece.at, (piece.first, piece.last)
        return Columns(piece.name, first, source, at, piece.padded, piece.signal.hops, rows, kept)

    def _positions(self, piece: Piece) -> Place | None:
        if piece.part.positions is None:
            return None
        place = self.work / "positions" / f"{piece.name}.npy"
        put_rows(place, piece.part.positions)
        return place

    def _write(self, signal: Signal, columns: Sequence[StoredColumns]) -> None:
        folder = self.writer.folder_of(signal)
        count = self.graph.nodes.count if signal.rows is None else len(signal.rows)
        writing = ShardWriting(
            signal.name, signal.hops, signal.width, signal.operator, signal.dtype, count, tuple(columns), folder
        )
        total = len(writing.planned())
        answers = self._tasks(writing.write, range(total), f"write {signal.name}")
        self.writer.record(signal, [Shard(**answer) for answer in answers])


def _kept_rows(graph: Graph, plan: Plan) -> Array | None:
    """Rows to keep, in a mapped file: the driver's memory does not grow with them."""
    if plan.keeps_all:
        return None
    path = scratch() / f"kept-{digest([graph.name, plan.rows])}-{next(_numbers)}.i64"
    with path.open("wb") as file:
        for part in plan.kept_parts(graph):
            file.write(part.astype(np.int64, copy=False).data.cast("B"))
    count = path.stat().st_size // 8
    return None if count == graph.nodes.count else np.memmap(path, np.int64, "r", shape=(count,))


_numbers = itertools.count()


def _whole_hops(moved: BlockPass) -> int:
    """How many hops need not be computed again: all that is read back of them is there, and the last one's state."""
    whole = 0
    for k in range(1, moved.depth + 1):
        reads_state = any(columns.rows is None for columns in moved.moving(k))
        missing = set(moved.missing(k)) if reads_state or moved.only(k) is not None else set(moved.missing_kept(k))
        if missing:
            break
        whole = k
    while 0 < whole < moved.depth and moved.missing(whole):
        whole -= 1
    return whole
