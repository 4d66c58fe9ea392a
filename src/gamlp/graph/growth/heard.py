"""What some rows hear within a number of hops: the nodes around them, and the edges on the way, as a small graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.graph import Block, Graph
from gamlp.graph.growth.growth import GrownGraph
from gamlp.graph.growth.lists import RowLists
from gamlp.graph.views import View
from gamlp.io import format_size
from gamlp.kernel import add_up

_ROWS = 1 << 16  # looked at together where all of a graph is
_ENTRY = 24  # bytes of an entry while lists are put in order
_LOOKED_AT = 1 << 22  # entries


class TooFar(GamlpError):
    """Rows hear more than the memory holds."""


@dataclass(frozen=True)
class ViewLists:
    """Lists of neighbours of a grown graph in the numbers of a view; duplicates of several relations are one entry."""

    growth: GrownGraph
    graph: Graph  # the grown one
    view: View

    @property
    def weighted(self) -> bool:
        return self.view.weighted(self.graph)

    @property
    def directed(self) -> bool:
        return self.view.directed(self.graph)

    def lists(self, rows: Array) -> Iterator[RowLists]:
        """Of rows that ascend; in parts, whose rows come in any order."""
        if not self.view.name:
            yield from self.growth.relations[self.view.relations[0]].lists(rows)
            return
        for node_type, start, stop in zip(self.view.types, self.view.starts, self.view.starts[1:]):
            first, last = np.searchsorted(rows, [start, stop])
            if first < last:
                yield self._of_type(node_type, rows[first:last], start)

    def ordered(self, rows: Array) -> RowLists:
        """The same as one, in the order of rows."""
        return in_order(rows, list(self.lists(rows)), self.weighted)

    def row_sums(self, rows: Array) -> Array:
        """Σ_j w_ij of rows that ascend, float64, added up in the order of neighbours."""
        if not self.view.name and not self.weighted:
            return self.growth.relations[self.view.relations[0]].sizes(rows).astype(np.float64)
        sums = np.zeros(len(rows))
        for begin in range(0, len(rows), _ROWS):
            some = self.ordered(rows[begin : begin + _ROWS])
            sums[begin : begin + _ROWS] = _sums(some)
        return sums

    def column_sums(self) -> Array:
        """Σ_i w_ij of every node: all edges are read, since any may lead away from it."""
        sums = np.zeros(self.view.count)
        for begin in range(0, self.view.count, _ROWS):
            some = self.ordered(np.arange(begin, min(begin + _ROWS, self.view.count)))
            add_up(np.ascontiguousarray(some.neighbours), some.weights, sums)
        return sums

    def _of_type(self, node_type: str, rows: Array, start: int) -> RowLists:
        owners, neighbours, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
        for name in self.view.relations:
            relation = self.graph.relations[name]
            if relation.target != node_type:
                continue
            for part in self.growth.relations[name].lists(rows - start):
                owners.append(np.repeat(np.searchsorted(rows, part.rows + start), part.sizes))
                neighbours.append(part.neighbours + np.int32(self.view.start(relation.source)))
                found = part.weights
                weights.append(np.ones(len(part.neighbours), np.float32) if found is None else found)
        values = np.concatenate(weights) if self.weighted else None
        block = Block.from_edges(
            np.concatenate(owners).astype(np.int32), np.concatenate(neighbours), values,
            start=0, stop=len(rows), symmetric=False, drop_loops=False,
        )  # fmt: skip
        return RowLists(rows, block.offsets, block.neighbours, block.weights)


@dataclass(frozen=True)
class Around:
    """`rows` of a view, ascending, that are `distance[i]` hops from the rows asked for, and the lists of those nearer
    than the last: neighbours by their places among `rows`."""

    rows: Array
    distance: Array
    lists: Block

    def nearer(self, hops: int) -> Array:
        """Places of rows that are at most so many hops away."""
        return np.flatnonzero(self.distance <= hops)


def around(view: ViewLists, rows: Array, hops: int, memory: int) -> Around:
    """All that `rows`, which ascend, hear in so many hops; refused where its edges are more than the memory holds."""
    count = view.view.count
    distance = np.full(count, -1, np.int16)
    distance[rows] = 0
    parts: list[RowLists] = []
    last, entries = rows, 0
    for hop in range(1, hops + 1):
        for part in view.lists(last):
            entries += len(part.neighbours)
            if memory_of(entries) > memory:
                raise _too_far(len(rows), hop, memory)
            parts.append(part)
            found = part.neighbours[distance[part.neighbours] < 0]
            distance[found] = hop
        last = np.flatnonzero(distance == hop)
    kept = np.flatnonzero(distance >= 0)
    places = np.full(count, -1, np.int32)
    places[kept] = np.arange(len(kept), dtype=np.int32)
    nothing = np.zeros(0, np.int32)
    far = RowLists(last, np.zeros(len(last) + 1, np.int64), nothing, np.zeros(0, np.float32) if view.weighted else None)
    lists = in_order(kept, [*parts, far], view.weighted)
    # Places ascend with rows: neighbours that ascended still do.
    block = Block(0, len(kept), lists.offsets, places[lists.neighbours], lists.weights)
    return Around(kept, distance[kept], block)


def memory_of(entries: int) -> int:
    """Bytes in which `around` reads so many entries."""
    return entries * _ENTRY


def who_hears(view: ViewLists, rows: Array, hops: int, late: Array | None = None) -> Array:
    """Rows, ascending, that hear one of `rows` within so many hops, these among them; `late` join at the first hop.

    Of a view along the edges, not of one that is turned.
    """
    reached = np.zeros(view.view.count, bool)
    reached[rows] = True
    last = np.flatnonzero(reached)
    for hop in range(1, hops + 1):
        found = [*_hearing(view, last), *([late] if hop == 1 and late is not None else [])]
        new = np.zeros(len(reached), bool)
        for some in found:
            new[some] = True
        last = np.flatnonzero(new & ~reached)
        reached[last] = True
        if not len(last):
            break
    return np.flatnonzero(reached)


def _hearing(view: ViewLists, rows: Array) -> Iterator[Array]:
    """Those that have one of `rows` in their list. Where edges lead both ways, those in the lists of `rows`."""
    if not view.directed:
        for part in view.lists(rows):
            yield part.neighbours
        return
    heard = np.zeros(view.view.count, bool)
    heard[rows] = True
    for relation in (view.graph.relations[name] for name in view.view.relations):
        first, own = view.view.start(relation.source), view.view.start(relation.target)
        for block in relation.blocks:
            for begin in range(0, block.entries, _LOOKED_AT):
                places = np.flatnonzero(heard[block.neighbours[begin : begin + _LOOKED_AT] + first]) + begin
                yield np.searchsorted(block.offsets, places, side="right") - 1 + block.start + own


def in_order(rows: Array, parts: list[RowLists], weighted: bool) -> RowLists:
    """Lists of rows, which ascend and are those of all parts together, one after the other."""
    parts = [part for part in parts if len(part.rows)]
    if len(parts) == 1:
        return parts[0]
    sizes = np.zeros(len(rows), np.int64)
    at = [np.searchsorted(rows, part.rows) for part in parts]
    for places, part in zip(at, parts):
        sizes[places] = part.sizes
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    neighbours = np.empty(offsets[-1], np.int32)
    weights = np.empty(offsets[-1], np.float32) if weighted else None
    for places, part in zip(at, parts):
        into = np.repeat(offsets[places] - part.offsets[:-1], part.sizes) + np.arange(len(part.neighbours))
        neighbours[into] = part.neighbours
        if weights is not None and part.weights is not None:
            weights[into] = part.weights
    return RowLists(rows, offsets, neighbours, weights)


def _sums(lists: RowLists) -> Array:
    if lists.weights is None:
        return lists.sizes.astype(np.float64)
    owners = np.repeat(np.arange(len(lists.rows)), lists.sizes)
    return np.bincount(owners, weights=lists.weights.astype(np.float64), minlength=len(lists.rows))


def _too_far(count: int, hop: int, memory: int) -> TooFar:
    return TooFar(
        f"within {hop} hops the {count:,} newcomers hear more edges than {format_size(memory)} of memory hold",
        hint="give more --memory, or grow the graph with gamlp ingest --add, then gamlp predict --graph",
    )
