"""Hops mixed by weights that are known before training: what S²GC and GBP share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from gamlp.models.mlp import MLP, dropout
from gamlp.models.shape import Branches, HopWeights, Shape, one_channel


class FixedMixture(nn.Module):
    """logits = MLP(Σ_k w_k X^(k)), the same w for every node."""

    def __init__(
        self,
        shape: Shape,
        weights: Sequence[float],
        *,
        hidden: int,
        layers: int,
        input_dropout: float,
        dropout: float,
        batch_norm: bool,
        initial_residual: float,
    ) -> None:
        super().__init__()
        one_channel(shape, type(self).__name__)
        self.weights = tuple(weights)
        self.input_dropout = input_dropout
        self.mlp = MLP(
            shape.features,
            hidden,
            shape.classes,
            layers,
            dropout=dropout,
            batch_norm=batch_norm,
            initial_residual=initial_residual,
        )

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        mixed = x.new_tensor(self.weights) @ x[:, 0]
        logits: Tensor = self.mlp(dropout(mixed, self.input_dropout, self.training))
        return logits

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """The logits, and MLP(X^(k)) of every hop k: all weight on that one."""
        return Branches(self(x), each_hop=self.mlp.each_hop(x[:, 0]))

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """The same for every node."""
        return HopWeights(x.new_tensor(self.weights).repeat(len(x), 1))
