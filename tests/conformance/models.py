"""Every model the suite runs with: a name as a recipe says it. A model that is registered must pass it all."""

from __future__ import annotations

from torch import Tensor, nn

from gamlp.models import MODELS, HopWeights, Part, Shape


class Mean(nn.Module):
    """A user's own module: the mean over hops of features and of labels, two linear maps."""

    def __init__(self, shape: Shape, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.features = nn.Linear(shape.features, shape.classes)
        self.labels = nn.Linear(shape.classes, shape.classes, bias=False)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        logits: Tensor = self.scale * self.features(x.mean((1, 2)))
        return logits if y is None else logits + self.labels(y.mean((1, 2)))

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        return HopWeights(x.new_full((x.shape[0], x.shape[2]), 1 / x.shape[2]))


OWN = f"{__name__}:Mean"
NAMES = [*MODELS, OWN]

# Hops of a graph of two types on two subsets of relations, and the models that read several.
_PARTS = (Part("a", "paper", 4), Part("a+b", "paper", 4), Part("a+b", "author", 3))
TYPED = Shape(4, 3, 2, 2, channels=3, parts=_PARTS, label_views=("a", "a+b"))
TYPED_NAMES = ["gamlp", "nars", "sign", "sign-xl", OWN]
