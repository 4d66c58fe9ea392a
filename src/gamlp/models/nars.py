"""NARS (Yu et al., 2020): SIGN over hops whose subsets of relations are mixed, a weight for each, hop and column."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gamlp.models.mlp import dropout
from gamlp.models.relations import mixing_of_features
from gamlp.models.shape import Model, Shape, channels_of, one_channel
from gamlp.models.sign import SIGN


class NARS(Model):
    """Neighbour averaging over relation subgraphs: logits = SIGN(Σ_c w[c, k] ∘ X_c^(k), k = 0..K).

    >>> import torch
    >>> from gamlp.models.shape import Part
    >>> parts = (Part("cites", None, 4), Part("cites+writes", None, 4))
    >>> NARS(Shape(4, 3, 2, channels=2, parts=parts), hidden=8)(torch.zeros(5, 2, 3, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        shape: Shape,
        *,
        hidden: int = 256,
        layers: int = 3,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        if not shape.parts:
            one_channel(shape, "NARS")
        self.shape, self.input_dropout = shape, input_dropout
        self.mixing = mixing_of_features(shape, hidden)
        width = shape.features if self.mixing is None else self.mixing.width
        self.sign = SIGN(
            Shape(width, shape.classes, shape.hops),
            hidden=hidden,
            layers=layers,
            dropout=dropout,
            batch_norm=batch_norm,
        )

    def forward(self, x: Tensor, y: Tensor | None = None, views: Sequence[int] | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        read = dropout(x, self.input_dropout, self.training)
        if self.mixing is not None:
            channels = None if views is None else channels_of(self.shape, views)
            read = self.mixing(read, channels).unsqueeze(1)
        logits: Tensor = self.sign(read)
        return logits

    def subset_sizes(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """How much each channel says at each hop, `[C, hops]`; None where there is one."""
        return None if self.mixing is None else self.mixing.sizes(x), None
