"""networkx and scipy as graphs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gamlp import GamlpError, Graph
from gamlp.graph import as_graph

networkx = pytest.importorskip("networkx")


def matrix(graph: Graph) -> list[list[float]]:
    found = np.zeros((graph.nodes.count, graph.nodes.count))
    for rows, neighbours, weights in graph.relation.edges():
        found[rows, neighbours] = 1.0 if weights is None else weights
    return found.tolist()


def path(kind: Any = None) -> Any:
    """a – b – c, with what nodes and edges hold."""
    network = (kind or networkx.Graph)()
    network.add_node("a", age=1, vector=[1.0, 2.0], label="x")
    network.add_node("b", age=2, vector=np.array([3.0, 4.0]), label="y")
    network.add_node("c", age=3, vector=[5.0, 6.0])
    network.add_edge("a", "b", weight=0.5)
    network.add_edge("b", "c", weight=2)
    return network


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_attributes_are_columns() -> None:
    graph = Graph.from_networkx(path())
    assert graph.nodes.ids.take(np.arange(3)).to_pylist() == ["a", "b", "c"]
    assert [column.name for column in graph.columns["node"]] == ["age", "vector"]
    assert graph.nodes.labels is not None and graph.nodes.labels.values.tolist() == [0, 1, -1]
    assert matrix(graph) == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    directed = as_graph(path(networkx.DiGraph))
    assert matrix(directed) == [[0, 0, 0], [0.5, 0, 0], [0, 2, 0]] and directed.relation.directed


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nodes_of_integers_and_an_attribute_called_id() -> None:
    network = networkx.path_graph(4)
    for node in network:
        network.nodes[node].update(id=f"name {node}", size=float(node))
    network.add_edge(0, 1)
    graph = Graph.from_networkx(network, label="", features=["size"])
    assert graph.nodes.ids.take(np.arange(4)).to_pylist() == [0, 1, 2, 3] and graph.nodes.labels is None


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (networkx.Graph(), "has no nodes"),
        (networkx.Graph([(1, "b")]), "nodes, column id: values of different kinds"),
        (networkx.Graph([((1, 2), (3, 4))]), "column id: ids are"),
        (3, "a int is not a graph of networkx; give a networkx.Graph"),
    ],
)
def test_what_cannot_be_a_graph_is_told(network: Any, sentence: str) -> None:
    with pytest.raises(GamlpError, match=re.escape(sentence)):
        Graph.from_networkx(network)


def test_a_sparse_matrix_is_an_adjacency() -> None:
    one_way = scipy.sparse.csr_matrix([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    both = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    graph = Graph.from_scipy(one_way, np.eye(3), ["x", "y", None])
    assert matrix(graph) == both and not graph.relation.weighted
    assert graph.nodes.labels is not None and graph.nodes.labels.classes == ("x", "y")
    assert matrix(Graph.from_scipy(scipy.sparse.csr_array(both), np.eye(3))) == both
    weighted = scipy.sparse.coo_matrix(np.array(both) * 3)
    assert matrix(Graph.from_scipy(weighted, np.eye(3))) == (np.array(both) * 3.0).tolist()  # not six
    assert matrix(Graph.from_scipy(one_way, np.eye(3), directed=True)) == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    for wrong, sentence in ((np.eye(3), "not a sparse matrix"), (scipy.sparse.csr_matrix((2, 3)), "is 2 × 3")):
        with pytest.raises(GamlpError, match=sentence):
            Graph.from_scipy(wrong)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_attributes_that_are_called_by_numbers() -> None:
    network = networkx.path_graph(4)
    for node in network:
        network.nodes[node].update({0: node + 0.5, 1: node * node + 0.25})
    graph = Graph.from_networkx(network, label="")
    assert [column.name for column in graph.columns["node"]] == ["0", "1"]
