"""First values X^(0), Y^(0): features of types, scaled, and labels of training rows, at their places in a view.

Every engine reads them here. What is read from are arrays: mapped files, or rows on shared storage, which tasks open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, Features, Graph, Labels, View, hash_key, id_hashes
from gamlp.io import StreamedRows, StreamedShards, stream_rows, streamable
from gamlp.propagation.plan import FeatureSignal, Statistics

CHUNK = 1 << 14  # rows that are scaled or added up at a time
NO_FEATURES_HINT = "let them be made of its edges (features.structural: auto), or propagate labels alone"
_TRAIN = ROLES.index("train")
_SHORT, _LONG = 1e-15, 1e15  # lengths of rows that float32 can be trusted with


class First(Protocol):
    """Rows of X^(0) or Y^(0)."""

    def read(self, rows: Any, columns: slice) -> Array:
        """float32 values of a slice of rows, or of row numbers."""


@dataclass(frozen=True)
class FirstFeatures:
    """X^(0) of one type; `standard` is (x - mean) / deviation by statistics that are known when it is read."""

    features: Features
    scaling: str = "none"
    statistics: Statistics | None = None

    def read(self, rows: Any, columns: slice) -> Array:
        if self.scaling == "none":
            return self.features.read(rows, columns)
        standard = self.scaling == "standard"
        values = self.features.read(rows, columns) if standard else self.features.read(rows)
        scale = self._standard(columns) if standard else self._by_length(columns)
        if len(values) <= CHUNK:
            return scale(values)
        return np.concatenate([scale(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK)])

    def _standard(self, columns: slice) -> Callable[[Array], Array]:
        assert self.statistics is not None
        mean, deviation = np.asarray(self.statistics.mean)[columns], np.asarray(self.statistics.deviation)[columns]
        # In float64: beside a large mean, float32 has no digits left for the difference.
        return lambda values: ((values - mean) / deviation).astype(np.float32)

    def _by_length(self, columns: slice) -> Callable[[Array], Array]:
        def scale(values: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = self._lengths(values)
                inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
                scaled = np.asarray(values[:, columns] * inverse[:, None])
            # A square of 1e20 or 1e-23 is more or less than float32 holds: such rows are scaled in float64.
            if (beyond := np.flatnonzero(~((lengths > _SHORT) & (lengths < _LONG)))).size:
                wide = values[beyond].astype(np.float64)
                exact = self._lengths(wide)[:, None]
                scaled[beyond] = np.divide(
                    wide[:, columns], exact, out=np.zeros_like(wide[:, columns]), where=exact > 0
                )
            return scaled

        return scale

    def _lengths(self, values: Array) -> Array:
        return np.asarray(np.abs(values).sum(1) if self.scaling == "row" else np.sqrt(np.square(values).sum(1)))


def fold_numbers(rows: Array, folds: int, seed: int) -> Array:
    """The fold of every row, by a hash of its number: of about equal sizes, and known to whoever knows the row."""
    return np.asarray(id_hashes(np.asarray(rows, np.int64), hash_key(seed, "folds")) % np.uint64(folds), np.int64)


@dataclass(frozen=True)
class Fold:
    """One of so many folds of the training rows."""

    number: int
    folds: int
    seed: int

    def among(self, rows: Array) -> Array:
        """Which of these training rows are in it."""
        return np.equal(fold_numbers(rows, self.folds, self.seed), self.number)


@dataclass(frozen=True)
class FirstLabels:
    """Y^(0): one-hot on training rows but those of fold `without`; elsewhere zero, or features where they are soft."""

    labels: Labels
    roles: Any
    without: Fold | None = None
    soft: Features | None = None

    def read(self, rows: Any, columns: slice) -> Array:
        inside = np.asarray(self.roles[rows]) == _TRAIN
        if self.without is not None:
            found = np.flatnonzero(inside)
            inside[found] = ~self.without.among(_numbers(rows, len(self.roles))[found])
        classes, labels = self.labels.classes, Labels(np.asarray(self.labels.values[rows]), self.labels.classes)
        known = np.flatnonzero(inside & labels.known())
        if self.soft is not None or labels.multi_label:
            every = np.zeros((len(inside), len(classes)), np.float32)
            hot = every if self.soft is None else np.array(self.soft.read(rows))
            hot[known] = labels.hot(known)
            return hot[:, columns]
        # Of hundreds of classes a pass asks for a few: the others' columns are never made.
        begin, end, _ = columns.indices(len(classes))
        hot = np.zeros((len(inside), end - begin), np.float32)
        own = known[(labels.values[known] >= begin) & (labels.values[known] < end)]
        hot[own, labels.values[own] - begin] = 1.0
        return hot


@dataclass(frozen=True)
class FirstOfView:
    """First values of a view of several types: rows begin..end of each part, zero rows elsewhere."""

    parts: tuple[tuple[int, int, First], ...]
    count: int
    width: int

    def read(self, rows: Any, columns: slice) -> Array:
        numbers = _numbers(rows, self.count)
        out = np.zeros((len(numbers), len(range(*columns.indices(self.width)))), np.float32)
        if not len(numbers):
            return out
        low, high = int(numbers.min()), int(numbers.max()) + 1
        for begin, end, first in self.parts:
            if begin >= high or end <= low:
                continue
            if isinstance(rows, slice):
                inside = slice(max(begin, low) - low, min(end, high) - low)
                out[inside] = first.read(slice(max(begin, low) - begin, min(end, high) - begin), columns)
            else:
                places = np.flatnonzero((numbers >= begin) & (numbers < end))
                out[places] = first.read(numbers[places] - begin, columns)
        return out


def streamed_first(first: First, room: int) -> tuple[First, list[StreamedRows | StreamedShards]]:
    """The same values, features of more than `room` bytes read past the page cache, and what is to be closed after."""
    if isinstance(first, FirstOfView):
        found = [(begin, end, *streamed_first(part, room)) for begin, end, part in first.parts]
        parts = tuple((begin, end, part) for begin, end, part, _ in found)
        return replace(first, parts=parts), [rows for *_, opened in found for rows in opened]
    if not isinstance(first, FirstFeatures):
        return first, []
    values: Any = first.features.values
    if not streamable(values) or np.dtype(values.dtype).itemsize * np.prod(values.shape, dtype=np.int64) <= room:
        return first, []
    rows: Any = stream_rows(values)
    return replace(first, features=Features(rows, first.features.dtype, first.features.columns)), [rows]


class FirstValues:
    """First values of a graph's signals. `statistics` says those of a type; without it they are found when needed."""

    def __init__(
        self,
        graph: Graph,
        plan: FeatureSignal | None = None,
        statistics: Callable[[str], Statistics | None] | None = None,
    ) -> None:
        self._graph, self._plan = graph, plan
        self._statistics = statistics or self._own_statistics
        self.used: dict[str, Statistics] = {}  # of `standard` scaling, by node type
        self._found: dict[str, Statistics] = {}

    def of_features(self, view: View, node_types: tuple[str, ...]) -> First:
        """Features of some types."""
        assert self._plan is not None
        firsts = {}
        for node_type in node_types:
            features, statistics = features_of(self._graph, node_type), None
            if self._plan.scaling == "standard":
                statistics = given_statistics(self._graph, self._plan, node_type) or self._statistics(node_type)
                self.used |= {} if statistics is None else {node_type: statistics}
            firsts[node_type] = FirstFeatures(features, self._plan.scaling, statistics)
        return self._in_view(view, firsts, features_of(self._graph, node_types[0]).width)

    def of_labels(self, view: View, without: Fold | None, *, soft: bool) -> First:
        """Labels of training rows."""
        nodes = self._graph.nodes
        assert nodes.labels is not None and nodes.split is not None
        first = FirstLabels(nodes.labels, nodes.split.roles, without, nodes.features if soft else None)
        return self._in_view(view, {self._graph.target: first}, len(nodes.labels.classes))

    def _in_view(self, view: View, firsts: Mapping[str, First], width: int) -> First:
        if view.types == (self._graph.target,):
            return firsts[self._graph.target]
        parts = []
        for node_type, first in firsts.items():
            start = view.start(node_type)
            parts.append((start, start + self._graph.node_types[node_type].count, first))
        return FirstOfView(tuple(parts), view.count, width)

    def _own_statistics(self, node_type: str) -> Statistics:
        if node_type not in self._found:
            self._found[node_type] = _statistics(features_of(self._graph, node_type))
        return self._found[node_type]


def scaled_features(features: Features, scaling: str, statistics: Statistics | None = None) -> FirstFeatures:
    """Features scaled by `none`, `row`, `l2` or `standard` (by their own statistics unless given)."""
    own = scaling == "standard" and statistics is None
    return FirstFeatures(features, scaling, _statistics(features) if own else statistics)


def given_statistics(graph: Graph, plan: FeatureSignal, node_type: str) -> Statistics | None:
    """Of `standard` scaling by another graph's mean and deviation; None: by these features' own."""
    statistics, features = plan.statistics if plan.scaling == "standard" else None, features_of(graph, node_type)
    if isinstance(statistics, dict):
        if len(statistics) == 1 and not graph.heterogeneous:  # where there is one type, its name does not matter
            statistics = {node_type: next(iter(statistics.values()))}
        if node_type not in statistics:
            raise GamlpError(
                f"there are no statistics to scale features of {node_type} by, which graph '{graph.name}' has",
                hint="give a graph whose types have features as in training",
            )
        statistics = statistics[node_type]
    if statistics is not None and len(statistics.mean) != features.width:
        raise GamlpError(
            f"statistics of {len(statistics.mean)} columns for {features.width} features of graph '{graph.name}'",
            hint="give those of a graph with the same features",
        )
    return statistics


def feature_statistics(graph: Graph, rows: Array | None = None) -> Statistics:
    """Mean and deviation of every feature over all rows, or over some; a constant column has deviation 1.

    >>> feature_statistics(Graph.from_arrays([[0], [1]], [[1.0, 5.0], [3.0, 5.0]]))
    Statistics(mean=(2.0, 5.0), deviation=(1.0, 1.0))
    """
    features = features_of(graph, graph.target)
    if rows is None:
        return _statistics(features)
    chunks = range(-(-len(rows) // CHUNK))
    return statistics_of(len(rows), features.width, lambda mean: column_sums(features, chunks, mean, rows))


def features_of(graph: Graph, node_type: str) -> Features:
    features = graph.node_types[node_type].features
    if features is None:
        raise GamlpError(f"graph '{graph.name}' has no features", hint=NO_FEATURES_HINT)
    return features


def column_sums(
    features: Features, chunks: Iterable[int], mean: Array | None = None, rows: Array | None = None
) -> Iterator[Array]:
    """Σ x, or Σ (x - mean)², over the rows of each chunk: float64, to be added up in the order of chunks."""
    count = features.count
    for chunk in chunks:
        inside = slice(chunk * CHUNK, min((chunk + 1) * CHUNK, count))
        values = features.read(inside if rows is None else rows[inside])
        yield values.sum(0, dtype=np.float64) if mean is None else np.square(values - mean).sum(0)


def statistics_of(count: int, width: int, sums: Callable[[Array | None], Iterable[Array]]) -> Statistics:
    """From sums of chunks, of x and then of (x - mean)², in their order; a constant column has deviation 1."""
    mean = sum(sums(None), np.zeros(width)) / max(1, count)
    deviation = np.sqrt(sum(sums(mean), np.zeros(width)) / max(1, count))
    deviation[deviation == 0] = 1.0
    if (wrong := np.flatnonzero(~np.isfinite(deviation))).size:
        raise GamlpError(f"feature {wrong[0]} is not finite on some node", hint="fill in or drop what is missing")
    return Statistics(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))


def _statistics(features: Features) -> Statistics:
    count = features.count
    chunks = range(-(-count // CHUNK))
    return statistics_of(count, features.width, lambda mean: column_sums(features, chunks, mean))


def _numbers(rows: Any, count: int) -> Array:
    return np.arange(*rows.indices(count)) if isinstance(rows, slice) else np.asarray(rows)
