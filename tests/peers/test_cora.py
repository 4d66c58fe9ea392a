"""Every method on Cora: better than always saying the commonest class, and than an MLP that does not see the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gamlp.graph import Graph
from gamlp.graph.datasets.loading import load
from gamlp.peers.contract import Workspace
from gamlp.peers.registry import METHODS, recipe_for, recipe_named, run
from gamlp.recipe import Recipe
from gamlp.run.resources import Resources

pytestmark = pytest.mark.slow

ABOVE_MAJORITY = 0.30
ABOVE_MLP = 0.05
EPOCHS = 60  # of far more in most recipes: enough for the margins


@pytest.fixture(scope="module")
def graph(data_dir: Path) -> Graph:
    return load("cora", data_dir)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("hops"), Resources(threads=1, device="cpu"))


@pytest.fixture(scope="module")
def mlp(graph: Graph, place: Workspace) -> float:
    return run(graph, _short("mlp"), 0, place).test["score"]


def _short(name: str) -> Recipe:
    recipe = recipe_named("jk", "cora") if name == "gamlp" else recipe_for(name, "cora")
    return recipe.changed({"training.epochs": min(EPOCHS, recipe.training.epochs)})


def majority(graph: Graph) -> float:
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    commonest = np.bincount(labels.values[split.train]).argmax()
    return float((labels.values[split.test] == commonest).mean())


_SOME = ("gamlp", "sgc", "sign", "sagn", "logistic", "lightgbm", "gcn", "graphsage-sampled", "label-propagation")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _SOME else pytest.mark.long)
        for name, method in METHODS.items()
        if name not in ("mlp", "majority") and method.family != "types"
    ],
)
def test_a_method_beats_majority_and_mlp(name: str, graph: Graph, place: Workspace, mlp: float) -> None:
    torch.set_num_threads(1)
    score = run(graph, _short(name), 0, place).test["score"]
    assert score >= majority(graph) + ABOVE_MAJORITY
    assert score >= mlp + ABOVE_MLP


def test_the_commonest_class_is_what_it_says(graph: Graph, place: Workspace) -> None:
    """Of training rows: they have 20 of each class, so the first one is said."""
    assert run(graph, _short("majority"), 0, place).test["score"] == majority(graph)


def test_mlp_beats_majority(graph: Graph, mlp: float) -> None:
    assert mlp >= majority(graph) + 0.2
