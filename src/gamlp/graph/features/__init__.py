"""Features that a graph lacks: made for node types that have none, reduced where they are wide; or made again."""

from gamlp.graph.features.again import (
    encoded_again,  # features of raw columns by the states of another graph's
    fitted_on,  # columns that are fitted anew on some rows
    written,  # features that are made as they are read, in files instead
)
from gamlp.graph.features.missing import (
    FOLDER,  # the folder of features that were made, inside a store's or a run's
    Cache,  # such a folder: what is in it is found by a key of all that it depends on
    completed,  # a graph all of whose node types have features
    is_complete,  # whether all have
    lacking,  # the node types without features
    made_width,  # columns of the features that are made
)
from gamlp.graph.features.signs import DrawnSigns  # random signs by the hash of original ids

__all__ = [
    "FOLDER",
    "Cache",
    "DrawnSigns",
    "completed",
    "encoded_again",
    "fitted_on",
    "is_complete",
    "lacking",
    "made_width",
    "written",
]
