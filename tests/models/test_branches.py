"""What a prediction is made of: each hop alone by the equations written out, and branches that add up to the logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import MODELS, Shape
from gamlp.models.gamlp import GAMLP
from gamlp.models.mlp import MLP
from gamlp.models.sagn import SAGN

SHAPE = Shape(features=6, classes=4, hops=3, label_hops=2)
GAMLPS: list[dict[str, Any]] = [
    {},
    {"attention": "jk"},
    {"hop_mlp": True},
    {"residual": True},
    {"hop_mlp": True, "residual": True, "initial_residual": 0.3, "batch_norm": True},
    {"beta": 0.7, "last_residual": "linear", "label_zero": True},
    {"beta": 0.0},
]


def hops(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(9, 1, 4, 6, generator=random)
    return x, torch.softmax(2 * torch.randn(9, 1, 3, 4, generator=random), 3)


def settled(model: nn.Module) -> nn.Module:
    """In float64, with running statistics of batch norm that are not the first ones."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    return model.double().eval()


def plain_mlp(mlp: MLP, h: Tensor) -> Tensor:
    """W_L relu(… relu(W_1 h + b_1) …) + b_L, batch norm before each relu, (1 - α) h + α h_1 from the third layer on."""
    first = None
    for layer, linear in enumerate(mlp.linear):
        if layer >= 2 and mlp.initial_residual:
            h = (1 - mlp.initial_residual) * h + mlp.initial_residual * first
        h = h @ linear.weight.T + linear.bias
        if layer == len(mlp.linear) - 1:
            return h
        if mlp.norms is not None:
            norm = mlp.norms[layer]
            h = (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        h = h.clamp(min=0)
        first = h if first is None else first
    raise AssertionError


@pytest.mark.parametrize("options", GAMLPS, ids=str)
def test_a_hop_alone_is_the_output_mlp_of_that_hop(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = settled(GAMLP(SHAPE, hidden=8, layers=4, **options))
    x, y = (part.double() for part in hops())
    found = model.branches(x, y).each_hop
    for hop in range(4):
        h = x[:, 0, hop]
        if model.hop_mlp is not None:
            h = h @ model.hop_mlp.weight[hop] + model.hop_mlp.bias[hop]
            if (norm := model.hop_mlp.norm) is not None:
                part = slice(8 * hop, 8 * hop + 8)
                h = (h - norm.running_mean[part]) / (norm.running_var[part] + norm.eps).sqrt()
                h = h * norm.weight[part] + norm.bias[part]
            h = h.clamp(min=0)
        if model.residual is not None:
            h = h + x[:, 0, 0] @ model.residual.weight.T
        assert torch.allclose(found[:, hop], plain_mlp(model.mlp, h), atol=1e-10)


@pytest.mark.parametrize("options", GAMLPS, ids=str)
def test_branches_add_up_to_the_logits(options: dict[str, Any]) -> None:
    model = settled(GAMLP(SHAPE, hidden=8, **options))
    x, y = (part.double() for part in hops())
    found = model.branches(x, y)
    assert (found.labels is None) == (options.get("beta") == 0.0)
    whole = found.features if found.labels is None else found.features + found.labels
    assert torch.allclose(whole, model(x, y), atol=1e-12)
    if found.labels is not None:  # the label branch by itself: β MLP(Σ_l w_l Ŷ^(l))
        weights = model.hop_weights(x, y).labels
        mixed = (weights.unsqueeze(2) * model._labels(y)).sum(1)
        assert torch.allclose(found.labels, model.beta * plain_mlp(model.label_mlp, mixed), atol=1e-10)
    mixture = (model.hop_weights(x, y).features.unsqueeze(2) * model._features(x)[1]).sum(1)
    if model.residual is not None:
        mixture = mixture + x[:, 0, 0] @ model.residual.weight.T
    assert torch.allclose(found.features, plain_mlp(model.mlp, mixture), atol=1e-10)


def test_the_asked_hop_is_what_attention_would_give_with_all_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    model = settled(GAMLP(SHAPE, hidden=8, beta=0.0, residual=True))
    x, _ = (part.double() for part in hops())
    found = model.branches(x).each_hop
    for hop in range(4):
        one = functional.one_hot(torch.full((9,), hop), 4).double()
        monkeypatch.setattr(model.attention, "weights", lambda _, one=one: one)
        assert torch.allclose(model(x), found[:, hop], atol=1e-12)


def test_a_model_in_training_is_asked_without_dropout_and_stays_in_training() -> None:
    model = GAMLP(SHAPE, hidden=8, dropout=0.5, input_dropout=0.5, batch_norm=True).train()
    x, y = hops()
    one, two = model.branches(x, y), model.branches(x, y)
    assert torch.equal(one.features, two.features) and torch.equal(one.each_hop, two.each_hop) and model.training


@pytest.mark.parametrize("name", ["mlp", "sgc", "s2gc", "gbp"])
def test_models_of_fixed_weights(name: str) -> None:
    model = settled(MODELS[name](SHAPE, hidden=8))
    x, _ = (part.double() for part in hops())
    found = model.branches(x)
    assert found.labels is None and torch.allclose(found.features, model(x), atol=1e-12)
    for hop in range(4):
        assert torch.allclose(found.each_hop[:, hop], plain_mlp(model.mlp, x[:, 0, hop]), atol=1e-10)
    mixed = (model.hop_weights(x).features.unsqueeze(2) * x[:, 0]).sum(1)
    assert torch.allclose(found.features, plain_mlp(model.mlp, mixed), atol=1e-6)  # weights are float32 numbers


@pytest.mark.parametrize("beta", [0.0, 0.6])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_sagn(beta: float, batch_norm: bool) -> None:
    model = settled(SAGN(SHAPE, hidden=5, heads=2, beta=beta, batch_norm=batch_norm))
    x, y = (part.double() for part in hops())
    found = model.branches(x, y)
    whole = found.features if found.labels is None else found.features + found.labels
    assert torch.allclose(whole, model(x, y), atol=1e-12)
    if beta:
        assert torch.allclose(found.labels, beta * plain_mlp(model.label_mlp, y[:, 0, -1]), atol=1e-10)
    for hop in range(4):
        h = x[:, 0, hop] @ model.maps[hop] + x[:, 0, 0] @ model.residual.weight.T
        if (norm := model.norm) is not None:
            h = (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        assert torch.allclose(found.each_hop[:, hop], plain_mlp(model.mlp, h.clamp(min=0)), atol=1e-10)
