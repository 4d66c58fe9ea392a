"""SIGN over several operators: logits = MLP(σ([X^(0) W_0 ‖ X_1^(1) W_11 ‖ … ‖ X_C^(K) W_CK])) (Frasca et al., 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gamlp.models.mlp import HopMLP, MLPOptions, dropout
from gamlp.models.shape import Model, Shape, one_channel


class SIGN(Model):
    """A linear map of its own for every hop, then all of them side by side; no weights over hops.

    Of a graph of several relations, a map for every hop of every channel.

    >>> import torch
    >>> SIGN(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(self, shape: Shape, **options: Any) -> None:
        super().__init__()
        if not self.reads_operators and not shape.parts:
            one_channel(shape, "SIGN")
        read = MLPOptions(**options)
        self.input_dropout = read.input_dropout
        self.typed = bool(shape.parts)
        count = shape.channels * (shape.hops + 1) if self.typed else 1 + shape.channels * shape.hops
        self.norm = read.norm(count, shape.features)
        self.hops = HopMLP(count, shape.features, read.hidden, dropout=read.dropout, batch_norm=read.batch_norm)
        self.mlp = read.mlp(count * read.hidden, shape.classes)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        read = x.flatten(1, 2) if self.typed else x[:, 0]
        if x.shape[1] > 1 and not self.typed:  # X^(0) is the same in every channel, and is read once
            read = torch.cat([read, x[:, 1:, 1:].flatten(1, 2)], 1)
        if self.norm is not None:
            read = self.norm(read)
        logits: Tensor = self.mlp(self.hops(dropout(read, self.input_dropout, self.training)).flatten(1))
        return logits


class SIGNXL(SIGN):
    """A linear map of its own for every hop of every operator (a channel), then all of them side by side.

    >>> import torch
    >>> from gamlp.models.shape import Shape
    >>> SIGNXL(Shape(features=4, classes=3, hops=2, channels=3), hidden=8)(torch.zeros(5, 3, 3, 4)).shape
    torch.Size([5, 3])
    """

    reads_operators = True
