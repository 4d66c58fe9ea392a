"""PyG's HeteroData as a graph of several types."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gamlp import GamlpError, Graph
from gamlp.graph.relations import REVERSE

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")


def library() -> Any:
    """Three papers, two authors; one cites another."""
    data = pyg.HeteroData()
    data["paper"].x = torch.arange(6.0).reshape(3, 2)
    data["paper"].y = torch.tensor([0, 1, -1])
    data["paper"].train_mask = torch.tensor([True, False, False])
    data["author"].num_nodes = 2
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 1, 2]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [2]])
    return data


def pairs(graph: Graph, name: str) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for rows, others, _ in graph.relations[name].edges() for a, b in zip(rows, others)]


def test_types_relations_and_targets() -> None:
    graph = Graph.from_pyg(library())
    assert graph.target == "paper" and {name: nodes.count for name, nodes in graph.node_types.items()} == {
        "paper": 3,
        "author": 2,
    }
    assert pairs(graph, "writes") == [(0, 0), (1, 1), (2, 1)]  # row = target
    assert pairs(graph, REVERSE + "writes") == [(0, 0), (1, 1), (1, 2)]
    assert pairs(graph, "cites") == [(0, 2), (2, 0)]
    assert graph.relation_pairs == {"writes": ("writes", "rev-writes"), "cites": ("cites",)}
    assert graph.nodes.labels is not None and graph.nodes.labels.values.tolist() == [0, 1, -1]
    assert graph.nodes.split is not None and graph.nodes.split.train.tolist() == [0]
    assert graph.node_types["author"].features is None
    one_way = Graph.from_pyg(library(), directed=True)
    assert set(one_way.relations) == {"writes", "cites"} and pairs(one_way, "cites") == [(2, 0)]


def test_a_reverse_that_pyg_made_is_the_reverse() -> None:
    data = library()
    order = torch.tensor([2, 0, 1])
    data["paper", "rev_writes", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)[:, order]
    assert set(Graph.from_pyg(data).relations) == {"writes", "rev-writes", "cites"}
    data["paper", "rev_writes", "author"].edge_index = torch.tensor([[0], [1]])  # other edges: a relation of its own
    assert set(Graph.from_pyg(data).relations) == {"writes", "rev-writes", "rev_writes", "rev-rev_writes", "cites"}


def test_weights_both_ways_are_not_doubled_and_one_name_of_two_relations_is_told_apart() -> None:
    data = library()
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 2], [2, 0]])
    data["paper", "cites", "paper"].edge_weight = torch.tensor([3.0, 3.0])
    data["author", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    graph = Graph.from_pyg(data)
    assert {"paper-cites-paper", "author-cites-paper"} <= set(graph.relations)
    assert graph.relations["paper-cites-paper"].blocks[0].weights.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {("author", "writes", "paper"): {"edge_index": torch.tensor([[5], [0]])}},
            "an edge names node 5 of 2",
        ),
        ({("author", "writes", "paper"): {"edge_index": torch.tensor([0.5])}}, "edge_index is float32 of shape (1,)"),
        ({"paper": {"x": torch.tensor([[np.nan]] * 3)}}, "x of type 'paper': feature nan of node 0"),
        ({"paper": {"y": torch.tensor([1])}}, "1 labels for 3 nodes of type 'paper'"),
        ({"author": {"y": torch.tensor([0, 1])}}, "types paper and author have labels y; say whose are asked for"),
    ],
)
def test_what_is_wrong_is_told_with_its_type(change: dict[Any, dict[str, Any]], sentence: str) -> None:
    data = library()
    for key, parts in change.items():
        for name, value in parts.items():
            setattr(data[key], name, value)
    with pytest.raises(GamlpError, match=re.escape(sentence)):
        Graph.from_pyg(data)


def test_nothing_at_all_and_a_target_that_is_not_there() -> None:
    with pytest.raises(GamlpError, match="no node types"):
        Graph.from_pyg(pyg.HeteroData())
    with pytest.raises(GamlpError, match="no nodes of type 'venue'; there are: paper, author"):
        Graph.from_pyg(library(), target="venue")
