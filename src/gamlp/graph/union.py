"""Relations of several types as one CSR: what a view's hops run on. Each relation is read once for all views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import writing
from gamlp.graph.graph import Block, Graph, Relation
from gamlp.graph.manifest import digest
from gamlp.graph.views import View
from gamlp.progress import Progress, silent

_ENTRY_BYTES = 64  # of one entry while a block is made: both ends, weight, and what sorting takes
_MEMORY = 1 << 30


@dataclass(frozen=True)
class Entries:
    """Rows begin..end of one relation as an edge list: (row, neighbour, weight), rows counted within the type."""

    rows: Array
    neighbours: Array
    weights: Array | None


def folder_name(view: View) -> str:
    """Of a view's graph folder: its name may be too long for one."""
    return digest(list(view.relation_pairs))


def union_graphs(
    graph: Graph, views: Sequence[View], folder: Path, memory: int | None = None, progress: Progress = silent
) -> dict[str, Graph]:
    """Graphs of one type and one relation, by the view's name, in `folder`; those that are there are opened."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [view for view in views if not (folder / folder_name(view)).exists()]
    if missing:
        with ExitStack() as stack:
            writers = {
                view.name: stack.enter_context(writing(folder / folder_name(view), view.name)) for view in missing
            }
            for view in missing:
                writers[view.name].nodes(view.count)
                writers[view.name].relation(directed=view.directed(graph), weighted=view.weighted(graph))
            # Blocks follow each other in the order of a view's rows, and types come in the same order in each.
            for node_type in (
                graph.target,
                *(node_type for node_type in graph.node_types if node_type != graph.target),
            ):
                for begin, end in row_ranges(graph, node_type, missing, memory or _MEMORY):
                    read = {
                        name: entries_of(graph, graph.relations[name], begin, end)
                        for name in dict.fromkeys(name for view in missing for name in view.relations)
                        if graph.relations[name].target == node_type
                    }
                    for view in missing:
                        if node_type in view.types:
                            writers[view.name].block(union_block(graph, view, node_type, begin, end, read))
                    progress(f"views, {node_type}", end, graph.node_types[node_type].count, "rows")
    return {view.name: Graph.open(folder / folder_name(view)) for view in views}


def union_block(graph: Graph, view: View, node_type: str, begin: int, end: int, read: dict[str, Entries]) -> Block:
    """Rows begin..end of a type in a view: duplicates of several relations become one edge, weights add up."""
    at = view.start(node_type)
    rows, neighbours, weights = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for name in view.relations:
        relation = graph.relations[name]
        if relation.target != node_type:
            continue
        found = read[name]
        rows.append(found.rows + np.int32(at))
        neighbours.append(found.neighbours + np.int32(view.start(relation.source)))
        weights.append(np.ones(len(found.rows), np.float32) if found.weights is None else found.weights)
    values = np.concatenate(weights) if view.weighted(graph) else None
    return Block.from_edges(
        np.concatenate(rows), np.concatenate(neighbours), values, start=at + begin, stop=at + end, symmetric=False
    )


def entries_of(graph: Graph, relation: Relation, begin: int, end: int) -> Entries:
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
    nodes = graph.node_types[relation.source].count
    if len(found) and (found.min() < 0 or found.max() >= nodes):
        raise GamlpError(
            f"relation '{relation.name}' names a node of {relation.source} beyond the {nodes} there are",
            file=graph.folder,
            hint="the graph is damaged: verify it with gamlp info, and build it again",
        )
    return Entries(np.concatenate(rows), found, np.concatenate(weights) if relation.weighted else None)


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


def row_ranges(graph: Graph, node_type: str, views: Sequence[View], memory: int) -> Iterator[tuple[int, int]]:
    """Rows of a type in ranges whose entries, of all relations and once more of a view, fit the memory."""
    names = {name for view in views for name in view.relations if graph.relations[name].target == node_type}
    count = graph.node_types[node_type].count
    upto = np.zeros(count + 1, np.int64)
    for name in names:
        if graph.relations[name].blocks:
            upto[1:] += graph.relations[name].degrees()
    np.cumsum(upto, out=upto)
    most = max(1, memory // (2 * _ENTRY_BYTES))
    begin = 0
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(upto, upto[begin] + most, side="right")) - 1)
        yield begin, min(end, count)
        begin = end
