"""What the rows that are asked for hear: layer by layer the nodes whose values they need, and no others.

Of Amazon Computers' 200 training rows the last layer reads one entry of a hundred, the one before it half of them.
Layers that normalise over all nodes while they train (batch norm) need all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.peers.message_passing.dropping import Among
from gamlp.peers.message_passing.sparse import Matrix, Pattern, adjacency, features_of, taken
from gamlp.peers.tensors import GraphTensors

_MOST = 0.8  # share of entries, or of nodes, from which on all are taken as they are


@dataclass(frozen=True)
class LayerReach:
    """Of one layer: `matrix[answers, inputs]` of the nodes that it answers for and of those that it reads.

    `own` are the places of the answers among the inputs, `inputs` the inputs among all nodes, `entries` the matrix's
    among those of the whole one; None: all, in order.
    """

    matrix: Matrix
    own: Tensor | None = None
    inputs: Among | None = None
    entries: Among | None = None

    def kept(self, values: Tensor) -> Tensor:
        """Of values of the inputs, those of the answers."""
        return values if self.own is None else values.index_select(0, self.own)


class FirstSums(NamedTuple):
    """Of the nodes that the first layer answers for: the sums of features that they hear, and their own features."""

    heard: Tensor
    own: Tensor


@dataclass(frozen=True)
class RowReach:
    """Layers from the first to the last; what the first one's inputs are made of, and what bits are drawn for there.

    `rows` are the places of the rows asked for among the last layer's answers; None: they are those, in order.
    """

    layers: tuple[LayerReach, ...]
    features: Tensor | Matrix
    drawn: Among | None
    rows: Tensor | None

    @property
    def nodes(self) -> Among | None:
        """The first layer's inputs among all nodes."""
        return self.layers[0].inputs if self.layers else None

    def first_sums(self, changing: bool) -> FirstSums | None:
        """Where features are dense and few nodes need their sums, these, made once; None: a map goes before sums.

        `changing`: features are not the same each time (dropout).
        """
        near, features = self.layers[0], self.features
        if changing or not isinstance(features, Tensor) or near.own is None or 2 * len(near.own) > len(features):
            return None
        return self._first_sums

    @cached_property
    def _first_sums(self) -> FirstSums:
        near = self.layers[0]
        assert isinstance(self.features, Tensor)
        return FirstSums(near.matrix.times(self.features), near.kept(self.features))

    def asked(self, tensors: GraphTensors, values: Tensor) -> Tensor:
        """Of the last layer's answers, those of `tensors.rows`."""
        found = values if self.rows is None else values[self.rows]
        return found if tensors.chosen is None else found[tensors.chosen]

    def after(self, tensors: GraphTensors, index: int, values: Tensor) -> Tensor:
        """Of the answers of a layer, those of `tensors.rows`."""
        for layer in self.layers[index + 1 :]:
            values = layer.kept(values)
        return self.asked(tensors, values)


def reach(tensors: GraphTensors, kind: str, layers: int, whole: bool = False) -> RowReach:
    """Of the rows that these tensors ask for, over the matrix of that kind; made once for them.

    `whole`: all nodes in every layer, for what is not a function of a node and its neighbours alone.
    """
    if whole or tensors.reached_from is None:
        parts = (LayerReach(adjacency(tensors, kind)),) * layers
        return RowReach(parts, features_of(tensors), None, tensors.reached_from)
    key = f"reach {kind} {layers}"
    if key not in tensors.kept_of_rows:
        tensors.kept_of_rows[key] = _made(tensors, tensors.reached_from.numpy(), adjacency(tensors, kind), layers)
    found: RowReach = tensors.kept_of_rows[key]
    return found


def _made(tensors: GraphTensors, asked: Array, matrix: Matrix, layers: int) -> RowReach:
    parts: list[LayerReach] = []
    rows: Array | None = np.unique(asked)
    assert rows is not None
    places = torch.from_numpy(np.searchsorted(rows, asked))
    if not _few(matrix.pattern, rows):
        rows, places = None, torch.from_numpy(asked)
    ordered = rows is not None and np.array_equal(rows, asked)
    for left in range(layers - 1, -1, -1):
        if rows is None:
            parts.append(LayerReach(matrix))
            continue
        part, rows = _layer(matrix, rows, bool(left))
        parts.append(part)
    features, drawn = _features(tensors, rows)
    return RowReach(tuple(parts[::-1]), features, drawn, None if ordered else places)


def _few(pattern: Pattern, rows: Array) -> bool:
    return int(pattern.lengths.numpy()[rows].sum()) <= _MOST * pattern.entries


def _layer(matrix: Matrix, rows: Array, answered: bool) -> tuple[LayerReach, Array | None]:
    """(what answers for these rows, the nodes that it reads). `answered`: they are the answers of a layer before."""
    pattern, count = matrix.pattern, matrix.shape[1]
    lengths = pattern.lengths.numpy()[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(offsets[-1]) + np.repeat(pattern.offsets.numpy()[rows] - offsets[:-1], lengths)
    columns = pattern.columns.numpy()[entries]
    needed = np.zeros(count, bool)
    needed[columns] = needed[rows] = True
    inputs = np.flatnonzero(needed)
    few = _few(pattern, inputs) if answered else len(inputs) <= _MOST * count
    own, among = rows, None
    if few:
        place = np.cumsum(needed, dtype=np.int32) - np.int32(1)
        own, columns, among, count = place[rows].astype(np.int64), place[columns], Among(inputs, count), len(inputs)
    part = Pattern((len(rows), count), torch.from_numpy(offsets.astype(np.int32)), torch.from_numpy(columns))
    found = LayerReach(
        Matrix(part, taken(matrix.values, entries)), torch.from_numpy(own), among, Among(entries, pattern.entries)
    )
    return found, inputs if few else None


def _features(tensors: GraphTensors, rows: Array | None) -> tuple[Tensor | Matrix, Among | None]:
    whole = features_of(tensors)
    if rows is None:
        return whole, None
    if isinstance(whole, Tensor):
        return whole[torch.from_numpy(rows)], Among(rows, len(whole))
    pattern = whole.pattern
    lengths = pattern.lengths.numpy()[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(offsets[-1]) + np.repeat(pattern.offsets.numpy()[rows] - offsets[:-1], lengths)
    columns = torch.from_numpy(pattern.columns.numpy()[entries])
    part = Pattern((len(rows), pattern.shape[1]), torch.from_numpy(offsets.astype(np.int32)), columns)
    return Matrix(part, taken(whole.values, entries)), Among(entries, pattern.entries)
