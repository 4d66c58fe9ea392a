"""NodeClassifier without a recipe: a choice among models, and a leaderboard."""

from __future__ import annotations

from typing import Any

import pytest

from gamlp.classifier import NodeClassifier
from gamlp.classifier.choosing import leaderboard_frame
from gamlp.errors import GamlpError
from gamlp.graph.datasets import load
from gamlp.tune import Leaderboard, LeaderboardRow

QUICK = {"training": {"epochs": 2}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"recipe": QUICK, "preset": "best"}, "'preset' is for a choice among models, and the recipe names one"),
        ({"recipe": QUICK, "time_limit": "5m"}, "leave out time_limit, or the recipe"),
        ({"preset": "slow"}, "there is no preset 'slow'"),
        ({"time_limit": "soon"}, "'soon' is not a time"),
        ({"metric": "auc"}, "there is no metric 'auc'"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(given: dict[str, Any], said: str) -> None:
    model = NodeClassifier(**given)  # the constructor stores
    with pytest.raises(GamlpError) as error:
        model.fit(load("karate"))
    assert said in str(error.value)


def test_a_leaderboard_is_a_frame() -> None:
    rows = [LeaderboardRow(name=name, title=name, valid=valid) for name, valid in (("a", 0.5), ("b", 0.7))]
    board = Leaderboard(
        preset="default", metric="accuracy", chosen="b", sentence="", recipe={}, valid_rows=9, rows=rows
    )
    frame = leaderboard_frame(board)
    assert frame["chosen"].tolist() == [False, True] and frame["valid"].tolist() == [0.5, 0.7]


def test_with_a_recipe_nothing_is_compared() -> None:
    model = NodeClassifier(QUICK).fit(load("karate"))
    assert model.leaderboard_ is None
    with pytest.raises(GamlpError, match="one model was trained, and none was compared"):
        model.leaderboard()
