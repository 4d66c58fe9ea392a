"""A schema comes from a file, a graph or a run, and gives the same features wherever it comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.recipe import Recipe
from gamlp.run import Tables, from_tables, schema_of, train

QUICK = {
    "training": {"epochs": 1},
    "model": {"hidden": 4},
    "propagation": {"hops": 1, "label_hops": 0},
}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    rows = "".join(f"{n},{n % 11 / 3},{'abc'[n % 3]},{n % 2},{'xy'[n % 2]}\n" for n in range(60))
    (tmp_path / "nodes.csv").write_text(f"id,x,city,flag,label\n{rows}")
    (tmp_path / "edges.csv").write_text("src,dst\n" + "".join(f"{n},{(n + 1) % 60}\n" for n in range(60)))
    return Tables(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv"))


def test_a_file_a_graph_and_a_run_have_the_same_schema(tables: Tables, tmp_path: Path) -> None:
    source = from_tables(tables, tmp_path / "run")
    run = train(source, Recipe.of(QUICK), tmp_path / "run").run
    graph = tmp_path / "run" / "graph"
    found = {schema_of(str(place))["node"]["x"]["fitted"]["state"]["center"] for place in (graph, run.path)}
    assert found == {schema_of(str(graph / "schema.yaml"))["node"]["x"]["fitted"]["state"]["center"]}
    few = (tmp_path / "nodes.csv").read_text().splitlines()[:12]  # other rows: a state of their own would be another
    (tmp_path / "few.csv").write_text("\n".join(few) + "\n")
    (tmp_path / "few-edges.csv").write_text("src,dst\n0,1\n")
    expected = Graph.open(graph).nodes.features.read(slice(0, 11))
    for number, place in enumerate((graph / "schema.yaml", graph, run.path)):
        how = IngestOptions(schema=schema_of(str(place)))
        ingest(tmp_path / "few-edges.csv", tmp_path / "few.csv", tmp_path / f"few-{number}", how)
        assert np.array_equal(Graph.open(tmp_path / f"few-{number}").nodes.features.read(slice(None)), expected)
    ingest(tmp_path / "few-edges.csv", tmp_path / "few.csv", tmp_path / "own")
    own = Graph.open(tmp_path / "own").nodes.features.read(slice(None))
    assert own.shape != expected.shape or not np.array_equal(own, expected)


def test_what_has_no_schema_is_told(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match=r"nowhere: no such schema; --schema takes a schema.yaml, a graph folder"):
        schema_of("nowhere")
    Graph.from_arrays([[0], [1]], np.eye(2)).save(tmp_path / "graph")
    with pytest.raises(GamlpError, match="its features have no names"):
        schema_of(str(tmp_path / "graph"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(GamlpError):
        schema_of(str(tmp_path / "empty"))
