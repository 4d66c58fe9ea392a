"""Rows that are asked for: the logits, gradients and draws of the whole graph, of the nodes that they hear alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("torch_geometric")

from gamlp.models import Shape
from gamlp.peers import message_passing
from gamlp.peers.message_passing.reach import reach
from gamlp.peers.tensors import GraphTensors
from gamlp.recipe import Recipe

NODES, WIDTH, CLASSES = 60, 40, 3
ROWS = torch.tensor([9, 3, 3, 40])  # neither in order nor once each
MODELS = {
    "gcn": ("GCN", {}),
    "resgcn": ("ResGCN", {}),
    "jk-net": ("JKNet", {}),
    "graphsage": ("SAGE", {}),
    "gat": ("GAT", {"heads": 2}),
    "unimp": ("UniMP", {"heads": 2}),
    "appnp": ("APPNP", {"steps": 4}),
    "ap-gcn": ("APGCN", {"steps": 4, "every": 1}),
    "deepergcn": ("DeeperGCN", {}),
}
LAST_DROPPED = ("jk-net", "deepergcn")  # they draw for the rows asked for, after their last layer


def ring(sparse: bool) -> GraphTensors:
    """Every node hears the next two and the one before; of its features a few are not zero."""
    at = torch.arange(NODES)
    edges = torch.stack([torch.cat([at, at, at]), torch.cat([(at + 1) % NODES, (at + 2) % NODES, (at - 1) % NODES])])
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(NODES, WIDTH, generator=draw) * (torch.rand(NODES, WIDTH, generator=draw) < 0.2)
    return GraphTensors(x.to_sparse_csr() if sparse else x, edges)


def made(name: str, dropout: float) -> Any:
    kind, options = MODELS[name]
    settings = {"name": name, "hidden": 8, "layers": 3, "dropout": dropout, "input_dropout": dropout}
    recipe = Recipe.of({"model": {**settings, "attention_dropout": dropout, "options": options}})
    torch.manual_seed(0)
    return getattr(message_passing, kind)(Shape(WIDTH, CLASSES, 0), recipe)


def answer(model: Any, tensors: GraphTensors, picked: Tensor | None) -> tuple[Tensor, list[Tensor | None]]:
    """Logits of the rows, and gradients of them by every parameter."""
    torch.manual_seed(7)
    logits = model(tensors) if picked is None else model(tensors)[picked]
    upon = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2))
    return logits, list(torch.autograd.grad((logits * upon).sum(), list(model.parameters()), allow_unused=True))


def check_same(name: str, share: float, training: bool, sparse: bool) -> None:
    model, whole = made(name, share).train(training), ring(sparse)
    expected = answer(model, whole, ROWS)
    found = answer(model, whole.of_rows(ROWS), None)
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-4)
    for one, other in zip(found[1], expected[1]):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_rows_have_the_logits_and_gradients_of_the_whole_graph(name: str, sparse: bool) -> None:
    check_same(name, 0.0, training=False, sparse=sparse)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in LAST_DROPPED])
def test_dropout_draws_the_same_whichever_rows_are_asked_for(name: str, sparse: bool) -> None:
    check_same(name, 0.5, training=True, sparse=sparse)


@pytest.mark.parametrize("name", LAST_DROPPED)
def test_training_without_dropout(name: str) -> None:
    check_same(name, 0.0, training=True, sparse=False)


def test_layers_hold_what_they_need_and_no_more() -> None:
    """Each hears the one before and two after it: nodes 3, 9 and 40, then 3 more a node, then all that those hear."""
    found = reach(ring(False).of_rows(ROWS), "plain", 2)
    first, last = found.layers
    assert last.matrix.shape[0] == 3 and first.matrix.shape[0] == last.matrix.shape[1] == 3 * 4
    assert first.inputs is not None and len(first.inputs.places) == first.matrix.shape[1] < NODES / 2
    assert found.rows is not None and found.rows.tolist() == [1, 0, 0, 2]
    assert reach(ring(False).of_rows(None), "plain", 2).layers[0].matrix.shape == (NODES, NODES)


@pytest.mark.parametrize("name", MODELS)
def test_some_of_the_rows_share_what_was_made_for_all(name: str) -> None:
    model, tensors = made(name, 0.0).eval(), ring(False).of_rows(ROWS)
    chosen = torch.tensor([0, 3])
    some = tensors.some_rows(chosen)
    torch.testing.assert_close(model(some), model(tensors)[chosen], atol=1e-5, rtol=1e-4)
    assert some.kept_of_rows is tensors.kept_of_rows and some.rows is not None
    assert some.rows.tolist() == [9, 40]
