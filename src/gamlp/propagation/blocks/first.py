"""Where tasks find first values X^(0), Y^(0): files of features by type, labels and roles put beside the hops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Features, Graph, Labels, fingerprint
from gamlp.io import Place, RemoteRows, RowShards, npy_size, open_rows, put_rows
from gamlp.propagation.first_values import stacked, statistics_of
from gamlp.propagation.passes import Piece
from gamlp.propagation.plan import Plan, Statistics
from gamlp.propagation.signals import Signal, folds_of, training_rows

CHUNK = 1 << 14  # rows whose sums are added up at a time, as the local engine does
_TRAIN = 1


@dataclass(frozen=True)
class StoredFeatures:
    """Features of a graph on shared storage."""

    places: tuple[Place, ...]
    stops: tuple[int, ...]
    width: int
    dtype: Any  # of the array
    name: Any  # float32, float16 or bfloat16

    def open(self) -> Features:
        values: Any = RowShards(self.places, self.stops, (self.width,), self.dtype)
        return Features(values, self.name)


@dataclass(frozen=True)
class FirstFeatures:
    """X^(0): features as float32, scaled as `propagation.signals.scaled` does, row by row."""

    features: StoredFeatures
    scaling: str
    statistics: Statistics | None = None

    def read(self, rows: Any, columns: slice) -> Array:
        features = self.features.open()
        if self.scaling == "none":
            return features.read(rows, columns)
        values = features.read(rows)
        if self.scaling in ("row", "l2"):
            lengths = np.abs(values).sum(1) if self.scaling == "row" else np.sqrt(np.square(values).sum(1))
            inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
            return np.asarray((values * inverse[:, None])[:, columns])
        assert self.statistics is not None
        shift = np.asarray(self.statistics.mean, np.float32)
        factor = (1.0 / np.asarray(self.statistics.deviation)).astype(np.float32)
        return np.asarray(((values - shift) * factor)[:, columns])


@dataclass(frozen=True)
class FirstLabels:
    """Y^(0): one-hot on training rows (but those of fold `without`), elsewhere zero, or features where they are soft.

    Files in `folder`: labels, split; with folds also train (row numbers) and folds (of those rows).
    """

    folder: Place
    classes: tuple[str, ...]
    without: int | None = None
    soft: StoredFeatures | None = None

    def read(self, rows: Any, columns: slice) -> Array:
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
        inside = open_rows(self.folder / "split.npy")[rows] == _TRAIN
        if self.without is not None:
            inside &= ~np.isin(numbers, self._fold(numbers))
        known = np.flatnonzero(inside)
        hot = (
            np.zeros((len(numbers), len(self.classes)), np.float32)
            if self.soft is None
            else np.array(self.soft.open().read(rows))
        )
        values = np.asarray(open_rows(self.folder / "labels.npy")[rows])
        hot[known] = Labels(values, self.classes).hot(known)
        return np.asarray(hot[:, columns])

    def _fold(self, numbers: Array) -> Array:
        """Training rows of the fold that is left out, among the rows' range."""
        if not len(numbers):
            return numbers
        train, folds = open_rows(self.folder / "train.npy"), open_rows(self.folder / "folds.npy")
        begin, end = np.searchsorted(np.asarray(train), [numbers.min(), numbers.max() + 1])
        chosen: Array = np.asarray(train[begin:end])[np.asarray(folds[begin:end]) == self.without]
        return chosen


@dataclass(frozen=True)
class StackedFirst:
    """First values of a view of several types: rows begin..end of each piece, zero rows elsewhere."""

    pieces: tuple[tuple[int, int, FirstFeatures | FirstLabels], ...]
    count: int
    width: int

    def read(self, rows: Any, columns: slice) -> Array:
        return stacked([(begin, end, first.read) for begin, end, first in self.pieces], self.count, self.width)(
            rows, columns
        )


First = FirstFeatures | FirstLabels | StackedFirst


@dataclass(frozen=True)
class ColumnSums:
    """Sums over rows for `standard` scaling, a chunk at a time and in order, so that they round as they do locally.

    Two goes over tasks of `chunks` chunks: Σ x, then Σ (x - mean)²; each writes `[chunks, width]` float64.
    """

    features: StoredFeatures
    folder: Place
    chunks: int  # of a task
    mean: tuple[float, ...] | None = None

    def place(self, index: int) -> Place:
        return self.folder / f"{'sums' if self.mean is None else 'squares'}-{index:05d}.npy"

    def tasks(self) -> int:
        return -(-self.features.stops[-1] // (CHUNK * self.chunks))

    def add(self, index: int) -> dict[str, Any]:
        """One task."""
        features, count = self.features.open(), self.features.stops[-1]
        found = []
        for chunk in range(index * self.chunks, (index + 1) * self.chunks):
            begin = chunk * CHUNK
            if begin >= count:
                break
            values = features.read(slice(begin, min(begin + CHUNK, count)))
            if self.mean is None:
                found.append(values.sum(0, dtype=np.float64))
            else:
                found.append(np.square(values - np.asarray(self.mean)).sum(0))
        put_rows(self.place(index), np.stack(found))
        return {}

    def total(self) -> Array:
        total = np.zeros(self.features.width)
        for index in range(self.tasks()):
            for row in np.asarray(open_rows(self.place(index))):
                total = total + row
        return total


Run = Callable[[Callable[[int], dict[str, Any]], Sequence[int], str], list[dict[str, Any]]]


class FirstFiles:
    """First values of a run's signals; files of their own lie in `work`."""

    def __init__(self, graph: Graph, plan: Plan, signals: Sequence[Signal], work: Place) -> None:
        self._graph, self._plan, self._work = graph, plan, work
        node_types = dict.fromkeys(node_type for signal in signals for node_type in signal.node_types)
        if plan.labels is not None and plan.labels.soft:
            node_types[graph.target] = None
        self._features = {node_type: self._stored(node_type) for node_type in node_types}
        self._statistics: dict[str, Statistics | None] = {}
        self._put_results()

    @property
    def places(self) -> list[Place]:
        """A file of every type: what all machines must see."""
        return [stored.places[0] for stored in self._features.values() if stored.places]

    def find_statistics(self, run: Run, parts: int) -> None:
        """Of `standard` scaling: each type by mean and deviation of its own rows, added up by tasks in their order."""
        plan = self._plan.features
        for node_type, features in self._features.items() if plan is not None else ():
            assert plan is not None
            self._statistics[node_type] = plan.statistics
            if plan.scaling == "standard" and plan.statistics is None:
                self._statistics[node_type] = self._added_up(node_type, features, run, parts)

    def of(self, piece: Piece) -> First:
        """Of a piece's signal, at their places in its view; zero rows elsewhere."""
        signal, graph = piece.signal, self._graph
        assert signal.view is not None
        whole = signal.view.types == (graph.target,)
        firsts = self._of_features(signal) if signal.node_types else {graph.target: self._of_labels(piece)}
        if whole:
            return firsts[graph.target]
        starts = {node_type: signal.view.start(node_type) for node_type in firsts}
        pieces = [
            (starts[node_type], starts[node_type] + graph.node_types[node_type].count, firsts[node_type])
            for node_type in firsts
        ]
        return StackedFirst(tuple(pieces), signal.nodes, signal.width)

    def _of_features(self, signal: Signal) -> dict[str, FirstFeatures | FirstLabels]:
        plan = self._plan.features
        assert plan is not None
        return {
            node_type: FirstFeatures(self._features[node_type], plan.scaling, self._statistics.get(node_type))
            for node_type in signal.node_types
        }

    def _of_labels(self, piece: Piece) -> FirstLabels:
        plan, labels = self._plan.labels, self._graph.nodes.labels
        assert plan is not None and labels is not None
        without = piece.part.index if len(piece.signal.parts) > 1 else None  # cross-fitted: one part a fold
        soft = self._features[self._graph.target] if plan.soft else None
        return FirstLabels(self._work / "answers", labels.classes, without, soft)

    def _stored(self, node_type: str) -> StoredFeatures:
        """The files that hold a type's features; what is in memory alone is put beside."""
        features = self._graph.node_types[node_type].features
        assert features is not None
        places, stops = _files_of(features) or ((), ())
        if not places:
            place = self._work / "features" / f"{node_type}-{fingerprint.features(self._graph, node_type)}.npy"
            if place.size() != npy_size(features.values.shape, features.values.dtype):
                put_rows(place, features.values)
            places, stops = (place,), (len(features.values),)
        return StoredFeatures(places, stops, features.width, features.values.dtype, features.dtype)

    def _added_up(self, node_type: str, features: StoredFeatures, run: Run, parts: int) -> Statistics:
        folder = self._work / "statistics" / node_type
        count = features.stops[-1]
        chunks = max(1, -(-count // (CHUNK * max(1, parts))))
        sums = ColumnSums(features, folder, chunks)
        run(sums.add, range(sums.tasks()), "means")
        mean = sums.total() / max(1, count)
        squares = ColumnSums(features, folder, chunks, tuple(mean.tolist()))
        run(squares.add, range(squares.tasks()), "deviations")
        return statistics_of(mean, squares.total() / max(1, count))

    def _put_results(self) -> None:
        """Labels and roles as this graph has them, for tasks to read; written a part at a time."""
        place, labels, nodes = self._work / "answers", self._plan.labels, self._graph.nodes
        if labels is None or nodes.labels is None or nodes.split is None:
            return
        put_rows(place / "labels.npy", nodes.labels.values)
        put_rows(place / "split.npy", nodes.split.roles)
        if labels.folds > 1:
            train = training_rows(nodes.split)
            put_rows(place / "train.npy", train)
            put_rows(place / "folds.npy", folds_of(train, labels).astype(np.int16))


def _files_of(features: Features) -> tuple[tuple[Place, ...], tuple[int, ...]] | None:
    """The files an array of features is read from, and the first row after each; None: it is in memory."""
    values: Any = features.values
    if isinstance(values, RowShards):
        return tuple(place.resolved() for place in values.places), tuple(int(stop) for stop in values.stops)
    if isinstance(values, RemoteRows):
        return (values.place,), (len(values),)
    name = getattr(values, "filename", None)
    if name is None or Path(name).suffix != ".npy" or not values.flags.c_contiguous:
        return None
    place = Place.of(Path(name)).resolved()
    whole = place.size() == npy_size(values.shape, values.dtype)  # not some rows of a file
    return ((place,), (len(values),)) if whole else None
