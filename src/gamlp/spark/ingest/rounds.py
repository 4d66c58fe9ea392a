"""Edges of more nodes than one task may know: their ids travel to the tasks that hold them, and rows come back.

Edges are kept in files, so many to each, in which every id is once however many of its edges there are: a hub's id
travels once for each file. Of a file the ids go, by the ranges that the sorted ids lie in, to a task for each range;
the rows go back to a task for each file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.spark.ingest.kept import KeptFiles
from gamlp.spark.ingest.packs import PACKED, by_place, larger, pack_parts, sent
from gamlp.spark.ingest.partitions import one_a_partition
from gamlp.spark.ingest.sorted_ids import SortedIds

TABLE_BYTES = 128 << 20  # of tables of ids that a task may hold: where there are no more, it looks ids up by itself
FILE_EDGES = 1 << 20
FILE_BYTES = 128 << 20
Ids = Mapping[str, SortedIds]  # by end, src or dst
EdgeWork = Callable[[Iterator[Any]], Iterator[Any]]


def encoded(batches: Iterator[Any], ends: Sequence[str], edges: int) -> Iterator[Any]:
    """Edges as files hold them: so many, with the ids of these ends as dictionaries."""
    for batch in larger(batches, FILE_BYTES, edges):
        for end in ends:
            at = batch.schema.get_field_index(end)
            batch = batch.set_column(at, end, batch.column(at).dictionary_encode())
        yield batch


def fits_a_task(ids: Ids) -> bool:
    """Whether a task may hold all of these ids."""
    return sum({own.folder.url: own.table_bytes for own in ids.values()}.values()) <= TABLE_BYTES


def with_rows(spark: Any, kept: KeptFiles, ids: Ids, work: EdgeWork, schema: Any) -> Any:
    """A frame of what `work` makes of the edges of each file, with the rows of their ends in columns `<end>_row`."""
    shards = _Shards(ids)
    to_shard, to_file = one_a_partition(shards.count), one_a_partition(max(1, len(kept.names)))

    def ask(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for edges in kept.read(index):
                    found = [part for end in ids for part in shards.asked(edges.column(end).dictionary, end, index)]
                    yield pack_parts([place for place, _ in found], [part for _, part in found], to_shard)

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        found = by_place(batches)
        for shard in sorted(found):
            rows_of = shards.rows_of(shard)
            answers = [_answered(part, rows_of) for part in found.pop(shard)]
            yield pack_parts([file for file, _ in answers], [part for _, part in answers], to_file)

    def put(batches: Iterator[Any]) -> Iterator[Any]:
        found = by_place(batches)
        yield from work(edges for file in sorted(found) for edges in _with_answers(kept, file, found.pop(file), ids))

    files = spark.range(0, len(kept.names), 1, max(1, len(kept.names)))
    asked = sent(files.mapInArrow(ask, PACKED), to_shard)
    return sent(asked.mapInArrow(answer, PACKED), to_file).mapInArrow(put, schema)


class _Shards:
    """The files that sorted ids lie in, those of both ends; where both are of one type, they are the same files."""

    def __init__(self, ids: Ids) -> None:
        self._ids = dict(ids)
        self._begin: dict[str, int] = {}
        self._of: list[tuple[SortedIds, int]] = []
        folders: dict[str, int] = {}
        for end, own in ids.items():
            if own.folder.url not in folders:
                folders[own.folder.url] = len(self._of)
                self._of += [(own, index) for index in range(len(own.names))]
            self._begin[end] = folders[own.folder.url]

    @property
    def count(self) -> int:
        return len(self._of)

    def rows_of(self, shard: int) -> Callable[[Any], Array]:
        own, index = self._of[shard]
        return own.rows_of(index)

    def asked(self, values: Any, end: str, file: int) -> Iterator[tuple[int, Any]]:
        """(shard, ids that may be in it with their places among `values`)."""
        order = pc.sort_indices(values)
        ascending = values.take(order)
        cuts = [bisect_left(ascending, first, key=lambda value: value.as_py()) for first in self._ids[end].firsts[1:]]
        bounds = [0, *cuts, len(ascending)]
        for number, (begin, stop) in enumerate(pairwise(bounds)):
            if begin < stop:
                columns = [ascending[begin:stop], order[begin:stop].cast(pa.int32())]
                about = {"file": str(file), "end": end}
                schema = pa.schema([("id", values.type), ("at", pa.int32())], metadata=about)
                yield self._begin[end] + number, pa.RecordBatch.from_arrays(columns, schema=schema)


def _about(part: Any, key: str) -> str:
    return str(part.schema.metadata[key.encode()].decode())


def _answered(part: Any, rows_of: Callable[[Any], Array]) -> tuple[int, Any]:
    """The file that asked, and rows in place of ids."""
    columns = [part.column("at"), pa.array(rows_of(part.column("id")), pa.int32())]
    schema = pa.schema([("at", pa.int32()), ("row", pa.int32())], metadata=part.schema.metadata)
    return int(_about(part, "file")), pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_answers(kept: KeptFiles, file: int, answers: Sequence[Any], ids: Ids) -> Iterator[Any]:
    """The edges of a file with the rows of their ends, null where no node has such an id."""
    for edges in kept.read(file):
        for end in ids:
            column = edges.column(end)
            rows = np.full(len(column.dictionary), -1, np.int32)
            for part in answers:
                if _about(part, "end") == end:
                    rows[part.column("at").to_numpy()] = part.column("row").to_numpy()
            found = rows[column.indices.to_numpy()]
            edges = edges.set_column(edges.schema.get_field_index(end), end, column.dictionary_decode())
            edges = edges.append_column(f"{end}_row", pa.array(found, mask=found < 0))
        yield edges.append_column("note", pa.nulls(edges.num_rows, pa.string()))
