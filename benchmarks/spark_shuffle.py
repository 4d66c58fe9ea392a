"""The same hop through a shuffle: every block sends the rows that other blocks need, Spark carries them.

All else is as ours: the same lists of needed rows, the same kernel, the same file for each block of the next hop.
`packed` sends all rows from one block to another as one value, which is the least that a shuffle can do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.graph import Graph
from gamlp.io import Place, npy_buffer, open_rows
from gamlp.propagation import Operator
from gamlp.propagation.blocks.layout import Blocks
from gamlp.propagation.blocks.needs import Needs
from gamlp.propagation.blocks.sums import BlockHop
from gamlp.propagation.operator import factors_of
from gamlp.spark.tasks import run_tasks

Array = np.ndarray[Any, Any]
_ROWS = 10_000  # of a batch
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Parts:
    """What tasks know."""

    needs: Needs
    folder: Place
    features: Place
    width: int
    operator: Operator
    packed: bool

    def place(self, k: int, index: int) -> Place:
        return self.folder / f"hop{k}" / f"{index:05d}.npy"

    def enter(self, index: int) -> dict[str, Any]:
        begin, end = self.needs.blocks.bounds[index : index + 2]
        whole, values = npy_buffer((end - begin, self.width), np.float32)
        values[:] = open_rows(self.features)[begin:end]
        self.place(0, index).put(whole)
        return {}

    def send(self, k: int, source: int) -> Iterator[pa.RecordBatch]:
        """Rows of a block at hop k, to all blocks that need them."""
        begin = self.needs.blocks.bounds[source]
        state = np.asarray(open_rows(self.place(k, source)))
        for block in range(len(self.needs.blocks)):
            first, last = (int(at) for at in self.needs.read("starts", block)[source : source + 2])
            nodes = np.asarray(self.needs.read("needed", block)[first:last])
            step = max(1, len(nodes)) if self.packed else _ROWS
            for at in range(0, len(nodes), step):
                some = nodes[at : at + step]
                rows = np.ascontiguousarray(state[some - begin])
                yield self._batch(block, first + at, some, rows)

    def _batch(self, block: int, first: int, nodes: Array, rows: Array) -> pa.RecordBatch:
        if self.packed:
            values, places = pa.array([rows.tobytes()], pa.binary()), np.array([first], np.int64)
        else:
            offsets = np.arange(0, (len(nodes) + 1) * self.width * 4, self.width * 4, dtype=np.int32)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows)]
            values = pa.Array.from_buffers(pa.binary(), len(nodes), buffers)
            places = np.arange(first, first + len(nodes), dtype=np.int64)
        block_of = np.full(len(places), block, np.int32)
        return pa.RecordBatch.from_arrays([pa.array(block_of), pa.array(places), values], ["block", "place", "values"])

    def receive(self, k: int, table: pa.Table) -> pa.Table:
        """The block that these rows are for, at hop k."""
        index = table.column("block")[0].as_py()
        begin, end = self.needs.blocks.bounds[index : index + 2]
        of_rows, of_columns = self.needs.sums()
        rows = slice(begin, end)
        step = factors_of(of_rows[rows], of_columns[rows], self.operator, directed=self.needs.blocks.directed).step
        whole, into = npy_buffer((end - begin, self.width), np.float32)
        hop = _Carried(self.needs, index, np.arange(end - begin), step, self.operator.loops, _NO_LIMIT)
        hop.table = table
        _, read = hop.run(lambda block: self.place(k - 1, block), into, "float32")
        self.place(k, index).put(whole)
        return pa.table({"read": pa.array([read]), "written": pa.array([len(whole)])})


class _Carried(BlockHop):
    """The rows are in a table, in any order."""

    table: pa.Table

    def _pull(self, first: int, last: int, sources: Any, into: Array, dtype: str, storage: str, at: int = 0) -> int:
        assert not at, "rows were sent whole: give tasks the memory to take them so"
        for batch in self.table.to_batches():
            places = batch.column("place").to_numpy()
            values = batch.column("values")
            offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
            data = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
            rows = data.view(np.float32).reshape(-1, into.shape[1])
            if len(rows) == len(places):
                into[places] = rows
                continue
            starts = (offsets - offsets[0]) // (4 * into.shape[1])
            for place, begin, end in zip(places, starts[:-1], starts[1:]):
                into[place : place + end - begin] = rows[begin:end]
        return int(into.nbytes)


@dataclass(frozen=True)
class Shuffle:
    """All hops, each from the files of the one before."""

    spark: Any
    parts: Parts

    @classmethod
    def prepared(cls, spark: Any, graph: Graph, work: Path, blocks: int, operator: Operator, packed: bool) -> Shuffle:
        place = Place.of(graph.folder or "").resolved()
        cut, folder = Blocks.of(graph, place, blocks), Place.of(work).resolved()
        needs, width = Needs(cut, folder / "needs"), graph.nodes.features.width if graph.nodes.features else 0
        features = place / "nodes" / graph.target / "features.npy"
        parts = Parts(needs, folder, features, width, operator, packed)
        spark.conf.set("spark.sql.shuffle.partitions", str(len(cut)))
        for task in (needs.find, parts.enter):
            run_tasks(spark, task, range(len(cut)))
        return cls(spark, parts)

    def hop(self, k: int) -> dict[str, int]:
        parts, count = self.parts, len(self.parts.needs.blocks)

        def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from parts.send(k - 1, number)

        def receive(table: pa.Table) -> pa.Table:
            return parts.receive(k, table)

        sent = self.spark.range(0, count, 1, count).mapInArrow(send, "block int, place long, values binary")
        results = sent.groupBy("block").applyInArrow(receive, "read long, written long").collect()
        return {name: sum(result[name] for result in results) for name in ("read", "written")}

    def state(self, k: int, index: int) -> Array:
        return np.asarray(open_rows(self.parts.place(k, index)))
