"""Rows that are scored, and means of scores."""

from __future__ import annotations

import statistics

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph


def labelled(graph: Graph, *parts: str) -> Array:
    """Labelled rows of the split's parts, or of the whole graph."""
    labels, split = graph.nodes.labels, graph.nodes.split
    if labels is None or (parts and split is None):
        raise GamlpError(f"graph '{graph.name}' has no labels or no split", hint="a method needs both")
    known = labels.known()
    if not parts:
        return np.flatnonzero(known)
    assert split is not None
    rows = split.rows(*parts)
    return rows[known[rows]]


def mean_of(reports: list[dict[str, float]]) -> dict[str, float]:
    """Of every metric that all reports have."""
    names = [name for name in reports[0] if all(name in report for report in reports)]
    return {name: statistics.fmean(report[name] for report in reports) for name in names}
