"""Models over hops: GAMLP and its peers, found by name; torch alone."""

# The paper's model
from gamlp.models.gamlp import GAMLP

# Models by name or import path: made, whether a name is one, and what the model of a recipe reads
from gamlp.models.registry import MODELS, build, check_operators, is_model, labels_used

# What a model is built for (one `Part` a channel), what it is, and what it tells of itself
from gamlp.models.shape import Branches, HopWeights, Model, Part, Shape

__all__ = [
    "GAMLP",
    "MODELS",
    "Branches",
    "HopWeights",
    "Model",
    "Part",
    "Shape",
    "build",
    "check_operators",
    "is_model",
    "labels_used",
]
