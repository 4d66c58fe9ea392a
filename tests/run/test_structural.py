"""Edges and labels alone, and directed edges both ways: from a graph to a run, its predictions and explanations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gamlp import NodeClassifier
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Ids, Labels, Split
from gamlp.propagation import HopStore
from gamlp.run import Trained, explain, predict, train
from gamlp.run.preparation import hops_for
from gamlp.training import Bundle, resolve_relations
from tests.training import typed_small
from tests.training.small import NODES, ONE_THREAD, RECIPE, make_graph

SMALL = RECIPE.changed({"features.width": 16, "training.epochs": 8})
DIRECTED = "propagation.directions"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return _with_ids(make_graph(name="bare").with_features(node=None)).save(tmp_path_factory.mktemp("bare") / "graph")


def _with_ids(graph: Graph) -> Graph:
    ids = Ids(graph.nodes.count, 7 * np.arange(graph.nodes.count) + 1)
    return replace(graph, node_types={"node": replace(graph.nodes, ids=ids)})


def _directed(*, features: bool = True) -> Graph:
    """The label of a node is the colour of those it leads to; those that lead to it say nothing."""
    random = np.random.default_rng(0)
    classes = random.integers(0, 3, NODES)
    classes[:3] = np.arange(3)
    hubs = np.arange(NODES, NODES + 9)
    out = np.stack(
        [np.repeat(np.arange(NODES), 2), NODES + 3 * random.integers(0, 3, 2 * NODES) + np.repeat(classes, 2)]
    )
    into = np.stack([random.integers(NODES, NODES + 9, 2 * NODES), random.integers(0, NODES, 2 * NODES)])
    count = NODES + len(hubs)
    values = np.zeros((count, 3), np.float32)
    values[hubs, (hubs - NODES) % 3] = 1.0
    labels = Labels(np.concatenate([classes, np.full(9, -1)]).astype(np.int32), ("a", "b", "c"))
    roles = np.concatenate([np.array([1, 1, 2, 3], np.int8)[np.arange(NODES) % 4], np.zeros(9, np.int8)])
    return Graph.from_arrays(
        np.concatenate([out, into], 1), values if features else None, labels, split=Split(roles), directed=True,
        name="directed", count=count,
    )  # fmt: skip


def _probabilities(path: Path) -> np.ndarray[Any, Any]:
    table = pq.read_table(path)
    return np.stack([table[name].to_numpy() for name in table.column_names if name.startswith("probability")], 1)


@pytest.fixture(scope="module")
def run(bare: Graph, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    recipe = SMALL.changed({"features.seed": 3, "training.epochs": 30})
    return train(bare, recipe, tmp_path_factory.mktemp("runs") / "run", resources=ONE_THREAD)


def test_a_run_says_what_it_made_and_keeps_it(bare: Graph, run: Trained) -> None:
    assert run.notes == [
        "graph 'bare' has no features: they are made of its edges (log degree, 16 columns of random projection)"
    ]
    assert run.recipe.features.structural == "alone" and run.valid is not None
    assert run.valid["mean"]["score"] > 0.45, "three classes, neighbours mostly of one: a third is chance"
    manifest = HopStore.open(run.run.store_path()).manifest
    assert manifest.structural is not None and manifest.structural.width == 16
    assert [column.name for column in manifest.columns["node"]] == ["degree", "projection"]
    assert list((Path(str(bare.folder)) / "made").glob("*.npy")), "kept with the graph, for other runs"
    assert Graph.open(str(bare.folder)).nodes.features is None, "the graph itself stays as it is"
    found = explain(run.run.path, ["1"], resources=ONE_THREAD)
    assert "features are made of edges: log degree, 16 columns of random projection" in found.notes


def test_a_node_means_the_same_in_a_graph_that_has_grown(bare: Graph, run: Trained, tmp_path: Path) -> None:
    """Two more nodes come first in the table, joined to each other alone: every other node's input stays."""
    nodes, bundle = bare.nodes, run.bundles[0]
    assert nodes.labels is not None and nodes.split is not None
    edges = np.concatenate([np.stack([b, a]) for a, b, _ in bare.relation.edges()], 1) + 2
    labels = Labels(np.insert(nodes.labels.values, 0, [-1, -1]), nodes.labels.classes)
    split = Split(np.insert(nodes.split.roles, 0, [0, 0]))
    by_row = Graph.from_arrays(np.concatenate([edges, [[0], [1]]], 1), None, labels, split=split, name="grown")
    ids = Ids(NODES + 2, np.concatenate([[9999, 9998], np.asarray(nodes.ids.values)]))
    grown = replace(by_row, node_types={"node": replace(by_row.nodes, ids=ids)})
    same = hops_for(bundle, bare, tmp_path / "same", ONE_THREAD).gather(np.arange(NODES))
    more = hops_for(bundle, grown, tmp_path / "more", ONE_THREAD).gather(np.arange(NODES) + 2)
    assert same.x is not None and more.x is not None and same.y is not None and more.y is not None
    assert np.array_equal(same.x, more.x) and np.array_equal(same.y, more.y)
    other = hops_for(bundle, by_row, tmp_path / "rows", ONE_THREAD).gather(np.arange(NODES) + 2)
    assert other.x is not None and not np.array_equal(same.x, other.x), "other ids are other nodes"


def test_features_of_another_graph_are_left_aside_or_asked_for_as_in_training(
    bare: Graph, run: Trained, tmp_path: Path
) -> None:
    whole = _with_ids(make_graph(name="whole")).save(tmp_path / "whole")
    written = predict(run.run.path, tmp_path / "a.parquet", graph=whole, resources=ONE_THREAD)
    assert written is not None
    assert written.notes == ("features of graph 'whole' are left aside: the model reads those that are made of edges",)
    predict(run.run.path, tmp_path / "b.parquet", resources=ONE_THREAD)
    assert np.array_equal(_probabilities(tmp_path / "a.parquet"), _probabilities(tmp_path / "b.parquet"))
    train(whole, SMALL, tmp_path / "whole-run", resources=ONE_THREAD)
    with pytest.raises(GamlpError, match="graph 'bare' has 0 features where the model expects 6"):
        predict(tmp_path / "whole-run", tmp_path / "c.parquet", graph=bare, resources=ONE_THREAD)


def test_a_store_by_itself_says_how_its_features_were_made(run: Trained, tmp_path: Path) -> None:
    again = train(str(run.run.store_path()), RECIPE, tmp_path / "again", resources=ONE_THREAD)
    assert again.recipe.features == run.recipe.features and again.recipe.features.seed == 3


def test_alone_takes_the_place_of_features_that_are_there(tmp_path: Path) -> None:
    whole = make_graph(name="whole")
    trained = train(whole, SMALL.changed({"features.structural": "alone"}), tmp_path / "run", resources=ONE_THREAD)
    assert next(iter(trained.bundles.values())).shape.features == 17


@pytest.mark.parametrize("directions", ["in", "both"])
def test_a_direction_that_tells_is_heard(tmp_path: Path, directions: str) -> None:
    recipe = RECIPE.changed({DIRECTED: directions, "model.beta": 0.0, "training.epochs": 60})
    trained = train(_directed(), recipe, tmp_path / "run", resources=ONE_THREAD)
    assert trained.valid is not None
    assert (trained.valid["mean"]["score"] > 0.9) == (directions != "in")


def test_both_directions_from_graph_to_explanation(tmp_path: Path) -> None:
    graph = _directed(features=False).save(tmp_path / "graph")
    recipe = SMALL.changed({DIRECTED: "both"})
    trained = train(graph, recipe, tmp_path / "run", resources=ONE_THREAD)
    bundle = Bundle.load(trained.run.bundle_path)
    assert [part.view for part in bundle.shape.parts] == ["in", "out"] == list(bundle.shape.label_views)
    found = explain(tmp_path / "run", resources=ONE_THREAD)
    assert found.subsets is not None and found.subsets.directions
    assert set(found.subsets.by_subset()) == set(found.subsets.by_subset("labels")) == {"in", "out"}
    predict(tmp_path / "run", tmp_path / "own.parquet", resources=ONE_THREAD)
    predict(tmp_path / "run", tmp_path / "graph.parquet", graph=graph, resources=ONE_THREAD)
    assert np.array_equal(_probabilities(tmp_path / "own.parquet"), _probabilities(tmp_path / "graph.parquet"))
    again = train(str(trained.run.store_path()), RECIPE, tmp_path / "again", resources=ONE_THREAD)
    assert again.recipe.propagation.directions == "both"


def test_directions_that_cannot_be_told_apart_are_told(tmp_path: Path) -> None:
    trained = train(make_graph(), RECIPE.changed({DIRECTED: "both"}), tmp_path / "run", resources=ONE_THREAD)
    assert trained.recipe.propagation.directions == "in"
    assert trained.notes == ["edges of graph 'small' lead both ways: propagation.directions both is left aside"]
    with pytest.raises(GamlpError, match="further operators are read in one direction alone"):
        sign = {DIRECTED: "both", "propagation.also_r": [0.0], "model.name": "sign-xl"}
        train(_directed(), RECIPE.changed(sign), tmp_path / "other", resources=ONE_THREAD)
    with pytest.raises(GamlpError, match=r"SGC reads one channel, not 2 \(views in, out\)"):
        train(_directed(), RECIPE.changed({DIRECTED: "both", "model.name": "sgc"}), tmp_path / "sgc")


def test_inductive_training_tells_directions_apart_too(tmp_path: Path) -> None:
    recipe = SMALL.changed({DIRECTED: "both", "training.setting": "inductive", "model.beta": 0.0})
    trained = train(_directed(features=False), recipe, tmp_path / "run", resources=ONE_THREAD)
    assert trained.valid is not None and [part.view for part in trained.bundles[0].shape.parts] == ["in", "out"]


def test_of_several_relations_embeddings_are_made_and_said() -> None:
    graph = typed_small.planted().graph()
    bare = graph.with_features(**dict.fromkeys(graph.node_types))
    said = "graph 'typed' has no features: ComplEx embeddings of its relations are made"
    assert said in resolve_relations(bare, RECIPE)[1]
    assert said not in resolve_relations(graph, RECIPE)[1]
    with pytest.raises(GamlpError, match="directions are told apart on graphs of one relation alone"):
        resolve_relations(graph, RECIPE.changed({DIRECTED: "both"}))


def test_a_classifier_in_python_needs_no_features(bare: Graph) -> None:
    model = NodeClassifier(recipe=SMALL).fit(bare)
    assert np.array_equal(model.predict(bare), model.predict())
    nodes = bare.nodes
    grown = Graph.from_arrays([[0, 1], [1, 2]], None, nodes.labels, count=NODES, split=nodes.split)
    assert len(model.predict(grown)) == NODES
    with pytest.raises(GamlpError, match="has 0 features where the model expects 6"):
        NodeClassifier(recipe=SMALL).fit(make_graph()).predict(bare)
