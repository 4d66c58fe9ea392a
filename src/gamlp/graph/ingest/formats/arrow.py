"""Arrow IPC, files and streams (Feather is one) → batches of rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.graph.ingest.formats.contract import PassOver
from gamlp.graph.ingest.formats.long_text import longest_text, refuse_long_text

_BYTES_OF_A_ROW = 8  # about the least


class ArrowFile:
    """A file of Arrow, mapped into memory."""

    format = "Arrow"
    typed = True
    delimiter = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        return _open(self.path).schema

    def count(self) -> int | None:
        return None

    def count_at_most(self) -> int:
        return self.path.stat().st_size // _BYTES_OF_A_ROW

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        reader = _open(self.path)
        stored = (
            (reader.get_batch(index) for index in range(reader.num_record_batches))
            if hasattr(reader, "num_record_batches")
            else reader
        )
        yield from sized_batches(self.path, stored, names, size)


def sized_batches(
    file: Path, stored: Iterable[pa.RecordBatch], names: Sequence[str], size: int
) -> Iterator[pa.RecordBatch]:
    """Rows of these columns, about `size` bytes at a time; nothing is copied."""
    for batch in stored:
        batch = batch.select(names)
        batch.validate(full=True)  # what is damaged must not end in a crash
        refuse_long_text(file, batch)
        repeated = [column for column in batch.columns if _repeats(column.type)]
        unfolded = batch.nbytes + batch.num_rows * sum(longest_text(column) for column in repeated)
        rows = max(1, size * batch.num_rows // max(1, unfolded))
        yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))


def _open(file: Path) -> Any:
    source = pa.memory_map(str(file))
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _repeats(kind: pa.DataType) -> bool:
    """Whether rows may share the bytes of a value."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string_view(kind))
