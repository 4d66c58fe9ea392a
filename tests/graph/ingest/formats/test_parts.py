"""The same content gives the same bytes, in whatever format it comes; folders, partitions and what is refused."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError

ROWS = 60
NODES = {  # a column of each sort
    "id": [f"n{i}" for i in range(ROWS)],
    "text": [f'a, "b"; c|{i}\n' + "é\t" * (i % 3) for i in range(ROWS)],
    "label": [["x", "y", None][i * 7 % 11 % 3] for i in range(ROWS)],
    "split": [["train", "valid", "test"][i % 3] for i in range(ROWS)],
    "size": [i * 3 - 7 for i in range(ROWS)],
    "share": [i / 8 - 1.25 for i in range(ROWS)],
    "day": [f"2024-0{1 + i % 9}-1{i % 7}" for i in range(ROWS)],
    "town": [["Ulm", "Bonn", "Köln", None][i % 4] for i in range(ROWS)],
    "few": [i % 3 for i in range(ROWS)],
    "gaps": [None if i % 5 == 1 else i * 0.37 for i in range(ROWS)],
}
EDGES = {
    "src": [f"n{i}" for i in range(ROWS)],
    "dst": [f"n{(i * 7 + 3) % ROWS}" for i in range(ROWS)],
    "weight": [0.5 + i for i in range(ROWS)],
}


def delimited(columns: dict, path: Path, delimiter: str) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def json_lines(columns: dict) -> bytes:
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return "\n".join(json.dumps({k: v for k, v in row.items() if v is not None}) for row in rows).encode()


def in_sqlite(columns: dict, path: Path, table: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        connection.execute(f"CREATE INDEX by_{table} ON {table} ({', '.join(reversed(columns))})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", list(zip(*columns.values())))
    connection.close()


def written(columns: dict, folder: Path, name: str, format: str) -> Path:
    """The table in this format."""
    path, table = folder / f"{name}.{format}", pa.table(columns)
    if format in ("csv", "tsv", "psv", "txt"):
        delimited(columns, path, {"csv": ",", "tsv": "\t", "psv": "|", "txt": ";"}[format])
    elif format in ("csv.gz", "tsv.zst"):
        plain = folder / "plain"
        delimited(columns, plain, "\t" if format.startswith("tsv") else ",")
        data = plain.read_bytes()
        path.write_bytes(gzip.compress(data))
        if format.endswith("zst"):
            with pa.CompressedOutputStream(str(path), "zstd") as stream:
                stream.write(data)
    elif format in ("jsonl", "ndjson.gz"):
        data = json_lines(columns)
        path.write_bytes(gzip.compress(data) if format.endswith("gz") else data)
    elif format == "parquet":
        pq.write_table(table, path, row_group_size=7)
    elif format == "hive":
        for number, at in enumerate(range(0, ROWS, 20)):
            (path / f"piece={number}").mkdir(parents=True)
            pq.write_table(table.slice(at, 20), path / f"piece={number}" / "part.parquet")
    elif format == "feather":
        pyarrow.feather.write_feather(table, path, compression="lz4")
    elif format in ("arrow", "arrows"):
        with (pa.ipc.new_file if format == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as sink:
            sink.write_table(table, max_chunksize=9)
    elif format == "sqlite":
        in_sqlite(columns, folder / "both.sqlite", name)
        path = Path(f"{folder / 'both.sqlite'}::{name}")
    else:
        duckdb = pytest.importorskip("duckdb", reason="the extra duckdb")
        with duckdb.connect(str(folder / "both.duckdb")) as connection:
            connection.register("arrow_table", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_table")
        path = Path(f"{folder / 'both.duckdb'}::{name}")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a graph but its manifest, which names the tables, and columns kept as their table had them."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if name not in ("graph.json", "schema.yaml") and "raw" not in name
    }


FORMATS = [
    "csv", "tsv", "psv", "txt", "csv.gz", "tsv.zst", "jsonl", "ndjson.gz", "hive", "feather", "arrow", "arrows",
    "sqlite", "duckdb",
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_content_gives_the_same_bytes(build, tmp_path, format):
    graphs = []
    for one in ("parquet", format):
        folder = tmp_path / one
        folder.mkdir()
        nodes, edges = written(NODES, folder, "nodes", one), written(EDGES, folder, "edges", one)
        drop = ("piece",) if one == "hive" else ()
        graph, report = build(nodes, edges, out=folder / "graph", columns={}, drop=drop)
        graphs.append(contents(graph.folder))
    assert graphs[0] == graphs[1] and len(graphs[0]) > 4
    delimiter = {"csv": ",", "tsv": "\t", "psv": "|", "txt": ";", "csv.gz": ",", "tsv.zst": "\t"}.get(format)
    assert set(report.delimiters.values()) == ({delimiter} if delimiter else set())


def test_partitions_are_columns(build, tmp_path):
    for day, relation, ends in (("1", "likes", ("a", "b")), ("2", "a%2Db", ("b", "c"))):
        folder = tmp_path / "edges" / f"day={day}" / f"relation={relation}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"src": [ends[0]], "dst": [ends[1]]}), folder / "0.parquet")
    for number, node in enumerate("abcd"):
        folder = tmp_path / "nodes" / f"level={number}" / f"label={'__HIVE_DEFAULT_PARTITION__' if number else 'x'}"
        folder.mkdir(parents=True)
        (folder / "0.csv").write_text(f"id,x\n{node},1\n")
    graph, report = build(tmp_path / "nodes", tmp_path / "edges", features="level")
    assert set(report.entries) == {"likes", "a-b"}
    assert graph.nodes.labels.values.tolist() == [0, -1, -1, -1] and graph.nodes.labels.classes == ("x",)
    np.testing.assert_array_equal(graph.nodes.features.values[:, 0], [0, 1, 2, 3])


def refusal(build, nodes: Path) -> str:
    with pytest.raises(GamlpError) as told:
        build(nodes)
    return str(told.value).replace(f"{nodes.parent}/", "")


def test_folders_that_are_no_table(build, tmp_path):
    folder = tmp_path / "nodes"
    folder.mkdir()
    (folder / "0.csv").write_text("id,x\na,1\n")
    (folder / "1.jsonl").write_text('{"id": "b"}\n')
    assert refusal(build, folder) == (
        "nodes/1.jsonl: is JSON Lines, and 0.csv is CSV; give one folder of files of one format."
    )
    (folder / "1.jsonl").rename(folder / "1.db")
    assert "nodes/1.db: is a database among the files of a folder; give its table" in refusal(build, folder)
    (folder / "1.db").rename(folder / "2.csv")
    (folder / "day=1").mkdir()
    (folder / "day=1" / "0.csv").write_text("id,x\na,1\n")
    assert "nodes: some files lie in folders called COLUMN=VALUE, others do not" in refusal(build, folder)
    (folder / "day=1").rename(folder / "old")
    assert "nodes/old: a folder within a folder of tables; give one folder of files" in refusal(build, folder)
    (folder / "_delta_log").mkdir()
    assert "nodes: is a Delta table; read it on Spark" in refusal(build, folder)
