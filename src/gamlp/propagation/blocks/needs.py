"""Which rows of others each block needs: found once, by tasks, and read at every hop."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Block
from gamlp.io import Place, RowShards, npy_size, open_rows, ordered_map, put_rows
from gamlp.kernel import add_up
from gamlp.propagation.blocks.hubs import Hub
from gamlp.propagation.blocks.layout import Blocks
from gamlp.propagation.checks import check_neighbours
from gamlp.propagation.operator import block_row_sums, refuse_extremes

_COUNTS = "counts.npy"
_REQUESTS = 8  # small files that are read at once
# A table of all nodes, five bytes each, may be this many times as long as the block has entries: a task's memory has
# room for so much (`sizing.whole_bytes`). Longer ones are not made, but for graphs so small that they hardly count:
# neighbours are sorted.
_DENSE, _FEW = 2, 4 << 20


@dataclass(frozen=True)
class Needs:
    """Which rows every reader's neighbours are. Files in `folder`, a set a reader (a block, or a part of a hub):

    `needed` node numbers, ascending, of all neighbours and of the block's own rows; `starts[j]` where those of block j
    begin among them; `places` the neighbours as places among `needed`. Of a block, sums of rows and of columns; of a
    part, `loop`: how many neighbours come before the hub itself.
    """

    blocks: Blocks
    folder: Place

    def part(self, name: str, index: int) -> Place:
        return self.folder / f"{index:05d}.{name}.npy"

    def read(self, name: str, index: int) -> Any:
        return open_rows(self.part(name, index))

    def missing(self) -> list[int]:
        """Readers that are not prepared yet, or of which a file was cut: one listing tells."""
        there = self.folder.sizes()
        found = []
        for index in range(self.blocks.readers):
            size = sum(there.get(self.part(name, index).name, 0) for name in self._names(index))
            if self._whole(index, size).name not in there:
                found.append(index)
        return found

    def missing_columns(self) -> list[int]:
        """The same of column sums."""
        there, bounds = self.folder.sizes(), self.blocks.bounds
        sizes = [npy_size((end - begin,), np.float64) for begin, end in itertools.pairwise(bounds)]
        return [at for at, size in enumerate(sizes) if there.get(self.part("column_sums", at).name) != size]

    def _names(self, index: int) -> tuple[str, ...]:
        own = "row_sums" if index < len(self.blocks) else "loop"
        return ("needed", "places", "starts", own, *(["column_parts"] if self.blocks.directed else []))

    def _whole(self, index: int, size: int) -> Place:
        """Written last; its name says how many bytes the block's files have together."""
        return self.folder / f"{index:05d}.whole-{size}"

    def find(self, index: int) -> dict[str, Any]:
        """One task: look at a reader's neighbours."""
        block = self.blocks.csr(index)
        check_neighbours(block.neighbours, self.blocks.count)
        needed, places = compact(block, self.blocks.count)
        parts, weights = {"needed": needed, "places": places}, block.weights
        parts["starts"] = np.searchsorted(needed, np.asarray(self.blocks.bounds))
        if index < len(self.blocks):
            hub = self.blocks.hub_of(index)
            parts["row_sums"] = block_row_sums(block) if hub is None else self._hub_row_sum(hub)
            if self.blocks.weighted:
                refuse_extremes(parts["row_sums"], block.start)
        else:
            hub, part = self.blocks.parts[index - len(self.blocks)]
            parts["loop"] = np.array([self.blocks.before_loop(hub)])
            once = part * hub.step - hub.stored(part)[0]  # what lies before is of the part before
            places, weights = places[once:], None if weights is None else weights[once:]
        if self.blocks.directed:
            parts["column_parts"] = np.zeros(len(needed))
            add_up(places, weights, parts["column_parts"])
        for name, values in parts.items():
            put_rows(self.part(name, index), values)
        self._whole(index, sum(npy_size(values.shape, values.dtype) for values in parts.values())).put(b".")
        return {"needed": len(needed), "entries": len(places)}

    def _hub_row_sum(self, hub: Hub) -> Array:
        """Weights are added up one after the other, as `block_row_sums` does it, and few are held at a time."""
        if not self.blocks.weighted:
            return np.array([float(hub.entries)])
        total = 0.0
        for part in range(hub.parts):
            weights = np.concatenate([[total], np.asarray(self.blocks.hub_weights(hub, part), np.float64)])
            total = float(np.bincount(np.zeros(len(weights), np.int8), weights=weights)[0])
        return np.array([total])

    def add_columns(self, index: int) -> dict[str, Any]:
        """One task, of directed graphs: what all blocks add to the column sums of this one's rows."""
        begin, end = self.blocks.bounds[index], self.blocks.bounds[index + 1]
        sums = np.zeros(end - begin)
        for other in range(self.blocks.readers):
            first, last = (int(at) for at in self.read("starts", other)[index : index + 2])
            sums[self.read("needed", other)[first:last] - begin] += self.read("column_parts", other)[first:last]
        if self.blocks.weighted:
            refuse_extremes(sums, begin)
        put_rows(self.part("column_sums", index), sums)
        return {}

    @property
    def parcels(self) -> bool:
        """Whether blocks send rows to each other: where a file is mapped, few rows of it cost little."""
        return self.folder.local is None and len(self.blocks) > 1

    def counts(self) -> Any:
        """counts[t, s]: how many rows reader t needs of block s."""
        return open_rows(self.folder / _COUNTS)

    def missing_wanted(self) -> list[int]:
        """Blocks of which it is not known who wants their rows."""
        there = self.folder.sizes()
        return [index for index in range(len(self.blocks)) if self.part("wanted", index).name not in there]

    def tabulate(self, _: int) -> dict[str, Any]:
        """One task: the table of counts."""
        readers = range(self.blocks.readers)
        starts = ordered_map(_REQUESTS, lambda reader: np.asarray(self.read("starts", reader)), readers)
        put_rows(self.folder / _COUNTS, np.stack([np.diff(each) for each in starts]))
        return {}

    def find_wanted(self, index: int) -> dict[str, Any]:
        """One task: `wanted`, the rows of this block that readers need, one reader after the other."""
        before = np.cumsum(np.asarray(self.counts()), axis=1)
        begin = self.blocks.bounds[index]

        def of(other: int) -> Array:
            first, last = (int(before[other, index - 1]) if index else 0), int(before[other, index])
            return np.asarray(self.read("needed", other)[first:last]) - np.int32(begin)

        found = list(ordered_map(_REQUESTS, of, range(self.blocks.readers)))
        put_rows(self.part("wanted", index), np.concatenate(found))
        return {}

    def sums(self) -> tuple[RowShards, RowShards]:
        """Row and column sums of all nodes, read where they are asked for."""
        indices, stops = range(len(self.blocks)), self.blocks.bounds[1:]
        rows = RowShards([self.part("row_sums", index) for index in indices], stops, (), np.float64)
        if not self.blocks.directed:
            return rows, rows
        return rows, RowShards([self.part("column_sums", index) for index in indices], stops, (), np.float64)


def compact(block: Block, count: int) -> tuple[Array, Array]:
    """(needed, places): needed[places] = neighbours, int32; the block's own rows are among the needed, side by side."""
    neighbours = block.neighbours
    if count <= max(_FEW, _DENSE * (len(neighbours) + block.stop - block.start)):  # a table is quicker than sorting
        seen = np.zeros(count, bool)
        seen[neighbours] = True
        seen[block.start : block.stop] = True
        needed = np.flatnonzero(seen).astype(np.int32)
        place_of = np.cumsum(seen, dtype=np.int32)
        return needed, place_of[neighbours] - np.int32(1)
    needed = np.union1d(neighbours, np.arange(block.start, block.stop, dtype=np.int32)).astype(np.int32)
    return needed, np.searchsorted(needed, neighbours).astype(np.int32)
