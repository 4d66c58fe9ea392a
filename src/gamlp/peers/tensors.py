"""What message passing reads: a graph, or a sampled part of it, as tensors; and rows of it for the one loop."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import Graph, Nodes, Relation
from gamlp.propagation import Statistics, feature_statistics, scaled_features
from gamlp.training import Batch, target_tensor

UNKNOWN = -1
_SPARSE_BELOW = 0.2  # share of features that are not zero; dropout costs more than the product does


@dataclass(frozen=True)
class GraphTensors:
    """Nodes with features x `[n, d]` (sparse CSR where few are not zero) and edges `[2, m]`, source above target.

    Edges go both ways in an undirected graph; there are no self-loops: a layer adds its own. `rows` are the nodes
    whose logits are asked for, in order; None: all. `origin` are the nodes' row numbers in the whole graph. `share`
    are weights of `rows` in the loss of training, for a sampler that corrects it; None: their mean. `chosen` are
    places among `all_rows`, the rows of other tensors of which these ask for some: what was computed for those rows
    (`kept_of_rows`) is shared.
    """

    x: Tensor
    edges: Tensor
    weights: Tensor | None = None
    rows: Tensor | None = None
    origin: Tensor | None = None
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    share: Tensor | None = None
    kept_of_rows: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    chosen: Tensor | None = None
    all_rows: Tensor | None = None

    @property
    def reached_from(self) -> Tensor | None:
        """The rows that `chosen` are some of; without it, `rows`."""
        return self.rows if self.all_rows is None else self.all_rows

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

    def of_rows(self, rows: Tensor | None) -> GraphTensors:
        """The same nodes and edges, other rows asked for; what was computed of them is shared."""
        return GraphTensors(self.x, self.edges, self.weights, rows, self.origin, self.kept)

    def some_rows(self, chosen: Tensor) -> GraphTensors:
        """Some of the rows, by their places; what was computed for all of them is shared."""
        assert self.rows is not None
        return replace(self, rows=self.rows[chosen], chosen=chosen, all_rows=self.rows)


def graph_tensors(graph: Graph, scaling: str = "none", statistics: Statistics | None = None) -> GraphTensors:
    """The whole graph as tensors; `standard` scaling by the statistics of other rows where they are given."""
    relation = graph.relation
    weights = _weights(relation) if relation.weighted else None
    return GraphTensors(feature_tensor(graph.nodes, scaling, statistics), _edges(relation), weights)


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


@dataclass(frozen=True)
class TypedRelation:
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
    relations: dict[str, TypedRelation]

    def into(self, *node_types: str) -> tuple[str, ...]:
        """Relations that lead to these types, in the graph's order."""
        return tuple(name for name, relation in self.relations.items() if relation.target in node_types)

    def heard(self, layers: int) -> list[Heard]:
        """What each layer computes so that the last one knows the target nodes: all else would be for nothing."""
        node_types, found = {self.target}, []
        for _ in range(layers):
            relations = self.into(*node_types)
            found.append(Heard(relations, tuple(node_type for node_type in self.counts if node_type in node_types)))
            node_types |= {self.relations[name].source for name in relations}
        return found[::-1]


class Heard(NamedTuple):
    """Of a layer: the relations that it listens to, and the types that it gives."""

    relations: tuple[str, ...]
    node_types: tuple[str, ...]


@dataclass(frozen=True)
class TypedTensors:
    """Features by type (`[n, d]`, sparse CSR where few are not zero; None: none) and edges `[2, m]` by relation.

    An edge is source above target, each the row number within its type. `rows` are the target nodes whose logits are
    asked for; None: all. `kept` holds what was computed of the graph, shared between tensors of other rows.
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

    def of_rows(self, rows: Tensor | None) -> TypedTensors:
        """The same graph, other rows asked for."""
        return replace(self, rows=rows)


def typed_tensors(graph: Graph, scaling: str = "none", statistics: dict[str, Statistics] | None = None) -> TypedTensors:
    """The whole graph as tensors; `standard` scaling by the statistics of other rows where they are given."""
    labels = graph.nodes.labels
    shape = TypedShape(
        graph.target,
        0 if labels is None else len(labels.classes),
        {
            node_type: 0 if nodes.features is None else nodes.features.width
            for node_type, nodes in graph.node_types.items()
        },
        {node_type: nodes.count for node_type, nodes in graph.node_types.items()},
        {name: _typed_relation(relation) for name, relation in graph.relations.items()},
    )
    known = statistics or {}
    x = {
        node_type: None if nodes.features is None else feature_tensor(nodes, scaling, known.get(node_type))
        for node_type, nodes in graph.node_types.items()
    }
    edges = {name: _edges(relation) for name, relation in graph.relations.items()}
    weights = {name: _weights(relation) for name, relation in graph.relations.items() if relation.weighted}
    return TypedTensors(shape, x, edges, weights)


def typed_statistics(graph: Graph) -> dict[str, Statistics]:
    """Of every type's features."""
    node_types = [node_type for node_type, nodes in graph.node_types.items() if nodes.features is not None]
    return {node_type: feature_statistics(replace(graph, target=node_type)) for node_type in node_types}


def check_alike(shape: TypedShape, other: TypedShape, name: str) -> None:
    """A graph that a model is scored on has the types, widths and relations that it was built for."""
    if (shape.widths, shape.relations) != (other.widths, other.relations):
        raise GamlpError(f"graph '{name}' has other types, features or relations than the graph that trains")
    for node_type, width in shape.widths.items():
        if not width and shape.counts[node_type] != other.counts[node_type]:
            raise GamlpError(
                f"nodes of type '{node_type}' have no features: what is learnt of them does not hold in graph '{name}'",
                hint="give them features",
            )


def _typed_relation(relation: Relation) -> TypedRelation:
    # An undirected relation holds its own reverse.
    own = relation.name if not relation.directed and relation.source == relation.target else None
    return TypedRelation(relation.source, relation.target, relation.reverse or own)


def _edges(relation: Relation) -> Tensor:
    parts = [np.stack([neighbours, rows]) for rows, neighbours, _ in relation.edges()]
    return torch.from_numpy(np.concatenate([np.zeros((2, 0), np.int64), *parts], 1).astype(np.int64))


def _weights(relation: Relation) -> Tensor:
    parts = [np.ones(len(rows)) if weights is None else weights for rows, _, weights in relation.edges()]
    return torch.from_numpy(np.concatenate([np.zeros(0), *parts]).astype(np.float32))


Tensors = TypeVar("Tensors", GraphTensors, TypedTensors)


class Sampler(Protocol):
    """Parts of the graph to train on: each with its rows asked for, and their row numbers in `origin`."""

    def __call__(self, generator: torch.Generator) -> Iterator[GraphTensors]: ...


@dataclass(frozen=True)
class GraphRows(Generic[Tensors]):
    """Some target rows of a graph, as message passing trains on them or is scored by them.

    `sampler`: parts to train on, one optimiser step each; None: the whole graph at once. `known[n]` are labels that
    a model may read as input (-1 unknown); with `masked` > 0 that share of the rows is hidden from the input each
    epoch and the loss is theirs alone (UniMP).
    """

    tensors: Tensors
    labels: Array  # of all nodes of the graph
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

    def __init__(self, source: GraphRows[Any], device: torch.device) -> None:
        self.source, self.device = source, device
        self._labels = target_tensor(source.labels)
        self._rows = torch.from_numpy(np.asarray(source.rows, np.int64))
        self.target = self._labels[self._rows]
        self._tensors = source.tensors.of_rows(self._rows)

    @property
    def held(self) -> int:
        return 0

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        source = self.source
        if generator is None or (source.sampler is None and not source.masked):
            yield Batch(source.rows, self._tensors, source.known, self.target)
        elif source.sampler is not None:
            for tensors in source.sampler(generator):
                assert tensors.origin is not None
                rows = tensors.asked(tensors.origin)
                yield Batch(rows.numpy(), tensors, None, self._labels[rows], tensors.share)
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
        some = self._tensors.some_rows(torch.nonzero(hidden).ravel())
        return Batch(rows.numpy(), some, known, self._labels[rows])
