"""Hops held in memory, against dense algebra."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gamlp.graph import Graph
from gamlp.propagation import FeatureSignal, Operator, hops_in_memory
from tests.conformance import dense


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("r", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("directed", [False, True])
def test_hops_in_memory_are_powers_of_the_dense_operator(hops: int, dtype: str, r: float, directed: bool) -> None:
    random = np.random.default_rng(hops)
    edges, x = random.integers(0, 30, (2, 90)), random.normal(size=(30, 11)).astype(np.float32)
    graph = Graph.from_arrays(edges, x, directed=directed)
    found = hops_in_memory(graph, FeatureSignal(hops=hops, operator=Operator(r=r), dtype=dtype))
    plain = dense.adjacency(30, list(zip(*edges.tolist())), None, directed=directed)
    expected = dense.hops(dense.operator(plain, r, True), x, hops)
    assert len(found) == hops + 1
    for k, values in enumerate(found):
        if dtype == "bfloat16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        limit = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype] * max(1.0, np.abs(expected).max())
        assert np.abs(values - expected[:, k]).max() < limit
    assert np.array_equal(graph.nodes.features.values, x), "the caller's features are left alone"


def test_hops_that_take_long_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SimpleNamespace(monotonic=itertools.count(0, 1000).__next__, thread_time=time.thread_time)
    monkeypatch.setattr("gamlp.propagation.local.hops.time", slow)
    graph = Graph.from_arrays(np.array([[0, 1], [1, 2]]), np.eye(3))
    assert len(hops_in_memory(graph, FeatureSignal(hops=3))) == 4
