"""Models without epochs on the whole path: run, again, predict another graph and newcomers, explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from gamlp.graph import Graph
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import Newcomers, explain, hops_for, predict, run_path, train, write_predictions
from gamlp.run.source import as_source
from gamlp.training import Bundle, solved
from tests.graph.growing_tables import GrowingTables, some_tables
from tests.training.small import ONE_THREAD, make_graph
from tests.training.typed_small import planted

RECIPES: dict[str, dict[str, Any]] = {
    "logistic": {"propagation": {"hops": 2, "scaling": "standard"}},
    "lightgbm": {"propagation": {"hops": 1, "label_hops": 2, "folds": 3}},
    "label-spreading": {"propagation": {"hops": 0, "label_hops": 4}},
}


def recipe_of(name: str) -> Recipe:
    if name == "lightgbm":
        pytest.importorskip("lightgbm", reason="LightGBM is not installed: gamlp[boost]")
    options = {"num_iterations": 10, "min_data_in_leaf": 2} if name == "lightgbm" else {}
    return Recipe.of({**RECIPES[name], "model": {"name": name, "options": options}})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[GrowingTables, Graph, Graph]:
    """Of nodes that are there and of newcomers; the graph before, and the grown one."""
    made = some_tables(tmp_path_factory.mktemp("tables"))
    return made, made.graph(), made.graph(grown=True)


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_run_predicts_another_graph_and_newcomers_and_explains(
    name: str, tables: tuple[GrowingTables, Graph, Graph], tmp_path: Path
) -> None:
    place, graph, whole = tables[0].place, *tables[1:]
    outcome = run_path(as_source(graph), recipe_of(name), tmp_path / "run", resources=ONE_THREAD)
    assert outcome.test is not None and outcome.weights is not None and outcome.report.exists()
    bytes_before = (tmp_path / "run" / "bundle.safetensors").read_bytes()
    again = run_path(as_source(graph), recipe_of(name), tmp_path / "run", resources=ONE_THREAD)
    assert again.test is not None and again.test["mean"] == outcome.test["mean"]
    assert (tmp_path / "run" / "bundle.safetensors").read_bytes() == bytes_before
    new = Newcomers(place("more_nodes"), place("more_edges"))
    predict(tmp_path / "run", tmp_path / "new.parquet", newcomers=new, resources=ONE_THREAD)
    bundle = Bundle.load(tmp_path / "run" / "bundle.safetensors")
    store: HopStore = hops_for(bundle, whole, tmp_path / "hops")
    write_predictions(bundle, store, whole.nodes.ids, tmp_path / "all.parquet", rows=np.arange(60, 67))
    found, expected = (pyarrow.parquet.read_table(tmp_path / f"{one}.parquet") for one in ("new", "all"))
    assert found.equals(expected)
    written = predict(tmp_path / "run", tmp_path / "whole.csv", graph=whole, resources=ONE_THREAD)
    assert written is not None and written.rows == 67
    told = explain(tmp_path / "run", ["n3"], graph=whole, resources=ONE_THREAD)
    assert told.nodes[0].id == "n3" and told.degree is not None


def test_a_run_that_was_cut_off_ends_in_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(make_graph(), recipe_of(name), tmp_path / "whole", resources=ONE_THREAD)
    usual = solved._share

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solved, "_share", cut_off)
    with pytest.raises(KeyboardInterrupt):
        train(make_graph(), recipe_of(name), tmp_path / "cut", resources=ONE_THREAD)
    monkeypatch.setattr(solved, "_share", usual)
    train(make_graph(), recipe_of(name), tmp_path / "cut", resume=True, resources=ONE_THREAD)
    assert (tmp_path / "cut" / "bundle.safetensors").read_bytes() == whole.run.bundle_path.read_bytes()


def test_types_and_subsets_of_relations_are_all_read(name: str, tmp_path: Path) -> None:
    """The authors' features alone tell the class of a paper."""
    graph: Graph = planted().graph()
    recipe = recipe_of(name).changed({"relations.missing": "mean"})
    trained = train(graph, recipe, tmp_path / "run", resources=ONE_THREAD)
    bundle = next(iter(trained.bundles.values()))
    assert len(bundle.shape.parts) > 1
    if name == "logistic":
        assert bundle.report["valid"]["score"] > 0.8


def test_fewer_rows_than_there_are_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solved, "MOST_ROWS", 20)
    trained = train(make_graph(), recipe_of("logistic"), tmp_path / "run", resources=ONE_THREAD)
    assert trained.notes == ["'logistic' learned from 20 of the 31 training rows, drawn by the seed"]
