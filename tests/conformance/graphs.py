"""Small graphs of every kind, for Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from gamlp.graph import Graph, Split
from tests.conformance import dense


@dataclass(frozen=True)
class Case:
    """A graph as the package holds it and as plain lists."""

    count: int
    edges: list[tuple[int, int]]
    weights: list[float] | None
    directed: bool
    features: np.ndarray
    labels: np.ndarray
    roles: np.ndarray

    def graph(self) -> Graph:
        index = np.array(self.edges, np.int64).reshape(-1, 2).T
        return Graph.from_arrays(
            index, self.features, self.labels, weights=self.weights, directed=self.directed, split=Split(self.roles)
        )

    def operator(self, r: float, loops: bool) -> np.ndarray:
        matrix = dense.adjacency(self.count, self.edges, self.weights, directed=self.directed)
        return dense.operator(matrix, r, loops)

    def first_labels(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Y^(0): one-hot on training rows (or on `rows`), zero elsewhere."""
        hot = np.zeros((self.count, int(self.labels.max()) + 1))
        for row in np.flatnonzero(self.roles == 1) if rows is None else rows:
            hot[row, self.labels[row]] = 1.0
        return hot


@st.composite
def cases(draw: st.DrawFn, least: int = 1) -> Case:
    """Isolated nodes, self-loops and duplicates in the input, weights (zero too), directed, one node, hubs."""
    count = draw(st.integers(least, 24))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=60))
    if draw(st.booleans()):  # a hub
        hub = draw(node)
        edges += [(hub, other) for other in range(count)]
    weights = None
    if draw(st.booleans()):
        weight = st.just(0.0) | st.floats(0.0625, 8, width=32)
        weights = draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))
    seed = draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    roles = random.integers(0, 4, count).astype(np.int8)
    roles[random.integers(count)] = 1
    return Case(
        count,
        edges,
        weights,
        draw(st.booleans()),
        random.normal(size=(count, draw(st.integers(1, 21)))).astype(np.float32),
        random.integers(0, 5, count).astype(np.int32),
        roles,
    )
