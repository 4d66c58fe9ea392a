"""What a trained model listens to: hops, relations and labels; of groups of nodes and of single ones."""

# All of it at once, as JSON, CSV or a picture
from gamlp.explanation.explanation import Explanation, check_file, explain_model

# Why a node got its label, and whether known labels around nodes have any say
from gamlp.explanation.nodes import (
    LabelBranch,
    NodeExplanation,
    NodeFacts,
    explain_hops,
    label_branch,
    true_classes,
)

# Which subsets of relations bring what
from gamlp.explanation.subsets import SubsetShares, shares_by_subset

# Weights over hops: by degree, by class, of every row; and as columns that fit a page
from gamlp.explanation.weights import (
    MOST_ROWS,
    SIGNALS,
    DegreeWeights,
    WeightsByClass,
    WeightsByDegree,
    bounds_of_counts,
    degree_bounds,
    degree_weights,
    drawn,
    flat_weights,
    grouped_hops,
    weights_by_class,
    weights_by_degree,
    weights_of_rows,
)

__all__ = [
    "MOST_ROWS",
    "SIGNALS",
    "DegreeWeights",
    "Explanation",
    "LabelBranch",
    "NodeExplanation",
    "NodeFacts",
    "SubsetShares",
    "WeightsByClass",
    "WeightsByDegree",
    "bounds_of_counts",
    "check_file",
    "degree_bounds",
    "degree_weights",
    "drawn",
    "explain_hops",
    "explain_model",
    "flat_weights",
    "grouped_hops",
    "label_branch",
    "shares_by_subset",
    "true_classes",
    "weights_by_class",
    "weights_by_degree",
    "weights_of_rows",
]
