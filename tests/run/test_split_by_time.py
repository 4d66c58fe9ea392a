"""Tables with times, all the way: nothing from the future reaches a training row."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.ingest import IngestOptions, NodeNames, TimeSplit, ingest
from gamlp.peers import run_method
from gamlp.propagation import HopStore
from gamlp.recipe import Recipe
from gamlp.run import evaluate, predict, prepare, train
from gamlp.run.source import Source, resolve_recipe
from tests.training.small import ONE_THREAD

NODES, YEARS = 90, range(2010, 2019)
OPTIONS = IngestOptions(split_by=TimeSplit("year", "2015", "2016"))
RECIPE = Recipe.of(
    {
        "propagation": {"hops": 2, "label_hops": 2, "scaling": "standard", "folds": 3},
        "model": {"hidden": 8, "layers": 2},
        "training": {"epochs": 3, "batch_size": 64},
    }
)


def tables(folder: Path, other_future: int = 0, *, features: str | None = None, directed: bool = False) -> Graph:
    """Nodes of nine years, three columns of features, dated edges; with `other_future` all after 2015 is another."""
    folder.mkdir()
    random = np.random.default_rng(0)
    later = np.random.default_rng(other_future)
    years = np.sort(random.choice(YEARS, NODES))
    classes = random.integers(0, 2, NODES)
    rows = []
    for node, year in enumerate(years):
        values = random.normal(size=2) + classes[node]
        label, city = int(classes[node]), random.choice(["Bern", "Lima", ""])
        if year > 2015 and other_future:  # numbers of another size, a city that training never sees, no gaps
            values, label, city = later.normal(size=2) * 100, 1 - label, "Oslo"
        rows.append([f"n{node}", *values.round(3), city, year, f"c{label}"])
    edges = []
    for _ in range(400):
        ends = random.integers(0, NODES, 2)
        year = max(random.choice(YEARS), *years[ends])
        if year > 2015 and other_future:  # also between nodes of the past, and with other weights
            ends = later.integers(0, NODES, 2)
        edges.append([f"n{ends[0]}", f"n{ends[1]}", 1 if year <= 2015 or not other_future else 5, f"{year}-06-01"])
    for name, header, content in (("nodes", "id,x,y,city,year,kind", rows), ("edges", "src,dst,weight,time", edges)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header.split(","), *content])
    options = replace(OPTIONS, node_names=NodeNames(label="kind", features=features), directed=directed)
    ingest(folder / "edges.csv", folder / "nodes.csv", folder / "graph", options)
    return Graph.open(folder / "graph")


def inputs(store: HopStore, rows: Any) -> list[bytes]:
    kept = {name: signal for name, signal in store.signals.items() if rows[0] < 1 or not name.startswith("crossfit")}
    return [signal.gather(rows).tobytes() for _, signal in sorted(kept.items())]


@pytest.mark.parametrize("way", ["features", "edges alone, both directions"])
def test_nothing_from_the_future_reaches_a_training_row(tmp_path: Path, way: str) -> None:
    """Every edge, feature and label after the cut is another one: training rows read the same bytes."""
    made: dict[str, Any] = {} if way == "features" else {"features": "", "directed": True}
    recipe = RECIPE if way == "features" else RECIPE.changed({"propagation.directions": "both", "features.width": 8})
    graphs = [tables(tmp_path / str(future), future, **made) for future in (0, 5)]
    assert (graphs[0].nodes.features is None) == bool(made)
    stores = [
        prepare(graph, recipe, tmp_path / f"run-{number}", resources=ONE_THREAD).store
        for number, graph in enumerate(graphs)
    ]
    splits = [graph.nodes.split for graph in graphs]
    assert np.array_equal(splits[0].train, splits[1].train) and len(splits[0].train) > 30
    one, two = (inputs(store, splits[0].train) for store in stores)
    assert one == two
    assert inputs(stores[0], splits[0].test) != inputs(stores[1], splits[0].test)
    # What the test would not see if nothing differed: with edges of all times the bytes are others.
    whole = recipe.changed({"propagation.as_of_split": False})
    stores = [
        prepare(graph, whole, tmp_path / f"whole-{number}", resources=ONE_THREAD).store
        for number, graph in enumerate(graphs)
    ]
    one, two = (inputs(store, splits[0].train) for store in stores)
    assert all(left != right for left, right in zip(one, two))


def test_the_whole_path_chooses_it_and_says_so(tmp_path: Path) -> None:
    graph = tables(tmp_path / "t")
    trained = train(graph, RECIPE, tmp_path / "run", resources=ONE_THREAD)
    assert trained.recipe.propagation.as_of_split is True
    assert any("the split is by time: rows see edges until the end of their own part" in note for note in trained.notes)
    assert evaluate(trained.run, resources=ONE_THREAD)["rows"] == len(graph.nodes.split.test)
    assert predict(tmp_path / "run", tmp_path / "own.csv", resources=ONE_THREAD).rows == NODES
    # On another graph all rows see all its edges: what is asked there is what is known now.
    assert predict(tmp_path / "run", tmp_path / "new.csv", graph=graph, resources=ONE_THREAD).rows == NODES
    own, new = ((tmp_path / name).read_text().splitlines() for name in ("own.csv", "new.csv"))
    test = set(graph.nodes.split.test.tolist())
    assert [own[row + 1] for row in sorted(test)] == [new[row + 1] for row in sorted(test)]
    assert own != new
    again = train(tmp_path / "t" / "graph", RECIPE, tmp_path / "run", resume=True, resources=ONE_THREAD)
    assert again.valid == trained.valid


def test_what_would_tell_of_the_future_is_refused(tmp_path: Path) -> None:
    graph = tables(tmp_path / "t")
    source = Source("t", None, graph)
    with pytest.raises(GamlpError, match=r"training\.setting inductive is not for a split by time"):
        resolve_recipe(source, RECIPE.changed({"training.setting": "inductive"}))
    with pytest.raises(GamlpError, match="'gcn' reads the whole graph, and the split of 'graph' is by time"):
        run_method(graph, RECIPE.changed({"model.name": "gcn"}), tmp_path / "gcn", resources=ONE_THREAD)
    assert not (tmp_path / "gcn").exists()
    asked = RECIPE.changed({"propagation.as_of_split": True})
    with pytest.raises(GamlpError, match=r"has no split by time; .*--split-by COLUMN"):
        resolve_recipe(Source("t", None, graph.with_targets(split=graph.nodes.split)), asked)
    with pytest.raises(GamlpError, match=r"propagation\.as_of_split true needs the graph"):
        store = prepare(graph, RECIPE, tmp_path / "run", resources=ONE_THREAD).store
        resolve_recipe(Source("t", None, None, store), asked)
    _, notes = resolve_recipe(source, RECIPE.changed({"propagation.as_of_split": False}))
    assert notes == ["training rows see edges of all times, as propagation.as_of_split false asks"]
