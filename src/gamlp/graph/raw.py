"""The feature columns of a node type as its table had them, in blocks of rows: other states encode them again.

A block is a file of its own, an Arrow IPC file with one batch of rows, compressed: blocks can be read, verified and
written one by one, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.io import Place

_HINT = "build the graph again"


@dataclass(frozen=True)
class RawColumns:
    """Blocks of rows; `stops[i]` is the first row after block i. `verify(i)` refuses a block that was changed."""

    places: tuple[Place, ...]
    stops: tuple[int, ...]
    verify: Callable[[int], None]

    @property
    def count(self) -> int:
        """Rows."""
        return self.stops[-1] if self.stops else 0

    def schema(self) -> pa.Schema:
        """Names of the columns and what they hold."""
        return self.block(0).schema if self.stops else pa.schema([])

    def block(self, index: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """One block: all columns, or those that are named."""
        self.verify(index)
        rows = self.stops[index] - (self.stops[index - 1] if index else 0)
        return read_block(self.places[index], rows, columns)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(first row, block) of all blocks, in order."""
        for index, start in enumerate((0, *self.stops[:-1]) if self.stops else ()):
            yield start, self.block(index, columns)

    def take(self, rows: Array, columns: Sequence[str] | None = None) -> pa.Table:
        """Some rows, ascending; only blocks that hold one of them are read."""
        rows = np.asarray(rows, np.int64)
        cuts = np.searchsorted(rows, (0, *self.stops))
        found = []
        for index, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                start = self.stops[index - 1] if index else 0
                found.append(self.block(index, columns).take(pa.array(rows[begin:end] - start)))
        return pa.Table.from_batches(found or [self.block(0, columns).slice(0, 0)])


def write_block(path: Path, block: pa.RecordBatch) -> None:
    """A block as a file; what an Arrow slice does not show is not written."""
    with pa.OSFile(str(path), "wb") as sink:
        _write(sink, block)


def block_bytes(block: pa.RecordBatch) -> bytes:
    """What such a file holds."""
    sink = pa.BufferOutputStream()
    _write(sink, block)
    return bytes(sink.getvalue())


def _write(sink: Any, block: pa.RecordBatch) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_file(sink, block.schema, options=options) as writer:
        writer.write_batch(
            pa.RecordBatch.from_arrays([_without_rest(one) for one in block.columns], schema=block.schema)
        )


def _without_rest(column: Any) -> Any:
    """Texts without what lies behind the last of them: Arrow would write up to 63 bytes of it, whatever they are."""
    if not (pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)) or len(column) == 0:
        return column
    known, offsets, letters = column.buffers()
    begin = column.offset
    end = int(np.frombuffer(offsets, np.int64, count=1, offset=8 * (begin + len(column)))[0])
    if letters is None or end == letters.size:
        return column
    return pa.Array.from_buffers(column.type, len(column), [known, offsets, letters.slice(0, end)], offset=begin)


def read_block(place: Place, rows: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """A block of so many rows; a damaged file is refused with a sentence, never read beyond its end."""
    try:
        source = pa.memory_map(str(place.local_copy()))
        names = pa.ipc.open_file(source).schema.names
        wanted = None if columns is None else [_place(names, name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        reader = pa.ipc.open_file(source, options=options)
        if reader.num_record_batches != 1:
            raise pa.ArrowInvalid(f"{reader.num_record_batches} batches where there is one")
        block: Any = reader.get_batch(0)
        block.validate(full=True)
    except (pa.ArrowException, OSError, KeyError, MemoryError) as error:
        message = " ".join(str(error).split())[:200]
        raise GamlpError(f"raw columns cannot be read ({message})", file=place, hint=_HINT) from error
    if block.num_rows != rows:
        raise GamlpError(f"{block.num_rows} rows where there are {rows}", file=place, hint=_HINT)
    return block if columns is None else block.select(list(columns))


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise KeyError(f"no column '{name}'")
    return names.index(name)
