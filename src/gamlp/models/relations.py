"""Mixing subsets of relations (NARS): one weight for every channel, hop and column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gamlp.models.shape import Part, Shape


class SubsetMixing(nn.Module):
    """m^(k) = Σ_c w[c, k] ∘ P_t(c) x[c, k]: channels `[b, C, hops, d]` → `[b, hops, width]`.

    P_t is a linear layer for each type t of nodes where types are channels of their own, and nothing where all types
    share one signal. It has no bias, so that a type that does not reach a node adds nothing to it. Before training
    every view weighs alike.

    >>> parts = [Part("cites", "paper", 4), Part("cites+writes", "paper", 4), Part("cites+writes", "author", 3)]
    >>> SubsetMixing(parts, hops=2, width=8)(torch.zeros(5, 3, 2, 4)).shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, parts: Sequence[Part], hops: int, width: int) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self.width = width
        node_types = list(dict.fromkeys(part.node_type for part in parts))
        if any(part.node_type != parts[0].node_type for part in parts) or parts[0].node_type is not None:
            widths = {part.node_type: part.width for part in parts}
            self.maps = nn.ModuleList(nn.Linear(widths[node_type], width, bias=False) for node_type in node_types)
        else:
            self.maps = nn.ModuleList()
        self._type_index = [node_types.index(part.node_type) for part in parts]
        views = [self._type_index.count(node_type) for node_type in self._type_index]
        first = torch.tensor([1.0 / count for count in views])
        self.weight = nn.Parameter(first[:, None, None].repeat(1, hops, width))

    def forward(self, x: Tensor, chosen: Sequence[int] | None = None) -> Tensor:
        """With `chosen`, x holds these channels alone and stands for all: views ÷ chosen views times their sum.

        Over all samples of so many views that is on average the sum over all.
        """
        numbers = range(len(self.parts)) if chosen is None else chosen
        scale = _views(self.parts) / _views([self.parts[number] for number in numbers])
        mixed: Tensor | None = None
        for at, number in enumerate(numbers):
            values = self._mapped(x[:, at], number)
            weight = self.weight[number] * scale
            mixed = values * weight if mixed is None else torch.addcmul(mixed, values, weight)
        assert mixed is not None
        return mixed

    @torch.no_grad()
    def sizes(self, x: Tensor) -> Tensor:
        """How much each channel says at each hop: mean |w[c, k] ∘ P x[c, k]| over nodes and columns, `[C, hops]`."""
        return torch.stack(
            [
                (self._mapped(x[:, number], number) * self.weight[number]).abs().mean((0, 2))
                for number in range(len(self.parts))
            ]
        )

    def weight_sizes(self) -> Tensor:
        """Mean |w[c, k]| over columns, `[C, hops]`."""
        return self.weight.detach().abs().mean(2)

    def _mapped(self, values: Tensor, number: int) -> Tensor:
        if not self.maps:
            return values
        layer = self.maps[self._type_index[number]]
        assert isinstance(layer, nn.Linear)
        mapped: Tensor = layer(values[..., : layer.in_features])
        return mapped


class HighPassMixing(SubsetMixing):
    """m^(k) = Σ_c w[c, k] ∘ P x[c, k] + v[c, k] ∘ P (x[c, k] - x[c, k-1]), of `with_differences(x)`.

    Before training w is that of `SubsetMixing` and v is zero, and no more is drawn by chance than there: a model starts
    as it would without differences. v's slope is the difference itself, so that it moves where differences tell.
    """

    def __init__(self, parts: Sequence[Part], hops: int, width: int) -> None:
        super().__init__((*parts, *parts), hops, width)
        with torch.no_grad():
            self.weight[: len(parts)] *= 2  # each type is there twice as often
            self.weight[len(parts) :] = 0

    def forward(self, x: Tensor, chosen: Sequence[int] | None = None) -> Tensor:
        """With `chosen`, x holds these channels and their differences."""
        count = len(self.parts) // 2
        both = None if chosen is None else [*chosen, *(count + number for number in chosen)]
        return super().forward(x, both)

    @torch.no_grad()
    def sizes(self, x: Tensor) -> Tensor:
        """How much each channel says at each hop, itself and its differences together, `[C, hops]`."""
        count, found = len(self.parts) // 2, []
        for number in range(count):
            low, high = (self._mapped(x[:, at], at) * self.weight[at] for at in (number, count + number))
            found.append((low + high).abs().mean((0, 2)))
        return torch.stack(found)

    def weight_sizes(self) -> Tensor:
        """Mean |w[c, k]| + |v[c, k]| over columns, `[C, hops]`."""
        low, high = super().weight_sizes().chunk(2)
        return low + high


def with_differences(x: Tensor) -> Tensor:
    """Channels `[b, C, hops, d]`, and after them x[c, k] - x[c, k-1] of each, which is zero for k = 0."""
    return torch.cat([x, torch.diff(x, dim=2, prepend=x[:, :, :1])], 1)


def _views(parts: Sequence[Part]) -> int:
    return len({part.view for part in parts})


def one_signal(shape: Shape) -> bool:
    """Whether there is one channel of features, that of all types: nothing to mix."""
    return not shape.parts or (shape.channels == 1 and shape.node_types == (None,))


def mixing_of_features(shape: Shape, hidden: int, *, high_pass: bool = False) -> SubsetMixing | None:
    """What brings channels of features to one, with `high_pass` those of `with_differences`; None where one is all."""
    if one_signal(shape) and not high_pass:
        return None
    parts = shape.parts or (Part("", None, shape.features),)
    mixing = HighPassMixing if high_pass else SubsetMixing
    return mixing(parts, shape.hops + 1, shape.features if shape.node_types == (None,) else hidden)


def mixing_of_labels(shape: Shape) -> SubsetMixing | None:
    """The same of labels, whose width is that of the classes on every view."""
    if len(shape.label_views) < 2:
        return None
    parts = [Part(view, None, shape.classes) for view in shape.label_views]
    return SubsetMixing(parts, shape.label_hops + 1, shape.classes)
