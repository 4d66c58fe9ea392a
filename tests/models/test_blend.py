"""A blend against its formula: members read prefixes of the hops; what cannot be blended is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gamlp.errors import GamlpError
from gamlp.models import Blend, Shape, blend_recipe, build, labels_used, model_of
from gamlp.recipe import Recipe
from tests.conformance.models import hops

SHAPE = Shape(features=4, classes=3, hops=4, label_hops=3)
DEEP = Recipe.of({"model": {"name": "gamlp", "hidden": 8}, "propagation": {"hops": 4, "label_hops": 3, "folds": 5}})
FLAT = Recipe.of({"model": {"name": "sgc", "hidden": 8}, "propagation": {"hops": 1, "label_hops": 9}})


def blended(**more: Any) -> Blend:
    torch.manual_seed(0)
    recipe = blend_recipe([DEEP, FLAT], [1, 3], **more)
    model = model_of(recipe, SHAPE)
    assert isinstance(model, Blend)
    return model.eval()


@pytest.mark.parametrize("temperatures", [[], [2.0, 0.5]])
def test_probabilities_are_the_weighted_mean_of_the_members(temperatures: list[float]) -> None:
    model = blended(temperatures=temperatures)
    x, y = hops(SHAPE, 20)
    heat = temperatures or [1.0, 1.0]
    deep = torch.softmax(model.members[0](x, y) / heat[0], 1)
    flat = torch.softmax(model.members[1](x[:, :, :2]) / heat[1], 1)
    torch.testing.assert_close(torch.softmax(model(x, y), 1), 0.25 * deep + 0.75 * flat)


def test_of_many_labels_every_chance_is_the_mean() -> None:
    model = blended(multi_label=True)
    x, y = hops(SHAPE, 20)
    wanted = 0.25 * torch.sigmoid(model.members[0](x, y)) + 0.75 * torch.sigmoid(model.members[1](x[:, :, :2]))
    torch.testing.assert_close(torch.sigmoid(model(x, y)), wanted)


def test_members_are_parts_of_one_state() -> None:
    model, x_y = blended(), hops(SHAPE, 5)
    torch.manual_seed(9)
    other = model_of(blend_recipe([DEEP, FLAT], [1, 3]), SHAPE).eval()
    assert not torch.equal(model(*x_y), other(*x_y))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(*x_y), other(*x_y))
    assert {name.split(".")[1] for name in model.state_dict()} == {"0", "1"}


def test_its_recipe_is_as_deep_as_the_deepest_and_reads_back() -> None:
    recipe = blend_recipe([FLAT, DEEP], [0.5, 0.5])
    assert (recipe.propagation.hops, recipe.propagation.label_hops, recipe.propagation.folds) == (4, 3, 0)
    assert labels_used(recipe) and not labels_used(blend_recipe([FLAT], [1.0]))
    assert Recipe.of(recipe.explicit()) == recipe


def test_hop_weights_are_the_mean_of_those_who_have_them() -> None:
    model = blended()
    x, y = hops(SHAPE, 6)
    told = model.hop_weights(x, y)
    own = model.members[0].hop_weights(x, y)
    assert told.features is not None and told.labels is not None and told.first_label_hop == 0
    wanted = 0.25 * own.features
    wanted[:, 1] += 0.75
    torch.testing.assert_close(told.features, wanted)
    torch.testing.assert_close(told.labels[:, 1:], own.labels)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "1 to 64 members"),
        ({"members": [{}], "weights": []}, "a weight for each"),
        ({"members": [{}], "weights": [0.0]}, "not all of them 0"),
        ({"members": [{}], "weights": [-1.0]}, "numbers from 0"),
        ({"members": [{}], "weights": [1.0], "temperatures": [0.0]}, "temperatures are numbers above 0"),
        ({"members": [{"model": {"name": "blend"}}], "weights": [1.0]}, "no member is a blend itself"),
        ({"members": [{"model": {"name": "os:system"}}], "weights": [1.0]}, "is code, 'os:system'"),
        ({"members": [{"propagation": {"hops": 9}}], "weights": [1.0]}, "reads more hops than there are"),
    ],
)
def test_what_cannot_be_blended_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(GamlpError, match=told):
        build("blend", SHAPE, options)


def test_members_of_other_hops_are_refused() -> None:
    with pytest.raises(GamlpError, match=r"differ in propagation\.r"):
        blend_recipe([DEEP, FLAT.changed({"propagation.r": 0.0})], [1, 1])
