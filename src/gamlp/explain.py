"""What a trained model listens to: its weights over hops, by the number of neighbours a node has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from gamlp.models.shape import HopWeights
from gamlp.training.batches import HopRows

Array = np.ndarray[Any, Any]
MOST_ROWS = 50_000
_BATCH_BYTES = 32 << 20
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class DegreeRange:
    """Nodes with `low` to `high` neighbours, and their mean weight of every hop."""

    low: int
    high: int
    rows: int
    features: tuple[float, ...] | None
    labels: tuple[float, ...] | None

    @property
    def told(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class WeightsByDegree:
    """Ranges of degrees, ascending; `first_label_hop` is the hop of a range's first label weight."""

    ranges: tuple[DegreeRange, ...]
    first_label_hop: int
    sampled: bool


def weights_by_degree(
    model: nn.Module,
    source: HopRows,
    degrees: Array,
    *,
    ranges: int = 4,
    most: int = MOST_ROWS,
    seed: int = 0,
    device: torch.device | None = None,
) -> WeightsByDegree | None:
    """Mean weight of every hop in ranges of about equally many nodes; None for a model that weighs no hops.

    `degrees[n]` are those of all nodes; of more than `most` rows as many are drawn.
    """
    weigh = getattr(model, "hop_weights", None)
    if weigh is None or not len(source):
        return None
    device = device or torch.device("cpu")
    chosen = np.arange(len(source))
    if len(source) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(len(source), most, replace=False))
    own = np.asarray(degrees)[source.rows[chosen]]
    bounds = degree_bounds(own, ranges)
    of_range = np.searchsorted(bounds, own, side="left")
    sums: dict[str, Array] = {}
    first = 1
    size = max(64, _BATCH_BYTES // max(1, source.row_bytes))
    for begin in range(0, len(chosen), size):
        x, y = source.gather(chosen[begin : begin + size])
        labels = None if y is None else torch.from_numpy(y).to(device, torch.float32)
        weights: HopWeights = weigh(torch.from_numpy(x).to(device, torch.float32), labels)
        first = weights.first_label_hop
        for name, values in (("features", weights.features), ("labels", weights.labels)):
            if values is not None:
                into = sums.setdefault(name, np.zeros((len(bounds), values.shape[1])))
                np.add.at(into, of_range[begin : begin + size], values.detach().cpu().double().numpy())
    if not sums:
        return None
    counts = np.bincount(of_range, minlength=len(bounds))

    def mean(name: str, index: int) -> tuple[float, ...] | None:
        return tuple((sums[name][index] / counts[index]).tolist()) if name in sums else None

    found = []
    for index, high in enumerate(bounds):
        low, count = int(own[of_range == index].min()), int(counts[index])
        found.append(DegreeRange(low, int(high), count, mean("features", index), mean("labels", index)))
    return WeightsByDegree(tuple(found), first, len(source) > most)


def degree_bounds(degrees: Array, ranges: int) -> Array:
    """Largest degree of each range; fewer ranges where many nodes have one degree.

    >>> degree_bounds(np.array([1, 1, 1, 2, 3, 9]), 3).tolist()
    [1, 2, 9]
    """
    wanted = np.quantile(degrees, np.arange(1, ranges + 1) / ranges, method="inverted_cdf")
    return np.unique(wanted)


def grouped_hops(weights: tuple[float, ...], first: int = 0, most: int = _MOST_COLUMNS) -> list[tuple[str, float]]:
    """(hops, weight) for at most `most` columns: near hops alone, far ones together with their weights added.

    >>> grouped_hops((0.5, 0.2, 0.1, 0.1, 0.1), most=3)
    [('0', 0.5), ('1', 0.2), ('2–4', 0.3)]
    """
    alone = len(weights) if len(weights) <= most else most // 2 + 1
    columns = [(str(first + hop), weights[hop]) for hop in range(alone)]
    parts = np.array_split(np.arange(alone, len(weights)), max(1, min(most - alone, len(weights) - alone)))
    for part in parts:
        if len(part):
            total = round(sum(weights[hop] for hop in part), 12)
            last = "" if len(part) == 1 else f"–{first + part[-1]}"
            columns.append((f"{first + part[0]}{last}", total))
    return columns
