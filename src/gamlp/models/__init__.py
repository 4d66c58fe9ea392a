"""Models over hops: GAMLP and its peers, found by name; torch alone."""

# Trained models as one: the recipe of a blend, and the class
from gamlp.models.blend import Blend, blend_recipe

# Boosted trees, whose weights are a text
from gamlp.models.boosting import LightGBM

# The paper's model
from gamlp.models.gamlp import GAMLP

# Models by name or import path: made, whether a name is one, and what the model of a recipe reads
from gamlp.models.registry import (
    MODELS,
    build,
    check_labels,
    check_operators,
    is_model,
    is_solved,
    labels_used,
    model_of,
)

# What a model is built for (one `Part` a channel), what it is, and what it tells of itself
from gamlp.models.shape import Branches, HopWeights, Model, Part, Shape

# Models that are solved: what they are given and asked
from gamlp.models.solving import KnownRows, Rank, Solvable, ToSolve, class_weights

__all__ = [
    "GAMLP",
    "MODELS",
    "Blend",
    "Branches",
    "HopWeights",
    "KnownRows",
    "LightGBM",
    "Model",
    "Part",
    "Rank",
    "Shape",
    "Solvable",
    "ToSolve",
    "blend_recipe",
    "build",
    "check_labels",
    "check_operators",
    "class_weights",
    "is_model",
    "is_solved",
    "labels_used",
    "model_of",
]
