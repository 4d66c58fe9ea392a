"""GBP (Chen et al., 2020) with exact hops: logits = MLP(Σ_k w_k X^(k)), w_k ∝ β (1-β)^k."""

from __future__ import annotations

from typing import Any

from gamlp.models.fixed import FixedMixture
from gamlp.models.mlp import MLPOptions
from gamlp.models.shape import Shape


class GBP(FixedMixture):
    """Generalised PageRank of features by D^(r-1) Ã D^(-r); r is the recipe's `propagation.r`, its β `options.restart`.

    The paper estimates the sum by pushes and walks; here it is summed exactly.

    >>> GBP(Shape(features=4, classes=3, hops=1), restart=0.5).weights
    (0.6666666666666666, 0.3333333333333333)
    """

    def __init__(self, shape: Shape, *, restart: float = 0.1, **options: Any) -> None:
        if not 0 <= restart <= 1:
            raise ValueError(f"GBP's restart is a share from 0 to 1, not {restart}")
        options = {"hidden": 64, "layers": 2, **options}
        super().__init__(shape, pagerank_weights(shape.hops, restart), MLPOptions(**options))


def pagerank_weights(hops: int, restart: float) -> list[float]:
    """w_k = β (1-β)^k over their sum 1 - (1-β)^(K+1), so that the hops that are cut off leave no gap; β 0: the mean."""
    raw = [(1 - restart) ** hop for hop in range(hops + 1)]
    return [value / sum(raw) for value in raw]
