"""A blend of trained models: logits = log Σ_i w_i softmax(logits_i / T_i), each on its own prefix of the hops."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gamlp.errors import GamlpError
from gamlp.models.shape import HopWeights, Model, Shape
from gamlp.models.solving import ToSolve
from gamlp.recipe import Recipe

NAME = "blend"
_MOST_MEMBERS = 64
_OF_TRAINING = ("members", "subset_sample")  # of training: a blend is not trained itself
_OWN_DEPTH = ("hops", "label_hops", "folds", "fold_seed")  # of propagation: members may differ in these alone


class Blend(Model):
    """The weighted mean of what its members say, as logits; of many labels a node, logit Σ_i w_i σ(logits_i / T_i).

    `members` are recipes (propagation.hops and label_hops, and model); `weights` are made to sum to one.

    >>> members = [{"model": {"name": "sgc"}, "propagation": {"hops": 1}}, {"model": {"name": "logistic"}}]
    >>> Blend(Shape(features=4, classes=3, hops=5), members=members, weights=[1, 3])(torch.zeros(5, 1, 6, 4)).shape
    torch.Size([5, 3])
    """

    reads_labels = True
    reads_operators = True

    def __init__(
        self,
        shape: Shape,
        *,
        members: Sequence[dict[str, Any]] = (),
        weights: Sequence[float] = (),
        temperatures: Sequence[float] = (),
        multi_label: bool = False,
        beta: float = 1.0,
        label_zero: bool = False,
        label_scale: str = "none",  # how rows are read, before any member sees them
    ) -> None:
        from gamlp.models.registry import model_of  # which names this class

        super().__init__()
        if not 1 <= len(members) <= _MOST_MEMBERS or len(weights) != len(members):
            raise ValueError(f"it has 1 to {_MOST_MEMBERS} members, and a weight for each")
        temperatures = temperatures or [1.0] * len(members)
        if len(temperatures) != len(members) or not all(_above_zero(one) for one in temperatures):
            raise ValueError("temperatures are numbers above 0, one for each member")
        if not all(one == 0 or _above_zero(one) for one in weights) or not sum(weights) > 0:
            raise ValueError("weights are numbers from 0, and not all of them 0")
        recipes = [Recipe.of(one) for one in members]  # code of one's own is refused: nobody names it here
        if any(recipe.model.name == NAME for recipe in recipes):
            raise ValueError("no member is a blend itself")
        self.shape, self.multi_label = shape, bool(multi_label)
        self.shapes = [member_shape(shape, recipe) for recipe in recipes]
        if max(own.channels for own in self.shapes) < shape.channels:
            raise ValueError(f"its members read fewer than the {shape.channels} channels that there are")
        self.weights = tuple(float(one) / float(sum(weights)) for one in weights)
        self.temperatures = tuple(float(one) for one in temperatures)
        self.members = nn.ModuleList(model_of(recipe, own) for recipe, own in zip(recipes, self.shapes))

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Logits `[b, classes]`."""
        told = [
            member(*given) / heat for member, given, heat in zip(self.members, self._given(x, y), self.temperatures)
        ]
        logits = torch.stack(told)
        share = torch.tensor(self.weights, dtype=logits.dtype, device=logits.device).log()[:, None, None]
        if self.multi_label:
            has, has_not = functional.logsigmoid(logits) + share, functional.logsigmoid(-logits) + share
            return has.logsumexp(0) - has_not.logsumexp(0)
        return (functional.log_softmax(logits, 2) + share).logsumexp(0)

    def uncalibrated(self) -> Blend:
        """The same members and weights, none divided by a temperature."""
        other = copy.copy(self)
        other.temperatures = (1.0,) * len(self.temperatures)
        return other

    def _given(self, x: Tensor, y: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """What each member reads of the hops."""
        found: list[tuple[Tensor, Tensor | None]] = []
        for own in self.shapes:
            labels = None if y is None else y[:, :, : own.label_hops + 1]
            found.append((x[:, : own.channels, : own.hops + 1], labels))
        return found

    @torch.no_grad()
    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """The mean over members that weigh hops, by their weights in the blend."""
        told = []
        for member, given, weight in zip(self.members, self._given(x, y), self.weights):
            weigh = getattr(member, "hop_weights", None)
            if weigh is not None and weight > 0:
                told.append((weigh(*given), weight))
        features = [(found.features, weight) for found, weight in told if found.features is not None]
        labels = [
            (functional.pad(found.labels, (found.first_label_hop, 0)), weight)
            for found, weight in told
            if found.labels is not None
        ]
        return HopWeights(_mean(features, self.shape.hops + 1), _mean(labels, self.shape.label_hops + 1), 0)

    def solve(self, given: ToSolve) -> dict[str, float]:
        """Refused: members are trained each by itself, before they are blended."""
        raise GamlpError("a blend is made of models that are trained", hint="train its members, or use --preset best")


def member_shape(shape: Shape, recipe: Recipe) -> Shape:
    """What a member reads of hops of a shape: as deep as its recipe says."""
    from gamlp.models.registry import labels_used

    wanted = recipe.propagation
    label_hops = wanted.label_hops if labels_used(recipe) else 0
    channels = shape.channels if shape.parts else 1 + len(wanted.also_r)
    if wanted.hops > shape.hops or label_hops > shape.label_hops or channels > shape.channels:
        raise ValueError("a member reads more hops than there are")
    views = shape.label_views if labels_used(recipe) else ()
    return replace(shape, hops=wanted.hops, label_hops=label_hops, channels=channels, label_views=views)


def blend_recipe(
    members: Sequence[Recipe],
    weights: Sequence[float],
    *,
    temperatures: Sequence[float] = (),
    multi_label: bool = False,
) -> Recipe:
    """The recipe of a blend: as deep as its deepest member, and in all else of propagation like every one of them."""
    from gamlp.models.registry import labels_used

    first = members[0]
    for other in members[1:]:
        mine, theirs = (one.propagation.model_dump(exclude=set(_OWN_DEPTH)) for one in (first, other))
        differ = [f"propagation.{key}" for key in mine if mine[key] != theirs[key]]
        differ += ["relations"] if first.relations != other.relations else []
        differ += ["features"] if first.features != other.features else []
        if differ:
            raise GamlpError(f"members of a blend read one store of hops, and differ in {differ[0]}")
    reading = [one for one in members if labels_used(one)]
    scales = {one.model.label_scale for one in reading} - {"hop"}  # shares of a hop are the same by any factor
    if len(scales) > 1:
        raise GamlpError("members of a blend read one store of hops, and differ in model.label_scale")
    deepest = {
        "hops": max(one.propagation.hops for one in members),
        "label_hops": max((one.propagation.label_hops for one in reading), default=0),
        "folds": 0,
    }
    options: dict[str, Any] = {
        "members": [_needed(one) for one in members],
        "weights": [float(one) for one in weights],
        "temperatures": [float(one) for one in temperatures],
        "multi_label": multi_label,
    }
    content = first.explicit()
    content["propagation"] = {**content.get("propagation", {}), **deepest}
    content["model"] = {
        "name": NAME,
        "beta": 1.0 if reading else 0.0,
        "label_zero": any(one.model.label_zero for one in reading),
        "options": options,
    }
    if scales == {"size"}:
        content["model"]["label_scale"] = "size"
    if "training" in content:
        content["training"] = {key: value for key, value in content["training"].items() if key not in _OF_TRAINING}
    content.pop("about", None)
    return Recipe.of(content)


def _needed(recipe: Recipe) -> dict[str, Any]:
    """What a member is built by."""
    said = recipe.explicit()
    depth = {key: recipe.model_dump(mode="json")["propagation"][key] for key in ("hops", "label_hops", "also_r")}
    return {"propagation": depth, "model": said.get("model", {})}


def _mean(parts: list[tuple[Tensor, float]], count: int) -> Tensor | None:
    """The mean of weights over hops of several depths, by weight."""
    if not parts:
        return None
    total = sum(weight for _, weight in parts)
    padded = [functional.pad(values, (0, count - values.shape[1])) * (weight / total) for values, weight in parts]
    return torch.stack(padded).sum(0)


def _above_zero(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf
