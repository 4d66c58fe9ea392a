"""Edges and labels are enough: every method runs on a graph without features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.registry import METHODS, recipe_for, run
from gamlp.recipe import Recipe
from tests.training.small import ONE_THREAD, make_graph

pytest.importorskip("torch_geometric")


@pytest.fixture(scope="module")
def bare() -> Graph:
    return make_graph(name="bare").with_features(node=None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("hops"), ONE_THREAD, probabilities=True)


def _quick(name: str, **changes: object) -> Recipe:
    short = {"training.epochs": 3, "training.patience": 0, "features.width": 16}
    short |= {} if METHODS[name].family == "solved" else {"model.hidden": 8}
    return recipe_for(name).changed(short | changes)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs(name: str, bare: Graph, place: Workspace) -> None:
    report = run(bare, _quick(name), 0, place)
    assert report.probabilities is not None and report.probabilities.shape == (bare.nodes.count, 3)
    assert 0 <= report.valid["score"] <= 1 and 0 <= report.test["score"] <= 1


@pytest.mark.parametrize("name", ["gamlp", "gcn"])
def test_inductive_features_are_made_of_each_sides_own_edges(name: str, bare: Graph, place: Workspace) -> None:
    """Training rows see the edges among themselves, so their features are others than on the whole graph."""
    inductive = _quick(name, **{"training.setting": "inductive", "model.beta": 0.0})
    report = run(bare, inductive, 0, place)
    whole = run(bare, _quick(name, **{"model.beta": 0.0}), 0, place)
    assert report.valid["loss"] != whole.valid["loss"]
    other = make_graph(1, nodes=40, name="other").with_features(node=None)
    tests = run(Task(bare, other, {"third": other}), inductive, 0, replace(place, probabilities=False))
    assert tests.tests.keys() == {"third"} and tests.tests["third"]["loss"] == tests.test["loss"]


@pytest.mark.parametrize("name", ["gamlp", "gcn", "r-gcn"])
def test_none_is_refused_with_what_to_do(name: str, bare: Graph, place: Workspace) -> None:
    with pytest.raises(GamlpError, match=r"graph 'bare' has no features.*features\.structural"):
        run(bare, _quick(name, **{"features.structural": "none"}), 0, place)


def test_both_directions_are_read_by_models_of_several_channels_and_refused_by_others(place: Workspace) -> None:
    """A method that would hear one direction alone says so."""
    small = make_graph(name="arrows")
    edges = np.concatenate([np.stack([sources, rows]) for rows, sources, _ in small.relation.edges()], 1)
    one_way = edges[:, edges[0] < edges[1]]
    arrows = Graph.from_arrays(one_way, None, small.nodes.labels, split=small.nodes.split, directed=True, count=60)
    ran, refused = set(), {}
    for name in METHODS:
        try:
            epochs = 0 if METHODS[name].family == "solved" else 3
            assert run(arrows, _quick(name, **{"propagation.directions": "both"}), 0, place).epochs == epochs
            ran.add(name)
        except GamlpError as error:
            refused[name] = str(error)
    assert {"gamlp", "sign", "nars", "logistic", "lightgbm"} <= ran
    known = ("reads one channel, not 2 (views in, out)", "reads edges as they lead", "in one direction alone")
    assert all(any(words in said for words in known) for said in refused.values()), refused
