"""Scores counted by level: parts merge to the very counts of the whole, and rankings are scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from gamlp.training import RankedScores, RowScores, merge_ranked, report_of, state_of_ranked
from gamlp.training import levels as levels_file


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


def test_of_very_many_probabilities_levels_are_few_and_measures_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(5)
    odds = np.concatenate([random.normal(-6, 3, 30_000), random.normal(2, 4, 10_000)])  # many near 0, some near 1
    said = (1 / (1 + np.exp(-odds))).astype(np.float32)
    true = random.random(len(said)) < said
    probabilities, target = np.stack([1 - said, said], 1), true.astype(np.int64)
    exact = report_of(probabilities, target)
    monkeypatch.setattr(levels_file, "MOST_EXACT", 20_000)
    parts = [RowScores(len(target), False) for _ in range(4)]
    for number, part in enumerate(parts):
        for begin in range(10_000 * number, 10_000 * (number + 1), 1000):
            part.add(probabilities[begin : begin + 1000], target[begin : begin + 1000])
    merged = RowScores(len(target), False)
    for part in parts:
        state = part.state()
        assert len(state["ranked/values"]) <= 5000 and len(state["said/values"]) <= 5000
        merged.merge(state)
    found = merged.report()
    assert found == pytest.approx(exact, abs=2e-4) and found["roc_auc"] == pytest.approx(exact["roc_auc"], abs=1e-5)
    whole = report_of(probabilities, target)
    assert found == pytest.approx(whole, rel=1e-12), "the parts that rows come in change nothing"
