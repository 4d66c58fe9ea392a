"""Metrics against scikit-learn's and against formulas written out; which one validation goes by; who is better."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as theirs

from gamlp.graph import Graph, Split
from gamlp.recipe import Metric, TrainingSettings
from gamlp.training.loop import Machine
from gamlp.training.metrics import (
    average_precision,
    best_of,
    better,
    judged,
    metric_value,
    metric_words,
    ranked,
    resolve_metric,
    roc_auc,
)
from gamlp.training.seeds import fit_prepared, metric_of
from tests.training.small import prepared_in

Array = np.ndarray[Any, Any]
NAMES = [name for name in get_args(Metric) if name != "auto"]


def drawn(seed: int, rows: int, classes: int, levels: int, multi_label: bool) -> tuple[Array, Array]:
    """Probabilities of few levels, so that many are equal; some classes may be absent."""
    random = np.random.default_rng(seed)
    raw = random.integers(1, levels + 1, (rows, classes)).astype(float)
    if multi_label:
        return raw / (levels + 1), random.integers(0, 2, (rows, classes))
    return raw / raw.sum(1, keepdims=True), random.integers(0, max(1, classes - int(random.integers(0, 2))), rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 5), st.integers(2, 6))
def test_metrics_of_one_label_are_scikit_learns(seed: int, rows: int, classes: int, levels: int) -> None:
    probabilities, targets = drawn(seed, rows, classes, levels, False)
    chosen, present = probabilities.argmax(1), np.unique(targets)
    expected = {
        "accuracy": theirs.accuracy_score(targets, chosen),
        "macro_f1": theirs.f1_score(targets, chosen, average="macro"),
        "micro_f1": theirs.f1_score(targets, chosen, average="micro"),
        "balanced_accuracy": np.mean([(chosen[targets == name] == name).mean() for name in present]),
        "log_loss": theirs.log_loss(targets, probabilities, labels=np.arange(classes)),
    }
    if len(present) > 1:
        rarer = 0 if (targets == 0).sum() < (targets == 1).sum() else 1
        one = {"roc_auc": theirs.roc_auc_score, "average_precision": theirs.average_precision_score}
        for name, measure in one.items():
            columns = list(present) if classes > 2 else [rarer]
            expected[name] = np.mean([measure(targets == column, probabilities[:, column]) for column in columns])
    for name in NAMES:
        found = metric_value(name, probabilities, targets)
        assert found == pytest.approx(expected.get(name, math.nan), abs=1e-12, nan_ok=True), name


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 4), st.integers(2, 6))
def test_metrics_of_many_labels_are_scikit_learns(seed: int, rows: int, classes: int, levels: int) -> None:
    probabilities, targets = drawn(seed, rows, classes, levels, True)
    chosen = (probabilities > 0.5).astype(int)
    varied = [column for column in range(classes) if 0 < targets[:, column].mean() < 1]

    def over_classes(measure: Any, values: Array) -> float:
        return float(np.mean([measure(targets[:, one], values[:, one]) for one in varied])) if varied else math.nan

    expected = {
        "accuracy": (chosen == targets).all(1).mean(),
        "macro_f1": np.mean(
            [theirs.f1_score(targets[:, one], chosen[:, one], zero_division=0) for one in range(classes)]
        ),
        "micro_f1": theirs.f1_score(targets.ravel(), chosen.ravel(), zero_division=1),
        "balanced_accuracy": over_classes(theirs.balanced_accuracy_score, chosen),
        "log_loss": theirs.log_loss(targets.ravel(), probabilities.ravel(), labels=[0, 1]),
        "roc_auc": over_classes(theirs.roc_auc_score, probabilities),
        "average_precision": over_classes(theirs.average_precision_score, probabilities),
    }
    for name in NAMES:
        found = metric_value(name, probabilities, targets)
        assert found == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name


def test_ranking_metrics_are_their_formulas_with_ties() -> None:
    scores, true = np.array([0.9, 0.7, 0.7, 0.7, 0.2]), np.array([True, True, False, False, True])
    pairs = [(p, n) for p in scores[true] for n in scores[~true]]
    assert roc_auc(scores, true) == pytest.approx(np.mean([(p > n) + 0.5 * (p == n) for p, n in pairs]))
    # Thresholds 0.9, 0.7, 0.2: recall 1/3, 2/3, 1 at precision 1/1, 2/4, 3/5.
    assert average_precision(scores, true) == pytest.approx((1 + 2 / 4 + 3 / 5) / 3)


def test_average_precision_of_two_classes_is_of_the_rarer_or_of_the_one_that_is_named() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.3, 0.7]])
    targets = np.array([1, 0, 1, 1])
    assert metric_value("average_precision", probabilities, targets) == pytest.approx(
        1 / 2
    )  # 0 is second of its column
    assert metric_value("average_precision", probabilities, targets, 1) == pytest.approx((1 + 1 + 3 / 4) / 3)


def test_every_metric_has_words_and_no_row_is_undefined() -> None:
    for name in NAMES:
        assert metric_words(name) and math.isnan(metric_value(name, np.zeros((0, 2)), np.zeros(0, int)))


# Which one


def resolved(metric: str, targets: list[int], valid: list[int] | None = None) -> tuple[str, str | None]:
    made = TrainingSettings(metric=metric)  # type: ignore[arg-type]
    return resolve_metric(made, np.array(targets), None if valid is None else np.array(valid))


def test_auto_is_accuracy_but_for_a_rare_class_of_two_and_that_is_said() -> None:
    assert resolved("auto", [0, 1, 2] * 9) == ("accuracy", None)
    assert resolved("auto", [0] * 9 + [1]) == ("accuracy", None)  # a tenth is not under it
    name, note = resolved("auto", [0] * 19 + [1])
    assert name == "average_precision" and note is not None and "5.0 % of the training rows" in note
    assert resolved("auto", [0] * 30 + [1] * 30 + [2])[0] == "accuracy"
    assert resolve_metric(TrainingSettings(), np.eye(3, dtype=np.int8)) == ("micro_f1", None)


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_what_one_class_leaves_undefined_gives_way_to_log_loss_and_that_is_said(metric: str) -> None:
    name, note = resolved(metric, [0, 1, 1], [1, 1])
    assert name == "log_loss" and note is not None and "undefined" in note and "log-loss decides" in note
    assert resolved(metric, [0, 1, 1], [1, 0]) == (metric, None)
    many = resolve_metric(TrainingSettings(metric=metric), np.eye(2, dtype=np.int8), np.ones((3, 2), np.int8))  # type: ignore[arg-type]
    assert many[0] == "log_loss"
    assert resolved("auto", [0] * 19 + [1], [0, 0])[0] == "accuracy"


# Who is better


def test_results_are_ordered_by_the_metric_then_the_loss() -> None:
    low, high = {"loss": 0.5, "score": 0.9, "metric": 0.2}, {"loss": 0.7, "score": 0.1, "metric": 0.3}
    made = TrainingSettings(metric="roc_auc")
    assert better(high, low, made) and not better(low, high, made) and best_of({0: low, 1: high}, made) == 1
    assert better({**low, "loss": 0.4}, low, made) and not better(low, low, made)
    assert judged(low, TrainingSettings()) == 0.2 and judged({"loss": 1.0, "score": 0.9}, TrainingSettings()) == 0.9
    loss = TrainingSettings(metric="log_loss")
    assert judged({**low, "metric": 0.5}, loss) == -0.5 and better(low, high, loss)
    undefined = {"loss": 0.5, "score": 0.1}, {"loss": 0.6, "score": 0.9}  # without the number, the loss decides
    assert better(*undefined, made)
    assert ranked(low, TrainingSettings(monitor="loss")) == (-0.5, 0.0)
    assert best_of({3: {}, 4: {}}, made) == 3


def rare_graph() -> Graph:
    """Two in a hundred are positive; one feature tells them a little, thirty others tell nothing."""
    random, count = np.random.default_rng(1), 3000
    labels = (random.random(count) < 0.02).astype(np.int32)
    features = random.normal(size=(count, 31))
    features[:, 0] += 2 * labels
    split = Split.of(count, train=np.arange(600), valid=np.arange(600, count), test=[])
    return Graph.from_arrays(np.zeros((2, 0), np.int64), features, labels, split=split)


@pytest.mark.slow
def test_with_a_rare_class_accuracy_keeps_the_first_epoch_and_average_precision_does_not(tmp_path: Path) -> None:
    """All rows are said to be of the other class: no later epoch is more accurate, while the loss only rises."""
    common = {"propagation__hops": 0, "model__beta": 0, "model__dropout": 0.0, "training__patience": 4}
    by = {
        "accuracy": {"training__metric": "accuracy"},
        "smooth": {"training__metric": "average_precision", "training__monitor": "smooth", "training__window": 3},
        "auto": {},
    }
    found, told = {}, {}
    for name, changes in by.items():
        prepared = prepared_in(tmp_path, rare_graph(), **common, **changes, training__epochs=8)
        lines: list[dict[str, Any]] = []
        found[name], told[name] = fit_prepared(prepared, 0, Machine(), observe=lines.append), lines
        assert metric_of(prepared)[0] == ("accuracy" if name == "accuracy" else "average_precision")
        assert prepared.valid is not None
        share = float((prepared.valid.targets == 0).mean())
    assert found["accuracy"].epoch == 1 and found["accuracy"].stopped
    assert found["accuracy"].valid["score"] == pytest.approx(share)
    first = told["smooth"][0]["valid_metric"]
    for name in ("smooth", "auto"):
        assert found[name].epoch > 2 and found[name].valid["metric"] > 1.5 * first
