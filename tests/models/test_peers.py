"""The peers on hops against their equations written out plainly, hop by hop, on hops of a dense Â."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.models import Shape, build
from gamlp.models.gbp import GBP, pagerank_weights
from gamlp.models.s2gc import S2GC
from gamlp.models.sagn import SAGN
from gamlp.models.sgc import SGC, PlainMLP
from gamlp.models.sign import SIGNXL
from tests.models import plain

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
ROWS, WIDTH, CLASSES, HOPS, LABEL_HOPS = 12, 5, 3, 4, 2
SHAPE = Shape(WIDTH, CLASSES, HOPS, LABEL_HOPS)
PEERS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "sgc": {},
    "s2gc": {"layers": 2},
    "gbp": {},
    "sign-xl": {},
    "sagn": {"heads": 3},
}


def hops_of_a_graph(r: float = 0.5) -> Tensor:
    """X^(0..K) `[n, 1, K + 1, d]` of a random graph by a dense Â = D^(r-1) (A + I) D^(-r)."""
    random = torch.Generator().manual_seed(3)
    edges = torch.rand(ROWS, ROWS, generator=random, dtype=torch.float64) < 0.3
    adjacency = ((edges | edges.t()) & ~torch.eye(ROWS, dtype=torch.bool)).double() + torch.eye(ROWS)
    degree = adjacency.sum(1)
    operator = torch.diag(degree ** (r - 1)) @ adjacency @ torch.diag(degree**-r)
    x = [torch.randn(ROWS, WIDTH, generator=random, dtype=torch.float64)]
    for _ in range(HOPS):
        x.append(operator @ x[-1])
    return torch.stack(x, 1)[:, None]


def labels() -> Tensor:
    random = torch.Generator().manual_seed(4)
    return torch.rand(ROWS, 1, LABEL_HOPS + 1, CLASSES, generator=random, dtype=torch.float64)


def state_of(model: nn.Module) -> plain.State:
    return dict((*model.named_parameters(), *model.named_buffers()))


def test_an_mlp_reads_a_nodes_own_features_alone() -> None:
    model, x = PlainMLP(SHAPE, hidden=6, layers=2).double().eval(), hops_of_a_graph()
    torch.testing.assert_close(model(x), plain.mlp(state_of(model), "mlp", x[:, 0, 0], False), **TIGHT)
    other = x.clone()
    other[:, 0, 1:] = 7
    assert torch.equal(model(x), model(other))


def test_sgc_of_one_layer_is_a_linear_map_of_the_last_hop() -> None:
    model, x = SGC(SHAPE, layers=1).double().eval(), hops_of_a_graph()
    weight, bias = model.mlp.linear[0].weight, model.mlp.linear[0].bias
    assert sum(value.numel() for value in model.parameters()) == WIDTH * CLASSES + CLASSES
    torch.testing.assert_close(model(x), x[:, 0, HOPS] @ weight.T + bias, **TIGHT)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 1.0])
def test_s2gc_is_the_mean_over_hops_from_the_first_with_a_share_of_the_features(alpha: float) -> None:
    model, x = S2GC(SHAPE, alpha=alpha).double().eval(), hops_of_a_graph()
    mean = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
    for k in range(1, HOPS + 1):
        mean = mean + ((1 - alpha) * x[:, 0, k] + alpha * x[:, 0, 0]) / HOPS
    torch.testing.assert_close(model(x), plain.mlp(state_of(model), "mlp", mean, False), **TIGHT)


@pytest.mark.parametrize("r", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("restart", [0.05, 0.5, 1.0])
def test_gbp_is_a_sum_of_hops_by_exact_pagerank_weights(restart: float, r: float) -> None:
    model, x = GBP(SHAPE, restart=restart, hidden=6).double().eval(), hops_of_a_graph(r)
    left = 1 - (1 - restart) ** (HOPS + 1)  # Σ β (1-β)^k, k = 0..K
    mixed = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
    for k in range(HOPS + 1):
        mixed = mixed + restart * (1 - restart) ** k / left * x[:, 0, k]
    torch.testing.assert_close(model(x), plain.mlp(state_of(model), "mlp", mixed, False), **TIGHT)


def test_gbp_weights_have_the_values_of_the_formula_and_add_up_to_one() -> None:
    assert pagerank_weights(2, 0.5) == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=1e-15)
    assert pagerank_weights(3, 0.0) == pytest.approx([0.25] * 4, abs=1e-15)
    assert pagerank_weights(3, 1.0) == [1.0, 0.0, 0.0, 0.0]
    assert sum(pagerank_weights(50, 0.1)) == pytest.approx(1.0, abs=1e-12)


def test_constant_mixtures_tell_the_weights_they_use() -> None:
    x = hops_of_a_graph()
    for model in (S2GC(SHAPE, alpha=0.2), GBP(SHAPE, restart=0.3)):
        told = model.hop_weights(x).features
        assert told is not None and told.shape == (ROWS, HOPS + 1)
        model = model.double().eval()
        mixed = torch.einsum("bk,bkd->bd", told, x[:, 0])
        torch.testing.assert_close(model(x), model.mlp(mixed), **TIGHT)


def test_sign_xl_is_a_map_for_every_hop_of_every_operator_side_by_side() -> None:
    shape = Shape(WIDTH, CLASSES, HOPS, channels=3)
    model = SIGNXL(shape, hidden=6, layers=2).double().eval()
    x = torch.cat([hops_of_a_graph(r) for r in (0.5, 0.0, 1.0)], 1)
    state = state_of(model)
    wanted = [x[:, 0, 0]] + [x[:, channel, k] for channel in range(3) for k in range(1, HOPS + 1)]
    assert len(state["hops.weight"]) == len(wanted) == 13
    mapped = [part @ state["hops.weight"][i] + state["hops.bias"][i, 0] for i, part in enumerate(wanted)]
    joined = torch.cat([torch.where(part > 0, part, torch.zeros_like(part)) for part in mapped], 1)
    torch.testing.assert_close(model(x), plain.mlp(state, "mlp", joined, False), **TIGHT)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_sagn_is_its_equations_head_by_head(heads: int, beta: float) -> None:
    torch.manual_seed(heads)
    model = SAGN(SHAPE, hidden=6, heads=heads, layers=2, beta=beta).double().eval()
    with torch.no_grad():
        model.own.mul_(4)  # weights that differ
    x, y, state = hops_of_a_graph(), labels(), state_of(model)
    mapped = [x[:, 0, k] @ state["maps"][k] for k in range(HOPS + 1)]
    mixed, told = [], []
    for head in range(heads):
        columns = slice(6 * head, 6 * head + 6)
        both = torch.cat([state["own"][head], state["origin"][head]])
        scores = [
            plain.delta(torch.cat([hop[:, columns], mapped[0][:, columns]], 1) @ both, "leaky_relu") for hop in mapped
        ]
        weights = torch.softmax(torch.stack(scores, 1), 1)
        told.append(weights)
        mixed.append(
            sum(
                (weights[:, k : k + 1] * mapped[k][:, columns] for k in range(1, HOPS + 1)),
                weights[:, :1] * mapped[0][:, columns],
            )
        )
    summed = torch.cat(mixed, 1) + x[:, 0, 0] @ state["residual.weight"].T
    logits = plain.mlp(state, "mlp", torch.where(summed > 0, summed, torch.zeros_like(summed)), False)
    if beta:
        logits = logits + beta * plain.mlp(state, "label_mlp", y[:, 0, LABEL_HOPS], False)
    torch.testing.assert_close(model(x, y), logits, **TIGHT)
    weights = sum(told[1:], told[0]) / heads
    found = model.hop_weights(x, y)
    assert found.features is not None and float(weights.detach().std(0).max()) > 1e-3
    torch.testing.assert_close(found.features, weights, **TIGHT)
    assert (found.labels is None) == (beta == 0)


def test_sagn_without_the_labels_it_listens_to_says_so() -> None:
    with pytest.raises(ValueError, match="beta=0"):
        SAGN(SHAPE, hidden=6, beta=1.0)(torch.zeros(2, 1, HOPS + 1, WIDTH))


@pytest.mark.parametrize("name", PEERS)
def test_every_parameter_learns_and_permuting_rows_permutes_logits(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, SHAPE, {"hidden": 6, "dropout": 0.0, **PEERS[name]}).double()
    x, y = hops_of_a_graph(), labels()
    model.train()(x, y).square().sum().backward()
    assert [key for key, value in model.named_parameters() if value.grad is None or not value.grad.any()] == []
    order = torch.randperm(ROWS)
    model.eval()
    torch.testing.assert_close(model(x[order], y[order]), model(x, y)[order], **TIGHT)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("s2gc", {"alpha": 1.5}, "alpha is a share"),
        ("gbp", {"restart": -0.1}, "restart is a share"),
        ("sagn", {"heads": 0}, "at least one head"),
        ("s2gc", {"alpha": "much"}, "cannot be made"),
    ],
)
def test_an_option_out_of_range_is_told_in_a_sentence(name: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        build(name, SHAPE, options)


@pytest.mark.parametrize("name", ["mlp", "sgc", "sign", "sign-xl", "s2gc", "gbp", "gamlp"])
def test_input_norm_reads_every_feature_of_every_hop_by_its_mean_and_deviation(name: str) -> None:
    """As the model without it reads what was normed by hand: the batch in training, the batches' mean afterwards."""
    settings = {"hidden": 6, "layers": 2, "dropout": 0.0, "beta": 0.0}

    def made(**more: Any) -> nn.Module:
        torch.manual_seed(0)
        return build(name, SHAPE, {**settings, **more}).double()

    normed, without = made(input_norm=True), made().eval()
    assert normed.state_dict().keys() > without.state_dict().keys()
    assert sum(1 for _ in normed.parameters()) == sum(1 for _ in without.parameters())  # nothing more is learned
    x = 3 * hops_of_a_graph() + torch.arange(WIDTH)
    batches = [x[:7], x[7:]]
    for batch in batches:
        by_hand = (batch - batch.mean(0)) / (batch.var(0, correction=0) + 1e-5).sqrt()
        torch.testing.assert_close(normed.train()(batch), without(by_hand), **TIGHT)
    mean = torch.stack([batch.mean(0) for batch in batches]).mean(0)
    variance = torch.stack([batch.var(0) for batch in batches]).mean(0)
    expected = without((x - mean) / (variance + 1e-5).sqrt())
    torch.testing.assert_close(normed.eval()(x), expected, **TIGHT)
    if hasattr(normed, "branches"):
        torch.testing.assert_close(normed.branches(x).features, expected, **TIGHT)
    deviation = (variance + 1e-5).sqrt()
    torch.testing.assert_close(normed(mean + 1e6 * deviation[None]), normed(mean + 10 * deviation[None]), **TIGHT)
