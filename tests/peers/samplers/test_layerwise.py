"""FastGCN's draws beside dense algebra: blocks of Â, right in the mean, and the net's equations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gamlp.errors import GamlpError
from gamlp.models import Shape
from gamlp.peers.registry import recipe_for
from gamlp.peers.samplers.layerwise import FastGCN, LayerSampler, SymmetricOperator, layer_sampler
from gamlp.peers.tensors import GraphRows
from tests.peers.samplers.test_neighbours import GRAPHS, Array, make_view, shuffled


def symmetric(dense: Array) -> Array:
    """D̃^-1/2 (A + I) D̃^-1/2."""
    loops = dense + np.eye(len(dense))
    scale = np.diag(loops.sum(1) ** -0.5)
    return scale @ loops @ scale


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.integers(0, 10**6))
def test_the_operator_its_blocks_and_chances_are_those_of_the_dense_matrix(
    which: tuple[int, int, bool, bool], seed: int
) -> None:
    view, dense = make_view(which[0], which[1], weighted=which[2], sparse=which[3])
    expected, random = symmetric(dense), np.random.default_rng(seed)
    operator = SymmetricOperator.of(view)
    hidden = torch.from_numpy(random.normal(size=(view.nodes, 3))).float()
    np.testing.assert_allclose(operator.times(hidden), expected @ hidden.numpy(), rtol=1e-4, atol=1e-5)
    squares = (expected**2).sum(0)
    np.testing.assert_allclose(operator.chances, squares / squares.sum(), rtol=1e-6)
    targets = random.permutation(view.nodes)[: 1 + seed % view.nodes]
    sources = np.flatnonzero(random.random(view.nodes) < 0.5)
    scale = random.random(len(sources))
    block = operator.block(targets, sources, scale).to_dense()
    np.testing.assert_allclose(block, expected[np.ix_(targets, sources)] * scale, rtol=1e-5, atol=1e-7)


def test_a_layer_is_right_in_the_mean() -> None:
    """2000 draws of 6 of 12 nodes for each of three rows: every number within five of its standard errors."""
    view, dense = make_view(4, 12)
    sampler, generator = LayerSampler(view, np.arange(12), 1, 6, 3), shuffled(0)
    rows = np.array([5, 0, 9])
    drawn = []
    for _ in range(2000):
        part = sampler.part(rows, generator)
        assert part.origin is not None and part.origin.tolist() == [5, 0, 9]
        drawn.append((part.matrices[0] @ part.x).numpy())
    error = np.std(drawn, axis=0, ddof=1) / len(drawn) ** 0.5
    expected = symmetric(dense)[rows] @ view.x.numpy()
    assert (abs(np.mean(drawn, axis=0) - expected) <= 5 * error + 1e-6).all() and error.max() > 0.001


def test_scored_rows_have_the_equations_logits_and_a_drawn_part_those_of_its_matrices() -> None:
    view, dense = make_view(3, weighted=True)
    recipe = recipe_for("fastgcn").changed({"model.hidden": 7})
    torch.manual_seed(0)
    model = FastGCN(Shape(5, 3, 0), recipe).eval()
    first, second = (layer.weight.detach().double().T.numpy() for layer in model.layers)
    expected = symmetric(dense)
    hidden = np.maximum(expected @ view.x.numpy() @ first + model.bias[0].detach().numpy(), 0)
    logits = expected @ hidden @ second + model.bias[1].detach().numpy()
    rows = torch.tensor([7, 2, 29])
    np.testing.assert_allclose(model(view).detach(), logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model(view.of_rows(rows)).detach(), logits[rows], rtol=1e-4, atol=1e-5)
    part = LayerSampler(view, np.arange(30), 2, 9, 4).part(rows.numpy(), shuffled(1))
    inner, outer = (matrix.to_dense().numpy() for matrix in part.matrices)
    hidden = np.maximum(inner @ part.x.numpy() @ first + model.bias[0].detach().numpy(), 0)
    np.testing.assert_allclose(model(part).detach(), outer @ hidden @ second, rtol=1e-4, atol=1e-5)
    assert part.x.shape[0] <= 9 and inner.shape[0] == outer.shape[1] <= 9


def test_an_epoch_asks_for_every_row_once_in_batches() -> None:
    view, _ = make_view(1)
    rows = GraphRows(view, np.zeros(30, np.int64), np.arange(0, 30, 2), 2)
    recipe = recipe_for("fastgcn").changed({"training.batch_size": 4, "model.options.samples": 5})
    parts = [part.asked(part.origin).tolist() for part in layer_sampler(rows, recipe, 0)(shuffled(0))]
    assert [len(part) for part in parts] == [4, 4, 4, 3]
    together = list(itertools.chain(*parts))
    assert sorted(together) == list(range(0, 30, 2)) and together != sorted(together)


@pytest.mark.parametrize("options", [{"samples": 0}, {"samples": -1}, {"fanouts": [2, 2]}])
def test_what_no_layer_can_draw_is_refused(options: dict[str, object]) -> None:
    view, _ = make_view(0)
    rows = GraphRows(view, np.zeros(30, np.int64), np.arange(10), 2)
    recipe = recipe_for("fastgcn").changed({"model.options": options})
    with pytest.raises(GamlpError, match=next(iter(options))):
        layer_sampler(rows, recipe, 0)
