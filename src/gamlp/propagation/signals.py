"""A plan over a graph, resolved: signals with their keys, kept rows, and first values X^(0), Y^(0)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import fingerprint
from gamlp.graph.graph import Features, Graph, Split
from gamlp.graph.manifest import digest
from gamlp.graph.views import View, whole_view
from gamlp.graph.views import structure as view_structure
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
    view: View | None = None
    kinds: tuple[str, ...] = ()  # types whose features are in it

    @property
    def nodes(self) -> int:
        """Of the view: rows of a state matrix."""
        assert self.view is not None
        return self.view.count


def resolve(graph: Graph, plan: Plan) -> list[Signal]:
    """The plan's signals; a graph that lacks what the plan asks for is told."""
    return outline(graph, plan, plan.kept_rows(graph))


def outline(graph: Graph, plan: Plan, rows: Array | None, *, readers: bool = True) -> list[Signal]:
    """The plan's signals for kept rows; without `readers` no feature is looked at, and parts cannot be read."""
    signals = []
    first = FirstValues(graph, plan.features, readers)
    # Other types have no rows to keep: all target rows are some of a view's.
    own = np.arange(graph.nodes.count) if rows is None and graph.heterogeneous else rows
    for view in plan.views(graph):
        structure = view_structure(graph, view)
        kept = rows if view.count == graph.nodes.count else own
        if plan.features is not None:
            signals += [
                feature_signal(
                    graph,
                    plan.features,
                    rows,
                    structure,
                    name,
                    view=view,
                    kinds=kinds,
                    apart=plan.apart,
                    first=first,
                    kept=kept,
                )
                for name in plan.features.names
                for kinds in signal_kinds(graph, view, plan.apart)
            ]
        if plan.labels is not None:
            signals += _labels(graph, plan.labels, rows, structure, view, kept, readers)
    if not signals:
        raise GamlpError("the plan has no signal", hint="propagate features, labels or both")
    return signals


def signal_kinds(graph: Graph, view: View, apart: bool) -> list[tuple[str, ...]]:
    """The types whose features make one signal together: all, or each by itself."""
    have = tuple(kind for kind in view.types if graph.node_types[kind].features is not None)
    if not have:
        lacking = " or ".join(view.types)
        raise GamlpError(
            f"graph '{graph.name}' has no features of {lacking}"
            if view.name
            else f"graph '{graph.name}' has no features",
            hint="give node features, or propagate labels alone",
        )
    if apart and view.name:
        return [(kind,) for kind in have]
    widths = {kind: _features(graph, kind).width for kind in have}
    if len(set(widths.values())) > 1:
        told = ", ".join(f"{kind} {width}" for kind, width in widths.items())
        raise GamlpError(f"types have features of different widths ({told})", hint="set relations.apart to yes")
    return [have]


class FirstValues:
    """X^(0) by type, scaled: looked at once for all views."""

    def __init__(self, graph: Graph, plan: FeatureSignal | None, readers: bool = True) -> None:
        self._graph, self._plan, self._readers = graph, plan, readers
        self._scaled: dict[str, Read] = {}

    def of(self, view: View, kinds: tuple[str, ...]) -> Read:
        """Features of some types at their places in a view; zero rows elsewhere."""
        if not self._readers:
            return _unread
        if view.types == kinds == (self._graph.target,):
            return self._type(self._graph.target)
        width = _features(self._graph, kinds[0]).width
        pieces = [(view.start(kind), self._graph.node_types[kind].count, self._type(kind)) for kind in kinds]
        return stacked([(start, start + count, read) for start, count, read in pieces], view.count, width)

    def _type(self, kind: str) -> Read:
        assert self._plan is not None
        if kind not in self._scaled:
            plan, features = self._plan, _features(self._graph, kind)
            self._scaled[kind] = scaled(features, plan.scaling, given_statistics(self._graph, plan, features))
        return self._scaled[kind]


def stacked(pieces: Sequence[tuple[int, int, Read]], count: int, width: int) -> Read:
    """Rows begin..end of each piece from its reader, zeros elsewhere: `[count, width]` that is never made."""

    def read(rows: Any, columns: slice) -> Array:
        numbers = np.arange(*rows.indices(count)) if isinstance(rows, slice) else np.asarray(rows)
        out = np.zeros((len(numbers), len(range(*columns.indices(width)))), np.float32)
        if not len(numbers):
            return out
        low, high = int(numbers.min()), int(numbers.max()) + 1
        for begin, end, piece in pieces:
            if begin >= high or end <= low:
                continue
            if isinstance(rows, slice):
                inside = slice(max(begin, low) - low, min(end, high) - low)
                out[inside] = piece(slice(max(begin, low) - begin, min(end, high) - begin), columns)
            else:
                places = np.flatnonzero((numbers >= begin) & (numbers < end))
                out[places] = piece(numbers[places] - begin, columns)
        return out

    return read


def given_statistics(graph: Graph, plan: FeatureSignal, features: Features) -> Statistics | None:
    """Of `standard` scaling by another graph's mean and deviation; None: by these features' own."""
    statistics = plan.statistics if plan.scaling == "standard" else None
    if statistics is not None and len(statistics.mean) != features.width:
        raise GamlpError(
            f"statistics of {len(statistics.mean)} columns for {features.width} features of graph '{graph.name}'",
            hint="give those of a graph with the same features",
        )
    return statistics


def feature_signal(
    graph: Graph,
    plan: FeatureSignal,
    rows: Array | None,
    structure: str | None,
    name: str = "features",
    *,
    view: View | None = None,
    kinds: tuple[str, ...] | None = None,
    apart: bool = False,
    first: FirstValues | None = None,
    kept: Array | None = None,
) -> Signal:
    """Features as a signal; without the structure's fingerprint it has no key, and cannot be stored."""
    view = view or whole_view(graph)
    kinds = kinds or (graph.target,)
    features = _features(graph, kinds[0])
    operator = plan.names[name]
    settings = {"operator": operator.model_dump(), **plan.model_dump(include={"scaling", "dtype"})}
    statistics = given_statistics(graph, plan, features)
    if statistics is not None:
        settings["statistics"] = digest([statistics.mean, statistics.deviation])  # not thousands of numbers
    made = [fingerprint.features(graph, kind) for kind in kinds] if structure is not None else []
    contents: Any = made[0] if made and not view.name else [[*kinds], made]
    key = "" if structure is None else digest([structure, contents, settings])
    read = (first or FirstValues(graph, plan)).of(view, kinds)
    called = view.called(name, kinds[0] if apart else None)
    part = Part(0, read, rows if kept is None else kept)
    width = features.width
    return Signal(called, key, settings, plan.hops, width, operator, plan.dtype, rows, (part,), view, kinds)


def feature_statistics(graph: Graph) -> Statistics:
    """Mean and deviation of every feature over all rows; a constant column has deviation 1.

    >>> feature_statistics(Graph.from_arrays([[0], [1]], [[1.0, 5.0], [3.0, 5.0]]))
    Statistics(mean=(2.0, 5.0), deviation=(1.0, 1.0))
    """
    return _statistics(_features(graph, graph.target))


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


def _features(graph: Graph, kind: str) -> Features:
    features = graph.node_types[kind].features
    if features is None:
        raise GamlpError(f"graph '{graph.name}' has no features", hint="give node features, or propagate labels alone")
    return features


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


def _labels(
    graph: Graph,
    plan: LabelSignal,
    rows: Array | None,
    structure: str,
    view: View,
    kept: Array | None,
    readers: bool = True,
) -> list[Signal]:
    labels, split = graph.nodes.labels, graph.nodes.split
    train = np.zeros(0, np.int64) if split is None else training_rows(split)
    if labels is None or split is None or len(train) == 0:
        lacks = "labels" if labels is None else "split" if split is None else "training rows"
        raise GamlpError(f"graph '{graph.name}' has no {lacks}", hint="propagate features alone (--label-hops 0)")
    count, width = view.count, len(labels.classes)
    if not labels.many and int(labels.values[train].max()) >= width:
        raise GamlpError(
            f"graph '{graph.name}' is damaged: label {labels.values[train].max()} of {width} classes",
            hint="verify the graph with gamlp info, and build it again",
        )
    said = _features(graph, graph.target) if plan.soft else None
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
            numbers = np.arange(*rows.indices(count)) if isinstance(rows, slice) else rows
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
        view.called("labels"),
        digest(source),
        common,
        plan.hops,
        width,
        plan.operator,
        plan.dtype,
        rows,
        (Part(0, reader(None), kept),),
        view,
    )
    if plan.folds < 2:
        return [all_labels]
    parts = []
    for fold in range(plan.folds):
        positions = np.flatnonzero(folds == fold)
        parts.append(Part(fold, reader(fold), train[positions], positions))
    key = digest([*source, plan.folds, plan.fold_seed])
    settings = {**common, "folds": plan.folds, "fold_seed": plan.fold_seed}
    name = view.called("crossfit")
    crossfit = Signal(name, key, settings, plan.hops, width, plan.operator, plan.dtype, train, tuple(parts), view)
    return [all_labels, crossfit]


def folds_of(train: Array, plan: LabelSignal) -> Array:
    """A fold for every training row: equal sizes, by seed."""
    if len(train) < plan.folds:
        raise GamlpError(f"{plan.folds} folds for {len(train)} training rows", hint="use fewer folds")
    order = np.random.default_rng(plan.fold_seed).permutation(len(train))
    folds = np.empty(len(train), np.int64)
    folds[order] = np.arange(len(train)) % plan.folds
    return folds
