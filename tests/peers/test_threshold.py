"""Accuracy at a threshold: the best of all on the validation graph's rows; test rows choose nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.graph import Graph, Labels
from gamlp.peers import Task, Workspace, recipe_named, run
from gamlp.peers.threshold import GraphAnswers, at_threshold, graph_reports
from gamlp.training import best_threshold
from tests.training.small import ONE_THREAD, make_graph, with_labels, with_nodes

Array = np.ndarray[Any, Any]
TWO = Labels(np.zeros(0, np.int32), ("no", "yes"))


def right_at(threshold: float, scores: Array, true: Array) -> int:
    return int(((scores >= threshold) == true).sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 8), st.sampled_from([np.float32, np.float64]))
def test_no_threshold_is_right_more_often(seed: int, rows: int, levels: int, dtype: type) -> None:
    """Fails where a cut is left out: below all, above all, between two, or where rows are equal."""
    random = np.random.default_rng(seed)
    scores = (random.integers(0, levels + 1, rows) / levels).astype(dtype)
    true = random.random(rows) < 0.5
    found = best_threshold(scores, true)
    tried = [0.0, 1.0, *np.arange(0, 1, 0.5 / levels + 1e-4)]
    most = max(right_at(threshold, scores, true) for threshold in tried)
    assert 0 <= found <= 1 and right_at(found, scores, true) == most


def test_of_equal_thresholds_the_one_nearest_to_half_and_half_way_between_scores() -> None:
    scores = np.array([0.1, 0.3, 0.6, 0.9])
    assert best_threshold(scores, np.array([False, False, True, True])) == pytest.approx(0.45)
    # One error at 0.2 (of 0.3), at 0.45 (of 0.1) and at 0.75 (of 0.6 and 0.1: two).
    assert best_threshold(scores, np.array([True, False, True, True])) == pytest.approx(0.45)
    assert best_threshold(scores, np.zeros(4, bool)) == pytest.approx(0.95)  # never said
    assert best_threshold(scores, np.ones(4, bool)) == pytest.approx(0.05)  # always
    close = np.array([0.5, np.nextafter(np.float32(0.5), np.float32(1))], np.float32)
    assert right_at(best_threshold(close, np.array([False, True])), close, np.array([False, True])) == 2


def said(scores: Array, true: Array) -> GraphAnswers:
    found = GraphAnswers()
    for rows in np.array_split(np.arange(len(scores)), 2):  # two batches
        found.watch(rows, np.stack([1 - scores[rows], scores[rows]], 1), true[rows].astype(np.int64))
    return found


def test_validation_rows_choose_and_test_rows_are_only_scored() -> None:
    random = np.random.default_rng(3)
    scores = [random.random(40), random.random(50)]
    true = [random.random(40) < scores[0] / 2, random.random(50) < scores[1]]  # another share of the class
    found = at_threshold(said(scores[0], true[0]), said(scores[1], true[1]), TWO)
    cuts = np.sort(np.r_[0.0, scores[0], 1.0])
    best = max(right_at(cut, scores[0], true[0]) for cut in (cuts[1:] + cuts[:-1]) / 2)
    assert right_at(found["threshold"], scores[0], true[0]) == best
    assert found["accuracy_at_threshold"] == right_at(found["threshold"], scores[1], true[1]) / 50
    other = at_threshold(said(scores[0], true[0]), said(scores[1], ~true[1]), TWO)
    assert other["threshold"] == found["threshold"]
    assert other["accuracy_at_threshold"] == pytest.approx(1 - found["accuracy_at_threshold"])


@pytest.mark.parametrize(
    "labels", [Labels(np.zeros(0, np.int32), ("a", "b", "c")), Labels(np.zeros((0, 2), np.int8), ("a", "b"))]
)
def test_other_tasks_have_no_threshold_and_validation_rows_are_not_read(labels: Labels) -> None:
    asked = []

    def report(rows: list[int], watch: object) -> dict[str, float]:
        asked.append((rows, watch))
        return {"score": 1.0}

    assert graph_reports(report, {"far": [1]}, [2], labels) == {"far": {"score": 1.0}}
    assert asked == [([1], None)]


def two_classes(seed: int, name: str) -> Graph:
    graph = make_graph(seed, name=name)
    labels = graph.nodes.labels
    assert labels is not None
    return with_nodes(graph, labels=Labels(np.minimum(labels.values, 1), ("no", "yes")))


@pytest.mark.parametrize("name", ["mlp", "gcn"])
def test_peers_tell_it_of_every_other_graph(name: str, tmp_path: Path) -> None:
    """On hops and by messages; with the test graph's labels turned round, the threshold stays."""
    if name == "gcn":
        pytest.importorskip("torch_geometric")
    train, valid, far = (two_classes(seed, str(seed)) for seed in range(3))
    recipe = recipe_named(name).changed({"training.epochs": 4, "model.hidden": 8})
    place = Workspace(tmp_path, ONE_THREAD)
    report = run(Task(train, valid, {"far": far, "again": far}), recipe, 0, place)
    own = report.tests["far"]
    assert own == report.tests["again"] and report.test["accuracy_at_threshold"] == own["accuracy_at_threshold"]
    assert 0 <= own["threshold"] <= 1 and own.keys() - {"threshold", "accuracy_at_threshold"}
    assert far.nodes.labels is not None
    turned = replace(with_labels(far, 1 - far.nodes.labels.values), name="turned")
    other = run(Task(train, valid, {"far": turned}), recipe, 0, place)
    assert other.tests["far"]["threshold"] == own["threshold"]
    assert other.test["accuracy_at_threshold"] == pytest.approx(1 - own["accuracy_at_threshold"])
    assert "threshold" not in run(train, recipe, 0, place).test
