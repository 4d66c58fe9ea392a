"""A graph in row blocks on shared storage: what a task must know of it, and which rows of others each block needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph, block_folder
from gamlp.io import Place, RowShards, even_ranges, npy_size, open_rows, put_rows, verify
from gamlp.kernel import add_up
from gamlp.propagation.checks import check_block, check_neighbours
from gamlp.propagation.operator import block_row_sums, refuse_extremes

_DENSE = 8  # a table of all nodes may be this many times as long as the block has entries


@dataclass(frozen=True)
class Blocks:
    """Row blocks of a graph's relation: block i holds the rows bounds[i]..bounds[i + 1]. No array of the graph."""

    graph: Place
    relation: str
    weighted: bool
    directed: bool
    files: tuple[int, ...]  # the first row after each of the relation's files
    bounds: tuple[int, ...]
    checksums: tuple[dict[str, int], ...]  # of each of the relation's files, by the name of the array
    moved: dict[str, str]  # where files lie that came as the graph grew

    @classmethod
    def of(cls, graph: Graph, place: Place, wanted: int) -> Blocks:
        """About `wanted` blocks with about the same number of entries, each inside one of the graph's files."""
        relation = graph.relation
        total = sum(block.entries + block.stop - block.start for block in relation.blocks)
        bounds = [0]
        for block in relation.blocks:
            rows = block.stop - block.start
            parts = min(rows, max(1, round(wanted * (block.entries + rows) / max(1, total))))
            cuts = [stop for _, stop in even_ranges(block.offsets, parts)] if place.local is not None else []
            cuts = cuts or [rows * part // parts for part in range(1, parts + 1)] if rows else []
            bounds += [block.start + cut for cut in cuts]
        files = tuple(block.stop for block in relation.blocks)
        names = ("offsets", "neighbours", *(["weights"] if relation.weighted else []))
        checksums = tuple(
            {part: graph.checksums[f"{block_folder(relation.name, index)}/{part}.npy"][1] for part in names}
            for index in range(len(files))
        )
        about = relation.name, relation.weighted, relation.directed
        return cls(place, *about, files, tuple(bounds), checksums, graph.moved)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def count(self) -> int:
        return self.bounds[-1]

    def csr(self, index: int) -> Block:
        """The block's rows with offsets from 0; a damaged file is told."""
        start, stop = self.bounds[index], self.bounds[index + 1]
        file, offsets = self._offsets(index)
        first, last = int(offsets[0]), int(offsets[-1])
        neighbours = np.asarray(self._open(file, "neighbours")[first:last])
        block = Block(start, stop, offsets - first, neighbours, self._weights(file, first, last))
        check_block(block, self.relation)
        return block

    def shape_of(self, index: int) -> tuple[Array, Array | None]:
        """Offsets from 0, and weights, of a block whose neighbours are known as places."""
        file, offsets = self._offsets(index)
        return offsets - int(offsets[0]), self._weights(file, int(offsets[0]), int(offsets[-1]))

    def _offsets(self, index: int) -> tuple[int, Array]:
        start, stop = self.bounds[index], self.bounds[index + 1]
        file = int(np.searchsorted(self.files, start, side="right"))
        before = self.files[file - 1] if file else 0
        return file, np.asarray(self._open(file, "offsets")[start - before : stop - before + 1])

    def _weights(self, file: int, first: int, last: int) -> Array | None:
        return np.asarray(self._open(file, "weights")[first:last]) if self.weighted else None

    def _open(self, file: int, part: str) -> Any:
        """One of the relation's files, verified by every process that reads it; behind a URL it is not."""
        name = f"{block_folder(self.relation, file)}/{part}.npy"
        place = self.graph / self.moved.get(name, name)
        if place.local is not None:
            verify(place, self.checksums[file][part], hint="build the graph again")
        return open_rows(place)


@dataclass(frozen=True)
class Needs:
    """Which rows every block's neighbours are, found once and read at every hop. Files in `folder`, a set a block:

    `needed` node numbers, ascending, of all neighbours and of the block's own rows; `starts[j]` where those of block j
    begin among them; `places` the neighbours as places among `needed`; sums of rows and of columns.
    """

    blocks: Blocks
    folder: Place

    def part(self, name: str, index: int) -> Place:
        return self.folder / f"{index:05d}.{name}.npy"

    def read(self, name: str, index: int) -> Any:
        return open_rows(self.part(name, index))

    def missing(self) -> list[int]:
        """Blocks that are not prepared yet, or of which a file was cut: one listing tells."""
        there = self.folder.sizes()
        found = []
        for index in range(len(self.blocks)):
            size = sum(there.get(self.part(name, index).name, 0) for name in self._names())
            if self._whole(index, size).name not in there:
                found.append(index)
        return found

    def missing_columns(self) -> list[int]:
        """The same of column sums."""
        there, bounds = self.folder.sizes(), self.blocks.bounds
        sizes = [npy_size((end - begin,), np.float64) for begin, end in itertools.pairwise(bounds)]
        return [at for at, size in enumerate(sizes) if there.get(self.part("column_sums", at).name) != size]

    def _names(self) -> tuple[str, ...]:
        return ("needed", "places", "starts", "row_sums", *(["column_parts"] if self.blocks.directed else []))

    def _whole(self, index: int, size: int) -> Place:
        """Written last; its name says how many bytes the block's files have together."""
        return self.folder / f"{index:05d}.whole-{size}"

    def find(self, index: int) -> dict[str, Any]:
        """One task: look at the block's neighbours."""
        block = self.blocks.csr(index)
        check_neighbours(block.neighbours, self.blocks.count)
        needed, places = _compact(block, self.blocks.count)
        starts = np.searchsorted(needed, np.asarray(self.blocks.bounds))
        sums = block_row_sums(block)
        if self.blocks.weighted:
            refuse_extremes(sums, block.start)
        parts = {"needed": needed, "places": places, "starts": starts, "row_sums": sums}
        if self.blocks.directed:
            parts["column_parts"] = np.zeros(len(needed))
            add_up(places, block.weights, parts["column_parts"])
        for name, values in parts.items():
            put_rows(self.part(name, index), values)
        self._whole(index, sum(npy_size(values.shape, values.dtype) for values in parts.values())).put(b".")
        return {"needed": len(needed), "entries": len(places)}

    def add_columns(self, index: int) -> dict[str, Any]:
        """One task, of directed graphs: what all blocks add to the column sums of this one's rows."""
        begin, end = self.blocks.bounds[index], self.blocks.bounds[index + 1]
        sums = np.zeros(end - begin)
        for other in range(len(self.blocks)):
            first, last = (int(at) for at in self.read("starts", other)[index : index + 2])
            sums[self.read("needed", other)[first:last] - begin] += self.read("column_parts", other)[first:last]
        if self.blocks.weighted:
            refuse_extremes(sums, begin)
        put_rows(self.part("column_sums", index), sums)
        return {}

    def sums(self) -> tuple[RowShards, RowShards]:
        """Row and column sums of all nodes, read where they are asked for."""
        indices, stops = range(len(self.blocks)), self.blocks.bounds[1:]
        rows = RowShards([self.part("row_sums", index) for index in indices], stops, (), np.float64)
        if not self.blocks.directed:
            return rows, rows
        return rows, RowShards([self.part("column_sums", index) for index in indices], stops, (), np.float64)


def _compact(block: Block, count: int) -> tuple[Array, Array]:
    """(needed, places): needed[places] = neighbours, int32; the block's own rows are among the needed, side by side."""
    neighbours = block.neighbours
    if count <= _DENSE * (len(neighbours) + block.stop - block.start):  # a table is quicker than sorting
        seen = np.zeros(count, bool)
        seen[neighbours] = True
        seen[block.start : block.stop] = True
        needed = np.flatnonzero(seen).astype(np.int32)
        place_of = np.cumsum(seen, dtype=np.int32)
        return needed, place_of[neighbours] - np.int32(1)
    needed = np.union1d(neighbours, np.arange(block.start, block.stop, dtype=np.int32)).astype(np.int32)
    return needed, np.searchsorted(needed, neighbours).astype(np.int32)


def where_seen(files: Sequence[Place], work: Callable[[int], dict[str, Any]], number: int) -> dict[str, Any]:
    """One task, refused where it cannot see files that the driver sees."""
    for file in files:
        if file.size() is None:
            raise GamlpError(
                "the executors cannot see this file of the driver's", file=file,
                hint="give a folder that all machines share, or a URL such as s3://bucket/folder",
            )  # fmt: skip
    return work(number)
