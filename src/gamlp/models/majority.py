"""The answer that needs neither features nor a graph: every node has each class as often as training rows do."""

from __future__ import annotations

import torch
from torch import Tensor

from gamlp.models.shape import Model, Shape
from gamlp.models.solving import ToSolve


class Majority(Model):
    """Logits are the logarithm of each class's share of the training rows: the commonest class is said of all nodes.

    >>> Majority(Shape(features=4, classes=3, hops=0))(torch.zeros(5, 1, 1, 4)).shape
    torch.Size([5, 3])
    """

    reads_features = False

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shares: Tensor
        self.register_buffer("shares", torch.zeros(shape.classes))  # as logits

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`, the same for every row."""
        return self.shares.expand(x.shape[0], -1)

    def solve(self, given: ToSolve) -> dict[str, float]:
        """Count. Half a row more for every class, so that none is impossible."""
        train = given.train
        classes, rows = len(self.shares), len(train.target)
        if train.multi_label:
            shares = (train.target.clamp_min(0).sum(0).double() + 0.5) / (rows + 1)
            self.shares.copy_(torch.logit(shares))
        else:
            counts = torch.bincount(train.target, minlength=classes).double() + 0.5
            self.shares.copy_((counts / counts.sum()).log())
        return {}
