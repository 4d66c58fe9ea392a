"""Who hears a node within a number of hops, along edges with directions and without."""

from __future__ import annotations

import numpy as np
import pytest

from gamlp.graph import Graph, whole_view
from gamlp.graph.growth import GrownGraph, ViewLists, who_hears


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("hops", [0, 1, 2, 4])
def test_who_hears_is_the_powers_of_the_matrix(hops: int, directed: bool) -> None:
    random = np.random.default_rng(3)
    edges = random.integers(0, 60, (2, 70))
    edges = edges[:, edges[0] != edges[1]]
    graph = Graph.from_arrays(edges, np.zeros((60, 1)), directed=directed)
    view = ViewLists(GrownGraph(graph, {}, {}), graph, whole_view(graph))
    hears = np.eye(60, dtype=bool)
    hears[edges[1], edges[0]] = True
    if not directed:
        hears[edges[0], edges[1]] = True
    first, late = np.array([5, 11]), np.array([17])
    reached = np.isin(np.arange(60), first)
    for hop in range(hops):
        reached = (hears @ reached) | ((np.arange(60) == 17) if hop == 0 else False)
    assert who_hears(view, first, hops, late).tolist() == np.flatnonzero(reached).tolist()
