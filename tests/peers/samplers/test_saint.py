"""GraphSAINT: what is drawn and how often, and that what was estimated makes mean and loss unbiased."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from gamlp.errors import GamlpError
from gamlp.peers.samplers.neighbours import SampledPart, incoming
from gamlp.peers.samplers.networks import mean_matrix
from gamlp.peers.samplers.saint import (
    DrawNodes,
    SaintSampler,
    edges_by_degree,
    estimate,
    nodes_by_norm,
    saint_sampler,
    walks,
)
from gamlp.peers.tensors import GraphRows, GraphTensors
from gamlp.recipe import Recipe
from gamlp.training.scores import loss_of

Array = np.ndarray[Any, Any]
NODES = 14
KINDS = ["walk", "node", "edge"]


def make_view(seed: int = 0, nodes: int = NODES) -> tuple[GraphTensors, Array]:
    """A path with random chords: connected, with unlike degrees; and its dense A."""
    random = np.random.default_rng(seed)
    dense = np.triu(random.random((nodes, nodes)) < 0.2, 1) | np.eye(nodes, k=1, dtype=bool)
    dense = (dense | dense.T).astype(float)
    targets, sources = np.nonzero(dense)
    x = torch.from_numpy(random.normal(size=(nodes, 3))).float()
    return GraphTensors(x, torch.from_numpy(np.stack([sources, targets]))), dense


def drawing(view: GraphTensors, rows: Array, kind: str) -> DrawNodes:
    near = incoming(view)
    if kind == "walk":
        return walks(near, rows, 3, 2)
    return nodes_by_norm(near, 6) if kind == "node" else edges_by_degree(near, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_corrected_mean_and_loss_of_parts_are_the_whole_graphs_on_average(kind: str) -> None:
    """1200 fresh parts, corrected by as many others or more, seeds fixed.

    The mean of what v hears, over the parts that hold v, is within 0.2 of (D^-1 A x)(v) (entries of x are of size
    one); without the correction it is 0.4 off somewhere. The loss is within 5 % of the rows' mean loss.
    """
    view, dense = make_view()
    rows = np.arange(0, NODES, 2)
    draw = drawing(view, rows, kind)
    corrections = estimate(view, rows, draw, 600, torch.Generator().manual_seed(1))
    sampler = SaintSampler(view, rows, draw, corrections)
    losses = torch.from_numpy(np.random.default_rng(5).uniform(0.5, 3, NODES)).float()
    generator = torch.Generator().manual_seed(2)
    heard, plain, held, lost, parts = np.zeros((NODES, 3)), np.zeros((NODES, 3)), np.zeros(NODES), 0.0, 0
    while parts < 1200:
        for part in sampler(generator):
            assert isinstance(part, SampledPart) and part.origin is not None and part.share is not None
            nodes = part.origin.numpy()
            heard[nodes] += torch.sparse.mm(mean_matrix(part), part.x).numpy()
            block = dense[np.ix_(nodes, nodes)]
            plain[nodes] += block / dense.sum(1)[nodes, None] @ part.x.numpy()
            held[nodes] += 1
            lost += float((part.share * losses[part.asked(part.origin)]).sum())
            parts += 1
    seen = held > 250
    assert seen.sum() > NODES // 2
    whole = dense / dense.sum(1, keepdims=True) @ view.x.numpy()
    far = abs(heard[seen] / held[seen, None] - whole[seen]).max()
    assert far < 0.2
    off = abs(plain[seen] / held[seen, None] - whole[seen]).max()
    assert off > 0.4
    assert lost / parts == pytest.approx(float(losses[rows].mean()), rel=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 25), st.sampled_from(KINDS), st.integers(1, 4))
def test_corrections_are_counts_of_the_parts_that_were_drawn(seed: int, nodes: int, kind: str, coverage: int) -> None:
    """Mean and share from C(v), C(u → v) counted part by part in a dense matrix; and each part is induced."""
    view, dense = make_view(seed, nodes)
    rows = np.unique(np.random.default_rng(seed).integers(0, nodes, 5))
    draw = drawing(view, rows, kind)
    found = estimate(view, rows, draw, coverage, torch.Generator().manual_seed(seed))
    generator, together, parts, held = torch.Generator().manual_seed(seed), np.zeros((nodes, nodes)), 0, 0
    while held < coverage * len(rows):
        inside = np.isin(np.arange(nodes), draw(generator))
        if inside[rows].any():
            together += np.outer(inside, inside)
            parts, held = parts + 1, held + int(inside[rows].sum())
    counts = np.maximum(together, 1)
    alone = np.diag(counts)
    expected = dense / dense.sum(1, keepdims=True) * alone[:, None] / counts
    sources, targets = view.edges.numpy()
    np.testing.assert_allclose(found.mean, expected[targets, sources], rtol=1e-5)
    np.testing.assert_allclose(found.share, parts / (alone * len(rows)), rtol=1e-5)
    assert found.parts == max(1, round(parts * len(rows) / held))
    for part in SaintSampler(view, rows, draw, found)(generator):
        assert isinstance(part, SampledPart) and part.origin is not None and part.weights is not None
        origin = part.origin.numpy()
        block = np.zeros((len(origin), len(origin)))
        block[part.edges[1].numpy(), part.edges[0].numpy()] = part.weights.numpy()
        np.testing.assert_allclose(block, expected[np.ix_(origin, origin)], rtol=1e-5)
        assert set(part.asked(part.origin).tolist()) == set(origin.tolist()) & set(rows.tolist()) != set()


def test_nodes_and_edges_are_drawn_with_the_papers_probabilities() -> None:
    """One draw a part, 20000 parts: every share within 0.015 (four deviations of the largest are 0.014)."""
    view, dense = make_view(3)
    near = incoming(view)
    degrees = dense.sum(1)
    norms = ((dense / degrees[:, None]) ** 2).sum(0)
    both = dense * (1 / degrees[:, None] + 1 / degrees)
    generator = torch.Generator().manual_seed(0)
    nodes, edges = np.zeros(NODES), np.zeros((NODES, NODES))
    one, pair = nodes_by_norm(near, 1), edges_by_degree(near, 1)
    for _ in range(20000):
        nodes[one(generator)] += 1
        first, second = pair(generator)
        edges[first, second] += 1
    assert abs(nodes / 20000 - norms / norms.sum()).max() < 0.015
    assert abs(edges / 20000 - 2 * np.triu(both) / both.sum()).max() < 0.015
    assert abs(nodes / 20000 - 1 / NODES).max() > 0.015  # not all alike


def test_a_walk_goes_along_edges_and_every_neighbour_is_as_likely() -> None:
    """One walk of one step from node 4, 6000 times: a neighbour's share within five deviations of 1 / d."""
    view, dense = make_view(1)
    draw = walks(incoming(view), np.array([4]), 1, 1)
    generator, counts = torch.Generator().manual_seed(0), np.zeros(NODES)
    for _ in range(6000):
        found = draw(generator)
        assert len(found) == 2 and 4 in found
        counts[found] += 1
    counts[4] = 0
    degree = dense[4].sum()
    assert (counts > 0).tolist() == (dense[4] > 0).tolist()
    deviation = (6000 * (1 / degree) * (1 - 1 / degree)) ** 0.5
    assert abs(counts[dense[4] > 0] - 6000 / degree).max() < 5 * deviation
    lonely = GraphTensors(torch.eye(2), torch.zeros((2, 0), dtype=torch.int64))
    assert walks(incoming(lonely), np.array([1]), 3, 2)(generator).tolist() == [1]


def test_shares_weigh_rows_in_the_loss() -> None:
    torch.manual_seed(0)
    logits, share = torch.randn(4, 3), torch.tensor([0.1, 0.5, 2.0, 0.0])
    target = torch.tensor([0, 2, 1, 1])
    each = -torch.log_softmax(logits, 1)[torch.arange(4), target]
    one = loss_of(target.numpy(), 3, "none", torch.device("cpu"))
    torch.testing.assert_close(one(logits, target, share), (each * share).sum())
    torch.testing.assert_close(one(logits, target), each.mean())
    balanced = loss_of(target.numpy(), 3, "balanced", torch.device("cpu"))
    weight = torch.tensor([4 / 3, 4 / 6, 4 / 3])[target]
    torch.testing.assert_close(balanced(logits, target, share), (each * weight * share).sum())
    many = torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
    rowwise = -(many * functional.logsigmoid(logits) + (1 - many) * functional.logsigmoid(-logits)).mean(1)
    several = loss_of(many.numpy(), 3, "none", torch.device("cpu"))
    torch.testing.assert_close(several(logits, many, share), (rowwise * share).sum())


def test_the_draws_that_estimate_are_not_those_of_training_and_both_hang_on_the_seed() -> None:
    view, _ = make_view(2)
    rows = GraphRows(view, np.zeros(NODES, np.int64), np.arange(0, NODES, 3), 2)
    recipe = Recipe.of({"model": {"name": "graphsaint", "options": {"roots": 4, "coverage": 6}}})
    first, again, other = (saint_sampler(rows, recipe, seed) for seed in (0, 0, 1))
    assert all(isinstance(one, SaintSampler) for one in (first, again, other))
    shares = [one.corrections.share for one in (first, again, other)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(shares[0], shares[1])
    assert not np.array_equal(shares[0], shares[2])
    draw = first.draw  # type: ignore[attr-defined]
    trained = estimate(view, rows.rows, draw, 6, torch.Generator().manual_seed(0))
    assert not np.array_equal(trained.share, shares[0])


def test_what_cannot_be_drawn_is_said() -> None:
    view, _ = make_view()
    rows = GraphRows(view, np.zeros(NODES, np.int64), np.array([0]), 2)
    with pytest.raises(GamlpError, match="sampler"):
        saint_sampler(rows, Recipe.of({"model": {"name": "graphsaint", "options": {"sampler": "star"}}}), 0)
    apart = GraphTensors(torch.eye(3), torch.tensor([[0, 1], [1, 0]]))
    lonely = GraphRows(apart, np.zeros(3, np.int64), np.array([2]), 2)
    with pytest.raises(GamlpError, match="no row to train on"):
        saint_sampler(lonely, Recipe.of({"model": {"name": "graphsaint", "options": {"sampler": "edge"}}}), 0)
    empty = GraphTensors(torch.eye(3), torch.zeros((2, 0), dtype=torch.int64))
    with pytest.raises(GamlpError, match="without edges"):
        nodes_by_norm(incoming(empty), 2)
