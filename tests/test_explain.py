"""Weights over hops by degree, against the plain definition."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gamlp.explain import degree_bounds, grouped_hops, weights_by_degree
from gamlp.graph.graph import Graph, Split
from gamlp.models.gamlp import GAMLP
from gamlp.models.shape import HopWeights, Shape
from gamlp.propagation import FeatureSignal, LabelSignal, LocalEngine, Plan
from gamlp.training.batches import HopRows


@pytest.fixture
def source(tmp_path: Path) -> tuple[HopRows, np.ndarray]:
    random = np.random.default_rng(0)
    edges = np.stack([random.integers(0, 200, 700), random.integers(0, 200, 700) ** 2 // 200])
    split = Split.of(200, train=np.arange(50), valid=[], test=[])
    graph = Graph.from_arrays(edges, random.normal(size=(200, 6)), random.integers(0, 3, 200), split=split)
    plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2))
    store = LocalEngine().run(graph, plan, tmp_path / "hops")
    return HopRows(store, np.arange(200), 3, 2), graph.relation.degrees()


def test_means_of_every_range(source: tuple[HopRows, np.ndarray]) -> None:
    rows, degrees = source
    model = GAMLP(Shape(6, 3, 3, 2), attention="recursive", hidden=8).eval()
    found = weights_by_degree(model, rows, degrees, ranges=4)
    assert found is not None and 3 <= len(found.ranges) <= 4 and found.first_label_hop == 1 and not found.sampled
    x, y = (torch.from_numpy(values) for values in rows.gather(np.arange(200)))
    weights = model.hop_weights(x, y)
    assert sum(part.rows for part in found.ranges) == 200
    above = -1
    for part in found.ranges:
        inside = (degrees >= part.low) & (degrees <= part.high)
        assert part.low > above and part.rows == inside.sum()
        above = part.high
        assert np.allclose(part.features, weights.features[inside].mean(0), atol=1e-6)
        assert np.allclose(part.labels, weights.labels[inside].mean(0), atol=1e-6)


def test_many_rows_are_sampled(source: tuple[HopRows, np.ndarray]) -> None:
    rows, degrees = source
    model = GAMLP(Shape(6, 3, 3, 2), hidden=8)
    found = weights_by_degree(model, rows, degrees, most=80)
    assert found is not None and found.sampled and sum(part.rows for part in found.ranges) == 80
    assert found == weights_by_degree(model, rows, degrees, most=80)


def test_models_that_weigh_nothing(source: tuple[HopRows, np.ndarray]) -> None:
    class Silent(nn.Module):
        def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
            return HopWeights(None)

    rows, degrees = source
    assert weights_by_degree(nn.Linear(1, 1), rows, degrees) is None
    assert weights_by_degree(Silent(), rows, degrees) is None


def test_ranges_where_all_degrees_are_one() -> None:
    assert degree_bounds(np.full(10, 4), 4).tolist() == [4]
    assert degree_bounds(np.arange(100), 4).tolist() == [24, 49, 74, 99]


@pytest.mark.parametrize("count", [1, 2, 8, 9, 13, 21, 101])
def test_far_hops_are_told_together(count: int) -> None:
    weights = tuple(np.random.default_rng(0).dirichlet(np.ones(count)).tolist())
    columns = grouped_hops(weights, first=1)
    assert len(columns) <= 8 and sum(weight for _, weight in columns) == pytest.approx(1)
    ends = [hops.partition("–") for hops, _ in columns]
    assert int(ends[0][0]) == 1 and int(ends[-1][2] or ends[-1][0]) == count
    for one, two in itertools.pairwise(ends):
        assert int(two[0]) == int(one[2] or one[0]) + 1
