"""MLP: logits = MLP(X^(0)); the graph is not looked at."""

from __future__ import annotations

from gamlp.models.sgc import SGC


class PlainMLP(SGC):
    """Only hop 0, a node's own features, is read: what the graph adds is what others are better by.

    >>> import torch
    >>> from gamlp.models.shape import Shape
    >>> PlainMLP(Shape(features=4, classes=3, hops=2), hidden=8)(torch.zeros(5, 1, 3, 4)).shape
    torch.Size([5, 3])
    """

    hop = 0
