"""Fewer edges, fewer labels: how many go, which ones, what stays, and that hops are never taken from another graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.bench.sparsity import changed_graph
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Split, fingerprint
from gamlp.graph.datasets.loading import load

EDGES, LABELS = "graph.edges_removed", "graph.labels_per_class"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small graphs of every kind: directed or not, weighted or not, some labels unknown."""
    count = draw(st.integers(2, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=40))
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    weights = np.arange(1, edges.shape[1] + 1, dtype=np.float32) if draw(st.booleans()) else None
    labels = draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count))
    roles = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return Graph.from_arrays(
        edges, np.arange(count * 2.0).reshape(count, 2), np.array(labels), weights=weights, count=count,
        split=Split(np.array(roles, np.int8)), directed=draw(st.booleans()),
    )  # fmt: skip


def entries(graph: Graph) -> dict[tuple[int, int], float]:
    """(row, neighbour) → weight, written out one by one."""
    found = {}
    for rows, neighbours, weights in graph.relation.edges():
        for index, pair in enumerate(zip(rows.tolist(), neighbours.tolist())):
            found[pair] = 1.0 if weights is None else float(weights[index])
    return found


def edges(graph: Graph) -> set[Any]:
    """An undirected edge is one, whichever way it is stored."""
    return set(entries(graph)) if graph.relation.directed else {frozenset(pair) for pair in entries(graph)}


@settings(max_examples=60, deadline=None)
@given(graphs(), st.floats(0, 0.99), st.integers(0, 5))
def test_the_share_is_removed_and_the_rest_is_untouched(graph: Graph, share: float, seed: int) -> None:
    changed = changed_graph(graph, EDGES, share, seed)
    before, after = entries(graph), entries(changed)
    assert len(edges(changed)) == len(edges(graph)) - round(share * len(edges(graph)))
    assert all(before[pair] == weight for pair, weight in after.items())
    if not graph.relation.directed:
        assert all((other, one) in after for one, other in after)
    assert changed.nodes is graph.nodes or changed.nodes == graph.nodes
    assert changed.relation.weighted == graph.relation.weighted or not after
    removed = len(after) < len(before)
    assert (fingerprint.structure(changed) != fingerprint.structure(graph)) is removed
    assert fingerprint.features(changed) == fingerprint.features(graph)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.floats(0, 0.99), st.floats(0, 0.99), st.integers(0, 5))
def test_a_higher_share_removes_a_superset(graph: Graph, one: float, other: float, seed: int) -> None:
    low, high = sorted((one, other))
    assert edges(changed_graph(graph, EDGES, high, seed)) <= edges(changed_graph(graph, EDGES, low, seed))


@settings(max_examples=80, deadline=None)
@given(graphs(), st.integers(1, 6), st.integers(1, 6), st.integers(0, 5))
def test_labels_are_kept_by_class_and_nested(graph: Graph, one: int, other: int, seed: int) -> None:
    few, many = (changed_graph(graph, LABELS, count, seed) for count in sorted((one, other)))
    assert graph.nodes.labels is not None and graph.nodes.split is not None
    values = graph.nodes.labels.values
    trained = {}
    for changed, count in ((few, min(one, other)), (many, max(one, other))):
        split = changed.nodes.split
        assert split is not None
        trained[count] = set(split.train.tolist())
        for number in range(len(graph.nodes.labels.classes)):
            had = int((values[graph.nodes.split.train] == number).sum())
            assert int((values[split.train] == number).sum()) == min(count, had)
        assert np.array_equal(split.valid, graph.nodes.split.valid)
        assert np.array_equal(split.test, graph.nodes.split.test)
        assert trained[count] <= set(graph.nodes.split.train.tolist())
        assert changed.nodes.labels is graph.nodes.labels and changed.relation is graph.relation
        fewer = len(trained[count]) < len(graph.nodes.split.train)
        assert (fingerprint.training_labels(changed) != fingerprint.training_labels(graph)) is fewer
        assert fingerprint.structure(changed) == fingerprint.structure(graph)
    assert trained[min(one, other)] <= trained[max(one, other)]


def test_seeds_draw_and_the_same_seed_repeats() -> None:
    graph = load("karate")
    once, again, other = (edges(changed_graph(graph, EDGES, 0.5, seed)) for seed in (0, 0, 1))
    assert once == again != other
    graph = load("digits")
    drawn = []
    for seed in (0, 0, 1):
        split = changed_graph(graph, LABELS, 1, seed).nodes.split
        assert split is not None
        drawn.append(split.train.tolist())
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == 10


def test_a_graph_of_a_folder_gives_up_the_checksums_of_what_changed(tmp_path: Path) -> None:
    """Else hops of the whole graph, which are kept by its fingerprint, would be read as those of the sparse one."""
    ring = Graph.from_arrays(
        [np.arange(30), (np.arange(30) + 1) % 30], np.eye(30), np.arange(30) % 3,
        split=Split((np.arange(30) % 3 + 1).astype(np.int8)[np.random.default_rng(0).permutation(30)]),
    )  # fmt: skip
    kept = ring.save(tmp_path / "ring")
    assert kept.checksums
    sparse, poor = changed_graph(kept, EDGES, 0.3, 0), changed_graph(kept, LABELS, 1, 0)
    assert fingerprint.structure(sparse) != fingerprint.structure(kept) == fingerprint.structure(poor)
    assert fingerprint.structure(changed_graph(kept, EDGES, 0.4, 0)) != fingerprint.structure(sparse)
    assert fingerprint.features(sparse) == fingerprint.features(kept) == fingerprint.features(poor)
    assert fingerprint.targets(poor) != fingerprint.targets(kept) == fingerprint.targets(sparse)


@pytest.mark.parametrize(
    ("key", "value"), [(EDGES, 1.0), (EDGES, -0.1), (LABELS, 0), (LABELS, 1.5), ("graph.nodes_removed", 0.5)]
)
def test_what_cannot_be_is_refused(key: str, value: float) -> None:
    with pytest.raises(GamlpError, match=r"share|training rows|no 'graph.nodes_removed'"):
        changed_graph(load("karate"), key, value, 0)


def test_many_labels_have_no_one_class() -> None:
    graph = Graph.from_arrays([[0], [1]], np.eye(2), np.eye(2, dtype=int), split=Split(np.ones(2, np.int8)))
    with pytest.raises(GamlpError, match="many labels"):
        changed_graph(graph, LABELS, 1, 0)
