"""A graph that grows: what is added, the grown graph, and a folder that grows in place."""

from gamlp.graph.growth.growth import GrownGraph, joined_ids  # a graph and what is added to it
from gamlp.graph.growth.heard import Around, ViewLists, around  # what some rows hear within a number of hops
from gamlp.graph.growth.lists import GrownRelation, RowLists  # lists of neighbours, merged where they changed

__all__ = ["Around", "GrownGraph", "GrownRelation", "RowLists", "ViewLists", "around", "joined_ids"]
