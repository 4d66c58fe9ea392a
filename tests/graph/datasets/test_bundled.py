"""digits and karate need no files and never change."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from gamlp.graph.datasets import loading as bundled


def test_digits_has_its_ten_nearest_neighbours() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    graph = bundled.digits()
    nodes = graph.nodes
    assert nodes.features is not None and nodes.labels is not None
    assert (nodes.count, nodes.features.width, len(nodes.labels.classes)) == (1797, 64, 10)
    near = neighbors.kneighbors_graph(nodes.features.values * 16, 11, include_self=True).toarray()
    degrees = graph.relation.degrees()
    assert degrees.min() >= 10  # either end may have chosen the other
    for row in (0, 900, 1796):
        block = graph.relation.blocks[0]
        mine = set(block.neighbours[block.offsets[row] : block.offsets[row + 1]].tolist())
        chosen = set(np.flatnonzero(near[row]).tolist()) - {row}
        assert len(chosen & mine) >= 9  # scikit-learn breaks a tie at the tenth neighbour its own way


def test_digits_has_a_fixed_stratified_split() -> None:
    one, other = bundled.digits().nodes, bundled.digits().nodes
    assert one.split is not None and one.labels is not None and other.split is not None
    assert np.array_equal(one.split.roles, other.split.roles)
    assert np.bincount(one.labels.values[one.split.train]).tolist() == [20] * 10
    assert np.bincount(one.labels.values[one.split.valid]).tolist() == [30] * 10
    assert len(one.split.test) == 1797 - 500


def test_neighbours_of_digits_show_mostly_the_same_digit() -> None:
    graph = bundled.digits()
    assert graph.nodes.labels is not None
    labels = graph.nodes.labels.values
    rows, columns, _ = next(graph.relation.edges())
    assert np.mean(labels[rows] == labels[columns]) > 0.95


def test_karate_is_zacharys_club() -> None:
    networkx = pytest.importorskip("networkx")
    graph = bundled.karate()
    rows, columns, _ = next(graph.relation.edges())
    assert {(int(a), int(b)) for a, b in zip(rows, columns) if a < b} == set(networkx.karate_club_graph().edges)


def test_karate_has_the_labels_and_training_rows_of_pyg() -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    theirs, nodes = datasets.KarateClub()[0], bundled.karate().nodes
    assert nodes.labels is not None and nodes.split is not None and nodes.features is not None
    assert np.array_equal(nodes.labels.values, theirs.y.numpy())
    assert np.array_equal(nodes.split.train, np.flatnonzero(theirs.train_mask.numpy()))
    assert np.array_equal(nodes.features.values, np.eye(34))
    assert [len(part) for part in (nodes.split.train, nodes.split.valid, nodes.split.test)] == [4, 4, 26]


@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("karate", [3542804957, 765821008, 2308969199, 4034476797, 4248824122]),
        ("digits", [4161048588, 4248159215, 155335325, 3557454473, 1470106679]),
    ],
)
def test_bundled_graphs_are_the_same_on_every_machine(name: str, sums: list[int]) -> None:
    graph = getattr(bundled, name)()
    (block,), nodes = graph.relation.blocks, graph.nodes
    parts = (block.offsets, block.neighbours, nodes.features.values, nodes.labels.values, nodes.split.roles)
    assert [zlib.crc32(np.ascontiguousarray(part)) for part in parts] == sums
