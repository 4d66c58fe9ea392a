"""Standard errors by the bootstrap: of a share they are those of the formula, and of a difference they are paired."""

from __future__ import annotations

import numpy as np
import pytest

from gamlp.recipe import Recipe
from gamlp.training import Said
from gamlp.tune.candidates import Candidate
from gamlp.tune.uncertainty import Validated
from gamlp.tune.verdict import Finalist, decide


def said(right: np.ndarray, rows: np.ndarray | None = None) -> Said:
    """Of rows of class 1, right or wrong."""
    sure = np.where(right, 0.9, 0.1)
    return Said(
        np.arange(len(right)) if rows is None else rows, np.stack([1 - sure, sure], 1), np.ones(len(right), int)
    )


def flips(count: int, share: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(count) < share


@pytest.mark.parametrize("count", [400, 4000, 40_000])
def test_the_error_of_a_share_is_that_of_the_formula(count: int) -> None:
    one = Validated("accuracy", (said(flips(count, 0.8)),))
    assert one.error == pytest.approx((0.8 * 0.2 / count) ** 0.5, rel=0.25)


def test_what_two_models_find_hard_cancels() -> None:
    base = flips(1000, 0.7)
    better = base.copy()
    better[np.flatnonzero(~base)[:20]] = True
    one, other = Validated("accuracy", (said(better),)), Validated("accuracy", (said(base),))
    assert one.error_against(other) < 0.5 * one.error
    assert one.error_against(one) == 0


def test_rows_of_several_splits_are_not_taken_for_independent() -> None:
    right = flips(300, 0.8)
    once, often = Validated("accuracy", (said(right),)), Validated("accuracy", (said(right),) * 5)
    assert often.gain == once.gain and often.error == pytest.approx(once.error)


def finalist(name: str, order: int, right: np.ndarray, simple: bool = False) -> Finalist:
    candidate = Candidate(name, name.upper(), order, "simple" if simple else "other", (), Recipe())
    return Finalist(candidate, Validated("accuracy", (said(right),)))


def test_the_simplest_answer_is_kept_unless_another_is_surely_better() -> None:
    base = flips(500, 0.6)
    little, much = base.copy(), base.copy()
    little[np.flatnonzero(~base)[0]] = True
    much[np.flatnonzero(~base)[:60]] = True
    majority, logistic = finalist("majority", 0, base, True), finalist("logistic", 10, little, True)
    ruling = decide([finalist("gamlp", 60, little), logistic, majority])
    assert ruling.chosen.name == "majority" and not ruling.surely
    assert "may be chance" in ruling.sentence and "tell nothing of the labels" in ruling.sentence
    ruling = decide([majority, logistic, finalist("gamlp", 60, much)])
    assert ruling.chosen.name == "gamlp" and ruling.surely and "11.8 ±" in ruling.sentence
    ruling = decide([majority, finalist("logistic", 10, much, True), finalist("gamlp", 60, much)])
    assert ruling.chosen.name == "logistic" and "surely better than LOGISTIC" in ruling.sentence
