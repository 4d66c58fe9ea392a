"""MLP: logits = MLP(X^(0)); the graph is not looked at."""

from __future__ import annotations

from torch import Tensor, nn

from gamlp.models.mlp import MLP, dropout
from gamlp.models.shape import Branches, HopWeights, Shape, one_channel


class PlainMLP(nn.Module):
    """Only hop 0, a node's own features, is read: what the graph adds is what others are better by.

    >>> import torch
    >>> PlainMLP(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        shape: Shape,
        *,
        hidden: int = 256,
        layers: int = 3,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
        batch_norm: bool = False,
        initial_residual: float = 0.0,
    ) -> None:
        super().__init__()
        one_channel(shape, "an MLP")
        self.input_dropout = input_dropout
        options = {"dropout": dropout, "batch_norm": batch_norm, "initial_residual": initial_residual}
        self.mlp = MLP(shape.features, hidden, shape.classes, layers, **options)  # type: ignore[arg-type]

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        logits: Tensor = self.mlp(dropout(x[:, 0, 0], self.input_dropout, self.training))
        return logits

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """MLP(X^(k)) of every hop k; hop 0's are the logits."""
        each = self.mlp.each(x[:, 0])
        return Branches(each[:, 0], each_hop=each)

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """All weight on hop 0."""
        weights = x.new_zeros(x.shape[0], x.shape[2])
        weights[:, 0] = 1
        return HopWeights(weights)
