"""NodeClassifier without a recipe: a choice among models, and a leaderboard."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.classifier import NodeClassifier
from gamlp.classifier.choosing import leaderboard_frame
from gamlp.errors import GamlpError
from gamlp.graph.datasets import load
from gamlp.tune import Leaderboard, LeaderboardRow
from tests.training.small import make_graph
from tests.tune.few import few_candidates

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


@pytest.mark.slow
def test_without_a_recipe_the_best_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the kept model is not the leaderboard's, or a second fit there trains anew."""
    few_candidates(monkeypatch)
    graph = make_graph()
    model = NodeClassifier(folder=tmp_path).fit(graph)
    board = model.leaderboard()
    (chosen,) = board[board["chosen"]].to_dict("records")
    assert chosen["test"] == pytest.approx(model.score()) and {"majority", "logistic-hops"} <= set(board["name"])
    assert model.leaderboard_ is not None and model.leaderboard_.metric == "accuracy"
    assert np.array_equal(model.predict(graph), model.predict())
    monkeypatch.setattr("gamlp.tune.contender.Contender._fit", lambda *_, **__: pytest.fail("trained again"))
    again = NodeClassifier(folder=tmp_path).fit(graph)
    assert np.array_equal(again.predict_proba(), model.predict_proba())
    monkeypatch.undo()
    few_candidates(monkeypatch)
    other = NodeClassifier(folder=tmp_path, metric="macro_f1").fit(make_graph(1))
    assert other.leaderboard_ is not None and other.leaderboard_.metric == "macro_f1"
    loaded = NodeClassifier.load(model.save(tmp_path / "model.safetensors"))
    assert np.array_equal(loaded.predict(graph), model.predict()) and loaded.leaderboard_ is None
    kept = pickle.loads(pickle.dumps(model))
    assert kept.leaderboard_ == model.leaderboard_
    (run,) = (path for path in tmp_path.glob("chosen-*") if Leaderboard.read(path) == model.leaderboard_)
    assert NodeClassifier.load(run).leaderboard()["name"].tolist() == board["name"].tolist()


def test_fast_trains_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    few_candidates(monkeypatch)
    model = NodeClassifier(preset="fast", metric="log_loss").fit(make_graph())
    assert model.leaderboard_ is None and model.bundle_.recipe.training.metric == "log_loss"
