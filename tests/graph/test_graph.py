"""Graph: from arrays, saved and opened again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split, damaged_files
from tests.graph.of_everything import everything

Array = np.ndarray[Any, Any]
EDGES = [[0, 1, 1, 3, 3], [1, 2, 0, 3, 0]]  # 0-1 twice, 1-2, a loop at 3, 3-0


def neighbours(graph: Graph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {row: [] for row in range(graph.nodes.count)}
    for rows, columns, _ in graph.relation.edges():
        for row, column in zip(rows.tolist(), columns.tolist()):
            found[row].append(column)
    return found


@pytest.mark.parametrize(
    "given", [EDGES, np.array(EDGES), np.array(EDGES, np.int32), np.array(EDGES, np.uint8), torch.tensor(EDGES)]
)
def test_edges_are_made_undirected_and_merged(given: Any) -> None:
    graph = Graph.from_arrays(given)
    assert neighbours(graph) == {0: [1, 3], 1: [0, 2], 2: [1], 3: [0]}
    assert graph.relation.entries == 6 and graph.relation.degrees().tolist() == [2, 2, 1, 1]
    assert not graph.relation.directed and not graph.relation.weighted and not graph.trainable


def test_a_directed_edge_carries_its_source_to_its_target() -> None:
    graph = Graph.from_arrays(EDGES, directed=True, count=5)
    assert neighbours(graph) == {0: [1, 3], 1: [0], 2: [1], 3: [], 4: []}


@pytest.mark.parametrize("weights", [[1, 2, 4, 8, 16], np.array([1.0, 2, 4, 8, 16]), torch.tensor([1.0, 2, 4, 8, 16])])
def test_weights_of_duplicates_add_up(weights: Any) -> None:
    graph = Graph.from_arrays(EDGES, weights=weights)
    ((rows, columns, values),) = graph.relation.edges()
    assert values is not None
    found = dict(zip(zip(rows.tolist(), columns.tolist()), values.tolist()))
    assert found == {(0, 1): 5, (1, 0): 5, (1, 2): 2, (2, 1): 2, (0, 3): 16, (3, 0): 16}


@pytest.mark.parametrize(
    "given",
    [
        [[1, 2], [3, 4], [5, 6], [0, 0.5]],
        np.array([[1, 2], [3, 4], [5, 6], [0, 0.5]]),
        torch.tensor([[1, 2], [3, 4], [5, 6], [0, 0.5]]),
        scipy.sparse.csr_matrix([[1, 2], [3, 4], [5, 6], [0, 0.5]]),
        scipy.sparse.coo_array([[1, 2], [3, 4], [5, 6], [0, 0.5]]),
        np.asfortranarray(np.array([[1, 2], [3, 4], [5, 6], [0, 0.5]], np.float32)),
    ],
    ids=["list", "array", "tensor", "csr matrix", "coo array", "by columns"],
)
def test_features_become_dense_float32(given: Any) -> None:
    features = Graph.from_arrays(EDGES, given).nodes.features
    assert features is not None and features.dtype == "float32" and features.values.dtype == np.float32
    assert features.values.flags.c_contiguous
    assert features.read(slice(None)).tolist() == [[1, 2], [3, 4], [5, 6], [0, 0.5]]


def test_float16_features_stay_so_and_are_read_as_float32() -> None:
    features = Graph.from_arrays(EDGES, np.full((4, 2), 0.5, np.float16)).nodes.features
    assert features is not None and features.dtype == "float16"
    assert features.read(slice(0, 2)).dtype == np.float32


def test_labels_one_or_many_a_node() -> None:
    one = Graph.from_arrays(EDGES, labels=[2, -1, 0, -5]).nodes.labels
    assert one is not None and not one.multi_label and one.classes == ("0", "1", "2")
    assert one.known().tolist() == [True, False, True, False]
    assert one.hot(np.array([0, 1, 2])).tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    several = Graph.from_arrays(EDGES, labels=torch.tensor([[1.0, 0], [0, 0], [1, 1], [-1, -1]])).nodes.labels
    assert several is not None and several.multi_label and several.classes == ("0", "1")
    assert several.known().tolist() == [True, True, True, False]
    assert several.hot(np.array([2, 3])).tolist() == [[1, 1], [0, 0]]


def test_no_edges_and_no_nodes() -> None:
    assert neighbours(Graph.from_arrays([[], []], np.eye(2))) == {0: [], 1: []}
    assert Graph.from_arrays([[], []]).nodes.count == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"edge_index": [[0, 1], [1, 9]], "features": np.eye(3)},
            "an edge names node 9 of 3; number nodes from 0 to 2",
        ),
        ({"edge_index": [[0, -1], [1, 0]]}, "an edge names node -1"),
        ({"edge_index": [[0, 1, 2], [1, 0, 1], [1, 1, 1]]}, "edge_index is int64 of shape (3, 3)"),
        ({"edge_index": [[0.0], [1.0]]}, "edge_index is float64"),
        ({"edge_index": EDGES, "features": np.zeros(4)}, "features have shape (4,)"),
        ({"edge_index": EDGES, "features": np.eye(4), "labels": [0, 1]}, "disagree about the number of nodes ([2, 4])"),
        ({"edge_index": EDGES, "features": np.eye(4), "count": 5}, "disagree about the number of nodes ([4, 5])"),
        ({"edge_index": EDGES, "weights": [1.0, 2.0]}, "2 weights for 5 edges"),
        ({"edge_index": EDGES, "weights": [1.0, 2.0, -1.0, 1.0, 1.0]}, "weight -1.0 of edge 2 is negative"),
        ({"edge_index": EDGES, "weights": [1.0, np.nan, 1.0, 1.0, 1.0]}, "weight nan of edge 1"),
        ({"edge_index": EDGES, "features": [[1.0], [2.0], [np.nan], [1.0]]}, "feature nan of node 2"),
        ({"edge_index": EDGES, "features": [[1.0], [np.inf], [0.0], [1.0]]}, "feature inf of node 1"),
        ({"edge_index": EDGES, "split": Split(np.zeros(9, np.int8))}, "the split has 9 rows for 4 nodes"),
        ({"edge_index": EDGES, "labels": np.zeros((4, 2, 2))}, "labels are float64 of shape (4, 2, 2)"),
        ({"edge_index": EDGES, "labels": [0.5, 1.0, 2.0, 0.0]}, "labels are not whole numbers, float64"),
        ({"edge_index": EDGES, "labels": [[0, 2], [1, 0], [0, 0], [0, 0]]}, "label 2"),
    ],
)
def test_bad_arrays_are_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError) as raised:
        Graph.from_arrays(**given)
    assert told in str(raised.value)


def test_split_from_numbers_or_masks() -> None:
    mask = np.array([False, False, True, False])
    split = Split.of(4, train=[0, 1], valid=mask, test=[])
    assert split.roles.tolist() == [1, 1, 2, 0]
    assert split.rows("train", "valid").tolist() == [0, 1, 2] and split.test.tolist() == []


def assert_same(one: Graph, other: Graph) -> None:
    assert (one.name, one.target, one.source) == (other.name, other.target, other.source)
    assert list(one.node_types) == list(other.node_types) and list(one.relations) == list(other.relations)
    for node_type, nodes in one.node_types.items():
        again = other.node_types[node_type]
        assert nodes.count == again.count
        rows = np.arange(nodes.count)
        assert nodes.ids.take(rows).to_pylist() == again.ids.take(rows).to_pylist()
        assert (nodes.features is None) == (again.features is None)
        if nodes.features is not None and again.features is not None:
            assert nodes.features.dtype == again.features.dtype
            assert np.array_equal(nodes.features.values, again.features.values)
        assert (nodes.labels is None) == (again.labels is None)
        if nodes.labels is not None and again.labels is not None:
            assert nodes.labels.classes == again.labels.classes
            assert np.array_equal(nodes.labels.values, again.labels.values)
        assert (nodes.split is None) == (again.split is None)
        if nodes.split is not None and again.split is not None:
            assert np.array_equal(nodes.split.roles, again.split.roles)
    for name, relation in one.relations.items():
        again_relation = other.relations[name]
        for attribute in ("source", "target", "directed", "weighted", "entries", "count"):
            assert getattr(relation, attribute) == getattr(again_relation, attribute)
        for block, twin in zip(relation.blocks, again_relation.blocks, strict=True):
            assert (block.start, block.stop) == (twin.start, twin.stop)
            assert np.array_equal(block.offsets, twin.offsets) and np.array_equal(block.neighbours, twin.neighbours)
            assert (block.weights is None) == (twin.weights is None)
            assert block.weights is None or np.array_equal(block.weights, twin.weights)


def test_a_saved_graph_opens_with_every_part(tmp_path: Path) -> None:
    graph = everything()
    assert_same(graph, graph.save(tmp_path / "graph"))
    opened = Graph.open(str(tmp_path / "graph"))
    assert_same(graph, opened)
    assert isinstance(opened.nodes.features.values, np.memmap) and opened.folder == tmp_path / "graph"
    assert damaged_files(opened) == []
    assert_same(graph, opened.save(tmp_path / "again"))


def test_a_graph_of_nothing_is_saved(tmp_path: Path) -> None:
    graph = Graph.from_arrays([[], []])
    assert_same(graph, graph.save(tmp_path / "graph"))


def test_an_existing_folder_is_replaced_only_when_asked(tmp_path: Path) -> None:
    first, second = Graph.from_arrays(EDGES), Graph.from_arrays([[0], [1]])
    first.save(tmp_path / "graph")
    with pytest.raises(GamlpError, match="graph: already exists"):
        second.save(tmp_path / "graph")
    assert_same(first, Graph.open(tmp_path / "graph"))
    second.save(tmp_path / "graph", replace=True)
    assert_same(second, Graph.open(tmp_path / "graph"))
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_a_name_that_cannot_be_a_folder_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    graph = everything()
    for name in ("a/b", "..", "", ".hidden"):
        wrong = replace(graph, relations={name: graph.relations["cites"]})
        with pytest.raises(GamlpError, match="cannot name a node type or relation"):
            wrong.save(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_one_relation_is_expected_where_there_are_two() -> None:
    with pytest.raises(GamlpError, match=r"'all of it' has 2 relations \(cites, writes\) where one is expected"):
        _ = everything().relation
