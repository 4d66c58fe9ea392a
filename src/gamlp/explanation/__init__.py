"""What a trained model listens to: hops, relations and labels; of groups of nodes and of single ones."""

# All of it at once, as JSON, CSV or a picture
from gamlp.explanation.explanation import Explanation, check_file, explain_model

# Why a node got its label
from gamlp.explanation.nodes import NodeExplanation

# Which subsets of relations bring what
from gamlp.explanation.subsets import SubsetShares, shares_by_subset

# Weights over hops: by degree, by class, of every row; and as columns that fit a page
from gamlp.explanation.weights import (
    WeightsByClass,
    WeightsByDegree,
    degree_bounds,
    grouped_hops,
    weights_by_class,
    weights_by_degree,
    weights_of_rows,
)

__all__ = [
    "Explanation",
    "NodeExplanation",
    "SubsetShares",
    "WeightsByClass",
    "WeightsByDegree",
    "check_file",
    "degree_bounds",
    "explain_model",
    "grouped_hops",
    "shares_by_subset",
    "weights_by_class",
    "weights_by_degree",
    "weights_of_rows",
]
