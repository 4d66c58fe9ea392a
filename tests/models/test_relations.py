"""Mixing subsets of relations: the equation with plain loops, and the models that stand on it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamlp.errors import GamlpError
from gamlp.models import MODELS, build
from gamlp.models.gamlp import GAMLP
from gamlp.models.nars import NARS
from gamlp.models.relations import HighPassMixing, SubsetMixing
from gamlp.models.shape import Part, Shape, channels_of
from gamlp.models.sign import SIGN
from gamlp.recipe import Recipe
from gamlp.training.bundle import make_model
from tests.conformance.models import TYPED_NAMES

ROWS, HOPS, CLASSES = 6, 2, 3
TOGETHER = (Part("a", None, 4), Part("b", None, 4), Part("a+b", None, 4))
APART = (
    Part("a", "paper", 4),
    Part("b", "paper", 4),
    Part("a+b", "paper", 4),
    Part("b", "author", 2),
    Part("a+b", "author", 2),
    Part("a+b", "venue", 3),
)
VIEWS = ("a", "b", "a+b")


def shape_of(parts: tuple[Part, ...], label_hops: int = 2) -> Shape:
    width = max(part.width for part in parts)
    return Shape(width, CLASSES, HOPS, label_hops, len(parts), parts, VIEWS if label_hops else ())


def hops_of(shape: Shape, rows: int = ROWS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """x with zeros beyond each channel's width, and y."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, shape.channels, shape.hops + 1, shape.features, generator=random)
    for number, part in enumerate(shape.parts):
        x[:, number, :, part.width :] = 0
    return x, torch.rand(rows, len(shape.label_views), shape.label_hops + 1, shape.classes, generator=random)


def stirred(model: Any, seed: int = 1) -> Any:
    """Weights by chance: at first every subset weighs alike, and a mistake in their order would not show."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(0.5 * torch.randn(value.shape, generator=random))
    return model.eval()


def mixed(parts: Sequence[Part], state: dict[str, Tensor], x: Tensor, width: int) -> Tensor:
    """m[n, k, j] = Σ_c w[c, k, j] (P_t(c) x[n, c, k])[j], number by number."""
    node_types = list(dict.fromkeys(part.node_type for part in parts))
    out = torch.zeros(len(x), x.shape[2], width, dtype=torch.float64)
    for n, k, j in itertools.product(range(len(x)), range(x.shape[2]), range(width)):
        for c, part in enumerate(parts):
            if part.node_type is None:
                value = float(x[n, c, k, j])
            else:
                matrix = state[f"maps.{node_types.index(part.node_type)}.weight"]
                value = sum(float(matrix[j, i]) * float(x[n, c, k, i]) for i in range(part.width))
            out[n, k, j] += float(state["weight"][c, k, j]) * value
    return out


@pytest.mark.parametrize(("parts", "width"), [(TOGETHER, 4), (APART, 5)], ids=["together", "apart"])
def test_mixing_is_its_equation(parts: tuple[Part, ...], width: int) -> None:
    mixing = stirred(SubsetMixing(parts, HOPS + 1, width))
    x, _ = hops_of(shape_of(parts))
    expected = mixed(parts, mixing.state_dict(), x, width)
    torch.testing.assert_close(mixing(x).double(), expected, atol=1e-5, rtol=1e-5)
    for number, size in enumerate(mixing.sizes(x)):
        alone = torch.zeros_like(x)
        alone[:, number] = x[:, number]
        said = mixed(parts, mixing.state_dict(), alone, width).abs().mean((0, 2))
        torch.testing.assert_close(size.double(), said, atol=1e-5, rtol=1e-5)


def test_what_lies_beyond_a_channels_width_is_not_read() -> None:
    mixing = stirred(SubsetMixing(APART, HOPS + 1, 5))
    x, _ = hops_of(shape_of(APART))
    filled = x.clone()
    filled[:, 3:5, :, 2:] = 7.0
    assert torch.equal(mixing(x), mixing(filled))


def test_at_first_a_types_views_weigh_alike() -> None:
    x, _ = hops_of(shape_of(TOGETHER))
    torch.testing.assert_close(SubsetMixing(TOGETHER, HOPS + 1, 4)(x), x.mean(1))
    assert SubsetMixing(APART, HOPS + 1, 5).weight[:, 0, 0].tolist() == pytest.approx([1 / 3] * 3 + [1 / 2] * 2 + [1])


@pytest.mark.parametrize("parts", [TOGETHER, APART], ids=["together", "apart"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sample_of_views_is_on_average_the_whole(parts: tuple[Part, ...], size: int) -> None:
    mixing = stirred(SubsetMixing(parts, HOPS + 1, 4)).double()
    shape = shape_of(parts)
    x = hops_of(shape)[0].double()
    found = []
    for views in itertools.combinations(range(3), size):
        chosen = channels_of(shape, views)
        assert chosen == [number for number, part in enumerate(parts) if part.view in {VIEWS[view] for view in views}]
        found.append(mixing(x[:, chosen], chosen))
    torch.testing.assert_close(torch.stack(found).mean(0), mixing(x))


OPTIONS: list[dict[str, Any]] = [
    {"attention": "recursive"},
    {"attention": "jk", "residual": True, "hop_mlp": True},
    {"attention": "jk", "label_zero": True, "last_residual": "linear", "batch_norm": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("parts", "width"), [(TOGETHER, 4), (APART, 8)], ids=["together", "apart"])
def test_gamlp_over_channels_is_gamlp_over_the_mixed_hops(
    parts: tuple[Part, ...], width: int, options: dict[str, Any]
) -> None:
    shape = shape_of(parts)
    model = stirred(GAMLP(shape, hidden=8, **options))
    plain = GAMLP(Shape(width, CLASSES, HOPS, 2), hidden=8, **options).eval()
    state = model.state_dict()
    plain.load_state_dict({name: value for name, value in state.items() if "mixing." not in name})
    x, y = hops_of(shape)
    own = {name.removeprefix("mixing."): value for name, value in state.items() if name.startswith("mixing.")}
    label = {"weight": state["label_mixing.weight"]}
    one = mixed(parts, own, x, width).float().unsqueeze(1)
    label_parts = [Part(view, None, CLASSES) for view in VIEWS]
    two = mixed(label_parts, label, y, CLASSES).float().unsqueeze(1)
    torch.testing.assert_close(model(x, y), plain(one, two), atol=1e-5, rtol=1e-4)
    for name in ("features", "labels"):
        torch.testing.assert_close(
            getattr(model.hop_weights(x, y), name), getattr(plain.hop_weights(one, two), name), atol=1e-5, rtol=1e-4
        )
    branches = model.branches(x, y)
    torch.testing.assert_close(branches.features + branches.labels, model(x, y))


def differences(x: Tensor) -> Tensor:
    """x[c, k] - x[c, k-1], channel by channel and hop by hop; zero for k = 0."""
    out = torch.zeros_like(x)
    for channel, hop in itertools.product(range(x.shape[1]), range(1, x.shape[2])):
        out[:, channel, hop] = x[:, channel, hop] - x[:, channel, hop - 1]
    return out


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("parts", "width"), [(TOGETHER, 4), (APART, 8)], ids=["together", "apart"])
def test_high_pass_is_gamlp_over_twice_the_channels(
    parts: tuple[Part, ...], width: int, options: dict[str, Any]
) -> None:
    shape = shape_of(parts)
    model = stirred(GAMLP(shape, hidden=8, high_pass=True, **options))
    plain = GAMLP(Shape(width, CLASSES, HOPS, 2), hidden=8, **options).eval()
    state = model.state_dict()
    plain.load_state_dict({name: value for name, value in state.items() if "mixing." not in name})
    x, y = hops_of(shape)
    own = {name.removeprefix("mixing."): value for name, value in state.items() if name.startswith("mixing.")}
    both = torch.cat([x, differences(x)], 1)
    one = mixed((*parts, *parts), own, both, width).float().unsqueeze(1)
    two = model.label_mixing(y).unsqueeze(1)
    torch.testing.assert_close(model(x, y), plain(one, two), atol=1e-5, rtol=1e-4)
    told = model.hop_weights(x, y).features
    assert told.shape == (ROWS, HOPS + 1)
    torch.testing.assert_close(told, plain.hop_weights(one, two).features, atol=1e-5, rtol=1e-4)
    branches = model.branches(x, y)
    torch.testing.assert_close(branches.features + branches.labels, model(x, y))
    sizes, _ = model.subset_sizes(x, y)
    assert sizes.shape == (len(parts), HOPS + 1)
    for number in range(len(parts)):  # what a channel and its differences say together
        alone = torch.zeros_like(both)
        for at in (number, len(parts) + number):
            alone[:, at] = both[:, at]
        said = mixed((*parts, *parts), own, alone, width).abs().mean((0, 2))
        torch.testing.assert_close(sizes[number].double(), said, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("parts", [(), TOGETHER[:1], TOGETHER, APART], ids=["plain", "one", "together", "apart"])
@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_high_pass_starts_as_the_model_without_it(parts: tuple[Part, ...], attention: str) -> None:
    shape = shape_of(parts) if parts else Shape(4, CLASSES, HOPS, 2)
    if len(parts) == 1:
        shape = replace(shape, label_views=VIEWS[:1])
    options = {"attention": attention, "hidden": 8, "input_norm": True, "hop_mlp": True, "residual": True}
    models = []
    for high_pass in (False, True):
        torch.manual_seed(3)
        models.append(GAMLP(shape, high_pass=high_pass, **options).eval())
    without, model = models
    x, y = hops_of(shape) if parts else hops_of(replace(shape, label_views=VIEWS[:1]))
    assert torch.equal(without(x, y), model(x, y)), "no weight of the others is drawn otherwise"
    assert model.mixing is not None
    assert not model.mixing.weight[len(parts) or 1 :].any(), "differences weigh nothing"
    assert (model.subset_sizes(x, y)[0] is None) == (without.subset_sizes(x, y)[0] is None)
    model.train()(x, y).square().sum().backward()
    moved = model.mixing.weight.grad[len(parts) or 1 :].abs().sum(2) > 0
    assert moved[:, 1:].all() and not moved[:, 0].any(), "and are heard from the first step on"


@pytest.mark.parametrize("parts", [TOGETHER, APART], ids=["together", "apart"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sample_of_views_brings_its_own_differences(parts: tuple[Part, ...], size: int) -> None:
    mixing, shape = stirred(HighPassMixing(parts, HOPS + 1, 4)).double(), shape_of(parts)
    x = hops_of(shape)[0].double()
    found = []
    for views in itertools.combinations(range(3), size):
        chosen = channels_of(shape, views)
        found.append(mixing(torch.cat([x[:, chosen], differences(x[:, chosen])], 1), chosen))
    torch.testing.assert_close(torch.stack(found).mean(0), mixing(torch.cat([x, differences(x)], 1)))
    model = stirred(GAMLP(shape, hidden=8, high_pass=True, beta=0.0)).double()
    assert torch.equal(model(x, None, [0, 1, 2]), model(x))
    some = channels_of(shape, [0, 2])
    assert model(x[:, some], None, [0, 2]).shape == (ROWS, CLASSES)


@pytest.mark.parametrize("name", ["sign", "sgc", "sagn", "nars", "logistic", "lightgbm"])
def test_models_that_attend_to_no_mixture_refuse_high_pass(name: str) -> None:
    with pytest.raises(GamlpError, match=f"model '{name}' has no setting 'model.high_pass'"):
        make_model(Recipe.of({"model": {"name": name, "high_pass": True}}), Shape(4, CLASSES, HOPS))


def test_a_homogeneous_graph_is_the_case_of_one_subset() -> None:
    plain = Shape(4, CLASSES, HOPS, 2)
    one = Shape(4, CLASSES, HOPS, 2, 1, (Part("a", None, 4),), ("a",))
    torch.manual_seed(0)
    first = GAMLP(plain, hidden=8).eval()
    torch.manual_seed(0)
    second = GAMLP(one, hidden=8).eval()
    assert not any("mixing" in name for name in first.state_dict())
    assert list(first.state_dict()) == list(second.state_dict())
    x, y = hops_of(one)
    assert torch.equal(first(x, y), second(x, y)), "no weights, no draws are added"


@pytest.mark.parametrize("name", ["gamlp", "nars", "sign"])
@pytest.mark.parametrize("parts", [TOGETHER, APART], ids=["together", "apart"])
def test_gradients_reach_every_weight(name: str, parts: tuple[Part, ...]) -> None:
    shape = shape_of(parts)
    model = build(name, shape, {"hidden": 8, "dropout": 0.0})
    x, y = hops_of(shape, rows=32)
    model(x, y).square().sum().backward()
    for key, value in model.named_parameters():
        assert value.grad is not None and value.grad.abs().sum() > 0, key
    weight = getattr(getattr(model, "mixing", None), "weight", None)
    if weight is not None:  # of every channel and hop
        assert (weight.grad.abs().sum(2) > 0).all()


def test_nars_is_sign_over_the_mixed_hops() -> None:
    """logits = MLP(σ(m^(0) W_0) ‖ … ‖ σ(m^(K) W_K))."""
    for parts, width in ((TOGETHER, 4), (APART, 8)):
        shape = shape_of(parts, 0)
        model = stirred(NARS(shape, hidden=8, layers=2))
        sign = SIGN(Shape(width, CLASSES, HOPS), hidden=8, layers=2).eval()
        state = model.state_dict()
        sign.load_state_dict(
            {name.removeprefix("sign."): value for name, value in state.items() if name.startswith("sign.")}
        )
        x, _ = hops_of(shape)
        own = {name.removeprefix("mixing."): value for name, value in state.items() if name.startswith("mixing.")}
        expected = sign(mixed(parts, own, x, width).float().unsqueeze(1))
        torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-4)


def test_sign_reads_every_hop_of_every_channel_with_a_map_of_its_own() -> None:
    shape = shape_of(APART, 0)
    x, _ = hops_of(shape)
    model = stirred(SIGN(shape, hidden=8))
    # Channels of a graph of one relation, one after the other, are hops of one channel.
    long = SIGN(Shape(shape.features, CLASSES, shape.channels * (HOPS + 1) - 1), hidden=8).eval()
    long.load_state_dict(model.state_dict())
    laid = torch.cat([x[:, number] for number in range(shape.channels)], 1).unsqueeze(1)
    torch.testing.assert_close(model(x), long(laid))
    for channel, hop in itertools.product(range(shape.channels), range(HOPS + 1)):
        other = x.clone()
        other[:, channel, hop, : APART[channel].width] += 3
        assert not torch.allclose(model(x), model(other)), (channel, hop)


def test_a_sample_of_views_is_told_to_models_that_mix_and_refused_by_others() -> None:
    shape = shape_of(APART)
    x, y = hops_of(shape)
    chosen = [0, 2]
    for name in ("gamlp", "nars"):
        model = stirred(build(name, shape, {"hidden": 8}))
        part = model(x[:, channels_of(shape, chosen)], y[:, chosen], chosen)
        assert part.shape == (ROWS, CLASSES) and not torch.allclose(part, model(x, y))
        every = model(x, y, [0, 1, 2])
        assert torch.equal(every, model(x, y))
    sampled = Recipe.of({"model": {"name": "sign"}, "training": {"subset_sample": 2}})
    with pytest.raises(GamlpError, match="'sign' reads all subsets of relations at every step"):
        make_model(sampled, shape)
    assert isinstance(make_model(sampled.changed({"training.subset_sample": 0}), shape), nn.Module)
    assert isinstance(make_model(sampled, Shape(4, CLASSES, HOPS)), nn.Module), "a graph of one relation has none"


@pytest.mark.parametrize("name", [name for name in MODELS if name not in TYPED_NAMES])
def test_models_of_one_channel_refuse_several(name: str) -> None:
    with pytest.raises(GamlpError, match="reads one channel, not 6"):
        build(name, shape_of(APART), {"hidden": 8})


@pytest.mark.parametrize("attention", ["recursive", "jk"])
def test_norms_scaled_labels_and_a_uniform_start_hold_for_several_relations_and_a_sample_of_them(
    attention: str,
) -> None:
    """Mixed hops are normed, so that a step that reads some subsets alone norms what they give."""
    shape, options = shape_of(APART), {"attention": attention, "hidden": 8, "dropout": 0.0, "label_scale": "hop"}
    model = GAMLP(shape, **options, input_norm=True, attention_start="uniform").train()
    x, y = hops_of(shape, rows=20)
    read: list[Tensor] = []
    model.attention.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    some = [0, 2]
    model(x[:, channels_of(shape, some)], y[:, some], some)
    model(x, y)
    for hops in read:
        torch.testing.assert_close(hops.mean(0), torch.zeros_like(hops[0]), atol=1e-5, rtol=0)
        torch.testing.assert_close(hops.var(0, correction=0), torch.ones_like(hops[0]), atol=1e-2, rtol=0)
    told = model.hop_weights(x, y)
    assert told.features is not None and told.labels is not None
    torch.testing.assert_close(told.features, torch.full((20, HOPS + 1), 1 / (HOPS + 1)))
    torch.testing.assert_close(model.eval()(x, y), model(x, 1000 * y))  # each view's rows are divided by their sums
