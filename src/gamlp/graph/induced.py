"""The graph that some nodes induce: these nodes, and the edges with both ends among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import fingerprint
from gamlp.graph.folder import GraphWriter, writing
from gamlp.graph.graph import Block, Graph, Nodes, Relation
from gamlp.graph.opening import open_graph
from gamlp.io import digest
from gamlp.progress import Progress, silent

_ROWS = 1 << 18  # rows of the source looked at together, and
_READ = 1 << 20  # their entries
_COPY = 8 << 20  # bytes of features or labels copied together
_MOST = 1 << 23  # entries of a block that is written; one row may have more


def induce(graph: Graph, rows: Array, folder: Path, *, progress: Progress = silent) -> Graph:
    """A[rows][:, rows] with the rows' features, labels, roles and ids, written as a graph folder.

    `rows` ascend, and row i of the result is node rows[i]. A folder that holds this graph already is opened as it is.
    Files depend on nothing outside the rows; the source's fingerprint in the manifest alone does.
    """
    rows = check_rows(graph, rows)
    source = source_of(graph, rows)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = open_graph(folder)
        if found.source != source:
            raise GamlpError(f"holds another graph ('{found.name}')", file=folder, hint="remove it or choose another")
        return found
    nodes, relation = graph.nodes, graph.relation
    with writing(folder, f"{graph.name}-induced", target=graph.target) as writer:
        writer.source = source
        writer.nodes(len(rows), nodes.name)
        _write_nodes(writer, nodes, rows, progress)
        writer.relation(
            directed=relation.directed,
            weighted=relation.weighted,
            name=relation.name,
            source=relation.source,
            target=relation.target,
        )
        gathered = _Gathered(writer, relation.name)
        places = np.full(nodes.count, -1, np.int32)
        places[rows] = np.arange(len(rows), dtype=np.int32)
        for done, degrees, neighbours, weights in inside(relation, rows, nodes.count, places.__getitem__):
            gathered.add(degrees, neighbours, weights)
            progress("edges inside", done, len(rows), "rows")
        gathered.flush()
    return open_graph(folder)


def source_of(graph: Graph, rows: Array) -> dict[str, Any]:
    """What the manifest of an induced graph says of its source."""
    return {"induced": {"from": graph.name, "nodes": len(rows), "key": _key(graph, rows)}}


def check_rows(graph: Graph, rows: Array) -> Array:
    """Row numbers that induce a graph; others are refused."""
    if len(graph.node_types) != 1 or len(graph.relations) != 1:
        raise GamlpError(
            f"graph '{graph.name}' has {len(graph.node_types)} node types and {len(graph.relations)} relations",
            hint="rows induce a graph where there is one of each",
        )
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0:
        raise GamlpError(f"rows are {rows.dtype} of shape {rows.shape}", hint="give at least one row number")
    rows = rows.astype(np.int64, copy=False)
    if rows[0] < 0 or rows[-1] >= graph.nodes.count or not (rows[1:] > rows[:-1]).all():
        raise GamlpError(f"rows do not ascend within 0 to {graph.nodes.count - 1}", hint="sort them, each once")
    return rows


def _key(graph: Graph, rows: Array) -> str:
    features = graph.nodes.features and fingerprint.features(graph)
    return digest([fingerprint.structure(graph), features, fingerprint.members(graph, rows)])


def _write_nodes(writer: GraphWriter, nodes: Nodes, rows: Array, progress: Progress) -> None:
    if nodes.ids.values is None:
        writer.ids(rows, nodes.name)  # row numbers were the ids: they stay those of the source
    elif isinstance(nodes.ids.values, np.ndarray):
        writer.ids(nodes.ids.values[rows], nodes.name)
    else:
        writer.ids(nodes.ids.take(rows), nodes.name)
    if nodes.features is not None:
        features = nodes.features
        values = writer.features(features.width, features.dtype, nodes.name, features.columns)
        for done in _copy(nodes.features.values, rows, values):
            progress("features inside", done, len(rows), "rows")
    if nodes.labels is not None:
        values = writer.reserve_labels(
            nodes.labels.multi_label, nodes.labels.classes, nodes.name, nodes.labels.class_type
        )
        for _ in _copy(nodes.labels.values, rows, values):
            pass
    if nodes.split is not None:
        writer.split(type(nodes.split)(nodes.split.roles[rows]), nodes.name)


def _copy(source: Array, rows: Array, out: Array) -> Iterator[int]:
    """out = source[rows], a few rows at a time; how many are done."""
    step = max(1, _COPY // max(1, source[:1].nbytes))
    for begin in range(0, len(rows), step):
        part = rows[begin : begin + step]
        out[begin : begin + len(part)] = source[part]
        yield begin + len(part)


def inside(
    relation: Relation, rows: Array, count: int, renumber: Callable[[Array], Array]
) -> Iterator[tuple[int, Array, Array, Array | None]]:
    """(rows done, degrees, neighbours, weights) of some rows at a time: neighbours inside alone, renumbered.

    `renumber` gives a node's number in the result, -1 for one outside; it ascends.
    """
    done = 0
    for block, some in _by_block(relation, rows):
        begins, ends = block.offsets[some - block.start], block.offsets[some - block.start + 1]
        if (begins < 0).any() or (ends < begins).any() or int(ends.max()) > len(block.neighbours):
            raise _damaged(relation, "its offsets do not ascend")
        for part in _parts(ends - begins, _READ):
            sizes = (ends - begins)[part]
            at = _positions(begins[part], sizes)
            neighbours = block.neighbours[at]
            if len(at) and int(neighbours.view(np.uint32).max()) >= count:  # a negative one is huge
                raise _damaged(relation, f"a neighbour is not one of {count:,} nodes")
            renumbered = renumber(neighbours)
            among = renumbered >= 0
            before, last = np.concatenate([[0], np.cumsum(among)]), np.cumsum(sizes)
            weights = None if block.weights is None else block.weights[at[among]]
            done += len(sizes)
            # New numbers ascend over the rows, so neighbours that ascended still do.
            yield done, before[last] - before[last - sizes], renumbered[among], weights


def _by_block(relation: Relation, rows: Array) -> Iterator[tuple[Block, Array]]:
    """The rows with the block that holds them, a few at a time."""
    for block in relation.blocks:
        first, last = (int(at) for at in np.searchsorted(rows, [block.start, block.stop]))
        for low in range(first, last, _ROWS):
            yield block, rows[low : min(last, low + _ROWS)]


def _parts(sizes: Array, most: int) -> Iterator[slice]:
    """Ranges of consecutive items of at most `most` together, or of one that is larger."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    low = 0
    while low < len(sizes):
        high = max(low + 1, int(np.searchsorted(before, before[low] + most, side="right")) - 1)
        yield slice(low, high)
        low = high


def _positions(begins: Array, sizes: Array) -> Array:
    """begins[0], begins[0] + 1, …, of every range after the other."""
    shift = begins - (np.cumsum(sizes) - sizes)
    return np.repeat(shift, sizes) + np.arange(int(sizes.sum()))


def _damaged(relation: Relation, what: str) -> GamlpError:
    hint = "verify the graph with gamlp info, and build it again"
    return GamlpError(f"relation '{relation.name}' is damaged: {what}", hint=hint)


class _Gathered:
    """Rows of the result, written in blocks whose bounds depend on the result's own entries alone."""

    def __init__(self, writer: GraphWriter, relation: str) -> None:
        self._writer = writer
        self._relation = relation
        self._start = self._entries = 0
        self._parts: list[tuple[Array, Array, Array | None]] = []

    def add(self, degrees: Array, neighbours: Array, weights: Array | None) -> None:
        """Append rows; a row that a block has no room for begins the next one."""
        ends = np.cumsum(degrees)
        low = taken = 0
        while low < len(degrees):
            high = int(np.searchsorted(ends, taken + _MOST - self._entries, side="right"))
            if high <= low and not self._parts:
                high = low + 1
            if high > low:
                upto = int(ends[high - 1])
                part = slice(taken, upto)
                self._parts.append((degrees[low:high], neighbours[part], None if weights is None else weights[part]))
                self._entries += upto - taken
                low, taken = high, upto
            if low < len(degrees):
                self.flush()

    def flush(self) -> None:
        """Write what is gathered."""
        if not self._parts:
            return
        degrees, neighbours, weights = zip(*self._parts)
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
        stop = self._start + len(offsets) - 1
        joined = None if weights[0] is None else np.concatenate(weights)
        self._writer.block(Block(self._start, stop, offsets, np.concatenate(neighbours), joined), self._relation)
        self._start, self._entries, self._parts = stop, 0, []
