"""A plan over a graph, resolved: signals with their keys, kept rows, and first values X^(0), Y^(0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import fingerprint
from gamlp.graph.graph import Features, Graph, Split
from gamlp.graph.manifest import digest
from gamlp.propagation.operator import Operator
from gamlp.propagation.plan import FeatureSignal, LabelSignal, Plan, Statistics

Array = np.ndarray[Any, Any]
_CHUNK = 1 << 14  # rows of features read at a time
_ROLES = 1 << 20

# (rows, columns) → float32 first values of a contiguous range of rows, or of row numbers
Read = Callable[[Any, slice], Array]


@dataclass(frozen=True)
class Part:
    """Columns that propagate alike. Features and labels have one part; cross-fitted labels one for each fold."""

    index: int
    read: Read
    rows: Array | None  # rows that are kept of this part; None: all nodes
    positions: Array | None = None  # where they lie among the signal's rows; None: the same


@dataclass(frozen=True)
class Signal:
    """What is stored under one name: `[rows, hops + 1, width]`."""

    name: str
    key: str  # changes with anything that changes a stored value, but not with hops or rows
    settings: dict[str, Any]
    hops: int
    width: int
    operator: Operator
    dtype: str
    rows: Array | None
    parts: tuple[Part, ...]


def resolve(graph: Graph, plan: Plan) -> list[Signal]:
    """The plan's signals; a graph that lacks what the plan asks for is told."""
    return outline(graph, plan, plan.kept_rows(graph))


def outline(graph: Graph, plan: Plan, rows: Array | None, *, readers: bool = True) -> list[Signal]:
    """The plan's signals for kept rows; without `readers` no feature is looked at, and parts cannot be read."""
    structure = fingerprint.structure(graph)
    signals = []
    if plan.features is not None:
        names = plan.features.names
        signals += [feature_signal(graph, plan.features, rows, structure, name, readers=readers) for name in names]
    if plan.labels is not None:
        signals += _labels(graph, plan.labels, rows, structure, readers)
    if not signals:
        raise GamlpError("the plan has no signal", hint="propagate features, labels or both")
    return signals


def feature_signal(
    graph: Graph,
    plan: FeatureSignal,
    rows: Array | None,
    structure: str | None,
    name: str = "features",
    *,
    readers: bool = True,
) -> Signal:
    """Features as a signal; without the structure's fingerprint it has no key, and cannot be stored."""
    features = _features(graph)
    operator = plan.names[name]
    settings = {"operator": operator.model_dump(), **plan.model_dump(include={"scaling", "dtype"})}
    statistics = plan.statistics if plan.scaling == "standard" else None
    if statistics is not None:
        if len(statistics.mean) != features.width:
            raise GamlpError(
                f"statistics of {len(statistics.mean)} columns for {features.width} features of graph '{graph.name}'",
                hint="give those of a graph with the same features",
            )
        settings["statistics"] = digest([statistics.mean, statistics.deviation])  # not thousands of numbers
    key = "" if structure is None else digest([structure, fingerprint.features(graph), settings])
    part = Part(0, scaled(features, plan.scaling, statistics) if readers else _unread, rows)
    return Signal(name, key, settings, plan.hops, features.width, operator, plan.dtype, rows, (part,))


def feature_statistics(graph: Graph) -> Statistics:
    """Mean and deviation of every feature over all rows; a constant column has deviation 1.

    >>> feature_statistics(Graph.from_arrays([[0], [1]], [[1.0, 5.0], [3.0, 5.0]]))
    Statistics(mean=(2.0, 5.0), deviation=(1.0, 1.0))
    """
    return _statistics(_features(graph))


def scaled(features: Features, scaling: str, statistics: Statistics | None = None) -> Read:
    """Features as float32, scaled: `none`, `row`, `l2` or `standard` (by their own statistics unless given)."""
    if scaling == "none":
        return features.read
    if scaling in ("row", "l2"):
        lengths = np.empty(len(features.values), np.float32)
        for chunk in _chunks(features):
            values = features.read(chunk)
            lengths[chunk] = np.abs(values).sum(1) if scaling == "row" else np.sqrt(np.square(values).sum(1))
        inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return lambda rows, columns: features.read(rows, columns) * inverse[rows, None]
    statistics = statistics or _statistics(features)
    shift, factor = np.asarray(statistics.mean, np.float32), (1.0 / np.asarray(statistics.deviation)).astype(np.float32)
    return lambda rows, columns: (features.read(rows, columns) - shift[columns]) * factor[columns]


def _features(graph: Graph) -> Features:
    if graph.nodes.features is None:
        raise GamlpError(f"graph '{graph.name}' has no features", hint="give node features, or propagate labels alone")
    return graph.nodes.features


def _statistics(features: Features) -> Statistics:
    count = max(1, len(features.values))
    sums = (features.read(chunk).sum(0, dtype=np.float64) for chunk in _chunks(features))
    mean = sum(sums, np.zeros(features.width)) / count
    square = np.zeros(features.width)
    for chunk in _chunks(features):
        square += np.square(features.read(chunk) - mean).sum(0)
    return statistics_of(mean, square / count)


def statistics_of(mean: Array, variance: Array) -> Statistics:
    """Mean and deviation; a constant column has deviation 1."""
    deviation = np.sqrt(variance)
    deviation[deviation == 0] = 1.0
    if (wrong := np.flatnonzero(~np.isfinite(deviation))).size:
        raise GamlpError(f"feature {wrong[0]} is not finite on some node", hint="fill in or drop what is missing")
    return Statistics(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))


def _chunks(features: Features) -> list[slice]:
    count = len(features.values)
    return [slice(begin, min(begin + _CHUNK, count)) for begin in range(0, count, _CHUNK)]


def _unread(rows: Any, columns: slice) -> Array:
    raise AssertionError("an outline has nothing to read")


def training_rows(split: Split) -> Array:
    """Row numbers of training rows, found a part at a time."""
    parts = (np.flatnonzero(split.roles[at : at + _ROLES] == 1) + at for at in range(0, len(split.roles), _ROLES))
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _labels(graph: Graph, plan: LabelSignal, rows: Array | None, structure: str, readers: bool = True) -> list[Signal]:
    labels, split = graph.nodes.labels, graph.nodes.split
    train = np.zeros(0, np.int64) if split is None else training_rows(split)
    if labels is None or split is None or len(train) == 0:
        lacks = "labels" if labels is None else "split" if split is None else "training rows"
        raise GamlpError(f"graph '{graph.name}' has no {lacks}", hint="propagate features alone (--label-hops 0)")
    count, width = graph.nodes.count, len(labels.classes)
    if not labels.many and int(labels.values[train].max()) >= width:
        raise GamlpError(
            f"graph '{graph.name}' is damaged: label {labels.values[train].max()} of {width} classes",
            hint="verify the graph with gamlp info, and build it again",
        )
    said = _features(graph) if plan.soft else None
    if said is not None and said.width != width:
        raise GamlpError(f"soft labels of {said.width} columns for {width} classes of graph '{graph.name}'")
    folds = folds_of(train, plan) if plan.folds > 1 else np.zeros(len(train), np.int64)

    def reader(without: int | None) -> Read:
        if not readers:
            return _unread
        # Only training rows ever enter Y: an index of them alone is kept, never the other rows' labels.
        inside = np.zeros(count, bool)
        inside[train if without is None else train[folds != without]] = True

        def read(rows: Any, columns: slice) -> Array:
            numbers = np.arange(count)[rows] if isinstance(rows, slice) else rows
            hot = np.zeros((len(numbers), width), np.float32) if said is None else np.array(said.read(numbers))
            known = np.flatnonzero(inside[numbers])
            hot[known] = labels.hot(numbers[known])
            return hot[:, columns]

        return read

    common = plan.model_dump(include={"operator", "dtype"})
    source = [structure, fingerprint.training_labels(graph), common]
    if said is not None:
        source.append(fingerprint.features(graph))
    all_labels = Signal(
        "labels",
        digest(source),
        common,
        plan.hops,
        width,
        plan.operator,
        plan.dtype,
        rows,
        (Part(0, reader(None), rows),),
    )
    if plan.folds < 2:
        return [all_labels]
    parts = []
    for fold in range(plan.folds):
        positions = np.flatnonzero(folds == fold)
        parts.append(Part(fold, reader(fold), train[positions], positions))
    key = digest([*source, plan.folds, plan.fold_seed])
    settings = {**common, "folds": plan.folds, "fold_seed": plan.fold_seed}
    crossfit = Signal("crossfit", key, settings, plan.hops, width, plan.operator, plan.dtype, train, tuple(parts))
    return [all_labels, crossfit]


def folds_of(train: Array, plan: LabelSignal) -> Array:
    """A fold for every training row: equal sizes, by seed."""
    if len(train) < plan.folds:
        raise GamlpError(f"{plan.folds} folds for {len(train)} training rows", hint="use fewer folds")
    order = np.random.default_rng(plan.fold_seed).permutation(len(train))
    folds = np.empty(len(train), np.int64)
    folds[order] = np.arange(len(train)) % plan.folds
    return folds
