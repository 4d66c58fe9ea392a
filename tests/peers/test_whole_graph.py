"""Methods that read the whole graph, in the inductive setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gamlp.graph import induce
from gamlp.peers.contract import Task
from gamlp.peers.whole_graph import fitted_on_training_rows
from tests.graph.features.test_again import graph_of, table


def test_columns_are_fitted_on_training_rows_alone(tmp_path: Path) -> None:
    changed = dict.fromkeys(range(3, 40, 4), "9e7")  # test rows alone
    graphs = [graph_of(table(tmp_path / "one")), graph_of(table(tmp_path / "two", age=changed))]
    rows = graphs[0].nodes.split.train
    tasks = [fitted_on_training_rows(Task(graph, tests={"other": graphs[0]}), rows) for graph in graphs]
    assert tasks[0].graph.columns == tasks[1].graph.columns == tasks[1].tests["other"].columns != graphs[0].columns
    train = [induce(task.graph, rows, tmp_path / f"{place}") for place, task in enumerate(tasks)]
    values = [np.asarray(graph.nodes.features.values[:]) for graph in train]
    assert values[0].tobytes() == values[1].tobytes() and len(values[0]) == len(rows)
