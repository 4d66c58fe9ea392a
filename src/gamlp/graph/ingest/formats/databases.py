"""Tables of SQLite and DuckDB files, `path::table` → batches of rows. Files are read, never written to."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError, MissingExtra
from gamlp.graph.ingest.formats.contract import PassOver
from gamlp.graph.ingest.formats.long_text import LONGEST_TEXT

SEPARATOR = "::"
ENDINGS = (".sqlite", ".sqlite3", ".db", ".duckdb")
_MOST_NAMED = 20  # tables that a sentence names
_FIRST_ROWS, _MOST_ROWS = 1024, 1 << 17  # of a batch
_NUMBERS = {"integer": pa.int64(), "real": pa.float64()}
_TYPES = {**_NUMBERS, "text": pa.string(), "blob": pa.binary()}


def split_place(place: str | Path) -> tuple[Path, str | None]:
    """The file of a table, and the table's name in it where one is given.

    >>> split_place("shop.db::people")
    (PosixPath('shop.db'), 'people')
    """
    file, separator, table = str(place).rpartition(SEPARATOR)
    return (Path(file), table) if separator and file and table else (Path(place), None)


def is_database(file: Path) -> bool:
    return file.name.lower().endswith(ENDINGS)


def open_database(file: Path, table: str | None) -> SQLiteTable | DuckDBTable:
    """A table of a file; where none is named, the only one."""
    with file.open("rb") as stream:
        start = stream.read(16)
    if start == b"SQLite format 3\x00":
        return SQLiteTable(file, _chosen(file, table, _sqlite_tables(file)))
    if start[8:12] == b"DUCK":
        return DuckDBTable(file, _chosen(file, table, _duckdb_tables(file)))
    raise GamlpError("is neither an SQLite nor a DuckDB file", file=file)


def _chosen(file: Path, table: str | None, known: Sequence[str]) -> str:
    if table in known:
        assert table is not None
        return table
    named = ", ".join(known[:_MOST_NAMED]) + (" …" if len(known) > _MOST_NAMED else "")
    if table is not None:
        raise GamlpError(
            f"has no table '{table}'", file=file, hint=f"there are: {named}" if known else "it has no tables at all"
        )
    if len(known) != 1:
        hint = f"write {file}{SEPARATOR}TABLE with one of: {named}" if known else "views are not read"
        raise GamlpError("holds several tables" if known else "holds no table", file=file, hint=hint)
    return known[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class SQLiteTable:
    """A table of an SQLite file. Values there have a type each; a column has the one that holds them all."""

    format = "SQLite"
    typed = True
    delimiter = None

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        with _sqlite(self.path) as connection:
            # Generated columns too; hidden ones (1) are those of virtual tables.
            about = connection.execute(f"PRAGMA table_xinfo({_quoted(self.table)})").fetchall()
            return {_text(name): self._type(connection, _text(name), _text(kind)) for _, name, kind, *_ in about}

    def _type(self, connection: sqlite3.Connection, name: str, declared: str) -> pa.DataType:
        column = _quoted(name)
        query = f"SELECT DISTINCT typeof({column}) FROM {_quoted(self.table)} NOT INDEXED"
        found = {_text(row[0]) for row in connection.execute(query)} - {"null"}
        if not found:
            return pa.null()
        if found == {"integer"} and declared.upper() in ("BOOLEAN", "BOOL"):
            query = f"SELECT 1 FROM {_quoted(self.table)} NOT INDEXED WHERE {column} NOT IN (0, 1) LIMIT 1"
            return pa.int64() if connection.execute(query).fetchone() else pa.bool_()
        if len(found) == 1:
            return _TYPES[found.pop()]
        if "blob" in found:
            return pa.binary()  # as no format of one type for each column holds it
        return pa.float64() if found <= set(_NUMBERS) else pa.string()

    def schema(self) -> pa.Schema:
        return pa.schema(list(self._types.items()))

    def count(self) -> int:
        with _sqlite(self.path) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {_quoted(self.table)}").fetchone()[0])

    def count_at_most(self) -> int:
        return self.count()

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, self._types[name]) for name in names])
        columns = ", ".join(_as(name, self._types[name]) for name in names)
        rows, done = _FIRST_ROWS, 0
        with _sqlite(self.path) as connection:
            # By an index rows would come in another order, and in another one for other columns.
            cursor = connection.execute(f"SELECT {columns} FROM {_quoted(self.table)} NOT INDEXED")
            while found := cursor.fetchmany(rows):
                batch = self._batch(found, schema, done)
                done += batch.num_rows
                yield batch
                rows = min(max(1, size * batch.num_rows // max(1, 8 * batch.nbytes)), _MOST_ROWS)  # tuples take more

    def _batch(self, rows: list[tuple[Any, ...]], schema: pa.Schema, before: int) -> pa.RecordBatch:
        arrays = []
        for field, values in zip(schema, zip(*rows)):
            try:
                if pa.types.is_string(field.type):
                    arrays.append(pa.array(values, pa.binary()).cast(field.type))
                elif pa.types.is_boolean(field.type):
                    arrays.append(pa.array(values, pa.int64()).cast(field.type))
                elif pa.types.is_floating(field.type):  # of integers among them any number of digits
                    arrays.append(pa.array([None if value is None else float(value) for value in values], field.type))
                else:
                    arrays.append(pa.array(values, field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                row = before + 1 + next(index for index, value in enumerate(values) if not _fits(value, field.type))
                raise GamlpError(
                    "is not UTF-8 text" if pa.types.is_string(field.type) else "bytes among values of other types",
                    file=self.path,
                    row=row,
                    column=field.name,
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(name: str, kind: pa.DataType) -> str:
    return f"CAST({_quoted(name)} AS TEXT)" if pa.types.is_string(kind) else _quoted(name)


def _fits(value: Any, kind: pa.DataType) -> bool:
    if value is None or not isinstance(value, bytes):
        return value is None or not pa.types.is_binary(kind)
    try:
        value.decode()
    except UnicodeDecodeError:
        return not pa.types.is_string(kind)
    return True


def _text(value: Any) -> str:
    """Of names, which come as bytes as all text does."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def _sqlite(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads; what is wrong with the file becomes a sentence."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = bytes  # text that is not UTF-8 is told with its row
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 16 * LONGEST_TEXT)
            connection.execute("PRAGMA trusted_schema = OFF")  # a file's own definitions call no functions of effect
            connection.execute("PRAGMA cell_size_check = ON")  # a damaged page is told, not read
            yield connection
    except (sqlite3.Error, OverflowError) as error:
        raise GamlpError(f"truncated, damaged or not SQLite ({' '.join(str(error).split())[:200]})", file=file) from (
            error
        )


def _sqlite_tables(file: Path) -> list[str]:
    """Ordinary tables: views and virtual tables are programs that a file brings."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    )
    with _sqlite(file) as connection:
        return [_text(row[0]) for row in connection.execute(query)]


class DuckDBTable:
    """A table of a DuckDB file."""

    format = "DuckDB"
    typed = True
    delimiter = None

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    def schema(self) -> pa.Schema:
        with _duckdb(self.path) as connection:
            return connection.execute(f"SELECT * FROM {self._name()} LIMIT 0").fetch_arrow_table().schema

    def count(self) -> int:
        with _duckdb(self.path) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {self._name()}").fetchone()[0])

    def count_at_most(self) -> int:
        return self.count()

    def batches(
        self, names: list[str], size: int, pass_over: PassOver | None, passed: array[int]
    ) -> Iterator[pa.RecordBatch]:
        columns = ", ".join(_quoted(name) for name in names)
        rows = min(max(_FIRST_ROWS, size // (16 * max(1, len(names)))), _MOST_ROWS)
        with _duckdb(self.path) as connection:
            found = connection.execute(f"SELECT {columns} FROM {self._name()}").fetch_record_batch(rows)
            for batch in found:
                each = max(1, size * batch.num_rows // max(1, batch.nbytes))
                yield from (batch.slice(at, each) for at in range(0, batch.num_rows, each))

    def _name(self) -> str:
        """A table of another schema than the usual one is called SCHEMA.TABLE."""
        return _quoted(self.table) if self.table in self._main else ".".join(map(_quoted, self.table.split(".", 1)))

    @cached_property
    def _main(self) -> list[str]:
        return [name for schema, name in _duckdb_names(self.path) if schema == "main"]


def _duckdb_names(file: Path) -> list[tuple[str, str]]:
    query = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL"
    with _duckdb(file) as connection:
        found: list[tuple[str, str]] = connection.execute(query).fetchall()
    return found


def _duckdb_tables(file: Path) -> list[str]:
    """Ordinary tables: views are programs that a file brings."""
    return [name if schema == "main" else f"{schema}.{name}" for schema, name in _duckdb_names(file)]


@contextmanager
def _duckdb(file: Path) -> Iterator[Any]:
    """A connection that reads this file and nothing else."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra("duckdb", "duckdb") from error
    settings: dict[str, Any] = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "threads": "1",
        "lock_configuration": "true",
    }
    try:
        with closing(duckdb.connect(str(file), read_only=True, config=settings)) as connection:
            yield connection
    except duckdb.Error as error:
        message = " ".join(str(error).split())[:200]
        raise GamlpError(f"locked, truncated, damaged or not DuckDB ({message})", file=file) from error
