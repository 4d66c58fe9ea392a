"""Dropout with masks of its own: its ends, its gradients, its second gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gamlp.models import GAMLP, Shape
from gamlp.models.mlp import MLP, dropout, relu_dropout


@pytest.mark.parametrize("drop", [dropout, relu_dropout])
def test_dropout_of_everything_leaves_nothing(drop: object) -> None:
    assert callable(drop)
    x = torch.ones(400, 400, requires_grad=True)
    out = drop(x, 1.0, True)
    out.sum().backward()
    assert not out.any()
    assert x.grad is not None and not x.grad.any()
    assert torch.equal(drop(x, 1.0, False), x)


@pytest.mark.parametrize("name", ["dropout", "input_dropout", "attention_dropout"])
@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_a_model_may_drop_everything(attention: str, name: str) -> None:
    torch.manual_seed(0)
    settings = {"dropout": 0.0, name: 1.0}
    model = GAMLP(Shape(features=5, classes=3, hops=2), attention=attention, hidden=8, beta=0.0, **settings)
    logits = model(torch.randn(50, 1, 3, 5))
    logits.square().sum().backward()
    assert (logits - logits[0]).abs().max() < 1e-6, "all rows look alike where nothing of them is left"
    assert all(each.grad is None or torch.isfinite(each.grad).all() for each in model.parameters())


@pytest.mark.parametrize("drop", [dropout, relu_dropout])
@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_no_probability_is_told(drop: object, p: float) -> None:
    assert callable(drop)
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        drop(torch.ones(3), p, True)


def test_dropout_can_be_differentiated_twice() -> None:
    x = torch.randn(40, dtype=torch.float64, requires_grad=True)

    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return dropout(x, 0.3, True).pow(3)

    assert torch.autograd.gradcheck(seeded, (x,))
    assert torch.autograd.gradgradcheck(seeded, (x,))


def test_an_mlp_with_dropout_can_be_differentiated_twice() -> None:
    torch.manual_seed(1)
    mlp = MLP(3, 8, 2, 3, dropout=0.4).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return mlp(x).pow(3)

    assert torch.autograd.gradgradcheck(seeded, (x,))
