"""How often neighbours agree, against loops over all edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gamlp.graph import Graph, Labels, edge_homophily
from gamlp.graph import homophily as module

Array = np.ndarray[Any, Any]


def graph_of(values: Array, edges: Array, **given: Any) -> Graph:
    labels = Labels(values, tuple(f"class {index}" for index in range(3)))
    return Graph.from_arrays(edges, np.ones((len(values), 1), np.float32), labels, **given)


def random_graph(nodes: int = 200, *, agree: float = 0.3, seed: int = 0, **given: Any) -> Graph:
    random = np.random.default_rng(seed)
    values = random.integers(0, 3, nodes).astype(np.int32)
    ends = random.integers(0, nodes, (2, 20 * nodes))
    kept = (values[ends[0]] == values[ends[1]]) | (random.random(ends.shape[1]) < agree)
    return graph_of(values, ends[:, kept], **given)


@pytest.mark.parametrize("directed", [False, True])
def test_agreement_and_chance_are_those_of_a_loop_over_edges(directed: bool) -> None:
    graph = random_graph(directed=directed)
    values = graph.nodes.labels.values  # type: ignore[union-attr]
    rows = np.arange(0, 200, 2)
    pairs = [
        (values[row], values[other])
        for some, others, _ in graph.relation.edges()
        for row, other in zip(some, others)
        if row % 2 == 0 and other % 2 == 0
    ]
    here, there = np.bincount([one for one, _ in pairs]), np.bincount([other for _, other in pairs])
    found = edge_homophily(graph, rows)
    assert found is not None and found.edges == len(pairs) and not found.sampled
    assert found.agree == pytest.approx(np.mean([one == other for one, other in pairs]))
    assert found.chance == pytest.approx((here / len(pairs)) @ (there / len(pairs)))
    assert found.above_chance > 0.3


def test_a_hub_is_read_in_chunks_to_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    whole = edge_homophily(graph, np.arange(200))
    monkeypatch.setattr(module, "_CHUNK", 7)
    assert edge_homophily(graph, np.arange(200)) == whole


def test_labels_of_other_rows_change_nothing() -> None:
    graph = random_graph()
    rows = np.arange(0, 200, 2)
    other = graph.nodes.labels.values.copy()  # type: ignore[union-attr]
    other[1::2] = 2
    assert edge_homophily(graph.with_targets(labels=Labels(other, ("a", "b", "c"))), rows) == edge_homophily(
        graph, rows
    )


def test_of_many_edges_rows_are_drawn_and_that_is_said() -> None:
    graph = random_graph(2000)
    whole, some = edge_homophily(graph, np.arange(2000)), edge_homophily(graph, np.arange(2000), most=5000)
    assert whole is not None and some is not None
    assert some.sampled and not whole.sampled and 4000 < some.edges < 6000 < whole.edges
    assert some.agree == pytest.approx(whole.agree, abs=0.05)


def test_of_many_labels_a_node_the_share_that_the_neighbour_has_too() -> None:
    hot = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], np.int8)
    found = edge_homophily(graph_of(hot, np.array([[0, 1], [1, 2]])), np.arange(3))
    # Labels at the near ends: 0→1 two (one shared), 1→0 one (one shared), 1→2 one (none), 2→1 two (none).
    assert found is not None and found.agree == pytest.approx(2 / 6)
    assert found.chance == pytest.approx((3 * 3 + 2 * 2 + 1 * 1) / (6 * 4))


def test_without_labels_or_edges_between_them_nothing_is_said() -> None:
    graph = random_graph()
    assert edge_homophily(graph, np.zeros(0, np.int64)) is None
    assert edge_homophily(graph, np.array([0])) is None
    assert edge_homophily(graph.with_targets(labels=None), np.arange(200)) is None
    unknown = Labels(np.full(200, -1, np.int32), ("a", "b", "c"))
    assert edge_homophily(graph.with_targets(labels=unknown), np.arange(200)) is None
