"""Inductive training: training rows see each other alone; another graph to validate on; graphs that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, Labels, Split
from gamlp.models import labels_used
from gamlp.recipe import Recipe
from gamlp.run.evaluation import evaluate_rows
from gamlp.run.preparation import hops_for, prepare
from gamlp.training.rows import Prepared
from gamlp.training.seeds import bundle_of
from tests.conformance import dense
from tests.training.small import (
    CLASSES,
    NODES,
    ONE_THREAD,
    RECIPE,
    WIDTH,
    make_graph,
    prepared_in,
    rows_of_role,
    same_weights,
    trained,
    with_labels,
    with_nodes,
)

Array = np.ndarray[Any, Any]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def matrix_of(graph: Graph) -> Array:
    matrix = np.zeros((graph.nodes.count, graph.nodes.count))
    for rows, neighbours, _ in graph.relation.edges():
        matrix[rows, neighbours] = 1.0
    return matrix


def features_of(graph: Graph) -> Array:
    assert graph.nodes.features is not None
    return graph.nodes.features.values.astype(np.float64)


def hot(graph: Graph, rows: Array) -> Array:
    assert graph.nodes.labels is not None
    values = np.zeros((graph.nodes.count, CLASSES))
    values[rows, graph.nodes.labels.values[rows]] = 1.0
    return values


def two(folder: Path, graph: Graph, valid: Graph, recipe: Recipe = RECIPE, **changes: Any) -> Prepared:
    changed = recipe.changed({key.replace("__", "."): value for key, value in changes.items()})
    return prepare(graph, changed, folder, valid_graph=valid, resources=ONE_THREAD)


def without_split(graph: Graph) -> Graph:
    return with_nodes(graph, split=None)


@pytest.mark.parametrize("scaling", ["none", "standard", "l2"])
@pytest.mark.parametrize("r", [0.0, 0.5])
def test_training_rows_are_propagated_among_themselves_and_validation_rows_on_the_whole_graph(
    tmp_path: Path, scaling: str, r: float
) -> None:
    graph = make_graph(3)
    changes = {"propagation__scaling": scaling, "propagation__r": r, "training__setting": "inductive"}
    prepared = prepared_in(tmp_path, graph, **changes)
    train, x, matrix = rows_of_role(graph, "train"), features_of(graph), matrix_of(graph)
    if scaling == "standard":  # by the training rows' statistics
        x = (x - x[train].mean(0)) / x[train].std(0)
    elif scaling == "l2":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    y = hot(graph, train)
    alone = dense.operator(matrix[np.ix_(train, train)], r, True)
    whole = dense.operator(matrix, r, True)

    found_x, found_y = prepared.train.gather(np.arange(len(train)))
    assert found_y is not None
    np.testing.assert_allclose(found_x[:, 0], dense.hops(alone, x[train], 2), **CLOSE)
    np.testing.assert_allclose(found_y[:, 0], dense.hops(alone, y[train], 2), **CLOSE)
    assert np.array_equal(prepared.train.targets, graph.nodes.labels.values[train])  # type: ignore[union-attr]

    assert prepared.valid is not None
    valid = rows_of_role(graph, "valid")
    found_x, found_y = prepared.valid.gather(np.arange(len(valid)))
    assert found_y is not None
    np.testing.assert_allclose(found_x[:, 0], dense.hops(whole, x, 2)[valid], **CLOSE)
    np.testing.assert_allclose(found_y[:, 0], dense.hops(whole, y, 2)[valid], **CLOSE)
    assert (prepared.valid.rows == valid).all()


def test_transductively_standard_uses_all_rows_and_all_edges(tmp_path: Path) -> None:
    graph = make_graph(3)
    prepared = prepared_in(tmp_path, graph, propagation__scaling="standard")
    x = features_of(graph)
    x = (x - x.mean(0)) / x.std(0)
    expected = dense.hops(dense.operator(matrix_of(graph), 0.5, True), x, 2)
    found, _ = prepared.train.gather(np.arange(len(prepared.train)))
    np.testing.assert_allclose(found[:, 0], expected[rows_of_role(graph, "train")], **CLOSE)
    assert prepared.statistics is not None  # kept, so that other graphs are scaled alike
    np.testing.assert_allclose(prepared.statistics["node"].mean, features_of(graph).mean(0), rtol=1e-6)


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_cross_fitted_training_rows_hear_the_other_folds_and_validation_rows_all_labels(
    tmp_path: Path, setting: str
) -> None:
    graph = make_graph(3)
    changes = {"propagation__folds": 3, "training__setting": setting}
    prepared = prepared_in(tmp_path, graph, **changes)
    assert prepared.train.crossfit and prepared.valid is not None and not prepared.valid.crossfit
    _, own = prepared.train.gather(np.arange(len(prepared.train)))
    assert own is not None and not own[:, 0, 0].any()  # a row's own answer is not among its hops
    _, heard = prepared.valid.gather(np.arange(len(prepared.valid)))
    assert heard is not None
    y = dense.hops(dense.operator(matrix_of(graph), 0.5, True), hot(graph, rows_of_role(graph, "train")), 2)
    np.testing.assert_allclose(heard[:, 0], y[rows_of_role(graph, "valid")], **CLOSE)


def test_one_graph_trains_and_another_validates(tmp_path: Path) -> None:
    graph, other = make_graph(1), without_split(make_graph(2, nodes=45, name="other"))
    prepared = two(tmp_path, graph, other, propagation__scaling="standard", training__epochs=10)
    assert prepared.valid is not None and len(prepared.valid) == 45 and prepared.store is prepared.valid.store
    x = features_of(graph)
    scaled = (features_of(other) - x.mean(0)) / x.std(0)
    expected = dense.hops(dense.operator(matrix_of(other), 0.5, True), scaled, 2)
    found, labels = prepared.valid.gather(np.arange(45))
    np.testing.assert_allclose(found[:, 0], expected, **CLOSE)
    assert labels is None
    assert len(prepared.train) == len(rows_of_role(graph, "train"))
    bundle = bundle_of(prepared, trained(prepared), 0)
    assert set(bundle.report["valid"]) == {"loss", "score"} and bundle.statistics is not None
    third = without_split(make_graph(1, name="third"))
    report = evaluate_rows({0: bundle}, hops_for(bundle, third, tmp_path / "third", ONE_THREAD), np.arange(NODES))
    assert report["mean"]["score"] > 0.5


def test_the_label_branch_is_off_where_the_other_graph_has_no_training_labels(tmp_path: Path) -> None:
    graph = make_graph(1)
    assert labels_used(RECIPE)
    prepared = two(tmp_path / "without", graph, without_split(make_graph(2)))
    assert not labels_used(prepared.recipe) and prepared.train.label_hops is None and prepared.shape.label_hops == 0
    unknown = with_labels(make_graph(2), np.where(make_graph(2).nodes.split.roles == 1, -1, 0).astype(np.int32))  # type: ignore[union-attr]
    assert not labels_used(two(tmp_path / "unknown", graph, unknown).recipe)
    kept = two(tmp_path / "with", graph, make_graph(2))
    assert labels_used(kept.recipe) and kept.valid is not None and kept.valid.label_hops == 2
    assert (kept.valid.rows == rows_of_role(make_graph(2), "valid")).all()


def test_a_graph_whose_labels_are_all_heard_is_not_validated_on(tmp_path: Path) -> None:
    """Of a model that listens to labels the score would be of answers that it was told; without them it is not."""
    other = make_graph(2)
    assert other.nodes.split is not None
    all_heard = with_nodes(other, split=replace(other.nodes.split, roles=np.ones(NODES, np.int8)))
    with pytest.raises(GamlpError, match="every labelled row of graph 'small' is one to train on"):
        two(tmp_path / "heard", make_graph(1), all_heard)
    prepared = two(tmp_path / "not", make_graph(1), all_heard, model__beta=0.0)
    assert prepared.valid is not None and len(prepared.valid) == NODES


def test_of_another_graph_nothing_but_the_best_epoch_depends(tmp_path: Path) -> None:
    graph, one, other = make_graph(1), without_split(make_graph(2)), without_split(make_graph(3))
    last = {"training__keep": "last", "propagation__scaling": "standard"}
    found = [trained(two(tmp_path / str(i), graph, valid, **last)).weights for i, valid in enumerate((one, other))]
    assert same_weights(*found)


def test_inductively_the_training_graphs_own_other_nodes_do_not_matter_either(tmp_path: Path) -> None:
    graph, valid = make_graph(1), without_split(make_graph(2))
    features = features_of(graph).astype(np.float32)
    features[rows_of_role(graph, "valid", "test")] *= -7
    changed = with_nodes(graph, features=Features(features))
    same = {"training__setting": "inductive", "training__keep": "last", "propagation__scaling": "standard"}
    found = [trained(two(tmp_path / str(i), each, valid, **same)).weights for i, each in enumerate((graph, changed))]
    assert same_weights(*found)


def test_classes_in_another_order_are_those_of_training(tmp_path: Path) -> None:
    graph, other = make_graph(1), without_split(make_graph(2))
    assert other.nodes.labels is not None
    turned = with_nodes(
        other, labels=Labels((2 - other.nodes.labels.values).astype(np.int32), other.nodes.labels.classes[::-1])
    )
    one, two_ = two(tmp_path / "one", graph, other), two(tmp_path / "two", graph, turned)
    assert one.valid is not None and two_.valid is not None
    assert np.array_equal(one.valid.targets, two_.valid.targets)
    assert trained(one).valid == trained(two_).valid


def test_a_class_that_training_never_saw_is_refused_and_one_that_nobody_has_is_not(tmp_path: Path) -> None:
    graph, other = make_graph(1), without_split(make_graph(2))
    assert other.nodes.labels is not None
    classes = (*other.nodes.labels.classes, "unicorn")
    unused = with_nodes(other, labels=Labels(other.nodes.labels.values, classes))
    assert two(tmp_path / "unused", graph, unused).classes == other.nodes.labels.classes
    values = other.nodes.labels.values.copy()
    values[5] = CLASSES
    with pytest.raises(GamlpError, match="'small' has class 'unicorn' which training never saw"):
        two(tmp_path / "used", graph, with_nodes(other, labels=Labels(values, classes)))


def test_features_of_another_width_are_refused(tmp_path: Path) -> None:
    narrow = with_nodes(make_graph(2), features=Features(np.zeros((NODES, WIDTH - 1), np.float32)))
    with pytest.raises(GamlpError, match=f"has {WIDTH - 1} features where the model expects {WIDTH}"):
        two(tmp_path, make_graph(1), narrow)


def test_a_graph_without_labels_to_validate_by_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GamlpError, match="no labels to validate by"):
        two(tmp_path, make_graph(1), with_nodes(make_graph(2), labels=None, split=None))


def test_one_class_in_training_is_refused_with_two_graphs_too(tmp_path: Path) -> None:
    graph = make_graph(1)
    alike = with_labels(graph, np.zeros(NODES, np.int32))
    with pytest.raises(GamlpError, match="every training row is 'class 0'"):
        two(tmp_path, alike, without_split(make_graph(2)))


def test_a_model_that_hears_labels_is_not_given_a_graph_without(tmp_path: Path) -> None:
    prepared = prepared_in(tmp_path, make_graph(1))
    bundle = bundle_of(prepared, trained(prepared), 0)
    with pytest.raises(GamlpError, match="listens to known labels, and graph 'small' has no training rows"):
        hops_for(bundle, without_split(make_graph(2)), tmp_path / "other", ONE_THREAD)


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_a_graph_that_grew_by_new_nodes_is_predicted_with_what_was_learned(tmp_path: Path, setting: str) -> None:
    graph = make_graph(1)
    prepared = prepared_in(tmp_path, graph, training__setting=setting, training__epochs=20)
    bundle = bundle_of(prepared, trained(prepared), 0)
    rows, neighbours, _ = next(iter(graph.relation.edges()))
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    new = np.array([[NODES, NODES], rows_of_role(graph, "train")[:2]])
    grown = Graph.from_arrays(
        np.concatenate([np.stack([rows, neighbours]), new], 1),
        np.concatenate([features_of(graph), np.zeros((1, WIDTH))]),
        Labels(np.append(graph.nodes.labels.values, np.int32(-1)), graph.nodes.labels.classes),
        split=Split(np.append(graph.nodes.split.roles, np.int8(0))),
    )
    store = hops_for(bundle, grown, tmp_path / "grown", ONE_THREAD)
    report = evaluate_rows({0: bundle}, store, rows_of_role(graph, "test"), ONE_THREAD)
    assert store.manifest.nodes == NODES + 1 and report["mean"]["score"] > 0.5
