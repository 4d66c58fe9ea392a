"""Message passing peers against their equations, written out with dense matrices on a small graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("torch_geometric")

from gamlp.errors import GamlpError
from gamlp.models import Shape
from gamlp.peers import message_passing as peers
from gamlp.peers.tensors import UNKNOWN, GraphRows, GraphTensors
from gamlp.recipe import Recipe, TrainingSettings
from gamlp.training.optimizer import parameter_groups

NODES, WIDTH, CLASSES = 9, 7, 3
ALL = {
    "gcn": peers.GCN, "gat": peers.GAT, "jk-net": peers.JKNet, "resgcn": peers.ResGCN, "appnp": peers.APPNP,
    "ap-gcn": peers.APGCN, "unimp": peers.UniMP, "graphsage": peers.SAGE, "deepergcn": peers.DeeperGCN,
}  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A graph by its dense adjacency, row i = what node i hears; node 4 hears none."""

    near: Tensor
    x: Tensor

    def view(self, sparse: bool = False, rows: Tensor | None = None) -> GraphTensors:
        target, source = self.near.nonzero().T
        return GraphTensors(self.x.to_sparse_csr() if sparse else self.x, torch.stack([source, target]), rows=rows)

    def normalised(self) -> Tensor:
        """D^-1/2 (A + I) D^-1/2."""
        own = self.near + torch.eye(NODES)
        scale = own.sum(1).rsqrt()
        return scale[:, None] * own * scale


@pytest.fixture
def small() -> Small:
    random = np.random.default_rng(3)
    near = np.triu(random.random((NODES, NODES)) < 0.4, 1)
    near = near | near.T
    near[4], near[:, 4] = False, False
    x = random.normal(size=(NODES, WIDTH)) * (random.random((NODES, WIDTH)) < 0.5)
    return Small(torch.from_numpy(near.astype(np.float32)), torch.from_numpy(x.astype(np.float32)))


def recipe(name: str, *, options: dict[str, Any] | None = None, **settings: Any) -> Recipe:
    return Recipe.of({"model": {"name": name, "hidden": 5, "layers": 3, **settings, "options": options or {}}})


def made(name: str, *, options: dict[str, Any] | None = None, **settings: Any) -> Any:
    torch.manual_seed(0)
    model = ALL[name](Shape(WIDTH, CLASSES, 0), recipe(name, options=options, **settings))
    for value in model.parameters():  # biases begin at zero: an equation that forgot one would still agree
        value.data += 0.1 * torch.randn_like(value)
    return model.eval()


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-4)


def convolved(layer: Any, matrix: Tensor, hidden: Tensor) -> Tensor:
    found: Tensor = matrix @ hidden @ layer.lin.weight.T + layer.bias
    return found


def test_gcn(small: Small) -> None:
    model, matrix = made("gcn"), small.normalised()
    one, two, three = model.layers
    hidden = convolved(two, matrix, convolved(one, matrix, small.x).relu()).relu()
    same(model(small.view()), convolved(three, matrix, hidden))


def test_weights_of_edges_count_in_a_convolution(small: Small) -> None:
    near = small.near * torch.arange(1.0, NODES + 1)[:, None]
    near = torch.maximum(near, near.T)
    target, source = near.nonzero().T
    own = near + torch.eye(NODES)
    matrix = own.sum(1).rsqrt()[:, None] * own * own.sum(1).rsqrt()
    model = made("gcn", layers=1)
    view = GraphTensors(small.x, torch.stack([source, target]), near[target, source])
    same(model(view), convolved(model.layers[0], matrix, small.x))


def test_residuals_are_added_between_the_first_and_the_last_layer(small: Small) -> None:
    model, matrix = made("resgcn", layers=4), small.normalised()
    hidden = convolved(model.first, matrix, small.x).relu()
    for layer in model.layers:
        hidden = hidden + convolved(layer, matrix, hidden).relu()
    assert len(model.layers) == 2
    same(model(small.view()), convolved(model.last, matrix, hidden))


@pytest.mark.parametrize("jump", ["cat", "max"])
def test_jumping_knowledge_joins_every_layer(small: Small, jump: str) -> None:
    model, matrix = made("jk-net", options={"jump": jump}), small.normalised()
    found, hidden = [], small.x
    for layer in model.layers:
        hidden = convolved(layer, matrix, hidden).relu()
        found.append(hidden)
    joined = torch.cat(found, 1) if jump == "cat" else torch.stack(found).amax(0)
    same(model(small.view()), joined @ model.last.weight.T + model.last.bias)


def attended(layer: Any, near: Tensor, hidden: Tensor) -> Tensor:
    """[heads, n, d]: α = softmax over j with near_ij of LeakyReLU(a · [W x_i ‖ W x_j])."""
    mapped = (hidden @ layer.map.weight.T).view(NODES, layer.heads, -1)
    found = []
    for head in range(layer.heads):
        own, a_i, a_j = mapped[:, head], layer.att_dst[0, head], layer.att_src[0, head]
        raw = torch.nn.functional.leaky_relu((own @ a_i)[:, None] + (own @ a_j)[None], 0.2)
        found.append(torch.softmax(raw.masked_fill(near == 0, -torch.inf), 1) @ own)
    return torch.stack(found)


def test_gat(small: Small) -> None:
    model = made("gat", layers=2, options={"heads": 3, "output_heads": 2})
    near = small.near + torch.eye(NODES)
    first, last = model.layers
    hidden = torch.nn.functional.elu(torch.cat(list(attended(first, near, small.x)), 1) + first.bias)
    same(model(small.view()), attended(last, near, hidden).mean(0) + last.bias)


def first_logits(model: Any, x: Tensor) -> Tensor:
    one, two, three = model.layers
    hidden = ((x @ one.weight.T + one.bias).relu() @ two.weight.T + two.bias).relu()
    found: Tensor = hidden @ three.weight.T + three.bias
    return found


def test_appnp(small: Small) -> None:
    model, matrix = made("appnp", options={"steps": 4, "alpha": 0.3}), small.normalised()
    first = found = first_logits(model, small.x)
    for _ in range(4):
        found = 0.7 * matrix @ found + 0.3 * first
    same(model(small.view()), found)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 1.0, 6.0])
def test_ap_gcn_halts_every_node_by_itself(small: Small, bias: float) -> None:
    model, matrix = made("ap-gcn", options={"steps": 4, "penalty": 0.25}), small.normalised()
    model.halt.bias.data.fill_(bias)
    rows = torch.tensor([1, 4, 6])
    logits = model(small.view(rows=rows))
    z = [first_logits(model, small.x)]
    for _ in range(4):
        z.append(matrix @ z[-1])
    costs = []
    for position, node in enumerate(rows.tolist()):
        probabilities = [torch.sigmoid(model.halt(z[k][node])).item() for k in range(1, 5)]
        last = next((k for k in range(1, 5) if sum(probabilities[:k]) >= 0.99), 4)
        rest = 1 - sum(probabilities[: last - 1])
        shares = [*probabilities[: last - 1], rest]
        parts = [p * z[k][node] + (1 - p) * z[k - 1][node] for k, p in enumerate(shares, 1)]
        same(logits[position], torch.stack(parts).sum(0) / last)
        costs.append(last + rest)
    assert float(model.penalty().detach()) == pytest.approx(0.25 * np.mean(costs), rel=1e-4)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 1.0, 6.0])
def test_gradients_of_halting_are_those_of_a_plain_loop(small: Small, bias: float) -> None:
    model, matrix = made("ap-gcn", options={"steps": 4, "penalty": 0.25}), small.normalised()
    model.halt.bias.data.fill_(bias)
    rows, upon = torch.tensor([1, 4, 6]), torch.randn(3, 4, generator=torch.Generator().manual_seed(3))
    logits = model(small.view(rows=rows))
    upon = upon[:, : logits.shape[1]]
    own = torch.autograd.grad((logits * upon).sum() + model.penalty(), list(model.parameters()))
    z = [first_logits(model, small.x)]
    for _ in range(4):
        z.append(matrix @ z[-1])
    total = torch.zeros(())
    for position, node in enumerate(rows.tolist()):
        chances = [torch.sigmoid(model.halt(z[k][node])).squeeze() for k in range(1, 5)]
        last = next((k for k in range(1, 5) if float(sum(chances[:k]).detach()) >= 0.99), 4)
        rest = 1 - sum(chances[: last - 1], torch.zeros(()))
        parts = [p * z[k][node] + (1 - p) * z[k - 1][node] for k, p in enumerate([*chances[: last - 1], rest], 1)]
        total = total + (torch.stack(parts).sum(0) / last * upon[position]).sum() + 0.25 * (last + rest) / 3
    expected = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    for one, other in zip(own, expected):
        torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, atol=1e-5, rtol=1e-4)


def test_the_halting_unit_learns_at_every_third_step_alone(small: Small) -> None:
    model = made("ap-gcn", options={"every": 3, "edge_dropout": 0.0}, dropout=0.0).train()
    learnt = []
    for _ in range(6):
        model.zero_grad()
        (model(small.view()).square().sum() + model.penalty()).backward()
        learnt.append(model.halt.weight.grad is not None)
    assert learnt == [False, False, True, False, False, True]


def test_unimp(small: Small) -> None:
    model = made("unimp", layers=2, options={"heads": 2})
    known = torch.tensor([0, 1, UNKNOWN, 2, UNKNOWN, 0, UNKNOWN, 1, 2])
    told = torch.stack([model.labels[k] if k >= 0 else torch.zeros(10) for k in known.tolist()])
    hidden = small.x @ model.first.weight.T + model.first.bias + told
    first, last = model.layers
    hidden = model.norms[0](transformed(first, small.near, hidden)).relu()
    same(model(small.view(), known), transformed(last, small.near, hidden))


def transformed(layer: Any, near: Tensor, hidden: Tensor) -> Tensor:
    """A gate between what a node keeps of itself and softmax_j(Q x_i · K x_j / √d) V x_j."""
    query, key, value = (
        one(hidden).view(NODES, 2, -1).transpose(0, 1) for one in (layer.lin_query, layer.lin_key, layer.lin_value)
    )
    raw = query @ key.transpose(1, 2) / math.sqrt(query.shape[2])
    alpha = torch.softmax(raw.masked_fill(near == 0, -torch.inf), 2).nan_to_num(0.0)  # a node that hears none
    heard = alpha @ value
    heard = heard.transpose(0, 1).reshape(NODES, -1) if layer.concat else heard.mean(0)
    own = layer.lin_skip(hidden)
    gate = torch.sigmoid(layer.lin_beta(torch.cat([heard, own, heard - own], 1)))
    found: Tensor = gate * own + (1 - gate) * heard
    return found


def test_a_hidden_label_never_reaches_its_own_row(small: Small) -> None:
    """Whatever a masked row's answer is, the logits that its loss is taken of are the same."""
    model, rows = made("unimp"), np.arange(6)
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    for seed in range(5):
        known = torch.full((NODES,), UNKNOWN)
        known[rows] = torch.from_numpy(labels[rows])
        source = GraphRows(small.view(), labels, rows, CLASSES, known=known, masked=0.5)
        (batch,) = source.batches(0, torch.device("cpu")).epoch(torch.Generator().manual_seed(seed))
        before = model(batch.x, batch.y)
        changed = labels.copy()
        changed[batch.rows] = (changed[batch.rows] + 1) % CLASSES
        other = known.clone()
        other[batch.rows] = torch.from_numpy(changed[batch.rows])
        source = GraphRows(small.view(), changed, rows, CLASSES, known=other, masked=0.5)
        (again,) = source.batches(0, torch.device("cpu")).epoch(torch.Generator().manual_seed(seed))
        assert np.array_equal(batch.rows, again.rows) and not torch.equal(batch.target, again.target)
        assert torch.equal(before, model(again.x, again.y))
        shown = np.setdiff1d(rows, batch.rows)
        assert bool((batch.y[shown] >= 0).all()) and not bool((batch.y[batch.rows] >= 0).any())


def test_graphsage(small: Small) -> None:
    model = made("graphsage", layers=2)
    mean = small.near / small.near.sum(1, keepdim=True).clamp_min(1)
    hidden = small.x
    for layer, end in zip(model.layers, (torch.relu, lambda values: values)):
        hidden = end(mean @ hidden @ layer.lin_l.weight.T + layer.lin_l.bias + hidden @ layer.lin_r.weight.T)
    same(model(small.view()), hidden)


def test_deepergcn(small: Small) -> None:
    model = made("deepergcn", layers=2, options={"temperature": 2.0})
    first, second = model.layers
    hidden = generalised(first, small.near, model.first(small.x))
    hidden = hidden + generalised(second, small.near, model.norms[0](hidden).relu())
    same(model(small.view()), model.last(model.norms[1](hidden).relu()))


def generalised(layer: Any, near: Tensor, hidden: Tensor) -> Tensor:
    message = hidden.relu() + 1e-7
    raw = (layer.aggr_module.t * message)[None].expand(NODES, -1, -1)
    alpha = torch.softmax(raw.masked_fill(near[:, :, None] == 0, -torch.inf), 1).nan_to_num(0.0)
    found: Tensor = layer.mlp((alpha * message[None]).sum(1) + hidden)
    return found


@pytest.mark.parametrize("name", ALL)
def test_permuting_nodes_permutes_logits(small: Small, name: str) -> None:
    model, order = made(name), torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    known = torch.arange(NODES) % CLASSES
    turned = Small(small.near[order][:, order], small.x[order])
    same(model(turned.view(), known[order]), model(small.view(), known)[order])


@pytest.mark.parametrize("name", ALL)
def test_sparse_features_give_the_logits_and_gradients_of_dense_ones(small: Small, name: str) -> None:
    found = []
    for sparse in (False, True):
        model = made(name)
        logits = model(small.view(sparse))
        (logits * torch.arange(1.0, 1 + logits.numel()).view_as(logits)).sum().backward()
        found.append([logits, *(value.grad for value in model.parameters() if value.grad is not None)])
    assert len(found[0]) == len(found[1]) > 2
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_rows_that_are_asked_for(small: Small, name: str) -> None:
    model, rows = made(name), torch.tensor([5, 0, 5])
    same(model(small.view(rows=rows)), model(small.view())[rows])


@pytest.mark.parametrize("name", ALL)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(GamlpError, match=f"'{name}' has no option 'headz'"):
        made(name, options={"headz": 3})


@pytest.mark.parametrize(
    ("name", "first"), [("gcn", "layers.0."), ("appnp", "layers.0."), ("ap-gcn", "layers.0."), ("gat", "")]
)
def test_what_decays(name: str, first: str) -> None:
    model = made(name)
    decaying = {
        id(value)
        for group in parameter_groups(model, TrainingSettings(weight_decay=0.5))
        if group["weight_decay"]
        for value in group["params"]
    }
    assert decaying == {id(value) for key, value in model.named_parameters() if key.startswith(first)}


def test_a_hundred_layers_of_jumping_knowledge_stay_finite(small: Small) -> None:
    logits = made("jk-net", layers=100)(small.view())
    assert logits.shape == (NODES, CLASSES) and bool(logits.isfinite().all())
