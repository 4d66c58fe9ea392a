"""`gamlp run` without a recipe: what is tried, what is printed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gamlp.cli.show.leaderboard import show_leaderboard
from gamlp.graph import Split
from gamlp.tune import Leaderboard, LeaderboardRow
from tests.cli.people import Call
from tests.training.small import make_graph, with_nodes
from tests.training.typed_small import planted
from tests.tune.few import few_candidates

BOARD = Leaderboard(
    preset="default", metric="roc_auc", chosen="sign-3", recipe={}, valid_rows=200,
    sentence="SIGN is the best of what was tried.",
    rows=[
        LeaderboardRow(
            name="sign-3", title="SIGN, 3 hops", valid=0.8912, error=0.012, test=0.9, seconds=3.21, bytes=12345
        ),
        LeaderboardRow(name="majority", title="the most frequent class", valid=0.5, error=0.0, test=0.5, simple=True),
        LeaderboardRow(name="jk-10", title="GAMLP, 10 hops", valid=0.7, seconds=0.5, parameters=99, state="dropped"),
        LeaderboardRow(name="jk-3", title="GAMLP, 3 hops", state="dropped"),
        LeaderboardRow(name="lightgbm", title="LightGBM", state="left out", why="lightgbm is not installed."),
    ],
)  # fmt: skip


def test_the_leaderboard_as_a_person_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where the chosen model is not marked, a number is not in per cent, or one that is not known is shown."""
    show_leaderboard(BOARD)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line]
    assert lines == [
        "What was tried, by ROC-AUC, % of validation rows; → is kept",
        "model validation test seconds size",
        "→ SIGN, 3 hops 89.12 ± 1.20 90.00 3.2 12.1 KiB",
        "the most frequent class 50.00 ± 0.00 50.00 0.0 0 B",
        "not taken to the end, and the best until then: GAMLP, 10 hops (70.00)",
        "not trained, the time was over: GAMLP, 3 hops",
        "left out: LightGBM: lightgbm is not installed.",
        BOARD.sentence,
    ]


def test_a_loss_is_no_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    show_leaderboard(BOARD.model_copy(update={"metric": "log_loss"}))
    assert "0.8912 ± 0.0120" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--preset best --recipe jk",
            "--preset is for a choice among models, and with --recipe nothing is chosen; leave out --preset",
        ),
        (
            "--time-limit 5m --model sign",
            "--time-limit is for a choice among models, and with --model nothing is chosen",
        ),
        ("--preset fast --seeds 3", "--preset is for a choice among models, and with --seeds nothing is chosen"),
        ("--preset slow", "there is no preset 'slow'; choose from fast, default, best"),
        ("--time-limit soon", "'soon' is not a time; write a number with a unit, such as 90s, 30m or 2h"),
        ("--metric rocauc", "there is no metric 'rocauc': did you mean 'roc_auc'?"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(options: str, said: str, call: Call, tmp_path: Path) -> None:
    ended = call(f"run karate --out mine {options}")
    assert ended.code == 2 and said in ended.err and ended.err.count("\n") == 1 and ended.out == ""
    assert not (tmp_path / "mine").exists()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    few_candidates(monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_run_without_a_recipe_chooses_and_says_so(call: Call, tmp_path: Path) -> None:
    """Fails where the winner is trained anew, the simple answers are missing, or the sentence is not printed."""
    make_graph().save(tmp_path / "graph")
    told = json.loads(call("run graph --out mine --json").out)
    board = told["leaderboard"]
    rows = {row["name"]: row for row in board["rows"]}
    assert {"majority", "logistic-features", "logistic-hops"} <= set(rows) and told["recipe"] == board["chosen"]
    assert all(0 <= row["test"] <= 1 for row in rows.values() if row["state"] == "finished")
    bundle = (tmp_path / "mine/bundle.safetensors").read_bytes()
    again = call("run graph --out mine")
    assert again.code == 0 and board["sentence"] in again.out and f"→  {rows[board['chosen']]['title']}" in again.out
    assert "validation" in again.out and (tmp_path / "mine/bundle.safetensors").read_bytes() == bundle
    ended = call("run graph --out mine --metric macro_f1")
    assert ended.code == 2 and "choose another --out" in ended.err and ended.err.count("\n") == 1
    ended = call("run graph --out mine --recipe jk")
    assert ended.code == 2 and "another recipe" in ended.err
    assert call("predict mine --out labels.csv").code == 0 and call("evaluate mine").code == 0
    ended = call("run graph --warm mine --out later")
    assert ended.code == 0, ended.err


@pytest.mark.usefixtures("few")
def test_where_nothing_can_be_compared_one_model_is_trained_and_that_is_said(call: Call, tmp_path: Path) -> None:
    graph = make_graph()
    assert graph.nodes.split is not None
    roles = graph.nodes.split.roles.copy()
    roles[roles == 2] = 1
    with_nodes(graph, split=Split(roles)).save(tmp_path / "graph")
    told = json.loads(call("run graph --out mine --json").out)
    assert told["leaderboard"] is None and "without validation rows" in told["notes"][0]
    ended = call("run karate --preset fast --metric macro_f1 --out fast")
    assert ended.code == 0 and "note: one model" not in ended.out and "What was tried" not in ended.out


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_several_relations_are_chosen_from_too(call: Call, tmp_path: Path) -> None:
    planted().graph().save(tmp_path / "typed")
    ended = call("run typed --out mine")
    assert ended.code == 0 and "What was tried" in ended.out, ended.err
