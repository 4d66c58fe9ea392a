"""What a trained model listens to: its weights over hops, by the number of neighbours a node has and by its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from gamlp.arrays import Array
from gamlp.graph import DegreesByRow
from gamlp.io import State, named_under, part_under
from gamlp.models import HopWeights
from gamlp.training import HopRows, read_batches

By = Literal["predicted", "true"]
Signal = Literal["features", "labels"]
SIGNALS: tuple[Signal, ...] = ("features", "labels")
FLAT = 0.05  # of a node's weight: where less would have to move, its hops weigh the same; and of nodes, see `uneven`
MOST_ROWS = 50_000
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
    def text(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class WeightsByDegree:
    """Ranges of degrees, ascending; `first_label_hop` is the hop of a range's first label weight.

    `uneven[signal]`: the share of nodes of whose weight FLAT or more would have to move for all hops to weigh the same.
    """

    ranges: tuple[DegreeRange, ...]
    first_label_hop: int
    sampled: bool
    uneven: dict[str, float] = field(default_factory=dict)

    def flat(self, signal: Signal) -> str | None:
        """What is said instead of weights that are nearly the same for every hop; None where they differ."""
        return _flat(signal, [getattr(part, signal) for part in self.ranges], self.uneven)


@dataclass(frozen=True)
class ClassRows:
    """Nodes of one class, and their mean weight of every hop."""

    name: str
    rows: int
    features: tuple[float, ...] | None
    labels: tuple[float, ...] | None

    @property
    def text(self) -> str:
        return self.name


@dataclass(frozen=True)
class WeightsByClass:
    """Classes that have nodes, in the order of training; a node of many labels is in each of its classes.

    `by` says whose word it is: the model's (`predicted`, all nodes) or the labels' (`true`, nodes with a known label).
    """

    by: By
    classes: tuple[ClassRows, ...]
    first_label_hop: int
    sampled: bool
    uneven: dict[str, float] = field(default_factory=dict)  # as in WeightsByDegree

    def flat(self, signal: Signal) -> str | None:
        """What is said instead of weights that are nearly the same for every hop; None where they differ."""
        return _flat(signal, [getattr(part, signal) for part in self.classes], self.uneven)

    def largest(self, most: int) -> list[ClassRows]:
        """The classes of most nodes, in the order of training."""
        order = sorted(range(len(self.classes)), key=lambda index: -self.classes[index].rows)[:most]
        return [self.classes[index] for index in sorted(order)]


def weights_by_degree(
    model: nn.Module,
    source: HopRows,
    degrees: DegreesByRow,
    *,
    ranges: int = 4,
    most: int = MOST_ROWS,
    seed: int = 0,
    device: torch.device | None = None,
) -> WeightsByDegree | None:
    """Mean weight of every hop in ranges of about equally many nodes; None for a model that weighs no hops.

    `degrees[rows]` are those of any rows; of more than `most` rows as many are drawn.
    """
    chosen = source.rows[drawn(len(source), most, seed)]
    return degree_weights(model, source, chosen, degrees, device).found(ranges, sampled=len(source) > most)


def degree_weights(
    model: nn.Module, source: HopRows, rows: Array, degrees: DegreesByRow, device: torch.device | None = None
) -> DegreeWeights:
    """Weights over hops of some rows, added up by degree."""
    found = DegreeWeights()
    for part, weights, _ in _weighed(model, source, rows, device):
        found.add(weights, degrees[rows[part]])
    return found


class DegreeWeights:
    """Sums of weights over hops by degree; ranges of degrees are made of them when all rows are there."""

    def __init__(self) -> None:
        self._degrees, self._means = np.zeros(0, np.int64), _Means(0)

    def add(self, weights: HopWeights, degrees: Array) -> None:
        """A batch's weights, and how many neighbours its nodes have."""
        distinct, groups = np.unique(degrees, return_inverse=True)
        means = _Means(len(distinct))
        means.add(weights, *_one_group_each(groups))
        self._absorb(distinct, means)

    def state(self) -> State:
        """What was added, for `merge` of another."""
        return {"degrees": self._degrees, **self._means.state()}

    def merge(self, state: State) -> None:
        """Add what was added up of other rows."""
        self._absorb(state["degrees"], _Means.of_state(state))

    def _absorb(self, degrees: Array, means: _Means) -> None:
        both = np.union1d(self._degrees, degrees)
        joined = _Means(len(both))
        for distinct, part in ((self._degrees, self._means), (degrees, means)):
            joined.absorb(part, np.searchsorted(both, distinct))
        self._degrees, self._means = both, joined

    def found(self, ranges: int = 4, *, sampled: bool = False) -> WeightsByDegree | None:
        """Ranges of about equally many nodes; None where nothing was weighed."""
        if not self._means.sums:
            return None
        bounds = bounds_of_counts(self._degrees, self._means.counts, ranges)
        of_range = np.searchsorted(bounds, self._degrees, side="left")
        means = _Means(len(bounds))
        means.absorb(self._means, of_range)
        found = []
        for index, high in enumerate(bounds):
            low, rows = int(self._degrees[of_range == index].min()), int(means.counts[index])
            found.append(DegreeRange(low, int(high), rows, means.of("features", index), means.of("labels", index)))
        return WeightsByDegree(tuple(found), means.first_label_hop, sampled, means.uneven())


def weights_by_class(
    model: nn.Module,
    source: HopRows,
    classes: tuple[str, ...],
    *,
    by: By = "predicted",
    multi_label: bool = False,
    most: int = MOST_ROWS,
    seed: int = 0,
    device: torch.device | None = None,
) -> WeightsByClass | None:
    """Mean weight of every hop of the nodes of each class; None for a model that weighs no hops, or without nodes.

    `predicted` classes are the likeliest one, or with `multi_label` labels all above one half.
    """
    chosen = drawn(len(source), most, seed)
    true_labels = None
    if by == "true":
        if source.store.labels is None:
            return None
        chosen = chosen[source.store.labels.known_at(source.rows[chosen])]
        true_labels = source.targets[chosen]
    means = _Means(len(classes))
    rows = source.rows[chosen]
    for part, weights, logits in _weighed(model, source, rows, device, predict=true_labels is None):
        if true_labels is None:
            assert logits is not None
            given = logits > 0 if multi_label else logits.argmax(1)  # sigmoid(0) = 1/2
        else:
            given = true_labels[part]
        means.add(weights, *(np.nonzero(given > 0) if given.ndim == 2 else _one_group_each(given)))
    if not means.sums:
        return None
    found = [
        ClassRows(name, int(means.counts[index]), means.of("features", index), means.of("labels", index))
        for index, name in enumerate(classes)
        if means.counts[index]
    ]
    return WeightsByClass(by, tuple(found), means.first_label_hop, len(source) > most, means.uneven())


class _Means:
    """Sums of weights and counts of nodes, group by group."""

    def __init__(self, groups: int) -> None:
        self.counts = np.zeros(groups, np.int64)
        self.sums: dict[str, Array] = {}
        self._uneven: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self.first_label_hop = 1

    def add(self, weights: HopWeights, rows: Array, groups: Array) -> None:
        """Add the weights of `rows[i]` to `groups[i]`."""
        self.first_label_hop = weights.first_label_hop
        for name, values in (("features", weights.features), ("labels", weights.labels)):
            if values is not None:
                own = values.detach().cpu().double().numpy()
                into = self.sums.setdefault(name, np.zeros((len(self.counts), own.shape[1])))
                np.add.at(into, groups, own[rows])
                # Node by node: weights that differ from node to node may have means that do not.
                self._uneven[name] = self._uneven.get(name, 0) + _uneven(own)
                self._nodes[name] = self._nodes.get(name, 0) + len(own)
        self.counts += np.bincount(groups, minlength=len(self.counts))

    def absorb(self, other: _Means, groups: Array) -> None:
        """Add group i of another to `groups[i]`."""
        if other.sums:
            self.first_label_hop = other.first_label_hop
        np.add.at(self.counts, groups, other.counts)
        for name, sums in other.sums.items():
            np.add.at(self.sums.setdefault(name, np.zeros((len(self.counts), sums.shape[1]))), groups, sums)
            self._uneven[name] = self._uneven.get(name, 0) + other._uneven[name]
            self._nodes[name] = self._nodes.get(name, 0) + other._nodes[name]

    def state(self) -> State:
        """Plain arrays, from which `of_state` makes the same."""
        numbers = {name: np.array([self._uneven[name], self._nodes[name]]) for name in self.sums}
        return {
            "counts": self.counts,
            "first_label_hop": np.array(self.first_label_hop),
            **named_under("sums", self.sums),
            **named_under("nodes", numbers),
        }

    @classmethod
    def of_state(cls, state: State) -> _Means:
        found = cls(len(state["counts"]))
        found.counts, found.first_label_hop = state["counts"], int(state["first_label_hop"])
        found.sums = part_under(state, "sums")
        numbers = part_under(state, "nodes")
        found._uneven = {name: int(values[0]) for name, values in numbers.items()}
        found._nodes = {name: int(values[1]) for name, values in numbers.items()}
        return found

    def uneven(self) -> dict[str, float]:
        """By signal: the share of nodes whose weights are not nearly equal."""
        return {name: count / max(1, self._nodes[name]) for name, count in self._uneven.items()}

    def of(self, name: str, group: int) -> tuple[float, ...] | None:
        return tuple((self.sums[name][group] / self.counts[group]).tolist()) if name in self.sums else None


def flat_weights(signal: str, weights: Array) -> str | None:
    """What is said of every node's weights `[b, hops]` where they are nearly the same for every hop.

    >>> flat_weights("features", np.full((9, 4), 0.25))
    'weights over hops of features are equal, 25.0 % each: the model takes the mean of 4 hops'
    """
    if not len(weights):
        return None
    return _flat(signal, [tuple(weights.mean(0).tolist())], {signal: _uneven(weights) / len(weights)})


def _uneven(weights: Array) -> int:
    """Nodes of whose weight FLAT or more would have to move for all hops to weigh the same."""
    return int(np.count_nonzero(np.abs(weights - 1 / weights.shape[1]).sum(1) / 2 >= FLAT))


def _flat(signal: str, groups: list[tuple[float, ...] | None], uneven: dict[str, float]) -> str | None:
    shown = [weights for weights in groups if weights is not None]
    if not shown or len(shown[0]) < 2 or uneven.get(signal, 1.0) >= FLAT:
        return None
    hops, low, high = len(shown[0]), min(map(min, shown)), max(map(max, shown))
    same = f"{100 * low:.1f}" == f"{100 * high:.1f}"
    how = f"equal, {100 / hops:.1f} % each" if same else f"flat, {100 * low:.1f} % to {100 * high:.1f} %"
    mean = "the mean" if same else "about the mean"
    return f"weights over hops of {signal} are {how}: the model takes {mean} of {hops} hops"


def _one_group_each(groups: Array) -> tuple[Array, Array]:
    return np.arange(len(groups)), groups


def drawn(count: int, most: int, seed: int) -> Array:
    """Positions of all rows, or of `most` of them."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


@torch.no_grad()
def _weighed(
    model: nn.Module, source: HopRows, rows: Array, device: torch.device | None, *, predict: bool = False
) -> Iterator[tuple[slice, HopWeights, Array | None]]:
    """(part of `rows`, its weights, its logits where `predict`), batch by batch."""
    weigh = getattr(model, "hop_weights", None)
    if weigh is None:
        return
    model.eval()
    for part, x, y in read_batches(source, rows, device=device):
        yield part, weigh(x, y), model(x, y).cpu().numpy() if predict else None


@torch.no_grad()
def weights_of_rows(
    model: nn.Module, source: HopRows, *, size: int | None = None, device: torch.device | None = None
) -> HopWeights | None:
    """Every row's own weights over hops `[rows, hops]`, on the CPU; None for a model that weighs no hops."""
    weigh = getattr(model, "hop_weights", None)
    if weigh is None:
        return None
    parts = [weigh(x, y) for _, x, y in read_batches(source, size=size, device=device)]
    parts = parts or [weigh(*source.tensors(np.zeros(0, np.int64), device))]  # no rows have weights of no rows
    features, labels = _joined([one.features for one in parts]), _joined([one.labels for one in parts])
    return HopWeights(features, labels, parts[0].first_label_hop)


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    there = [part.cpu() for part in parts if part is not None]
    return torch.cat(there) if there else None


def degree_bounds(degrees: Array, ranges: int) -> Array:
    """Largest degree of each range; fewer ranges where many nodes have one degree.

    >>> degree_bounds(np.array([1, 1, 1, 2, 3, 9]), 3).tolist()
    [1, 2, 9]
    """
    return bounds_of_counts(*np.unique(degrees, return_counts=True), ranges)


def bounds_of_counts(values: Array, counts: Array, ranges: int) -> Array:
    """The same of distinct degrees, ascending, and how many nodes have each."""
    until = np.cumsum(counts)
    # numpy's quantile with method inverted_cdf: place ⌈n·q − 1⌉ of the sorted degrees.
    places = np.maximum(np.ceil(until[-1] * (np.arange(1, ranges + 1) / ranges) - 1), 0)
    return np.unique(values[np.searchsorted(until, places, side="right")])


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
