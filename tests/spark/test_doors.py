"""Ways in: graphs that are one object, tables of the catalogue by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, fingerprint
from gamlp.graph.ingest import IngestOptions, NodeNames
from tests.spark.test_estimator import RECIPE, planted, rows_of

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'gamlp[spark]'")

from gamlp.spark import GAMLPClassificationModel, GAMLPClassifier  # noqa: E402
from gamlp.spark.ingest import read_tables, spark_graph  # noqa: E402

QUICK = {**RECIPE, "training": {"epochs": 4, "patience": 0, "seeds": [3]}}


class VerticesAndEdges:
    """What a GraphFrame is to us."""

    def __init__(self, vertices: Any, edges: Any) -> None:
        self.vertices, self.edges = vertices, edges


@pytest.fixture(scope="module")
def tables(spark: Any) -> Iterator[tuple[Any, Any]]:
    """Parquet tables of a database in the catalogue, also as frames."""
    nodes, edges = planted(90).frames(spark, 1)
    spark.sql("create database if not exists gamlp_doors")
    for name, frame in (("nodes", nodes), ("edges", edges)):
        frame.write.mode("overwrite").saveAsTable(f"gamlp_doors.{name}", format="parquet")
    yield nodes, edges
    spark.sql("drop database gamlp_doors cascade")


def test_a_graph_in_one_object_is_fitted_and_transformed_and_tables_are_named(
    spark: Any, tables: Any, tmp_path: Path
) -> None:
    nodes, edges = tables
    own = GAMLPClassifier(recipe=QUICK, workDir=tmp_path / "work", blocks=1, edges="gamlp_doors.edges")
    model = own.fit(VerticesAndEdges(nodes, edges))
    expected = [row["prediction"] for row in rows_of(model.transform(VerticesAndEdges(nodes, edges)))]
    model.save(tmp_path / "model")
    again = GAMLPClassificationModel.load(tmp_path / "model")  # the name of a table is saved with it
    assert again.getEdges() == "gamlp_doors.edges"
    named = again.transform("gamlp_doors.nodes")
    assert [row["prediction"] for row in rows_of(named)] == expected
    for made in (model, again):
        made.release()


def test_what_is_no_graph_is_refused(tables: Any) -> None:
    nodes, edges = tables
    own = GAMLPClassifier(recipe=QUICK)
    with pytest.raises(GamlpError, match="a list is no table of nodes; give a DataFrame, or an object with vertices"):
        own.fit([1, 2], edges)
    with pytest.raises(GamlpError, match=r"a DataFrame of pandas is no table of nodes; make one of Spark: spark\."):
        own.fit(nodes.toPandas(), edges)
    with pytest.raises(GamlpError, match="a DataFrame of pandas is no table of edges; make one of Spark"):
        own.fit(nodes, edges.toPandas())
    with pytest.raises(GamlpError, match="a dict is no table of nodes"):
        own.fit(VerticesAndEdges({}, edges))
    with pytest.raises(GamlpError, match="edges are given twice; the graph has its own"):
        own.fit(VerticesAndEdges(nodes, edges), edges)
    with pytest.raises(GamlpError, match="there are no edges; give them with the nodes"):
        own.fit(nodes)
    with pytest.raises(GamlpError, match=r"Spark's catalogue has no table 'gamlp_doors\.nothing'"):
        own.fit(nodes, "gamlp_doors.nothing")
    with pytest.raises(TypeError, match="a table is a DataFrame, or the name of a table"):
        GAMLPClassifier(edges=3)


def test_tables_of_the_catalogue_make_the_graph_of_frames(spark: Any, tables: Any, tmp_path: Path) -> None:
    nodes, edges = tables
    options = IngestOptions(node_names=NodeNames(features="features"))
    named = [read_tables(spark, f"gamlp_doors.{name}", options.rules()) for name in ("edges", "nodes")]
    for name, given in (("named", named), ("frames", [edges, nodes])):
        spark_graph(spark, *given, tmp_path / name, options, blocks=1)
    one, other = (Graph.open(tmp_path / name) for name in ("named", "frames"))
    assert fingerprint.inputs(one) == fingerprint.inputs(other)
    assert fingerprint.training_labels(one) == fingerprint.training_labels(other)
