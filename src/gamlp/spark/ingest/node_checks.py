"""Batches of a node table → ids, labels, roles and stored features of its good rows, with notes on the others.

Pure Arrow and numpy, by the rules of `gamlp ingest`: this runs in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.ingest import (
    UNKNOWN_LABELS,
    CellChecks,
    Column,
    ColumnFeatures,
    ColumnPlan,
    LabelColumn,
    OnBad,
    TimeColumn,
    TimeSplit,
    as_integers,
    check_ids,
    is_null,
    plain,
    roles_of,
    shown,
    split_roles,
)
from gamlp.kernel import FloatName, cannot_hold, not_held, store_as
from gamlp.spark.ingest.notes import NotedRows, Notes, id_key, note_batch, without_ragged
from gamlp.spark.ingest.table_times import TableTimes

_MOST_BYTES = 1 << 30  # of features in a batch: Arrow counts the bytes of a column by 32 bits


@dataclass(frozen=True)
class NodeChecks:
    """Which columns of a node table hold what, and how they are read."""

    table: str
    id: str
    label: str | None
    split: str | None
    features: list[str]
    dtype: FloatName
    on_bad: OnBad
    separator: str | None = None
    unknown: tuple[str, ...] = UNKNOWN_LABELS
    multi_label: bool = False  # labels a node
    integers: bool = False  # the type of ids
    ragged: str | None = None  # the column that holds a CSV row with a wrong number of columns
    widths: Mapping[str, int] = field(default_factory=dict)  # of list columns; empty: those of a task's first row
    plan: ColumnPlan | None = None  # of columns that are to be encoded; None: features are numbers as they are
    arrow_types: Mapping[str, pa.DataType] = field(default_factory=dict)  # what the graph keeps raw columns as
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns that are not read, and why
    given_types: Mapping[str, pa.DataType] = field(default_factory=dict)  # what Spark gives and takes them as
    split_by: TimeSplit | None = None
    times: TableTimes | None = None  # the column that the split is by

    def cells(self) -> CellChecks:
        assert self.plan is not None
        return CellChecks(self.plan, self.arrow_types, self.widths)

    def schema(self) -> pa.Schema:
        """Of the rows that are kept."""
        text = pa.string()
        features = [("features", pa.binary())]
        if self.plan is not None:
            features = [(raw_name(number), self.given_types[name]) for number, name in enumerate(self.features)]
        ids, labels = pa.int64() if self.integers else text, pa.list_(text) if self.multi_label else text
        return pa.schema([("id", ids), ("label", labels), ("role", pa.int8()), *features, ("note", text)])


def raw_name(number: int) -> str:
    """Raw columns under names of their own: Spark takes a name with a dot for a part of a column."""
    return f"raw{number}"


def checked_nodes(batches: Iterator[Any], checks: NodeChecks) -> Iterator[Any]:
    """Good rows, and at the end one row whose `note` tells of the others."""
    notes = Notes(facts={"read": 0, "good": 0, "plain": True, "widths": {}, "unknown": {}})
    features: ColumnFeatures | CellChecks | None = None
    clock = None if checks.times is None else checks.times.clock()
    if checks.features:
        untouched = checks.plan is None
        features = ColumnFeatures(checks.features, checks.widths, "other nodes") if untouched else checks.cells()
    try:
        for batch in batches:
            batch = without_ragged(batch, checks.ragged, notes, checks.on_bad)
            yield from _checked(batch, checks, features, notes, clock)
    except GamlpError as error:
        notes.die(error)
        for _ in batches:  # Spark waits for its batches to be taken
            pass
    if isinstance(features, ColumnFeatures):
        notes.facts |= {"widths": features.list_widths, "width": features.width()}
    elif features is not None:
        notes.facts |= {"widths": features.widths}
    notes.facts["naive"] = 0 if clock is None else clock.naive
    yield note_batch(checks.schema(), notes)


def _checked(
    batch: Any,
    checks: NodeChecks,
    features: ColumnFeatures | CellChecks | None,
    notes: Notes,
    clock: TimeColumn | None,
) -> Iterator[Any]:
    ids = plain(batch.column(checks.id))

    def name(row: int) -> tuple[list[Any], str]:
        value = ids[row].as_py()
        return id_key(value), "" if value is None or value == "" else f"node '{shown(ids, row)}'"

    def noted() -> NotedRows:
        return NotedRows(batch, checks.table, notes, checks.on_bad, name)

    rows = noted()
    check_ids(rows, checks.id)
    labels = _read_labels(rows, checks, notes)
    roles = split_roles(rows, checks.split) if checks.split else np.zeros(len(ids), np.int8)
    if clock is not None and checks.split_by is not None:
        roles = roles_of(clock.read(rows, needed=False), checks.split_by.cuts())
    good, values = rows.good, None
    if features is not None:
        noted_rows = noted()  # a node with a bad label and a bad feature is counted as both, as ingest does
        if isinstance(features, ColumnFeatures):
            values = features.read_rows(noted_rows)
        else:
            for name_of in checks.features:
                features.checked(noted_rows, name_of)
        good = good & noted_rows.good
    notes.facts["read"] += len(ids)
    notes.facts["good"] += int(np.count_nonzero(good))
    if not good.any():
        return
    chosen = pa.array(good)
    kept = ids.filter(chosen)
    if not checks.integers and notes.facts["plain"]:
        notes.facts["plain"] = as_integers(kept) is not None
    columns = [
        kept.cast(pa.int64() if checks.integers else pa.string()),
        labels.filter(chosen),
        pa.array(roles[good]),
    ]
    if checks.plan is not None:
        raw = [batch.column(feature).filter(chosen).cast(checks.given_types[feature]) for feature in checks.features]
        yield pa.RecordBatch.from_arrays([*columns, *raw, pa.nulls(len(kept), pa.string())], schema=checks.schema())
        return
    assert not isinstance(features, CellChecks)
    stored = None if values is None else _stored(values, good, checks, features, notes, name)
    step = len(kept) if stored is None else max(1, _MOST_BYTES // max(1, stored[:1].nbytes))
    for begin in range(0, len(kept), step):
        part = slice(begin, begin + step)
        count = len(kept[part])
        binary = pa.nulls(count, pa.binary()) if stored is None else _as_binary(stored[part])
        yield pa.RecordBatch.from_arrays(
            [*(column[part] for column in columns), binary, pa.nulls(count, pa.string())], schema=checks.schema()
        )


def _read_labels(rows: NotedRows, checks: NodeChecks, notes: Notes) -> Column:
    """Labels as text, or as lists of text; how many say that they are not known goes into the notes."""
    kind = pa.list_(pa.string()) if checks.multi_label else pa.string()
    if checks.label is None:
        return pa.nulls(len(rows.good), kind)
    column = LabelColumn(checks.label, checks.separator, checks.unknown)
    labels = column.read(rows)
    if checks.multi_label:
        lengths = pc.list_value_length(labels).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        texts = column.elements(labels).cast(pa.string())
        labels = pa.ListArray.from_arrays(pa.array(offsets), texts, mask=pa.array(is_null(labels)))
    counts = notes.facts["unknown"]
    for text, count in column.not_known.items():
        counts[text] = counts.get(text, 0) + count
    return labels.cast(kind)


def _stored(
    values: Array, good: Array, checks: NodeChecks, features: ColumnFeatures | None, notes: Notes, name: Any
) -> Array:
    assert features is not None
    stored = np.ascontiguousarray(store_as(values[good], checks.dtype))
    wrong = not_held(values[good], stored, checks.dtype)
    if wrong.any():
        at, feature = (int(found[0]) for found in np.nonzero(wrong))
        row = int(np.flatnonzero(good)[at])
        key, who = name(row)
        notes.die(cannot_hold(values[row, feature], checks.dtype, column=features.owner(feature)), key, who)
    return stored


def _as_binary(stored: Array) -> Any:
    """One value of bytes a row, without copying."""
    row = stored.shape[1] * stored.itemsize
    offsets = np.arange(len(stored) + 1, dtype=np.int32) * np.int32(row)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(stored)]
    return pa.Array.from_buffers(pa.binary(), len(stored), buffers)
