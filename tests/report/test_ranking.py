"""Curves from counts by probability, against scikit-learn's of all probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from gamlp.report.ranking import Ranking


@pytest.mark.parametrize("rare", [0.3, 0.01])
def test_areas_are_those_of_all_probabilities_to_the_width_of_a_step(rare: float) -> None:
    random = np.random.default_rng(0)
    true = random.random(20_000) < rare
    odds = random.normal(size=len(true)) * 1.5 + 2 * true - 3 + np.log(rare)
    second = (1 / (1 + np.exp(-odds))).astype(np.float32)
    probabilities, target = np.stack([1 - second, second], 1), true.astype(np.int64)
    ranking = Ranking((1,))
    for begin in range(0, len(target), 3000):
        ranking.add(probabilities[begin : begin + 3000], target[begin : begin + 3000])
    (curve,) = ranking.curves().values()
    assert curve.roc_auc == pytest.approx(roc_auc_score(true, second), abs=1e-3)
    assert curve.average_precision == pytest.approx(average_precision_score(true, second), abs=5e-3)
    assert (curve.rows, curve.positive) == (len(true), true.sum())
    fallout, recall, _ = roc_curve(true, second)
    np.testing.assert_allclose(np.interp(curve.roc[0], fallout, recall), curve.roc[1], atol=0.02)
    content = curve.content()
    for name in ("roc", "precision"):
        x, y = content[name]
        assert len(x) == len(y) <= 102 and x == sorted(x) and x[-1] == 1 and min(y) >= 0 and max(y) <= 1


def test_probabilities_of_zero_and_one_and_ties_are_counted() -> None:
    ranking = Ranking((0, 1, 2))
    probabilities = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], np.float32)
    ranking.add(probabilities, np.array([0, 1, 1, 0]))
    curves = ranking.curves()
    assert set(curves) == {0, 1}  # no row is of class 2
    assert ranking.counts.sum() == 12
    assert curves[0].roc_auc == pytest.approx(roc_auc_score([1, 0, 0, 1], probabilities[:, 0]))
    assert curves[1].average_precision == pytest.approx(average_precision_score([0, 1, 1, 0], probabilities[:, 1]))


def test_of_many_labels_each_class_has_its_own_rows() -> None:
    random = np.random.default_rng(1)
    target = (random.random((500, 3)) < 0.4).astype(np.float32)
    probabilities = np.clip(0.3 * target + 0.7 * random.random(target.shape), 0, 1)
    ranking = Ranking((2, 0))
    ranking.add(probabilities, target)
    for number, curve in ranking.curves().items():
        assert curve.roc_auc == pytest.approx(roc_auc_score(target[:, number], probabilities[:, number]), abs=2e-3)
