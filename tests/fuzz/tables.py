"""`gamlp ingest` on tables of every format, sound or spoiled, compared with an oracle."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.forked import Done
from tests.fuzz.harness import Case
from tests.fuzz.mutation import STRANGE_NUMBERS, STRANGE_TEXTS, damage_bytes
from tests.fuzz.oracle import NUMBER, Ambiguous, Refused, Rows, difference, encoding_fault, expected

_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)


# --- drawing ---


@dataclass(frozen=True)
class Drawn:
    """Sound tables, cells as text."""

    nodes: Rows
    edges: Rows
    features: list[str]


def _ids(draw: random.Random, count: int) -> list[str]:
    way = draw.randrange(4)
    if way == 0:
        return [str(number) for number in range(count)]
    if way == 1:
        return [str(number) for number in draw.sample(range(-(2**40), 2**40), count)]
    if way == 2:
        return [f"n{number}" for number in draw.sample(range(10**6), count)]
    odd = [text for text in STRANGE_TEXTS if text.strip() and "\x00" not in text and len(text) < 100]
    return [f"{draw.choice(odd)}{number}" for number in range(count)]


def _number(draw: random.Random) -> str:
    value = draw.choice([draw.gauss(0, 1), draw.gauss(0, 1e6), draw.randrange(-5, 5), draw.uniform(0, 1e-3)])
    return draw.choice([repr, "{:.3e}".format, "{:.4f}".format])(value)


def draw_tables(draw: random.Random) -> Drawn:
    ids = _ids(draw, draw.randrange(2, 40))
    features = [f"f{number}" for number in range(draw.randrange(0, 4))]
    labelled, divided, weighted, noted = (draw.random() < share for share in (0.8, 0.4, 0.4, 0.4))
    classes = draw.choice([["x", "y"], ["0", "1", "2"], ["a b", "c,d", 'e"f'], ["1.0", "2.0"]])
    nodes: Rows = []
    for name in ids:
        row: dict[str, Any] = {"id": name} | {feature: _number(draw) for feature in features}
        if labelled:
            row["label"] = draw.choice([*classes, ""])
        if divided:
            row["split"] = draw.choice(["train", "valid", "test", ""]) if row.get("label") else ""
        nodes.append(row)
    edges: Rows = []
    for _ in range(draw.randrange(1, 120)):
        edge = {"src": draw.choice(ids), "dst": draw.choice(ids)}
        if weighted:
            edge["weight"] = repr(abs(draw.gauss(1, 1)))
        if noted:
            edge["note"] = draw.choice(STRANGE_TEXTS).replace("\x00", "").replace("\x1b", "")
        edges.append(edge)
    columns = list(edges[0])
    draw.shuffle(columns)
    return Drawn(nodes, [{name: edge[name] for name in columns} for edge in edges], features)


def spoil(draw: random.Random, tables: Drawn) -> None:
    """One cell or row of a table is no longer sound, or is strange and sound."""
    rows = draw.choice([tables.nodes, tables.edges])
    at = draw.randrange(len(rows))
    way = draw.randrange(6)
    if way == 0:
        rows.insert(at, dict(rows[draw.randrange(len(rows))]))
        return
    if way == 1:
        column = draw.choice(list(rows[at]))
        for row in rows:
            if len(row) > 1:
                row.pop(column, None)
        return
    column = draw.choice(list(rows[at]))
    rows[at][column] = draw.choice(STRANGE_NUMBERS if way <= 3 else STRANGE_TEXTS)


# --- writing ---


def write_table(draw: random.Random, rows: Rows, path: Path) -> Path:
    """In a format that is drawn; the ending tells which."""
    if len(rows) > 1 and draw.random() < 0.15:
        path.mkdir()
        cut = draw.randrange(1, len(rows))
        ending, writer = _format(draw)
        while writer is _sqlite:  # a folder holds no databases
            ending, writer = _format(draw)
        for number, part in enumerate((rows[:cut], rows[cut:])):
            (path / f"part-{number}{ending}").write_bytes(writer(draw, part))
        return path
    ending, writer = _format(draw)
    path = path.with_name(path.name + ending)
    path.write_bytes(writer(draw, rows))
    return path


def _format(draw: random.Random) -> tuple[str, Callable[[random.Random, Rows], bytes]]:
    return draw.choice([
        (".csv", _csv), (".csv", _csv), (".csv.gz", _gzip), (".csv.zst", _zstd), (".parquet", _parquet),
        (".arrow", _arrow), (".tsv", _csv_with("\t")), (".txt", _csv_with(";")), (".psv", _csv_with("|")),
        (".jsonl", _json_lines), (".sqlite", _sqlite),
    ])  # fmt: skip


def _csv_with(delimiter: str) -> Callable[[random.Random, Rows], bytes]:
    return lambda draw, rows: _csv(draw, rows, delimiter)


def _csv(draw: random.Random, rows: Rows, delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    end = draw.choice(["\n", "\r\n"])
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    columns = list(rows[0]) if rows else ["id"]
    writer = csv.writer(out, lineterminator=end, quoting=quoting, delimiter=delimiter)
    writer.writerow(columns)
    for row in rows:
        cells = [row[name] for name in columns if name in row]
        writer.writerow(cells)
        if draw.random() < 0.02:
            out.write(end)
    text = out.getvalue()
    if draw.random() < 0.2:
        text = text.rstrip("\r\n")
    return (b"\xef\xbb\xbf" if draw.random() < 0.2 else b"") + text.encode("utf-8", "surrogatepass")


def _gzip(draw: random.Random, rows: Rows) -> bytes:
    return gzip.compress(_csv(draw, rows), mtime=0)


def _zstd(draw: random.Random, rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(_csv(draw, rows))
    return sink.getvalue().to_pybytes()


def _json_lines(draw: random.Random, rows: Rows) -> bytes:
    """Gaps are null, or are left out."""
    lines = []
    for row in _typed(draw, rows).to_pylist():
        kept = {name: cell for name, cell in row.items() if cell is not None or draw.random() < 0.5}
        lines.append(json.dumps(kept, ensure_ascii=draw.random() < 0.5))
    return draw.choice(["\n", "\r\n", "\n\n"]).join(lines).encode("utf-8", "surrogatepass")


def _sqlite(draw: random.Random, rows: Rows) -> bytes:
    """One table, called as it may be; a name of a column twice cannot be."""
    table = _typed(draw, rows)
    with closing(sqlite3.connect(":memory:")) as connection:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
        connection.execute(f'CREATE TABLE "{draw.choice(["t", "a table", "select"])}" ({names})')
        name = connection.execute("SELECT name FROM sqlite_master").fetchone()[0]
        marks = ", ".join("?" * table.num_columns)
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', zip(*table.to_pydict().values()))
        connection.commit()
        return connection.serialize()


def _typed(draw: random.Random, rows: Rows) -> pa.Table:
    """Columns get a type where all their cells have it."""
    columns = {}
    for name in rows[0]:
        cells = [row.get(name) or None for row in rows]
        values = pa.array(cells, pa.string())
        if (
            name != "split"
            and draw.random() < 0.7
            and all(cell is None or (_INTEGER.fullmatch(cell) and -(2**63) <= int(cell) < 2**63) for cell in cells)
        ):
            values = pa.array([None if cell is None else int(cell) for cell in cells], pa.int64())
        elif name not in ("id", "src", "dst", "note", "split") and all(
            cell is None or NUMBER.fullmatch(cell) for cell in cells
        ):
            kind = draw.choice([pa.float64(), pa.float32()])
            values = pa.array([None if cell is None else float(cell) for cell in cells], kind)
        elif draw.random() < 0.3:
            values = values.dictionary_encode()
        columns[name] = values
    return pa.table(columns)


def _parquet(draw: random.Random, rows: Rows) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        _typed(draw, rows), sink, compression=draw.choice(["none", "snappy", "gzip", "zstd"]),
        row_group_size=draw.choice([1, 7, 1000]), use_dictionary=draw.random() < 0.5,
        data_page_version=draw.choice(["1.0", "2.0"]), write_page_checksum=draw.random() < 0.3,
    )  # fmt: skip
    return sink.getvalue()


def _arrow(draw: random.Random, rows: Rows) -> bytes:
    table, sink = _typed(draw, rows), io.BytesIO()
    new = draw.choice([pa.ipc.new_file, pa.ipc.new_stream])
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=draw.choice([1, 5, 1000]))
    return sink.getvalue()


# --- the family ---


def tables(draw: random.Random, folder: Path) -> Case:
    """Two tables, half of them spoiled, through `gamlp ingest`: numbers as they are, or columns as they are found."""
    drawn = draw_tables(draw)
    sound = draw.random() < 0.35
    damaged = not sound and draw.random() < 0.3
    if not sound and not damaged:
        for _ in range(draw.choice([1, 1, 2])):
            spoil(draw, drawn)
    nodes = write_table(draw, drawn.nodes, folder / "nodes")
    edges = write_table(draw, drawn.edges, folder / "edges")
    if damaged:
        place = draw.choice([nodes, edges])
        file = draw.choice(sorted(place.iterdir())) if place.is_dir() else place
        file.write_bytes(damage_bytes(draw, file.read_bytes()))
    directed, skip = draw.random() < 0.3, draw.random() < 0.3
    chosen = drawn.features if drawn.features and draw.random() < 0.3 else None
    out = folder / "graph"
    arguments = ["ingest", "--edges", str(edges), "--nodes", str(nodes), "--out", str(out)]
    arguments += ["--directed"] * directed + ["--on-bad", "skip"] * skip
    arguments += ["--features", ",".join(chosen)] if chosen else []
    arguments += ["--memory", draw.choice(["1MiB", "64MiB"])] if draw.random() < 0.3 else []
    encoded = draw.random() < 0.4
    arguments += [] if encoded else ["--column", "*=as-is"]

    def check(_: Done) -> str | None:
        if encoded:
            return encoding_fault(out)
        try:
            right = expected(nodes, edges, directed=directed, skip=skip, features=chosen)
        except Ambiguous:
            return None
        except Refused as why:
            return f"must be refused: {why}"
        return difference(out, right)

    return Case(arguments, check, (out,), valid=sound)
