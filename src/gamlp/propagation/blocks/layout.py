"""A graph in row blocks on shared storage: what a task must know of it, and where it is cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph, block_folder
from gamlp.io import Place, RowSource, even_ranges, open_rows, run_here, verify
from gamlp.progress import silent
from gamlp.propagation.blocks.hubs import Hub, apart
from gamlp.propagation.checks import check_block

Run = Callable[[Callable[[int], dict[str, Any]], Sequence[int], str], list[dict[str, Any]]]
_OFFSETS = 1 << 20  # offsets that are looked at at a time


@dataclass(frozen=True)
class Blocks:
    """Row blocks of a graph's relation: block i holds the rows bounds[i]..bounds[i + 1]. No array of the graph.

    Readers are who looks at neighbours: the blocks, then the parts of all hubs; a hub's block itself looks at none.
    """

    graph: Place
    relation: str
    weighted: bool
    directed: bool
    files: tuple[int, ...]  # the first row after each of the relation's files
    bounds: tuple[int, ...]
    checksums: tuple[dict[str, int], ...]  # of each of the relation's files, by the name of the array
    moved: dict[str, str]  # where files lie that came as the graph grew
    hubs: tuple[Hub, ...] = ()

    @classmethod
    def of(cls, graph: Graph, place: Place, wanted: int, run: Run | None = None) -> Blocks:
        """About `wanted` blocks with about the same number of entries, each inside one of the graph's files.

        `run` runs tasks: of a graph behind a URL they look where files are cut.
        """
        relation = graph.relation
        total = sum(block.entries + block.stop - block.start for block in relation.blocks)
        sizes = [block.stop - block.start for block in relation.blocks]
        parts = [
            min(rows, max(1, round(wanted * (block.entries + rows) / max(1, total))))
            for rows, block in zip(sizes, relation.blocks)
        ]
        files = tuple(block.stop for block in relation.blocks)
        names = ("offsets", "neighbours", *(["weights"] if relation.weighted else []))
        checksums = tuple(
            {part: graph.checksums[f"{block_folder(relation.name, index)}/{part}.npy"][1] for part in names}
            for index in range(len(files))
        )
        about = relation.name, relation.weighted, relation.directed
        whole = cls(place, *about, files, (0, *files), checksums, graph.moved)
        several = [index for index, count in enumerate(parts) if count > 1]
        cuts: dict[int, dict[str, Any]] = {
            index: {"stops": [rows] if rows else [], "hubs": []} for index, rows in enumerate(sizes)
        }
        if place.local is not None:
            for index in several:
                offsets = relation.blocks[index].offsets
                cuts[index] = cut_file(offsets, [stop for _, stop in even_ranges(offsets, parts[index])], parts[index])
        elif several:
            work, ask = FileCuts(whole, tuple(parts)), run or partial(run_here, progress=silent)
            cuts |= dict(zip(several, ask(work.cut, several, "blocks")))
        starts = [block.start for block in relation.blocks]
        bounds = [0, *(start + stop for index, start in enumerate(starts) for stop in cuts[index]["stops"])]
        hubs = [(start + hub[0], *hub[1:]) for index, start in enumerate(starts) for hub in cuts[index]["hubs"]]
        return replace(
            whole, bounds=tuple(bounds), hubs=tuple(Hub(bisect_left(bounds, row), row, *rest) for row, *rest in hubs)
        )

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def count(self) -> int:
        return self.bounds[-1]

    @property
    def parts(self) -> tuple[tuple[Hub, int], ...]:
        """Parts of all hubs: readers after the blocks."""
        return tuple((hub, part) for hub in self.hubs for part in range(hub.parts))

    @property
    def readers(self) -> int:
        return len(self) + sum(hub.parts for hub in self.hubs)

    def hub_of(self, block: int) -> Hub | None:
        return next((hub for hub in self.hubs if hub.block == block), None)

    def block_of(self, reader: int) -> int:
        """The block that a reader sums up, or sums up a part of."""
        return reader if reader < len(self) else self.parts[reader - len(self)][0].block

    def csr(self, reader: int) -> Block:
        """A reader's rows with offsets from 0; a damaged file is told."""
        file, offsets, first = self._entries(reader)
        neighbours = np.asarray(self.open(file, "neighbours")[first : first + int(offsets[-1])])
        start, stop = self.bounds[self.block_of(reader) :][:2]
        block = Block(start, stop, offsets, neighbours, self._weights(file, first, first + int(offsets[-1])))
        check_block(block, self.relation)
        return block

    def neighbours(self, block: int) -> Array:
        """Node numbers that a block's rows have for neighbours: they were looked at when its needs were found."""
        file, offsets, first = self._entries(block)
        return np.asarray(self.open(file, "neighbours")[first : first + int(offsets[-1])])

    def shape_of(self, reader: int) -> tuple[Array, Array | None]:
        """Offsets from 0, and weights, of a reader whose neighbours are known as places."""
        file, offsets, first = self._entries(reader)
        return offsets, self._weights(file, first, first + int(offsets[-1]))

    def before_loop(self, hub: Hub) -> int:
        """How many neighbours of a hub come before the row itself; few are looked at."""
        file, offsets = self._offsets(hub.block)
        first = int(offsets[0])
        return bisect_left(self.open(file, "neighbours"), hub.row, first, int(offsets[-1])) - first

    def hub_weights(self, hub: Hub, part: int) -> Array | None:
        """Of the neighbours of a part, each in one part alone."""
        file, offsets = self._offsets(hub.block)
        begin, end = part * hub.step, min((part + 1) * hub.step, hub.entries)
        return self._weights(file, int(offsets[0]) + begin, int(offsets[0]) + max(begin, end))

    def _entries(self, reader: int) -> tuple[int, Array, int]:
        """The file, offsets from 0, and the first entry in the file."""
        file, offsets = self._offsets(self.block_of(reader))
        first = int(offsets[0])
        if reader >= len(self):
            hub, part = self.parts[reader - len(self)]
            low, high = hub.stored(part)
            return file, np.array([0, high - low]), first + low
        if self.hub_of(reader) is not None:
            return file, np.zeros(2, np.int64), first
        return file, offsets - first, first

    def _offsets(self, index: int) -> tuple[int, Array]:
        start, stop = self.bounds[index], self.bounds[index + 1]
        file = int(np.searchsorted(self.files, start, side="right"))
        before = self.files[file - 1] if file else 0
        return file, np.asarray(self.open(file, "offsets")[start - before : stop - before + 1])

    def _weights(self, file: int, first: int, last: int) -> Array | None:
        return np.asarray(self.open(file, "weights")[first:last]) if self.weighted else None

    def open(self, file: int, part: str) -> Any:
        """One of the relation's files, verified by every process that reads it; behind a URL it is not."""
        name = f"{block_folder(self.relation, file)}/{part}.npy"
        place = self.graph / self.moved.get(name, name)
        if place.local is not None:
            verify(place, self.checksums[file][part], hint="build the graph again")
        return open_rows(place)


@dataclass(frozen=True)
class FileCuts:
    """Where the relation's files are cut, file i into `parts[i]` blocks."""

    blocks: Blocks  # one a file
    parts: tuple[int, ...]

    def cut(self, index: int) -> dict[str, Any]:
        """One task, of a file behind a URL: its offsets are read from front to back, some at a time."""
        offsets, parts = self.blocks.open(index, "offsets"), self.parts[index]
        return cut_file(offsets, even_stops(offsets, parts, _OFFSETS), parts)


def cut_file(offsets: Any, stops: list[int], parts: int) -> dict[str, Any]:
    """What is to be known of a file that is cut so."""
    ends, hubs = apart(offsets, stops, parts)
    return {"stops": ends, "hubs": hubs}


def even_stops(offsets: RowSource, parts: int, step: int) -> list[int]:
    """The ends of `even_ranges`, found without looking here and there; `step` rows are held at a time."""
    rows = len(offsets) - 1
    total = int(offsets[rows : rows + 1][0]) + rows
    targets = np.array([total * part // parts for part in range(1, parts)])
    stops: set[int] = {rows}
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        work = offsets[begin:end] + np.arange(begin, end)
        found = np.searchsorted(work, targets)
        stops |= {begin + int(at) for at in found if at < len(work)}
        targets = targets[found == len(work)]
    return sorted(stops - {0})


def where_seen(files: Sequence[Place], work: Callable[[int], dict[str, Any]], number: int) -> dict[str, Any]:
    """One task, refused where it cannot see files that the driver sees."""
    for file in files:
        if file.size() is None:
            raise GamlpError(
                "the executors cannot see this file of the driver's", file=file,
                hint="give a folder that all machines share, or a URL such as s3://bucket/folder",
            )  # fmt: skip
    return work(number)
