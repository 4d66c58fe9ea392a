"""One run over blocks, view by view: what the driver decides; the work itself is in tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gamlp.graph.graph import Graph
from gamlp.graph.manifest import digest
from gamlp.graph.union_blocks import union_by_tasks
from gamlp.graph.views import View
from gamlp.progress import Progress, overall
from gamlp.propagation.block_first import FirstFiles
from gamlp.propagation.block_tasks import Workers
from gamlp.propagation.block_view import ViewRun
from gamlp.propagation.blocks import Blocks, where_seen
from gamlp.propagation.passes import Pass
from gamlp.propagation.plan import Plan
from gamlp.propagation.shards import Shard
from gamlp.propagation.signals import Signal
from gamlp.propagation.sizing import small_blocks_together
from gamlp.propagation.writing import PLAN, StoreWriter
from gamlp.storage import Place, scratch

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
        self.views = [work for work in views if not self._recorded(work.signals)]
        self.progress = self.given_progress = progress
        self.seen = [writer.place / PLAN, self.place / "graph.json"]

    def run(self) -> None:
        if not self.views:
            return
        signals = [signal for work in self.views for signal in work.signals]
        parts = max(work.blocks for work in self.views)
        first = FirstFiles(self.graph, self.plan, signals, self.writer.work)
        self.seen += first.places
        unions = self._unions(parts)
        blocks = {name: Blocks.of(*union, self._wanted(name)) for name, union in unions.items()}
        folders = {name: self._folder(each) for name, each in blocks.items()}
        for name in self.writer.work.names():  # of another number of blocks, or of another engine
            if name not in (*_OURS, *(folder.name for folder in folders.values())):
                (self.writer.work / name).remove()
        moved = sum(len(blocks[work.view.name]) * spec.depth for work in self.views for spec in work.passes)
        self.progress = overall(self.given_progress, moved, counted="blocks")
        first.find_statistics(self._tasks, parts)
        for work in self.views:
            name = work.view.name
            tasks = partial(self._block_tasks, unions[name][0].relation.entries, len(blocks[name]))
            stored = ViewRun(blocks[name], folders[name], self.memory, first, tasks).run(work.passes)
            for signal in work.signals:
                shards = stored.write(signal, self._rows(signal), self.writer.folder_of(signal), self._tasks)
                self._note(signal).put(json.dumps([asdict(shard) for shard in shards]).encode())
                self.writer.record(signal, shards)
            folders[name].remove()
            if self.graph.heterogeneous:
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
        place = self.writer.work / "graph"
        if not (place / "graph.json").exists():
            made = graph.save(scratch() / f"graph-{id(self)}", replace=True)
            assert isinstance(made.folder, Path)
            files = sorted(path for path in made.folder.rglob("*") if path.is_file())
            for path in sorted(files, key=lambda path: path.name == "graph.json"):
                (place / path.relative_to(made.folder).as_posix()).put_file(path)
        return Graph.open(place), place

    def _unions(self, parts: int) -> dict[str, tuple[Graph, Place]]:
        """What the hops of every view run on: the graph's own edges, or those of several relations as one, beside."""
        views = [work.view for work in self.views]
        if not self.graph.heterogeneous:
            return {view.name: (self.graph, self.place) for view in views}
        folder = self.writer.work / "views"
        places = union_by_tasks(self.graph, self.place, views, folder, parts, self.memory, self._tasks)
        return {name: (Graph.open(place), place) for name, place in places.items()}

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
