"""Hand-written gradients: differentiated twice, under autocast and compiled, they are what autograd's own would be."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from gamlp.models import GAMLP, Shape
from gamlp.models.attention import HopProducts, Mixture, RecursiveAttention, RecursiveScores, plain_scores

ACTIVATIONS = ["sigmoid", "relu", "leaky_relu"]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.requires_grad_()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_scores_can_be_differentiated_twice(hops: int, activation: str) -> None:
    p, q = numbers(hops, 3), numbers(hops, 3, seed=1)

    def scores(p: Tensor, q: Tensor) -> Tensor:
        return RecursiveScores.apply(p, q, activation)

    assert torch.autograd.gradcheck(scores, (p, q))
    assert torch.autograd.gradgradcheck(scores, (p, q))
    assert torch.autograd.gradgradcheck(lambda p: scores(p, q.detach()), (p,))
    assert torch.allclose(scores(p, q), plain_scores(p, q, activation), rtol=1e-12)


def test_products_and_mixtures_can_be_differentiated_twice() -> None:
    x = numbers(3, 2, 4)
    assert torch.autograd.gradgradcheck(HopProducts.apply, (x, numbers(2, 4, seed=1)))
    assert torch.autograd.gradgradcheck(Mixture.apply, (numbers(3, 2, seed=2), x))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_hessian_is_the_one_of_the_equations(activation: str) -> None:
    """The gradient of a sum asks nothing of what comes in, so that a backward of its own could pass for a constant."""
    torch.manual_seed(0)  # by other draws all of relu's scores may be zero
    attention = RecursiveAttention(4, activation, 0.0).double()
    vectors = attention.vectors.detach()

    def mixed(x: Tensor) -> Tensor:
        return attention(x).sum()

    def by_equations(x: Tensor) -> Tensor:
        p, q = torch.einsum("bhd,dk->khb", x, vectors)
        weights = torch.softmax(plain_scores(p, q, activation), 0)
        return torch.einsum("hb,bhd->", weights, x)

    x = numbers(2, 3, 4).detach()
    found = torch.autograd.functional.hessian(mixed, x)
    assert found.abs().max() > 1e-3
    assert torch.allclose(found, torch.autograd.functional.hessian(by_equations, x), rtol=1e-9, atol=1e-12)


def model_of(attention: str, **options: object) -> tuple[GAMLP, Tensor, Tensor]:
    torch.manual_seed(0)
    model = GAMLP(Shape(features=5, classes=3, hops=4, label_hops=3), attention=attention, hidden=16, **options)
    return model, torch.randn(70, 1, 5, 5), torch.rand(70, 1, 4, 3)


@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_the_hessian_of_a_model_is_that_of_its_gradients(attention: str) -> None:
    """Against differences of first derivatives, of a whole model with its ReLU and attention."""
    model, x, y = model_of(attention, dropout=0.0, activation="sigmoid")
    model, x, y = model.double(), x[:4].double().requires_grad_(), y[:4].double()

    def gradient(x: Tensor) -> Tensor:
        return torch.autograd.grad(model(x, y).square().sum(), x, create_graph=True)[0]

    way = torch.randn(x.shape, dtype=torch.float64)
    (found,) = torch.autograd.grad((gradient(x) * way).sum(), x)
    step = 1e-6
    ahead, behind = ((x.detach() + sign * step * way).requires_grad_() for sign in (1, -1))
    expected = (gradient(ahead) - gradient(behind)).detach() / (2 * step)
    assert expected.abs().max() > 1e-4
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-8)


def needs_bfloat16(rows: int, inputs: int, outputs: int) -> None:
    """Skip where torch itself cannot multiply such matrices: on some virtual machines with AMX it raises."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.functional.linear(torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs))
    except RuntimeError as error:
        pytest.skip(f"torch cannot multiply {rows} × {inputs} by {inputs} × {outputs} in bfloat16 here: {error}")


@pytest.mark.parametrize(
    ("attention", "hop_mlp", "reference"),
    [*itertools.product(["recursive", "jk"], [False, True], ["jk"]), ("jk", True, "origin"), ("jk", False, "noise")],
)
def test_autocast_trains(attention: str, hop_mlp: bool, reference: str) -> None:
    """Forwards and backwards in bfloat16 where autocast has it so; gradients near those of float32."""
    model, x, y = model_of(attention, hop_mlp=hop_mlp, reference=reference, dropout=0.0)
    needs_bfloat16(len(x), x.shape[-1], 16)
    if reference == "noise":
        model.eval()

    def gradients(half: bool) -> Tensor:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(x, y)
        assert logits.dtype == (torch.bfloat16 if half else torch.float32)
        logits.float().square().sum().backward()
        assert all(each.grad is not None and each.grad.dtype == torch.float32 for each in model.parameters())
        return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])

    full, half = gradients(False), gradients(True)
    assert torch.isfinite(half).all()
    assert (half - full).norm() < 0.05 * full.norm()


def test_autocast_trains_with_dropout() -> None:
    model, x, y = model_of("recursive", dropout=0.5, input_dropout=0.25, attention_dropout=0.5, hop_mlp=True)
    needs_bfloat16(len(x), x.shape[-1], 16)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x, y).float().square().mean()
    loss.backward()
    assert all(torch.isfinite(each.grad).all() for each in model.parameters() if each.grad is not None)


@pytest.mark.slow
def test_a_compiled_model_is_the_model() -> None:
    model, x, y = model_of("recursive", label_attention="jk", dropout=0.5, input_dropout=0.25, attention_dropout=0.5)
    compiled = torch.compile(model, backend="aot_eager")
    x.requires_grad_()
    compiled(x, y).square().sum().backward()  # with dropout: it runs, and gradients arrive everywhere
    assert all(each.grad is not None and each.grad.isfinite().all() for each in model.parameters())
    model.eval()
    (expected,) = torch.autograd.grad(model(x, y).square().sum(), x)
    (found,) = torch.autograd.grad(compiled(x, y).square().sum(), x)
    assert torch.allclose(compiled(x, y), model(x, y), atol=1e-6)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("attention", ["recursive", "jk"])
@pytest.mark.parametrize("activation", ["sigmoid", "leaky_relu"])
def test_a_uniform_start_gives_every_hop_the_same_weight_and_learns(attention: str, activation: str) -> None:
    model, x, y = model_of(attention, attention_start="uniform", activation=activation, dropout=0.0)
    told = model.hop_weights(x, y)
    assert told.features is not None and told.labels is not None
    assert torch.equal(told.features, torch.full((70, 5), 1 / 5)) and torch.equal(
        told.labels, torch.full((70, 3), 1 / 3)
    )
    model(x, y).square().sum().backward()
    vectors = [model.attention.own_vectors()[0], model.label_attention.own_vectors()[0]]  # type: ignore[union-attr]
    assert all(vector.grad is not None and vector.grad.abs().max() > 0 for vector in vectors)
    random, *_ = model_of(attention, activation=activation, dropout=0.0)
    own = {id(vector) for vector in model.attention_vectors()}
    for (name, value), other in zip(model.named_parameters(), random.parameters()):
        assert torch.equal(value, other) != (id(value) in own), name  # all else is drawn as ever


def test_dropout_of_mixed_hops_is_between_attention_and_the_output_mlp() -> None:
    model, x, y = model_of("recursive", mixed_dropout=0.5, dropout=0.0)
    read: list[Tensor] = []
    model.mlp.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    mixed = model.attention(x[:, 0])
    model.eval()(x, y)
    assert torch.equal(read.pop(), mixed)
    model.train()(x, y)
    kept = read[0] != 0
    assert 0.35 < kept.float().mean() < 0.65
    torch.testing.assert_close(read[0][kept], 2 * mixed[kept])
