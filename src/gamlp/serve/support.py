"""Known labels nearest to a node: the training nodes that its answer can lean on, and how far away they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import ROLES, Graph
from gamlp.serve.edges import NodeEdges
from gamlp.serve.ids import IdBook

_MOST_ENTRIES = 200_000  # that are looked at: a hub's neighbours have many
_SHOWN = 10
_TRAIN = ROLES.index("train")

Rows = dict[str, Array]  # by type


@dataclass(frozen=True)
class Support:
    """Training rows that are `distance` hops away, the nearest that there are; none: distance is None.

    whole: all nodes up to that distance were looked at.
    """

    rows: Array
    distance: int | None
    whole: bool

    def content(self, ids: IdBook, graph: Graph) -> dict[str, Any]:
        """For JSON: some of them, and how many of each class."""
        labels = graph.nodes.labels
        if labels is None or self.distance is None:
            return {"support": [], "support_by_class": {}, "support_is_whole": self.whole}
        some = self.rows[:_SHOWN]
        names = ids.names(graph.target, some)
        hot = labels.hot(self.rows)
        counts = Counter({labels.classes[place]: int(count) for place, count in enumerate(hot.sum(0)) if count})
        return {
            "support": [
                {
                    "id": name,
                    "label": " | ".join(labels.classes[number] for number in np.flatnonzero(hot[place])),
                    "distance": self.distance,
                }
                for place, name in enumerate(names)
            ],
            "support_by_class": dict(counts.most_common()),
            "support_is_whole": self.whole,
        }


def nearest_support(
    graph: Graph, row: int, edges: NodeEdges | None, newcomers: Mapping[str, Sequence[NodeEdges]], hops: int
) -> Support:
    """Of a target row, or of a newcomer with these edges; at most so many hops away.

    newcomers: edges of those that were kept, by type, whose rows follow the graph's.
    """
    seen: dict[str, set[int]] = {node_type: set() for node_type in graph.node_types}
    if row >= 0:
        seen[graph.target].add(row)
    last: Rows = _of(graph, edges) if edges is not None else _heard(graph, {graph.target: np.asarray([row])}, newcomers)
    looked = 0
    for distance in range(1, hops + 1):
        fresh: Rows = {}
        for node_type, rows in last.items():
            new = np.asarray([one for one in np.unique(rows).tolist() if one not in seen[node_type]], np.int64)
            seen[node_type].update(new.tolist())
            fresh[node_type] = new
            looked += len(rows)
        found = _labelled(graph, fresh.get(graph.target, np.zeros(0, np.int64)))
        if len(found):
            return Support(found, distance, True)
        if looked > _MOST_ENTRIES:
            return Support(found, None, False)
        if distance < hops:
            last = _heard(graph, fresh, newcomers)
    return Support(np.zeros(0, np.int64), None, True)


def _labelled(graph: Graph, rows: Array) -> Array:
    """Training rows with a label among rows."""
    labels, split = graph.nodes.labels, graph.nodes.split
    rows = rows[rows < graph.nodes.count]
    if labels is None or split is None or not len(rows):
        return np.zeros(0, np.int64)
    values = np.asarray(labels.values[rows])
    known = (values[:, 0] if labels.multi_label else values) >= 0
    return np.asarray(rows[known & (np.asarray(split.roles[rows]) == _TRAIN)])


def _of(graph: Graph, edges: NodeEdges) -> Rows:
    found: dict[str, list[Array]] = {}
    for name, entries in edges.hears.items():
        found.setdefault(graph.relations[name].source, []).append(entries.rows)
    return {node_type: np.concatenate(parts) for node_type, parts in found.items()}


def _heard(graph: Graph, rows: Rows, newcomers: Mapping[str, Sequence[NodeEdges]]) -> Rows:
    """All that some rows hear, by type; of more than can be looked at, those of the first rows."""
    found: dict[str, list[Array]] = {}
    left = _MOST_ENTRIES
    for relation in graph.relations.values():
        for row in rows.get(relation.target, np.zeros(0, np.int64)).tolist():
            if left <= 0:
                break
            part = _neighbours(relation.blocks, row, left)
            left -= len(part)
            found.setdefault(relation.source, []).append(part)
    for node_type, some in rows.items():
        before = graph.node_types[node_type].count
        for row in some[some >= before].tolist():
            for heard, part in _of(graph, newcomers[node_type][row - before]).items():
                found.setdefault(heard, []).append(part)
    return {node_type: np.concatenate(parts) for node_type, parts in found.items() if parts}


def _neighbours(blocks: Sequence[Any], row: int, most: int) -> Array:
    for block in blocks:
        if block.start <= row < block.stop:
            begin, end = (int(at) for at in block.offsets[row - block.start : row - block.start + 2])
            return np.asarray(block.neighbours[begin : min(end, begin + most)], np.int64)
    return np.zeros(0, np.int64)
