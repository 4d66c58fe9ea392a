"""Files or folders of Parquet, CSV, CSV.gz and Arrow → batches of rows that know their file and row."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from gamlp.errors import GamlpError
from gamlp.graph.ingest.csv_files import PassOver, csv_batches, csv_names, file_row
from gamlp.graph.ingest.parquet_files import parquet_batches
from gamlp.io import format_size

_CSV, _GZIP, _PARQUET, _ARROW = "CSV", "gzipped CSV", "Parquet", "Arrow"
_FORMATS = {
    ".csv": _CSV,
    ".csv.gz": _GZIP,
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
LONGEST_TEXT = 1 << 20  # bytes of one value
# What a small file may unfold to: tables of edges take more than a byte a row, those of nodes too.
_ROWS_ALWAYS, _ROWS_A_BYTE = 10_000_000, 16


@dataclass(frozen=True)
class TableBatch:
    """Some rows of one file. Rows are counted from 1, the header and blank lines of a CSV not counted."""

    columns: pa.RecordBatch
    file: Path
    start: int  # rows of the file before these
    passed: array[int] = field(default_factory=lambda: array("q"))  # rows of the file that are passed over
    typed: bool = True  # whether columns have types of their own; those of a CSV are all text

    def row(self, index: int) -> int:
        """The number of a row as people count it."""
        return file_row(self.start + int(index) + 1, self.passed)


class Table:
    """A table in one file or in the files of a folder, read in order of their names."""

    def __init__(self, place: Path, max_rows: int | None = None) -> None:
        self.place = place
        self.files = _files(place)
        self._max_rows = max_rows  # None: by the size of the files
        self._schemas: dict[Path, pa.Schema] = {}
        self._states = {file: FileState.of(file) for file in self.files}

    def schema(self, file: Path | None = None) -> pa.Schema:
        """Columns of a file (the first one); those of a CSV are strings."""
        file = file or self.files[0]
        if file not in self._schemas:
            self._schemas[file] = _reading(file, _read_schema, file)
        return self._schemas[file]

    @property
    def column_names(self) -> list[str]:
        return list(self.schema().names)

    @property
    def all_column_names(self) -> list[str]:
        """Of every file; the first one's come first."""
        more = (name for file in self.files[1:] for name in self.schema(file).names)
        return [*self.column_names, *(name for name in dict.fromkeys(more) if name not in self.column_names)]

    def need(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks one of these columns, or has it twice."""
        for file in self.files:
            schema = self.schema(file)
            for name in names:
                if name not in schema.names:
                    has = ", ".join(schema.names)
                    raise GamlpError(f"no column '{name}'", file=file, hint=f"there are: {has}")
                if schema.names.count(name) > 1:
                    raise GamlpError(f"two columns are called '{name}'", file=file, hint="rename one")

    def count(self) -> int | None:
        """Number of rows where the files say it (Parquet), else None."""
        if any(_format(file) != _PARQUET for file in self.files):
            return None
        return sum(int(_reading(file, parquet.read_metadata, file).num_rows) for file in self.files)

    def count_at_most(self) -> int:
        """A guess at the number of rows that is rarely too low."""
        known = self.count()
        if known is not None:
            return known
        least = {_CSV: 6.0, _GZIP: 2.0, _PARQUET: 1.0, _ARROW: 8.0}  # bytes of a row, about
        return int(sum(file.stat().st_size / least[_format(file)] for file in self.files))

    def batches(
        self, names: Sequence[str], size: int, pass_over: PassOver | None = None, most_rows: int = 1 << 22
    ) -> Iterator[TableBatch]:
        """All rows of these columns in batches of about `size` bytes and no more than `most_rows` rows."""
        self.need(names)
        self._refuse_more_than_allowed(self.count() or 0)
        read = 0
        for file in self.files:
            start, passed = 0, array("q")
            stream = _open(file, list(names), size, pass_over, passed)
            while (columns := _reading(file, next, stream, None)) is not None:
                refuse_long_text(file, columns)
                read += columns.num_rows
                self._refuse_more_than_allowed(read)
                for at in range(0, columns.num_rows, most_rows):
                    yield TableBatch(columns.slice(at, most_rows), file, start + at, passed, not _is_csv(file))
                start += columns.num_rows
            self._states[file].check(file)

    def _refuse_more_than_allowed(self, rows: int) -> None:
        size = sum(state.size for state in self._states.values())
        most = max(_ROWS_ALWAYS, _ROWS_A_BYTE * size) if self._max_rows is None else self._max_rows
        if rows > most:
            much = f"{most:,} rows" if self._max_rows is not None else f"{most:,} rows in {format_size(size)}"
            raise too_many_rows(much, self.place)


def too_many_rows(most: str, table: object) -> GamlpError:
    """What is said of a table with more rows than are allowed."""
    return GamlpError(f"more than {most}", file=table, hint="if they are meant, allow them with --max-rows")


@dataclass(frozen=True)
class FileState:
    """What changes when a file is written to or replaced."""

    size: int
    changed: int
    number: int

    @classmethod
    def of(cls, file: Path) -> FileState:
        found = file.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)

    def check(self, file: Path) -> None:
        """Refuse a file that is another one since."""
        if not file.exists() or FileState.of(file) != self:
            raise GamlpError("changed while it was read", file=file, hint="run it again when nobody writes to it")


def refuse_long_text(file: Path, columns: pa.RecordBatch) -> None:
    """Refuse text of a length that no name, label or id has."""
    for name, column in zip(columns.schema.names, columns.columns):
        longest = _longest_text(column)
        if longest > LONGEST_TEXT:
            most = format_size(LONGEST_TEXT)
            raise GamlpError(
                f"a value of {format_size(longest)}", file=file, column=name, hint=f"at most {most} are read"
            )


def _longest_text(column: Any) -> int:
    """Bytes of the longest text; 0 where a column holds none."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    kind = values.type
    if pa.types.is_string_view(kind):  # 16 bytes a value, of which the first four are its length
        views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
        return int(views[values.offset : values.offset + len(values), 0].max(initial=0))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return int(pc.max(pc.binary_length(values)).as_py() or 0)
    return 0


def _is_csv(file: Path) -> bool:
    return _format(file) in (_CSV, _GZIP)


def _files(place: Path) -> list[Path]:
    if place.is_dir():
        # Spark and others leave _SUCCESS and .crc files among the parts.
        files = sorted(path for path in place.iterdir() if not path.name.startswith((".", "_")))
        if not files:
            raise GamlpError("folder holds no tables", file=place)
        inner = next((path for path in files if path.is_dir()), None)
        if inner is not None:
            raise GamlpError("a folder within a folder of tables", file=inner, hint="give one folder of files")
    elif place.exists():
        files = [place]
    else:
        raise GamlpError("no such file or folder", file=place)
    for file in files:
        _format(file)
        if file.stat().st_size == 0:
            raise GamlpError("empty file", file=file)
    return files


def _format(file: Path) -> str:
    name = file.name.lower()
    ending = next((ending for ending in _FORMATS if name.endswith(ending)), None)
    if ending is None:
        raise GamlpError("unknown kind of file", file=file, hint=f"names end in {', '.join(_FORMATS)}")
    return _FORMATS[ending]


def _reading(file: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """Run one reading step; what Arrow says of a damaged file becomes a sentence."""
    try:
        return read(*arguments)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise GamlpError(f"cannot be read ({error.strerror})", file=file) from error
        message = " ".join(str(error).split())
        row = re.search(r"Row #(\d+): ", message)
        message = re.sub(r"Row #\d+: |CSV parse error: |\.$", "", message)[:200]
        raise GamlpError(
            f"truncated, damaged or not {_format(file)} ({message})",
            file=file,
            row=int(row[1]) - 1 if row else None,
        ) from error


def _read_schema(file: Path) -> pa.Schema:
    kind = _format(file)
    if kind == _PARQUET:
        schema = parquet.read_schema(file)
    elif kind == _ARROW:
        schema = _open_arrow(file).schema
    else:
        schema = pa.schema([(name, pa.string()) for name in csv_names(file, kind == _GZIP)])
    schema.names  # decoded here, where a damaged name is told  # noqa: B018
    return schema


def _open(
    file: Path, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
) -> Iterator[pa.RecordBatch]:
    kind = _format(file)
    if kind == _PARQUET:
        return parquet_batches(file, names, size)
    if kind == _ARROW:
        return _arrow_batches(file, names, size)
    return csv_batches(file, kind == _GZIP, names, size, pass_over, passed)


def _open_arrow(file: Path) -> Any:
    source = pa.memory_map(str(file))
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _arrow_batches(file: Path, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
    reader = _open_arrow(file)
    stored = (
        (reader.get_batch(index) for index in range(reader.num_record_batches))
        if hasattr(reader, "num_record_batches")
        else reader
    )
    yield from sized_batches(file, stored, names, size)


def sized_batches(
    file: Path, stored: Iterable[pa.RecordBatch], names: Sequence[str], size: int
) -> Iterator[pa.RecordBatch]:
    """Rows of these columns, about `size` bytes at a time; nothing is copied."""
    for batch in stored:
        batch = batch.select(names)
        batch.validate(full=True)  # what is damaged must not end in a crash
        refuse_long_text(file, batch)
        repeated = [column for column in batch.columns if _repeats(column.type)]
        unfolded = batch.nbytes + batch.num_rows * sum(_longest_text(column) for column in repeated)
        rows = max(1, size * batch.num_rows // max(1, unfolded))
        yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))


def _repeats(kind: pa.DataType) -> bool:
    """Whether rows may share the bytes of a value."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string_view(kind))
