"""PyG's `Data` and tuples of arrays as graphs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, as_graph, fingerprint
from gamlp.graph.datasets.loading import load
from gamlp.graph.pyg import from_pyg

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")

Array = np.ndarray[Any, Any]
PATH = torch.tensor([[0, 1], [1, 2]])  # 0 → 1 → 2; node 3 is alone
X = torch.arange(8.0).reshape(4, 2)


def data(**parts: Any) -> Any:
    return pyg.Data(**{"edge_index": PATH, "x": X, **parts})


def mask(text: str) -> Any:
    return torch.tensor([char == "1" for char in text])


def matrix(graph: Graph) -> list[list[float]]:
    found = np.zeros((graph.nodes.count, graph.nodes.count))
    for rows, neighbours, weights in graph.relation.edges():
        found[rows, neighbours] = 1.0 if weights is None else weights
    return found.tolist()


def test_edges_go_both_ways_unless_directed() -> None:
    both = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    graph = from_pyg(data())
    assert matrix(graph) == both and not graph.relation.directed and not graph.relation.weighted
    assert np.array_equal(graph.nodes.features.values, X.numpy())
    assert (graph.nodes.labels, graph.nodes.split) == (None, None)
    assert matrix(from_pyg(data(edge_index=torch.cat([PATH, PATH.flip(0)], 1)))) == both
    graph = from_pyg(data(), directed=True)
    assert matrix(graph) == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]] and graph.relation.directed


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_weights_that_are_the_same_both_ways_are_not_doubled(name: str) -> None:
    both = torch.cat([PATH, PATH.flip(0)], 1)
    expected = [[0, 0.5, 0, 0], [0.5, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    for edges, weights in ((both, [0.5, 3.0, 0.5, 3.0]), (PATH, [0.5, 3.0])):
        graph = from_pyg(data(edge_index=edges, **{name: torch.tensor(weights)}))
        assert matrix(graph) == expected and not graph.relation.directed
    # Weights that differ by direction add up, as those of any two edges between the same nodes do.
    graph = from_pyg(data(edge_index=both, **{name: torch.tensor([1.0, 3.0, 0.5, 3.0])}))
    assert matrix(graph) == [[0, 1.5, 0, 0], [1.5, 0, 6, 0], [0, 6, 0, 0], [0, 0, 0, 0]]
    graph = from_pyg(data(edge_index=both, **{name: torch.tensor([1.0, 3.0, 0.5, 3.0])}), directed=True)
    assert matrix(graph) == [[0, 0.5, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]


def test_attributes_of_edges_that_are_no_weights_are_left_aside() -> None:
    assert not from_pyg(data(edge_attr=torch.ones(2, 3))).relation.weighted
    graph = from_pyg(data(edge_attr=torch.tensor([9.0, 9.0]), edge_weight=torch.tensor([1.0, 2.0])))
    assert matrix(graph)[1] == [1, 0, 2, 0]


def test_one_label_a_node() -> None:
    for y in ([2, 0, -1, 2], [[2], [0], [-1], [2]], [2.0, 0.0, float("nan"), 2.0], [[2.0], [0.0], [float("nan")], [2]]):
        labels = from_pyg(data(y=torch.tensor(y))).nodes.labels
        assert labels.values.tolist() == [2, 0, -1, 2] and labels.classes == ("0", "1", "2"), y


def test_many_labels_a_node() -> None:
    for kind in (torch.float32, torch.int64, torch.bool):
        labels = from_pyg(data(y=torch.tensor([[1, 0], [0, 0], [1, 1], [0, 1]]).to(kind))).nodes.labels
        assert labels.multi_label and labels.values.tolist() == [[1, 0], [0, 0], [1, 1], [0, 1]]
    nan = float("nan")
    labels = from_pyg(data(y=torch.tensor([[1, 0], [nan, nan], [1, 1], [0, 1]]))).nodes.labels
    assert labels.known().tolist() == [True, False, True, True]
    with pytest.raises(GamlpError, match="some labels of node 1 are NaN; give all labels of a node"):
        from_pyg(data(y=torch.tensor([[1, 0], [nan, 0], [1, 1], [0, 1]])))


def test_masks_of_one_and_of_many_splits() -> None:
    train, valid, test = mask("1100"), mask("0010"), mask("0001")
    graph = from_pyg(data(train_mask=train, val_mask=valid, test_mask=test))
    assert graph.nodes.split.roles.tolist() == [1, 1, 2, 3]
    assert from_pyg(data(train_mask=train)).nodes.split.roles.tolist() == [1, 1, 0, 0]
    several = data(
        train_mask=torch.stack([train, valid], 1), val_mask=torch.stack([valid, mask("1000")], 1), test_mask=test
    )
    assert from_pyg(several).nodes.split.roles.tolist() == [1, 1, 2, 3]
    assert from_pyg(several, split=1).nodes.split.roles.tolist() == [2, 0, 1, 3]
    with pytest.raises(GamlpError, match="train_mask has 2 splits, not one numbered 2; count from 0"):
        from_pyg(several, split=2)
    with pytest.raises(GamlpError, match="2 nodes are in train_mask and in test_mask; let masks exclude"):
        from_pyg(data(train_mask=train, test_mask=mask("1101")))
    with pytest.raises(GamlpError, match=r"val_mask has shape \(3,\) for 4 nodes"):
        from_pyg(data(val_mask=mask("001")))


def test_tensors_of_every_kind() -> None:
    expected = from_pyg(data()).nodes.features.values
    for x in (X.clone().requires_grad_(), X.to_sparse(), X.double(), X.bfloat16(), X.numpy()):
        assert np.array_equal(from_pyg(data(x=x)).nodes.features.values, expected)
    assert from_pyg(data(x=X.half())).nodes.features.dtype == "float16"
    assert matrix(from_pyg(data(edge_index=PATH.int()))) == matrix(from_pyg(data()))
    edges = pytest.importorskip("torch_geometric").EdgeIndex(PATH, sparse_size=(4, 4))
    assert matrix(from_pyg(data(edge_index=edges))) == matrix(from_pyg(data()))
    graph = from_pyg(pyg.Data(edge_index=PATH, num_nodes=6))
    assert graph.nodes.count == 6 and graph.nodes.features is None
    assert from_pyg(pyg.Data(edge_index=torch.zeros(2, 0, dtype=torch.long), x=X)).relation.entries == 0


@pytest.mark.parametrize("make", [from_pyg, as_graph])
def test_what_is_no_graph_is_told_in_one_sentence(make: Any) -> None:
    for source, told in (
        (pyg.HeteroData(), "the HeteroData has no node types"),
        (pyg.Data(x=X), "the PyG data has no edge_index"),
        ("cora", "a str is not a graph; give a Graph, PyG's Data, or a tuple"),
        (X, "a Tensor is not a graph"),
        (None, "a NoneType is not a graph"),
    ):
        with pytest.raises(GamlpError, match=told):
            make(source)


EDGES, FEATURES = np.array([[0, 1], [1, 2]]), np.eye(4)


@pytest.mark.parametrize(
    ("y", "values", "classes"),
    [
        (np.array(["b", "", "a", "b"]), [1, -1, 0, 1], ("a", "b")),
        (np.array(["b", None, "a", float("nan")], object), [1, -1, 0, -1], ("a", "b")),
        (["b", None, "a", " b "], [1, -1, 0, 1], ("a", "b")),
        (["b", float("nan"), "a", "b"], [1, -1, 0, 1], ("a", "b")),
        (np.array([b"b", b"", b"a", b"b"]), [1, -1, 0, 1], ("a", "b")),
        (np.array([["b"], ["b"], ["a"], ["b"]]), [1, 1, 0, 1], ("a", "b")),
        (["10", "9", "", "10"], [1, 0, -1, 1], ("9", "10")),
        ([7, 10**9, -1, 7], [0, 1, -1, 0], ("7", "1000000000")),
        (np.array([7.0, np.nan, 10.0, 7.0]), [0, -1, 1, 0], ("7", "10")),
        (np.array([7, None, 10, 7], object), [0, -1, 1, 0], ("7", "10")),
        (torch.tensor([1, 0, -1, 1]), [1, 0, -1, 1], ("0", "1")),
        (np.array([True, False, True, True]), [1, 0, 1, 1], ("0", "1")),
        ([[1, 0], [0, 1], [1, 1], [0, 0]], [[1, 0], [0, 1], [1, 1], [0, 0]], ("0", "1")),
        (Labels(np.array([0, 0, 1, -1], np.int32), ("x", "y")), [0, 0, 1, -1], ("x", "y")),
    ],
)
def test_labels_of_a_tuple_are_named_by_their_values(y: Any, values: list[Any], classes: tuple[str, ...]) -> None:
    plain = Graph.from_arrays(EDGES, FEATURES, [0, 0, 0, 0])
    for graph in (
        as_graph((EDGES, FEATURES, y)),
        as_graph((EDGES, FEATURES), y),
        as_graph(plain, y),
        as_graph(data(), y),
    ):
        assert graph.nodes.labels.values.tolist() == values and graph.nodes.labels.classes == classes
        assert graph.nodes.labels.values.dtype == (np.int8 if graph.nodes.labels.multi_label else np.int32)
        assert graph.relation.entries == 4 and graph.nodes.split is None


def test_pandas_columns_are_labels() -> None:
    pandas = pytest.importorskip("pandas")
    for kind in (object, "string", "category"):
        y = pandas.Series(["b", None, "a", "b"], dtype=kind)
        assert as_graph((EDGES, FEATURES, y)).nodes.labels.values.tolist() == [1, -1, 0, 1]
    assert as_graph((EDGES, FEATURES, pandas.Series([3, None, 5, 3], dtype="Int64"))).nodes.labels.classes == ("3", "5")


def test_nothing_known_is_no_labels() -> None:
    for y in (["", None, "", None], [-1, -1, -1, -1], np.full(4, np.nan)):
        assert as_graph((EDGES, FEATURES, y)).nodes.labels is None


def test_tuples_of_tensors_and_sparse_features() -> None:
    expected = np.eye(4, dtype=np.float32)
    for x in (torch.eye(4, requires_grad=True), scipy.sparse.eye(4, format="csr"), FEATURES.tolist()):
        graph = as_graph((PATH, x))
        assert np.array_equal(graph.nodes.features.values, expected) and graph.nodes.labels is None
    assert as_graph((PATH, None)).nodes.features is None
    assert from_pyg(data(x=scipy.sparse.csr_matrix(X.numpy()))).nodes.count == 4


@pytest.mark.parametrize(
    ("source", "y", "told"),
    [
        ((EDGES,), None, "a tuple of 1 is not a graph"),
        ((EDGES, FEATURES, ["a"]), None, "disagree about the number of nodes"),
        (Graph.from_arrays(EDGES, FEATURES), ["a", "b"], "2 labels for 4 nodes; give one label a node"),
        ((EDGES, FEATURES, [0.5, 1, 2, 3]), None, "labels are not whole numbers"),
        ((EDGES, FEATURES, [["a", "b"]] * 4), None, "labels are not whole numbers"),
        ((EDGES, FEATURES, [[1, 0], [1]]), None, "rows of different lengths"),
    ],
)
def test_what_does_not_fit_is_told(source: Any, y: Any, told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        as_graph(source, y)


def test_a_graph_is_itself_and_with_other_labels_keeps_its_fingerprints(tmp_path: Path) -> None:
    graph = Graph.from_arrays(EDGES, FEATURES, [0, 1, 0, 1]).save(tmp_path / "graph")
    assert as_graph(graph) is graph
    other = as_graph(graph, ["a", "b", "c", None])
    assert graph.nodes.labels.classes == ("0", "1") and other.nodes.labels.classes == ("a", "b", "c")
    assert other.folder is None
    assert fingerprint.structure(other) == fingerprint.structure(graph)
    assert fingerprint.features(other) == fingerprint.features(graph)


def test_neither_torch_nor_pyg_is_imported() -> None:
    code = "import sys, gamlp.graph.pyg; sys.exit(any(name.startswith('torch') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cora_is_the_same_by_both_ways_in(data_dir: Path) -> None:
    from torch_geometric import io

    ours = load("cora", data_dir)
    theirs = from_pyg(io.read_planetoid_data(str(data_dir / "Planetoid/Cora/raw"), "cora"))
    for rows, others in zip(ours.relation.edges(), theirs.relation.edges(), strict=True):
        assert np.array_equal(rows[0], others[0]) and np.array_equal(rows[1], others[1])
    assert np.array_equal(theirs.nodes.features.values, ours.nodes.features.values)
    assert np.array_equal(theirs.nodes.labels.values, ours.nodes.labels.values)
    assert np.array_equal(theirs.nodes.split.roles, ours.nodes.split.roles)
