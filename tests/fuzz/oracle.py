"""What tables must become: read again by csv, pandas and Arrow, joined by scipy."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sqlite3
import warnings
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
from pandas._libs.parsers import STR_NA_VALUES
from scipy import sparse

from gamlp.graph import Graph
from gamlp.graph.features.encoders import FittedColumn

Rows = list[dict[str, Any]]
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CLASS = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?", re.ASCII)
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".psv": "|", ".txt": ";"}
_ROLES = {"": 0, "train": 1, "valid": 2, "val": 2, "test": 3}


class Ambiguous(Exception):
    """Two readers of the same file disagree: any clean end is right."""


class Refused(Exception):
    """What must not be accepted."""


def read_again(path: Path, skip: bool, used: Callable[[str], bool]) -> list[tuple[Rows, list[str], bool]]:
    """Rows, columns and whether cells have types, of each file; by readers of other makers."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [_read_file(file, skip, used) for file in files]


def _read_file(file: Path, skip: bool, used: Callable[[str], bool]) -> tuple[Rows, list[str], bool]:
    delimiter = next((found for ending, found in _DELIMITERS.items() if ending in file.name), None)
    if delimiter is not None:
        rows, columns = _read_csv(file, skip, delimiter)
        return rows, columns, False
    if file.suffix in (".jsonl", ".sqlite"):
        rows, columns = _read_json_lines(file) if file.suffix == ".jsonl" else _read_sqlite(file)
        _refuse_doubt(rows, columns)
        return rows, [name for name in columns if used(name)], True
    try:
        if file.suffix == ".parquet":
            source = pq.ParquetFile(file)
            table = source.read([name for name in source.schema_arrow.names if used(name)])
        else:
            with pa.OSFile(str(file)) as opened:
                try:
                    table = pa.ipc.open_file(opened).read_all()
                except pa.ArrowInvalid:
                    opened.seek(0)
                    table = pa.ipc.open_stream(opened).read_all()
        table = table.drop_columns([name for name in table.column_names if not used(name)])
        table.validate(full=True)
        return table.to_pylist(), table.column_names, True
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused(f"unreadable: {error}") from error


def _read_json_lines(file: Path) -> tuple[Rows, list[str]]:
    """Gaps where a row has no such name. What two readers of JSON may take in two ways is not judged."""
    try:
        lines = [line for line in file.read_bytes().decode("utf-8-sig").split("\n") if line.strip()]
        rows = [json.loads(line, object_pairs_hook=_once, parse_constant=_strange) for line in lines]
    except ValueError as error:
        raise Ambiguous(str(error)) from error
    if not all(isinstance(row, dict) for row in rows):
        raise Ambiguous("a line that is no object")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows], columns


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def _strange(text: str) -> Any:
    raise ValueError(text)


def _read_sqlite(file: Path) -> tuple[Rows, list[str]]:
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            name = connection.execute("SELECT name FROM sqlite_master").fetchone()[0]
            found = connection.execute(f'SELECT * FROM "{name}"')
            columns = [about[0] for about in found.description]
            return [dict(zip(columns, row)) for row in found], columns
    except (sqlite3.Error, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise Ambiguous(str(error)) from error


def _refuse_doubt(rows: Rows, columns: list[str]) -> None:
    """Values of several types in one column: what that means is not judged here."""
    for name in columns:
        kinds = {type(row[name]) for row in rows} - {type(None)}
        if (len(kinds) > 1 and not kinds <= {int, float}) or kinds & {list, dict, bytes, bool}:
            raise Ambiguous(f"types of {name}")


def _read_csv(file: Path, skip: bool, delimiter: str) -> tuple[Rows, list[str]]:
    data = file.read_bytes()
    try:
        data = gzip.decompress(data) if file.name.endswith(".gz") else data
        if file.name.endswith(".zst"):
            with pa.input_stream(io.BytesIO(data), "zstd") as stream:
                data = stream.read()
        text = data.decode("utf-8-sig", "surrogateescape")
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"unreadable: {error}") from error
    if "\x00" in text:
        raise Ambiguous("NUL")
    by_csv = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    if not by_csv:
        raise Refused("no header")
    if any(other in text.partition("\n")[0] for other in {*_DELIMITERS.values(), "\x01"} - {delimiter}):
        raise Ambiguous("another delimiter in the header")
    columns, body = by_csv[0], by_csv[1:]
    if not _is_text(columns):
        raise Refused("a header that is not UTF-8")
    whole = [row for row in body if len(row) == len(columns) and _is_text(row)]
    if any(not _is_text(row) for row in body) and "note" in columns:
        raise Ambiguous("whether a cell that nobody reads makes a row bad")
    if len(whole) < len(body) and not skip:
        raise Refused("ragged, or not UTF-8")
    if len(whole) == len(body) and _by_pandas(text, delimiter) != by_csv:
        raise Ambiguous("csv and pandas disagree")
    return [dict(zip(columns, row)) for row in whole], columns


def _is_text(row: list[str]) -> bool:
    return not any("\udc80" <= letter <= "\udcff" for cell in row for letter in cell)


def _by_pandas(text: str, delimiter: str) -> list[list[str]]:
    try:
        frame = pandas.read_csv(
            io.StringIO(text, newline=""),
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            header=None,
        )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise Ambiguous(str(error)) from error
    return frame.to_numpy().tolist()


@dataclass(frozen=True)
class Expected:
    ids: list[str]
    features: np.ndarray
    classes: list[str | None]
    roles: list[int] | None
    adjacency: sparse.csr_array


def expected(nodes: Path, edges: Path, *, directed: bool, skip: bool, features: list[str] | None) -> Expected:
    """What the graph must be."""
    own = None if features is None else {"id", "label", "split", *features}
    node_files = read_again(nodes, skip, lambda name: own is None or name in own)
    edge_files = read_again(edges, skip, lambda name: name in ("src", "dst", "weight"))
    columns = _columns(node_files, "id")
    names = features if features is not None else [name for name in columns if name not in ("id", "label", "split")]
    if features is None and any(set(other) - set(columns) for _, other, _ in node_files):
        raise Refused("files differ in columns")
    if any(name not in other for _, other, _ in node_files for name in (*names, *(set(columns) & {"label", "split"}))):
        raise Refused("no such column")
    found: dict[str, tuple[list[float], str | None, int]] = {}
    for rows, _, typed in node_files:
        for row in rows:
            try:
                name = _id(row["id"], typed)
                values = [_feature(row[feature], typed) for feature in names]
                label = _label(row.get("label"), typed)
                role = _role(row.get("split"), typed)
                if name in found:
                    raise Refused("twice")
            except Refused:
                if not skip:
                    raise
                continue
            found[name] = values, label, role
    if not found:
        raise Refused("no nodes")
    ids = list(found)
    classes = _classes([label for _, label, _ in found.values()])
    roles = [role for _, _, role in found.values()] if "split" in columns else None
    if roles is not None and not any(roles):
        roles = None
    if roles is not None and any(label is not None for label in classes):
        roles = [role if label is not None else 0 for role, label in zip(roles, classes)]
    matrix = np.asarray([values for values, _, _ in found.values()], np.float32).reshape(len(ids), len(names))
    return Expected(ids, matrix, classes, roles, _adjacency(ids, edge_files, directed, skip))


def _columns(files: list[tuple[Rows, list[str], bool]], *needed: str) -> list[str]:
    for _, columns, _ in files:
        if any(columns.count(name) != 1 for name in needed) or len(set(columns)) != len(columns):
            raise Refused("columns missing or twice")
    return files[0][1]


def _id(value: Any, typed: bool) -> str:
    if value is None or value == "" or isinstance(value, float | bool):
        raise Refused("missing or strange id")
    return str(value)


def _feature(value: Any, typed: bool) -> float:
    if isinstance(value, str):
        if not NUMBER.fullmatch(value.strip()):
            raise Refused(f"feature {value!r}")
        value = float(value)
    if value is None:
        raise Refused("missing feature")
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow = float(np.float32(value))
    if not math.isfinite(narrow):
        raise Refused("infinite feature")
    return narrow


def _weight(value: Any, typed: bool) -> float:
    weight = _feature(value, typed)
    if weight < 0 or (weight == 0) != (float(value) == 0):
        raise Refused("a weight that is negative, or nothing in float32")
    return weight


def _label(value: Any, typed: bool) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= 2**53:
            raise Refused("a float for a label")
        value = int(value)
    text = str(value).strip()
    return None if text in STR_NA_VALUES or not text else text


def _classes(labels: list[str | None]) -> list[str | None]:
    known = [label for label in labels if label is not None]
    if all(_CLASS.fullmatch(label) for label in known):
        return [None if label is None else str(int(_CLASS.fullmatch(label)[1])) for label in labels]  # type: ignore[index]
    return labels


def _role(value: Any, typed: bool) -> int:
    text = "" if value is None else str(value).strip()
    if text not in _ROLES:
        raise Refused("no role")
    return _ROLES[text]


def _adjacency(
    ids: list[str], files: list[tuple[Rows, list[str], bool]], directed: bool, skip: bool
) -> sparse.csr_array:
    columns = _columns(files, "src", "dst")
    if any(("weight" in columns) != ("weight" in other) for _, other, _ in files):
        raise Refused("weights in some files")
    row_of = {name: row for row, name in enumerate(ids)}
    weighted = "weight" in columns
    targets: list[int] = []
    sources: list[int] = []
    weights: list[float] = []
    for rows, _, typed in files:
        for row in rows:
            try:
                source, target = (row_of.get(_id(row[name], typed)) for name in ("src", "dst"))
                weight = _weight(row["weight"], typed) if weighted else 1.0
                if source is None or target is None:
                    raise Refused("unknown node")
            except Refused:
                if not skip:
                    raise
                continue
            if source != target:
                targets.append(target)
                sources.append(source)
                weights.append(weight)
    size = (len(ids), len(ids))
    ends = (targets, sources) if directed else (targets + sources, sources + targets)
    values = np.asarray(weights if directed else weights * 2, np.float64)
    matrix = sparse.coo_array((values, ends), size).tocsr()  # duplicates add up; a weight of 0 stays
    matrix.sort_indices()
    if not weighted:
        matrix.data[:] = 1
    return matrix


def difference(graph: Path, right: Expected) -> str | None:
    """What the graph folder has otherwise than it must."""
    built = Graph.open(graph)
    count = len(right.ids)
    ids = [str(name) for name in built.nodes.ids.take(np.arange(built.nodes.count)).to_pylist()]
    if ids != right.ids:
        return f"ids {ids[:5]}… of {len(ids)}, not {right.ids[:5]}… of {count}"
    features = (
        np.zeros((count, 0), np.float32) if built.nodes.features is None else built.nodes.features.read(slice(0, count))
    )
    if features.shape != right.features.shape or not np.array_equal(features, right.features):
        return f"features {features.shape}, not {right.features.shape}, or other values"
    labels = built.nodes.labels
    classes = (
        [None] * count if labels is None else [None if code < 0 else labels.classes[code] for code in labels.values]
    )
    if classes != right.classes:
        return f"labels {classes[:8]}, not {right.classes[:8]}"
    if right.roles is not None:
        roles = [0] * count if built.nodes.split is None else built.nodes.split.roles.tolist()
        if roles != right.roles:
            return f"roles {roles[:8]}, not {right.roles[:8]}"
    return _other_edges(built, right.adjacency)


def _other_edges(built: Graph, right: sparse.csr_array) -> str | None:
    if len(built.relations) == 0:
        return None if right.nnz == 0 else "no relation"
    offsets, neighbours, weights = [0], [], []
    for block in built.relation.blocks:
        part = np.asarray(block.offsets[:])
        offsets += (part[1:] - part[0] + offsets[-1]).tolist()
        neighbours += np.asarray(block.neighbours[:]).tolist()
        weights += [1.0] * int(part[-1]) if block.weights is None else np.asarray(block.weights[:]).tolist()
    if offsets != right.indptr.tolist() or neighbours != right.indices.tolist():
        return "other edges"
    return None if np.allclose(weights, right.data, rtol=1e-5, atol=0) else "other weights"


def encoding_fault(graph: Path) -> str | None:
    """What is wrong with features that were encoded: they are those of the states on the raw columns, row by row."""
    built = Graph.open(graph)
    features, raw = built.nodes.features, built.nodes.raw
    if features is None:
        return None if raw is None else "raw columns without features"
    values = features.read(slice(None))
    if len(values) != built.nodes.count or not np.isfinite(values).all():
        return f"features of {len(values)} rows, or infinite ones"
    if raw is None:
        return None if all(one.type in ("as-is", "vector") for one in features.columns or ()) else "no raw columns"
    cells, at = raw.take(np.arange(raw.count)), 0
    for column in features.columns or ():
        rows = [FittedColumn.of(column).apply(cells.column(column.name).slice(row, 1))[0] for row in range(raw.count)]
        if not np.array_equal(np.concatenate(rows), values[:, at : at + column.width]):
            return f"features of column {column.name!r} are not those of its cells"
        at += column.width
    return None
