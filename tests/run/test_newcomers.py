"""Predictions of newcomers, from tables of them alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, ingest
from gamlp.propagation import HopStore
from gamlp.run import Newcomers, hops_for, predict, train, write_predictions
from gamlp.training import Bundle
from tests.graph.growing_tables import GrowingTables, some_tables, typed_tables

RECIPE: dict[str, Any] = {
    "training": {"epochs": 3},
    "model": {"hidden": 8},
    "propagation": {"hops": 3, "label_hops": 2, "scaling": "standard"},
}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[GrowingTables, Path]:
    """Tables, and a run on the old ones."""
    folder = tmp_path_factory.mktemp("grown")
    tables = some_tables(folder)
    train(tables.graph(), RECIPE, folder / "run")
    return tables, folder / "run"


def test_predictions_are_those_of_the_grown_graph(grown: tuple[GrowingTables, Path], tmp_path: Path) -> None:
    """Hops as a whole ingest of the grown tables gives them, and so the same probabilities, to the last bit."""
    tables, run = grown
    newcomers = Newcomers(tables.place("more_nodes"), tables.place("more_edges"))
    written = predict(run, tmp_path / "new.parquet", newcomers=newcomers)
    assert written is not None and written.rows == 7
    whole, bundle = tables.graph(grown=True), Bundle.load(run / "bundle.safetensors")
    store: HopStore = hops_for(bundle, whole, tmp_path / "hops")
    write_predictions(bundle, store, whole.nodes.ids, tmp_path / "all.parquet", rows=np.arange(60, 67))
    found, expected = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("new", "all"))
    assert found["id"].to_pylist() == [f"n{i}" for i in range(60, 67)]
    assert found.equals(expected)
    assert not list(tmp_path.glob(".newcomers*"))


def test_some_of_them_by_their_rows(grown: tuple[GrowingTables, Path], tmp_path: Path) -> None:
    tables, run = grown
    newcomers = Newcomers(tables.place("more_nodes"), tables.place("more_edges"))
    written = predict(run, tmp_path / "new.csv", newcomers=newcomers, rows="unlabelled")
    assert written is not None and written.rows == 2


def test_of_several_types(tmp_path: Path) -> None:
    old, more, every, options = typed_tables(tmp_path)
    for out, tables in (("base", old), ("whole", every)):
        ingest(*tables, tmp_path / out, IngestOptions(**options))
    train(tmp_path / "base", RECIPE, tmp_path / "run")
    predict(tmp_path / "run", tmp_path / "new.parquet", newcomers=Newcomers(more[1], more[0]))
    whole, bundle = Graph.open(tmp_path / "whole"), Bundle.load(tmp_path / "run/bundle.safetensors")
    store = hops_for(bundle, whole, tmp_path / "hops")
    write_predictions(bundle, store, whole.nodes.ids, tmp_path / "all.parquet", rows=np.arange(40, 45))
    found, expected = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("new", "all"))
    assert found.equals(expected) and len(found) == 5


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ("id,a,b,c\nn3,1,2,3\n", None, "more_nodes.csv, row 1, column id: node 'n3' is in the graph already"),
        ("id,a,b\nm,1,2\n", None, "more_nodes.csv: lacks 'c', which the graph has"),
        ("id,a,b,c,label\nm,1,2,3,w\n", None, "class 'w' which training never saw"),
        ("id,a,b,c\nm,1,2,3\n", "src,dst\nm,q\n", "more_edges.csv, row 1, column dst: node 'q' is not in"),
        ("id,a,b,c\nm,1,2,3\n", "src,dst,weight\nm,n1,2\n", "edges of the graph have no weights"),
    ],
)
def test_what_cannot_be_added_is_told(
    nodes: str, edges: str | None, said: str, grown: tuple[GrowingTables, Path], tmp_path: Path
) -> None:
    (tmp_path / "more_nodes.csv").write_text(nodes)
    (tmp_path / "more_edges.csv").write_text(edges or "")
    newcomers = Newcomers(tmp_path / "more_nodes.csv", tmp_path / "more_edges.csv" if edges else None)
    with pytest.raises(GamlpError) as error:
        predict(grown[1], tmp_path / "new.csv", newcomers=newcomers)
    assert said in str(error.value)
    assert not (tmp_path / "new.csv").exists()


def test_new_types_and_relations_are_told(grown: tuple[GrowingTables, Path], tmp_path: Path) -> None:
    tables, run = grown
    with pytest.raises(GamlpError, match="the graph has no nodes of type 'author'; there are: node"):
        predict(run, tmp_path / "new.csv", newcomers=Newcomers({"author": tables.place("more_nodes")}))
    newcomers = Newcomers(tables.place("more_nodes"), {"likes": tables.place("more_edges")})
    with pytest.raises(GamlpError, match="the graph has no relation 'likes'; there are: edge"):
        predict(run, tmp_path / "new.csv", newcomers=newcomers)
