"""Scores and the report's tallies by tasks over ranges of rows: the numbers of all rows at once, and scikit-learn's."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn import metrics

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels
from gamlp.io import Place, Ranges, RangeWork, State, tally_by_tasks, tally_here
from gamlp.propagation import HopStore
from gamlp.propagation.store import store as store_file
from gamlp.report import Observed, content_of_run, listening
from gamlp.run import Resources, RowsOfPart, evaluate, evaluate_rows, run_path, train
from gamlp.run import resources as resources_file
from gamlp.run.engine import LocalEngine
from gamlp.run.prediction_table import batch_probabilities
from gamlp.run.scoring import seen_rows
from gamlp.run.source import Source
from gamlp.training import Bundle, RunFolder, best_seed
from tests.conformance.engines import one_after_the_other
from tests.training.small import ONE_THREAD, RECIPE, make_graph

ROWS, TASKS = 7, 4  # rows of a range, and tasks: ranges share one, and none begins where a batch does
HIDDEN = np.arange(0, 90, 6)  # nodes whose label nobody knows


class TasksEngine(LocalEngine):
    """Ranges are counted by tasks that are sent and answered as Spark's are."""

    def tally(self, beside: Any, work: RangeWork, ranges: Ranges, stage: str = "", progress: Any = None) -> Any:
        return by_tasks(Place.of(beside), work, ranges, stage)


def by_tasks(folder: Place, work: RangeWork, ranges: Ranges, stage: str = "", progress: Any = None) -> Iterator[State]:
    return tally_by_tasks(one_after_the_other, folder, work, ranges, stage, most_tasks=TASKS)


def graph_of(kind: str) -> Graph:
    graph = make_graph(nodes=90, multi_label=kind == "many labels")
    labels = graph.nodes.labels
    assert labels is not None
    values, classes = labels.values.copy(), labels.classes
    if kind == "two classes":
        values, classes = np.minimum(values, 1), classes[:2]
    values[HIDDEN] = -1
    return graph.with_targets(labels=Labels(values, classes))


@pytest.fixture(scope="module", params=["three classes", "two classes", "many labels"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Graph]:
    """Two seeds on a graph in a folder; predictions in several files, as Spark writes them."""
    folder = tmp_path_factory.mktemp("scored")
    graph = graph_of(request.param).save(folder / "graph")
    recipe = RECIPE.changed({"training.seeds": [0, 1], "training.epochs": 3})
    found = run_path(Source("small", None, graph), recipe, folder / "run", resources=ONE_THREAD).trained.run
    table = pq.read_table(found.path / "predictions.parquet")
    (found.path / "predictions.parquet").unlink()
    (found.path / "predictions.parquet").mkdir()
    for number, begin in enumerate(range(0, len(table), 40)):
        pq.write_table(table.slice(begin, 40), found.path / "predictions.parquet" / f"part-{number:05}.parquet")
    return found, graph


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    row = 3 * 6 * 4 + 3 * 3 * 4
    monkeypatch.setattr(store_file, "RANGE_BYTES", ROWS * row)
    monkeypatch.setitem(resources_file.ENGINES, "tasks", f"{__name__}:TasksEngine")


def content(run: RunFolder, graph: Graph, take: Any) -> dict[str, Any]:
    """All that a report shows."""
    bundles, store, observed = run.bundles(), HopStore.open(run.store_path()), Observed(graph)
    report = evaluate_rows(bundles, store, RowsOfPart("test"), ONE_THREAD, observed, take)
    weights = listening(bundles[best_seed(bundles)], graph, store, None, take)
    found = content_of_run(run, bundles, store, observed, report, weights=weights, take=take)
    return {name: value for name, value in found.items() if name not in ("date", "timings")}


def same(found: Any, expected: Any, place: str = "") -> None:
    """Equal, numbers to rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for name in expected:
            same(found[name], expected[name], f"{place}/{name}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected)):
            same(one, other, f"{place}/{number}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), place
    else:
        assert found == expected, place


def test_the_report_by_tasks_is_that_of_all_rows_at_once(run: tuple[RunFolder, Graph]) -> None:
    folder = Place.of(run[0].path)
    whole, parts = content(*run, tally_here), content(*run, partial(by_tasks, folder))
    assert whole["nodes"] and whole["weights"] and whole["agreement"] and whole["by_degree"] and whole["unlabelled"]
    assert whole["unlabelled"]["rows"] == len(HIDDEN)
    same(parts, whole)
    assert not [name for name in folder.names() if name.startswith(".tally")], "what tasks left is gone"


def test_an_engine_of_tasks_writes_what_the_local_one_does(run: tuple[RunFolder, Graph]) -> None:
    folder, graph = run
    local = evaluate(folder, own=graph, resources=ONE_THREAD)
    tasks = evaluate(folder, own=graph, resources=Resources(device="cpu", engine="tasks"))
    same(tasks, local)
    assert tasks["reliability"] and tasks["classes"] and "roc_auc" in tasks["mean"] and "ece" in tasks["mean"]


def test_scores_are_scikit_learns(run: tuple[RunFolder, Graph]) -> None:
    folder, graph = run
    store, bundles = HopStore.open(folder.store_path()), folder.bundles()
    found = evaluate_rows(bundles, store, RowsOfPart("test"), ONE_THREAD, take=partial(by_tasks, store.place))
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    rows = np.array([row for row in split.test if row not in HIDDEN])
    assert found["rows"] == len(rows)
    for seed, bundle in bundles.items():
        probabilities = np.concatenate([part for _, part in batch_probabilities(bundle, store, rows)])
        expected = oracle(probabilities, labels.values[rows], bundle)
        assert {name: found["seeds"][seed][name] for name in expected} == pytest.approx(expected, abs=1e-6)


def oracle(probabilities: np.ndarray[Any, Any], true: np.ndarray[Any, Any], bundle: Bundle) -> dict[str, float]:
    """Score, macro-F1, ROC-AUC and average precision."""
    hot = true if bundle.multi_label else np.eye(len(bundle.classes))[true]
    if len(bundle.classes) == 2:
        positive = bundle.positive_number
        assert positive is not None
        auc, precision = (
            metrics.roc_auc_score(hot[:, 1], probabilities[:, 1]),
            metrics.average_precision_score(hot[:, positive], probabilities[:, positive]),
        )
    else:
        auc, precision = metrics.roc_auc_score(hot, probabilities), metrics.average_precision_score(hot, probabilities)
    chosen = (probabilities > 0.5).astype(int) if bundle.multi_label else probabilities.argmax(1)
    score = metrics.f1_score(true, chosen, average="micro")
    macro = metrics.f1_score(true, chosen, average="macro", zero_division=0)
    return {"score": score, "macro_f1": macro, "roc_auc": auc, "average_precision": precision}


def test_rows_whose_hops_were_not_kept_are_missed_by_every_engine(tmp_path: Path) -> None:
    graph = graph_of("three classes").save(tmp_path / "graph")
    recipe = RECIPE.changed({"propagation.rows": "train+valid", "training.epochs": 1})
    run = run_of(graph, recipe, tmp_path)
    for take in (tally_here, partial(by_tasks, Place.of(tmp_path))):
        store, bundles = HopStore.open(run.store_path()), run.bundles()
        with pytest.raises(GamlpError, match="nodes were kept, and others are among 'those that are scored'"):
            evaluate_rows(bundles, store, RowsOfPart("test"), ONE_THREAD, take=take)
        none = evaluate_rows(bundles, store, RowsOfPart("test", kept_alone=True), ONE_THREAD, take=take)
        valid = evaluate_rows(bundles, store, RowsOfPart("valid"), ONE_THREAD, take=take)
        assert none["rows"] == 0 and valid["rows"] > 0


def run_of(graph: Graph, recipe: Any, folder: Path) -> RunFolder:
    return train(graph, recipe, folder / "run", resources=ONE_THREAD).run


def test_rows_that_a_run_has_seen_are_sent_as_a_file(run: tuple[RunFolder, Graph]) -> None:
    folder, graph = run
    seen = seen_rows(folder.seen_path, graph)
    split, labels = graph.nodes.split, graph.nodes.labels
    assert split is not None and labels is not None
    expected = (split.roles == 1) | (split.roles == 2)
    rows = np.flatnonzero(labels.known())
    assert np.array_equal(seen.mask(rows), expected[rows])
    sent = pickle.loads(data := pickle.dumps(seen))
    assert np.array_equal(sent.mask(rows), expected[rows]) and len(data) < 1000
