"""Graphs: the format, ways in (tables, arrays, datasets, generators)."""

from gamlp.graph.graph import Features, Graph, Ids, Labels, Nodes, Relation, Split

__all__ = ["Features", "Graph", "Ids", "Labels", "Nodes", "Relation", "Split"]
