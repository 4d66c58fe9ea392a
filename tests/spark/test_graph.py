"""A graph that Spark builds is the one that `gamlp ingest` builds from the same tables in order of their ids."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, text_ids
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.graph.ingest.edges import EdgeNames
from gamlp.graph.ingest.nodes import NodeNames
from gamlp.graph.ingest.time_split import TimeSplit
from gamlp.spark.ingest import edges as spark_edges
from gamlp.spark.ingest import nodes as spark_nodes
from gamlp.spark.ingest import rounds
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from tests.spark.graph_tables import Tables, assert_same, random_tables
from tests.training.small import prepared_in, same_weights, trained

AS_IS = IngestOptions(columns={"*": "as-is"})  # numbers stay what they are in the table
CASES = {
    "range": ({"ids": "range", "weighted": True, "split": True}, {}, "parquet", 3),
    "sparse": ({"ids": "sparse", "relations": 2, "lists": True}, {"directed": True, "dtype": "float16"}, "parquet", 4),
    "text": ({"ids": "text", "weighted": True, "lists": True, "multi_label": True}, {"seed": 3}, "parquet", 5),
    "csv of integers": ({"ids": "sparse", "split": True}, {"dtype": "bfloat16"}, "csv", 2),
    "csv of text": ({"ids": "text"}, {"fractions": (0.5, 0.2, 0.1), "seed": 9}, "csv", None),
    "no labels": ({"ids": "text", "labels": False}, {}, "parquet", 50),
    "a split of many labels": ({"ids": "range", "multi_label": True, "split": True}, {}, "parquet", 2),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_ingest(spark, tmp_path, monkeypatch, case):
    _equals_ingest(spark, tmp_path, monkeypatch, case)


@pytest.mark.parametrize("case", [case for case in CASES if case != "range" and "split of" not in case])
def test_the_same_where_no_task_may_hold_all_ids(spark, tmp_path, monkeypatch, case):
    monkeypatch.setattr(rounds, "TABLE_BYTES", 0)
    monkeypatch.setattr(spark_edges, "FILE_EDGES", 40)
    _equals_ingest(spark, tmp_path, monkeypatch, case)


def _equals_ingest(spark, tmp_path, monkeypatch, case):
    made, how, ending, blocks = CASES[case]
    seed = list(CASES).index(case)
    tables = random_tables(seed, count=31, edges=0 if case == "no labels" else 150, **made)
    monkeypatch.setattr(spark_nodes, "IDS_PER_TASK", 8)  # several ranges of ids in small tables too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        edges, nodes = tables.write(tmp_path / "ordered", ending)
        expected = ingest(edges, nodes, tmp_path / "local", IngestOptions(name="g", columns={"*": "as-is"}, **how))
        edges, nodes = tables.shuffled(seed).write(tmp_path / "shuffled", ending)
        read, options = (
            (read_table(spark, edges), read_table(spark, nodes)),
            IngestOptions(name="g", columns={"*": "as-is"}, **how),
        )
        report = spark_graph(spark, *read, tmp_path / "graph", options, blocks=blocks)
    found = Graph.open(tmp_path / "graph")
    assert_same(found, Graph.open(tmp_path / "local"))
    count = min(blocks or 2, 31)
    assert {len(relation.blocks) for relation in found.relations.values()} == {-(-31 // -(-31 // count))}
    # Spark reads a CSV with commas alone, and has no delimiters to tell of.
    same = replace(report, folder=expected.folder, seconds=expected.seconds, delimiters=expected.delimiters)
    same.entries = {name: same.entries[name] for name in expected.entries}
    assert same == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "local", "ordered", "shuffled"]


def test_bytes_do_not_depend_on_partitions(spark, tmp_path):
    tables = random_tables(11, "text", 40, 300, weighted=True, lists=True)
    manifests = []
    for seed, partitions in ((0, 1), (1, 4)):
        mixed = tables.shuffled(seed)
        nodes, edges = spark.createDataFrame(mixed.nodes), spark.createDataFrame(mixed.edges)
        out = tmp_path / f"{seed}"
        mixed_frames = edges.repartition(partitions), nodes.repartition(partitions)
        spark_graph(spark, *mixed_frames, out, IngestOptions(name="g"), blocks=3)
        manifests.append((out / "graph.json").read_text())
    assert manifests[0] == manifests[1]


def test_vectors_of_spark_ml_and_names_of_columns(spark, tmp_path):
    from pyspark.ml.linalg import Vectors

    rows = [(7, "u", Vectors.dense([1.0, 2.0])), (3, "v", Vectors.sparse(2, {1: 5.0})), (5, "u", Vectors.dense([0, 4]))]
    nodes = spark.createDataFrame(rows, ["the.key", "kind", "vector"])
    edges = spark.createDataFrame([(3, 7), (7, 5), (5, 7)], ["src", "dst"])
    options = IngestOptions(node_names=NodeNames(id="the.key", label="kind"), columns={"*": "as-is"})
    report = spark_graph(spark, edges, nodes, tmp_path / "g", options)
    graph = Graph.open(tmp_path / "g")
    assert graph.nodes.ids.values.tolist() == [3, 5, 7]
    assert np.asarray(graph.nodes.features.values).tolist() == [[0, 5], [0, 4], [1, 2]]
    assert graph.nodes.labels.values.tolist() == [1, 0, 0] and graph.nodes.labels.classes == ("u", "v")
    assert graph.relation.degrees().tolist() == [1, 1, 2] and report.duplicates_merged == 1
    assert graph.name == "g"


def test_local_engine_and_training_work_on_it(spark, tmp_path):
    from gamlp.propagation import FeatureSignal, HopStore, LocalPropagator, Plan

    tables = random_tables(5, "text", 60, 400, weighted=True, lists=True)
    edges, nodes = tables.write(tmp_path / "t", "parquet")
    ingest(edges, nodes, tmp_path / "local", IngestOptions(name="g", columns={"*": "as-is"}))
    spark_graph(spark, read_table(spark, edges), read_table(spark, nodes), tmp_path / "spark", AS_IS, blocks=4)
    hops = []
    for name in ("local", "spark"):
        graph = Graph.open(tmp_path / name)
        LocalPropagator().propagate(graph, Plan(features=FeatureSignal(hops=2)), tmp_path / f"{name}.hops")
        hops.append(HopStore.open(tmp_path / f"{name}.hops").gather(np.arange(60)))
    assert np.array_equal(hops[0].x, hops[1].x) and hops[0].x.shape[2] == 3
    graphs = [Graph.open(tmp_path / name) for name in ("local", "spark")]
    fitted = [trained(prepared_in(tmp_path / f"{number}.run", graph)) for number, graph in enumerate(graphs)]
    assert same_weights(fitted[0].weights, fitted[1].weights)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_and_labels_mean_what_ingest_takes_them_for(spark, tmp_path, ending):
    """An index is no feature, NA is no class, `a|b` is told, an extra column too: the same report, word for word."""
    first = "__index_level_0__" if ending == "parquet" else ""
    labels = ["a", "b", "NA", "a|b", "null", None, "b|a", "a", "NA"]
    nodes = pa.table({first: range(9), "id": range(10, 19), "age": np.arange(9) / 2, "label": labels})
    edges = pa.table({"src": [10, 11], "dst": [12, 13], "since": [1999, 2001]})
    for name, table in (("nodes", nodes), ("edges", edges)):
        write = pq.write_table if ending == "parquet" else pacsv.write_csv
        write(table, tmp_path / f"{name}.{ending}")
    places = [tmp_path / f"{name}.{ending}" for name in ("edges", "nodes")]
    with pytest.warns(UserWarning):
        expected = ingest(*places, tmp_path / "local", IngestOptions(name="g", columns={"*": "as-is"}))
    with pytest.warns(UserWarning):
        read = [read_table(spark, place) for place in places]
        found = spark_graph(spark, *read, tmp_path / "graph", replace(AS_IS, name="g"), blocks=2)
    assert found.unknown_labels == expected.unknown_labels == {"": 1, "NA": 2, "null": 1}
    uses = [replace(use, column="") if use.column == "_c0" else use for use in found.columns]
    assert uses == expected.columns and found.split == expected.split
    told = [sentence.replace("'_c0'", "without a name").partition("; ")[0] for sentence in found.warnings]
    assert told == [sentence.partition("; ")[0] for sentence in expected.warnings] and len(told) >= 3
    assert_same(Graph.open(tmp_path / "graph"), Graph.open(tmp_path / "local"))


@pytest.mark.parametrize("many", [False, True], ids=["ids in a task", "ids that travel"])
@pytest.mark.parametrize("kind", ["texts", "texts by any name", "seconds", "moments", "years of two relations"])
def test_edges_before_a_time(spark, tmp_path, monkeypatch, kind, many):
    """The graph as of then: edges that stay, edges that are counted, bad ones, and what is said, as on one machine."""
    if many:
        monkeypatch.setattr(rounds, "TABLE_BYTES", 0)
        monkeypatch.setattr(spark_edges, "FILE_EDGES", 40)
    tables = random_tables(7, "text", 31, 150, relations=2 if "relations" in kind else 0, weighted=True)
    rng = np.random.default_rng(8)
    days = np.datetime64("2019-01-01", "s") + rng.integers(0, 700 * 86400, 150)
    before, name = "2020-03-05", "since"
    if kind.startswith("texts"):
        texts = [str(day) + ("" if i % 2 else "Z") for i, day in enumerate(days)]
        times = pa.array([*texts[:-2], None, "soon"] if kind == "texts" else texts)
        name = "date" if kind == "texts" else "since"
    elif kind == "seconds":
        times, name = pa.array(days.astype(np.int64)), "time"
    elif kind == "moments":
        times = pa.array(days.astype("datetime64[us]"), pa.timestamp("us"))
    else:
        times, name, before = pa.array(days.astype("datetime64[Y]").astype(int) + 1970), "time", "2020"
    tables = Tables(tables.nodes, tables.edges.append_column(name, times))
    options = replace(AS_IS, name="g", before=before, on_bad="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = ingest(*tables.write(tmp_path / "ordered", "parquet"), tmp_path / "local", options)
        edges, nodes = tables.shuffled(1).write(tmp_path / "shuffled", "parquet")
        read = read_table(spark, edges), read_table(spark, nodes)
        found = spark_graph(spark, *read, tmp_path / "graph", options, blocks=3)
    assert_same(Graph.open(tmp_path / "graph"), Graph.open(tmp_path / "local"))
    assert 0 < expected.edges_later < 150 and found.edges_later == expected.edges_later
    assert (found.columns, found.bad_rows, found.entries) == (expected.columns, expected.bad_rows, expected.entries)
    without = [[said for said in one.warnings if "numbers such as" not in said] for one in (found, expected)]
    assert without[0] == without[1] and len(found.warnings) == len(expected.warnings)


@pytest.mark.parametrize("many", [False, True], ids=["ids in a task", "ids that travel"])
@pytest.mark.parametrize("timed", ["edges without times", "edges with times", "directed"])
def test_a_split_by_time(spark, tmp_path, monkeypatch, timed, many):
    """Roles, and the edges as they were when training and validation ended, as on one machine."""
    if many:
        monkeypatch.setattr(rounds, "TABLE_BYTES", 0)
        monkeypatch.setattr(spark_edges, "FILE_EDGES", 40)
    rng = np.random.default_rng(9)
    tables = random_tables(9, "text", 31, 150, weighted=True, split=True)
    years = [None if rng.random() < 0.1 else int(year) for year in rng.integers(2015, 2022, 31)]
    nodes, edges = tables.nodes.append_column("year", pa.array(years, pa.int64())), tables.edges
    if timed != "edges without times":
        edges = edges.append_column("year", pa.array(rng.integers(2014, 2023, 150)))
    split_by, names = (
        TimeSplit("year", "2017", "2019"),
        EdgeNames(time="year" if "year" in edges.schema.names else None),
    )
    options = IngestOptions(
        name="g", columns={"*": "as-is"}, split_by=split_by, edge_names=names, directed=timed == "directed"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = ingest(*Tables(nodes, edges).write(tmp_path / "ordered", "parquet"), tmp_path / "local", options)
        places = Tables(nodes, edges).shuffled(2).write(tmp_path / "shuffled", "parquet")
        read = [read_table(spark, place) for place in places]
        found = spark_graph(spark, *read, tmp_path / "graph", options, blocks=3)
    local = Graph.open(tmp_path / "local")
    assert_same(Graph.open(tmp_path / "graph"), local)
    entries = [local.earlier[part]["edge"].entries for part in ("train", "valid")]
    assert 0 < entries[0] < entries[1] < local.relation.entries
    same = replace(found, folder=expected.folder, seconds=expected.seconds, delimiters=expected.delimiters)
    assert same == expected


def test_a_quantity_is_refused_as_ingest_does(spark, tmp_path):
    values = [f"{value:.5f}" for value in np.random.default_rng(0).random(50)]
    nodes = spark.createDataFrame(list(zip(range(50), values)), "id long, label string")
    edges = spark.createDataFrame([(0, 1)], "src long, dst long")
    with pytest.raises(GamlpError, match=r"50 different numbers such as .* a quantity, not classes"):
        spark_graph(spark, edges, nodes, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_many_ids_that_are_texts_lie_in_several_files(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(text_ids, "ID_SHARD", 7)
    monkeypatch.setattr(spark_nodes, "IDS_PER_TASK", 8)  # no file of the graph begins where a task's ids do
    tables = random_tables(12, "text", 31, 150)
    edges, nodes = tables.write(tmp_path / "ordered", "parquet")
    ingest(edges, nodes, tmp_path / "local", IngestOptions(name="g", columns={"*": "as-is"}))
    spark_graph(spark, read_table(spark, edges), read_table(spark, nodes), tmp_path / "graph", AS_IS, blocks=3)
    found, local = Graph.open(tmp_path / "graph"), Graph.open(tmp_path / "local")
    assert_same(replace(found, name="g"), local)
    for folder in ("graph", "local"):
        assert len(list((tmp_path / folder / "nodes/node/ids").iterdir())) == 5
