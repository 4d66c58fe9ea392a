"""Attention and the whole of GAMLP against the equations written out plainly: values and gradients, float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gamlp.models import GAMLP, Shape
from gamlp.models.attention import JKAttention, RecursiveAttention
from gamlp.models.gamlp import residual_shares, smooth
from tests.models import plain

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
ACTIVATIONS = ["sigmoid", "relu", "leaky_relu"]
REFERENCES = ["jk", "origin", "noise", "none"]
RESIDUALS = ["cosine", "linear", "fixed", "none", "uniform"]
SHAPE = Shape(features=5, classes=3, hops=4, label_hops=3)
PLAIN = {
    "attention": "recursive",
    "hidden": 6,
    "layers": 2,
    "jk_layers": 2,
    "activation": "leaky_relu",
    "reference": "jk",
    "dropout": 0.0,
    "batch_norm": False,
    "hop_mlp": False,
    "residual": False,
    "initial_residual": 0.0,
    "beta": 1.0,
    "label_attention": None,
    "label_layers": 2,
    "last_residual": "cosine",
    "label_zero": False,
    "label_scale": "none",
    "input_norm": False,
    "high_pass": False,
}
VARIANTS: list[dict[str, Any]] = [
    *({"attention": kind, "activation": name} for kind, name in itertools.product(["recursive", "jk"], ACTIVATIONS)),
    *({"attention": "jk", "reference": name, "label_zero": own} for name in REFERENCES for own in (False, True)),
    *({"last_residual": name, "label_zero": own} for name in RESIDUALS for own in (False, True)),
    {"label_attention": "jk"},
    {"attention": "jk", "label_attention": "recursive"},
    {"hop_mlp": True},
    {"hop_mlp": True, "batch_norm": True, "attention": "jk", "jk_layers": 3},
    {"batch_norm": True, "layers": 3, "label_layers": 3},
    {"residual": True},
    {"residual": True, "hop_mlp": True},
    {"initial_residual": 0.3, "layers": 5},
    {"initial_residual": 0.3, "layers": 3},
    {"initial_residual": 1.0, "layers": 4, "batch_norm": True},
    {"beta": 0.0},
    {"beta": 0.25, "label_layers": 1},
    {"layers": 1, "label_layers": 1, "jk_layers": 1, "attention": "jk"},
    {"input_norm": True},
    {"input_norm": True, "residual": True, "attention": "jk"},
    {"input_norm": True, "hop_mlp": True, "batch_norm": True},
    {"label_scale": "hop"},
    {"label_scale": "hop", "label_zero": True, "attention": "jk", "last_residual": "uniform"},
    {"high_pass": True},
    {"high_pass": True, "attention": "jk", "hop_mlp": True, "residual": True, "input_norm": True},
]


def normal(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def jk(reference: str, activation: str, *, hops: int = 5, first: int = 1, width: int = 4) -> JKAttention:
    extra = {"hidden": 6, "layers": 2, "mlp_dropout": 0.0, "batch_norm": False}
    made = JKAttention(width, hops, activation, 0.0, reference=reference, first=first, **extra)  # type: ignore[arg-type]
    return made.double()


def plain_mixture(attention: torch.nn.Module, x: Tensor, activation: str, first: int = 1) -> tuple[Tensor, Tensor]:
    state = {f"a.{name}": value for name, value in (*attention.named_parameters(), *attention.named_buffers())}
    weights = plain.attention_weights(state, "a", x, {"activation": activation, "training": False}, first)
    return weights, torch.einsum("bh,bhd->bd", weights, x)


def check_same(ours: Tensor, theirs: Tensor, parameters: list[Tensor]) -> None:
    """Equal values, and equal gradients of a random projection of them."""
    torch.testing.assert_close(ours, theirs, **TIGHT)
    towards = normal(*ours.shape, seed=7)

    def gradients(result: Tensor) -> tuple[Tensor, ...]:
        loss = (result * towards).sum()
        return torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)

    found, expected = gradients(ours), gradients(theirs)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, **TIGHT)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hops", [1, 2, 3, 6, 13])
def test_recursive_attention_is_the_equation_in_values_and_gradients(activation: str, hops: int) -> None:
    torch.manual_seed(hops)
    attention = RecursiveAttention(4, activation, 0.0).double()
    with torch.no_grad():
        attention.vectors.mul_(4)
    x = normal(33, hops, 4, seed=1).requires_grad_()
    weights, mixed = plain_mixture(attention, x, activation)
    check_same(attention.weights(x), weights, [attention.vectors, x])
    check_same(attention(x), mixed, [attention.vectors, x])


@pytest.mark.parametrize("rows", [1, 2, 31, 64, 96, 1000])
def test_gradients_are_the_equations_for_any_number_of_rows(rows: int) -> None:
    for attention in (RecursiveAttention(4, "sigmoid", 0.0).double(), jk("jk", "sigmoid")):
        x = normal(rows, 5, 4, seed=rows).requires_grad_()
        _, mixed = plain_mixture(attention, x, "sigmoid")
        check_same(attention(x), mixed, [*attention.parameters(), x])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("first", [0, 1])
def test_jk_attention_is_the_equation_in_values_and_gradients(activation: str, reference: str, first: int) -> None:
    attention = jk(reference, activation, first=first).eval()
    with torch.no_grad():
        attention.vector.mul_(4)
    x = normal(33, 5, 4, seed=2).requires_grad_()
    weights, mixed = plain_mixture(attention, x, activation, first)
    parameters = [*attention.parameters(), x]
    check_same(attention.weights(x), weights, parameters)
    check_same(attention(x), mixed, parameters)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_a_thousand_either_way_stay_finite(activation: str, dtype: torch.dtype) -> None:
    for attention in (RecursiveAttention(2, activation, 0.0), jk("origin", activation, width=2)):
        attention = attention.to(dtype)
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.fill_(1.0)
        x = torch.tensor([[1e3, 0.0], [-1e3, 0.0], [0.0, 1e3], [0.0, 0.0], [-5e2, -5e2]], dtype=dtype)
        x = torch.stack([x, -x, x.flip(0)]).requires_grad_()
        weights = attention.weights(x)
        attention(x).sum().backward()
        assert x.grad is not None and x.grad.isfinite().all() and weights.isfinite().all()
        torch.testing.assert_close(weights.sum(1), torch.ones(3, dtype=dtype))
        assert all(value.grad is not None and value.grad.isfinite().all() for value in attention.parameters())


def test_the_last_residual_is_at_hop_l_not_at_its_place_in_a_list() -> None:
    assert residual_shares("linear", 4) == [0.75, 0.5, 0.25, 0.0]
    assert residual_shares("fixed", 3) == [0.7] * 3
    assert residual_shares("none", 3) == [0.0] * 3
    cosine = [0.9238795325112867, 0.7071067811865476, 0.3826834323650898, 0.0]  # cos(π/8), cos(π/4), cos(3π/8), 0
    assert residual_shares("cosine", 4) == pytest.approx(cosine, abs=1e-12)
    assert residual_shares("uniform", 4) == residual_shares("cosine", 4)


@pytest.mark.parametrize("kind", RESIDUALS)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_smoothed_labels_are_the_equation(kind: str, own: bool, hops: int) -> None:
    y = normal(9, hops + 1, 3, seed=3)
    torch.testing.assert_close(smooth(y, kind, own=own), plain.smoothed(y, kind, own), **TIGHT)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()))
def test_gamlp_is_the_equations_in_values_weights_and_gradients(change: dict[str, Any], training: bool) -> None:
    options = {**PLAIN, **change}
    if training and options["reference"] == "noise":
        pytest.skip("drawn afresh in training")
    torch.manual_seed(0)
    model = GAMLP(SHAPE, **options).double().train(training)
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.copy_(normal(*buffer.shape, seed=5).abs() + 0.5)
    if model.mixing is not None:  # differences weigh nothing at first
        torch.nn.init.normal_(model.mixing.weight)
    x, y = normal(17, 1, 5, 5, seed=1).requires_grad_(), normal(17, 1, 4, 3, seed=2)
    y = y.abs() if options["label_scale"] == "hop" else y  # as propagated labels are
    y[3, 0, 1], y[5] = 0, 0  # no label was heard
    y.requires_grad_()
    state = dict((*model.named_parameters(), *model.named_buffers()))
    expected, weights, label_weights = plain.forward(state, {**options, "training": training}, x, y)
    given_labels = None if options["beta"] == 0 else y
    check_same(model(x, given_labels), expected, [*model.parameters(), x, y])
    if not training:
        told = model.hop_weights(x, given_labels)
        assert told.features is not None
        torch.testing.assert_close(told.features, weights, **TIGHT)
        assert (told.labels is None) == (label_weights is None)
        if told.labels is not None and label_weights is not None:
            torch.testing.assert_close(told.labels, label_weights, **TIGHT)
            assert told.first_label_hop == (0 if options["label_zero"] else 1)


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_without_hops_gamlp_is_an_mlp_on_the_features(attention: str, beta: float) -> None:
    model = GAMLP(Shape(5, 3, 0, 0), **{**PLAIN, "attention": attention, "beta": beta, "label_zero": True}).double()
    x, y = normal(8, 1, 1, 5, seed=1), normal(8, 1, 1, 3, seed=2)
    expected = model.mlp(x[:, 0, 0])
    if beta:
        expected = expected + model.label_mlp(y[:, 0, 0])
    torch.testing.assert_close(model(x, y), expected, **TIGHT)


OPTIONS = st.fixed_dictionaries(
    {
        "attention": st.sampled_from(["recursive", "jk"]),
        "hidden": st.integers(1, 7),
        "layers": st.integers(1, 5),
        "jk_layers": st.integers(1, 3),
        "activation": st.sampled_from(ACTIVATIONS),
        "reference": st.sampled_from(REFERENCES),
        "input_dropout": st.sampled_from([0.0, 0.4]),
        "attention_dropout": st.sampled_from([0.0, 0.5]),
        "dropout": st.sampled_from([0.0, 0.5, 0.999999]),
        "batch_norm": st.booleans(),
        "hop_mlp": st.booleans(),
        "residual": st.booleans(),
        "initial_residual": st.sampled_from([0.0, 0.5]),
        "beta": st.sampled_from([0.0, 1.0]),
        "label_attention": st.sampled_from([None, "recursive", "jk"]),
        "label_layers": st.integers(1, 3),
        "last_residual": st.sampled_from(RESIDUALS),
        "label_zero": st.booleans(),
        "label_scale": st.sampled_from(["none", "hop"]),
        "input_norm": st.booleans(),
        "mixed_dropout": st.sampled_from([0.0, 0.5]),
        "high_pass": st.booleans(),
        "attention_start": st.sampled_from(["random", "uniform"]),
    }
)


@settings(max_examples=150, deadline=None)
@given(OPTIONS, st.integers(0, 4), st.integers(0, 4), st.integers(1, 6), st.integers(1, 4), st.integers(2, 40))
def test_any_options_give_logits_and_finite_gradients(
    options: dict[str, Any], hops: int, label_hops: int, width: int, classes: int, rows: int
) -> None:
    shape = Shape(width, classes, hops, label_hops)
    if options["beta"] and not label_hops and not options["label_zero"]:
        with pytest.raises(ValueError, match="hops of labels"):
            GAMLP(shape, **options)
        return
    model = GAMLP(shape, **options)
    x, y = torch.randn(rows, 1, hops + 1, width), torch.rand(rows, 1, label_hops + 1, classes)
    for training in (True, False):
        model.train(training).zero_grad()
        logits = model(x, y)
        assert logits.shape == (rows, classes)
        logits.square().sum().backward()
        grads = [value.grad for value in model.parameters() if value.grad is not None]
        assert logits.isfinite().all() and all(grad.isfinite().all() for grad in grads)
    told = model.hop_weights(x, y)
    assert told.features is not None and told.features.shape == (rows, hops + 1)
    torch.testing.assert_close(told.features.sum(1), torch.ones(rows))
    if options["beta"]:
        assert told.labels is not None and told.labels.shape == (rows, label_hops + options["label_zero"])
        torch.testing.assert_close(told.labels.sum(1), torch.ones(rows))


def test_hops_of_labels_that_are_missing_are_told() -> None:
    with pytest.raises(ValueError, match="none were given"):
        GAMLP(SHAPE, **PLAIN)(torch.zeros(2, 1, 5, 5))
