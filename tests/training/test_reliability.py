"""Bins of equal mass and the expected calibration error, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gamlp.training.reliability import calibration_error, reliability_of, said_and_true


def test_two_bins_by_hand() -> None:
    said, true = np.array([0.9, 0.2, 0.8, 0.4]), np.array([True, False, False, True])
    found = reliability_of(said, true, bins=2)
    assert found.rows.tolist() == [2, 2]
    assert found.said == pytest.approx([0.3, 0.85]) and found.true == pytest.approx([0.5, 0.5])
    assert calibration_error(found) == pytest.approx((2 * 0.2 + 2 * 0.35) / 4)
    assert found.as_json()[0] == {"rows": 2, "said": pytest.approx(0.3), "true": 0.5}


def test_equal_probabilities_share_a_bin_and_the_order_of_rows_changes_nothing() -> None:
    random = np.random.default_rng(0)
    said, true = random.integers(0, 7, 200) / 7, random.random(200) < 0.4
    found = reliability_of(said, true)
    assert sorted(found.rows[found.rows > 0].tolist()) == sorted(np.unique(said, return_counts=True)[1].tolist())
    order = random.permutation(200)
    again = reliability_of(said[order], true[order])
    assert np.array_equal(found.rows, again.rows) and calibration_error(again) == pytest.approx(
        calibration_error(found)
    )
    spread = reliability_of(random.random(1000), true.repeat(5))
    assert spread.rows.min() >= 66 and spread.rows.max() <= 67 and spread.rows.sum() == 1000


def test_what_is_said_of_two_classes_of_more_and_of_many_labels() -> None:
    two, of_two = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([0, 0])
    assert [part.tolist() for part in said_and_true(two, of_two)] == [[0.3, 0.6], [False, False]]
    assert [part.tolist() for part in said_and_true(two, of_two, 0)] == [[0.7, 0.4], [True, True]]
    three = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    assert [part.tolist() for part in said_and_true(three, np.array([1, 2]))] == [[0.5, 0.6], [True, False]]
    many = said_and_true(np.array([[0.9, 0.2]]), np.array([[1, 0]]))
    assert [part.tolist() for part in many] == [[0.9, 0.2], [True, False]]
    assert calibration_error(reliability_of(np.zeros(0), np.zeros(0, bool))) == 0
