"""Features that a graph lacks: made for node types that have none, and reduced where they are wide."""

from gamlp.graph.features.missing import (
    FOLDER,  # the folder of features that were made, inside a store's or a run's
    Cache,  # such a folder: what is in it is found by a key of all that it depends on
    completed,  # a graph all of whose node types have features
    lacking,  # the node types without features
    made_width,  # columns of the features that are made
)
from gamlp.graph.features.signs import DrawnSigns  # random signs by the hash of original ids

__all__ = ["FOLDER", "Cache", "DrawnSigns", "completed", "lacking", "made_width"]
