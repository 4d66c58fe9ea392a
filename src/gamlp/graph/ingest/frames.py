"""Tables that Python holds → the same batches of rows as those of files, without a copy where Arrow needs none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats import PassOver, refuse_long_text, sized_batches
from gamlp.graph.ingest.tables import Table, TableBatch, too_many_rows

_MANY_ROWS = 3_000_000  # a guess where a stream does not say how many will come: as many as one bucket sorts
_KINDS = "a DataFrame of pandas or Polars, an Arrow table or reader, or a DuckDB relation"


def is_frame(value: Any) -> bool:
    """Whether something is a table: all of these libraries offer a stream of Arrow batches; one column is none."""
    streams = hasattr(value, "__arrow_c_stream__") and (hasattr(value, "columns") or hasattr(value, "schema"))
    return streams or _is_pandas(value)


class FrameTable(Table):
    """A table in memory, or a stream of Arrow batches, under the name that errors call it by."""

    def __init__(self, frame: Any, name: str, max_rows: int | None = None) -> None:
        self.place = Path(name)
        self.files = [self.place]
        self._max_rows = max_rows
        self._source = _arrow(frame, name)
        self._opened: Any = self._stream()
        self._schema = self._opened.schema
        self._again = not isinstance(self._source, pa.RecordBatchReader)  # such a reader gives its rows once
        self._looked_at: list[pa.RecordBatch] = []  # the first of them, which are kept: somebody looks, somebody reads

    def schema(self, file: Path | None = None) -> pa.Schema:
        return self._schema

    def count(self) -> int | None:
        return int(self._source.num_rows) if isinstance(self._source, pa.Table) else None

    def count_at_most(self) -> int:
        known = self.count()
        return _MANY_ROWS if known is None else known

    def batches(
        self, names: Sequence[str], size: int, pass_over: PassOver | None = None, most_rows: int = 1 << 22
    ) -> Iterator[TableBatch]:
        self.need(names)
        read = 0
        for columns in self._told(sized_batches(self.place, self._rows(), list(names), size)):
            refuse_long_text(self.place, columns)
            if self._max_rows is not None and read + columns.num_rows > self._max_rows:
                raise too_many_rows(f"{self._max_rows:,} rows", self.place)
            for at in range(0, columns.num_rows, most_rows):
                yield TableBatch(columns.slice(at, most_rows), self.place, read + at)
            read += columns.num_rows

    def _rows(self) -> Any:
        if not self._again:
            return self._rows_once()
        stream, self._opened = self._opened, None
        return self._stream() if stream is None else stream

    def _rows_once(self) -> Iterator[pa.RecordBatch]:
        """What a reader gives, from its first batch: as long as no second one was asked for, also a second time."""
        if self._opened is None:
            raise GamlpError("a reader gives its rows once", file=self.place, hint="give a table: reader.read_all()")
        if not self._looked_at:
            self._looked_at = [batch for batch in [next(self._opened, None)] if batch is not None]
        yield from self._looked_at
        reader, self._opened, self._looked_at = self._opened, None, []
        yield from reader

    def _stream(self) -> Any:
        if isinstance(self._source, pa.RecordBatchReader):
            return self._source
        try:
            return pa.RecordBatchReader.from_stream(self._source)
        except (pa.ArrowException, RuntimeError, TypeError) as error:
            raise self._unreadable(error) from error

    def _told(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What another library says of its own rows becomes a sentence."""
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError, RuntimeError) as error:
                raise self._unreadable(error) from error
            if batch is None:
                return
            yield batch

    def _unreadable(self, error: Exception) -> GamlpError:
        return GamlpError(f"cannot be read ({' '.join(str(error).split())[:200]})", file=self.place)


def _arrow(frame: Any, name: str) -> Any:
    """The frame as something that gives Arrow batches."""
    if _is_pandas(frame):
        return _of_pandas(frame, name)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if not hasattr(frame, "__arrow_c_stream__"):
        lazy = hasattr(frame, "collect") and hasattr(frame, "collect_schema")
        hint = "collect it first: frame.collect()" if lazy else f"give {_KINDS}"
        raise GamlpError(f"a {type(frame).__name__} is not a table", file=name, hint=hint)
    return frame


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def _of_pandas(frame: Any, name: str) -> pa.Table:
    """As pandas writes Parquet; an index is a column where it has a name."""
    repeated = next((str(one) for one, twice in zip(frame.columns, frame.columns.duplicated()) if twice), None)
    if repeated is not None:
        raise GamlpError(f"two columns are called '{repeated}'", file=name, hint="rename one")
    if any(not isinstance(one, str) for one in frame.columns):
        frame = frame.rename(columns=str)
    try:
        return pa.Table.from_pandas(frame, preserve_index=any(one is not None for one in frame.index.names))
    except (pa.ArrowException, TypeError, ValueError) as error:
        message = " ".join(str(part) for part in error.args)
        found = re.search(r"column (.+?) with type", message)
        column = found[1] if found else None
        raise GamlpError(
            f"values of different kinds ({message.split(', ')[0][:150]})" if column else message[:200],
            file=name,
            column=column,
            hint="let a column hold one kind of value: numbers, text, dates or lists of numbers",
        ) from error
