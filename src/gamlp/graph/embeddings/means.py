"""Means of neighbours' features: m_v = Σ w_uv x_u / Σ w_uv over all links of v to nodes that have features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from gamlp.graph.graph import Array, Block, Graph, Relation
from gamlp.progress import Progress

_PIECE = 1 << 30  # bytes of neighbours' columns in memory at a time


def sources_of(graph: Graph, kind: str) -> list[str]:
    """Types beside `kind` whose features it takes: those of one width, the target's where it is beside.

    Otherwise the width is that of the first type beside it.
    """
    beside = {end for relation in graph.relations.values() for end in _other_ends(relation, kind)}
    widths = {
        source: nodes.features.width
        for source, nodes in graph.node_types.items()
        if source in beside and nodes.features is not None and nodes.features.width
    }
    if not widths:
        return []
    width = widths.get(graph.target, next(iter(widths.values())))
    return [source for source, wide in widths.items() if wide == width]


def mean_of_neighbours(graph: Graph, kind: str, sources: list[str], progress: Progress) -> Array:
    """`[count, width]` float32; a zero row for a node without such neighbours.

    Sums are float64, a block of columns at a time: memory is that of the result, of _PIECE and of a block of edges.
    """
    width = getattr(graph.node_types[sources[0]].features, "width", 0)
    count = graph.node_types[kind].count
    most = max([count, *(graph.node_types[source].count for source in sources)])
    step = max(1, _PIECE // (8 * max(1, most)))
    links = [found for names in graph.links.values() if (found := _towards(graph, names, kind, sources)) is not None]
    out = np.zeros((count, width), np.float32)
    told = f"means of {', '.join(sources)}, width {width}"
    for begin in range(0, width, step):
        columns = slice(begin, min(width, begin + step))
        total, weight = np.zeros((count, columns.stop - begin)), np.zeros(count)
        for relation, source in links:
            features = graph.node_types[source].features
            assert features is not None
            _add(relation, relation.target != kind, features.read(slice(None), columns), total, weight)
        np.divide(total, weight[:, None], out=total, where=weight[:, None] > 0)
        out[:, columns] = total
        progress(f"features of '{kind}'", columns.stop, width, "columns", told)
    return out


def _other_ends(relation: Relation, kind: str) -> Iterator[str]:
    if relation.target == kind != relation.source:
        yield relation.source
    elif relation.source == kind != relation.target:
        yield relation.target


def _towards(graph: Graph, names: tuple[str, ...], kind: str, sources: list[str]) -> tuple[Relation, str] | None:
    """The relation of a link whose rows are of this type, or the other way where that alone is stored."""
    relations = sorted((graph.relations[name] for name in names), key=lambda each: each.target != kind)
    source = next(_other_ends(relations[0], kind), None)
    return (relations[0], source) if source in sources and source is not None else None


def _add(relation: Relation, turned: bool, values: Array, total: Array, weight: Array) -> None:
    """Adds Σ w x to total and Σ w to weight, block by block."""
    for block in relation.blocks:
        matrix = _matrix(block, len(total) if turned else len(values))
        if turned:
            total += matrix.T @ values[block.start : block.stop]
            weight += matrix.sum(axis=0)
        else:
            total[block.start : block.stop] += matrix @ values
            weight[block.start : block.stop] += matrix.sum(axis=1)


def _matrix(block: Block, columns: int) -> Any:
    neighbours = np.asarray(block.neighbours)
    weights = np.ones(len(neighbours)) if block.weights is None else np.asarray(block.weights, np.float64)
    return sparse.csr_array((weights, neighbours, np.asarray(block.offsets)), (block.stop - block.start, columns))
