"""Where a graph is written: object stores, runs that were broken off, two drivers at once."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, building, damaged_files
from gamlp.graph.ingest.build import IngestOptions, ingest
from gamlp.io import Place, atomic_folder
from gamlp.spark.ingest.build import spark_graph
from gamlp.spark.ingest.tables import read_table
from tests.spark.graph_tables import assert_same, random_tables


def test_behind_a_url_as_in_a_folder(spark, s3_bucket, tmp_path):
    tables = random_tables(21, "text", 40, 200, weighted=True, lists=True)
    edges, nodes = tables.write(tmp_path / "t", "parquet")
    ingest(edges, nodes, tmp_path / "local", IngestOptions(name="g", columns={"*": "as-is"}))
    out = Place.of(s3_bucket) / "graphs" / "g"
    (out / ".building").put(b"")  # of a run that was broken off
    (out / "relations/old/00000/offsets.npy").put(b"half")
    read = read_table(spark, edges), read_table(spark, nodes)
    report = spark_graph(spark, *read, out.url, IngestOptions(columns={"*": "as-is"}), blocks=3)
    assert report.folder == out.url
    assert out.names() == ["graph.json", "nodes", "relations"]
    assert (out / "relations").names() == ["edge"]
    assert_same(Graph.open(out), Graph.open(tmp_path / "local"))
    with pytest.raises(GamlpError, match="graphs/g: already exists"):
        spark_graph(spark, *read, out)


def test_nothing_is_left_on_an_object_store_when_something_is_wrong(spark, s3_bucket):
    nodes, edges = spark.createDataFrame([(1,), (2,)], ["id"]), spark.createDataFrame([(1, 7)], ["src", "dst"])
    out = Place.of(s3_bucket) / "wrong"
    with pytest.raises(GamlpError, match="edges, column dst: edge 1 → 7: node '7' is not in the node table"):
        spark_graph(spark, edges, nodes, out)
    assert out.names() == []
    (out / "mine").put(b"precious")
    with pytest.raises(GamlpError, match="already exists"):
        spark_graph(spark, edges, nodes, out)
    assert out.names() == ["mine"]


@pytest.mark.parametrize("where", ["folder", "object store"])
def test_second_driver_is_refused(request, tmp_path, where):
    out = Place.of(tmp_path / "g" if where == "folder" else f"{request.getfixturevalue('s3_bucket')}/twice")
    with building(out) as first:
        (first.graph / "nodes/node/ids.npy").put(b"1")
        with (
            pytest.raises(GamlpError, match=r"another process is (building a graph here|writing this folder)"),
            building(out),
        ):
            pass
        assert (first.graph / "nodes/node/ids.npy").read() == b"1"
        first.manifest = json.dumps({}).encode()
    assert out.names() == ["graph.json", "nodes"]


def test_leftovers_of_a_dead_run_go(tmp_path):
    (tmp_path / ".g.partial" / "new" / "nodes").mkdir(parents=True)
    (tmp_path / ".g.partial" / "staging").mkdir()
    (tmp_path / ".g.partial" / ".alive").touch()
    with building(Place.of(tmp_path / "g")) as made:
        assert made.graph.names() == []
        made.manifest = b"{}"
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
    assert [path.name for path in (tmp_path / "g").iterdir()] == ["graph.json"]


def test_a_real_graph(spark, tmp_path):
    """Digits, which come with the package, written to tables and built with few large blocks and with many."""
    import pyarrow as pa

    from gamlp.graph.datasets.loading import load

    graph = load("digits")
    values, labels, split = graph.nodes.features.values, graph.nodes.labels, graph.nodes.split
    words = np.asarray(["", "train", "valid", "test"])[split.roles]
    nodes = pa.table(
        {
            "id": [f"d{row:05d}" for row in range(graph.nodes.count)],
            "features": pa.array(list(np.asarray(values)), pa.list_(pa.float32())),
            "label": [labels.classes[label] if label >= 0 else None for label in labels.values],
            "split": words,
        }
    )
    parts = [(rows, neighbours) for rows, neighbours, _ in graph.relation.edges()]
    rows, neighbours = (np.concatenate(each) for each in zip(*parts))
    edges = pa.table({"src": [f"d{row:05d}" for row in neighbours], "dst": [f"d{row:05d}" for row in rows]})
    spark_graph(
        spark,
        spark.createDataFrame(edges),
        spark.createDataFrame(nodes),
        tmp_path / "g",
        IngestOptions(directed=graph.relation.directed, columns={"*": "as-is"}),
    )
    found = Graph.open(tmp_path / "g")
    assert damaged_files(found) == []
    assert np.array_equal(np.asarray(found.nodes.features.values), values)
    assert np.array_equal(found.nodes.labels.values, labels.values)
    assert np.array_equal(found.nodes.split.roles, split.roles)
    assert np.array_equal(found.relation.degrees(), graph.relation.degrees())
    assert np.array_equal(np.concatenate([np.asarray(b.neighbours) for b in found.relation.blocks]), neighbours)


def test_drivers_and_ingests_know_of_each_other(tmp_path):
    with (
        atomic_folder(tmp_path / "g"),
        pytest.raises(GamlpError, match="g: another process is writing this folder; wait for it to end"),
        building(Place.of(tmp_path / "g")),
    ):
        pass
