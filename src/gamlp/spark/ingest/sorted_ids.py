"""Ids in ascending order, in files one after the other: row numbers, and the ids of a graph."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.graph import ONE_TYPE, nodes_folder
from gamlp.graph.ingest import shown
from gamlp.io import Place, npy_header
from gamlp.spark.ingest.block_files import RowBlocks
from gamlp.spark.tasks import as_result

_BATCH = 1 << 16  # ids of a record batch


@dataclass(frozen=True)
class SortedIds:
    """Files of ascending ids, the files too; `starts[i]` is the row of the first id of file i."""

    folder: Place
    names: list[str]
    starts: list[int]
    count: int
    integers: bool
    is_range: bool  # ids are the row numbers themselves

    def rows(self, index: int) -> Iterator[Any]:
        """(id, row) of a file, batch by batch."""
        row = self.starts[index]
        for batch in _read(self.folder / self.names[index]):
            rows = np.arange(row, row + batch.num_rows, dtype=np.int32)
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(rows)], names=["known", "row"])

    def at(self, places: Sequence[int]) -> dict[str, Any]:
        """Ids of ascending rows, all of one file."""
        index = bisect_right(self.starts, places[0]) - 1
        ids = pa.chunked_array([batch.column(0) for batch in _read(self.folder / self.names[index])])
        return {"ids": ids.take(pa.array([place - self.starts[index] for place in places])).to_pylist()}

    def first_of_blocks(self, rows: RowBlocks) -> dict[int, list[int]]:
        """Rows with which blocks begin, by the file that holds them; the first is not needed."""
        found: dict[int, list[int]] = {}
        for block in range(1, rows.blocks):
            row = rows.bounds(block)[0]
            found.setdefault(bisect_right(self.starts, row) - 1, []).append(row)
        return found

    def has(self, text: str) -> bool:
        """Whether a node is called so; all files are looked through."""
        if self.is_range:
            return text.isascii() and text.isdigit() and int(text) < self.count and str(int(text)) == text
        texts = (batch.column(0).cast(pa.string()) for batch in self.batches())
        return any(pc.any(pc.equal(some, text)).as_py() for some in texts)

    def write(self, graph: Place, kind_of_nodes: str = ONE_TYPE) -> dict[str, Any]:
        """Integers as one .npy file, in batches."""
        name = f"{nodes_folder(kind_of_nodes)}/ids.npy"
        with (graph / name).writing() as stream:
            stream.write(npy_header((self.count,), np.int64))
            for batch in self.batches():
                stream.write(np.ascontiguousarray(batch.column(0).to_numpy()).data)
        return {"files": {name: stream.size_and_checksum()}}

    def write_shard(self, graph: Place, name: str, begin: int, end: int) -> dict[str, Any]:
        """Strings of the rows begin..end as an Arrow file, in batches."""
        kind = pa.large_string()
        with (graph / name).writing() as stream:
            sink = pa.PythonFile(stream, mode="w")
            with pa.ipc.new_file(sink, pa.schema([("id", kind)])) as writer:
                for batch in self.batches(begin, end):
                    writer.write_batch(pa.RecordBatch.from_arrays([batch.column(0).cast(kind)], names=["id"]))
        return {"files": {name: stream.size_and_checksum()}}

    def batches(self, begin: int = 0, end: int | None = None) -> Iterator[Any]:
        """Ids of rows begin..end in their order, each batch a column; files of others are not opened."""
        end = self.count if end is None else end
        for name, row, after in zip(self.names, self.starts, [*self.starts[1:], self.count]):
            if row >= end or after <= begin:
                continue
            for batch in _read(self.folder / name):
                first, last = max(begin - row, 0), min(end - row, batch.num_rows)
                if first < last:
                    yield batch.slice(first, last - first)
                row += batch.num_rows


def _read(place: Place) -> Iterator[Any]:
    with place.as_file() as path:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def put_sorted(batches: Iterator[Any], folder: Place) -> Iterator[Any]:
    """Write ascending ids to a file of their own, each once; answers what the file holds."""
    text = as_result(lambda _: _put(batches, folder), 0)
    yield pa.RecordBatch.from_arrays([pa.array([text])], names=["answer"])


def _put(batches: Iterator[Any], folder: Place) -> dict[str, Any]:
    name = f"{uuid.uuid4().hex}.arrow"  # of its own for every attempt: only one is answered for
    first = last = twice = None
    count = repeats = 0
    sink = writer = None
    with (folder / name).writing() as stream:
        for batch in batches:
            ids = batch.column(0)
            if len(ids) == 0:
                continue
            if writer is None:
                first = ids[0].as_py()
                sink = pa.PythonFile(stream, mode="w")
                writer = pa.ipc.new_file(sink, pa.schema([("id", ids.type)]))
            before = pa.array([last], ids.type)
            same = pc.equal(ids, pa.concat_arrays([before, ids[:-1]])).fill_null(False)
            again = same.to_numpy(zero_copy_only=False)
            last = ids[-1].as_py()
            if again.any():
                repeats += int(np.count_nonzero(again))
                twice = twice if twice is not None else shown(ids, int(np.argmax(again)))
                ids = ids.filter(pa.array(~again))
            count += len(ids)
            for begin in range(0, len(ids), _BATCH):
                writer.write_batch(pa.RecordBatch.from_arrays([ids[begin : begin + _BATCH]], names=["id"]))
        if writer is not None:
            writer.close()
    if count == 0:
        (folder / name).remove()
    return {"name": name, "count": count, "first": first, "last": last, "repeats": repeats, "twice": twice}
