"""SGC (Wu et al., 2019) with an MLP: logits = MLP(X^(K)). And a plain MLP, which reads X^(0)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gamlp.models.mlp import MLPOptions, dropout
from gamlp.models.shape import Branches, HopWeights, Model, Shape, one_channel


class SGC(Model):
    """Only the last hop is read.

    >>> import torch
    >>> SGC(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    hop = -1  # the one that is read

    def __init__(self, shape: Shape, **options: Any) -> None:
        super().__init__()
        one_channel(shape, type(self).__name__)
        read = MLPOptions(**options)
        self.input_dropout = read.input_dropout
        self.norm = read.norm(1, shape.features)
        self.mlp = read.mlp(shape.features, shape.classes)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        own = self._normal(x[:, 0, self.hop])
        logits: Tensor = self.mlp(dropout(own, self.input_dropout, self.training))
        return logits

    def _normal(self, own: Tensor) -> Tensor:
        """One hop `[b, d]`, by the statistics of the one that is read."""
        return own if self.norm is None else self.norm(own.unsqueeze(1)).squeeze(1)

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """MLP(X^(k)) of every hop k; those of the hop that is read are the logits."""
        each = self.mlp.each_hop(self._normal(x[:, 0].flatten(0, 1)).view_as(x[:, 0]))
        return Branches(each[:, self.hop], each_hop=each)

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """All weight on the hop that is read."""
        weights = x.new_zeros(x.shape[0], x.shape[2])
        weights[:, self.hop] = 1
        return HopWeights(weights)


class PlainMLP(SGC):
    """Only hop 0, a node's own features, is read: what the graph adds is what others are better by.

    >>> import torch
    >>> PlainMLP(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    hop = 0
