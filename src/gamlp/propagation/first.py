"""First values X^(0), Y^(0) of some rows, read from shared storage by a task: no array of all nodes is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.graph.graph import Features, Labels
from gamlp.propagation.first_values import stacked
from gamlp.propagation.plan import Statistics
from gamlp.row_arrays import RowShards, open_rows, put_rows
from gamlp.storage import Place

Array = np.ndarray[Any, Any]
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
