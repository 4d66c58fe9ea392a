"""Peers by type through the one training loop: what a run learns, reads, reports and refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

from gamlp.errors import GamlpError
from gamlp.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.registry import METHODS, recipe_for, run
from gamlp.peers.tensors import typed_tensors
from gamlp.recipe import Recipe
from tests.training.small import ONE_THREAD

ALL = ("r-gcn", "hgt", "hgconv", "r-hgnn", "r-gsn")


def planted(multi_label: bool = False, seed: int = 0, features: bool = True) -> Graph:
    """Papers of three classes by their authors, whose type has no features; half of the papers train."""
    random = np.random.default_rng(seed)
    papers, authors = 90, 30
    classes = np.arange(papers) % 3
    author = (3 * random.integers(0, authors // 3, (papers, 2)) + classes[:, None]).ravel()
    edges = np.stack([author, np.repeat(np.arange(papers), 2)])  # author, paper
    values = classes.astype(np.int32)
    if multi_label:
        values = np.eye(3, dtype=np.int8)[classes]
        values[:, 0] |= (classes == 1).astype(np.int8)
    x = random.normal(size=(papers, 4)).astype(np.float32)
    nodes = Nodes(
        "paper", papers, Ids(papers), Features(x) if features else None, Labels(values, ("a", "b", "c")),
        Split(random.permutation(np.array([1, 1, 2, 3], np.int8)[np.arange(papers) % 4])),
    )  # fmt: skip
    node_types = {"author": Nodes("author", authors, Ids(authors)), "paper": nodes}
    relations = {
        "writes": _relation("writes", "author", "paper", edges[::-1], papers, "written"),
        "written": _relation("written", "paper", "author", edges, authors, "writes"),
    }
    return Graph("planted", node_types, relations, "paper")


def _relation(name: str, source: str, target: str, ends: Any, count: int, reverse: str) -> Relation:
    rows, near = np.unique(np.stack([ends[0], ends[1]]), axis=1)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return Relation(name, source, target, True, (Block(0, count, offsets, near.astype(np.int32)),), reverse)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, ONE_THREAD, probabilities=True)


def quick(name: str, **changes: Any) -> Recipe:
    changed = {f"training.{key}": value for key, value in changes.items()}
    return recipe_for(name).changed({"model.hidden": 16, "training.epochs": 20, "training.patience": 0, **changed})


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_run_learns_what_only_nodes_without_features_tell(name: str, multi_label: bool, place: Workspace) -> None:
    graph = planted(multi_label)
    report = run(graph, quick(name, learning_rate=0.05), 0, place)
    assert report.test["score"] > 0.85 and report.test["macro_f1"] > 0.85  # features alone are noise
    assert report.probabilities is not None and report.probabilities.shape == (90, 3)
    macro, micro = f1(graph, report.probabilities)
    assert (report.test["macro_f1"], report.test["score"]) == (pytest.approx(macro), pytest.approx(micro))


def f1(graph: Graph, probabilities: Any) -> tuple[float, float]:
    """Macro- and micro-F1 of test rows, 2 right / (2 right + wrong + missed) by class and of all classes together."""
    labels, split = graph.nodes.labels, graph.nodes.split
    assert labels is not None and split is not None
    counts = np.zeros((3, 2))  # by class: right, wrong or missed
    for row in split.test:
        for place in range(3):
            true = labels.values[row, place] == 1 if labels.multi_label else labels.values[row] == place
            chosen = probabilities[row, place] > 0.5 if labels.multi_label else probabilities[row].argmax() == place
            counts[place] += [true and chosen, true != chosen]
    each = [2 * right / (2 * right + wrong) for right, wrong in counts]
    right, wrong = counts.sum(0)
    return float(np.mean(each)), 2 * right / (2 * right + wrong)


@pytest.mark.parametrize("name", ALL)
def test_test_labels_change_nothing_but_the_test_score(name: str, place: Workspace) -> None:
    graph = planted()
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    values = graph.nodes.labels.values.copy()
    values[graph.nodes.split.test] = (values[graph.nodes.split.test] + 1) % 3
    other = graph.with_targets(labels=Labels(values, graph.nodes.labels.classes))
    one, two = (run(each, quick(name, epochs=4), 0, place) for each in (graph, other))
    assert one.valid == two.valid and np.array_equal(one.probabilities, two.probabilities)
    assert one.test != two.test


@pytest.mark.parametrize("name", ALL)
def test_a_target_without_features_and_completed_ones_both_run(name: str, place: Workspace) -> None:
    bare = planted(features=False)
    full = planted().with_features(author=Features(np.random.default_rng(1).normal(size=(30, 7)).astype(np.float32)))
    for graph in (bare, full):
        assert 0 <= run(graph, quick(name, epochs=2), 0, place).test["score"] <= 1


def test_a_view_reads_edges_weights_and_scaled_features_of_every_type() -> None:
    graph = planted().with_features(author=Features(np.arange(60, dtype=np.float32).reshape(30, 2)))
    view = typed_tensors(graph, "row")
    assert view.shape.widths == {"author": 2, "paper": 4} and view.shape.relations["writes"].reverse == "written"
    pairs = {(int(row), int(near)) for row, near, _ in _each(graph.relations["writes"])}
    assert {(int(target), int(source)) for source, target in view.edges["writes"].T} == pairs
    author = view.x["author"]
    assert author is not None and author[1].tolist() == pytest.approx([0.4, 0.6])


def _each(relation: Relation) -> Any:
    for rows, near, weights in relation.edges():
        yield from zip(rows, near, [None] * len(rows) if weights is None else weights)


def test_what_cannot_be_trained_is_told(place: Workspace) -> None:
    graph = planted()
    with pytest.raises(GamlpError, match="trains on the whole graph"):
        run(graph, quick("hgt", setting="inductive"), 0, place)
    assert graph.nodes.split is not None
    none = graph.with_targets(split=Split(np.where(graph.nodes.split.roles == 1, 2, 3).astype(np.int8)))
    with pytest.raises(GamlpError, match="no training rows"):
        run(none, quick("hgt"), 0, place)
    fewer = replace(graph, node_types={**graph.node_types, "author": Nodes("author", 31, Ids(31))})
    with pytest.raises(GamlpError, match="nodes of type 'author' have no features"):
        run(Task(graph, tests={"other": fewer}), quick("hgt"), 0, place)


def test_peers_by_type_are_a_family_of_their_own() -> None:
    assert {name for name, method in METHODS.items() if method.family == "types"} == set(ALL)
