"""What holds for every model, registered or a user's own."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from gamlp.errors import GamlpError
from gamlp.models import MODELS, HopWeights, Shape
from gamlp.recipe import Recipe
from gamlp.training.bundle import make_model
from tests.conformance.models import NAMES, OWN, SOLVED, TYPED, TYPED_NAMES, hops, made, settings_of

SHAPES = [Shape(4, 3, 2, 2), Shape(1, 2, 0, 1), Shape(6, 5, 5, 3)]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


CASES = [*((name, SHAPES[0]) for name in NAMES), *((name, TYPED) for name in TYPED_NAMES)]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{'types' if case[1].parts else 'one'}")
def case(request: pytest.FixtureRequest) -> tuple[str, Shape]:
    """A model, and hops that it reads."""
    name, shape = request.param
    return str(name), shape


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", [2, 13])
def test_logits_are_rows_by_classes_and_finite_in_both_modes(name: str, shape: Shape, rows: int) -> None:
    model = made(name, shape)
    for training in (True, False):
        logits = model.train(training)(*hops(shape, rows))
        assert logits.shape == (rows, shape.classes) and logits.dtype == torch.float32 and logits.isfinite().all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_hop_weights_are_distributions_over_the_hops_or_none(name: str, shape: Shape) -> None:
    x, y = hops(shape, 9)
    told = made(name, shape).hop_weights(x, y)
    assert isinstance(told, HopWeights)
    if told.features is not None:
        assert told.features.shape == (9, shape.hops + 1) and (told.features >= 0).all()
        torch.testing.assert_close(told.features.sum(1), torch.ones(9))
    if told.labels is not None:
        assert told.labels.shape == (9, shape.label_hops + 1 - told.first_label_hop)
        torch.testing.assert_close(told.labels.sum(1), torch.ones(9))


def test_a_state_dict_carries_all_of_a_model(case: tuple[str, Shape]) -> None:
    name, shape = case
    model, other = made(name, shape, 0).eval(), made(name, shape, 1).eval()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    given = hops(shape, 7)
    assert not torch.equal(model(*given), other(*given))
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(model(*given), other(*given))


def test_a_seed_gives_the_same_weights_dropout_and_gradients(case: tuple[str, Shape]) -> None:
    name, shape = case

    def step() -> list[Tensor]:
        model = made(name, shape, 5).train()
        logits = model(*hops(shape, 50))
        if not list(model.parameters()):  # trees and counts have no gradients
            return [logits]
        logits.square().sum().backward()
        return [value.grad for value in model.parameters() if value.grad is not None]

    first, second = step(), step()
    assert first and all(torch.equal(one, other) for one, other in zip(first, second))


def test_inference_does_not_draw_random_numbers_nor_change_the_model(case: tuple[str, Shape]) -> None:
    name, shape = case
    model = made(name, shape).eval()
    given = hops(shape, 7)
    before, state = torch.get_rng_state(), {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        assert torch.equal(model(*given), model(*given))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


def test_permuting_nodes_permutes_logits(case: tuple[str, Shape]) -> None:
    name, shape = case
    model = made(name, shape).double().eval()
    x, y = (values.double() for values in hops(shape, 20))
    order = torch.randperm(20)
    torch.testing.assert_close(model(x[order], y[order]), model(x, y)[order], rtol=1e-12, atol=1e-12)


def test_inputs_are_left_as_they_were(case: tuple[str, Shape]) -> None:
    name, shape = case
    x, y = hops(shape, 7)
    kept = x.clone(), y.clone()
    made(name, shape).train()(x, y)
    assert torch.equal(x, kept[0]) and torch.equal(y, kept[1])


@pytest.mark.parametrize("shape", [Shape(4, 3, 2, 2, channels=2), TYPED], ids=["operators", "types"])
def test_several_channels_are_read_or_refused_never_ignored(name: str, shape: Shape) -> None:
    try:
        model = made(name, shape).eval()
    except GamlpError as error:
        assert "channel" in str(error) and not (shape.parts and name in TYPED_NAMES)
        return
    x, y = hops(shape, 5)
    features, labels = (getattr(model, f"reads_{what}", True) for what in ("features", "labels"))
    if not features and not labels:
        return  # it says the same of all nodes
    heard = x if features else y
    before = model(x, y)
    heard[:, 1] += 1
    assert not torch.equal(before, model(x, y))


@pytest.mark.parametrize("known", list(MODELS))
def test_a_recipe_written_out_in_full_makes_the_same_model(known: str) -> None:
    shape = Shape(4, 3, 5, 5)
    own = {"options": settings_of(known, shape)} if known in (*SOLVED, "blend") else {"hidden": 8}
    recipe = Recipe.of({"model": {"name": known, **own}})
    full = Recipe.of(json.loads(json.dumps(recipe.model_dump(mode="json"))))
    assert make_model(full, shape).state_dict().keys() == make_model(recipe, shape).state_dict().keys()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"name": "sgc", "attention": "jk"}, "model 'sgc' has no setting 'model.attention'"),
        ({"name": "gamlpp"}, "did you mean 'gamlp'"),
        ({"name": "no.such.module:Thing"}, "cannot be imported"),
        ({"name": "json:NoSuchThing"}, "cannot be imported"),
        ({"name": ".relative:Thing"}, "cannot be imported"),
        ({"name": OWN, "options": {"scales": 2.0}}, "cannot be made"),
        ({"name": "collections:OrderedDict"}, "is no torch.nn.Module"),
        ({"name": "pydoc:pipepager", "options": {"cmd": "false"}}, "is no torch.nn.Module"),
        ({"name": "gamlp", "options": {"hidden": 10**9}}, "'model.hidden': input should be less"),
        ({"name": "gamlp", "options": {"width": 3}}, "has no setting 'model.width'"),
    ],
)
def test_a_model_that_cannot_be_is_told_in_a_sentence(model: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        make_model(Recipe.of({"model": model}, trust=model["name"]), Shape(4, 3, 2, 2))


def test_options_of_a_recipe_reach_a_users_own_module() -> None:
    model = make_model(Recipe.of({"model": {"name": OWN, "options": {"scale": 3.5}}}, trust=OWN), Shape(4, 3, 2, 2))
    assert model.scale == 3.5
