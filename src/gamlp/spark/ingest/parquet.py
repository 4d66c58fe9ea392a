"""Plain Parquet files that tasks read themselves, by row groups: no row of them becomes one of Java's.

Where anything is not as plain as it looks (types that Spark reads in its own way, columns that are folders, files that
differ) Spark reads the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from gamlp.spark.tasks import run_tasks, slots

Work = Callable[[Iterator[Any]], Iterator[Any]]
_PART, _LEAST = 256 << 20, 4 << 20  # bytes of a task's row groups, as they are in memory
_BATCH = 32 << 20
_MOST_ROWS = 1 << 16
_SAME = (pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())


@dataclass(frozen=True)
class ParquetFiles:
    """Files of one table on a file system that all machines see, in the order in which Spark names them."""

    spark: Any
    paths: Sequence[str]

    @classmethod
    def of(cls, spark: Any, frame: Any) -> ParquetFiles | None:
        """Those that a frame reads; None where a task might not read them as Spark does."""
        try:
            addresses = [urlsplit(address) for address in frame.inputFiles()]
        except Exception:  # of some frames Spark does not tell
            return None
        paths = [unquote(address.path) for address in addresses if address.scheme == "file"]
        if not paths or len(paths) < len(addresses) or any("=" in path for path in paths):
            return None
        return cls(spark, paths)

    def count(self) -> int | None:
        """Rows of all files; None where they cannot be read here."""
        footers = self._footers
        return None if footers is None else sum(rows for footer in footers for rows, _ in footer["groups"])

    def map(self, wanted: Mapping[str, pa.DataType], work: Work, schema: Any) -> Any:
        """A frame of what `work` makes of these columns, given their types in Spark; None where Spark is to read."""
        footers = self._footers
        if footers is None or any(_value_type(kind) not in _SAME for kind in wanted.values()):
            return None
        types = {name: str(_plain_type(kind)) for name, kind in wanted.items()}
        if any(footer["types"].get(name) != kind for footer in footers for name, kind in types.items()):
            return None
        parts, paths = self._parts(footers), self.paths

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from work(_read(paths, parts[index], wanted))

        return self.spark.range(0, len(parts), 1, max(1, len(parts))).mapInArrow(run, schema)

    @cached_property
    def _footers(self) -> list[dict[str, Any]] | None:
        paths, together = self.paths, -(-len(self.paths) // slots(self.spark))
        found = run_tasks(self.spark, lambda at: _footer(paths[at]), range(len(paths)), together=together)
        return None if any("groups" not in footer for footer in found) else found

    def _parts(self, footers: Sequence[dict[str, Any]]) -> list[list[tuple[int, int, int]]]:
        """(file, row group, rows of a batch) of every task."""
        total = sum(size for footer in footers for _, size in footer["groups"])
        most = min(_PART, max(_LEAST, -(-total // slots(self.spark))))
        parts: list[list[tuple[int, int, int]]] = []
        held = most
        for file, footer in enumerate(footers):
            for group, (rows, size) in enumerate(footer["groups"]):
                if held + size // 2 >= most:
                    parts.append([])
                    held = 0
                parts[-1].append((file, group, max(1, min(_MOST_ROWS, rows * _BATCH // max(1, size)))))
                held += size
        return parts or [[]]


def _footer(path: str) -> dict[str, Any]:
    """Rows and bytes of the row groups of a file, and types of its columns; nothing of what is no such file."""
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            names = file.schema_arrow.names
            types = {one.name: str(_plain_type(one.type)) for one in file.schema_arrow if names.count(one.name) == 1}
            return {"groups": [[group.num_rows, group.total_byte_size] for group in groups], "types": types}
    except (OSError, pa.ArrowException):
        return {}


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """As Spark calls what is read the same: text is text, however Arrow had it when it was written."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def _read(
    paths: Sequence[str], part: Sequence[tuple[int, int, int]], wanted: Mapping[str, pa.DataType]
) -> Iterator[Any]:
    for file, group, rows in part:
        with pq.ParquetFile(paths[file]) as opened:
            for batch in opened.iter_batches(rows, row_groups=[group], columns=list(wanted), use_threads=False):
                columns = [batch.column(batch.schema.get_field_index(name)) for name in wanted]
                cast = [column.cast(kind) for column, kind in zip(columns, wanted.values())]
                yield pa.RecordBatch.from_arrays(cast, names=list(wanted))
