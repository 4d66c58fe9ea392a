"""Subsets of relations chosen by the search: on validation rows alone, from hops that all trials share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets.loading import load
from gamlp.recipe import Recipe, load_space
from gamlp.tune.search import Search, suggest_subsets
from tests.training.typed_small import RECIPE, planted
from tests.tune.test_search import space_file

pytest.importorskip("optuna", reason="the search comes with gamlp[tune]")

SUBSETS = [["cites"], ["appears-in"], ["writes"]]
TYPED = RECIPE.changed({"relations.subsets": SUBSETS, "training.epochs": 20, "training.batch_size": 64})


def typed_search(tmp_path: Path, graph: Graph | None = None, **changes: Any) -> Search:
    space = load_space(space_file(tmp_path, {"training.learning_rate": [0.05]}))
    settings = {"seeds": (0,), "confirm": 0, "select_subsets": True, **changes}
    return Search([planted(96).graph() if graph is None else graph], TYPED, space, tmp_path / "study", **settings)


def test_subsets_of_relations_are_chosen_by_validation_rows(tmp_path: Path) -> None:
    without = TYPED.changed({"relations.subsets": SUBSETS[:2]})
    turned = TYPED.changed({"relations.subsets": [["rev-writes"]]})
    search = typed_search(tmp_path, first=(without, turned))
    found = search.run(5)
    asked = [{key[7:]: value for key, value in trial.items() if key.startswith("subset ")} for trial in found.trials]
    assert asked[0] == {"cites": True, "appears-in": True, "writes": True}, "all of them first"
    assert asked[1] == {"cites": True, "appears-in": True, "writes": False}
    assert asked[2] == {"cites": False, "appears-in": False}, "where all others are out, the last is in unasked"
    assert [trial["subsets"] for trial in found.trials[:3]] == [
        "cites, appears-in, writes",
        "cites, appears-in",
        "writes",
    ]
    scores = [trial["valid"] for trial in found.trials[:3]]
    assert scores[1] < min(scores[0], scores[2]) - 0.2, "the class is in the authors' features alone"
    chosen = found.recipe.relations.subsets
    assert isinstance(chosen, tuple) and ("writes",) in chosen
    assert found.score == max(trial["valid"] for trial in found.trials if trial["state"] == "complete")
    assert Recipe.of(found.write(tmp_path / "found.yaml").with_suffix(".yaml")).relations.subsets == chosen


def test_hops_of_all_subsets_are_propagated_once_for_all_trials(tmp_path: Path) -> None:
    search = typed_search(tmp_path)
    kept: list[float] = []
    written: dict[Path, int] = {}
    for subsets in ([["writes"]], [["cites"], ["writes"]], SUBSETS):
        search.validate(TYPED.changed({"relations.subsets": subsets}), (0,), kept.append)
        shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "hops").rglob("*.npy")}
        assert not written or shards == written, "nothing is propagated again"
        written = shards
    folders = sorted(path.name.partition("-")[0] for path in (tmp_path / "study" / "hops").iterdir())
    assert folders == ["features", "labels"] and len(kept) == 3
    (tmp_path / "alone").mkdir()
    alone = typed_search(tmp_path / "alone", select_subsets=False)
    alone.validate(TYPED.changed({"relations.subsets": [["writes"]]}), (0,), kept.append)
    assert kept[3] == kept[0], "a trial reads its own subsets, as if there were no others"


def test_at_least_one_subset_is_in() -> None:
    optuna = pytest.importorskip("optuna")
    subsets = [("cites",), ("writes",), ("cites", "writes")]
    seen = set()
    for bits in range(8):
        fixed = {f"subset {'+'.join(subset)}": bool(bits >> at & 1) for at, subset in enumerate(subsets)}
        inside = suggest_subsets(optuna.trial.FixedTrial(fixed), subsets)
        expected = [subset for subset in subsets if fixed[f"subset {'+'.join(subset)}"]]
        assert inside == (expected or [subsets[-1]])
        seen.add(tuple(inside))
    assert len(seen) == 7


def test_test_labels_choose_no_subset(tmp_path: Path) -> None:
    case = planted(96)
    wrong = case.labels.copy()
    wrong[case.roles == 3] = (wrong[case.roles == 3] + 1) % 3
    scores: list[list[float]] = [[], []]
    for kept, labels in zip(scores, (case.labels, wrong)):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        graph = dataclasses.replace(case, labels=labels).graph()
        typed_search(folder, graph).validate(TYPED, (0, 1), kept.append)
    assert scores[0] == scores[1] and not np.array_equal(case.labels, wrong)


def test_a_study_with_and_without_chosen_subsets_are_different_questions(tmp_path: Path) -> None:
    typed_search(tmp_path).run(1)
    with pytest.raises(GamlpError, match="another recipe"):
        typed_search(tmp_path, select_subsets=False).run(2)
    with pytest.raises(GamlpError, match="graph 'digits' has one relation: there are no subsets to choose"):
        typed_search(tmp_path, load("digits")).run(1)


def test_the_verb_chooses_subsets_and_says_so(tmp_path: Path) -> None:
    from gamlp.cli.main import app
    from gamlp.graph.folder import save_graph

    save_graph(planted().graph(), tmp_path / "graph")
    out = tmp_path / "found.yaml"
    space = space_file(tmp_path, {"training.learning_rate": [0.05]})
    arguments = ["tune", str(tmp_path / "graph"), "--out", str(out), "--space", str(space), "--trials", "2"]
    arguments += ["--seeds", "1", "--confirm", "0", "--select-subsets"]
    for change in ("training.epochs=3", "model.hidden=8", "relations.missing=mean", "propagation.hops=1"):
        arguments += ["--set", change]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    chosen = Recipe.of(out).relations.subsets
    assert isinstance(chosen, tuple) and "subsets of relations: " in done.output
    assert all("+".join(subset) in done.output.replace("\n", "") for subset in chosen)
