"""Bundles of every model, small and as it was drawn or solved; what is asked of their files."""

from __future__ import annotations

from typing import Any

from gamlp.models import Shape
from gamlp.recipe import Recipe
from gamlp.training import Bundle, make_model, weights_of
from tests.conformance.models import HIGH_PASS, OWN, SOLVED, TYPED, TYPED_NAMES, made, settings_of

ONE = Shape(features=5, classes=3, hops=2, label_hops=2)
# Every attention and reference of GAMLP, and what else changes its operations.
VARIANTS: dict[str, dict[str, Any]] = {
    "recursive": {"attention": "recursive"},
    "recursive, sigmoid, uniform": {"activation": "sigmoid", "attention_start": "uniform"},
    "jk": {"attention": "jk", "batch_norm": True, "hop_mlp": True, "residual": True},
    "origin": {"attention": "jk", "reference": "origin", "activation": "relu"},
    "noise": {"attention": "jk", "reference": "noise"},
    "own label": {"label_zero": True, "label_scale": "hop", "last_residual": "uniform"},
    "high-pass": {"high_pass": True, "input_norm": True, "initial_residual": 0.2},
    "no labels": {"beta": 0.0},
}


def bundle_of(recipe: Recipe, shape: Shape, **given: Any) -> Bundle:
    """With first weights, unless others are given."""
    weights = given.pop("weights", None) or weights_of(make_model(recipe, shape))
    given = {"classes": tuple(f"class {number}" for number in range(shape.classes)), "multi_label": False} | given
    return Bundle(recipe, shape, weights=weights, **{"temperature": 1.7} | given)


def gamlp_of(variant: str, shape: Shape = ONE, **given: Any) -> Bundle:
    depth = {"hops": shape.hops, "label_hops": shape.label_hops}
    return bundle_of(Recipe.of({"propagation": depth, "model": {"hidden": 8} | VARIANTS[variant]}), shape, **given)


def model_bundle(name: str, shape: Shape, **given: Any) -> Bundle:
    """Of a model by the name that the conformance suite has for it."""
    settings = settings_of(name, shape)
    fields = set(type(Recipe().model).model_fields)
    model: dict[str, Any] = {key: value for key, value in settings.items() if key in fields}
    model["name"] = "gamlp" if name == HIGH_PASS else name
    model["options"] = {key: value for key, value in settings.items() if key not in fields}
    folds = 5 if name in ("lightgbm", "logistic-labels") else 0
    depth = {"hops": shape.hops, "label_hops": shape.label_hops, "folds": folds}
    recipe = Recipe.of({"propagation": depth, "model": model}, trust=OWN)
    # Those that are solved, and high-pass, whose differences weigh nothing at first, as the suite makes them.
    weights = weights_of(made(name, shape)) if name in (*SOLVED, HIGH_PASS) else None
    return bundle_of(recipe, shape, weights=weights, **given)


def typed_bundle(name: str) -> Bundle:
    return model_bundle(name, TYPED)


__all__ = [
    "HIGH_PASS",
    "ONE",
    "OWN",
    "TYPED_NAMES",
    "VARIANTS",
    "bundle_of",
    "gamlp_of",
    "model_bundle",
    "typed_bundle",
]
