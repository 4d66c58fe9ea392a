"""Weights over hops by degree and by class, against the plain definition."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gamlp.explanation.weights import degree_bounds, grouped_hops, weights_by_class, weights_by_degree
from gamlp.graph import Graph, Labels, Split
from gamlp.models import HopWeights, Shape
from gamlp.models.gamlp import GAMLP
from gamlp.propagation import FeatureSignal, LabelSignal, LocalPropagator, Plan
from gamlp.training.batches import HopRows


@pytest.fixture
def source(tmp_path: Path) -> tuple[HopRows, np.ndarray]:
    random = np.random.default_rng(0)
    edges = np.stack([random.integers(0, 200, 700), random.integers(0, 200, 700) ** 2 // 200])
    split = Split.of(200, train=np.arange(50), valid=[], test=[])
    graph = Graph.from_arrays(edges, random.normal(size=(200, 6)), random.integers(0, 3, 200), split=split)
    plan = Plan(features=FeatureSignal(hops=3), labels=LabelSignal(hops=2))
    store = LocalPropagator().propagate(graph, plan, tmp_path / "hops")
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
    assert weights_by_class(nn.Linear(1, 1), rows, ("a", "b", "c")) is None
    assert weights_by_class(Silent(), rows, ("a", "b", "c"), by="true") is None


@pytest.mark.parametrize("by", ["predicted", "true"])
def test_means_of_every_class(source: tuple[HopRows, np.ndarray], by: str) -> None:
    rows, _ = source
    torch.manual_seed(3)
    model = GAMLP(Shape(6, 3, 3, 2), attention="recursive", hidden=8, layers=1)  # one layer: all classes come up
    found = weights_by_class(model, rows, ("a", "b", "c"), by=by)
    x, y = (torch.from_numpy(values) for values in rows.gather(np.arange(200)))
    weights, logits = model.hop_weights(x, y), model.eval()(x, y)
    given = logits.argmax(1).numpy() if by == "predicted" else rows.targets
    assert found is not None and found.by == by and found.first_label_hop == 1 and not found.sampled
    assert [part.name for part in found.classes] == [name for number, name in enumerate("abc") if number in given]
    assert len(found.classes) > 1 and sum(part.rows for part in found.classes) == 200
    for part in found.classes:
        inside = given == "abc".index(part.name)
        assert part.rows == inside.sum()
        assert np.allclose(part.features, weights.features[inside].mean(0), atol=1e-6)
        assert np.allclose(part.labels, weights.labels[inside].mean(0), atol=1e-6)


def test_true_classes_of_labelled_nodes_only(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    edges = random.integers(0, 60, (2, 150))
    labels = np.where(np.arange(60) < 20, random.integers(0, 2, 60), -1)
    graph = Graph.from_arrays(edges, random.normal(size=(60, 4)), Labels(labels.astype(np.int32), ("a", "b")))
    store = LocalPropagator().propagate(graph, Plan(features=FeatureSignal(hops=2)), tmp_path / "hops")
    rows, model = HopRows(store, np.arange(60), 2), GAMLP(Shape(4, 2, 2), hidden=8, beta=0)
    true, predicted = (weights_by_class(model, rows, ("a", "b"), by=by) for by in ("true", "predicted"))
    assert true is not None and [part.rows for part in true.classes] == np.bincount(labels[:20]).tolist()
    assert predicted is not None and sum(part.rows for part in predicted.classes) == 60
    assert predicted.classes[0].labels is None and predicted.largest(1)[0].rows == max(
        p.rows for p in predicted.classes
    )


def test_a_node_of_many_labels_is_in_each_of_its_classes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 2, (50, 3)).astype(np.int8)
    graph = Graph.from_arrays(
        random.integers(0, 50, (2, 120)), random.normal(size=(50, 4)), Labels(values, ("a", "b", "c"))
    )
    store = LocalPropagator().propagate(graph, Plan(features=FeatureSignal(hops=2)), tmp_path / "hops")
    rows, model = HopRows(store, np.arange(50), 2), GAMLP(Shape(4, 3, 2), hidden=8, beta=0).eval()
    x = torch.from_numpy(rows.gather(np.arange(50))[0])
    weights, probabilities = model.hop_weights(x).features, torch.sigmoid(model(x)).detach().numpy()
    for by, member in (("true", values > 0), ("predicted", probabilities > 0.5)):
        found = weights_by_class(model, rows, ("a", "b", "c"), by=by, multi_label=True)
        assert found is not None and {part.name for part in found.classes} == {
            name for number, name in enumerate("abc") if member[:, number].any()
        }
        for part in found.classes:
            inside = member[:, "abc".index(part.name)]
            assert part.rows == inside.sum() and np.allclose(part.features, weights[inside].mean(0), atol=1e-6)


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


class _Given(nn.Module):
    """Weighs hops of features as it is told, node by node."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        return HopWeights(self.weights[: len(x)])


def test_flat_weights_are_said_and_weights_that_differ_from_node_to_node_are_not(
    source: tuple[HopRows, np.ndarray],
) -> None:
    rows, degrees = source
    equal = weights_by_degree(_Given(torch.full((200, 4), 0.25)), rows, degrees)
    assert equal is not None and equal.uneven == {"features": 0}
    assert (
        "are equal, 25.0 % each: the model takes the mean of 4 hops" in str(equal.flat("features"))
        and equal.flat("labels") is None
    )
    nearly = weights_by_degree(_Given(torch.tensor([[0.27, 0.25, 0.25, 0.23]]).repeat(200, 1)), rows, degrees)
    assert nearly is not None and nearly.uneven["features"] == 0
    assert "are flat, 23.0 % to 27.0 %: the model takes about" in str(nearly.flat("features"))
    # Every node listens to one hop; the means over nodes are equal all the same.
    each = weights_by_degree(_Given(torch.eye(4).repeat(50, 1)), rows, np.ones(200, np.int64))
    assert each is not None and each.ranges[0].features == pytest.approx([0.25] * 4)
    assert each.uneven["features"] == 1 and each.flat("features") is None


def test_weights_that_differ_for_some_nodes_are_not_flat(source: tuple[HopRows, np.ndarray]) -> None:
    weights = torch.full((200, 4), 0.25)
    weights[:30] = torch.tensor([0.4, 0.2, 0.2, 0.2])
    found = weights_by_degree(_Given(weights), source[0], np.where(np.arange(200) < 30, 9, 1))
    assert found is not None and found.uneven["features"] == pytest.approx(0.15) and found.flat("features") is None


def test_one_hop_alone_is_not_called_flat(source: tuple[HopRows, np.ndarray]) -> None:
    found = weights_by_degree(_Given(torch.ones(200, 1)), *source)
    assert found is not None and found.flat("features") is None


@pytest.mark.parametrize("ranges", [1, 3, 6])
def test_bounds_of_counted_degrees_are_numpys_quantiles(ranges: int) -> None:
    random = np.random.default_rng(ranges)
    for count in (1, 2, 7, 60, 999):
        degrees = random.geometric(0.2, count)
        expected = np.quantile(degrees, np.arange(1, ranges + 1) / ranges, method="inverted_cdf")
        assert degree_bounds(degrees, ranges).tolist() == np.unique(expected).tolist()
