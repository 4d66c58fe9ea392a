"""The search itself: on objectives whose best is known, and once on a real graph; resumed, shared, judged honestly."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import runpy
import sys
import time
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import yaml

from gamlp.bench.search import CellSearch, SearchCell, Validation, cells_of, chosen_cells
from gamlp.bench.search.trials import Line
from gamlp.errors import GamlpError
from gamlp.recipe import Choice, Recipe
from gamlp.tune.drawing import draw

pytest.importorskip("optuna")
ROOT = Path(__file__).parents[3]
PLAN = ROOT / "benchmarks" / "search.yaml"
SPACE = {
    "training.learning_rate": Choice(low=1e-4, high=1.0, log=True),
    "model.layers": Choice(choices=[1, 2, 3]),
}


def cell(name: str = "toy", *, after: str | None = None, first: int = 1, dataset: str = "digits") -> SearchCell:
    base = Recipe().changed({"training.learning_rate": 0.5, "model.layers": 1})
    tries = tuple(("lead", base.changed({"model.hidden": 8 * (1 + number)})) for number in range(first))
    return SearchCell(name, dataset, "jk", SPACE, base, {}, () if after else tries, None, 10, after=after)


class Objective:
    """Best at a learning rate of 0.01 with two layers: 0.85; runs differ by 0.005, splits by `easier` at most."""

    def __init__(self, seconds: float = 1.0, easier: float = 0.0) -> None:
        self.seconds, self.easier = seconds, easier

    def __call__(self, cell: SearchCell, recipe: Recipe, replicate: int) -> Line:
        noise = np.random.default_rng(crc32(recipe.explicit_yaml().encode()) + replicate).normal(0, 0.005)
        score = truth(recipe) + noise + self.easier * math.sin(replicate)
        return {"score": float(score), "loss": 1 - float(score), "seconds": self.seconds}


def truth(recipe: Recipe) -> float:
    return 0.85 - 0.02 * abs(math.log10(recipe.training.learning_rate) + 2) - 0.03 * (recipe.model.layers != 2)


def quiet(_: str) -> None: ...


@pytest.mark.parametrize(("dataset", "easier"), [("digits", 0.0), ("amazon-photo", 0.05)])
def test_the_best_is_found_and_runs_go_to_its_contenders(dataset: str, easier: float, tmp_path: Path) -> None:
    """On one split with seeds, and on splits of which some are far easier than the best recipe is better."""
    search = CellSearch([cell(dataset=dataset)], tmp_path, Objective(easier=easier), quiet)
    assert search.run(60, most_runs=90) == 90
    trials = search.trials("toy")
    leader = trials.leader()
    assert leader is not None
    assert truth(leader.recipe) > 0.84
    # Without the first, which is run on every split that another is run on.
    best = sorted(trials.trials[1:], key=lambda one: -truth(one.recipe))
    runs, half = [len(one.runs) for one in best], len(best) // 2
    assert np.mean(runs[:8]) > 1.5 * np.mean(runs[half:]), "what is close to the best is repeated"
    # Not the leader itself: it may have been found by the last runs, on another processor by other draws.
    assert max(runs[:8]) >= 4, "some of them often"
    assert max(runs[half:]) <= 3, "what is clearly behind is dropped"
    assert all(sorted(one.runs) == list(range(len(one.runs))) for one in trials.trials), "compared on the same splits"


def test_cells_get_equal_seconds_whatever_a_run_costs(tmp_path: Path) -> None:
    def cost(one: SearchCell, recipe: Recipe, replicate: int) -> Line:
        return Objective({"cheap": 1.0, "dear": 9.0}[one.name])(one, recipe, replicate)

    search = CellSearch([cell("cheap"), cell("dear")], tmp_path, cost, quiet)
    search.run(60, most_runs=80)
    spent = {name: search.trials(name).spent for name in ("cheap", "dear")}
    assert abs(spent["cheap"].equal - spent["dear"].equal) <= 9.0
    total = sum(purse.equal + purse.reserve for purse in spent.values())
    assert sum(purse.reserve for purse in spent.values()) == pytest.approx(total / 3, abs=10.0)


def test_a_search_that_was_ended_goes_on_as_one_that_was_not(tmp_path: Path) -> None:
    whole = CellSearch([cell()], tmp_path / "whole", Objective(), quiet)
    whole.run(60, most_runs=20)
    for _ in range(20):
        CellSearch([cell()], tmp_path / "parts", Objective(), quiet).run(60, most_runs=1)
    files = [(tmp_path / folder / "cells" / "toy.jsonl").read_text() for folder in ("whole", "parts")]
    assert files[0] == files[1]


def test_a_kill_loses_the_run_and_nothing_else(tmp_path: Path) -> None:
    search = CellSearch([cell()], tmp_path, Objective(), quiet)
    search.run(60, most_runs=5)

    def killed(*_: object) -> Line:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CellSearch([cell()], tmp_path, killed, quiet).run(60)
    path = search.journal("toy").path
    with path.open("a") as file:
        file.write('{"trial": 0, "replica')  # a line that was being written
    before = len(search.trials("toy").trials)
    again = CellSearch([cell()], tmp_path, Objective(), quiet)
    again.run(60, most_runs=1)
    assert sum(len(one.runs) for one in again.trials("toy").trials) == 6
    assert len(again.trials("toy").trials) == before, "what was proposed is run, not proposed again"
    path.write_text(path.read_text() + "words\n")
    with pytest.raises(GamlpError, match=r"line \d+ is no JSON"):
        CellSearch([cell()], tmp_path, Objective(), quiet).run(60, most_runs=1)


def test_leads_come_first_and_one_that_is_new_to_the_plan_is_tried_later(tmp_path: Path) -> None:
    CellSearch([cell(first=2)], tmp_path, Objective(), quiet).run(60, most_runs=4)
    search = CellSearch([cell(first=3)], tmp_path, Objective(), quiet)
    search.run(60, most_runs=1)
    trials = search.trials("toy").trials
    assert [one.source for one in trials[:2]] == ["lead", "lead"]
    assert trials[-1].source == "lead" and trials[-1].recipe.model.hidden == 24


def test_a_recipe_that_fails_is_told_and_left(tmp_path: Path) -> None:
    def fails(one: SearchCell, recipe: Recipe, replicate: int) -> Line:
        if recipe.model.layers == 1:
            raise GamlpError("no such thing")
        return Objective()(one, recipe, replicate)

    said: list[str] = []
    search = CellSearch([cell()], tmp_path, fails, said.append)
    search.run(60, most_runs=12)
    assert "failed (no such thing.)" in said[0]
    leader = search.trials("toy").leader()
    assert leader is not None and leader.recipe.model.layers > 1


def test_a_variant_begins_from_what_the_plain_cell_found_once_that_was_repeated(tmp_path: Path) -> None:
    plain, variant = cell("plain"), cell("plain-scr", after="plain")
    assert CellSearch([variant], tmp_path, Objective(), quiet).run(60, most_runs=3) == 0, "nothing to begin from"
    search = CellSearch([plain, variant], tmp_path, Objective(), quiet)
    search.run(60, most_runs=40)
    start = search.trials("plain-scr").trials[0]
    assert start.source == "start"
    assert start.recipe in [one.recipe for one in search.trials("plain").trials]


def test_a_cell_whose_test_scores_were_read_is_not_searched_on(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "toy.tested").touch()
    with pytest.raises(GamlpError, match="its search is over"):
        CellSearch([cell()], tmp_path, Objective(), quiet).run(60)


def test_the_plan_holds_every_cell_that_is_asked_for() -> None:
    cells = cells_of(PLAN)
    homogeneous = ["cora", "citeseer", "pubmed", "amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics"]
    peers = ["sign", "sgc", "s2gc", "gbp", "sagn", "sagn-labels", "gcn", "gat", "appnp", "jk-net", "resgcn", "ap-gcn"]
    peers += ["unimp", "graphsage"]
    wanted = {f"{dataset}-{method}" for dataset in homogeneous for method in ("jk", "recursive", *peers)}
    wanted |= {f"hgb-{name}-{method}" for name in ("acm", "dblp", "imdb") for method in ("jk", "nars", "sign")}
    wanted |= {f"twitch-{method}" for method in ("jk", "recursive", "mlp")}
    assert {one.name for one in chosen_cells(cells, None)} == wanted
    assert "cora-jk-scr" in cells and "citeseer-recursive-rlu-scr" in cells
    for one in cells.values():
        assert one.space, one.name
        for _, recipe in one.first:
            judged_by = recipe.training if one.after is None else one.base.training
            assert judged_by.window == 5, "the same for all"
        assert not {"training.monitor", "training.window", "training.metric"} & set(one.space)


def test_keys_that_are_held_are_not_searched_and_their_leads_not_tried() -> None:
    free, held = (cells_of(PLAN, hold)["amazon-computers-recursive"] for hold in ([], ["model.label_scale"]))
    assert "model.label_scale" in free.space and "model.label_scale" not in held.space
    assert len(held.first) < len(free.first)
    with pytest.raises(GamlpError, match="no cell 'cora-nothing'"):
        chosen_cells(cells_of(PLAN), ["cora-nothing"])


def tiny_plan(folder: Path) -> Path:
    """A real cell that takes a second: two of them on a graph that comes with the package."""
    content = {
        "set": {"training.monitor": "smooth", "training.window": 3},
        "replicates": 3,
        "bases": {"own": {"jk": {"model": {"attention": "jk", "hidden": 8}, "training": {"epochs": 5}}}},
        "cells": [{"datasets": ["karate"], "methods": {"jk": "around"}, "bases": "own"}],
        "variants": {},
    }
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def _share(folder: Path) -> None:
    def slowly(one: SearchCell, recipe: Recipe, replicate: int) -> Line:
        time.sleep(0.01)
        with (folder / f"runs-{os.getpid()}").open("a") as file:
            file.write(f"{recipe.explicit_yaml()!r} {replicate}\n")
        return Objective()(one, recipe, replicate)

    CellSearch([cell()], folder, slowly, quiet).run(60, most_runs=15)


def test_two_processes_share_a_search_and_run_nothing_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_share, args=(tmp_path,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert [one.exitcode for one in both] == [0, 0]
    runs = [line for file in tmp_path.glob("runs-*") for line in file.read_text().splitlines()]
    assert len(runs) == len(set(runs)) == 30
    trials = CellSearch([cell()], tmp_path, Objective(), quiet).trials("toy").trials
    assert sum(len(one.runs) for one in trials) == 30


@pytest.mark.slow
def test_the_command_searches_a_real_cell_goes_on_and_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--plan", str(tiny_plan(tmp_path)), "--work", str(tmp_path / "work"), "--logs", str(tmp_path / "logs")]
    command = ["search.py", *options, "--recipes", str(tmp_path / "shipped")]
    said = []
    for more in (["--minutes", "0.01"], ["--minutes", "0.01"], ["--ship"]):
        monkeypatch.setattr(sys, "argv", [*command, *more])
        runpy.run_path(str(ROOT / "benchmarks" / "search.py"), run_name="__main__")
        said.append(capsys.readouterr().out)
    assert said[0].startswith("karate-jk trial 0 (present), run 0") and said[0].endswith(" runs\n")
    assert "trial 0 (present), run 0" not in said[1], "what was run is not run again"
    assert "karate-jk: trial " in said[2]
    rows = (tmp_path / "logs" / "karate-jk.csv").read_text().splitlines()
    assert rows[0] == "trial,source,state,replicates,valid,deviation,valid_loss,seconds,recipe" and len(rows) > 1


def test_a_real_run_is_judged_by_the_mean_over_its_window_and_takes_seconds(tmp_path: Path) -> None:
    one = cells_of(tiny_plan(tmp_path))["karate-jk"]
    validation = Validation(tmp_path / "hops")
    first, again = validation(one, one.base, 0), validation(one, one.base, 0)
    assert {key: first[key] for key in ("score", "loss", "epoch")} == {
        key: again[key] for key in ("score", "loss", "epoch")
    }
    assert first["seconds"] > 0


def test_splits_of_a_set_share_its_features(data_dir: Path, tmp_path: Path) -> None:
    one = cells_of(PLAN)["amazon-photo-jk"]
    validation = Validation(tmp_path / "hops", data_dir)
    tasks = [validation._task(one, number) for number in range(3)]
    for number, task in enumerate(tasks):
        given = one.load(number, data_dir).graph
        assert task.graph.nodes.features is tasks[0].graph.nodes.features
        assert np.array_equal(task.graph.nodes.split.roles, given.nodes.split.roles)
        assert task.graph.source == given.source
    assert not np.array_equal(tasks[0].graph.nodes.split.roles, tasks[1].graph.nodes.split.roles)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [one.name for one in cells_of(PLAN).values() if one.dataset == "cora" and not one.after]
)
def test_what_a_space_draws_its_method_can_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    one = dataclasses.replace(cells_of(PLAN)[name], dataset="digits")
    recipe = draw(one.space, one.base, [], (0,))
    assert recipe is not None
    quick = recipe.changed({"training.epochs": 1, "propagation.hops": min(3, recipe.propagation.hops)})
    assert 0 <= Validation(tmp_path)(dataclasses.replace(one, deepest=0), quick, 0)["score"] <= 1
