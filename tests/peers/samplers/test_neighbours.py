"""Sampled parts beside dense algebra: what is in them, how they are drawn, and what the nets make of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.graph import Graph, Labels, Split
from gamlp.models import Shape
from gamlp.peers import whole_graph
from gamlp.peers.contract import Task, Workspace
from gamlp.peers.registry import METHODS, recipe_for
from gamlp.peers.samplers.clusters import ClusterSampler, cluster_sampler, partition
from gamlp.peers.samplers.layerwise import LayeredPart
from gamlp.peers.samplers.neighbours import (
    NeighbourSampler,
    SampledPart,
    induced_part,
    neighbour_sampler,
    neighbourhood,
    take_rows,
)
from gamlp.peers.samplers.networks import ClusterGCN, GraphSAINT, SampledSAGE
from gamlp.peers.tensors import GraphRows, GraphTensors, Sampler
from gamlp.recipe import Recipe
from gamlp.run.resources import Resources
from tests.peers.sampled_equations import dense_logits

Array = np.ndarray[Any, Any]
SAMPLED = [name for name, method in METHODS.items() if method.family == "sampled"]


def make_view(
    seed: int, nodes: int = 30, *, weighted: bool = False, sparse: bool = False
) -> tuple[GraphTensors, Array]:
    """A random undirected graph, its edges in no order, and its dense A[target, source]."""
    random = np.random.default_rng(seed)
    dense = np.triu(random.random((nodes, nodes)) < min(1.0, 4 / nodes), 1) * random.uniform(0.5, 2, (nodes, nodes))
    dense = dense + dense.T if weighted else ((dense + dense.T) > 0).astype(float)
    targets, sources = np.nonzero(dense)
    order = random.permutation(len(targets))
    edges = np.stack([sources[order], targets[order]])
    x = torch.from_numpy(random.normal(size=(nodes, 5)) * (random.random((nodes, 5)) < 0.4)).float()
    weights = torch.from_numpy(dense[edges[1], edges[0]]).float() if weighted else None
    return GraphTensors(x.to_sparse_csr() if sparse else x, torch.from_numpy(edges), weights), dense


def dense_of(part: GraphTensors) -> Array:
    """A[target, source] of a part; an edge that occurs twice counts twice."""
    found = np.zeros((part.nodes, part.nodes))
    values = np.ones(part.edges.shape[1]) if part.weights is None else part.weights.numpy()
    np.add.at(found, (part.edges[1].numpy(), part.edges[0].numpy()), values)
    return found


def shuffled(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


GRAPHS = st.tuples(st.integers(0, 10**6), st.integers(2, 40), st.booleans(), st.booleans())


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 10**6))
def test_a_sampled_neighbourhood_holds_edges_of_the_graph_and_no_more_than_its_fanouts(
    which: tuple[int, int, bool, bool], fanouts: list[int], seed: int
) -> None:
    view, dense = make_view(which[0], which[1], weighted=which[2], sparse=which[3])
    rows = np.random.default_rng(seed).permutation(view.nodes)[: 1 + seed % view.nodes]
    part = neighbourhood(view, rows, fanouts, shuffled(seed))
    assert part.origin is not None and part.rows is not None
    origin = part.origin.numpy()
    assert len(np.unique(origin)) == len(origin)
    assert part.origin[part.rows].tolist() == rows.tolist() and part.within[0] == len(rows)
    held = dense_of(part)
    whole = dense[np.ix_(origin, origin)]
    np.testing.assert_allclose(held[held > 0], whole[held > 0], rtol=1e-6)  # of the graph, each at most once
    degrees = (dense > 0).sum(1)[origin]
    bounds = np.concatenate([[0], part.within])
    for step, fanout in enumerate([*fanouts, 0]):  # who is reached last hears nobody
        mine = slice(bounds[step], bounds[step + 1])
        assert ((held > 0).sum(1)[mine] == np.minimum(degrees[mine], fanout)).all()
    np.testing.assert_array_equal(part.x.to_dense(), view.x.to_dense()[origin])


@settings(max_examples=30, deadline=None)
@given(GRAPHS, st.integers(1, 3))
def test_without_a_fanout_everyone_within_reach_hears_all(which: tuple[int, int, bool, bool], steps: int) -> None:
    view, dense = make_view(which[0], which[1], weighted=which[2], sparse=which[3])
    rows = np.arange(0, view.nodes, 3)
    part = neighbourhood(view, rows, [None] * steps)
    assert part.origin is not None
    reached = np.isin(np.arange(view.nodes), rows)
    for step in range(steps):
        assert set(part.origin[: part.within[step]].tolist()) == set(np.flatnonzero(reached).tolist())
        reached = reached | (dense[reached] > 0).any(0)
    assert set(part.origin.tolist()) == set(np.flatnonzero(reached).tolist())
    inner, origin = part.within[-2], part.origin.numpy()
    np.testing.assert_allclose(dense_of(part)[:inner], dense[np.ix_(origin[:inner], origin)], rtol=1e-6)


def test_a_hub_draws_each_of_its_neighbours_equally_often() -> None:
    """3 of 8 in 4000 draws: a neighbour's count has mean 1500 and deviation 30.6; five of them are allowed."""
    edges = torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.int64)])
    view, generator, counts = GraphTensors(torch.eye(9), edges), shuffled(0), np.zeros(9)
    pairs = np.zeros((9, 9))
    for _ in range(4000):
        origin = neighbourhood(view, np.array([0]), [3], generator).origin
        assert origin is not None and len(origin) == 4
        counts[origin.numpy()] += 1
        pairs[np.ix_(origin, origin)] += 1
    assert (abs(counts[1:] - 1500) < 153).all()
    expected = 4000 * 3 * 2 / (8 * 7)
    inner = pairs[1:, 1:][~np.eye(8, dtype=bool)]
    assert (abs(inner - expected) < 5 * expected**0.5).all()


def test_an_epoch_of_batches_asks_for_every_row_once() -> None:
    view, _ = make_view(1)
    rows = np.arange(0, 30, 2)
    asked = [view.asked(view.origin).tolist() for view in _epoch(NeighbourSampler(view, rows, [2, 2], 4), 0)]
    assert [len(one) for one in asked] == [4, 4, 4, 3]
    together = list(itertools.chain(*asked))
    assert sorted(together) == rows.tolist() and together != rows.tolist()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [SampledSAGE, GraphSAINT, ClusterGCN])
def test_with_all_neighbours_a_part_gives_the_dense_equations_logits(
    make: Callable[[Shape, Recipe], nn.Module], weighted: bool, sparse: bool
) -> None:
    view, dense = make_view(3, weighted=weighted, sparse=sparse)
    options = {"diagonal": 0.7} if make is ClusterGCN else {}
    model = _made(make, options, "cluster-gcn")
    expected = dense_logits(model, view.x.to_dense().double(), torch.from_numpy(dense))
    most = int((dense > 0).sum(1).max())
    rows = np.array([7, 2, 29, 11])
    part = neighbourhood(view, rows, [most, most], shuffled(0))
    asked = view.of_rows(torch.from_numpy(rows))
    for model_of in (model.train(), model.eval()):  # no dropout: the same; scored, a net crops the graph itself
        torch.testing.assert_close(model_of(part), expected[rows].float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model_of(asked), expected[rows].float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model_of(view), expected.float(), rtol=1e-4, atol=1e-5)
    one = model(neighbourhood(view, rows, [1, 1], shuffled(0)))
    assert not torch.allclose(one, expected[rows].float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_through_a_part_are_those_of_the_dense_equations(sparse: bool) -> None:
    view, dense = make_view(5, sparse=sparse)
    model = _made(SampledSAGE, {}, "graphsage-sampled").train()
    rows = np.array([1, 4, 8])
    found = torch.autograd.grad(model(neighbourhood(view, rows, [99, 99])).square().sum(), list(model.parameters()))
    logits = dense_logits(model, view.x.to_dense().double(), torch.from_numpy(dense))[rows]
    wanted = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.integers(0, 10**6))
def test_a_part_that_nodes_induce_is_their_block_of_the_matrix(which: tuple[int, int, bool, bool], seed: int) -> None:
    view, dense = make_view(which[0], which[1], weighted=which[2], sparse=which[3])
    random = np.random.default_rng(seed)
    nodes = np.flatnonzero(random.random(view.nodes) < 0.6)
    rows = np.flatnonzero(random.random(view.nodes) < 0.5)
    part, _ = induced_part(view, nodes, rows)
    assert part.origin is not None
    np.testing.assert_allclose(dense_of(part), dense[np.ix_(nodes, nodes)], rtol=1e-6)
    assert part.asked(part.origin).tolist() == [row for row in rows.tolist() if row in set(nodes.tolist())]
    np.testing.assert_array_equal(part.x.to_dense(), view.x.to_dense()[nodes])


def test_rows_of_a_sparse_matrix_may_repeat_and_be_empty() -> None:
    x = torch.tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]])
    rows = torch.tensor([2, 1, 2, 0])
    assert torch.equal(take_rows(x.to_sparse_csr(), rows).to_dense(), x[rows])


@settings(max_examples=25, deadline=None)
@given(GRAPHS, st.integers(1, 6), st.integers(1, 3))
def test_clusters_hold_each_node_once_and_an_epoch_trains_on_each_row_once(
    which: tuple[int, int, bool, bool], count: int, together: int
) -> None:
    pytest.importorskip("pymetis")
    view, dense = make_view(which[0], which[1])
    members = partition(view, count, seed=which[0])
    assert len(members) <= min(count, view.nodes) and all(len(one) for one in members)
    assert sorted(np.concatenate(members).tolist()) == list(range(view.nodes))
    sampler = ClusterSampler(view, np.arange(view.nodes), members, together)
    parts = _epoch(sampler, which[0])
    assert len(parts) == -(-len(members) // together)
    assert sorted(torch.cat([_origin(part) for part in parts]).tolist()) == list(range(view.nodes))
    for part in parts:  # edges between the clusters that meet are kept
        nodes = _origin(part).numpy()
        np.testing.assert_array_equal(dense_of(part), dense[np.ix_(nodes, nodes)])
        assert torch.equal(part.asked(_origin(part)), _origin(part))


def test_two_cliques_with_a_bridge_are_cut_at_the_bridge_and_a_part_without_rows_is_left_out() -> None:
    pytest.importorskip("pymetis")
    dense = np.kron(np.eye(2), np.ones((6, 6))) - np.eye(12)
    dense[5, 6] = dense[6, 5] = 1
    view = GraphTensors(torch.eye(12), torch.from_numpy(np.stack(np.nonzero(dense))))
    members = partition(view, 2)
    assert sorted(one.tolist() for one in members) == [list(range(6)), list(range(6, 12))]
    parts = _epoch(ClusterSampler(view, np.array([8, 7]), members, 1), 0)
    assert [part.asked(_origin(part)).tolist() for part in parts] == [[7, 8]]
    assert parts[0].edges.shape[1] == 30  # the bridge is gone


def test_clusters_without_pymetis_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(GamlpError, match="PyMetis"):
        partition(make_view(0)[0], 2)


def test_an_option_that_no_sampler_has_is_refused() -> None:
    view, _ = make_view(0)
    rows = GraphRows(view, np.zeros(30, np.int64), np.arange(10), 2)
    for name, options, make in (
        ("graphsage-sampled", {"fanout": [2, 2]}, neighbour_sampler),
        ("graphsage-sampled", {"fanouts": [2]}, neighbour_sampler),
        ("graphsage-sampled", {"fanouts": [2, 0]}, neighbour_sampler),
        ("cluster-gcn", {"clusters": "many"}, cluster_sampler),
        ("cluster-gcn", {"together": -1}, cluster_sampler),
    ):
        recipe = Recipe.of({"model": {"name": name, "layers": 2, "options": options}})
        with pytest.raises(GamlpError, match=next(iter(options))):
            make(rows, recipe, 0)


@pytest.mark.parametrize("name", SAMPLED)
def test_a_run_is_decided_by_its_seed(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pymetis")
    task, recipe = Task(_graph()), _short(name)
    place = Workspace(tmp_path, Resources(threads=1, device="cpu"), probabilities=True)
    first, again, other = (METHODS[name].run(task, recipe, seed, place) for seed in (4, 4, 5))
    assert first.probabilities is not None and again.probabilities is not None and other.probabilities is not None
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert not np.array_equal(first.probabilities, other.probabilities)
    assert first.test == again.test and first.parameters > 0


@pytest.mark.parametrize("name", SAMPLED)
def test_inductive_training_sees_training_rows_and_edges_between_them_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samplers are given the training graph; and a net is the same whatever the other nodes and their edges are."""
    pytest.importorskip("pymetis")
    seen: list[GraphTensors] = []
    real = whole_graph.fit

    def spying(make: Any, train: GraphRows, *rest: Any, **named: Any) -> Any:
        assert train.sampler is not None
        seen.extend([train.tensors, *_epoch(train.sampler, 0)])
        return real(make, train, *rest, **named)

    monkeypatch.setattr(whole_graph, "fit", spying)
    recipe = _short(name).changed({"training.setting": "inductive", "training.keep": "last"})
    place = Workspace(tmp_path, Resources(threads=1, device="cpu"), probabilities=True)
    graph = _graph()
    split = graph.nodes.split
    assert split is not None
    METHODS[name].run(Task(graph), recipe, 0, place)
    view, *parts = seen
    dense = dense_of(view)
    assert view.nodes == len(split.train)
    np.testing.assert_array_equal(dense, _dense(graph)[np.ix_(split.train, split.train)])
    assert parts
    for part in parts:
        if isinstance(part, LayeredPart):  # its matrices are blocks of the view's: test_layerwise.py
            continue
        origin = _origin(part).numpy()
        assert ((dense_of(part) == 0) | (dense[np.ix_(origin, origin)] > 0)).all()
    first = len(seen)
    METHODS[name].run(Task(_graph(outside=9)), recipe, 0, place)
    assert torch.equal(seen[first].edges, view.edges) and torch.equal(seen[first].x, view.x)


def _epoch(sampler: Sampler, seed: int) -> list[SampledPart]:
    parts = list(sampler(shuffled(seed)))
    assert all(isinstance(part, SampledPart | LayeredPart) for part in parts)
    return parts  # type: ignore[return-value]


def _origin(part: GraphTensors) -> Tensor:
    assert part.origin is not None
    return part.origin


def _made(make: Callable[[Shape, Recipe], nn.Module], options: dict[str, Any], name: str) -> nn.Module:
    torch.manual_seed(0)
    recipe = Recipe.of({"model": {"name": name, "hidden": 7, "layers": 2, "dropout": 0.0, "options": options}})
    model = make(Shape(5, 3, 0), recipe)
    with torch.no_grad():  # no bias or scale at the value that would hide a mistake
        for value in model.parameters():
            value.copy_(torch.randn_like(value))
    return model


def _graph(outside: int = 0) -> Graph:
    """60 nodes, 24 of them to train on; `outside` changes features and edges of all others."""
    inner, other = np.random.default_rng(0), np.random.default_rng([1, outside])
    classes = np.arange(60) % 3
    ends = np.concatenate([inner.integers(0, 24, (2, 70)), other.integers(0, 60, (2, 160))], 1)
    touches = (ends >= 24).any(0)
    touches[:70] = True  # edges between training rows are the first seventy's alone
    ends = ends[:, touches & (ends[0] != ends[1]) & (classes[ends[0]] == classes[ends[1]])]
    features = np.concatenate([inner.normal(size=(24, 6)), other.normal(size=(36, 6))]) + 2 * np.eye(3, 6)[classes]
    roles = np.where(np.arange(60) < 24, 1, np.where(np.arange(60) < 40, 2, 3)).astype(np.int8)
    labels = Labels(classes.astype(np.int32), ("a", "b", "c"))
    return Graph.from_arrays(ends, features.astype(np.float32), labels, split=Split(roles), name="small", count=60)


def _dense(graph: Graph) -> Array:
    found = np.zeros((graph.nodes.count, graph.nodes.count))
    for rows, columns, _ in graph.relation.edges():
        found[rows, columns] = 1
    return found


def _short(name: str) -> Recipe:
    changes: dict[str, Any] = {"training.epochs": 3, "model.hidden": 8, "training.batch_size": 10}
    options: dict[str, Any] = {
        "cluster-gcn": {"clusters": 4, "together": 2},
        "graphsaint": {"roots": 12, "coverage": 5},
        "fastgcn": {"samples": 20},
    }
    return recipe_for(name).changed(changes | {"model.options": options.get(name, {"fanouts": [3, 2]})})
