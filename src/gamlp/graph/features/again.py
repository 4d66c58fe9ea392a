"""Features made again from raw columns: by the states of another graph's columns, or fitted on some rows alone.

A state that comes with a model turns a person's cells into what the model was trained on, whatever else is in the
table; a state that is fitted on training rows alone has seen nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError, shortened
from gamlp.graph import fingerprint
from gamlp.graph.features.encoders import LEFT_OUT, FittedColumn, Fitting, Unseen, finish, infer
from gamlp.graph.features.encoders.reading import kind_of
from gamlp.graph.features.missing import FOLDER, Cache
from gamlp.graph.graph import Features, Graph
from gamlp.graph.raw import RawColumns
from gamlp.graph.schema import EncodedAgain, FeatureSchema
from gamlp.io import Place

_VECTORS = ("vector", "vector-l2")
_UNTOUCHED = ("as-is", "vector")  # features are the cells themselves


class EncodedBlocks(EncodedAgain):
    """Features `[rows, width]`, float32, encoded as they are read; the block that was read last is kept."""

    def __init__(self, raw: RawColumns, columns: Sequence[FittedColumn]) -> None:
        self.raw, self.columns = raw, tuple(columns)
        self.shape = raw.count, sum(column.width for column in columns)
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self._last: tuple[int, pa.RecordBatch] | None = None

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice):
            numbers = np.arange(*rows.indices(len(self)))
        else:
            numbers = np.asarray(rows)
            numbers = np.flatnonzero(numbers) if numbers.dtype == bool else numbers.astype(np.int64).reshape(-1)
        order = np.argsort(numbers, kind="stable")
        out = np.empty((len(numbers), self.shape[1]), np.float32)
        cuts = np.searchsorted(numbers[order], (0, *self.raw.stops))
        for index, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                some = order[begin:end]
                out[some] = self._encode(index, numbers[some])
        return out[:, columns]

    def _encode(self, index: int, rows: Array) -> Array:
        if self._last is None or self._last[0] != index:
            self._last = index, self.raw.block(index, [column.name for column in self.columns])
        start = self.raw.stops[index - 1] if index else 0
        return encoded(self._last[1].take(pa.array(rows - start)), self.columns)[0]


def encoded(block: pa.RecordBatch, columns: Sequence[FittedColumn]) -> tuple[Array, dict[str, Unseen]]:
    """Features of a block of raw columns, side by side, and what fitting had not seen."""
    out = np.empty((block.num_rows, sum(column.width for column in columns)), np.float32)
    unseen, at = {}, 0
    for column in columns:
        unseen[column.name] = column.apply(block.column(column.name), out[:, at : at + column.width])[1]
        at += column.width
    return out, unseen


@dataclass
class _Seen:
    """What a graph holds in a column that another graph's state is to encode."""

    filled: int = 0
    wrong: int = 0  # cells that the state cannot mean
    example: str = ""
    unseen: Unseen = field(default_factory=Unseen)


def encoded_again(graph: Graph, node_type: str, wanted: FeatureSchema) -> tuple[Graph, list[str]]:
    """The graph with features of a type made from its raw columns by the states of `wanted`; and what is new in them.

    Cells that a state cannot mean are refused.
    """
    raw = graph.node_types[node_type].raw
    assert raw is not None
    columns = [FittedColumn.of(column) for column in wanted]
    for one, column in zip(wanted, columns):
        if one.width != column.width:  # of a file that somebody wrote
            raise GamlpError(f"the state of column '{one.name}' makes {column.width} features, not {one.width}")
    held = {name: raw.schema().field(name).type for name in (column.name for column in columns)}
    of = f"of graph '{graph.name}'"
    for column in columns:
        if (kind_of(held[column.name]) == "vector") != (column.type in _VECTORS) and kind_of(held[column.name]):
            raise GamlpError(
                f"column '{column.name}' {of} holds {held[column.name]} where the model was trained on "
                f"{column.source or column.type}",
                hint="ingest the same columns as in training",
            )
    seen = {column.name: _Seen() for column in columns}
    for _, block in raw.blocks([column.name for column in columns]):
        for column in columns:
            _look(block.column(column.name), column, seen[column.name])
    notes: list[str] = []
    for column in columns:
        notes += _told(column, str(held[column.name]), seen[column.name], f"column '{column.name}' {of}")
    values: Any = EncodedBlocks(raw, columns)
    return graph.with_features(**{node_type: Features(values, "float32", wanted)}), notes


def _told(column: FittedColumn, held: str, seen: _Seen, about: str) -> list[str]:
    """What is new in a column, in sentences; what cannot be meant is refused."""
    if seen.wrong:
        cells = f"{_counted(seen.wrong, 'cell')} such as '{shortened(seen.example)}'"
        raise GamlpError(
            f"{about} holds {cells} where the model was trained on type {column.type}",
            hint="mend or empty such cells, and ingest it again",
        )
    if column.source not in (None, held) and seen.unseen.values and seen.unseen.values == seen.filled:
        raise GamlpError(
            f"{about} is {held} where the model was trained on {column.source}, and none of its {seen.filled:,} values "
            "was seen in training",
            hint="ingest the same columns as in training",
        )
    notes = []
    if seen.unseen.values:
        some = ", ".join(f"'{shortened(value)}'" for value in seen.unseen.examples)
        notes.append(f"{about} holds {_counted(seen.unseen.values, 'value')} that training never saw, such as {some}")
    if seen.unseen.gaps:
        notes.append(f"{about} has {_counted(seen.unseen.gaps, 'gap')} where training saw none: filled")
    return notes


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _look(values: Any, column: FittedColumn, seen: _Seen) -> None:
    wrong = column.unreadable(values)
    seen.filled += len(values) - values.null_count
    if wrong.any():
        at = int(np.argmax(wrong))
        seen.example = seen.example or str(values[at].as_py())
        seen.wrong += int(np.count_nonzero(wrong))
        values = values.filter(pa.array(~wrong))
    seen.unseen = seen.unseen + column.apply(values)[1]


def fitted_on(graph: Graph, rows: Array) -> Graph:
    """The graph whose target's columns are fitted anew on some rows alone: no value of another row has a say.

    Types that somebody named stay; others are found out from these rows, or are those of ingest where other rows hold
    cells that could not be read as such. Columns that are untouched, and features that came without a table, stay as
    they are. What ingest left out stays out.
    """
    nodes = graph.nodes
    columns = None if nodes.features is None else nodes.features.columns
    if columns is None or all(column.state is None for column in columns):
        return graph
    before = [FittedColumn.of(column) for column in columns]
    if nodes.raw is None:
        if all(column.type in _UNTOUCHED for column in before):
            return graph
        raise GamlpError(
            f"graph '{graph.name}' keeps no raw columns, and its features were fitted on all of its rows",
            hint="ingest its tables again, or set training.setting transductive",
        )
    inside = np.zeros(nodes.count, bool)
    inside[rows] = True
    fittings = _fittings(nodes.raw, {column.name: column.asked for column in columns}, inside)
    fitted = {name: finish(one) for name, one in fittings.items() if infer(one).type not in LEFT_OUT}
    known = {column.name: column.type for column in before}
    unread = _unreadable(nodes.raw, [column for name, column in fitted.items() if column.type != known[name]])
    again = _fittings(nodes.raw, {name: known[name] for name in unread}, inside)
    fitted |= {name: finish(one) for name, one in again.items()}
    chosen = [(one, fitted[one.name]) for one in columns if one.name in fitted]
    if not chosen:
        raise GamlpError(
            f"no feature column of graph '{graph.name}' differs among its training rows",
            hint="ingest other columns, or more training rows",
        )
    wanted = tuple(column.feature_column().model_copy(update={"asked": one.asked}) for one, column in chosen)
    if wanted == columns:
        return graph
    values: Any = EncodedBlocks(nodes.raw, [column for _, column in chosen])
    return graph.with_features(**{graph.target: Features(values, "float32", wanted)})


def _fittings(raw: RawColumns, wanted: Mapping[str, str | None], inside: Array) -> dict[str, Fitting]:
    """Columns of these types (None: to be found out), fitted on rows inside."""
    fittings = {name: Fitting(name, known) for name, known in wanted.items()}
    for start, block in raw.blocks(list(fittings)) if fittings else ():
        some = block.filter(pa.array(inside[start : start + block.num_rows]))
        for name, fitting in fittings.items():
            fitting.add(some.column(name))
    return fittings


def _unreadable(raw: RawColumns, columns: Sequence[FittedColumn]) -> list[str]:
    """Those of which some cell is no gap, and nothing that the column can read."""
    found = {column.name: False for column in columns}
    for _, block in raw.blocks(list(found)) if found else ():
        for column in columns:
            found[column.name] = found[column.name] or bool(column.unreadable(block.column(column.name)).any())
    return [name for name, some in found.items() if some]


def written(graph: Graph, beside: Place | Any) -> Graph:
    """The graph with features that are encoded as they are read in files of `beside` instead; others stay."""
    made = {}
    for node_type, nodes in graph.node_types.items():
        features = nodes.features
        if features is None or not isinstance(features.__dict__["values"], EncodedAgain):
            continue
        cache, key = Cache(Place.of(beside) / FOLDER), fingerprint.features(graph, node_type)
        found = cache.found(node_type, key, features.values.shape) or cache.keep(node_type, key, features.values)
        made[node_type] = replace(found, columns=features.columns)
    return graph.with_features(**made) if made else graph
