"""The place of a table → its parts: one file, the files of a folder with its partitions, a table of a database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.arrow import ArrowFile
from gamlp.graph.ingest.formats.contract import ReadingRules, TableFile
from gamlp.graph.ingest.formats.databases import ENDINGS, SEPARATOR, is_database, open_database, split_place
from gamlp.graph.ingest.formats.delimited import Delimited
from gamlp.graph.ingest.formats.json_lines import JsonLines
from gamlp.graph.ingest.formats.parquet import ParquetFile
from gamlp.graph.ingest.formats.text import COMPRESSIONS

_CSV, _JSON, _PARQUET, _ARROW = "CSV", "JSON Lines", "Parquet", "Arrow"
_PLAIN_TEXTS = {
    ".csv": _CSV,
    ".tsv": _CSV,
    ".tab": _CSV,
    ".psv": _CSV,
    ".txt": _CSV,
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".json": _JSON,
}
_BINARIES = {
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".arrow": _ARROW,
    ".arrows": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
_TEXTS = {text + ending: kind for text, kind in _PLAIN_TEXTS.items() for ending in ("", *COMPRESSIONS)}
_FORMATS = _BINARIES | _TEXTS
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_PARTITION = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_DEEPEST = 16  # partitions in partitions


@dataclass(frozen=True)
class TablePart:
    """One file of a table, with the values that the names of its folders give to all its rows."""

    name: Path  # as errors call it
    file: TableFile
    partition: Mapping[str, str | None] = field(default_factory=dict)


def find_parts(place: Path, rules: ReadingRules) -> list[TablePart]:
    """The parts of a table in the order of their names; all are of one format."""
    file, table = split_place(place)
    if not place.exists() and (table is not None or is_database(file)) and file.is_file():
        return [TablePart(place, open_database(file, table))]
    if place.is_dir():
        found = _in_folder(place, {})
        if not found:
            raise GamlpError("folder holds no tables", file=place)
    elif is_database(place) and place.exists():
        opened = open_database(place, None)
        return [TablePart(Path(f"{place}{SEPARATOR}{opened.table}"), opened)]
    elif place.exists():
        found = [(place, {})]
    else:
        raise GamlpError("no such file or folder", file=place if table is None else file)
    _refuse_mixed([one for one, _ in found])
    return [TablePart(one, _opened(one, rules), partition) for one, partition in found]


def partition_types(parts: list[TablePart]) -> dict[str, pa.DataType]:
    """Columns that the names of folders give: integers where all are, else categories."""
    found: dict[str, pa.DataType] = {}
    for name in dict.fromkeys(name for part in parts for name in part.partition):
        values = [part.partition[name] for part in parts if name in part.partition]
        whole = all(value is None or re.fullmatch(r"0|-?[1-9][0-9]{0,17}", value) for value in values)
        typed = all(part.file.typed for part in parts)
        found[name] = pa.int64() if whole and typed else pa.dictionary(pa.int32(), pa.string())
    return found


def _in_folder(folder: Path, partition: Mapping[str, str | None]) -> list[tuple[Path, Mapping[str, str | None]]]:
    if (folder / "_delta_log").is_dir():
        raise GamlpError("is a Delta table", file=folder, hint=f"read it on Spark: --engine spark and delta:{folder}")
    found: list[tuple[Path, Mapping[str, str | None]]] = []
    # Spark and others leave _SUCCESS and .crc files among the parts.
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_"))):
        if not path.is_dir():
            found.append((path, partition))
            continue
        named = _PARTITION.fullmatch(path.name)
        if named is None or len(partition) >= _DEEPEST:
            hint = "give one folder of files, or folders called COLUMN=VALUE"
            raise GamlpError("a folder within a folder of tables", file=path, hint=hint)
        name, value = unquote(named[1]), unquote(named[2])
        found += _in_folder(path, {**partition, name: None if value == _NULL_PARTITION else value})
    if len({tuple(names) for _, names in found}) > 1:
        raise GamlpError(
            "some files lie in folders called COLUMN=VALUE, others do not", file=folder, hint="give one folder of each"
        )
    return found


def _refuse_mixed(files: list[Path]) -> None:
    for file in files:
        kind = _format(file)
        if file.stat().st_size == 0:
            raise GamlpError("empty file", file=file)
        if kind != _format(files[0]):
            raise GamlpError(
                f"is {kind}, and {files[0].name} is {_format(files[0])}",
                file=file,
                hint="give one folder of files of one format",
            )


def _format(file: Path) -> str:
    name = file.name.lower()
    # The longest: .csv.gz is no .gz.
    ending = max((ending for ending in _FORMATS if name.endswith(ending)), key=len, default=None)
    if ending is None and is_database(file):
        hint = f"give its table alone, as {file}{SEPARATOR}TABLE"
        raise GamlpError("is a database among the files of a folder", file=file, hint=hint)
    if ending is None:
        compressed = ", ".join(COMPRESSIONS)
        known = ", ".join([*_PLAIN_TEXTS, *_BINARIES])
        raise GamlpError(
            "unknown kind of file",
            file=file,
            hint=f"names end in {known} (texts also in {compressed}), or {', '.join(ENDINGS)} for databases",
        )
    return _FORMATS[ending]


def _opened(file: Path, rules: ReadingRules) -> TableFile:
    kind = _format(file)
    if kind == _PARQUET:
        return ParquetFile(file)
    if kind == _ARROW:
        return ArrowFile(file)
    return JsonLines(file, rules) if kind == _JSON else Delimited(file, rules)
