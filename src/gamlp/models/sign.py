"""SIGN over several operators: logits = MLP(σ([X^(0) W_0 ‖ X_1^(1) W_11 ‖ … ‖ X_C^(K) W_CK])) (Frasca et al., 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gamlp.models.mlp import MLP, HopMLP, dropout
from gamlp.models.shape import HopWeights, Shape, one_channel


class SIGN(nn.Module):
    """A linear map of its own for every hop, then all of them side by side; no weights over hops.

    Of a graph of several relations, a map for every hop of every channel.

    >>> import torch
    >>> SIGN(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    several = False  # whether more than one channel is read

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
        if not self.several and not shape.parts:
            one_channel(shape, "SIGN")
        self.input_dropout = input_dropout
        self.typed = bool(shape.parts)
        count = shape.channels * (shape.hops + 1) if self.typed else 1 + shape.channels * shape.hops
        self.hops = HopMLP(count, shape.features, hidden, dropout=dropout, batch_norm=batch_norm)
        self.mlp = MLP(
            count * hidden,
            hidden,
            shape.classes,
            layers,
            dropout=dropout,
            batch_norm=batch_norm,
            initial_residual=initial_residual,
        )

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        read = x.flatten(1, 2) if self.typed else x[:, 0]
        if x.shape[1] > 1 and not self.typed:  # X^(0) is the same in every channel, and is read once
            read = torch.cat([read, x[:, 1:, 1:].flatten(1, 2)], 1)
        logits: Tensor = self.mlp(self.hops(dropout(read, self.input_dropout, self.training)).flatten(1))
        return logits

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """None: hops are mixed by matrices."""
        return HopWeights(None)


class SIGNXL(SIGN):
    """A linear map of its own for every hop of every operator (a channel), then all of them side by side.

    >>> import torch
    >>> from gamlp.models.shape import Shape
    >>> SIGNXL(Shape(features=4, classes=3, hops=2, channels=3), hidden=8)(torch.zeros(5, 3, 3, 4)).shape
    torch.Size([5, 3])
    """

    several = True
