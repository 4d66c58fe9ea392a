"""Hops side by side, as columns of an ordinary table: what learners read that know no hops."""

from __future__ import annotations

import torch
from torch import Tensor

from gamlp.models.shape import Shape


class HopColumns:
    """All channels and hops of features, and of labels Y^(1..L) where `labels`: x, y → `[b, columns]`.

    X^(0) is the same on every channel of a type of nodes, and is read once; padding of narrower types is left out.
    A hop of labels is what its classes have of its sum, and the sum: how much is heard, and what, are two things.

    >>> HopColumns(Shape(features=4, classes=3, hops=2, label_hops=1), labels=True).count
    16
    """

    def __init__(self, shape: Shape, *, labels: bool = False) -> None:
        self.shape, self.labels = shape, labels and shape.label_hops > 0
        place: list[int] = []
        hop: list[int] = []
        block: list[int] = []
        of_type = [part.node_type for part in shape.parts] or [None] * shape.channels
        widths = [part.width for part in shape.parts] or [shape.features] * shape.channels
        for channel, (node_type, width) in enumerate(zip(of_type, widths)):
            for number in range(0 if node_type not in of_type[:channel] else 1, shape.hops + 1):
                first = (channel * (shape.hops + 1) + number) * shape.features
                place += range(first, first + width)
                hop += [number] * width
                block += [block[-1] + 1 if block else 0] * width
        self.features = len(place)
        self.hop = torch.tensor(hop, dtype=torch.int64)  # of every column of features
        every = len(place) == shape.channels * (shape.hops + 1) * shape.features
        self._place = None if every else torch.tensor(place, dtype=torch.int64)
        self._views = max(1, len(shape.label_views))
        hops = torch.arange(1, shape.label_hops + 1).repeat_interleave(shape.classes + 1)
        self.label_hop = hops.repeat(self._views) if self.labels else hops[:0]
        if self.labels:  # shares of a hop, and their sum by itself
            for _ in range(self._views * shape.label_hops):
                first = block[-1] + 1 if block else 0
                block += [first] * shape.classes + [first + 1]
        self.block = torch.tensor(block, dtype=torch.int64)  # the same number for columns that are scaled together

    @property
    def count(self) -> int:
        """How many columns: those of features, then those of labels."""
        return self.features + len(self.label_hop)

    def of(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """The table of some rows; without labels and where every column is read, a view of x."""
        table = x.flatten(1)
        if self._place is not None:
            table = table.index_select(1, self._place.to(x.device))
        if not self.labels:
            return table
        if y is None:
            raise ValueError("this model listens to hops of labels, and none were given: beta=0 is without them")
        own = y[:, : self._views, 1:]
        total = own.sum(3, keepdim=True)
        shares = torch.where(total > 0, own / total.clamp_min(torch.finfo(own.dtype).tiny), 0.0)
        return torch.cat([table, torch.cat([shares, total], 3).flatten(1)], 1)
