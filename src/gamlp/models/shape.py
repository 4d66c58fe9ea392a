"""What a model is: what it is built for, what it reads, what it tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Part:
    """What one channel of features is: of a view, and of one type of nodes (None: of all), `width` columns wide."""

    view: str
    node_type: str | None
    width: int


@dataclass(frozen=True)
class Shape:
    """Of the hops a model reads: x `[b, channels, hops + 1, features]`, y `[b, views, label_hops + 1, classes]`.

    Of a heterogeneous graph, `parts` are x's channels, all channels of a type side by side, and `label_views` y's.
    """

    features: int
    classes: int
    hops: int
    label_hops: int = 0
    channels: int = 1
    parts: tuple[Part, ...] = ()
    label_views: tuple[str, ...] = ()

    @property
    def node_types(self) -> tuple[str | None, ...]:
        """Types whose features are channels of their own, in the order of channels; (None,): one signal of all."""
        return tuple(dict.fromkeys(part.node_type for part in self.parts)) or (None,)

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.view for part in self.parts)) or self.label_views


@dataclass(frozen=True)
class HopWeights:
    """Every node's weights over hops, rows summing to one: features `[b, hops]`, labels `[b, hops]` or None.

    `first_label_hop` is the hop that the first column of `labels` belongs to: 1 where Y^(0) is left out.
    """

    features: Tensor | None
    labels: Tensor | None = None
    first_label_hop: int = 1


@dataclass(frozen=True)
class Branches:
    """What a prediction is made of, in logits: `features[b, c]`, and what the label branch adds to them, or None.

    `each_hop[b, hops, c]` is what features say where all weight is on one hop, without the label branch; None where a
    model has no such thing.
    """

    features: Tensor
    labels: Tensor | None = None
    each_hop: Tensor | None = None


class Model(nn.Module):
    """A model over hops: `forward(x, y)` gives logits `[b, classes]`. What it reads is said by its class.

    A module of your own, or a plug-in's, need not be one: it reads all there is unless its class says otherwise.
    """

    reads_features = True
    reads_labels = False  # whether there is a label branch, on where the recipe's β is above 0
    reads_operators = False  # whether the channels of x may be of several operators (propagation.also_r)

    def hop_weights(self, x: Tensor, y: Tensor | None = None) -> HopWeights:
        """Every node's weights over hops; none where hops are mixed by matrices."""
        return HopWeights(None)


def one_channel(shape: Shape, name: str) -> None:
    """Refuse several channels for a model that would leave all but the first aside."""
    if shape.channels != 1:
        views = f" (views {', '.join(shape.views)})" if shape.views else ""
        raise ValueError(f"{name} reads one channel, not {shape.channels}{views}")


def channels_of(shape: Shape, views: Sequence[int]) -> list[int]:
    """Numbers of the channels of features that are of these views (by their number)."""
    names = {shape.views[number] for number in views}
    return [number for number, part in enumerate(shape.parts) if part.view in names]
