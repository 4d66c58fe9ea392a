"""First values X^(0): features by type, scaled, at their places in a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Features, Graph, View
from gamlp.propagation.plan import FeatureSignal, Statistics

_CHUNK = 1 << 14  # rows of features read at a time

# (rows, columns) → float32 first values of a contiguous range of rows, or of row numbers
Read = Callable[[Any, slice], Array]


class FirstValues:
    """X^(0) by type, scaled: looked at once for all views."""

    def __init__(self, graph: Graph, plan: FeatureSignal | None, readers: bool = True) -> None:
        self._graph, self._plan, self._readers = graph, plan, readers
        self._scaled: dict[str, Read] = {}

    def of(self, view: View, node_types: tuple[str, ...]) -> Read:
        """Features of some types at their places in a view; zero rows elsewhere."""
        if not self._readers:
            return unread
        if view.types == node_types == (self._graph.target,):
            return self._type(self._graph.target)
        width = features_of(self._graph, node_types[0]).width
        pieces = [
            (view.start(node_type), self._graph.node_types[node_type].count, self._type(node_type))
            for node_type in node_types
        ]
        return stacked([(start, start + count, read) for start, count, read in pieces], view.count, width)

    def _type(self, node_type: str) -> Read:
        assert self._plan is not None
        if node_type not in self._scaled:
            plan, features = self._plan, features_of(self._graph, node_type)
            self._scaled[node_type] = scaled(features, plan.scaling, given_statistics(self._graph, plan, features))
        return self._scaled[node_type]


def stacked(pieces: Sequence[tuple[int, int, Read]], count: int, width: int) -> Read:
    """Rows begin..end of each piece from its reader, zeros elsewhere: `[count, width]` that is never made."""

    def read(rows: Any, columns: slice) -> Array:
        numbers = np.arange(*rows.indices(count)) if isinstance(rows, slice) else np.asarray(rows)
        out = np.zeros((len(numbers), len(range(*columns.indices(width)))), np.float32)
        if not len(numbers):
            return out
        low, high = int(numbers.min()), int(numbers.max()) + 1
        for begin, end, piece in pieces:
            if begin >= high or end <= low:
                continue
            if isinstance(rows, slice):
                inside = slice(max(begin, low) - low, min(end, high) - low)
                out[inside] = piece(slice(max(begin, low) - begin, min(end, high) - begin), columns)
            else:
                places = np.flatnonzero((numbers >= begin) & (numbers < end))
                out[places] = piece(numbers[places] - begin, columns)
        return out

    return read


def given_statistics(graph: Graph, plan: FeatureSignal, features: Features) -> Statistics | None:
    """Of `standard` scaling by another graph's mean and deviation; None: by these features' own."""
    statistics = plan.statistics if plan.scaling == "standard" else None
    if statistics is not None and len(statistics.mean) != features.width:
        raise GamlpError(
            f"statistics of {len(statistics.mean)} columns for {features.width} features of graph '{graph.name}'",
            hint="give those of a graph with the same features",
        )
    return statistics


def feature_statistics(graph: Graph) -> Statistics:
    """Mean and deviation of every feature over all rows; a constant column has deviation 1.

    >>> feature_statistics(Graph.from_arrays([[0], [1]], [[1.0, 5.0], [3.0, 5.0]]))
    Statistics(mean=(2.0, 5.0), deviation=(1.0, 1.0))
    """
    return _statistics(features_of(graph, graph.target))


def scaled(features: Features, scaling: str, statistics: Statistics | None = None) -> Read:
    """Features as float32, scaled: `none`, `row`, `l2` or `standard` (by their own statistics unless given)."""
    if scaling == "none":
        return features.read
    if scaling in ("row", "l2"):
        lengths = np.empty(len(features.values), np.float32)
        for chunk in _chunks(features):
            values = features.read(chunk)
            lengths[chunk] = np.abs(values).sum(1) if scaling == "row" else np.sqrt(np.square(values).sum(1))
        inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return lambda rows, columns: features.read(rows, columns) * inverse[rows, None]
    statistics = statistics or _statistics(features)
    shift, factor = np.asarray(statistics.mean, np.float32), (1.0 / np.asarray(statistics.deviation)).astype(np.float32)
    return lambda rows, columns: (features.read(rows, columns) - shift[columns]) * factor[columns]


def features_of(graph: Graph, node_type: str) -> Features:
    features = graph.node_types[node_type].features
    if features is None:
        raise GamlpError(f"graph '{graph.name}' has no features", hint="give node features, or propagate labels alone")
    return features


def _statistics(features: Features) -> Statistics:
    count = max(1, len(features.values))
    sums = (features.read(chunk).sum(0, dtype=np.float64) for chunk in _chunks(features))
    mean = sum(sums, np.zeros(features.width)) / count
    square = np.zeros(features.width)
    for chunk in _chunks(features):
        square += np.square(features.read(chunk) - mean).sum(0)
    return statistics_of(mean, square / count)


def statistics_of(mean: Array, variance: Array) -> Statistics:
    """Mean and deviation; a constant column has deviation 1."""
    deviation = np.sqrt(variance)
    deviation[deviation == 0] = 1.0
    if (wrong := np.flatnonzero(~np.isfinite(deviation))).size:
        raise GamlpError(f"feature {wrong[0]} is not finite on some node", hint="fill in or drop what is missing")
    return Statistics(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))


def _chunks(features: Features) -> list[slice]:
    count = len(features.values)
    return [slice(begin, min(begin + _CHUNK, count)) for begin in range(0, count, _CHUNK)]


def unread(rows: Any, columns: slice) -> Array:
    raise AssertionError("an outline has nothing to read")
