"""S²GC (Zhu and Koniusz, 2021): logits = MLP(1/K Σ_{k=1..K} ((1-α) X^(k) + α X^(0)))."""

from __future__ import annotations

from typing import Any

from gamlp.models.fixed import FixedMixture
from gamlp.models.mlp import MLPOptions
from gamlp.models.shape import Shape


class S2GC(FixedMixture):
    """Simple spectral graph convolution: the mean over hops, with a share of a node's own features.

    >>> S2GC(Shape(features=4, classes=3, hops=2), alpha=0.2).weights
    (0.2, 0.4, 0.4)
    """

    def __init__(self, shape: Shape, *, alpha: float = 0.05, **options: Any) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"S²GC's alpha is a share from 0 to 1, not {alpha}")
        super().__init__(shape, mean_weights(shape.hops, alpha), MLPOptions(**{"layers": 1, **options}))


def mean_weights(hops: int, alpha: float) -> list[float]:
    """w_0 = α, w_k = (1-α)/K; with no hops, all on X^(0)."""
    return [alpha, *([(1 - alpha) / hops] * hops)] if hops else [1.0]
