"""Peers that train on sampled parts: GraphSAGE, Cluster-GCN, GraphSAINT. Scored exactly, by all neighbours.

A mean over neighbours is one sparse product, so that a million nodes are scored without a message an edge in memory.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.samplers.clusters import CLUSTERS
from gamlp.peers.samplers.neighbours import SampledPart, incoming, whole_neighbourhood
from gamlp.peers.tensors import GraphTensors
from gamlp.recipe import Recipe


def mean_matrix(tensors: GraphTensors) -> Tensor:
    """D^-1 A of the graph as sparse CSR, made once: row v times h is the mean of what v hears, zero if nothing.

    Where a sampler corrected its part, the weights are taken as they are.
    """
    if "mean" not in tensors.kept:
        near = incoming(tensors)
        given = near.weights if isinstance(tensors, SampledPart) and tensors.normalised else near.mean_weights()
        assert given is not None
        offsets, sources = torch.from_numpy(near.offsets), torch.from_numpy(near.sources)
        tensors.kept["mean"] = torch.sparse_csr_tensor(
            offsets, sources, torch.from_numpy(given), (tensors.nodes, tensors.nodes), check_invariants=False
        )
    found: Tensor = tensors.kept["mean"]
    return found


def mean_of_neighbours(tensors: GraphTensors, hidden: Tensor, targets: int) -> Tensor:
    """(D^-1 A h) of the first `targets` nodes, which hear none beyond `hidden`."""
    found: Tensor = torch.sparse.mm(head(mean_matrix(tensors), targets, len(hidden)), hidden)
    return found


def head(values: Tensor, rows: int, columns: int | None = None) -> Tensor:
    """The first rows of a matrix; `columns`: of a sparse one, how wide it becomes."""
    if values.layout != torch.sparse_csr:
        return values[:rows]
    shape = (rows, columns or values.shape[1])
    if shape == tuple(values.shape):
        return values
    offsets = values.crow_indices()[: rows + 1]
    last = int(offsets[-1])
    return torch.sparse_csr_tensor(
        offsets, values.col_indices()[:last], values.values()[:last], shape, check_invariants=False
    )


def reach(tensors: GraphTensors, layers: int) -> list[int]:
    """How many nodes each layer is computed for: fewer from layer to layer where the part knows its steps."""
    if not isinstance(tensors, SampledPart) or not tensors.within:
        return [tensors.nodes] * layers
    return [tensors.within[layers - 1 - layer] for layer in range(layers)]


def dropped(values: Tensor, share: float, training: bool) -> Tensor:
    """Dropout; of a sparse matrix, of what is not zero."""
    if not training or not share or values.layout != torch.sparse_csr:
        return functional.dropout(values, share, training)
    kept = functional.dropout(values.values(), share)
    return torch.sparse_csr_tensor(
        values.crow_indices(), values.col_indices(), kept, values.shape, check_invariants=False
    )  # fmt: skip


def linear(values: Tensor, layer: nn.Linear) -> Tensor:
    """layer(values), values dense or sparse."""
    if values.layout != torch.sparse_csr:
        found: Tensor = layer(values)
        return found
    found = torch.sparse.mm(values, layer.weight.t())
    return found if layer.bias is None else found + layer.bias


class _Pairs(nn.Module, ABC):
    """Layers with one weight for a node itself and one for the mean of its neighbours; then a linear classifier."""

    def __init__(self, shape: Shape, recipe: Recipe, joined: int) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden * joined] * settings.layers]
        self.own = nn.ModuleList([nn.Linear(width, settings.hidden) for width in widths[:-1]])
        self.near = nn.ModuleList([nn.Linear(width, settings.hidden, bias=False) for width in widths[:-1]])
        self.last = nn.Linear(widths[-1], shape.classes)
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        tensors = whole_neighbourhood(tensors, len(self.own))
        hidden = tensors.x
        for layer, targets in enumerate(reach(tensors, len(self.own))):
            hidden = dropped(hidden, self.dropout, self.training)
            own, near = self.own[layer], self.near[layer]
            assert isinstance(own, nn.Linear) and isinstance(near, nn.Linear)
            mean = mean_of_neighbours(tensors, linear(hidden, near), targets)
            hidden = self.combined(layer, linear(head(hidden, targets), own), mean)
        hidden = functional.normalize(tensors.asked(hidden), dim=1)
        found: Tensor = self.last(functional.dropout(hidden, self.dropout, self.training))
        return found

    @abstractmethod
    def combined(self, layer: int, own: Tensor, mean: Tensor) -> Tensor:
        """A layer's output `[targets, width]` of a node's own part and of its neighbours' mean."""


class SampledSAGE(_Pairs):
    """GraphSAGE, mean (Hamilton et al., 2017): h ← relu(W [h ‖ mean h of neighbours]), h ← h / ‖h‖."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe, 1)

    def combined(self, layer: int, own: Tensor, mean: Tensor) -> Tensor:
        return functional.normalize(functional.relu(own + mean), dim=1)


class GraphSAINT(_Pairs):
    """GraphSAINT's net (Zeng et al., 2020): h ← [norm relu(W h) ‖ norm relu(W' mean h)], norm of a row with a scale."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe, 2)
        width, layers = recipe.model.hidden, recipe.model.layers
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])

    def combined(self, layer: int, own: Tensor, mean: Tensor) -> Tensor:
        first, second = self.norms[2 * layer], self.norms[2 * layer + 1]
        return torch.cat([first(functional.relu(own)), second(functional.relu(mean + self.bias[layer]))], 1)


class ClusterGCN(nn.Module):
    """Cluster-GCN (Chiang et al., 2019), equation 11: h ← relu((Ã + λ diag Ã) h W + b), Ã = (D + I)^-1 (A + I).

    D is the part's, as there: edges that leave it are not counted. λ is `model.options.diagonal`.
    """

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1), shape.classes]
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList([nn.Linear(inner, outer, bias=False) for inner, outer in pairs])
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(width)) for width in widths[1:]])
        options = options_of(recipe, CLUSTERS)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for width in widths[1:-1]]) if options["layer_norm"] else None
        self.dropout = settings.dropout
        self.diagonal = float(options["diagonal"])

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        tensors = whole_neighbourhood(tensors, len(self.layers))
        degrees = _weighted_degrees(tensors)
        hidden = tensors.x
        for index, targets in enumerate(reach(tensors, len(self.layers))):
            layer = self.layers[index]
            assert isinstance(layer, nn.Linear)
            own = linear(dropped(hidden, self.dropout, self.training), layer)
            mean, count = mean_of_neighbours(tensors, own, targets), degrees[:targets, None]
            hidden = (count * mean + (1 + self.diagonal) * own[:targets]) / (count + 1) + self.bias[index]
            if index + 1 < len(self.layers):
                hidden = functional.relu(hidden if self.norms is None else self.norms[index](hidden))
        return tensors.asked(hidden)


def _weighted_degrees(tensors: GraphTensors) -> Tensor:
    """Σ of the weights of the edges into every node; without weights their number."""
    if tensors.weights is None:
        return tensors.degrees
    return torch.zeros(tensors.nodes).index_add_(0, tensors.edges[1], tensors.weights)
