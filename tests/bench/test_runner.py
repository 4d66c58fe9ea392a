"""The runner: what is missing is run once, fewest seeds first, within the budget; several processes share a folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench import cells as cells_module
from gamlp.bench import costs, runner, schedule
from gamlp.bench.cells import Cell, cells_of, columns_of, depths_of
from gamlp.bench.runner import run_in_processes, run_tables
from gamlp.bench.tables import PaperTable, read_table
from gamlp.bench.work import Work, missing_reason, split_seed, task_of
from gamlp.errors import GamlpError
from gamlp.peers.hops import features_key
from gamlp.recipe import Recipe
from gamlp.run.resources import Resources
from tests.bench import hand

QUICK = {"training.epochs": 3, "training.batch_size": 64, "model.hidden": 8}


def table(**changes: object) -> PaperTable:
    content = {
        "name": "small",
        "title": "A small table",
        "source": {"paper": "none", "label": "tab:none"},
        "datasets": {"karate": {"title": "Karate"}, "ogbn-products": {"title": "Products"}},
        "methods": {
            "GAMLP(JK)": {"recipe": "jk", "changes": {**QUICK, "propagation.hops": 2, "propagation.label_hops": 2}},
            "MLP": {"recipe": "mlp", "changes": QUICK},
            "Published": {},
        },
        "seeds": 2,
    }
    return read_table({**content, **changes})


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    return Work(tmp_path / "work", resources=Resources(threads=1, device="cpu"))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Every cell that is run, in order."""
    run, cells = Cell.run, []

    def counting(cell: Cell, *arguments: object) -> object:
        cells.append(cell)
        return run(cell, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Cell, "run", counting)
    return cells


def test_runs_once_with_fewest_seeds_first(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = counted(monkeypatch)
    assert run_tables([table()], work) == {}
    assert [(cell.seed, cell.method) for cell in cells] == [
        (0, "GAMLP(JK)"), (0, "MLP"), (1, "GAMLP(JK)"), (1, "MLP"),
    ]  # fmt: skip
    reports = [cell.load(work) for cell in cells]
    run_tables([table()], work)
    assert len(cells) == 4, "a finished table runs nothing"
    assert [cell.load(work) for cell in cells] == reports


def test_more_seeds_run_only_the_new_ones(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tables([table()], replace(work, seeds=1, methods=("MLP",)))
    cells = counted(monkeypatch)
    run_tables([table()], work)
    assert sorted((cell.method, cell.seed) for cell in cells) == [("GAMLP(JK)", 0), ("GAMLP(JK)", 1), ("MLP", 1)]


def test_another_recipe_is_another_run() -> None:
    (one, *_) = cells_of(table(), "karate", ["MLP"], 1)
    changed = replace(one, recipe=one.recipe.changed({"training.epochs": 4}))
    told = replace(one, recipe=one.recipe.changed({"about": "the same, told otherwise"}))
    renamed = replace(one, method="Perceptron")
    assert changed.key != one.key
    assert told.key == renamed.key == one.key
    assert replace(one, seed=1).key != one.key
    assert replace(one, change="graph.edges_removed", point=0.5).key != one.key


def test_a_dataset_that_is_not_at_hand_is_told_and_the_rest_runs(work: Work) -> None:
    columns = columns_of(table(), work)
    assert set(columns.missing) == {"ogbn-products"}
    assert "ogbn-products is not at hand" in columns.missing["ogbn-products"]
    assert {cell.dataset for cell in columns.cells} == {"karate"}


def test_unknown_rows_and_columns_are_refused(work: Work) -> None:
    with pytest.raises(GamlpError, match="no method 'GCN'"):
        run_tables([table(), table(name="other")], replace(work, methods=("GCN", "MLP")))
    with pytest.raises(GamlpError, match="no method 'GCN'; it has GAMLP"):
        columns_of(table(), replace(work, methods=("GCN",)))
    with pytest.raises(GamlpError, match="no dataset 'cora'"):
        columns_of(table(), replace(work, datasets=("cora",)))


def test_after_the_deadline_nothing_is_begun(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = counted(monkeypatch)
    run_tables([table()], replace(work, deadline=time.monotonic() - 1))
    assert cells == []


def test_a_run_that_would_not_end_in_time_is_not_begun(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the MLP a run of an hour is recorded, of GAMLP(JK) nothing: what is not known is tried."""
    first = next(cell for cell in columns_of(table(), work).cells if cell.method == "MLP")
    work.record.add("small", [first.line(hand.report(0, 0.8, training=3600.0))])
    cells = counted(monkeypatch)
    monkeypatch.setattr(costs, "LONG_RUN", 1e6)
    run_tables([table()], replace(work, deadline=time.monotonic() + 600))
    assert [(cell.method, cell.seed) for cell in cells] == [("GAMLP(JK)", 0), ("GAMLP(JK)", 1)]


def test_several_tables_at_once_share_runs(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = counted(monkeypatch)
    other = table(name="other", methods={"Perceptron": {"recipe": "mlp", "changes": QUICK}})
    run_tables([table(methods={"MLP": {"recipe": "mlp", "changes": QUICK}}), other], replace(work, seeds=1))
    assert [(cell.table, cell.method) for cell in cells] == [("small", "MLP")], "the same run by another name"
    assert all(cell.done(work) for cell in columns_of(other, replace(work, seeds=1)).cells)


def test_another_graph_or_another_revision_of_a_method_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(nodes: int) -> set[str]:
        options = {"generated": {"tiny": {"generator": "communities", "nodes": nodes}}}
        tiny = table(datasets={"tiny": {"title": "Tiny"}}, options=options)
        return {cell.made for cell in cells_of(tiny, "tiny", ["MLP"], 2)}

    (before,) = made(60)
    assert made(60) == {before} and made(61) != {before}
    monkeypatch.setattr(cells_module, "_revisions", lambda: {"methods": {"mlp": 2}, "datasets": {}})
    assert made(60) != {before}
    monkeypatch.setattr(cells_module, "_revisions", lambda: {"methods": {"gcn": 2}, "datasets": {}})
    assert made(60) == {before}, "of another method"


def test_long_runs_get_fewer_seeds(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LONG_RUN", 0.0)
    monkeypatch.setattr(schedule, "LONG_SEEDS", 1)
    cells = counted(monkeypatch)
    run_tables([table()], work)
    assert {cell.seed for cell in cells} == {0}


def test_a_method_that_refuses_does_not_stop_the_others(work: Work) -> None:
    methods = {
        "Wrong": {"recipe": "mlp", "changes": {"model.attention": "jk"}},
        "MLP": {"recipe": "mlp", "changes": QUICK},
    }
    refused = run_tables([table(methods=methods)], replace(work, seeds=1))
    assert list(refused) == ["Wrong on karate"]
    assert "has no setting 'model.attention'" in refused["Wrong on karate"]


def test_methods_share_the_deepest_hops(work: Work) -> None:
    methods = {
        name: {"recipe": "sgc", "changes": {**QUICK, "model.layers": 2, "propagation.hops": hops}}
        for name, hops in (("two", 2), ("five", 5))
    }
    small = table(methods=methods)
    cells = columns_of(small, work).cells
    assert depths_of(cells) == {features_key(cells[0].recipe): 5}
    run_tables([small], replace(work, seeds=1))
    assert len([path for path in work.hops.iterdir() if path.is_dir()]) == 1


def test_a_curve_sweeps_the_recipe_or_the_graph(work: Work) -> None:
    axis = {"title": "depth", "key": "propagation.hops", "values": [1, 3]}
    curve = table(kind="curve", axis=axis)
    hops = {(cell.method, cell.point): cell.recipe.propagation.hops for cell in columns_of(curve, work).cells}
    assert hops["GAMLP(JK)", 1] == 1 and hops["GAMLP(JK)", 3] == 3
    axis = {"title": "removed", "key": "graph.edges_removed", "values": [0.0, 0.5]}
    curve = table(kind="curve", axis=axis)
    cells = columns_of(curve, work).cells
    assert {cell.change for cell in cells} == {"graph.edges_removed"}
    assert len({cell.key for cell in cells}) == len(cells)
    assert run_tables([curve], replace(work, seeds=1)) == {}


@pytest.mark.long
@pytest.mark.slow
def test_two_processes_share_the_work(work: Work) -> None:
    assert run_in_processes([table()], work, 2) == {}
    assert all(cell.load(work) is not None for cell in columns_of(table(), work).cells)


def test_a_column_may_have_another_recipe_and_a_row_one_that_was_tuned_with_it() -> None:
    datasets = {"cora": {"title": "Cora"}, "pubmed": {"title": "PubMed", "recipes": {"jk": "recursive"}}}
    row = {"recipe": "jk", "tuned": "sgc", "changes": {"model.hidden": 9}}
    content = table(datasets=datasets, methods={"GAMLP": {"recipe": "jk"}, "tuned": row})
    recipes = {
        (cell.method, cell.dataset): cell.recipe
        for dataset in datasets
        for cell in cells_of(content, dataset, ["GAMLP", "tuned"], 1)
    }
    assert recipes["GAMLP", "cora"] == Recipe.of("cora-jk")
    assert recipes["GAMLP", "pubmed"] == Recipe.of("pubmed-recursive")
    assert recipes["tuned", "pubmed"] == Recipe.of("pubmed-sgc"), "as it is shipped"
    assert recipes["tuned", "cora"] == Recipe.of("cora-jk").changed({"model.hidden": 9}), "there is no cora-sgc"
    longer = {"recipe": "sagn", "tuned": "labels", "changes": {"model.hidden": 9}}
    (cell,) = cells_of(table(datasets=datasets, methods={"SAGN": longer}), "cora", ["SAGN"], 1)
    assert cell.recipe == Recipe.of("cora-sagn-labels"), "the row's recipe with what was searched on top"


def test_runs_of_a_table_of_cost_have_hops_and_processes_of_their_own(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def here(run: Callable[..., Any], *arguments: Any, threads: int) -> Any:
        asked.append(threads)
        return run(*arguments)

    monkeypatch.setattr(runner, "in_own_process", here)
    cost = table(kind="cost", seeds=1)
    cells = columns_of(cost, work).cells
    assert {cell.key for cell in cells}.isdisjoint(cell.key for cell in columns_of(table(seeds=1), work).cells)
    assert run_tables([cost], work) == {} and asked == [1, 1]
    assert all(cell.load(work) is not None for cell in cells) and not work.hops.exists()


@pytest.mark.slow
def test_a_process_of_its_own_gives_what_it_found_or_why_it_refused(work: Work) -> None:
    methods = {"MLP": {"recipe": "mlp", "changes": QUICK}, "Wrong": {"recipe": "mlp", "changes": {"model.beta": 0.5}}}
    cost = table(kind="cost", methods=methods, seeds=1)
    refused = run_tables([cost], work)
    assert list(refused) == ["Wrong on karate"] and "model.beta" in refused["Wrong on karate"]
    report = columns_of(cost, work).cells[0].load(work)
    assert report is not None and report["peak_memory"] > 0


def test_splits_are_drawn_by_seed_where_the_protocol_draws_them() -> None:
    assert split_seed("amazon-photo", 3) == 3
    assert split_seed("cora", 3) == split_seed("short-video", 3) == split_seed("karate", 3) == 0


def test_a_tables_own_graphs(work: Work) -> None:
    options = {
        "generated": {"tiny": {"generator": "communities", "nodes": 60, "edges": 120, "features": 4, "classes": 3}},
        "tasks": {"pair": {"train": "karate", "valid": "digits", "tests": ["karate"]}},
    }
    tiny = task_of("tiny", 5, options=options)
    assert tiny.graph.nodes.count == 60
    assert task_of("tiny", 6, options=options).graph.folder == tiny.graph.folder
    pair = task_of("pair", 0, options=options)
    assert (pair.graph.name, pair.valid.name if pair.valid else "", list(pair.tests)) == (
        "karate",
        "digits",
        ["karate"],
    )
    assert missing_reason("tiny", options=options) is None and missing_reason("pair", options=options) is None
