"""Peers that pass messages over the whole graph, from PyG where it has them. The one file that imports PyG's layers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from gamlp.bench.views import View
from gamlp.models.shape import Shape
from gamlp.recipe import Recipe


class GCN(nn.Module):
    """GCN (Kipf and Welling, 2017). Weight decay is of the first layer alone, as there."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        settings = recipe.model
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1), shape.classes]
        self.layers = nn.ModuleList([GCNConv(inner, outer) for inner, outer in itertools.pairwise(widths)])
        self.dropout = settings.dropout

    def decayed(self) -> Iterator[nn.Parameter]:
        return self.layers[0].parameters()

    def forward(self, view: View, known: Tensor | None = None) -> Tensor:
        hidden = view.x.to_dense() if view.x.layout == torch.sparse_csr else view.x
        for index, layer in enumerate(self.layers):
            hidden = functional.dropout(hidden, self.dropout, self.training)
            hidden = layer(hidden, view.edges, view.weights)
            if index + 1 < len(self.layers):
                hidden = functional.relu(hidden)
        return view.asked(hidden)
