"""FastGCN (Chen, Ma and Xiao, ICLR 2018): a step draws nodes for every layer, by how much the graph hears them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.models import Shape
from gamlp.peers.contract import options_of
from gamlp.peers.samplers.neighbours import Incoming, incoming, take_rows
from gamlp.peers.samplers.networks import dropped, linear
from gamlp.peers.tensors import GraphRows, GraphTensors, Sampler
from gamlp.recipe import Recipe

LAYERWISE: dict[str, Any] = {"samples": 400}


@dataclass(frozen=True)
class SymmetricOperator:
    """Â = D̃^-1/2 (A + I) D̃^-1/2 of a graph, edges by target; `loops[v]` is Â(v, v)."""

    near: Incoming
    values: Array  # of the edges, as they stand in `near`
    loops: Array

    @classmethod
    def of(cls, tensors: GraphTensors) -> SymmetricOperator:
        """Made once a graph."""
        if "symmetric" not in tensors.kept:
            near = incoming(tensors)
            weights = np.ones(len(near.sources)) if near.weights is None else near.weights.astype(np.float64)
            targets = np.repeat(np.arange(tensors.nodes), near.degrees)
            scale = (np.bincount(targets, weights, minlength=tensors.nodes) + 1) ** -0.5
            tensors.kept["symmetric"] = cls(near, weights * scale[targets] * scale[near.sources], scale**2)
        found: SymmetricOperator = tensors.kept["symmetric"]
        return found

    @cached_property
    def chances(self) -> Array:
        """q(u) = ‖Â(:, u)‖² / Σ of all: the draw of least variance that the paper derives."""
        squares = np.bincount(self.near.sources, self.values**2, minlength=len(self.loops)) + self.loops**2
        return np.asarray(squares / squares.sum())

    @cached_property
    def matrix(self) -> Tensor:
        """All of it but the loops, sparse CSR, float32."""
        offsets, sources = torch.from_numpy(self.near.offsets), torch.from_numpy(self.near.sources)
        values = torch.from_numpy(self.values.astype(np.float32))
        return torch.sparse_csr_tensor(offsets, sources, values, (len(self.loops),) * 2, check_invariants=False)

    def times(self, hidden: Tensor) -> Tensor:
        """Â h of all nodes."""
        found: Tensor = torch.sparse.mm(self.matrix, hidden)
        return found + torch.from_numpy(self.loops.astype(np.float32))[:, None] * hidden

    def block(self, targets: Array, sources: Array, scale: Array) -> Tensor:
        """Â(targets, sources) with each column times `scale`; sources ascend. Only edges into the targets are read."""
        local = np.full(len(self.loops), -1)
        local[sources] = np.arange(len(sources))
        found, counts = self.near.positions(targets)
        columns = np.concatenate([local[self.near.sources[found]], local[targets]])
        rows = np.concatenate([np.repeat(np.arange(len(targets)), counts), np.arange(len(targets))])
        values = np.concatenate([self.values[found], self.loops[targets]])
        inside = np.flatnonzero(columns >= 0)
        order = inside[np.argsort(rows[inside], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=len(targets)))])
        scaled = torch.from_numpy((values[order] * scale[columns[order]]).astype(np.float32))
        shape = (len(targets), len(sources))
        return torch.sparse_csr_tensor(
            torch.from_numpy(offsets), torch.from_numpy(columns[order]), scaled, shape, check_invariants=False
        )


@dataclass(frozen=True)
class LayeredPart(GraphTensors):
    """Nodes drawn for the input, and a matrix a layer, from the input on; the last one's rows are `origin`."""

    matrices: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class LayerSampler:
    """Batches of rows in random order; a layer's mean over all nodes is one over `samples` nodes drawn for it.

    Drawn with replacement by q: Σ_u Â(v, u) h(u) ≈ (1 / t) Σ_j Â(v, u_j) h(u_j) / q(u_j), which is right in the mean.
    """

    tensors: GraphTensors
    rows: Array
    layers: int
    samples: int
    batch: int

    def __call__(self, generator: torch.Generator) -> Iterator[GraphTensors]:
        order = torch.randperm(len(self.rows), generator=generator).numpy()
        for start in range(0, len(order), self.batch):
            yield self.part(self.rows[order[start : start + self.batch]], generator)

    def part(self, rows: Array, generator: torch.Generator) -> LayeredPart:
        """Of one batch."""
        operator, targets, matrices = SymmetricOperator.of(self.tensors), rows, []
        for _ in range(self.layers):
            drawn, counts = self._drawn(operator, generator)
            matrices.append(operator.block(targets, drawn, counts / (self.samples * operator.chances[drawn])))
            targets = drawn
        origin, own = torch.from_numpy(rows), self.tensors.origin
        return LayeredPart(
            take_rows(self.tensors.x, torch.from_numpy(targets)),
            torch.zeros((2, 0), dtype=torch.int64),
            origin=origin if own is None else own[origin],
            matrices=tuple(reversed(matrices)),
        )

    def _drawn(self, operator: SymmetricOperator, generator: torch.Generator) -> tuple[Array, Array]:
        """Nodes, ascending, and how often each came."""
        uniform = torch.rand(self.samples, generator=generator, dtype=torch.float64).numpy()
        ends = np.cumsum(operator.chances)
        found = np.searchsorted(ends, uniform * ends[-1], side="right")
        nodes, counts = np.unique(found, return_counts=True)
        return nodes, counts


def layer_sampler(train: GraphRows[GraphTensors], recipe: Recipe, seed: int) -> Sampler:
    """FastGCN's, by the recipe's `samples`, as many for each layer."""
    samples = options_of(recipe, LAYERWISE)["samples"]
    if not samples:
        raise GamlpError("'model.options.samples' is 0", hint="give how many nodes a layer draws, such as 400")
    rows = np.asarray(train.rows, np.int64)
    return LayerSampler(train.tensors, rows, recipe.model.layers, samples, recipe.training.batch_size)


class FastGCN(nn.Module):
    """GCN's layers, H ← relu(Â H W + b): Â as drawn in training, the whole of it where rows are scored."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1), shape.classes]
        self.layers = nn.ModuleList([nn.Linear(*pair, bias=False) for pair in itertools.pairwise(widths)])
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(width)) for width in widths[1:]])
        self.dropout = settings.dropout

    def forward(self, tensors: GraphTensors, known: Tensor | None = None) -> Tensor:
        hidden, matrices = tensors.x, tensors.matrices if isinstance(tensors, LayeredPart) else ()
        whole = None if matrices else SymmetricOperator.of(tensors)
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            own = linear(dropped(hidden, self.dropout, self.training), layer)
            mixed = torch.sparse.mm(matrices[index], own) if whole is None else whole.times(own)
            hidden = mixed + self.bias[index]
            if index + 1 < len(self.layers):
                hidden = functional.relu(hidden)
        return hidden if matrices else tensors.asked(hidden)
