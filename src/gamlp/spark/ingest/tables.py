"""Tables that Spark reads: files of any format, tables of the catalogue, DataFrames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.ingest import ReadingRules, TablePlaces, refuse_decimal_commas, sniffed, too_many_rows
from gamlp.io import is_url
from gamlp.spark.ingest.parquet import ParquetFiles, Work
from gamlp.spark.tasks import spark_failure_as_error

RAGGED = "gamlp_ragged_row"
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
    **{f"{text}{end}": "csv" for text in (".csv", ".tsv", ".tab", ".psv") for end in ("", ".gz")},
    **{f"{text}{end}": "json" for text in (".json", ".jsonl", ".ndjson") for end in ("", ".gz")},
}
_ARROW = (".arrow", ".arrows", ".feather", ".ipc")
_FIRST_LINES = 200
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9.]*):(?!//)(.+)")


@dataclass(frozen=True)
class SparkTable:
    """A DataFrame with the name that errors call it by. In one that is not `typed` (CSV) all columns are text."""

    frame: Any
    name: str
    typed: bool = True
    files: ParquetFiles | None = None  # where tasks can read it without Spark

    @classmethod
    def of(cls, table: Any, name: str) -> SparkTable:
        return table if isinstance(table, SparkTable) else cls(table, name)

    @property
    def ragged(self) -> str | None:
        """The column that holds CSV rows with a wrong number of columns."""
        return RAGGED if RAGGED in self.frame.columns else None

    @property
    def column_names(self) -> list[str]:
        return [name for name in self.frame.columns if name != RAGGED]

    @property
    def all_column_names(self) -> list[str]:
        """Spark gives all files of a table the same columns."""
        return self.column_names

    def need(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks one of these columns, or has it twice."""
        for name in names:
            if name not in self.column_names:
                has = ", ".join(self.column_names)
                raise GamlpError(f"no column '{name}'", file=self.name, hint=f"there are: {has}")
            if self.column_names.count(name) > 1:
                raise GamlpError(f"two columns are called '{name}'", file=self.name, hint="rename one")

    def refuse_more_than(self, rows: int) -> None:
        """Refuse a table of more rows than are allowed."""
        if self.frame.limit(rows + 1).count() > rows:
            raise too_many_rows(f"{rows:,} rows", self.name)

    def count(self) -> int:
        found = None if self.files is None else self.files.count()
        return int(self.frame.count()) if found is None else found

    def map(self, names: Sequence[str], work: Work, schema: Any) -> Any:
        """`work` on batches of these columns, each once, and of the one of ragged rows."""
        wanted = list(dict.fromkeys([*names, *([self.ragged] if self.ragged else [])]))

        def renamed(batches: Iterator[Any]) -> Iterator[Any]:
            yield from work(batch.rename_columns(wanted) for batch in batches)

        if self.files is not None:
            found = self.files.map({name: self.arrow_type(name) for name in wanted}, work, schema)
            if found is not None:
                return found
        # Under names of their own: Spark takes a name with a dot for a part of a column.
        chosen = [self.column(name).alias(f"c{number}") for number, name in enumerate(wanted)]
        return self.frame.select(*chosen).mapInArrow(renamed, schema)

    def first(self, names: Sequence[str], rows: int) -> Any:
        """The first rows of these columns in which the first of them is there, as an Arrow table."""
        from pyspark.sql import functions

        there = self.column(names[0]).isNotNull()
        if self.holds_text(names[0]):
            there &= functions.trim(self.column(names[0])) != ""
        chosen = [self.column(name).alias(f"c{number}") for number, name in enumerate(names)]
        with spark_failure_as_error():
            return self.frame.where(there).select(*chosen).limit(rows).toArrow().rename_columns(list(names))

    def column(self, name: str) -> Any:
        """A column; vectors of Spark ML as lists."""
        from pyspark.sql import functions

        column = functions.col("`" + name.replace("`", "``") + "`")
        if not self.is_vector(name):
            return column
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column)

    def is_vector(self, name: str) -> bool:
        return type(self.kind(name)).__name__ == "VectorUDT"

    def is_list(self, name: str) -> bool:
        """Whether a column holds several values a row."""
        return self.is_vector(name) or self.kind(name).typeName() == "array"

    def holds_text(self, name: str) -> bool:
        """Whether a column holds texts, or lists of them."""
        kind = self.kind(name)
        return bool(
            (kind.elementType if kind.typeName() == "array" else kind).typeName() in ("string", "varchar", "char")
        )

    def arrow_type(self, name: str) -> Any:
        """A column's type as tasks see it; null where Arrow has none."""
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import to_arrow_type

        if self.is_vector(name):
            return pa.list_(pa.float64())
        try:
            return to_arrow_type(self.kind(name))
        except (PySparkException, TypeError):
            return pa.map_(pa.string(), pa.string())  # nothing that could be features

    def ddl_type(self, name: str) -> str:
        """A column's type as Spark's SQL writes it."""
        return "array<double>" if self.is_vector(name) else str(self.kind(name).simpleString())

    def kind(self, name: str) -> Any:
        """Spark's type of a column."""
        return next(field.dataType for field in self.frame.schema.fields if field.name == name)


def read_table(spark: Any, place: str | Path, rules: ReadingRules | None = None) -> SparkTable:
    """A table: a path or URL that ends in .parquet, .csv, .csv.gz, .orc or .json, `format:path` for any other
    format Spark knows (`delta:/data/nodes`; also for folders without an ending), or a table of the catalogue.

    Columns of a CSV are text with a header, read by the rules of `gamlp ingest`. URLs are those that this Spark
    reads: for S3 that is mostly s3a://.
    """
    text = str(place)
    given = _PREFIX.fullmatch(text)
    kind, path = (given[1].lower(), given[2]) if given else (_kind(text), text)
    with spark_failure_as_error():
        if kind is None:
            return SparkTable(_catalogue_table(spark, text), text)
        path = _address(path)
        try:
            if kind == "csv":
                return SparkTable(_read_csv(spark, path, text, rules or ReadingRules()), text, typed=False)
            frame = spark.read.format(kind).load(path)
            frame.schema  # over Connect nothing is looked at before  # noqa: B018
        except GamlpError:
            raise
        except Exception as error:
            raise _unreadable(error, text, kind) from error
        return SparkTable(frame, text, files=ParquetFiles.of(spark, frame) if kind == "parquet" else None)


def read_tables(spark: Any, places: TablePlaces, rules: ReadingRules) -> Any:
    """One table, or several by what they hold."""
    if isinstance(places, Mapping):
        return {name: read_table(spark, place, rules) for name, place in places.items()}
    return read_table(spark, places, rules)


def _kind(text: str) -> str | None:
    """By the ending of a file or folder, or of the files in a folder here; None: a name of the catalogue."""
    name = text.rstrip("/").rsplit("/", 1)[-1].lower()
    found = next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None)
    if name.endswith(_ARROW):
        raise GamlpError("Spark does not read Arrow files", file=text, hint="write Parquet, or use --engine local")
    if found is not None:
        return found
    local = Path(text.removeprefix("file://"))
    if not is_url(text) and local.is_dir():
        inside = sorted(path.name for path in local.iterdir() if not path.name.startswith((".", "_")))
        kinds = {_kind(name) if "." in name else None for name in inside}
        if not inside:
            raise GamlpError("folder holds no tables", file=text)
        if len(kinds) == 1 and None not in kinds:
            return kinds.pop()
    if "/" in text or local.exists():
        known = ", ".join(_FORMATS)
        raise GamlpError(
            "no such file or folder" if not is_url(text) and not local.exists() else "unknown kind of file",
            file=text,
            hint=f"names end in {known}; write FORMAT:{text} for another one",
        )
    return None


def _address(path: str) -> str:
    """A path of this machine stays one where Spark's own file system is another."""
    if is_url(path) or path.startswith("file:"):
        return path
    local = Path(path)
    return local.resolve().as_uri() if local.exists() else path


def _catalogue_table(spark: Any, name: str) -> Any:
    try:
        frame = spark.table(name)
        frame.schema  # noqa: B018
    except Exception as error:
        raise GamlpError(
            "no such file, folder or table of Spark's catalogue", file=name, hint="write a path, or FORMAT:path"
        ) from error
    return frame


def _read_csv(spark: Any, path: str, name: str, rules: ReadingRules) -> Any:
    """All columns as text, nothing instead of empty text, and a column for rows that have too few or too many."""
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    if rules.decimal == ",":
        raise GamlpError("--decimal ',' is for one machine", file=name, hint="write Parquet, or use --engine local")
    lines = spark.read.text(path)
    first = "\n".join(row[0] for row in lines.limit(_FIRST_LINES).collect()).encode("utf-8", "replace")
    delimiter = rules.delimiter or sniffed(first, "\t" if ".tsv" in name or ".tab" in name else ",")
    if rules.decimal is None:
        refuse_decimal_commas(name, first, delimiter)
    options = {"header": True, "escape": '"', "mode": "PERMISSIVE", "enforceSchema": False, "sep": delimiter}
    header = spark.read.options(**options).csv(path).schema
    if not header.fields:
        raise GamlpError("empty file", file=name)
    _refuse_lines(lines, name, delimiter)
    names = [field.name for field in header.fields]
    schema = StructType([StructField(each, StringType()) for each in [*names, RAGGED]])
    frame = spark.read.options(**options, columnNameOfCorruptRecord=RAGGED).schema(schema).csv(path)
    texts = [SparkTable(frame, name).column(each) for each in names]
    empty = functions.lit("")
    return frame.select(
        *(functions.when(text != empty, text).alias(each) for text, each in zip(texts, names)), functions.col(RAGGED)
    )


def _whole_record(delimiter: str) -> str:
    """A pattern of lines whose quotes are closed."""
    cut = re.escape(delimiter)
    field = rf'(?:"(?:[^"]|"")*+"[^{cut}]*+|[^"{cut}][^{cut}]*+|)'
    return f"^{field}(?:{cut}{field})*+$"


def _refuse_lines(lines: Any, name: str, delimiter: str) -> None:
    """Refuse text that is not UTF-8, and a quoted value that goes on in the next line.

    Spark cuts a CSV into tasks at its lines: the rest of such a value would be read as a row.
    """
    from pyspark.sql import functions

    line = functions.col("value")
    open_quote = line.contains('"') & ~line.rlike(_whole_record(delimiter))
    not_utf8 = ~functions.is_valid_utf8(line)
    found = lines.where(open_quote | not_utf8).select(open_quote, functions.make_valid_utf8(line)).limit(1).collect()
    if found and found[0][0]:
        raise GamlpError(
            f"a quote is not closed in its line, and Spark reads a CSV line by line: {found[0][1][:60]}",
            file=name,
            hint="write Parquet, or use --engine local",
        )
    if found:
        raise GamlpError(f"text that is not UTF-8: {found[0][1][:60]}", file=name, hint="save the table as UTF-8")


def _unreadable(error: Exception, name: str, kind: str) -> GamlpError:
    message = str(error)
    if "PATH_NOT_FOUND" in message or "does not exist" in message:
        return GamlpError("no such file or folder", file=name)
    if "UNABLE_TO_INFER_SCHEMA" in message:
        return GamlpError("empty file", file=name)
    if "DATA_SOURCE_NOT_FOUND" in message:
        return GamlpError(f"this Spark does not know the format '{kind}'", file=name, hint="see spark.jars.packages")
    if "FileSystem" in message and ("scheme" in message or "not found" in message):
        return GamlpError("this Spark cannot read such addresses", file=name, hint="for S3, add hadoop-aws to it")
    first = " ".join(message.split())[:200]
    return GamlpError(f"truncated, damaged or not {kind} ({first})", file=name)
