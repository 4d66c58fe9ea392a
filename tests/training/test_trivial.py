"""Constant answers against scikit-learn's DummyClassifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score, f1_score, log_loss

from gamlp.training.trivial import class_counts, trivial_scores


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_one_label_a_node(classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.ones(classes))
    train, target = (random.choice(classes, size, p=shares) for size in (300, 80))
    train[:classes] = np.arange(classes)
    found = trivial_scores(class_counts(train, classes), len(train), target)
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((len(train), 1)), train)
    given = np.zeros((len(target), 1))
    assert found["score"] == accuracy_score(target, dummy.predict(given))
    assert found["loss"] == pytest.approx(log_loss(target, dummy.predict_proba(given), labels=np.arange(classes)))
    assert found["macro_f1"] == pytest.approx(f1_score(target, dummy.predict(given), average="macro"))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(target, dummy.predict(given)))
    one = dummy.predict_proba(given)
    rare = int(np.bincount(train).argmin())
    classes_asked = [rare] if classes == 2 else [c for c in range(classes) if 0 < (target == c).mean() < 1]
    expected = np.mean([average_precision_score(target == c, one[:, c]) for c in classes_asked])
    assert found["average_precision"] == pytest.approx(expected) and found["roc_auc"] == 0.5


def test_the_most_frequent_class_of_training_may_not_occur() -> None:
    found = trivial_scores(np.array([5, 1, 0]), 6, np.array([1, 1, 2]))
    assert found["score"] == 0 and found["macro_f1"] == 0 and np.isfinite(found["loss"])
    assert trivial_scores(np.array([5, 1]), 6, np.zeros(0, np.int64)) == {}


def test_many_labels_a_node() -> None:
    random = np.random.default_rng(0)
    shares = np.array([0.8, 0.45, 0.1, 0.02])
    train, target = ((random.random((size, 4)) < shares).astype(np.int8) for size in (500, 90))
    found = trivial_scores(class_counts(train, 4), len(train), target)
    best = max(range(1, 5), key=lambda most: f1_score(train, np.tile(np.arange(4) < most, (500, 1)), average="micro"))
    said = np.tile(np.arange(4) < best, (90, 1))
    assert found["score"] == pytest.approx(f1_score(target, said, average="micro")) and best == 2
    assert found["macro_f1"] == pytest.approx(f1_score(target, said, average="macro"))
    frequent = np.tile(train.mean(0), (90, 1))
    expected = -np.where(target > 0, np.log(frequent), np.log(1 - frequent)).mean()
    assert found["loss"] == pytest.approx(expected)
