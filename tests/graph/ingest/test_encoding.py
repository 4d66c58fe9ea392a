"""Columns of any type become features: what each was taken for is told, bad cells are named, raw columns are kept."""

from __future__ import annotations

import datetime
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, damaged_files
from gamlp.graph.features.encoders import SCHEMA, FittedColumn, read_schema
from gamlp.graph.ingest import plain_schema
from tests.graph.ingest.test_bad import told

EDGES = "src,dst\n0,1\n1,2\n"
ROWS = 400


def mixed(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """A table as warehouses have them: every type of column, gaps in some."""
    rng = np.random.default_rng(seed)
    gap = rng.random(rows) < 0.1
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, rows)]
    return pa.table(
        {
            "id": np.arange(rows),
            "income": pa.array(np.exp(4 * rng.standard_normal(rows)), mask=gap),
            "age": pa.array(rng.normal(40, 12, rows)),
            "member": pa.array(rng.random(rows) < 0.3),
            "city": pa.array(rng.choice(["Ulm", "Köln", "Bonn"], rows), mask=np.roll(gap, 3)),
            "since": pa.array(days),
            "same": pa.array(["x"] * rows),
            "key": pa.array([f"k{n:06d}" for n in rng.permutation(rows)]),
            "vector": pa.array(list(rng.standard_normal((rows, 3))), pa.list_(pa.float64())),
            "label": pa.array(rng.choice(["a", "b"], rows)),
        }
    )


def uses(report) -> dict[str, tuple[str, str]]:
    return {use.column: (use.use, use.about) for use in report.columns if use.table == "nodes"}


@pytest.fixture
def built(build, tmp_path):
    """built(table, …): the graph of a table as it is, nothing said about its columns."""
    made = 0

    def run(table, ending="parquet", **options):
        nonlocal made
        made += 1
        place = tmp_path / f"{made}.{ending}"
        (pq.write_table if ending == "parquet" else pacsv.write_csv)(table, place)
        return build(place, EDGES, **{"columns": {}, "out": tmp_path / f"graph-{made}", **options})

    return run


def test_every_column_is_told_with_what_was_done(built):
    table = mixed()
    graph, report = built(table)
    found = uses(report)
    gaps = table.column("income").null_count
    assert found["income"][0] == "feature" and found["income"][1].startswith("quantile: numbers with a heavy tail")
    assert found["income"][1].endswith(f"; {gaps} gaps filled, a feature says where")
    assert found["age"][1].startswith("standard: numbers, the farthest")
    assert found["member"] == ("feature", "boolean: true or false")
    assert found["city"][1].startswith("category: 3 different texts; ")
    assert found["since"] == ("feature", "date: days")
    assert found["vector"] == ("feature", "vector: lists of numbers of ordinary size")
    assert found["same"] == ("ignored", "constant: one value in all rows")
    assert found["key"] == ("ignored", f"id: {ROWS} different texts in {ROWS} rows: they name rows")
    features = graph.nodes.features
    assert [column.name for column in features.columns] == ["income", "age", "member", "city", "since", "vector"]
    assert report.features == features.width == sum(column.width for column in features.columns)
    assert np.isfinite(features.read(slice(None))).all()


def test_features_are_those_of_the_states_on_the_table(built):
    """The oracle: the whole table, column by column, by the states that the manifest keeps."""
    table = mixed()
    graph, _ = built(table, memory=1)  # blocks as small as they get
    at = 0
    for column in graph.nodes.features.columns:
        expected, unseen = FittedColumn.of(column).apply(table.column(column.name))
        found = graph.nodes.features.read(slice(None), slice(at, at + column.width))
        assert np.array_equal(found, expected) and not unseen
        at += column.width
    raw = graph.nodes.raw
    names = [column.name for column in graph.nodes.features.columns]
    kept = pa.Table.from_batches([block for _, block in raw.blocks()])
    # What is left out here, constant or a name of its row, may be a feature of a model that another table trained.
    assert kept.schema.names == [*names[:-1], "same", "key", names[-1]]
    assert all(str(kept.column(name).to_pylist()) == str(table.column(name).to_pylist()) for name in names)


def test_bytes_do_not_depend_on_the_budget_nor_on_the_order_of_rows(built):
    table = mixed(3000)
    whole, _ = built(table)
    for memory in (1, 1 << 30):
        graph, _ = built(table, memory=memory)
        assert np.array_equal(graph.nodes.features.values, whole.nodes.features.values)
    order = np.random.default_rng(1).permutation(3000)
    mixed_up, _ = built(table.take(order))
    assert mixed_up.nodes.features.columns == whole.nodes.features.columns
    assert np.array_equal(mixed_up.nodes.features.values, whole.nodes.features.values[order])


def test_a_csv_means_what_its_typed_table_means(built):
    """All but vectors, which a CSV cannot hold."""
    table = mixed().drop_columns(["vector"])
    typed, _ = built(table)
    graph, report = built(table, "csv")
    assert uses(report)["member"][1] == "boolean: words for yes and no"
    assert [c.name for c in graph.nodes.features.columns] == [c.name for c in typed.nodes.features.columns]
    np.testing.assert_allclose(graph.nodes.features.values, typed.nodes.features.values, atol=1e-6)


def test_words_for_a_gap_are_gaps_and_codes_are_no_numbers(build):
    rows = "".join(f"{n},{'NA' if n % 5 == 0 else n / 3},0{n % 3}7\n" for n in range(100))
    graph, report = build(f"id,x,code\n{rows}", EDGES, columns={})
    assert "; 20 gaps filled, a feature says where" in uses(report)["x"][1]
    assert uses(report)["code"][1] == "category: 3 different texts"
    assert graph.nodes.features.width == 2 + 3


@pytest.mark.parametrize(
    ("nodes", "columns", "sentence"),
    [
        ("id,x\n0,1\n1,red\n2,3\n", {"x": "number"}, "nodes.csv, row 2, column x: 'red' is not a finite number; mend"),
        ("id,x\n0,1\n1,-inf\n2,3\n", {"x": "standard"}, "nodes.csv, row 2, column x: '-inf' is not a finite number"),
        ("id,x\n0,yes\n1,no\n2,perhaps\n", {"x": "boolean"}, "row 3, column x: 'perhaps' is not a boolean; mend or"),
        (
            "id,x\n0,2020-02-30\n1,2021-01-01\n2,NA\n",
            {"x": "date"},
            "row 1, column x: '2020-02-30' is not a day or time; mend",
        ),
        ("id,x,y\n0,1,a\n1,,b\n2,3,a\n", {"x": "as-is"}, "nodes.csv, row 2, column x: missing feature; every node"),
        ("id,x,y\n0,1,a\n1,inf,b\n2,3,a\n", {"x": "as-is"}, "nodes.csv, row 2, column x: the feature is inf; every"),
    ],
)
def test_a_cell_that_is_not_of_its_columns_type(build, tmp_path, nodes, columns, sentence):
    assert sentence in told(build, tmp_path, nodes, EDGES, columns=columns)
    graph, report = build(nodes, "src,dst\n", columns=columns, on_bad="skip")
    assert graph.nodes.count == 3 - sum(report.bad_rows.values()) < 3


def test_a_word_among_numbers_is_named_with_its_row(build, tmp_path):
    """Nothing was said about the column: only when all of it is known can the cell be called wrong."""
    rows = [f"{n},{n * 0.37},{n % 4}" for n in range(3000)]
    rows[1234] = "1234,lots,2"
    text = "id,x,y\n" + "\n".join(rows) + "\n"
    sentence = told(build, tmp_path, text, EDGES, columns={}, memory=1)
    place, _, problem = sentence.partition(": ")
    assert place == "nodes.csv, row 1235, column x"
    assert problem.startswith("'lots' is not a finite number (1 of 3,000 cells is no number, as the others are);")
    assert "--column x=category, or --drop x" in sentence
    graph, report = build(text, EDGES, columns={}, on_bad="skip")
    assert report.bad_rows == {"no number": 1} and graph.nodes.count == 2999
    del rows[1234]
    (tmp_path / "clean.csv").write_text("id,x,y\n" + "\n".join(rows) + "\n")
    clean, _ = build(tmp_path / "clean.csv", EDGES, columns={}, out=tmp_path / "clean")
    assert clean.nodes.features.columns == graph.nodes.features.columns  # the state is that of the good rows alone
    assert np.array_equal(clean.nodes.features.values, graph.nodes.features.values)
    assert clean.nodes.ids.values.tolist() == graph.nodes.ids.values.tolist()


def test_rows_with_an_id_that_was_there_are_not_fitted(build, tmp_path):
    rows = "".join(f"{n},{n / 7},{'ab'[n % 2]}\n" for n in range(50))
    clean, _ = build(f"id,x,y\n{rows}", EDGES, columns={})
    graph, report = build(f"id,x,y\n{rows}3,1e9,c\n4,,\n", EDGES, columns={}, on_bad="skip", out=tmp_path / "skipped")
    assert report.bad_rows == {"duplicate id": 2}
    assert graph.nodes.features.columns == clean.nodes.features.columns
    assert np.array_equal(graph.nodes.features.values, clean.nodes.features.values)
    assert graph.nodes.raw.count == 50


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        ([[1.0, 2.0], None, [3.0]], "row 3, column x: 1 features where the rows before have 2."),
        ([[1.0, 2.0], [1.0, float("nan")], [0.0, 1.0]], "row 2, column x: a number of the list is missing, NaN or"),
        ([[], [1.0], [2.0]], "row 1, column x: an empty list of features"),
    ],
)
def test_bad_lists(build, tmp_path, lists, sentence):
    pq.write_table(pa.table({"id": [0, 1, 2], "x": lists, "y": ["a", "b", "a"]}), tmp_path / "n.parquet")
    assert sentence in told(build, tmp_path, tmp_path / "n.parquet", EDGES, columns={})


def test_files_may_hold_a_column_in_different_types(build, tmp_path):
    (tmp_path / "nodes").mkdir()
    for number, values in enumerate((pa.array([1, 200, 3], pa.int16()), pa.array([0.5, None, 7.25]), pa.nulls(3))):
        table = pa.table({"id": np.arange(3) + 3 * number, "x": values, "y": ["a", "b", "b"]})
        pq.write_table(table, tmp_path / f"nodes/{number}.parquet")
    graph, _ = build(tmp_path / "nodes", EDGES, columns={})
    assert graph.nodes.raw.take(np.arange(9)).column("x").to_pylist() == [1, 200, 3, 0.5, None, 7.25, None, None, None]
    pq.write_table(pa.table({"id": [9], "x": [[1.0]], "y": ["a"]}), tmp_path / "nodes/3.parquet")
    with pytest.raises(GamlpError, match=r"3.parquet, column x: holds list<.*> where .*; write all files"):
        build(tmp_path / "nodes", EDGES, columns={}, out=tmp_path / "other")


def test_what_cannot_be_features_is_left_out_with_a_reason(built):
    table = pa.table({"id": [0, 1, 2], "x": [1.5, 2.5, 9.0], "s": [{"a": 1}] * 3, "b": [b"1"] * 3, "n": pa.nulls(3)})
    graph, report = built(table)
    assert uses(report)["s"] == ("ignored", "struct<a: int64> cannot be features")
    assert uses(report)["b"] == ("ignored", "binary cannot be features")
    assert uses(report)["n"] == ("ignored", "constant: every cell is empty")
    assert graph.nodes.features.width == 1
    graph, _ = built(table.select(["id", "n"]))
    assert graph.nodes.features is None and graph.nodes.raw is None


def test_half_types_hold_what_they_can(built):
    table = pa.table({"id": [0, 1, 2], "x": [1.0, 2.0, 9.0], "big": [1.0, 70000.0, 3.5], "y": ["a", "b", "b"]})
    graph, _ = built(table, dtype="float16")
    assert graph.nodes.features.values.dtype == np.float16 and np.isfinite(graph.nodes.features.values).all()
    with pytest.raises(GamlpError, match=r"parquet, row 2, column big: 70000 is more than float16 can hold"):
        built(table, dtype="float16", columns={"big": "as-is"})


def test_types_have_columns_of_their_own(library):
    graph, report = library(
        columns={"author:h": "category", "f1": "standard"},
        papers="id,f1,f2,label,split\n" + "".join(f"{n},{n},{n * n % 7 / 2},x,train\n" for n in range(1, 9)),
    )
    kinds = {name: [column.type for column in columns] for name, columns in graph.columns.items()}
    assert kinds == {"paper": ["standard", "standard"], "author": ["category"]}
    assert graph.node_types["venue"].features is None
    assert graph.node_types["author"].raw.count == 3 and graph.node_types["paper"].raw.count == 8
    assert "category: as you asked" in [use.about for use in report.columns if use.table == "nodes author"]


def test_a_given_state_is_applied_and_what_it_does_not_know_is_told(built):
    table = mixed()
    first, _ = built(table)
    schema = plain_schema(read_schema(first.folder / SCHEMA))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, report = built(table.slice(0, 100), schema=schema)
    assert np.array_equal(again.nodes.features.values, first.nodes.features.values[:100])
    assert again.nodes.features.columns == first.nodes.features.columns
    assert uses(report)["key"] == ("ignored", "id, as the schema says")
    changed = table.slice(0, 100).to_pydict()
    changed["city"] = ["Rom"] * 7 + changed["city"][7:]
    changed["age"] = [None] * 3 + changed["age"][3:]
    with pytest.warns(UserWarning) as heard:
        again, _ = built(pa.table(changed, schema=table.schema), schema=schema)
    sentences = [str(one.message) for one in heard]
    assert "column 'city': 7 cells hold what the schema does not know, such as 'Rom'" in sentences
    assert "column 'age': 3 gaps where the schema was fitted without: filled, no feature says where" in sentences
    more, report = built(table.append_column("new", table.column("age")), schema=schema)
    assert uses(report)["new"] == ("ignored", "the schema has no such column")
    assert np.array_equal(more.nodes.features.values, first.nodes.features.values)
    with pytest.raises(GamlpError, match="no column 'age', 'city', which the schema has; give the same columns"):
        built(table.drop_columns(["city", "age"]), schema=schema)
    with pytest.raises(GamlpError, match=r"row 1, column age: 'old' is not a finite number"):
        built(table.set_column(2, "age", pa.array(["old"] * ROWS)), schema=schema)


def test_an_edited_schema_is_followed_and_the_graph_still_opens(built):
    """One type changed, one column taken out, and nothing else: their states stay, to the byte."""
    table = mixed()
    first, _ = built(table)
    path = first.folder / SCHEMA
    text = path.read_text().replace("age:\n    type: standard", "age:\n    type: robust")
    text = re.sub(r"\n  member:\n(    .*\n)*", "\n", text)
    path.write_text(text)
    again, report = built(table, schema=plain_schema(read_schema(path)))
    kept = {column.name: column for column in again.nodes.features.columns}
    assert kept["age"].type == "robust" and "member" not in kept
    assert all(
        kept[column.name] == column for column in first.nodes.features.columns if column.name not in ("age", "member")
    )
    assert uses(report)["age"] == ("feature", "robust: as you asked")
    assert uses(report)["member"] == ("ignored", "the schema has no such column")
    assert damaged_files(Graph.open(first.folder)) == []


def test_raw_columns_of_numbers_as_they_are_are_not_kept_twice(built):
    table = pa.table({"id": [0, 1, 2], "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    graph, _ = built(table)
    assert graph.nodes.raw is None and graph.nodes.features.read(slice(None)).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert Graph.open(graph.folder).nodes.features.columns[0].type == "vector"
