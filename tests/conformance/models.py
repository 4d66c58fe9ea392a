"""Every model the suite runs with: a name as a recipe says it. A model that is registered must pass it all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gamlp.models import MODELS, HopWeights, KnownRows, Part, Shape, Solvable, ToSolve, build
from gamlp.progress import silent
from gamlp.recipe import TrainingSettings


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
HIGH_PASS = "gamlp with high_pass"
NAMES = [*MODELS, HIGH_PASS, OWN]

# Hops of a graph of two types on two subsets of relations, and the models that read several.
_PARTS = (Part("a", "paper", 4), Part("a+b", "paper", 4), Part("a+b", "author", 3))
TYPED = Shape(4, 3, 2, 2, channels=3, parts=_PARTS, label_views=("a", "a+b"))
SOLVED = ["majority", "logistic", "logistic-labels", "lightgbm", "label-spreading"]  # without epochs
TYPED_NAMES = ["gamlp", HIGH_PASS, "nars", "sign", "sign-xl", *SOLVED, "blend", OWN]


def settings_of(name: str, shape: Shape) -> dict[str, Any]:
    """Small ones, and what a model cannot do without."""
    if name == "lightgbm":
        return {"num_iterations": 30, "min_data_in_leaf": 1}
    if name == "blend":
        depth = {"hops": shape.hops, "label_hops": shape.label_hops}
        members: list[dict[str, Any]] = [
            {"model": {"name": "gamlp", "hidden": 8}, "propagation": depth | {"hops": 0}},
            {"model": {"name": "sign", "hidden": 8}, "propagation": depth},
        ]
        return {"members": members, "weights": [1.0, 3.0]}
    if name == HIGH_PASS:
        return settings_of("gamlp", shape) | {"high_pass": True}
    return {} if name in (OWN, *SOLVED) else {"hidden": 8, "dropout": 0.4}


def made(name: str, shape: Shape, seed: int = 0) -> nn.Module:
    """A model with the first weights of a seed, or those that it finds for rows of that seed."""
    torch.manual_seed(seed)
    model = build("gamlp" if name == HIGH_PASS else name, shape, settings_of(name, shape))
    if name == HIGH_PASS:  # differences weigh nothing at first
        nn.init.normal_(model.mixing.weight)
    if isinstance(model, Solvable) and name != "blend":
        x, y = hops(shape, 60, seed + 100)
        target = (x[:, :, -1, 0].sum(1) > 0).long() + y[:, -1, -1].argmax(1) // 2
        with torch.no_grad():
            known = KnownRows(x, y, target.clamp(max=shape.classes - 1))
            model.solve(ToSolve(known, None, TrainingSettings(), seed, lambda logits: (0.0,), silent))
    return model


def hops(shape: Shape, rows: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, shape.channels, shape.hops + 1, shape.features, generator=random)
    views = len(shape.label_views) or shape.channels
    return x, torch.rand(rows, views, shape.label_hops + 1, shape.classes, generator=random)
