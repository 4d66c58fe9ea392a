"""The next recipe of a search: by chance at first, then by what the recipes before it scored (TPE)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gamlp.recipe import Choice, Recipe, Space, starting_point, suggest
from gamlp.tune.study import load_optuna

BY_CHANCE = 8  # trials before their scores are listened to
_TRIES = 20


def draw(space: Space, base: Recipe, told: Sequence[tuple[Recipe, float]], seed: tuple[int, ...]) -> Recipe | None:
    """The base recipe with other values of the space's keys; None where all that come were tried before.

    `told` are recipes with their scores, higher is better. The same arguments give the same recipe.
    """
    optuna = load_optuna()
    known = [recipe for recipe, _ in told]
    for attempt in range(_TRIES):
        drawn = int(np.random.SeedSequence((*seed, attempt)).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `group` is experimental; without it, keys left out are not learned
            sampler = optuna.samplers.TPESampler(multivariate=True, group=True, n_startup_trials=BY_CHANCE, seed=drawn)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for other, score in told:
            study.add_trial(_past(optuna, space, other, score))
        recipe = suggest(study.ask(), space, base)
        if recipe not in known:
            return recipe
    return None


def _past(optuna: Any, space: Space, recipe: Recipe, score: float) -> Any:
    point = starting_point(space, recipe)
    distributions = {key: _distribution(optuna, space[key]) for key in point}
    return optuna.trial.create_trial(params=point, distributions=distributions, value=score)


def _distribution(optuna: Any, choice: Choice) -> Any:
    if choice.choices is not None:
        return optuna.distributions.CategoricalDistribution(choice.choices)
    return optuna.distributions.FloatDistribution(choice.low, choice.high, step=choice.step, log=choice.log)
