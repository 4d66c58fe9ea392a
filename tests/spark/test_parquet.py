"""Parquet files that tasks read themselves hold what Spark reads in them; where that is not sure, Spark reads them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gamlp.spark.ingest.tables import SparkTable, read_table

PLAIN = {
    "the.id": ["p", "q", None, "Ω", "s"],
    "word": pa.array(["x", "y", "x", None, "x"]).dictionary_encode(),
    "long": pa.array(["a", "b", "c", "d", "e" * 99], pa.large_string()),
    "number": [1.5, None, float("inf"), -0.0, 3.0],
    "small": pa.array([1, 2, None, 4, -5], pa.int16()),
    "sure": [True, False, None, True, True],
    "list": pa.array([[1.0, 2.0], None, [], [None], [3.0]], pa.list_(pa.float32())),
}


def written(folder: Path, *tables: pa.Table, rows: int = 2) -> Path:
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=rows)
    return folder


def read_by_tasks(table: SparkTable) -> bool:
    """Whether tasks would read all columns of the table without Spark."""
    kinds = {name: table.arrow_type(name) for name in table.column_names}
    return table.files is not None and table.files.map(kinds, lambda batches: batches, "x int") is not None


def collected(table: SparkTable) -> list[Any]:
    schema = ", ".join(f"c{at} {table.ddl_type(name)}" for at, name in enumerate(table.column_names))
    return sorted(map(str, table.map(table.column_names, lambda batches: batches, schema).collect()))


def test_plain_files_are_read_by_tasks(spark: Any, tmp_path: Path) -> None:
    one, other = pa.table(PLAIN), pa.table(PLAIN).slice(1, 3)
    table = read_table(spark, written(tmp_path / "t.parquet", one, other))
    assert read_by_tasks(table)
    by_spark = SparkTable(table.frame, table.name)
    assert collected(table) == collected(by_spark) and len(collected(table)) == 8
    assert table.count() == by_spark.count() == 8
    nothing = read_table(spark, written(tmp_path / "none.parquet", one.slice(0, 0)))
    assert read_by_tasks(nothing) and collected(nothing) == [] and nothing.count() == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"day": [datetime.date(1500, 1, 1)]},  # Spark may mean another calendar
        {"when": [datetime.datetime(2020, 1, 1)]},
        {"big": pa.array([1], pa.uint32())},
        {"pair": [{"a": 1}]},
        {"lists": [[[1]]]},
    ],
)
def test_types_that_spark_reads_in_its_own_way(spark: Any, tmp_path: Path, columns: dict[str, Any]) -> None:
    table = read_table(spark, written(tmp_path / "t.parquet", pa.table({"id": ["a"]} | columns)))
    assert not read_by_tasks(table)
    assert len(collected(table)) == 1


def test_files_that_differ_and_folders_that_are_columns(spark: Any, tmp_path: Path) -> None:
    of_ints, of_longs = (pa.table({"id": pa.array([1], kind)}) for kind in (pa.int32(), pa.int64()))
    assert not read_by_tasks(read_table(spark, written(tmp_path / "t.parquet", of_ints, of_longs)))
    pq.write_to_dataset(pa.table({"id": [1, 2], "part": ["u", "v"]}), tmp_path / "parts.parquet", ["part"])
    parts = read_table(spark, tmp_path / "parts.parquet")
    assert parts.files is None and len(collected(parts)) == 2
