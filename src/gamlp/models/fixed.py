"""Hops mixed by weights that are known before training: what S²GC and GBP share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gamlp.models.mlp import MLPOptions, dropout
from gamlp.models.shape import Branches, HopWeights, Model, Shape, one_channel


class FixedMixture(Model):
    """logits = MLP(Σ_k w_k X^(k)), the same w for every node."""

    def __init__(self, shape: Shape, weights: Sequence[float], options: MLPOptions) -> None:
        super().__init__()
        one_channel(shape, type(self).__name__)
        self.weights = tuple(weights)
        self.input_dropout = options.input_dropout
        self.norm = options.norm(shape.hops + 1, shape.features)
        self.mlp = options.mlp(shape.features, shape.classes)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        mixed = x.new_tensor(self.weights) @ self._hops(x)
        logits: Tensor = self.mlp(dropout(mixed, self.input_dropout, self.training))
        return logits

    def branches(self, x: Tensor, y: Tensor | None = None) -> Branches:
        """The logits, and MLP(X^(k)) of every hop k: all weight on that one."""
        return Branches(self(x), each_hop=self.mlp.each_hop(self._hops(x)))

    def _hops(self, x: Tensor) -> Tensor:
        return x[:, 0] if self.norm is None else self.norm(x[:, 0])

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """The same for every node."""
        return HopWeights(x.new_tensor(self.weights).repeat(len(x), 1))
