"""A recipe is chosen by validation rows alone; interrupted it goes on; where the simple answer will do, it says so."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, Split
from gamlp.run import LOCAL, as_source, run_path
from gamlp.training import Bundle, HopRows
from gamlp.tune import Leaderboard, choose, contender
from tests.training import typed_small
from tests.tune.planted import planted, portfolio, quick  # noqa: F401

pytestmark = pytest.mark.usefixtures("quick")


def bundles(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("seeds/*.safetensors"))}


def with_wrong_test_labels(graph: Graph) -> Graph:
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    values = labels.values.copy()
    values[split.test] = 1 - values[split.test]
    return graph.with_targets(labels=Labels(values, labels.classes, labels.class_type))


@pytest.mark.parametrize(
    ("kind", "chosen", "said"),
    [
        ("opposed", {"sign"}, "best of what was tried"),
        ("features", {"logistic-features"}, "surely better than"),
        ("noise", {"majority"}, "tell nothing of the labels"),
    ],
)
def test_what_is_planted_is_chosen_and_said(kind: str, chosen: set[str], said: str, tmp_path: Path) -> None:
    found = choose(planted(kind), tmp_path / "run")
    board = found.leaderboard
    assert board is not None and board.chosen in chosen, board.sentence
    assert said in board.sentence
    assert Leaderboard.read(tmp_path / "run") == board
    rows = {row.name: row for row in board.rows}
    assert {"majority", "logistic-features", "logistic-hops"} <= rows.keys(), "the simple answers are always there"
    assert all(row.error is not None and row.test is not None for row in rows.values() if row.state == "finished")
    if kind == "opposed":  # a weighted mean of hops loses what concatenation keeps
        assert rows["sign"].valid > rows["gamlp"].valid + 3 * rows["gamlp"].error


def test_the_run_goes_on_with_the_bundle_that_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = as_source(planted("features", 600)), tmp_path / "run"
    found = choose(source, out)
    assert found.leaderboard is not None
    chosen = (out / "portfolio" / found.leaderboard.chosen / "seeds" / "0.safetensors").read_bytes()
    monkeypatch.setattr("gamlp.run.engine.LocalEngine.fit", lambda *args, **more: pytest.fail("trained again"))
    outcome = run_path(source, found.recipe, out)
    assert (out / "bundle.safetensors").read_bytes() == chosen
    winner = found.leaderboard.winner
    assert outcome.test is not None and outcome.test["mean"]["score"] == pytest.approx(winner.test)
    again = choose(source, out)
    assert again == found and run_path(source, again.recipe, out).trained.recipe == outcome.trained.recipe


def test_test_rows_are_not_read_before_the_choice_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = planted("opposed", 600)
    assert graph.nodes.split is not None
    test, gather = graph.nodes.split.test, HopRows.gather

    def guarded(self: HopRows, positions: Any, *rest: Any) -> Any:
        read = np.isin(self.rows[positions], test).any()
        assert not read or (tmp_path / "one" / "leaderboard.json").exists(), "test rows before the choice"
        return gather(self, positions, *rest)

    monkeypatch.setattr(HopRows, "gather", guarded)
    first = choose(graph, tmp_path / "one")
    monkeypatch.setattr(HopRows, "gather", gather)
    second = choose(with_wrong_test_labels(graph), tmp_path / "two")
    assert first.recipe == second.recipe
    assert bundles(tmp_path / "one") == bundles(tmp_path / "two")
    assert first.leaderboard is not None and second.leaderboard is not None
    for one, other in zip(first.leaderboard.rows, second.leaderboard.rows):
        assert (one.name, one.valid, one.error) == (other.name, other.valid, other.error)
        assert one.test != other.test


@pytest.mark.long
@pytest.mark.slow
def test_a_choice_that_was_interrupted_anywhere_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [one.changed({"training.epochs": 6}) for one in portfolio() if one.name != "mlp"]
    monkeypatch.setattr("gamlp.tune.choosing.load_candidates", lambda: tuple(some))
    graph = planted("features", 150, valid=0.3)  # few validation rows: further splits are trained too
    whole = choose(graph, tmp_path / "whole")
    assert whole.leaderboard is not None and whole.leaderboard.splits > 1
    out, steps = tmp_path / "parts", 0

    class Killed(BaseException):
        pass

    for name in (
        "gamlp.tune.contender.Contender._fit",
        "gamlp.tune.contender.Contender.said",
        "gamlp.tune.leaderboard.Leaderboard.write",
        "gamlp.training.run_folder.RunFolder.keep",
        "gamlp.tune.choosing.adopt_trained",
    ):
        room, _, last = name.rpartition(".")
        holder: Any = pytest.importorskip(room) if last == "adopt_trained" else _class(room)
        real = getattr(holder, last)
        for before in (True, False):
            calls = 0

            def killed(*args: Any, real: Any = real, before: bool = before, **more: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == 2 and before:
                    raise Killed
                result = real(*args, **more)
                if calls == 2:
                    raise Killed
                return result

            monkeypatch.setattr(holder, last, killed)
            try:
                choose(graph, out)
            except Killed:
                steps += 1
            monkeypatch.setattr(holder, last, real)
    found = choose(graph, out)
    assert steps >= 5, "it was interrupted at several steps"
    assert found.recipe == whole.recipe and bundles(out) == bundles(tmp_path / "whole")
    assert found.leaderboard is not None
    assert _without_time(found.leaderboard) == _without_time(whole.leaderboard)


def _class(path: str) -> Any:
    import importlib

    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _without_time(board: Leaderboard) -> dict[str, Any]:
    content = board.model_dump(exclude={"seconds"})
    return content | {"rows": [{**row, "seconds": 0} for row in content["rows"]]}


def test_a_candidate_that_ends_in_an_error_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = contender.fit_prepared

    def sometimes(prepared: Any, *rest: Any, **more: Any) -> Any:
        if prepared.recipe.model.name == "mlp":
            raise RuntimeError("index_add_(): no\nmore of it")
        return fit(prepared, *rest, **more)

    monkeypatch.setattr(contender, "fit_prepared", sometimes)
    board = choose(planted("features", 300), tmp_path / "run").leaderboard
    assert board is not None and board.chosen != "mlp"
    (failed,) = (row for row in board.rows if row.state == "failed")
    assert failed.name == "mlp" and failed.why == "ended by an error of its own (RuntimeError: index_add_(): no)"


def test_one_model_where_nothing_can_be_chosen(tmp_path: Path) -> None:
    graph = planted("features", 600)
    split = graph.nodes.split
    assert split is not None
    fast = choose(graph, tmp_path / "run", preset="fast", metric="macro_f1", seed=3)
    assert fast.leaderboard is None and not fast.notes and not (tmp_path / "run").exists()
    assert fast.recipe.model.name == "gamlp" and fast.recipe.training.seeds == (3,)
    assert fast.recipe.training.metric == "macro_f1"
    without = graph.with_targets(split=Split(np.where(split.roles == 2, 0, split.roles).astype(np.int8)))
    found = choose(without, tmp_path / "run")
    assert found.leaderboard is None and "without validation rows" in found.notes[0]
    several = choose(graph, tmp_path / "run", resources=dataclasses.replace(LOCAL, processes=2))
    assert "one process" in several.notes[0]


def test_another_question_is_refused_in_a_sentence(tmp_path: Path) -> None:
    graph, out = planted("features", 600), tmp_path / "run"
    choose(graph, out)
    with pytest.raises(GamlpError, match="holds a choice for another graph; choose another --out"):
        choose(planted("noise", 600), out)
    with pytest.raises(GamlpError, match="metric or seed"):
        choose(graph, out, metric="macro_f1")
    with pytest.raises(GamlpError, match="there is no preset 'quick'"):
        choose(graph, out, preset="quick")  # type: ignore[arg-type]
    (out / "leaderboard.json").write_text((out / "leaderboard.json").read_text().replace("logistic", "Logistic", 1))
    with pytest.raises(GamlpError, match="damaged or no leaderboard"):
        choose(graph, out)
    run_path(as_source(graph), found := choose(graph, tmp_path / "fast", preset="fast").recipe, tmp_path / "fast")
    with pytest.raises(GamlpError, match="holds a run of a given recipe"):
        choose(graph, tmp_path / "fast")
    assert found.model.name == "gamlp"


def test_a_graph_of_several_relations_is_chosen_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [one.changed({"training.epochs": 5}) for one in portfolio() if one.name != "logistic-hops"]
    monkeypatch.setattr("gamlp.tune.choosing.load_candidates", lambda: tuple(some))
    source = as_source(typed_small.planted(96).graph())
    found = choose(source, tmp_path / "run")
    assert found.leaderboard is not None
    rows = {row.name: row for row in found.leaderboard.rows}
    assert all(rows[name].valid is not None for name in ("mlp", "gamlp", "gamlp-labels", "sign"))
    subsets = Bundle.load(tmp_path / "run/portfolio/gamlp/seeds/0.safetensors").recipe.relations.subsets
    assert isinstance(subsets, tuple) and {1, 3} == set(map(len, subsets)), "each relation, and all together"
    assert run_path(source, found.recipe, tmp_path / "run").trained.recipe == found.recipe


def test_another_graph_validates_and_metrics_of_rare_classes_try_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [one.changed({"training.epochs": 5}) for one in portfolio() if one.name in ("majority", "gamlp", "sign")]
    monkeypatch.setattr("gamlp.tune.choosing.load_candidates", lambda: tuple(some))
    graph, other = planted("opposed", 600), planted("opposed", 500, seed=1)
    found = choose(graph, tmp_path / "run", valid=other, metric="macro_f1")
    board = found.leaderboard
    assert board is not None and board.metric == "macro_f1" and other.nodes.split is not None
    assert board.valid_rows == len(other.nodes.split.valid) and board.splits == 1
    assert any(row.name.endswith("-balanced") for row in board.rows), "classes weighed, as one more candidate"


@pytest.mark.long
def test_a_choice_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    graph = planted("opposed", 600).save(tmp_path / "graph")
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "import gamlp.tune.choosing as choosing, gamlp.tune.portfolio as portfolio\n"
        "from tests.tune.planted import portfolio as few\n"
        "choosing.load_candidates, choosing.pace_for, portfolio.LEAST = few, lambda graph: {}, 1e6\n"
        f"choosing.choose({str(tmp_path / 'graph')!r}, {str(tmp_path / 'killed')!r})\n"
    )
    whole = choose(graph, tmp_path / "whole")
    kills, done = 0, False
    while not done:
        process = subprocess.Popen([sys.executable, "-c", script])
        try:
            done = process.wait(timeout=5 + 2.5 * kills) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert kills, "it was never killed"
    found = choose(graph, tmp_path / "killed")
    assert found.recipe == whole.recipe and bundles(tmp_path / "killed") == bundles(tmp_path / "whole")
