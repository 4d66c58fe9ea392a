"""What message passing reads: a graph, or a sampled part of it, as tensors; and rows of it for the one loop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.graph import Graph, Nodes
from gamlp.propagation import Statistics, scaled_features
from gamlp.training.batches import Batch

UNKNOWN = -1
_SPARSE_BELOW = 0.2  # share of features that are not zero; dropout costs more than the product does


@dataclass(frozen=True)
class View:
    """Nodes with features x `[n, d]` (sparse CSR where few are not zero) and edges `[2, m]`, source above target.

    Edges go both ways in an undirected graph; there are no self-loops: a layer adds its own. `rows` are the nodes
    whose logits are asked for, in order; None: all. `origin` are the nodes' row numbers in the whole graph. `share`
    are weights of `rows` in the loss of training, for a sampler that corrects it; None: their mean.
    """

    x: Tensor
    edges: Tensor
    weights: Tensor | None = None
    rows: Tensor | None = None
    origin: Tensor | None = None
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    share: Tensor | None = None

    @property
    def nodes(self) -> int:
        return int(self.x.shape[0])

    @cached_property
    def degrees(self) -> Tensor:
        """Incoming edges of every node, float32."""
        return torch.bincount(self.edges[1], minlength=self.nodes).float()

    def asked(self, values: Tensor) -> Tensor:
        """Of values for all nodes, those of `rows`."""
        return values if self.rows is None else values[self.rows]

    def of_rows(self, rows: Tensor | None) -> View:
        """The same nodes and edges, other rows asked for; what was computed of them is shared."""
        return View(self.x, self.edges, self.weights, rows, self.origin, self.kept)


def view_of(graph: Graph, scaling: str = "none", statistics: Statistics | None = None) -> View:
    """The whole graph as tensors; `standard` scaling by the statistics of other rows where they are given."""
    relation = graph.relation
    parts = list(relation.edges())
    edges = np.stack([np.concatenate([part[1] for part in parts]), np.concatenate([part[0] for part in parts])])
    weights = None
    if relation.weighted:
        weights = torch.from_numpy(np.concatenate([np.asarray(part[2], np.float32) for part in parts]))
    values = feature_tensor(graph.nodes, scaling, statistics)
    return View(values, torch.from_numpy(edges.astype(np.int64)), weights)


def feature_tensor(nodes: Nodes, scaling: str = "none", statistics: Statistics | None = None) -> Tensor:
    """Features of all nodes of a type, scaled; sparse CSR where few are not zero."""
    assert nodes.features is not None
    read = scaled_features(nodes.features, scaling, statistics).read
    values = torch.from_numpy(np.require(read(slice(0, nodes.count), slice(None)), np.float32, ["C", "W"]))
    if values.numel() and int(torch.count_nonzero(values)) < _SPARSE_BELOW * values.numel():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            values = values.to_sparse_csr()
    return values


class Sampler(Protocol):
    """Parts of the graph to train on: each with its rows asked for, and their row numbers in `origin`."""

    def __call__(self, generator: torch.Generator) -> Iterator[View]: ...


@dataclass(frozen=True)
class GraphRows:
    """Some rows of a graph, as message passing trains on them or is scored by them.

    `sampler`: parts to train on, one optimiser step each; None: the whole graph at once. `known[n]` are labels that
    a model may read as input (-1 unknown); with `masked` > 0 that share of the rows is hidden from the input each
    epoch and the loss is theirs alone (UniMP).
    """

    view: View
    labels: Array  # of all nodes of the view
    rows: Array
    classes: int
    sampler: Sampler | None = None
    known: Tensor | None = None
    masked: float = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def targets(self) -> Array:
        return np.asarray(self.labels[self.rows])

    def batches(self, size: int, device: torch.device, memory: int | None = None) -> GraphBatches:
        return GraphBatches(self, device)


class GraphBatches:
    """An epoch: the whole graph once, or the sampler's parts."""

    def __init__(self, source: GraphRows, device: torch.device) -> None:
        self.source, self.device = source, device
        kind = np.float32 if source.labels.ndim == 2 else np.int64
        self._labels = torch.from_numpy(source.labels.astype(kind))
        self._rows = torch.from_numpy(np.asarray(source.rows, np.int64))
        self.target = self._labels[self._rows]
        self._view = source.view.of_rows(self._rows)

    @property
    def held(self) -> int:
        return 0

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        source = self.source
        if generator is None or (source.sampler is None and not source.masked):
            yield Batch(source.rows, self._view, source.known, self.target)
        elif source.sampler is not None:
            for view in source.sampler(generator):
                assert view.origin is not None
                rows = view.asked(view.origin)
                yield Batch(rows.numpy(), view, None, self._labels[rows], view.share)
        else:
            yield self._masked(generator)

    def _masked(self, generator: torch.Generator) -> Batch:
        assert self.source.known is not None
        hidden = torch.rand(len(self._rows), generator=generator) < self.source.masked
        if not bool(hidden.any()):
            hidden[0] = True
        rows = self._rows[hidden]
        known = self.source.known.clone()
        known[rows] = UNKNOWN
        return Batch(rows.numpy(), self.source.view.of_rows(rows), known, self._labels[rows])
