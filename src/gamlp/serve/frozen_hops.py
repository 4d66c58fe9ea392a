"""Hops of a new node from the stored hops of those it hears, which stay as they are until the graph is refreshed.

X^(k)_v = d_v^(r-1) (Σ_u w_uv d_u^(-r) X^(k-1)_u + d_v^(-r) X^(k-1)_v): the first factor has the sum of v's row of Ã,
those inside have sums of columns. Neighbours' hops and degrees are those of the graph before v came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Graph, View
from gamlp.propagation import Operator, StoredSignal
from gamlp.serve.edges import HeardRows, NodeEdges, in_view

_AT_A_TIME = 8 << 20  # bytes of neighbours' hops in float32


@dataclass
class KeptRows:
    """Hops of newcomers of one type in one signal, `[count, hops + 1, width]`, and what their rows enter sums with."""

    shape: tuple[int, int]
    count: int = 0
    _hops: Array = field(init=False)
    _enter: Array = field(init=False)

    def __post_init__(self) -> None:
        self._hops, self._enter = np.empty((0, *self.shape), np.float32), np.empty(0)

    @property
    def hops(self) -> Array:
        return self._hops[: self.count]

    @property
    def enter(self) -> Array:
        return self._enter[: self.count]

    def add(self, hops: Array, enter: float) -> None:
        if self.count == len(self._hops):
            room = max(16, 2 * self.count)
            grown, factors = np.empty((room, *self.shape), np.float32), np.empty(room)
            grown[: self.count], factors[: self.count] = self.hops, self.enter
            self._hops, self._enter = grown, factors
        self._hops[self.count], self._enter[self.count] = hops, enter
        self.count += 1


@dataclass(frozen=True)
class HeardSignal:
    """One signal of the model: stored hops of every node of its view, and of newcomers that were kept.

    name: as the model's rows name it. node_types: whose features it holds; none: labels, which newcomers have not.
    enter: d_u^(-r) of every node of the view; None: r is 0, all ones.
    """

    name: str
    graph: Graph = field(repr=False)
    view: View
    operator: Operator
    hops: int
    stored: StoredSignal
    enter: Array | None
    node_types: tuple[str, ...] = ()
    kept: dict[str, KeptRows] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return self.stored.entry.width

    def of(self, node_type: str, first: Array | None, edges: NodeEdges) -> tuple[Array, float]:
        """(`[hops + 1, width]` of a new node, what its row enters sums with). `first`: X^(0) of its type's features."""
        r, loop = self.operator.r, 1.0 if self.operator.loops else 0.0
        heard = in_view(self.graph, self.view, edges)
        row_sum = loop + sum(entries.total for entries in heard.values())
        column_sum = row_sum
        if self.view.directed(self.graph):
            by = in_view(self.graph, self.view, edges, heard_by=True)
            column_sum = loop + sum(entries.total for entries in by.values())
        enter = column_sum**-r if column_sum > 0 else 1.0
        leave = row_sum ** (r - 1.0) if row_sum > 0 else 0.0
        sums = self._sums(heard)
        out = np.zeros((self.hops + 1, self.width), np.float32)
        if first is not None and node_type in self.node_types:
            out[0] = first
        before = out[0].astype(np.float64)
        for k in range(self.hops):
            before = leave * (sums[k] + loop * enter * before)
            out[k + 1] = before
        return out, enter

    def _sums(self, heard: Mapping[str, HeardRows]) -> Array:
        """Σ_u w_uv d_u^(-r) X^(k)_u of hops 0 .. K - 1, float64."""
        sums = np.zeros((self.hops, self.width))
        if not self.hops:
            return sums
        step = max(1, _AT_A_TIME // (4 * self.hops * max(1, self.width)))
        for node_type, entries in heard.items():
            start, count = self.view.start(node_type), self._count(node_type)
            for begin in range(0, len(entries.rows), step):
                rows = entries.rows[begin : begin + step]
                weights = None if entries.weights is None else entries.weights[begin : begin + step]
                inside = int(np.searchsorted(rows, count))  # rows ascend, and newcomers follow the graph's
                if inside:
                    numbers = rows[:inside] + start
                    enter = None if self.enter is None else self.enter[numbers]
                    values = self.stored.take(numbers, self.hops - 1)
                    sums += self._sum(values, enter, None if weights is None else weights[:inside])
                if inside < len(rows):
                    new, places = self.kept[node_type], rows[inside:] - count
                    part = None if weights is None else weights[inside:]
                    sums += self._sum(new.hops[places], new.enter[places], part)
        return sums

    def _sum(self, values: Array, enter: Array | None, weights: Array | None) -> Array:
        factors = np.ones(len(values), np.float32)
        if enter is not None:
            factors *= enter.astype(np.float32)
        if weights is not None:
            factors *= weights.astype(np.float32)
        flat = values[:, : self.hops].reshape(len(values), -1).astype(np.float32, copy=False)
        return (factors @ flat).astype(np.float64).reshape(self.hops, self.width)

    def _count(self, node_type: str) -> int:
        return self.graph.node_types[node_type].count

    def keep(self, node_type: str, hops: Array, enter: float) -> None:
        """Remember a newcomer: its row is the next of its type."""
        if node_type not in self.kept:
            self.kept[node_type] = KeptRows((self.hops + 1, self.width))
        self.kept[node_type].add(hops, enter)

    def shorten(self, counts: Mapping[str, int]) -> None:
        """Forget the newest newcomers of each type, down to so many."""
        for node_type, rows in self.kept.items():
            rows.count = min(rows.count, counts.get(node_type, rows.count))
