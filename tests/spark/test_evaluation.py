"""Scores, weights over hops and tallies by Spark's tasks: the local engine's numbers, and none of the driver's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gamlp.explanation import weights as weights_file
from gamlp.graph import Graph, Ids
from gamlp.propagation.store import store as store_file
from gamlp.run import Resources, evaluate, train
from gamlp.run import scoring as scoring_file
from gamlp.training import RunFolder
from tests.run.test_scoring import ROWS, same
from tests.training.small import ONE_THREAD, RECIPE, make_graph, with_nodes

SPARK = Resources(device="cpu", engine="spark")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Graph]:
    folder = tmp_path_factory.mktemp("evaluated")
    graph = named(make_graph(nodes=90)).save(folder / "graph")
    return train(graph, RECIPE.changed({"training.seeds": [0, 1]}), folder / "run", resources=ONE_THREAD).run, graph


def named(graph: Graph) -> Graph:
    texts = pa.array([f"né {row}" for row in range(graph.nodes.count)], pa.large_string())
    return with_nodes(graph, ids=Ids(graph.nodes.count, texts))


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks even here."""
    monkeypatch.setattr(store_file, "RANGE_BYTES", ROWS * 100)


def words_of(page: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in page.items() if name != "report"}


def test_by_tasks_as_on_one_machine(spark: Any, run: tuple[RunFolder, Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, graph = run
    local = evaluate(folder, own=graph, resources=ONE_THREAD)

    def on_the_driver(*_: Any, **__: Any) -> None:
        raise AssertionError("the driver scores or weighs rows")

    monkeypatch.setattr(scoring_file, "Batches", on_the_driver)
    monkeypatch.setattr(weights_file, "_weighed", on_the_driver)
    found = evaluate(folder, own=graph, resources=SPARK)
    same(words_of(found), words_of(local))
    assert folder.report_path.exists() and not [one for one in folder.path.iterdir() if one.name.startswith(".tally")]


def test_another_graph_is_propagated_and_scored_by_tasks(
    spark: Any, run: tuple[RunFolder, Graph], tmp_path: Path
) -> None:
    folder, _ = run
    other = named(make_graph(1, nodes=90, name="other")).save(tmp_path / "other")
    local, found = (evaluate(folder, other, resources=one) for one in (ONE_THREAD, SPARK))
    assert any("by their ids, and are left out" in note for note in found["notes"])
    same(words_of(found), words_of(local))
