"""Which subsets of relations a model listens to, hop by hop (NARS-GAMLP)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gamlp.explanation.weights import MOST_ROWS, drawn
from gamlp.training import HopRows, read_batches

_BATCH = 4096


@dataclass(frozen=True)
class ChannelShares:
    """One channel: a subset of relations, and the type whose features it carries (None: all types).

    `shares[k]` is its part of what hop k says, mean |w ∘ x| over nodes and columns by that of all channels; a hop's
    shares sum to one, or are all zero where no path of that length brings anything. `weights[k]` is mean |w|. A
    channel's differences of hops (`model.high_pass`) belong to it: w ∘ x is the sum of both, |w| that of both weights.
    """

    subset: str
    node_type: str | None
    shares: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class SubsetShares:
    """Channels of features and of labels; `rows` are the nodes looked at, `sampled` whether there are more."""

    features: tuple[ChannelShares, ...]
    labels: tuple[ChannelShares, ...] | None
    rows: int
    sampled: bool
    directions: bool = False  # of a graph of one relation: its subsets are the directions of its edges

    def content(self) -> dict[str, Any]:
        """For JSON, where a channel's node type is called `kind`."""
        content = asdict(self)
        for channel in (*content["features"], *(content["labels"] or ())):
            channel["kind"] = channel.pop("node_type")
        return content

    def by_subset(self, signal: str = "features") -> dict[str, tuple[float, ...]]:
        """Shares of every subset, all types together."""
        channels: Sequence[ChannelShares] = getattr(self, signal) or ()
        found: dict[str, np.ndarray] = {}
        for channel in channels:
            found[channel.subset] = found.get(channel.subset, np.zeros(len(channel.shares))) + channel.shares
        return {subset: tuple(float(share) for share in shares) for subset, shares in found.items()}


def shares_by_subset(
    model: Any, source: HopRows, *, most: int = MOST_ROWS, seed: int = 0, device: torch.device | None = None
) -> SubsetShares | None:
    """What each subset adds to every hop; None for a model that mixes none, or a graph of one relation."""
    if not getattr(getattr(model, "shape", None), "parts", ()) or not hasattr(model, "subset_sizes"):
        return None
    chosen = drawn(len(source), most, seed)
    sums: list[Tensor | None] = [None, None]
    was, _ = model.training, model.eval()
    try:
        for _, x, y in read_batches(source, source.rows[chosen], size=_BATCH, device=device):
            for index, sizes in enumerate(model.subset_sizes(x, y)):
                if sizes is not None:
                    found = sizes.double().cpu() * len(x)
                    before = sums[index]
                    sums[index] = found if before is None else before + found
    finally:
        model.train(was)
    if sums[0] is None:
        return None
    parts = [(part.view, part.node_type) for part in model.shape.parts]
    labels = None
    if sums[1] is not None:
        labels = _channels([(view, None) for view in model.shape.label_views], sums[1], _weights(model, "label_mixing"))
    features = _channels(parts, sums[0], _weights(model, "mixing"))
    views = (source.features_from or source.store).manifest.views
    directions = any(view.direction is not None for view in views.values())
    return SubsetShares(features, labels, len(chosen), len(source) > most, directions)


def _weights(model: Any, name: str) -> Tensor | None:
    mixing = getattr(model, name, None)
    return None if mixing is None else mixing.weight_sizes().cpu()


def _channels(
    names: Sequence[tuple[str, str | None]], sizes: Tensor, weights: Tensor | None
) -> tuple[ChannelShares, ...]:
    total = sizes.sum(0)
    shares = torch.where(total > 0, sizes / total.clamp_min(1e-300), torch.zeros_like(sizes))
    weights = torch.ones_like(shares) if weights is None else weights
    return tuple(
        ChannelShares(view, node_type, tuple(share.tolist()), tuple(weight.tolist()))
        for (view, node_type), share, weight in zip(names, shares, weights)
    )
