"""What a model is built for, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """Of the hops a model reads: x `[b, channels, hops + 1, features]`, y `[b, channels, label_hops + 1, classes]`."""

    features: int
    classes: int
    hops: int
    label_hops: int = 0
    channels: int = 1


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


def one_channel(shape: Shape, name: str) -> None:
    """Refuse several channels for a model that would leave all but the first aside."""
    if shape.channels != 1:
        raise ValueError(f"{name} reads one channel, not {shape.channels}")
