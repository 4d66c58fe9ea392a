"""Features that a graph lacks: made for node types that have none, and reduced where they are wide."""

from gamlp.graph.features.missing import (
    FOLDER,  # the folder of features that were made, inside a store's or a run's
    completed,  # a graph all of whose node types have features
    lacking,  # the node types without features
    made_width,  # columns of the features that are made
)

__all__ = ["FOLDER", "completed", "lacking", "made_width"]
