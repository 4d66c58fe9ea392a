"""Entries of a relation by ranges of rows: as its edges lead, or turned, which is the transpose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Block, Graph, Relation

CHUNK = 1 << 22  # entries that are looked at at a time


@dataclass(frozen=True)
class RelationEntries:
    """Rows begin..end of one relation as an edge list: (row, neighbour, weight), rows counted within the type."""

    rows: Array
    neighbours: Array
    weights: Array | None


def ends_of(relation: Relation, turned: bool) -> tuple[str, str]:
    """(source, target) of edges as they lead, or turned."""
    return (relation.target, relation.source) if turned else (relation.source, relation.target)


def entries_of(graph: Graph, relation: Relation, begin: int, end: int) -> RelationEntries:
    """Rows begin..end of a relation, over its blocks."""
    rows, neighbours, weights = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for block in relation.blocks:
        first, last = max(begin, block.start), min(end, block.stop)
        if first >= last:
            continue
        offsets = np.asarray(block.offsets[first - block.start : last - block.start + 1])
        rows.append(np.repeat(np.arange(first, last, dtype=np.int32), np.diff(offsets)))
        neighbours.append(np.asarray(block.neighbours[int(offsets[0]) : int(offsets[-1])]))
        if block.weights is not None:
            weights.append(np.asarray(block.weights[int(offsets[0]) : int(offsets[-1])]))
    found = np.concatenate(neighbours)
    refuse_strays(graph, relation, found)
    return RelationEntries(np.concatenate(rows), found, np.concatenate(weights) if relation.weighted else None)


def turned_entries_of(graph: Graph, relation: Relation, begin: int, end: int) -> RelationEntries:
    """Rows begin..end of the transpose: all edges are looked at, those that come from these nodes are kept."""
    rows, neighbours, weights = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for block in relation.blocks:
        for at in range(0, block.entries, CHUNK):
            sources = np.asarray(block.neighbours[at : at + CHUNK])
            refuse_strays(graph, relation, sources)
            inside = np.flatnonzero((sources >= begin) & (sources < end))
            rows.append(sources[inside].astype(np.int32, copy=False))
            targets = np.searchsorted(block.offsets, inside + at, side="right") - 1 + block.start
            neighbours.append(targets.astype(np.int32))
            if block.weights is not None:
                weights.append(np.asarray(block.weights[at : at + CHUNK])[inside])
    joined = np.concatenate(weights) if relation.weighted else None
    return RelationEntries(np.concatenate(rows), np.concatenate(neighbours), joined)


def turned_sizes(graph: Graph, relation: Relation) -> Relation:
    """How many edges come from every node, as offsets of one block: all that ranges are cut by."""
    count = graph.node_types[relation.source].count
    sizes = np.zeros(count, np.int64)
    for block in relation.blocks:
        for at in range(0, block.entries, CHUNK):
            sources = np.asarray(block.neighbours[at : at + CHUNK])
            refuse_strays(graph, relation, sources)
            sizes += np.bincount(sources, minlength=count)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.broadcast_to(np.int32(0), (relation.entries,))  # only their number is asked for
    return replace(relation, blocks=(Block(0, count, offsets, entries),) if count else ())


def contained(graph: Graph, small: Relation, large: Relation) -> bool:
    """Whether every edge of one relation is one of another between the same types, too; weights are not looked at."""
    if small.entries > large.entries or (small.source, small.target) != (large.source, large.target):
        return False
    if small.entries and (small.degrees() > large.degrees()).any():
        return False
    step = 1 << 16  # rows: most pairs that are no such thing differ in the first
    width = graph.node_types[small.source].count
    for begin in range(0, graph.node_types[small.target].count, step):
        found = [entries_of(graph, relation, begin, begin + step) for relation in (small, large)]
        mine, others = (entries.rows.astype(np.int64) * width + entries.neighbours for entries in found)
        if not np.isin(mine, others, assume_unique=True).all():
            return False
    return True


def refuse_strays(graph: Graph, relation: Relation, neighbours: Array) -> None:
    """Neighbours that are no nodes of the source's type."""
    nodes = graph.node_types[relation.source].count
    if len(neighbours) and (neighbours.min() < 0 or neighbours.max() >= nodes):
        raise GamlpError(
            f"relation '{relation.name}' names a node of {relation.source} beyond the {nodes} there are",
            file=graph.folder,
            hint="the graph is damaged: verify it with gamlp info, and build it again",
        )
