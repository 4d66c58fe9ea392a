"""A graph that grows: what is added, the grown graph, a folder that grows in place or beside the one before."""

from gamlp.graph.growth.beside import grow_beside  # a grown graph in a folder of its own
from gamlp.graph.growth.growth import GrownGraph, joined_ids  # a graph and what is added to it

# What some rows hear within a number of hops, and who hears them
from gamlp.graph.growth.heard import Around, TooFar, ViewLists, around, memory_of, who_hears
from gamlp.graph.growth.lists import GrownRelation, RowLists  # lists of neighbours, merged where they changed

__all__ = [
    "Around",
    "GrownGraph",
    "GrownRelation",
    "RowLists",
    "TooFar",
    "ViewLists",
    "around",
    "grow_beside",
    "joined_ids",
    "memory_of",
    "who_hears",
]
