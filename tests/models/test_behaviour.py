"""What GAMLP's parts promise beside the equations: permutation, dropout, noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import GAMLP, Shape
from gamlp.models.attention import HopAttention, JKAttention, RecursiveAttention
from gamlp.models.mlp import relu_dropout

SHAPE = Shape(features=5, classes=3, hops=3, label_hops=2)
ALL_ON: dict[str, Any] = {
    "hidden": 6,
    "batch_norm": True,
    "hop_mlp": True,
    "residual": True,
    "initial_residual": 0.2,
    "layers": 4,
    "label_zero": True,
    "input_dropout": 0.3,
    "attention_dropout": 0.3,
}
KINDS: list[dict[str, Any]] = [
    {"attention": "recursive", **ALL_ON},
    *({"attention": "jk", "reference": name, **ALL_ON} for name in ("jk", "origin", "noise", "none")),
]


def hops(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 1, 4, 5, generator=random), torch.rand(rows, 1, 3, 3, generator=random)


def jk(reference: str, dropout: float = 0.0) -> JKAttention:
    return JKAttention(
        5, 4, "sigmoid", dropout, reference=reference, first=1, hidden=6, layers=2, mlp_dropout=0.0, batch_norm=False
    )


@pytest.mark.parametrize("options", KINDS, ids=lambda o: o["attention"] + o.get("reference", ""))
def test_permuting_nodes_permutes_logits_and_hop_weights(options: dict[str, Any]) -> None:
    model = GAMLP(SHAPE, **options).double().eval()
    x, y = (values.double() for values in hops(30))
    order = torch.randperm(30)
    torch.testing.assert_close(model(x[order], y[order]), model(x, y)[order], rtol=1e-12, atol=1e-12)
    told, permuted = model.hop_weights(x, y), model.hop_weights(x[order], y[order])
    for one, other in ((told.features, permuted.features), (told.labels, permuted.labels)):
        assert one is not None and other is not None
        torch.testing.assert_close(other, one[order], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", KINDS, ids=lambda o: o["attention"] + o.get("reference", ""))
def test_a_node_has_the_same_logits_in_any_batch(options: dict[str, Any]) -> None:
    model = GAMLP(SHAPE, **options).double().eval()
    x, y = (values.double() for values in hops(30))
    apart = torch.cat([model(x[:1], y[:1]), model(x[1:8], y[1:8]), model(x[8:], y[8:])])
    torch.testing.assert_close(apart, model(x, y), rtol=1e-12, atol=1e-12)


def test_hop_weights_are_those_of_inference_and_leave_the_mode_as_it_was() -> None:
    model = GAMLP(SHAPE, attention="jk", reference="noise", **ALL_ON)
    x, y = hops(10)
    model.train()
    first, second = model.hop_weights(x, y), model.hop_weights(x, y)
    assert model.training and model.attention.training
    assert first.features is not None and second.features is not None
    assert torch.equal(first.features, second.features) and not first.features.requires_grad
    torch.testing.assert_close(first.features.sum(1), torch.ones(10))


@pytest.mark.parametrize("kind", ["recursive", "jk"])
def test_attention_dropout_is_after_the_softmax_in_training_only_without_renormalising(kind: str) -> None:
    p = 0.25
    attention: HopAttention = RecursiveAttention(5, "sigmoid", p) if kind == "recursive" else jk("jk", p)
    rows = 4000
    x = torch.eye(4, 5).expand(rows, 4, 5).contiguous()  # hop l is the l-th unit vector: the output shows the weights
    torch.manual_seed(0)
    shown = attention.train()(x)[:, :4]
    expected = attention.weights(x)
    kept = shown != 0
    torch.testing.assert_close(shown[kept], (expected / (1 - p))[kept])
    assert abs(float(kept.float().mean()) - (1 - p)) < 0.02
    shown = shown.detach()
    assert abs(float(shown.sum(1).mean()) - 1) < 0.02 and not torch.allclose(shown.sum(1), torch.ones(rows))
    torch.testing.assert_close(attention.eval()(x)[:, :4], expected)


def test_input_dropout_drops_numbers_of_hops_and_keeps_their_mean() -> None:
    p = 0.4
    model = GAMLP(Shape(50, 2, 0), beta=0, layers=1, input_dropout=p)
    x = torch.rand(2000, 1, 1, 50) + 0.5
    seen: list[Tensor] = []
    model.mlp.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    torch.manual_seed(1)
    model.train()(x)
    model.eval()(x)
    share = float((seen[0] == 0).float().mean())
    assert abs(share - p) < 0.01
    torch.testing.assert_close(seen[0][seen[0] != 0], (x[:, 0, 0] / (1 - p))[seen[0] != 0], rtol=1e-4, atol=1e-6)
    assert abs(float(seen[0].mean() / x.mean()) - 1) < 0.02
    torch.testing.assert_close(seen[1], x[:, 0, 0])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("count", [1, 7, 200_003])
def test_relu_and_dropout_in_one_step_keep_the_mean_and_pass_gradients_where_kept(p: float, count: int) -> None:
    torch.manual_seed(3)
    z = torch.randn(count, dtype=torch.float64).requires_grad_()
    out = relu_dropout(z, p, True)
    (grad,) = torch.autograd.grad(out.sum(), z)
    scale = 1 / (1 - p)
    kept = out > 0
    assert torch.equal(out == 0, ~kept) and not (kept & (z <= 0)).any()
    torch.testing.assert_close(out[kept], z[kept] * scale, rtol=1e-4, atol=0)
    torch.testing.assert_close(grad, kept.double() * scale, rtol=1e-4, atol=0)
    if count > 1000:
        positive = z > 0
        assert abs(float((out[positive] == 0).double().mean()) - p) < 0.01
        assert abs(float(out.mean() / functional.relu(z).mean()) - 1) < 0.01
        assert abs(float((out[positive][1:] == 0)[out[positive][:-1] == 0].double().mean()) - p) < 0.02  # independent


def test_relu_and_dropout_are_the_same_under_a_seed_and_plain_relu_without() -> None:
    z = torch.randn(1000)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return relu_dropout(z.clone(), 0.5, True)

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))
    assert torch.equal(relu_dropout(z.clone(), 0.5, False), functional.relu(z))
    assert torch.equal(relu_dropout(z.clone(), 0.0, True), functional.relu(z))


def test_the_noise_reference_is_afresh_in_training_and_fixed_at_inference() -> None:
    torch.manual_seed(0)
    attention = jk("noise")
    x = torch.randn(6, 4, 5)
    assert not torch.equal(attention.train().weights(x), attention.weights(x))
    assert torch.equal(attention.eval().weights(x), attention.weights(x))
    assert "noise" in attention.state_dict()
    other = jk("noise")
    assert not torch.equal(other.noise, attention.noise)
    other.load_state_dict(attention.state_dict())
    assert torch.equal(other.eval().weights(x), attention.weights(x))


def test_every_parameter_of_every_option_learns() -> None:
    for options in KINDS:
        if options.get("reference") == "noise":
            continue
        model = GAMLP(SHAPE, **{**options, "input_dropout": 0.0, "attention_dropout": 0.0, "dropout": 0.0})
        model(*hops(40)).square().sum().backward()
        idle = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
        assert not idle or all(_before_norm(model, name) for name in idle), idle


def _before_norm(model: nn.Module, name: str) -> bool:
    """A bias before batch norm has no effect, by definition."""
    return name.endswith(".bias") and any(isinstance(part, nn.BatchNorm1d) for part in model.modules())
