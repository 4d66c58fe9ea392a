"""Cells of a new node, as its table would have them → X^(0), by the encoders and the scaling of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.graph import Features, Graph, name_some
from gamlp.graph.features.encoders import FittedColumn
from gamlp.kernel import store_as
from gamlp.propagation import Statistics, scaled_features
from gamlp.serve.questions import NewNode, Refusal
from gamlp.training import Bundle

_KNOWN_VALUES = 100  # of a category that are told
_LARGEST = 3e38


@dataclass(frozen=True)
class CellReader:
    """What a new node of one type must bring: columns by name, or so many numbers; or why none can be read.

    dtype: that the graph keeps features in; newcomers are rounded as it rounds.
    """

    node_type: str
    columns: tuple[FittedColumn, ...] | None
    width: int
    dtype: Any
    scaling: str
    statistics: Statistics | None
    refused: str | None = None

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns or ())

    def about(self) -> dict[str, Any]:
        """For people and forms: what to give."""
        columns = None
        if self.columns is not None:
            columns = [
                {"name": one.name, "type": one.type, "values": _values(one), "width": one.width} for one in self.columns
            ]
        return {
            "columns": columns, "features": self.width if columns is None else None, "refused": self.refused,
        }  # fmt: skip

    def read(self, node: NewNode) -> tuple[Array, list[str]]:
        """(X^(0) float32 `[width]`, sentences on what was new or left out)."""
        if self.refused is not None:
            raise Refusal(422, self.refused)
        values, notes = self._numbers(node) if self.columns is None else self._cells(node, self.columns)
        if self.dtype != "float32":
            values = Features(store_as(values, self.dtype), self.dtype).read(slice(None))
        first = scaled_features(Features(values), self.scaling, self.statistics).read(slice(None), slice(None))
        if not np.isfinite(first).all():
            raise Refusal(422, "a feature is larger than the model can read", hint="look at its scale")
        return first[0], notes

    def _numbers(self, node: NewNode) -> tuple[Array, list[str]]:
        if node.features is None:
            raise Refusal(
                422, "the node has no features", hint=f"give {self.width} numbers as features: columns have no names"
            )
        values = np.asarray(node.features, np.float64)
        if values.shape != (self.width,):
            raise Refusal(422, f"{len(node.features):,} features where nodes of the graph have {self.width:,}")
        if not (np.isfinite(values) & (np.abs(values) < _LARGEST)).all():
            raise Refusal(422, "a feature is no number that float32 holds", hint="give finite numbers")
        return values.astype(np.float32)[None], []

    def _cells(self, node: NewNode, columns: tuple[FittedColumn, ...]) -> tuple[Array, list[str]]:
        if node.features is not None:
            raise Refusal(422, "features of this graph have names", hint=f"give columns: {self._some()}")
        missing = [one.name for one in columns if one.name not in node.cells]
        if missing:
            raise Refusal(
                422, f"the node lacks {name_some(missing)}", hint=f"columns are {self._some()}; null is a gap"
            )
        notes = []
        ignored = [name for name in node.cells if name not in self._names]
        if ignored:
            notes.append(f"{name_some(ignored)} left out: the model was trained without")
        out = np.empty((1, self.width), np.float32)
        at = 0
        for column in columns:
            cell = _arrow(column, node.cells[column.name])
            if column.unreadable(cell)[0]:
                raise Refusal(
                    422, f"{_shown(node.cells[column.name])} cannot be read as {column.type}", column=column.name
                )
            _, unseen = column.apply(cell, out[:, at : at + column.width])
            at += column.width
            if unseen.values:
                notes.append(f"column {column.name}: training never saw {_shown(node.cells[column.name])}")
            elif unseen.gaps:
                notes.append(f"column {column.name}: training never saw a gap; it is filled")
        return out, notes

    def _some(self) -> str:
        return name_some([one.name for one in self.columns or ()])


def cell_readers(bundle: Bundle, given: Graph, graph: Graph) -> dict[str, CellReader]:
    """Of every type. `given`: the graph as it was ingested; `graph`: as the model reads it, with what was made."""
    found = {}
    for node_type, nodes in graph.node_types.items():
        own = given.node_types[node_type].features
        read = nodes.features
        refused = _refused(bundle, given, node_type, read)
        alone = len(graph.node_types) == 1
        schema = next(iter(bundle.columns.values()), None) if alone else bundle.columns.get(node_type)
        statistics = bundle.statistics or {}
        scaling = bundle.recipe.propagation.scaling
        known = next(iter(statistics.values()), None) if alone else statistics.get(node_type)
        if refused is None and scaling == "standard" and known is None:
            refused = "the model was saved without its scaling statistics, as an older gamlp did; train again"
        columns = None
        if schema is not None and own is not None and own.columns is not None:
            columns = tuple(FittedColumn.of(column) for column in schema)
        found[node_type] = CellReader(
            node_type, columns, 0 if read is None else read.width, "float32" if own is None else own.dtype, scaling,
            known, refused,
        )  # fmt: skip
    return found


def _refused(bundle: Bundle, given: Graph, node_type: str, read: Features | None) -> str | None:
    """Why no newcomer of a type can be read."""
    grow = "use gamlp predict --add-nodes, which reads the graph around them"
    own = given.node_types[node_type].features
    if bundle.recipe.features.structural == "alone":
        return f"features of this run are made of the graph's edges, which a question does not bring; {grow}"
    if own is None:
        return f"nodes of type {node_type} have no features of their own, and what was made for them is the graph's"
    if read is not None and own.width != read.width:
        return (
            f"features of {node_type} were brought to fewer columns by the graph's own; train with relations.reduce 0"
        )
    return None


def _arrow(column: FittedColumn, cell: Any) -> pa.Array:
    plain = all(type(one) in (int, float) for one in cell) if isinstance(cell, list | tuple) else _is_scalar(cell)
    if not plain:
        raise Refusal(422, f"{_shown(cell)} is no cell of a table", column=column.name)
    try:
        return pa.array([cell])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise Refusal(422, f"{_shown(cell)} cannot be read as {column.type}", column=column.name) from error


def _is_scalar(cell: Any) -> bool:
    return cell is None or isinstance(cell, bool | int | float | str | date)


def _values(column: FittedColumn) -> Sequence[Any] | None:
    state = column.state
    values = getattr(state, "values", None)
    if isinstance(values, Mapping):
        values = list(values)
    return None if values is None else [str(value) for value in values[:_KNOWN_VALUES]]


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:59]}…"
