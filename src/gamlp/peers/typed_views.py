"""Graphs of several node types and relations as tensors, and rows of them for the one loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Relation
from gamlp.peers.views import feature_tensor
from gamlp.propagation import Statistics, feature_statistics
from gamlp.training.batches import Batch


@dataclass(frozen=True)
class Link:
    """A relation by its ends; `reverse` names the relation of the same edges the other way, where there is one."""

    source: str
    target: str
    reverse: str | None = None


@dataclass(frozen=True)
class TypedShape:
    """What a peer of several types is built for. A width of 0: nodes without features, each learns its own."""

    target: str
    classes: int
    widths: dict[str, int]
    counts: dict[str, int]
    links: dict[str, Link]

    def into(self, *kinds: str) -> tuple[str, ...]:
        """Relations that lead to these types, in the graph's order."""
        return tuple(name for name, link in self.links.items() if link.target in kinds)

    def heard(self, layers: int) -> list[Heard]:
        """What each layer computes so that the last one knows the target nodes: all else would be for nothing."""
        kinds, found = {self.target}, []
        for _ in range(layers):
            relations = self.into(*kinds)
            found.append(Heard(relations, tuple(kind for kind in self.counts if kind in kinds)))
            kinds |= {self.links[name].source for name in relations}
        return found[::-1]


class Heard(NamedTuple):
    """Of a layer: the relations that it listens to, and the types that it gives."""

    relations: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class TypedView:
    """Features by type (`[n, d]`, sparse CSR where few are not zero; None: none) and edges `[2, m]` by relation.

    An edge is source above target, each the row number within its type. `rows` are the target nodes whose logits are
    asked for; None: all. `kept` holds what was computed of the graph, shared between views of other rows.
    """

    shape: TypedShape
    x: dict[str, Tensor | None]
    edges: dict[str, Tensor]
    weights: dict[str, Tensor] = field(default_factory=dict)
    rows: Tensor | None = None
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def live(self, names: tuple[str, ...]) -> list[str]:
        """Of these relations, those with edges."""
        return [name for name in names if self.edges[name].shape[1]]

    def asked(self, values: Tensor) -> Tensor:
        """Of values for all target nodes, those of `rows`."""
        return values if self.rows is None else values[self.rows]

    def of_rows(self, rows: Tensor | None) -> TypedView:
        """The same graph, other rows asked for."""
        return replace(self, rows=rows)


def typed_view(graph: Graph, scaling: str = "none", statistics: dict[str, Statistics] | None = None) -> TypedView:
    """The whole graph as tensors; `standard` scaling by the statistics of other rows where they are given."""
    labels = graph.nodes.labels
    shape = TypedShape(
        graph.target,
        0 if labels is None else len(labels.classes),
        {kind: 0 if nodes.features is None else nodes.features.width for kind, nodes in graph.node_types.items()},
        {kind: nodes.count for kind, nodes in graph.node_types.items()},
        {name: _link(relation) for name, relation in graph.relations.items()},
    )
    known = statistics or {}
    x = {
        kind: None if nodes.features is None else feature_tensor(nodes, scaling, known.get(kind))
        for kind, nodes in graph.node_types.items()
    }
    edges = {name: _edges(relation) for name, relation in graph.relations.items()}
    weights = {name: _weights(relation) for name, relation in graph.relations.items() if relation.weighted}
    return TypedView(shape, x, edges, weights)


def typed_statistics(graph: Graph) -> dict[str, Statistics]:
    """Of every type's features."""
    kinds = [kind for kind, nodes in graph.node_types.items() if nodes.features is not None]
    return {kind: feature_statistics(replace(graph, target=kind)) for kind in kinds}


def check_alike(shape: TypedShape, other: TypedShape, name: str) -> None:
    """A graph that a model is scored on has the types, widths and relations that it was built for."""
    if (shape.widths, shape.links) != (other.widths, other.links):
        raise GamlpError(f"graph '{name}' has other types, features or relations than the graph that trains")
    for kind, width in shape.widths.items():
        if not width and shape.counts[kind] != other.counts[kind]:
            raise GamlpError(
                f"nodes of type '{kind}' have no features: what is learnt of them does not hold in graph '{name}'",
                hint="give them features",
            )


def _link(relation: Relation) -> Link:
    # An undirected relation holds its own reverse.
    own = relation.name if not relation.directed and relation.source == relation.target else None
    return Link(relation.source, relation.target, relation.reverse or own)


def _edges(relation: Relation) -> Tensor:
    parts = [np.stack([neighbours, rows]) for rows, neighbours, _ in relation.edges()]
    return torch.from_numpy(np.concatenate([np.zeros((2, 0), np.int64), *parts], 1).astype(np.int64))


def _weights(relation: Relation) -> Tensor:
    parts = [np.ones(len(rows)) if weights is None else weights for rows, _, weights in relation.edges()]
    return torch.from_numpy(np.concatenate([np.zeros(0), *parts]).astype(np.float32))


@dataclass(frozen=True)
class TypedRows:
    """Some target rows of a typed graph, as message passing trains on them or is scored by them, all at once."""

    view: TypedView
    labels: Array  # of all target nodes
    rows: Array
    classes: int
    known: None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def targets(self) -> Array:
        return np.asarray(self.labels[self.rows])

    def batches(self, size: int, device: torch.device, memory: int | None = None) -> TypedBatches:
        return TypedBatches(self, device)


class TypedBatches:
    """An epoch: the whole graph once."""

    held = 0

    def __init__(self, source: TypedRows, device: torch.device) -> None:
        self.device = device
        kind = np.float32 if source.labels.ndim == 2 else np.int64
        self.target = torch.from_numpy(source.targets.astype(kind))
        rows = torch.from_numpy(np.asarray(source.rows, np.int64))
        self._batch = Batch(source.rows, source.view.of_rows(rows), None, self.target)

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        yield self._batch
