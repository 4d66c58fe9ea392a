"""Ids in ascending order, in files one after the other: row numbers, and the ids of a graph."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.graph import ONE_TYPE, nodes_folder
from gamlp.graph.ingest import IdMap, shown
from gamlp.io import Place, npy_header
from gamlp.spark.ingest.block_files import RowBlocks
from gamlp.spark.ingest.kept import read_batches
from gamlp.spark.ingest.packs import by_place
from gamlp.spark.tasks import as_result

_BATCH = 1 << 16  # ids of a record batch
_INTEGER, _STRING = 13, 33  # bytes of a hash table for each id, with those that the ids are copied to


@dataclass(frozen=True)
class SortedIds:
    """Files of ascending ids, the files too; `starts[i]` is the row of the first id of file i."""

    folder: Place
    names: list[str]
    starts: list[int]
    count: int
    integers: bool
    is_range: bool  # ids are the row numbers themselves
    firsts: list[Any]  # the first id of every file
    bytes: int  # of all files

    @property
    def table_bytes(self) -> int:
        """What a table of all ids takes in memory: the ids, copies of short ones, and places of a hash table."""
        return self.bytes + (_INTEGER if self.integers else _STRING) * self.count

    def rows_of(self, index: int | None = None) -> Callable[[Any], Array]:
        """Rows of ids, -1 where no node has such an id: of a file's, or of all."""
        chosen = self.batches() if index is None else read_batches(self.folder / self.names[index])
        columns = [batch.column(0) for batch in chosen]
        first = 0 if index is None else self.starts[index]
        if self.integers:
            known = IdMap(np.concatenate([column.to_numpy() for column in columns]))
        else:
            known = IdMap(pa.concat_arrays([column.cast(pa.large_string()) for column in columns]))

        def rows(ids: Any) -> Array:
            found = known.rows(ids)
            return np.where(found < 0, found, found + np.int32(first)) if first else found

        return rows

    def at(self, places: Sequence[int]) -> dict[str, Any]:
        """Ids of ascending rows, all of one file."""
        index = bisect_right(self.starts, places[0]) - 1
        ids = pa.chunked_array([batch.column(0) for batch in read_batches(self.folder / self.names[index])])
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
                for ids in equally_long((batch.column(0) for batch in self.batches(begin, end)), _BATCH):
                    writer.write_batch(pa.RecordBatch.from_arrays([ids.cast(kind)], names=["id"]))
        return {"files": {name: stream.size_and_checksum()}}

    def batches(self, begin: int = 0, end: int | None = None) -> Iterator[Any]:
        """Ids of rows begin..end in their order, each batch a column; files of others are not opened."""
        end = self.count if end is None else end
        for name, row, after in zip(self.names, self.starts, [*self.starts[1:], self.count]):
            if row >= end or after <= begin:
                continue
            for batch in read_batches(self.folder / name):
                first, last = max(begin - row, 0), min(end - row, batch.num_rows)
                if first < last:
                    yield batch.slice(first, last - first)
                row += batch.num_rows


def equally_long(columns: Iterator[Any], size: int) -> Iterator[Any]:
    """The same values in arrays of `size`, the last one shorter, however they were cut before."""
    parts: list[Any] = []
    held = 0
    for column in columns:
        while held + len(column) >= size:
            yield pa.concat_arrays([*parts, column[: size - held]])
            column, parts, held = column[size - held :], [], 0
        if len(column):
            parts.append(column)
            held += len(column)
    if parts:
        yield pa.concat_arrays(parts)


def put_sorted(batches: Iterator[Any], folder: Place) -> Iterator[Any]:
    """Write packed ids to a file of their own, ascending and each once; answers what the file holds."""
    text = as_result(lambda _: _put(batches, folder), 0)
    yield pa.RecordBatch.from_arrays([pa.array([text])], names=["answer"])


def _put(batches: Iterator[Any], folder: Place) -> dict[str, Any]:
    columns = [batch.column(0) for some in by_place(batches).values() for batch in some]
    if not columns:
        return {"count": 0}
    ids = pa.chunked_array(columns)
    ids = ids.take(pc.sort_indices(ids)).combine_chunks()
    again = np.concatenate([[False], pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)])
    repeats = int(np.count_nonzero(again))
    twice = shown(ids, int(np.argmax(again))) if repeats else None
    ids = ids.filter(pa.array(~again)) if repeats else ids
    name = f"{uuid.uuid4().hex}.arrow"  # of its own for every attempt: only one is answered for
    with (folder / name).writing() as stream:
        sink = pa.PythonFile(stream, mode="w")
        with pa.ipc.new_file(sink, pa.schema([("id", ids.type)])) as writer:
            for begin in range(0, len(ids), _BATCH):
                writer.write_batch(pa.RecordBatch.from_arrays([ids[begin : begin + _BATCH]], names=["id"]))
    return {
        "name": name,
        "count": len(ids),
        "first": ids[0].as_py(),
        "last": ids[-1].as_py(),
        "bytes": ids.nbytes,
        "repeats": repeats,
        "twice": twice,
    }


_tables: dict[tuple[str, ...], Callable[[Any], Array]] = {}  # of this process


def table_of(ids: SortedIds) -> Callable[[Any], Array]:
    """Rows of all ids. Kept from task to task: where edges are in many small parts it is built once a process.

    Known by its files, each of one attempt: processes live on, and a graph may be made at the same place again.
    """
    key = (ids.folder.url, *ids.names)
    if key not in _tables:
        _tables[key] = ids.rows_of()
    return _tables[key]


def forget_tables() -> None:
    _tables.clear()
