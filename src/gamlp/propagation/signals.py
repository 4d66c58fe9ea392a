"""A plan over a graph, resolved: signals with their keys, kept rows, and first values X^(0), Y^(0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ROLES, Graph, Labels, Split, View, digest, fingerprint, whole_view
from gamlp.io import mapped_rows, row_ranges
from gamlp.propagation.first_values import (
    NO_FEATURES_HINT,
    First,
    FirstValues,
    Fold,
    features_of,
    given_statistics,
)
from gamlp.propagation.operator import Operator
from gamlp.propagation.plan import FeatureSignal, LabelSignal, Plan

_ROLES = 1 << 20
_TRAIN = ROLES.index("train")


@dataclass(frozen=True)
class SignalPart:
    """Columns that propagate alike. Features and labels have one part; cross-fitted labels one for each fold."""

    index: int
    first: First
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
    parts: tuple[SignalPart, ...]
    view: View | None = None
    node_types: tuple[str, ...] = ()  # types whose features are in it

    @property
    def nodes(self) -> int:
        """Of the view: rows of a state matrix."""
        assert self.view is not None
        return self.view.count


def resolve(graph: Graph, plan: Plan, first: FirstValues | None = None) -> list[Signal]:
    """The plan's signals; a graph that lacks what the plan asks for is told."""
    return outline(graph, plan, plan.kept_rows(graph), first)


def outline(graph: Graph, plan: Plan, rows: Array | None, first: FirstValues | None = None) -> list[Signal]:
    """The plan's signals for kept rows, whose first values come from `first` (None: from the graph)."""
    signals = []
    first = first or FirstValues(graph, plan.features)
    # Other types have no rows to keep: all target rows are some of a view's.
    own = np.arange(graph.nodes.count) if rows is None and graph.heterogeneous else rows
    for view in plan.views(graph):
        structure = view.structure(graph)
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
                    node_types=node_types,
                    separate_types=plan.separate_types,
                    first=first,
                    kept=kept,
                )
                for name in plan.features.names
                for node_types in signal_types(graph, view, plan.separate_types)
            ]
        if plan.labels is not None:
            signals += _labels(graph, plan.labels, rows, structure, view, kept, first)
    if not signals:
        raise GamlpError("the plan has no signal", hint="propagate features, labels or both")
    return signals


def signal_types(graph: Graph, view: View, separate_types: bool) -> list[tuple[str, ...]]:
    """The types whose features make one signal together: all, or each by itself."""
    have = tuple(node_type for node_type in view.types if graph.node_types[node_type].features is not None)
    if not have:
        lacking = " or ".join(view.types)
        raise GamlpError(
            f"graph '{graph.name}' has no features of {lacking}"
            if view.name
            else f"graph '{graph.name}' has no features",
            hint="set relations.missing to complex, or propagate labels alone" if view.name else NO_FEATURES_HINT,
        )
    if separate_types and view.name:
        return [(node_type,) for node_type in have]
    widths = {node_type: features_of(graph, node_type).width for node_type in have}
    if len(set(widths.values())) > 1:
        message = ", ".join(f"{node_type} {width}" for node_type, width in widths.items())
        raise GamlpError(
            f"types have features of different widths ({message})", hint="set relations.separate_types to yes"
        )
    return [have]


def feature_signal(
    graph: Graph,
    plan: FeatureSignal,
    rows: Array | None,
    structure: str | None,
    name: str = "features",
    *,
    view: View | None = None,
    node_types: tuple[str, ...] | None = None,
    separate_types: bool = False,
    first: FirstValues | None = None,
    kept: Array | None = None,
) -> Signal:
    """Features as a signal; without the structure's fingerprint it has no key, and cannot be stored."""
    view = view or whole_view(graph)
    node_types = node_types or (graph.target,)
    features = features_of(graph, node_types[0])
    operator = plan.names[name]
    settings = {"operator": operator.model_dump(), **plan.model_dump(include={"scaling", "dtype"})}
    given = [given_statistics(graph, plan, node_type) for node_type in node_types]
    known = [[statistics.mean, statistics.deviation] for statistics in given if statistics is not None]
    if known:
        settings["statistics"] = digest(known if view.name else known[0])  # not thousands of numbers
    made = [fingerprint.features(graph, node_type) for node_type in node_types] if structure is not None else []
    contents: Any = made[0] if made and not view.name else [[*node_types], made]
    key = "" if structure is None else digest([structure, contents, settings])
    values = (first or FirstValues(graph, plan)).of_features(view, node_types)
    called = view.called(name, node_types[0] if separate_types else None)
    part = SignalPart(0, values, rows if kept is None else kept)
    width = features.width
    return Signal(called, key, settings, plan.hops, width, operator, plan.dtype, rows, (part,), view, node_types)


def _labels(
    graph: Graph,
    plan: LabelSignal,
    rows: Array | None,
    structure: str,
    view: View,
    kept: Array | None,
    first: FirstValues,
) -> list[Signal]:
    labels, split = graph.nodes.labels, graph.nodes.split
    largest = None if labels is None or split is None else _largest_label(labels, split)
    if labels is None or split is None or largest is None:
        lacks = "labels" if labels is None else "split" if split is None else "training rows"
        raise GamlpError(
            f"graph '{graph.name}' has no {lacks}", hint="propagate features alone: gamlp propagate --label-hops 0"
        )
    width = len(labels.classes)
    if not labels.multi_label and largest >= width:
        raise GamlpError(
            f"graph '{graph.name}' is damaged: label {largest} of {width} classes",
            hint="verify the graph with gamlp info, and build it again",
        )
    soft_labels = features_of(graph, graph.target) if plan.soft else None
    if soft_labels is not None and soft_labels.width != width:
        raise GamlpError(f"soft labels of {soft_labels.width} columns for {width} classes of graph '{graph.name}'")
    values = first.of_labels(view, None, soft=plan.soft)
    common = plan.model_dump(include={"operator", "dtype"})
    source = [structure, fingerprint.training_labels(graph), dict(common)]
    if plan.labelled is not None:
        common["labelled"] = plan.labelled
    if soft_labels is not None:
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
        (SignalPart(0, values, kept),),
        view,
    )
    if plan.folds < 2:
        return [all_labels]
    train = mapped_rows(split.parts("train"))
    if len(train) < plan.folds:
        raise GamlpError(f"{plan.folds} folds for {len(train)} training rows", hint="use fewer folds")
    parts = []
    for number in range(plan.folds):
        fold = Fold(number, plan.folds, plan.fold_seed)
        positions = mapped_rows(_places_in(fold, train))
        own = mapped_rows(train[positions[begin:end]] for begin, end in row_ranges(len(positions), _ROLES))
        parts.append(SignalPart(number, first.of_labels(view, fold, soft=plan.soft), own, positions))
    key = digest([*source, plan.folds, plan.fold_seed, "by hash"])
    settings = {**common, "folds": plan.folds, "fold_seed": plan.fold_seed}
    name = view.called("crossfit")
    crossfit = Signal(name, key, settings, plan.hops, width, plan.operator, plan.dtype, train, tuple(parts), view)
    return [all_labels, crossfit]


def _places_in(fold: Fold, train: Array) -> Iterator[Array]:
    """Places of a fold's rows among all training rows, some at a time."""
    for begin, end in row_ranges(len(train), _ROLES):
        yield begin + np.flatnonzero(fold.among(train[begin:end]))


def _largest_label(labels: Labels, split: Split) -> int | None:
    """Of training rows, looked at some at a time; None where there are none."""
    found = []
    for begin in range(0, len(split.roles), _ROLES):
        part = slice(begin, begin + _ROLES)
        inside = split.roles[part] == _TRAIN
        if inside.any():
            found.append(int(labels.values[part][inside].max()))
    return max(found, default=None)
