"""PyG's layers, with its sums over edges done as sparse products: the same parameters, equations and first weights.

PyG gathers one message an edge and scatters them; a product with the CSR moves a tenth of that memory.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GENConv, SAGEConv, TransformerConv
from torch_geometric.nn.dense.linear import Linear

from gamlp.peers.message_passing.dropping import Among, dropped
from gamlp.peers.message_passing.heads import attention, scores, softmax, weighted
from gamlp.peers.message_passing.reach import FirstSums, LayerReach
from gamlp.peers.message_passing.sparse import Matrix

Features = Tensor | Matrix


class SparseLinear(Linear):  # type: ignore[misc]
    """x Wᵀ + b of features that may be sparse."""

    def forward(self, x: Features) -> Tensor:
        if isinstance(x, Tensor):
            found: Tensor = super().forward(x)
            return found
        found = x.times(self.weight.t())
        return found if self.bias is None else found + self.bias


class InitialisedLinear(SparseLinear):
    """A linear layer with Glorot's weights and no bias at first, as PyG's layers have them."""

    def __init__(self, inner: int, outer: int, bias: bool = True) -> None:
        super().__init__(inner, outer, bias=bias, weight_initializer="glorot", bias_initializer="zeros")


def dropout(x: Features, share: float, training: bool, among: Among | None = None) -> Any:
    """Of a sparse matrix, of what is not zero: zeros stay zeros."""
    return x.dropped(share, training, among) if isinstance(x, Matrix) else dropped(x, share, training, among)


class Convolution(GCNConv):  # type: ignore[misc]
    """Â x W + b, where Â = D^-1/2 (A + I) D^-1/2 is given."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__(inner, outer, normalize=False)
        self.lin = InitialisedLinear(inner, outer, bias=False)

    def forward(self, x: Features, near: LayerReach, first: FirstSums | None = None) -> Tensor:
        found: Tensor = (near.matrix.times(self.lin(x)) if first is None else self.lin(first.heard)) + self.bias
        return found


class Attention(GATConv):  # type: ignore[misc]
    """Σ_j α_ij W x_j + b for every head, α = softmax_j LeakyReLU(a · [W x_i ‖ W x_j]), j over neighbours and i."""

    def __init__(self, inner: int, outer: int, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(inner, outer, heads, concat, dropout=dropout, add_self_loops=False)
        # PyG's forward takes dense features only: ours maps them, and PyG's own map does nothing.
        self.map, self.lin = InitialisedLinear(inner, heads * outer, bias=False), nn.Identity()

    def forward(self, x: Features, near: LayerReach) -> Tensor:
        pattern, values = near.matrix.pattern, self.map(x).view(-1, self.heads, self.out_channels)
        source, target = (values * self.att_src).sum(-1), (near.kept(values) * self.att_dst).sum(-1)
        alpha = attention(pattern, source, target, self.negative_slope)
        alpha = dropped(alpha, self.dropout, self.training, near.entries)
        sums = weighted(pattern, alpha.t(), values.transpose(0, 1)).transpose(0, 1)
        found: Tensor = (sums.flatten(1) if self.concat else sums.mean(1)) + self.bias
        return found


class Transformer(TransformerConv):  # type: ignore[misc]
    """Σ_j α_ij V x_j, gated with a linear map of x_i; α = softmax_j (Q x_i · K x_j / √d), j over neighbours."""

    def __init__(self, inner: int, outer: int, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(inner, outer, heads, concat, beta=True, dropout=dropout)

    def forward(self, x: Tensor, near: LayerReach) -> Tensor:
        found: Tensor = super().forward((x, near.kept(x)), near)
        return found

    def propagate(
        self, near: LayerReach, *, query: Tensor, key: Tensor, value: Tensor, edge_attr: Any = None, size: Any = None
    ) -> Tensor:
        pattern = near.matrix.pattern
        alike = scores(pattern, query.transpose(0, 1), key.transpose(0, 1)) / math.sqrt(self.out_channels)
        alpha = dropped(softmax(pattern, alike.t()), self.dropout, self.training, near.entries)
        return weighted(pattern, alpha.t(), value.transpose(0, 1)).transpose(0, 1).contiguous()


class Mean(SAGEConv):  # type: ignore[misc]
    """W₁ mean_j x_j + b + W₂ x_i, the mean's matrix D^-1 A given. The map goes first: it is narrower than features."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__(inner, outer)
        self.lin_l, self.lin_r = InitialisedLinear(inner, outer), InitialisedLinear(inner, outer, bias=False)

    def forward(self, x: Features, near: LayerReach, first: FirstSums | None = None) -> Tensor:
        found: Tensor
        if first is not None:
            found = self.lin_l(first.heard) + self.lin_r(first.own)
            return found
        # Both maps in one product: features are read once.
        both = torch.cat([self.lin_l.weight, self.lin_r.weight]).t()
        mapped = x.times(both) if isinstance(x, Matrix) else x @ both
        heard, own = mapped.chunk(2, 1)
        found = near.matrix.times(heard) + self.lin_l.bias + near.kept(own)
        return found


class Softmaxed(GENConv):  # type: ignore[misc]
    """MLP(x_i + Σ_j softmax_j(t m_j) ⊙ m_j), m_j = relu(x_j) + ε: the softmax is over neighbours, for each channel.

    m_j is the same for all who hear j, so both sums of the softmax are products with A.
    """

    def __init__(self, inner: int, outer: int, temperature: float) -> None:
        super().__init__(inner, outer, aggr="softmax", t=temperature, learn_t=True, num_layers=2)

    def forward(self, x: Tensor, near: LayerReach) -> Tensor:
        message = functional.relu(x) + self.eps
        strength = message * self.aggr_module.t
        # One bound for a channel, not one for a node: exp stays within range unless t m spreads over more than 80.
        raised = torch.exp((strength - strength.detach().amax(0)).clamp_min(-80.0))
        sums = near.matrix.times(torch.cat([raised * message, raised], 1))
        above, below = sums.chunk(2, 1)
        found: Tensor = self.mlp(near.kept(x) + above / (below + 1e-38))
        return found
