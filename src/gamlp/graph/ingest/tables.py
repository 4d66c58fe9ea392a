"""Files, folders and databases with tables → batches of rows that know their file and row."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats import (
    PassOver,
    ReadingRules,
    TablePart,
    file_row,
    find_parts,
    partition_types,
    refuse_long_text,
)
from gamlp.io import format_size


@dataclass(frozen=True)
class TableBatch:
    """Some rows of one file. Rows are counted from 1, the header and blank lines of text not counted."""

    columns: pa.RecordBatch
    file: Path
    start: int  # rows of the file before these
    passed: array[int] = field(default_factory=lambda: array("q"))  # rows of the file that are passed over
    typed: bool = True  # whether columns have types of their own; those of a CSV are text

    def row(self, index: int) -> int:
        """The number of a row as people count it."""
        return file_row(self.start + int(index) + 1, self.passed)


class Table:
    """A table in one file, in the files of a folder, read in order of their names, or in a database."""

    _parts: Mapping[Path, TablePart] = {}  # by their names; none where rows come from elsewhere

    def __init__(self, place: Path, rules: ReadingRules | None = None) -> None:
        self.place = place
        self._rules = rules or ReadingRules()
        self._parts = {part.name: part for part in find_parts(place, self._rules)}
        self.files = list(self._parts)
        self._partition = partition_types(list(self._parts.values()))
        self._schemas: dict[Path, pa.Schema] = {}
        self._states = {name: FileState.of(part.file.path) for name, part in self._parts.items()}

    def schema(self, file: Path | None = None) -> pa.Schema:
        """Columns of a file (the first one); those of a CSV are strings. Names of folders add theirs."""
        file = file or self.files[0]
        if file not in self._schemas:
            self._schemas[file] = _reading(self._parts[file], self._read_schema, file)
        return self._schemas[file]

    @property
    def column_names(self) -> list[str]:
        return list(self.schema().names)

    @property
    def all_column_names(self) -> list[str]:
        """Of every file; the first one's come first."""
        more = (name for file in self.files[1:] for name in self.schema(file).names)
        return [*self.column_names, *(name for name in dict.fromkeys(more) if name not in self.column_names)]

    @property
    def delimiters(self) -> list[str]:
        """Between columns of files that are text."""
        parts = self._parts.values()
        found = (_reading(part, getattr, part.file, "delimiter") for part in parts if not part.file.typed)
        return sorted({one for one in found if one is not None})

    def need(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks one of these columns, or has it twice."""
        for file in self.files:
            schema = self.schema(file)
            for name in names:
                if name not in schema.names:
                    has = ", ".join(schema.names)
                    alone = len(schema.names) == 1 and file in self._parts and not self._parts[file].file.typed
                    more = " alone: say what stands between columns with --delimiter" if alone else ""
                    raise GamlpError(f"no column '{name}'", file=file, hint=f"there are: {has}{more}")
                if schema.names.count(name) > 1:
                    raise GamlpError(f"two columns are called '{name}'", file=file, hint="rename one")

    def count(self) -> int | None:
        """Number of rows where all files say it, else None."""
        counts = [_reading(part, part.file.count) for part in self._parts.values()]
        return None if None in counts else sum(counts)

    def count_at_most(self) -> int:
        """A guess at the number of rows that is rarely too low."""
        return sum(_reading(part, part.file.count_at_most) for part in self._parts.values())

    def batches(
        self, names: Sequence[str], size: int, pass_over: PassOver | None = None, most_rows: int = 1 << 22
    ) -> Iterator[TableBatch]:
        """All rows of these columns in batches of about `size` bytes and no more than `most_rows` rows."""
        self.need(names)
        self._refuse_more_than_allowed(self.count() or 0)
        read = 0
        for file, part in self._parts.items():
            start, passed = 0, array("q")
            # Folders alone do not say how many rows there are: one column of the file is read then.
            own = [name for name in names if name not in part.partition] or self.schema(file).names[:1]
            stream = _reading(part, part.file.batches, own, size, pass_over, passed)
            while (columns := _reading(part, next, stream, None)) is not None:
                refuse_long_text(file, columns)
                read += columns.num_rows
                self._refuse_more_than_allowed(read)
                for at in range(0, columns.num_rows, most_rows):
                    found = self._with_partition(columns.slice(at, most_rows), part, names)
                    yield TableBatch(found, file, start + at, passed, part.file.typed)
                start += columns.num_rows
            self._states[file].check(part.file.path)

    def _read_schema(self, file: Path) -> pa.Schema:
        schema = self._parts[file].file.schema()
        schema.names  # decoded here, where a damaged name is told  # noqa: B018
        for name in self._parts[file].partition:
            schema = schema.append(pa.field(name, self._partition[name]))
        return schema

    def _with_partition(self, columns: pa.RecordBatch, part: TablePart, names: Sequence[str]) -> pa.RecordBatch:
        if not part.partition:
            return columns
        arrays = [
            _repeated(part.partition[name], self._partition[name], columns.num_rows)
            if name in part.partition
            else columns.column(columns.schema.get_field_index(name))
            for name in names
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _refuse_more_than_allowed(self, rows: int) -> None:
        size = sum(state.size for state in self._states.values())
        most = self._rules.most_rows(size)
        if rows > most:
            much = f"{most:,} rows" if self._rules.max_rows is not None else f"{most:,} rows in {format_size(size)}"
            raise too_many_rows(much, self.place)


def _repeated(value: str | None, kind: pa.DataType, rows: int) -> Any:
    """The value of a partition in all its rows; a text is stored once."""
    if value is None:
        return pa.nulls(rows, kind)
    if pa.types.is_integer(kind):
        return pa.array(np.full(rows, int(value), np.int64))
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))


def too_many_rows(most: str, table: object) -> GamlpError:
    """What is said of a table with more rows than are allowed."""
    return GamlpError(f"more than {most}", file=table, hint="if they are meant, allow them with --max-rows")


@dataclass(frozen=True)
class FileState:
    """What changes when a file is written to or replaced."""

    size: int
    changed: int
    number: int
    log: int = 0  # bytes that SQLite keeps beside its file until they are joined to it

    @classmethod
    def of(cls, file: Path) -> FileState:
        found, log = file.stat(), file.with_name(file.name + "-wal")
        return cls(found.st_size, found.st_mtime_ns, found.st_ino, log.stat().st_size if log.exists() else 0)

    def check(self, file: Path) -> None:
        """Refuse a file that is another one since."""
        if not file.exists() or FileState.of(file) != self:
            raise GamlpError("changed while it was read", file=file, hint="run it again when nobody writes to it")


def _reading(part: TablePart, read: Callable[..., Any], *arguments: Any) -> Any:
    """Run one reading step; what Arrow says of a damaged file becomes a sentence."""
    try:
        return read(*arguments)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise GamlpError(f"cannot be read ({error.strerror})", file=part.name) from error
        message = " ".join(str(error).split())
        row = re.search(r"Row #(\d+): ", message)
        message = re.sub(r"Row #\d+: |CSV parse error: |\.$", "", message)[:200]
        raise GamlpError(
            f"truncated, damaged or not {part.file.format} ({message})",
            file=part.name,
            row=int(row[1]) - 1 if row else None,
        ) from error
