"""SGC (Wu et al., 2019) with an MLP: logits = MLP(X^(K)). With no hops, a plain MLP."""

from __future__ import annotations

from torch import Tensor, nn

from gamlp.models.mlp import MLP, dropout
from gamlp.models.shape import Branches, HopWeights, Shape, one_channel


class SGC(nn.Module):
    """Only the last hop is read.

    >>> import torch
    >>> SGC(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    hop = -1  # the one that is read

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
        one_channel(shape, type(self).__name__)
        self.input_dropout = input_dropout
        options = {"dropout": dropout, "batch_norm": batch_norm, "initial_residual": initial_residual}
        self.mlp = MLP(shape.features, hidden, shape.classes, layers, **options)  # type: ignore[arg-type]

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        logits: Tensor = self.mlp(dropout(x[:, 0, self.hop], self.input_dropout, self.training))
        return logits

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """MLP(X^(k)) of every hop k; those of the hop that is read are the logits."""
        each = self.mlp.each_hop(x[:, 0])
        return Branches(each[:, self.hop], each_hop=each)

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """All weight on the hop that is read."""
        weights = x.new_zeros(x.shape[0], x.shape[2])
        weights[:, self.hop] = 1
        return HopWeights(weights)
