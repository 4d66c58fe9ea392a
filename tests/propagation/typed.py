"""A graph of four types: several blocks a relation, duplicates between relations, weights, an empty one."""

from __future__ import annotations

import itertools

import numpy as np

from gamlp.graph import Block, Features, Graph, Ids, Labels, Nodes, Relation, Split

COUNTS = {"author": 41, "paper": 53, "venue": 3, "field": 9}
RELATIONS = {  # name: source, target, edges, whether it has weights
    "cites": ("paper", "paper", 120, False),
    "writes": ("author", "paper", 150, False),
    "reviews": ("author", "paper", 140, True),
    "appears-in": ("paper", "venue", 53, False),
    "works-on": ("author", "field", 60, False),
    "edits": ("author", "venue", 0, False),
}
SUBSETS = (
    ("cites",),
    ("writes", "reviews"),
    ("appears-in", "works-on", "writes"),
    ("writes", "edits"),
    tuple(RELATIONS),
)


def typed_graph(*, one_way: bool = False, width: int | None = None) -> Graph:
    """Features of `width` columns, or of another width for each type; venues have none. `one_way`: without reverses."""
    rng = np.random.default_rng(4)
    split = Split.of(53, train=np.arange(0, 20), valid=np.arange(20, 30), test=np.arange(30, 45))
    labelled = {"paper": (Labels(rng.integers(0, 4, 53).astype(np.int32), ("a", "b", "c", "d")), split)}
    widths = {"author": width or 7, "paper": width or 11, "field": width or 3}
    types = {
        node_type: Nodes(
            node_type,
            count,
            Ids(count),
            Features(rng.normal(size=(count, widths[node_type])).astype(np.float32)) if node_type in widths else None,
            *labelled.get(node_type, (None, None)),
        )
        for node_type, count in COUNTS.items()
    }
    relations = {}
    for name, (source, target, size, heavy) in RELATIONS.items():
        ends = rng.integers(0, COUNTS[source], size), rng.integers(0, COUNTS[target], size)
        weights = rng.uniform(0.5, 2.0, size).astype(np.float32) if heavy else None
        ways = [(name, f"rev-{name}", source, target, ends), (f"rev-{name}", name, target, source, ends[::-1])]
        for own, reverse, begin, end, (sources, targets) in ways[:1] if one_way else ways:
            relations[own] = Relation(
                own, begin, end, True, _blocks(targets, sources, weights, COUNTS[end], begin == end),
                None if one_way else reverse,
            )  # fmt: skip
    return Graph("typed", types, relations, "paper")


def _blocks(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray | None, count: int, loops: bool) -> tuple:
    """In two blocks where there are rows enough."""
    cuts = [0, count // 3, count] if count > 10 else [0, count]
    found = []
    for start, stop in itertools.pairwise(cuts):
        inside = (rows >= start) & (rows < stop)
        own = None if weights is None else weights[inside]
        options = {"start": start, "stop": stop, "symmetric": False, "drop_loops": loops}
        found.append(Block.from_edges(rows[inside], columns[inside], own, **options))
    return tuple(found)
