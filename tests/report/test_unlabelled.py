"""What was predicted for unlabelled nodes, against a loop over the table of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gamlp.graph import Graph, Labels
from gamlp.propagation import HopStore
from gamlp.report.unlabelled import LEVELS, unlabelled_of
from gamlp.run.path import Outcome, run_path
from gamlp.run.source import Source
from tests.training.small import ONE_THREAD, RECIPE, make_graph

HIDDEN = np.arange(0, 60, 5)


def partly_labelled(multi_label: bool) -> Graph:
    graph = make_graph(multi_label=multi_label)
    labels = graph.nodes.labels
    assert labels is not None
    values = labels.values.copy()
    values[HIDDEN] = -1
    return graph.with_targets(labels=Labels(values, labels.classes))


def run_of(graph: Graph, folder: Path) -> tuple[Outcome, Any, HopStore]:
    recipe = RECIPE.changed({"training.epochs": 3})
    outcome = run_path(Source("small", None, graph), recipe, folder, resources=ONE_THREAD)
    return outcome, outcome.trained.bundles[0], HopStore.open(outcome.trained.run.store_path())


def test_answers_are_counted_by_class_and_by_how_sure_they_are(tmp_path: Path) -> None:
    graph = partly_labelled(multi_label=False)
    _, bundle, store = run_of(graph, tmp_path / "run")
    place = tmp_path / "run" / "predictions.parquet"
    found = unlabelled_of(place, bundle, store, graph)
    assert found is not None and (found["nodes"], found["rows"], found["nothing"]) == (60, len(HIDDEN), 0)
    rows = [row for row in pq.read_table(place).to_pylist() if row["id"] in HIDDEN]
    for one in found["classes"]:
        own = [row["probability"] for row in rows if row["label"] == bundle.classes[one["class"]]]
        assert one["rows"] == len(own) and one["mean"] == pytest.approx(np.mean(own))
        assert one["levels"] == np.histogram(own, [0, *LEVELS, 2])[0].tolist()
    assert sum(one["rows"] for one in found["classes"]) == len(HIDDEN)


def test_of_many_labels_every_label_that_was_given_counts(tmp_path: Path) -> None:
    graph = partly_labelled(multi_label=True)
    _, bundle, store = run_of(graph, tmp_path / "run")
    place = tmp_path / "run" / "predictions.parquet"
    found = unlabelled_of(place, bundle, store, graph)
    rows = [row["label"] for row in pq.read_table(place).to_pylist() if row["id"] in HIDDEN]
    assert found is not None and found["rows"] == len(rows) and found["nothing"] == sum(not row for row in rows)
    for one in found["classes"]:
        assert one["rows"] == sum(bundle.classes[one["class"]] in row for row in rows)


def test_a_folder_of_parts_is_read_in_their_order_and_other_tables_are_not(tmp_path: Path) -> None:
    graph = partly_labelled(multi_label=False)
    _, bundle, store = run_of(graph, tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "predictions.parquet")
    whole = unlabelled_of(tmp_path / "run" / "predictions.parquet", bundle, store, graph)
    parts = tmp_path / "parts.parquet"
    parts.mkdir()
    pq.write_table(table.slice(0, 25), parts / "part-00000-a.parquet")
    pq.write_table(table.slice(25), parts / "part-00001-a.parquet")
    assert unlabelled_of(parts, bundle, store, graph) == whole
    other = tmp_path / "other.parquet"
    for wrong in (table.slice(1), table.take(list(range(59, -1, -1))), table.drop_columns(["probability"])):
        pq.write_table(wrong, other)
        assert unlabelled_of(other, bundle, store, graph) is None
    whole_bytes = (tmp_path / "run" / "predictions.parquet").read_bytes()
    other.write_bytes(whole_bytes[:40] + bytes(len(whole_bytes) // 2) + whole_bytes[40 + len(whole_bytes) // 2 :])
    assert unlabelled_of(other, bundle, store, graph) is None
    other.write_bytes(b"no table")
    assert unlabelled_of(other, bundle, store, graph) is None
    assert unlabelled_of(tmp_path / "nothing.parquet", bundle, store, graph) is None
