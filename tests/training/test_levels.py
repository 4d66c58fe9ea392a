"""Scores counted by level: parts merge to the very counts of the whole, and rankings are scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from gamlp.training import RankedScores, RowScores, merge_ranked, report_of, state_of_ranked
from gamlp.training import scores as scores_file


def scored(count: int, levels: int, seed: int = 0) -> tuple[Any, Any]:
    """Scores with many ties, and what came true: the higher, the more often."""
    random = np.random.default_rng(seed)
    said = (random.integers(0, levels, count) / levels).astype(np.float32)
    return said, random.random(count) < said


@pytest.mark.parametrize("levels", [3, 40, 1_000_000])
def test_parts_in_any_order_are_the_whole(levels: int) -> None:
    said, true = scored(700, levels)
    whole, merged = RankedScores(), RankedScores()
    whole.add(said, true)
    for part in np.array_split(np.random.default_rng(1).permutation(700), 5):
        own = RankedScores()
        own.add(said[part[:9]], true[part[:9]])
        own.add(said[part[9:]], true[part[9:]])
        merge_ranked([merged], state_of_ranked([own]))
    for name in ("values", "hits", "falls"):
        assert np.array_equal(getattr(merged.levels(), name), getattr(whole.levels(), name))
    found = merged.levels()
    assert found.roc_auc == pytest.approx(metrics.roc_auc_score(true, said))
    assert found.average_precision == pytest.approx(metrics.average_precision_score(true, said))
    assert found.turned().average_precision == pytest.approx(metrics.average_precision_score(~true, -said))
    assert found.turned().roc_auc == pytest.approx(found.roc_auc)


def test_several_are_told_together_with_small_counts() -> None:
    first, second, none = RankedScores(), RankedScores(), RankedScores()
    first.add(*scored(50, 5))
    second.add(*scored(300, 1, seed=2))
    state = state_of_ranked([first, second, none])
    assert state["ends"].tolist() == [5, 6, 6] and state["hits"].dtype == np.uint8
    again = [RankedScores() for _ in range(3)]
    merge_ranked(again, state)
    assert again[1].levels().falls.tolist() == second.levels().falls.tolist() and not len(again[2])
    assert np.isnan(again[2].levels().roc_auc) and np.isnan(again[2].levels().average_precision)


@pytest.mark.parametrize("kind", ["two classes", "classes", "many labels"])
def test_a_report_of_parts_is_that_of_all_rows(kind: str) -> None:
    random = np.random.default_rng(3)
    columns = 2 if kind == "two classes" else 4
    probabilities = random.dirichlet(np.ones(columns), 500).astype(np.float32)
    target: Any = (random.random((500, columns)) < 0.4).astype(np.int8)
    if kind != "many labels":
        target = np.array([random.choice(columns, p=row / row.sum()) for row in probabilities.astype(float)])
    merged = RowScores(500, target.ndim == 2)
    for part in np.array_split(np.arange(500), 7):
        own = RowScores(500, target.ndim == 2)
        own.add(probabilities[part], target[part])
        merged.merge(own.state())
    expected = report_of(probabilities, target)
    assert {"roc_auc", "average_precision", "ece"} <= expected.keys()
    assert merged.report() == pytest.approx(expected, rel=1e-12)


def test_of_more_rows_than_are_kept_no_part_keeps_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_file, "MOST_KEPT", 100)
    found = RowScores(101, False)  # of all parts together: this one has ten
    found.add(np.full((10, 2), 0.5, np.float32), np.arange(10) % 2)
    assert "ece" not in found.report() and "roc_auc" not in found.report() and found.report()["score"] == 0.5
