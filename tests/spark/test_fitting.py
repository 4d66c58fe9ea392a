"""Columns of any type on Spark: the schema, the states and the features of `gamlp ingest` on the same table."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, ingest, states_schema
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table

ROWS = 120


def mixed(seed: int = 0) -> pa.Table:
    """A table as warehouses have them: every type of column, gaps in some."""
    rng = np.random.default_rng(seed)
    gap = rng.random(ROWS) < 0.1
    start = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "age": pa.array(rng.normal(40, 12, ROWS), mask=gap),
            "income": pa.array(np.exp(4 * rng.standard_normal(ROWS))),
            "member": pa.array(rng.random(ROWS) < 0.3),
            "city": pa.array(rng.choice(["Ulm", "Köln", "Bonn"], ROWS), mask=np.roll(gap, 3)),
            "grade": pa.array(rng.integers(0, 5, ROWS)),
            "since": pa.array([start + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, ROWS)]),
            "same": pa.array(["x"] * ROWS),
            "key": pa.array([f"k{number:06d}" for number in rng.permutation(ROWS)]),
            "label": pa.array([int(number) for number in rng.integers(0, 2, ROWS)]),
        }
    )


def write(table: pa.Table, place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    (pacsv.write_csv if place.suffix == ".csv" else pq.write_table)(table, place)
    return str(place)


@pytest.fixture
def edges(tmp_path: Path) -> str:
    ends = np.random.default_rng(1).integers(0, ROWS, (2, 300))
    return write(pa.table({"src": ends[0], "dst": ends[1]}), tmp_path / "edges.parquet")


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(2).permutation(len(table))))


def on_spark(spark: Any, edges: str, nodes: str, out: Path, **options: Any) -> Graph:
    read = read_table(spark, edges), read_table(spark, nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        spark_graph(spark, read[0], read[1], out, IngestOptions(name="g", **options), blocks=3)
    return Graph.open(out)


def here(edges: str, nodes: str, out: Path, **options: Any) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ingest(edges, nodes, out, IngestOptions(name="g", **options))
    return Graph.open(out)


def assert_alike(found: Graph, expected: Graph) -> None:
    one, two = found.nodes.features, expected.nodes.features
    assert one is not None and two is not None and one.columns == two.columns and one.dtype == two.dtype
    assert np.asarray(one.values[:]).tobytes() == np.asarray(two.values[:]).tobytes()
    assert found.nodes.labels.classes == expected.nodes.labels.classes
    assert found.nodes.labels.class_type == expected.nodes.labels.class_type == "integer"
    texts = [(Path(str(graph.folder)) / "schema.yaml").read_text() for graph in (found, expected)]
    assert texts[0] == texts[1]
    raws = [pa.Table.from_batches([block for _, block in graph.nodes.raw.blocks()]) for graph in (found, expected)]
    assert raws[0].combine_chunks().equals(raws[1].combine_chunks())


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_bytes_of_ingest(spark: Any, edges: str, tmp_path: Path, ending: str) -> None:
    options = {"columns": {"grade": "standard"}, "drop": ["member"], "dtype": "float16"} if ending == "csv" else {}
    expected = here(edges, write(mixed(), tmp_path / f"a.{ending}"), tmp_path / "local", **options)
    nodes = write(shuffled(mixed()), tmp_path / f"b.{ending}")
    found = on_spark(spark, edges, nodes, tmp_path / "spark", **options)
    assert_alike(found, expected)
    names = [column.name for column in found.nodes.features.columns]
    assert "same" not in names and "key" not in names and {"age", "city", "since", "grade"} <= set(names)


def test_a_schema_is_applied_and_what_is_new_is_told(spark: Any, edges: str, tmp_path: Path) -> None:
    trained = here(edges, write(mixed(), tmp_path / "a.parquet"), tmp_path / "trained")
    schema = states_schema(trained.columns)
    other = mixed(5)
    place = other.schema.get_field_index("city")
    other = other.set_column(place, "city", pa.array(["Rom", *other.column("city").to_pylist()[1:]]))
    expected = here(edges, write(other, tmp_path / "b.parquet"), tmp_path / "local", schema=schema)
    nodes = write(shuffled(other), tmp_path / "c.parquet")
    with pytest.warns(UserWarning, match="column 'city': 1 cells hold what the schema does not know, such as 'Rom'"):
        spark_graph(
            spark, read_table(spark, edges), read_table(spark, nodes), tmp_path / "spark",
            IngestOptions(name="g", schema=schema), blocks=2,
        )  # fmt: skip
    assert_alike(Graph.open(tmp_path / "spark"), expected)


def test_a_word_among_numbers_is_told_or_left_out(spark: Any, edges: str, tmp_path: Path) -> None:
    table = mixed()
    numbers = [f"{value:.3f}" for value in table.column("income").to_pylist()]
    numbers[7] = "many"
    broken = table.set_column(table.schema.get_field_index("income"), "income", pa.array(numbers))
    nodes = write(shuffled(broken), tmp_path / "nodes.csv")
    with pytest.raises(GamlpError, match=r"column income: node '7': 'many' is not a finite number \(1 of 120 cells"):
        on_spark(spark, edges, nodes, tmp_path / "stop")
    assert not (tmp_path / "stop").exists()
    with pytest.raises(GamlpError, match="--column wealth: no such column of features"):
        on_spark(spark, edges, nodes, tmp_path / "stop", columns={"wealth": "standard"})
    some = np.random.default_rng(3).integers(0, ROWS, (2, 200))
    some = some[:, (some != 7).all(0)]
    rest = write(pa.table({"src": some[0], "dst": some[1]}), tmp_path / "rest.parquet")
    expected = here(rest, write(broken, tmp_path / "ordered.csv"), tmp_path / "local", on_bad="skip")
    assert_alike(on_spark(spark, rest, nodes, tmp_path / "skip", on_bad="skip"), expected)
