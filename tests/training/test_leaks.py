"""What must not matter does not: labels that are not for training, and inductively all of the other nodes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.graph import Features, Graph, Split
from gamlp.training.checkpoint import Weights
from tests.training.small import (
    CLASSES,
    make_graph,
    others_redrawn,
    prepared_in,
    relabelled,
    rows_of_role,
    same_weights,
    trained,
    with_labels,
    with_nodes,
)

FEW = settings(max_examples=3, deadline=None)
SEEDS = st.integers(0, 2**20)
# The label branch is on in all of these.
SETTINGS: dict[str, dict[str, Any]] = {
    "recursive": {},
    "crossfit": {"propagation__folds": 3},
    "jk": {"model__attention": "jk", "model__label_zero": True, "propagation__scaling": "l2"},
    "jk, crossfit": {"model__attention": "jk", "propagation__folds": 4, "model__batch_norm": True},
}
# These read rows without labels, whose hops they may see in the transductive setting alone.
TRANSDUCTIVE: dict[str, dict[str, Any]] = {
    "consistency": {"consistency": {"passes": 2}, "training__ema": 0.5, "propagation__folds": 3},
    "averaged teacher": {"consistency": {"teacher": "average"}, "model__label_scale": "size"},
}


def weights(graph: Graph, **changes: Any) -> Weights:
    with tempfile.TemporaryDirectory() as folder:
        return trained(prepared_in(Path(folder), graph, training__epochs=4, **changes)).weights


@pytest.mark.parametrize("kind", [*SETTINGS, *TRANSDUCTIVE])
@FEW
@given(SEEDS)
def test_after_a_fixed_number_of_epochs_no_validation_or_test_label_changes_a_weight(kind: str, seed: int) -> None:
    graph = make_graph(seed)
    changed = relabelled(graph, rows_of_role(graph, "valid", "test"), seed)
    same = {**(SETTINGS | TRANSDUCTIVE)[kind], "training__keep": "last", "training__patience": 1}
    assert same_weights(weights(graph, **same), weights(changed, **same))


@pytest.mark.parametrize("kind", [*SETTINGS, *TRANSDUCTIVE])
@FEW
@given(SEEDS)
def test_with_early_stopping_no_test_label_changes_a_weight(kind: str, seed: int) -> None:
    graph = make_graph(seed)
    values = relabelled(graph, rows_of_role(graph, "test"), seed)
    same = {**(SETTINGS | TRANSDUCTIVE)[kind], "training__patience": 1}
    assert same_weights(weights(graph, **same), weights(values, **same))


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("scaling", ["none", "standard"])
@FEW
@given(SEEDS)
def test_inductively_no_edge_feature_or_label_of_another_node_changes_a_weight(
    kind: str, scaling: str, seed: int
) -> None:
    graph = make_graph(seed)
    same = {
        **SETTINGS[kind],
        "propagation__scaling": scaling,
        "training__keep": "last",
        "training__setting": "inductive",
    }
    assert same_weights(weights(graph, **same), weights(others_redrawn(graph, seed), **same))


@pytest.mark.parametrize("kind", SETTINGS)
@FEW
@given(SEEDS)
def test_inductively_with_early_stopping_no_test_label_changes_a_weight(kind: str, seed: int) -> None:
    graph = make_graph(seed)
    changed = relabelled(graph, rows_of_role(graph, "test"), seed)
    same = {**SETTINGS[kind], "training__setting": "inductive", "training__patience": 1}
    assert same_weights(weights(graph, **same), weights(changed, **same))


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_a_training_label_or_feature_does_change_the_weights(setting: str) -> None:
    """The comparison is not blind."""
    graph = make_graph()
    same = {"training__keep": "last", "training__setting": setting}
    assert not same_weights(
        weights(graph, **same), weights(relabelled(graph, rows_of_role(graph, "train")[:1]), **same)
    )
    assert graph.nodes.features is not None
    features = np.array(graph.nodes.features.values)
    features[rows_of_role(graph, "train")[0]] += 1
    assert not same_weights(weights(graph, **same), weights(with_nodes(graph, features=Features(features)), **same))


def test_the_best_epoch_does_depend_on_validation_labels_and_the_last_does_not() -> None:
    graph = make_graph()
    wrong = relabelled(graph, rows_of_role(graph, "valid"))
    assert not same_weights(weights(graph), weights(wrong))
    assert same_weights(weights(graph, training__keep="last"), weights(wrong, training__keep="last"))


def test_without_validation_rows_all_epochs_are_trained_and_the_last_is_kept() -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    roles = graph.nodes.split.roles.copy()
    roles[roles == 2] = 0
    alone = with_nodes(graph, split=Split(roles))
    assert same_weights(weights(alone, training__patience=1), weights(graph, training__keep="last"))


def test_with_folds_a_training_row_hears_its_own_class_as_a_validation_row_does(tmp_path: Path) -> None:
    """Without, its own label comes back through the self-loop: ten times the mass that other rows hear at hop 1."""
    random, count, degree = np.random.default_rng(0), 12_000, 6
    classes = random.integers(0, CLASSES, count).astype(np.int32)
    ends = random.integers(0, count, (2, 3 * degree * count))
    same = classes[ends[0]] == classes[ends[1]]
    edges = ends[:, same | (random.random(len(same)) < 0.1)][:, : degree * count // 2]
    train, valid = np.arange(240), np.arange(240, 6000)
    graph = Graph.from_arrays(
        edges, random.normal(size=(count, 2)), classes, split=Split.of(count, train=train, valid=valid, test=[])
    )
    mass = {}
    for folds in (0, 5):
        prepared = prepared_in(tmp_path / str(folds), graph, propagation__folds=folds)
        for name, rows in (("train", prepared.train), ("valid", prepared.valid)):
            assert rows is not None
            _, y = rows.gathered()
            assert y is not None
            mass[name, folds] = float(y[np.arange(len(rows)), 0, 1, rows.targets].mean())
    assert mass["valid", 0] == mass["valid", 5] > 0
    assert mass["train", 0] > 10 * mass["valid", 0]
    assert 0.5 * mass["valid", 5] < mass["train", 5] < 1.5 * mass["valid", 5]


@pytest.mark.parametrize("folds", [0, 3])
@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_training_rows_with_unknown_labels_are_not_trained_on(tmp_path: Path, folds: int, setting: str) -> None:
    graph = make_graph()
    assert graph.nodes.labels is not None
    values = graph.nodes.labels.values.copy()
    unknown = rows_of_role(graph, "train")[5:9]
    values[unknown] = -1
    prepared = prepared_in(tmp_path, with_labels(graph, values), propagation__folds=folds, training__setting=setting)
    assert len(prepared.train) == len(rows_of_role(graph, "train")) - 4
    assert (prepared.train.targets >= 0).all()
    assert trained(prepared).epochs == 6
