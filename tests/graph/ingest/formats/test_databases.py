"""Tables of SQLite and DuckDB files: types, order, what is refused; files are only read."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gamlp.errors import GamlpError
from gamlp.graph.ingest.formats.databases import SQLiteTable, split_place

EDGES = "src,dst\na,b\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    run(path, 'CREATE TABLE people (id TEXT PRIMARY KEY, x, flag BOOLEAN, "odd "" name" TEXT)')
    run(path, "INSERT INTO people VALUES ('b', 1, 1, 'q'), ('a', 2.5, 0, NULL), ('c', NULL, 1, 'r')")
    return path


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def refusal(build, nodes: object, **options: object) -> str:
    with pytest.raises(GamlpError) as told:
        build(Path(str(nodes)), EDGES, **options)
    return re.sub(r"^/\S*/", "", str(told.value))


def test_types_hold_all_values_and_rows_keep_their_order(build, file, tmp_path):
    found = SQLiteTable(file, "people")
    types = dict(zip(found.schema().names, map(str, found.schema().types)))
    assert types == {"id": "string", "x": "double", "flag": "bool", 'odd " name': "string"}
    before = file.read_bytes()
    graph, _ = build(file, EDGES, features="flag")  # the only table: its name need not be given
    assert graph.nodes.ids.take([0, 1, 2]).to_pylist() == ["b", "a", "c"], "not in the order of the index"
    assert file.read_bytes() == before and sorted(path.name for path in tmp_path.iterdir() if "shop" in path.name) == [
        "shop.db"
    ]


def test_tables_that_are_not_there(build, file, tmp_path):
    assert refusal(build, f"{file}::persons") == "shop.db: has no table 'persons'; there are: people."
    run(file, "CREATE TABLE other (id)", "CREATE VIEW all_people AS SELECT * FROM people")
    with pytest.raises(GamlpError, match=r"holds several tables; write .*shop.db::TABLE with one of: other, people"):
        build(file, EDGES)
    assert "has no table 'all_people'" in refusal(build, f"{file}::all_people"), "a view is a program"
    (tmp_path / "no.db").write_text("id,x\n")
    assert refusal(build, tmp_path / "no.db") == "no.db: is neither an SQLite nor a DuckDB file."
    assert refusal(build, f"{tmp_path}/none.db::t") == "none.db: no such file or folder."


def test_bad_values_have_their_row(build, file):
    run(file, "INSERT INTO people VALUES (CAST(x'ff' AS TEXT), 1, 1, NULL)")
    assert refusal(build, f"{file}::people") == "shop.db, row 4, column id: is not UTF-8 text."
    run(file, "DELETE FROM people WHERE flag = 1", "INSERT INTO people VALUES ('z', x'00', 0, NULL)")
    assert refusal(build, f"{file}::people", features="x") == (
        "shop.db::people, column x: holds binary, which cannot be as-is; leave it out with --drop x."
    )


def test_a_damaged_file_is_told(build, file):
    run(file, *(f"INSERT INTO people VALUES ('{i}', {i}, 1, '{'y' * 200}')" for i in range(200)))
    data = bytearray(file.read_bytes())
    data[4096:20000] = b"\xff" * (20000 - 4096)
    file.write_bytes(data)
    assert "shop.db: truncated, damaged or not SQLite (" in refusal(build, file)


def test_what_is_written_meanwhile_is_refused(build, file):
    from gamlp.graph.ingest.tables import Table

    batches = Table(Path(f"{file}::people")).batches(["id"], 1)
    next(batches)
    run(file, "PRAGMA journal_mode = WAL")
    with pytest.raises(GamlpError, match="changed while it was read"):
        list(batches)


def test_duckdb_reads_nothing_but_its_file(build, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb")
    file = tmp_path / "shop.duckdb"
    (tmp_path / "edges.csv").write_text(EDGES)
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'n' || i AS id, i / 2 AS x FROM range(5000) r(i)")
        connection.execute("CREATE SCHEMA old; CREATE TABLE old.people AS SELECT 'a' AS id")
        connection.execute(f"CREATE VIEW secrets AS SELECT * FROM read_csv('{tmp_path}/edges.csv')")
    edges = "src,dst\nn1,n2\n"
    graph, _ = build(Path(f"{file}::people"), edges)
    assert graph.nodes.count == 5000 and graph.nodes.ids.take([0, 4999]).to_pylist() == ["n0", "n4999"]
    assert "shop.duckdb: has no table 'secrets'; there are: people, old.people." in refusal(build, f"{file}::secrets")
    assert build(Path(f"{file}::old.people"), "src,dst\na,a\n", out=tmp_path / "old")[0].nodes.count == 1
    file.write_bytes(file.read_bytes()[:6000])
    assert "shop.duckdb: locked, truncated, damaged or not DuckDB (" in refusal(build, f"{file}::people")


def test_split_place():
    assert split_place("a/b.db::t") == (Path("a/b.db"), "t")
    assert split_place("a::b.db::t") == (Path("a::b.db"), "t")
    assert [split_place(text)[1] for text in ("b.csv", "b.db::", "::t")] == [None] * 3
