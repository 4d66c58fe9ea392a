"""First values for tasks: a graph's features, labels and roles as files that all machines see, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.graph import Features, Graph, Labels, PickedColumns, Split, fingerprint
from gamlp.io import Place, RemoteRows, RowShards, npy_size, open_rows, put_rows
from gamlp.propagation.first_values import (
    CHUNK,
    First,
    FirstValues,
    Fold,
    column_sums,
    features_of,
    given_statistics,
    statistics_of,
)
from gamlp.propagation.passes import Piece
from gamlp.propagation.plan import Plan, Statistics
from gamlp.propagation.signals import Signal

Run = Callable[[Callable[[int], dict[str, Any]], Sequence[int], str], list[dict[str, Any]]]


@dataclass(frozen=True)
class ColumnSums:
    """Sums over rows for `standard` scaling: Σ x, then Σ (x - mean)²; a task writes those of `chunks` chunks."""

    features: Features
    folder: Place
    chunks: int
    mean: tuple[float, ...] | None = None

    def place(self, index: int) -> Place:
        return self.folder / f"{'sums' if self.mean is None else 'squares'}-{index:05d}.npy"

    def tasks(self) -> int:
        return -(-self.features.count // (CHUNK * self.chunks))

    def add(self, index: int) -> dict[str, Any]:
        """One task."""
        last = -(-self.features.count // CHUNK)
        chunks = range(index * self.chunks, min((index + 1) * self.chunks, last))
        mean = None if self.mean is None else np.asarray(self.mean)
        put_rows(self.place(index), np.stack(list(column_sums(self.features, chunks, mean))))
        return {}

    def read(self) -> Iterator[Array]:
        """The sums of all chunks, in their order: they round as they do on one machine."""
        for index in range(self.tasks()):
            yield from np.asarray(open_rows(self.place(index)))


class SharedFirstValues:
    """First values of a run's signals for tasks; files of their own lie in `work`."""

    def __init__(self, graph: Graph, plan: Plan, signals: Sequence[Signal], work: Place) -> None:
        self._plan, self._work = plan, work
        node_types = dict.fromkeys(node_type for signal in signals for node_type in signal.node_types)
        if plan.labels is not None and plan.labels.soft:
            node_types[graph.target] = None
        self._node_types = tuple(node_types)
        self._graph = self._shared(graph)
        self._statistics: dict[str, Statistics] = {}
        self._values = FirstValues(self._graph, plan.features, self._statistics.get)

    @property
    def places(self) -> list[Place]:
        """A file of every type: what all machines must see."""
        found: list[Any] = [features_of(self._graph, node_type).values for node_type in self._node_types]
        files = [values.values if isinstance(values, PickedColumns) else values for values in found]
        return [values.places[0] for values in files if values.places]

    def find_statistics(self, run: Run, parts: int) -> None:
        """Of `standard` scaling: each type by mean and deviation of its own rows, added up by tasks."""
        plan = self._plan.features
        if plan is None or plan.scaling != "standard" or plan.statistics is not None:
            return
        for node_type in self._node_types:
            self._statistics[node_type] = self._add_up(node_type, run, parts)

    @property
    def statistics(self) -> dict[str, Statistics]:
        """Of `standard` scaling by node type, given or found."""
        plan = self._plan.features
        if plan is None or plan.scaling != "standard":
            return {}
        given = {node_type: given_statistics(self._graph, plan, node_type) for node_type in self._node_types}
        return self._statistics | {node_type: found for node_type, found in given.items() if found is not None}

    def of(self, piece: Piece) -> First:
        """Of a piece's signal, at their places in its view; zero rows elsewhere."""
        signal, labels = piece.signal, self._plan.labels
        assert signal.view is not None
        if signal.node_types:
            return self._values.of_features(signal.view, signal.node_types)
        assert labels is not None
        without = None
        if len(signal.parts) > 1:  # cross-fitted: one part a fold
            without = Fold(piece.part.index, labels.folds, labels.fold_seed)
        return self._values.of_labels(signal.view, without, soft=labels.soft)

    def _shared(self, graph: Graph) -> Graph:
        """The graph with arrays that are read from shared storage; what is in memory alone is put beside."""
        types = dict(graph.node_types)
        for node_type in self._node_types:
            features = types[node_type].features
            assert features is not None
            types[node_type] = replace(types[node_type], features=self._shared_features(graph, node_type, features))
        nodes, labels = types[graph.target], self._plan.labels
        if labels is not None and nodes.labels is not None and nodes.split is not None:
            values, roles = self._put("labels", nodes.labels.values), self._put("split", nodes.split.roles)
            types[graph.target] = replace(nodes, labels=Labels(values, nodes.labels.classes), split=Split(roles))
        return replace(graph, node_types=types)

    def _shared_features(self, graph: Graph, node_type: str, features: Features) -> Features:
        found: Any = features.values
        picked = found if isinstance(found, PickedColumns) else None
        files = _files_of(features.values if picked is None else picked.values)
        if picked is not None and files is not None:  # tasks pick columns as they read: no file is written anew
            rows: Any = RowShards(*files, picked.values.shape[1:], picked.dtype)
            return replace(features, values=PickedColumns(rows, picked.order))  # type: ignore[arg-type]
        places, stops = files or ((), ())
        if not places:
            place = self._work / "features" / f"{node_type}-{fingerprint.features(graph, node_type)}.npy"
            if place.size() != npy_size(features.values.shape, features.values.dtype):
                put_rows(place, features.values)
            places, stops = (place,), (features.count,)
        values: Any = RowShards(places, stops, (features.width,), features.values.dtype)
        return replace(features, values=values)

    def _put(self, name: str, values: Array) -> Any:
        """Written a part at a time, for tasks to read."""
        place = self._work / "answers" / f"{name}.npy"
        put_rows(place, values)
        return RowShards([place], [len(values)], values.shape[1:], values.dtype)

    def _add_up(self, node_type: str, run: Run, parts: int) -> Statistics:
        features = features_of(self._graph, node_type)
        count = features.count
        chunks = max(1, -(-count // (CHUNK * max(1, parts))))

        def sums(mean: Array | None) -> Iterator[Array]:
            means = None if mean is None else tuple(mean.tolist())
            work = ColumnSums(features, self._work / "statistics" / node_type, chunks, means)
            run(work.add, range(work.tasks()), "means" if mean is None else "deviations")
            return work.read()

        return statistics_of(count, features.width, sums)


def _files_of(values: Any) -> tuple[tuple[Place, ...], tuple[int, ...]] | None:
    """The files an array of features is read from, and the first row after each; None: it is in memory."""
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
