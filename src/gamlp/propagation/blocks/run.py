"""One run over blocks, view by view: what the driver decides; the work itself is in tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gamlp.graph import Graph, View, digest, fingerprint, union_by_tasks
from gamlp.io import Place, Workers, put_rows, scratch_folder
from gamlp.kernel import crc32
from gamlp.progress import Progress, overall
from gamlp.propagation.blocks.first import Run, SharedFirstValues
from gamlp.propagation.blocks.hop import TOP, BlockPass, Columns, scales_of
from gamlp.propagation.blocks.layout import Blocks, where_seen
from gamlp.propagation.blocks.needs import Needs
from gamlp.propagation.blocks.shards import ShardWriting, StoredColumns
from gamlp.propagation.blocks.sizing import small_blocks_together
from gamlp.propagation.passes import Pass, Piece
from gamlp.propagation.plan import Plan
from gamlp.propagation.signals import Signal
from gamlp.propagation.store.shards import Shard
from gamlp.propagation.store.writer import PLAN, StoreWriter


class BlockTasks(Protocol):
    """A task for each number; with the `width` of a state, of blocks so small that some may share one."""

    def __call__(
        self, work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, width: int | None = None
    ) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class StoredHops:
    """All hops of a view's signals, in blocks."""

    columns: dict[str, list[StoredColumns]] = field(default_factory=dict)

    def write(self, signal: Signal, count: int, folder: Place, run: Run) -> list[Shard]:
        """The shards of one signal of `count` rows, one task each."""
        writing = ShardWriting(
            signal.name,
            signal.hops,
            signal.width,
            signal.operator,
            signal.dtype,
            count,
            tuple(self.columns[signal.name]),
            folder,
        )
        results = run(writing.write, range(len(writing.planned())), f"write {signal.name}")
        return [Shard(**result) for result in results]


@dataclass(frozen=True)
class ViewRun:
    """Blocks of a view, a folder for their states, and the bytes a task may hold."""

    blocks: Blocks
    folder: Place
    memory: int
    first: SharedFirstValues
    tasks: BlockTasks

    def run(self, passes: Sequence[Pass]) -> StoredHops:
        """All hops of all passes; goes on from what is whole."""
        needs, stored = self._find_needs(), StoredHops()
        for spec in passes:
            moved = self._move(spec, needs)
            for piece, columns in zip(spec.pieces, moved.columns):
                stored.columns.setdefault(piece.signal.name, []).append(
                    StoredColumns(moved, columns, piece.part.index, self._positions(piece))
                )
        return stored

    def _find_needs(self) -> Needs:
        needs = Needs(self.blocks, self.folder / "needs")
        self.tasks(needs.find, needs.missing(), "neighbours")
        if self.blocks.directed:
            self.tasks(needs.add_columns, needs.missing_columns(), "column sums")
        if needs.parcels and (missing := needs.missing_wanted()):
            self.tasks(needs.tabulate, [0], "counts of rows")
            self.tasks(needs.find_wanted, missing, "wanted rows")
        return needs

    def _move(self, spec: Pass, needs: Needs) -> BlockPass:
        """All hops of one pass; goes on from the last hop that is whole."""
        name = digest([[piece.name for piece in spec.pieces], spec.dtype, spec.operator.r])
        folder, kept = self.folder / f"pass-{name}", _KeptRows(self.blocks.bounds, self.folder / f"pass-{name}")
        columns = tuple(self._columns(piece, kept) for piece in spec.pieces)
        moved = BlockPass(needs, spec.operator, spec.dtype, columns, folder, self.memory)
        if spec.dtype == "float16":
            peaks = self.tasks(moved.largest, range(len(self.blocks)), "largest values")
            scales = {each.name: scales_of([peak[each.name] for peak in peaks]) for each in columns}
            moved = replace(moved, scales=scales, top=max(peak[TOP] for peak in peaks))
        done = _whole_hops(moved)
        for k in range(done + 1, moved.depth + 1):
            if k == 1:
                self.tasks(moved.enter, moved.missing(0), "first values", spec.width)
            stage = f"hop {k} of {moved.depth}"
            if self.blocks.hubs:
                self.tasks(partial(moved.hub_sums, k), moved.missing_hubs(k), f"{stage}: hubs", moved.width(k))
            self.tasks(partial(moved.hop, k), moved.missing(k), stage, moved.width(k))
            if self.blocks.hubs:
                (folder / f"hop{k}" / "hubs").remove()
            if all(each.rows is not None for each in moved.with_hop(k - 1)):
                (folder / f"hop{k - 1}").remove()  # what is kept of it lies beside
            elif moved.parcels(k - 1) is not None:
                (folder / f"hop{k - 1}" / "parcels").remove()
        return moved

    def _columns(self, piece: Piece, kept_rows: _KeptRows) -> Columns:
        rows, kept = kept_rows.of(piece)
        at, source = piece.at, (piece.first, piece.last)
        return Columns(piece.name, self.first.of(piece), source, at, piece.padded, piece.signal.hops, rows, kept)

    def _positions(self, piece: Piece) -> Place | None:
        if piece.part.positions is None:
            return None
        place = self.folder / "positions" / f"{piece.name}.npy"
        put_rows(place, piece.part.positions)
        return place


class _KeptRows:
    """Files of the rows that are kept: one for all pieces of a pass that keep the same."""

    def __init__(self, bounds: Sequence[int], folder: Place) -> None:
        self._bounds, self._folder = bounds, folder
        self._put: list[tuple[Any, Place, tuple[int, ...]]] = []

    def of(self, piece: Piece) -> tuple[Place | None, tuple[int, ...]]:
        """The file, and how many of its rows lie before each block; None: all rows are kept."""
        wanted = piece.part.rows
        if wanted is None:
            return None, ()
        for rows, place, kept in self._put:
            if rows is wanted or (len(rows) == len(wanted) and np.array_equal(rows, wanted)):
                return place, kept
        content = crc32(np.ascontiguousarray(wanted))  # workers keep copies by name: other rows, another name
        place = self._folder / f"{piece.name}-{content:08x}.rows.npy"
        put_rows(place, wanted)
        kept = tuple(int(at) for at in np.searchsorted(wanted, self._bounds))
        self._put.append((wanted, place, kept))
        return place, kept


def _whole_hops(moved: BlockPass) -> int:
    """How many hops need not be computed again: all that is read back of them is there, and the last one's state."""
    whole = 0
    for k in range(1, moved.depth + 1):
        reads_state = any(columns.rows is None for columns in moved.with_hop(k))
        missing = set(moved.missing(k)) if reads_state or moved.only(k) is not None else set(moved.missing_kept(k))
        if missing:
            break
        whole = k
    while 0 < whole < moved.depth and moved.missing(whole):
        whole -= 1
    return whole


_OURS = ("graph", "views", "answers", "features", "statistics", "written")  # beside the blocks' folders


@dataclass(frozen=True)
class ViewWork:
    """A view, its signals that are to be written, their passes, and about how many blocks."""

    view: View
    signals: tuple[Signal, ...]
    passes: tuple[Pass, ...]
    blocks: int


class BlockRun:
    """Edges of views, first values, then one view after the other; what a view needed goes when it is written."""

    def __init__(
        self,
        workers: Workers,
        graph: Graph,
        plan: Plan,
        views: Sequence[ViewWork],
        memory: int,
        writer: StoreWriter,
        progress: Progress,
    ) -> None:
        self.workers, self.plan, self.memory, self.writer = workers, plan, memory, writer
        self.graph, self.place = self._on_storage(graph)
        self.all_views = views
        self.views = [work for work in views if not self._recorded(work.signals)]
        self.progress = self.given_progress = progress
        self.seen = [writer.place / PLAN, self.place / "graph.json"]

    def run(self) -> None:
        signals = [signal for work in self.all_views for signal in work.signals]
        parts = max(work.blocks for work in self.all_views)
        first = SharedFirstValues(self.graph, self.plan, signals, self.writer.work)
        self.seen += first.places
        first.find_statistics(self._tasks, parts)
        self.writer.statistics |= first.statistics  # kept with the hops, for those of other graphs
        if not self.views:
            return
        unions = self._unions(parts)
        blocks = {name: Blocks.of(*union, self._wanted(name), self._tasks) for name, union in unions.items()}
        folders = {name: self._folder(each) for name, each in blocks.items()}
        for name in self.writer.work.names():  # of another number of blocks, or of another engine
            if name not in (*_OURS, *(folder.name for folder in folders.values())):
                (self.writer.work / name).remove()
        moved = sum(len(blocks[work.view.name]) * spec.depth for work in self.views for spec in work.passes)
        self.progress = overall(self.given_progress, moved, counted="blocks")
        for work in self.views:
            name = work.view.name
            tasks = partial(self._block_tasks, unions[name][0].relation.entries, len(blocks[name]))
            stored = ViewRun(blocks[name], folders[name], self.memory, first, tasks).run(work.passes)
            for signal in work.signals:
                shards = stored.write(signal, self._rows(signal), self.writer.folder_of(signal), self._tasks)
                self._note(signal).put(json.dumps([asdict(shard) for shard in shards]).encode())
                self.writer.record(signal, shards)
            folders[name].remove()
            if unions[name][1] != self.place:
                unions[name][1].remove()

    def _wanted(self, name: str) -> int:
        return next(work.blocks for work in self.views if work.view.name == name)

    def _folder(self, blocks: Blocks) -> Place:
        return self.writer.work / f"blocks-{digest([list(blocks.bounds), blocks.graph.url])}"

    def _rows(self, signal: Signal) -> int:
        return self.graph.nodes.count if signal.rows is None else len(signal.rows)

    def _on_storage(self, graph: Graph) -> tuple[Graph, Place]:
        """Where tasks find the graph: its folder, or a copy beside the store of one that is in memory alone."""
        if graph.folder is not None:
            return graph, Place.of(graph.folder).resolved()
        # By all that is in it: labels may be others since a run was killed.
        place = self.writer.work / "graph" / fingerprint.everything(graph)
        if not (place / "graph.json").exists():
            made = graph.save(scratch_folder() / f"graph-{id(self)}", replace=True)
            assert isinstance(made.folder, Path)
            files = sorted(path for path in made.folder.rglob("*") if path.is_file())
            for path in sorted(files, key=lambda path: path.name == "graph.json"):
                (place / path.relative_to(made.folder).as_posix()).put_file(path)
        return Graph.open(place), place

    def _unions(self, parts: int) -> dict[str, tuple[Graph, Place]]:
        """What the hops of every view run on: the graph's own edges, or those of several relations as one, beside."""
        views = [work.view for work in self.views]
        made = [view for view in views if self.graph.heterogeneous or view.turned]
        own = {view.name: (self.graph, self.place) for view in views if view not in made}
        if not made:
            return own
        folder = self.writer.work / "views"
        places = union_by_tasks(self.graph, self.place, made, folder, parts, self.memory, self._tasks)
        return own | {name: (Graph.open(place), place) for name, place in places.items()}

    def _note(self, signal: Signal) -> Place:
        """Of a signal whose shards are all written: they are found again after an interruption."""
        return self.writer.work / "written" / f"{signal.name}-{signal.key}-{signal.hops}-{self._rows(signal)}.json"

    def _recorded(self, signals: Sequence[Signal]) -> bool:
        """Whether an earlier run wrote all shards of a view's signals: then they are recorded now."""
        notes = [self._note(signal) for signal in signals]
        if not all(note.exists() for note in notes):
            return False
        found = [[Shard(**shard) for shard in json.loads(note.read())] for note in notes]
        for signal, shards in zip(signals, found):
            sizes = self.writer.folder_of(signal).sizes()
            if any(sizes.get(shard.name) != shard.bytes for shard in shards):
                return False
        for signal, shards in zip(signals, found):
            self.writer.record(signal, shards)
        return True

    def _tasks(
        self, work: Callable[[int], dict[str, Any]], numbers: Sequence[int], stage: str, together: int = 1
    ) -> list[dict[str, Any]]:
        """A task for each number, refused where it cannot see the driver's files."""
        seen = partial(where_seen, tuple(self.seen), work)
        return self.workers.tasks(seen, numbers, stage, self.progress, together)

    def _block_tasks(
        self,
        entries: int,
        blocks: int,
        work: Callable[[int], dict[str, Any]],
        numbers: Sequence[int],
        stage: str,
        width: int | None = None,
    ) -> list[dict[str, Any]]:
        """The same; with the `width` of a state, of blocks so small that some may share a task."""
        moved = 0 if width is None else entries * width * 4 // blocks
        together = 1 if width is None else small_blocks_together(len(numbers), moved, self.workers.slots)
        return self._tasks(work, numbers, stage, together)
