"""Sentences from plain numbers: each is there when its number asks for it, and not there when it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gamlp.report.words import ClassFound, Constant, Facts, Ranked, Score, loss_doubts, words_of

GOOD = Facts(
    classes=7,
    nodes=2708,
    unlabelled=2068,
    levels={"with a probability of 90 % or more": 1034},
    score=Score("test", 1000, "accuracy", 0.815, 0.012),
    constant=Constant("the answer 'Theory'", 0.302, 0.513, 0.017),
    valid=Score("valid", 500, "accuracy", 0.82, 0.017),
    sure=0.80,
    found=[ClassFound("Theory", 300, 250), ClassFound("rare", 4, 0)],
    lines=[{"epoch": epoch, "loss": 2 / epoch, "valid_loss": 2.2 / epoch} for epoch in range(1, 40)],
    epoch=30,
    agreement=(0.81, 0.18, 5000),
)


def doubts(**changes: Any) -> str:
    return " ".join(words_of(replace(GOOD, **changes)).doubts)


def test_a_good_run_is_told_with_nothing_to_doubt() -> None:
    words = words_of(GOOD)
    assert words.doubts == () and words.better is True
    assert words.said == (
        "One of 7 classes was predicted for 2,708 nodes; 2,068 of them have no known label, "
        "50 % of those with a probability of 90 % or more.",
        "Accuracy of 1,000 test rows is 81.5 % (standard error 1.2).",
        "The answer 'Theory' for every node would have 30.2 %: the model is 51.3 points (± 1.7) better.",
    )
    assert words.sentences == list(words.said)


def test_a_model_that_is_no_better_than_one_answer_is_not_to_be_trusted() -> None:
    same = Constant("the answer 'no'", 0.781, 0.004, 0.005)
    words = words_of(replace(GOOD, constant=same))
    assert words.better is False and "points" not in " ".join(words.said)
    assert words.doubts[0] == (
        "No better than the answer 'no' for every node, which has 78.1 %: it is 0.4 points (± 0.5) ahead; "
        "the labels should not be trusted."
    )
    assert "0.4 points (± 0.5) behind" in doubts(constant=replace(same, ahead=-0.004))


def test_an_order_that_is_better_than_chance_is_told_where_labels_are_not() -> None:
    same = Constant("the answer 'no'", 0.95, 0.0, 0.002)
    ranked = Ranked("yes", 0.05, 2000, 0.81, 0.32)
    words = words_of(replace(GOOD, constant=same, ranked=ranked))
    assert words.better is True and "the order by probability is informative" in words.doubts[0]
    assert words.said[-1] == (
        "Sorted by the probability of 'yes' (5.0 % of rows), ROC-AUC is 81.0 % and average precision 32.0 %; "
        "chance has 50.0 % and 5.0 %."
    )
    guess = replace(ranked, roc_auc=0.53)  # of 100 positive rows within two standard errors
    assert words_of(replace(GOOD, constant=same, ranked=guess)).better is False


def test_the_error_of_roc_auc_is_that_of_many_draws() -> None:
    random = np.random.default_rng(0)
    true = np.arange(400) < 80
    areas = [roc_auc_score(true, random.normal(size=400) + 1.0 * true) for _ in range(100)]
    assert Ranked("a", 0.2, 400, float(np.mean(areas)), 0.5).error == pytest.approx(np.std(areas), rel=0.25)


def row(name: str, test: float | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "title": name.upper(), "valid": 0.5, "test": test, "simple": False, **more}


def test_simple_answers_stand_beside_the_chosen_one() -> None:
    rows = [row("gamlp", 0.9), row("majority", 0.3, simple=True), row("logistic", 0.8, simple=True), row("x", None)]
    board = {
        "metric": "roc_auc",
        "title": "ROC-AUC",
        "chosen": "gamlp",
        "sentence": "gamlp is better beyond chance",
        "rows": rows,
    }
    said = words_of(replace(GOOD, board=board)).said[-2:]
    assert said == (
        "ROC-AUC on test rows: GAMLP 90.0 %; simple answers: MAJORITY 30.0 %, LOGISTIC 80.0 %.",
        "Gamlp is better beyond chance.",
    )
    rows[2]["title"] = "Logistic regression"
    assert "LOGISTIC" not in words_of(replace(GOOD, board=board)).said[-2]
    assert "MAJORITY 30.0 %, logistic regression 80.0 %" in words_of(replace(GOOD, board=board)).said[-2]
    rows[1]["test"] = None  # where test rows were not read, validation tells
    assert "ROC-AUC on validation rows: GAMLP 50.0 %" in " ".join(words_of(replace(GOOD, board=board)).said)
    alone = {**board, "chosen": "majority", "rows": rows[1:2], "sentence": ""}
    assert words_of(replace(GOOD, board=alone)).said == words_of(GOOD).said


def test_losses_that_burst_rise_or_break_off() -> None:
    def lines(loss: list[float | None], valid: list[float | None]) -> list[dict[str, Any]]:
        return [{"epoch": at, "loss": one, "valid_loss": two} for at, (one, two) in enumerate(zip(loss, valid), 1)]

    assert loss_doubts(lines([2, 1, 0.5], [2, 1.5, 7]), 2, {}) == []
    (rise,) = loss_doubts(lines([2, 1, 0.1], [2, 0.5, 2.6]), 2, {})
    assert "rose from 0.5 (epoch 2) to 2.6 (epoch 3), 5-fold" in rise and rise.endswith("epoch 2 are kept.")
    (late,) = loss_doubts(lines([2, 1, 0.1], [2, 0.5, 2.6]), 3, {})
    assert late.endswith("epoch 3 are kept, where it is 2.6.")
    assert loss_doubts(lines([2, 1], [5, 0.5]), 2, {}) == []  # a loss that falls fivefold
    (burst,) = loss_doubts(lines([2, 900.0, 1], [None, None, None]), 3, {})
    assert "burst from 2 to 900 in epoch 2" in burst
    assert loss_doubts([], 0, {1: "the loss became NaN"}) == ["Training of seed 1 broke off: the loss became NaN."]


def test_classes_that_are_hardly_found_are_named_with_their_rows() -> None:
    found = [ClassFound("a", 100, 90), ClassFound("b", 40, 3), ClassFound("c", 60, 0), ClassFound("d", 50, 5)]
    assert doubts(found=found) == "Hardly found: 'c' (0 of 60 rows) and 'b' (3 of 40 rows); 2 classes of 4."
    many = [ClassFound(f"c{at}", 10, 0) for at in range(9)]
    assert "'c2' (0 of 10 rows) and 6 more; 9 classes of 9." in doubts(found=many)
    new = [ClassFound("a", 100, 90), ClassFound("new", 40, 0, trained=False)]
    assert doubts(found=new) == "No training row has the class 'new': never learned."


def test_neighbours_that_disagree_beside_what_chance_gives() -> None:
    assert (
        "Labels of neighbours tell little: 22.0 % of edges between training nodes join equal labels, hardly more often"
        in doubts(agreement=(0.22, 0.2, 5000))
    )
    assert (
        "Neighbours disagree: 20.0 % of edges between training nodes join equal labels, less often than by"
        in doubts(agreement=(0.2, 0.5, 5000))
    )
    assert "of a training node's labels 22.0 % are" in doubts(agreement=(0.22, 0.2, 5000), multi_label=True)
    assert "(rows drawn at random)" in doubts(agreement=(0.22, 0.2, 5000), sampled=True)
    assert doubts(agreement=(0.22, 0.2, 20)) == ""  # too few edges to say


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flat": ["weights over hops are flat"]}, "Weights over hops are flat."),
        ({"silent_labels": 2000}, "The label branch is dead: without it none of 2,000 nodes would get another answer"),
        ({"dropped": [("name", "free text"), ("key", "an id")]}, "Not used as features: name (free text) and key (an"),
        ({"sure": 0.95}, "Probabilities are too sure of themselves: 95.0 % in the mean, where 81.5 % of the answers"),
        ({"sure": 0.6}, "Probabilities are too modest"),
        ({"score": Score("test", 40, "accuracy", 0.8, 0.06)}, "Only 40 test rows with known labels: the score may be"),
        ({"valid": Score("valid", 500, "accuracy", 0.95, 0.01)}, "Validation promised more: 95.0 % of 500 rows, where"),
    ],
)
def test_each_doubt_has_its_reason(changes: dict[str, Any], said: str) -> None:
    assert said in doubts(**changes)


def test_without_scored_rows_nobody_knows_how_good_it_is() -> None:
    words = words_of(Facts(classes=3))
    assert words.better is None and words.doubts == ()
    assert words.said == ("No row with a known label was left to score: how good the predictions are is not known.",)


def test_validation_rows_flatter() -> None:
    said = words_of(replace(GOOD, score=Score("valid", 500, "micro-F1", 0.5, None, 3))).said[1]
    assert said == (
        "Micro-F1 of 500 validation rows is 50.0 %, mean of 3 seeds. They also chose the epoch, so this flatters."
    )
