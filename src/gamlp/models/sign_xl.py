"""SIGN over several operators: logits = MLP(σ([X^(0) W_0 ‖ X_1^(1) W_11 ‖ … ‖ X_C^(K) W_CK])) (Frasca et al., 2020)."""

from __future__ import annotations

from gamlp.models.sign import SIGN


class SIGNXL(SIGN):
    """A linear map of its own for every hop of every operator (a channel), then all of them side by side.

    >>> import torch
    >>> from gamlp.models.shape import Shape
    >>> SIGNXL(Shape(features=4, classes=3, hops=2, channels=3), hidden=8)(torch.zeros(5, 3, 3, 4)).shape
    torch.Size([5, 3])
    """

    several = True
