"""A graph with fewer edges or fewer training labels, for curves: the same for every method of a seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Block, Graph, Relation, Split

EDGES_REMOVED = "graph.edges_removed"
LABELS_PER_CLASS = "graph.labels_per_class"
_EDGES, _LABELS = 11, 12  # streams of random numbers, so that neither depends on the other


def changed_graph(graph: Graph, key: str, value: float, seed: int) -> Graph:
    """`graph.edges_removed`: without that share of edges; `graph.labels_per_class`: with as many training rows a class.

    For one seed a higher share removes what a lower one does and more, and fewer rows a class are among the many.
    """
    if key == EDGES_REMOVED:
        return _with_fewer_edges(graph, float(value), seed)
    if key == LABELS_PER_CLASS:
        return _with_fewer_labels(graph, value, seed)
    raise GamlpError(f"a graph has no '{key}' to change", hint=f"choose {EDGES_REMOVED} or {LABELS_PER_CLASS}")


def _with_fewer_edges(graph: Graph, share: float, seed: int) -> Graph:
    """Edges in an order drawn by the seed; the first round(share·m) of them go."""
    if not 0 <= share < 1:
        raise GamlpError(f"a share of {share:g} edges to remove", hint="give a share from 0 up to, not including, 1")
    relation = graph.relation
    targets, sources, weights = _edges_once(relation)
    order = np.random.default_rng([seed, _EDGES]).permutation(len(targets))
    gone = order[: round(share * len(targets))]
    if not len(gone):
        return graph
    kept = np.ones(len(targets), bool)
    kept[gone] = False
    block = Block.from_edges(
        targets[kept], sources[kept], None if weights is None else weights[kept],
        start=0, stop=relation.count, symmetric=not relation.directed,
    )  # fmt: skip
    # What the folder says of its edges is no longer true of these.
    checksums = {
        name: crc for name, crc in graph.checksums.items() if not name.startswith(f"relations/{relation.name}/")
    }
    return replace(
        graph,
        relations={relation.name: replace(relation, blocks=(block,))},
        folder=None,
        source={**graph.source, EDGES_REMOVED: share, "edges_removed_seed": seed},
        checksums=checksums,
    )


def _edges_once(relation: Relation) -> tuple[Array, Array, Array | None]:
    """(target, source, weight) of every edge; an undirected one, which is stored twice, from its lower end alone."""
    parts = list(relation.edges())
    rows = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    neighbours = np.concatenate([np.zeros(0, np.int64), *(part[1] for part in parts)])
    weights = None
    if relation.weighted:
        weights = np.concatenate([np.asarray(part[2], np.float32) for part in parts])
    if relation.directed:
        return rows, neighbours, weights
    once = rows < neighbours
    return rows[once], neighbours[once], None if weights is None else weights[once]


def _with_fewer_labels(graph: Graph, count: float, seed: int) -> Graph:
    """Labelled training rows in an order drawn by the seed; of every class the first `count` train, the others idle."""
    labels, split = graph.nodes.labels, graph.nodes.split
    if count != int(count) or count < 1:
        raise GamlpError(f"{count:g} training rows a class", hint="give a whole number of at least 1")
    if labels is None or split is None:
        raise GamlpError(f"graph '{graph.name}' has no {'labels' if labels is None else 'split'} to make sparse")
    if labels.multi_label:
        raise GamlpError("nodes with many labels have no one class to count by", hint="choose another dataset")
    train = split.train[labels.known_at(split.train)]
    drawn = np.random.default_rng([seed, _LABELS]).permutation(train)
    by_class = drawn[np.argsort(labels.values[drawn], kind="stable")]
    sizes = np.bincount(labels.values[drawn], minlength=len(labels.classes))
    place_in_class = np.arange(len(drawn)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    idle = by_class[place_in_class >= count]
    if not len(idle):
        return graph
    roles = np.array(split.roles)
    roles[idle] = 0
    changed = graph.with_targets(split=Split(roles))
    return replace(changed, source={**graph.source, LABELS_PER_CLASS: int(count), "labels_per_class_seed": seed})
