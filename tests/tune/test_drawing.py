"""Recipes that are drawn: not tried before, the same for the same question, and drawn to what scored well."""

from __future__ import annotations

import math

import pytest

from gamlp.recipe import Choice, Recipe
from gamlp.tune.drawing import draw

pytest.importorskip("optuna")
SPACE = {
    "training.learning_rate": Choice(low=1e-4, high=1.0, log=True),
    "model.beta": Choice(choices=[0, 1]),
    "propagation.label_hops": Choice(choices=[2, 4], when="model.beta"),
}


def test_the_same_question_gives_the_same_recipe() -> None:
    assert draw(SPACE, Recipe(), [], (0, 1)) == draw(SPACE, Recipe(), [], (0, 1))
    assert draw(SPACE, Recipe(), [], (0, 1)) != draw(SPACE, Recipe(), [], (0, 2))


def test_what_was_tried_is_not_drawn_again() -> None:
    space = {"model.layers": Choice(choices=[1, 2, 3])}
    told = [(Recipe().changed({"model.layers": layers}), 0.5) for layers in (1, 3)]
    left = Recipe().changed({"model.layers": 2})
    assert all(draw(space, Recipe(), told, (0, seed)) == left for seed in range(5))
    assert draw(space, Recipe(), [*told, (left, 0.5)], (0,)) is None


def test_draws_go_to_where_scores_are_high() -> None:
    told: list[tuple[Recipe, float]] = []
    for number in range(30):
        recipe = draw(SPACE, Recipe(), told, (number,))
        assert recipe is not None
        told.append((recipe, -abs(math.log10(recipe.training.learning_rate) + 2) - recipe.model.beta))
    later = [abs(math.log10(recipe.training.learning_rate) + 2) for recipe, _ in told[15:]]
    assert sorted(later)[len(later) // 2] < 0.75, "by chance alone half of them are within a factor of ten of the best"
    assert sum(recipe.model.beta == 0 for recipe, _ in told[15:]) > 10


def test_recipes_from_outside_the_space_are_listened_to_as_far_as_they_lie_in_it() -> None:
    outside = Recipe().changed({"training.learning_rate": 5.0, "model.beta": 0.3})
    drawn = draw(SPACE, Recipe(), [(outside, 0.9)] * 10, (0,))
    assert drawn is not None and drawn.training.learning_rate <= 1.0
