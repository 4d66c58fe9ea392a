"""Runs of peers that leave no bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gamlp.errors import GamlpError
from gamlp.graph import Graph
from gamlp.graph.datasets import load
from gamlp.graph.fingerprint import features, inputs
from gamlp.peers import recipe_for, run_method
from gamlp.training.scores import RowScores


@pytest.fixture
def bare() -> Graph:
    """Edges and labels, no features."""
    graph = load("karate")
    return graph.with_features(node=None)


def test_label_propagation_needs_no_features(bare: Graph, tmp_path: Path) -> None:
    found = run_method(bare, recipe_for("label-propagation"), tmp_path / "run")
    assert found.predictions.rows == 34
    whole = run_method(load("karate"), recipe_for("label-propagation"), tmp_path / "whole")
    assert np.array_equal(whole.probabilities, found.probabilities), "features change nothing"
    assert whole.scores("test") == found.scores("test")
    labels, split = bare.nodes.labels, bare.nodes.split
    assert labels is not None and split is not None
    most = np.bincount(labels.values[split.train]).argmax()
    assert found.scores("test")["base"]["score"] == pytest.approx((labels.values[split.test] == most).mean())


@pytest.mark.parametrize("name", ["gcn", "r-gcn", "graphsage-sampled"])
def test_what_needs_features_says_so_where_none_may_be_made(bare: Graph, tmp_path: Path, name: str) -> None:
    recipe = recipe_for(name).changed({"features.structural": "none"})
    with pytest.raises(GamlpError, match="graph 'karate' has no features; give its nodes some"):
        run_method(bare, recipe, tmp_path / "run")
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == []


def test_a_graph_without_features_has_a_name_of_its_own(bare: Graph) -> None:
    graph = load("karate")
    assert features(bare) != features(graph) and inputs(bare) != inputs(graph)
    renamed = replace(bare, name="other")
    assert inputs(renamed) == inputs(bare)


@pytest.mark.parametrize("multi_label", [False, True])
def test_no_rows_have_no_scores(multi_label: bool) -> None:
    assert RowScores(0, multi_label).report() == {}


def test_without_test_rows_no_test_score_is_told(tmp_path: Path) -> None:
    graph = load("karate")
    split = graph.nodes.split
    assert split is not None
    roles = np.where(split.roles == 3, 0, split.roles).astype(np.int8)
    graph = replace(graph.with_targets(split=replace(split, roles=roles)), folder=None)
    found = run_method(graph, recipe_for("cluster-gcn").changed({"training.epochs": 2}), tmp_path / "run")
    assert found.scores("test")["mean"] == {}
    assert any("No row with a known label was left" in one for one in found.words)


def test_a_refused_peer_leaves_what_was_there_before(bare: Graph, tmp_path: Path) -> None:
    graph = bare.save(tmp_path / "graph")
    recipe = recipe_for("gcn").changed({"features.structural": "none"})
    with pytest.raises(GamlpError, match="has no features"):
        run_method(graph, recipe, tmp_path)
    assert Graph.open(tmp_path / "graph").nodes.count == 34
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["graph"]
