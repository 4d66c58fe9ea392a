"""Training, scores and the report of a graph that grows eightfold: what the driver holds stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Labels, Split
from gamlp.propagation import LocalPropagator
from gamlp.run import train
from gamlp.training import plan_of
from tests.run.driver import RECIPE
from tests.training.small import ONE_THREAD

pytestmark = pytest.mark.long

FEW = 200_000
TRAIN, VALID = 2000, 1000


def graph_of(nodes: int, train: int = TRAIN, valid: int = VALID) -> Graph:
    random = np.random.default_rng(0)
    classes = random.integers(0, 3, nodes).astype(np.int32)
    roles = np.full(nodes, 3, np.int8)
    roles[:train], roles[train : train + valid] = 1, 2
    features = (np.eye(3)[classes] + random.normal(size=(nodes, 3))).astype(np.float32)
    edges = random.integers(0, nodes, (2, 2 * nodes))
    return Graph.from_arrays(edges, features, Labels(classes, ("a", "b", "c")), split=Split(roles), name="grown")


def driven(nodes: int, folder: Path) -> dict[str, Any]:
    graph = graph_of(nodes).save(folder / f"graph-{nodes}")
    run = train(graph, RECIPE, folder / f"run-{nodes}", resources=ONE_THREAD).run
    return told("evaluate", graph.folder, run.path)


def told(step: str, *places: object) -> dict[str, Any]:
    asked = [sys.executable, "-m", "tests.run.driver", step, *map(str, places)]
    ended = subprocess.run(
        asked, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2], env=os.environ, timeout=300
    )
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_what_the_driver_holds_does_not_grow_with_the_graph(tmp_path: Path) -> None:
    few, many = (driven(nodes, tmp_path) for nodes in (FEW, 8 * FEW))
    assert (few["rows"], many["rows"]) == (FEW - TRAIN - VALID, 8 * FEW - TRAIN - VALID)
    assert many["most"] < 1.1 * few["most"], (few, many)


def test_what_the_driver_of_training_holds_does_not_grow_with_the_rows_to_train_on(tmp_path: Path) -> None:
    found = []
    for nodes in (FEW, 8 * FEW):
        graph = graph_of(nodes, nodes // 2, nodes // 4)
        LocalPropagator().propagate(graph, plan_of(RECIPE), tmp_path / f"hops-{nodes}")
        found.append(told("train", tmp_path / f"hops-{nodes}", tmp_path / f"trained-{nodes}"))
    few, many = found
    assert (few["rows"], many["rows"]) == (FEW // 2, 4 * FEW)
    assert many["most"] < 1.1 * few["most"], (few, many)
