"""Rows packed for Spark's shuffle: all that goes to one place is one value of bytes, and Java sorts and copies few."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.spark.ingest.partitions import SLOT

PACKED = f"place int, pack binary, {SLOT} int"  # as Spark calls them
_BYTES = 32 << 20  # of rows that are packed together


def larger(batches: Iterator[Any], most_bytes: int = _BYTES, most_rows: int = 1 << 20) -> Iterator[Any]:
    """The same rows in fewer batches, each of about so many bytes or rows at most."""
    parts: list[Any] = []
    size = rows = 0
    for batch in batches:
        if parts and (size + batch.nbytes > most_bytes or rows + batch.num_rows > most_rows):
            yield _one(parts)
            parts, size, rows = [], 0, 0
        parts.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
    if parts:
        yield _one(parts)


def _one(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays([part.column(at) for part in parts]) for at in range(parts[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=parts[0].schema)


def packed(batch: Any, places: Array, keys: Array) -> Any:
    """Rows by place, one pack for each that has some; `keys[place]` is what Spark partitions by."""
    order = np.argsort(places, kind="stable")
    bounds = np.flatnonzero(np.diff(places[order], prepend=-1, append=-1))
    ordered = batch.take(pa.array(order)) if len(bounds) > 2 else batch
    parts = [(int(places[order[begin]]), ordered.slice(begin, end - begin)) for begin, end in pairwise(bounds)]
    return pack_parts([place for place, _ in parts], [part for _, part in parts], keys)


def pack_parts(places: list[int], parts: list[Any], keys: Array) -> Any:
    """Batches and the places they go to, as rows for Spark."""
    columns = [
        pa.array(places, pa.int32()),
        pa.array([_bytes(part) for part in parts], pa.binary()),
        pa.array(keys[np.asarray(places, np.int64)], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["place", "pack", SLOT])


def _bytes(batch: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def by_place(batches: Iterator[Any]) -> dict[int, list[Any]]:
    """All packs of a partition by the place they are for, each a list of batches."""
    found: dict[int, list[Any]] = {}
    for batch in batches:
        for place, pack in zip(batch.column("place").to_pylist(), batch.column("pack")):
            found.setdefault(place, []).extend(unpacked(pack))
    return found


def unpacked(pack: Any) -> list[Any]:
    """Batches of a pack, not copied."""
    with pa.ipc.open_stream(pack.as_buffer()) as reader:
        return list(reader)


def sent(frame: Any, keys: Array) -> Any:
    """A frame of packs, shuffled: those of a key are one partition."""
    return frame.repartition(len(keys), SLOT)
