"""The list of nodes: ids, degrees, answers and weights, in columns that JSON keeps small."""

from __future__ import annotations

from typing import Any

import numpy as np

from gamlp.explain import grouped_hops
from gamlp.graph.graph import Graph

Array = np.ndarray[Any, Any]
MOST_LETTERS = 80  # of an id or a class: a page is no place for a whole document
MOST_HOPS = 16  # columns of weights; far hops are added together


def clipped(text: str) -> str:
    """At most MOST_LETTERS of a text.

    >>> len(clipped("a" * 100)), clipped("short")
    (80, 'short')
    """
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def listed_nodes(
    nodes: dict[str, Array],
    graph: Graph | None,
    degrees: Array | None,
    features: Array | None = None,
    labels: Array | None = None,
    first_label_hop: int = 1,
) -> dict[str, Any] | None:
    """A tally's nodes with their names; weights are told in thousandths."""
    if not nodes:
        return None
    rows = nodes["row"]
    # Text always: JavaScript would round an integer beyond 2^53.
    ids = [str(row) for row in rows] if graph is None else [str(one) for one in graph.nodes.ids.take(rows).to_pylist()]
    found: dict[str, Any] = {"id": [clipped(one) for one in ids]}
    if degrees is not None:
        found["degree"] = degrees[rows].tolist()
    for name, values in nodes.items():
        if name in ("chance", "own"):
            found[name] = np.round(values.astype(float), 4).tolist()
        elif name in ("extra", "missed"):
            found[name] = [[one for one in row if one >= 0] for row in values.tolist()]
        elif name != "row":
            found[name] = values.tolist()
    for name, weights, first in (("features", features, 0), ("labels", labels, first_label_hop)):
        if weights is not None:
            found[name], found[f"{name}_hops"] = _grouped(weights, first)
    return found


def _grouped(weights: Array, first: int) -> tuple[list[list[int]], list[str]]:
    columns = [grouped_hops(tuple(row), first, MOST_HOPS) for row in weights.astype(float).tolist()]
    return [[round(1000 * weight) for _, weight in row] for row in columns], [name for name, _ in columns[0]]
