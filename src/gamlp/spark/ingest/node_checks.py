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
    Column,
    ColumnFeatures,
    LabelColumn,
    OnBad,
    as_integers,
    check_ids,
    is_null,
    plain,
    shown,
    split_roles,
)
from gamlp.kernel import FloatName, cannot_hold, not_held, store_as
from gamlp.spark.ingest.notes import NotedRows, Notes, id_key, note_batch, without_ragged

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

    def schema(self) -> pa.Schema:
        text = pa.string()
        return pa.schema(
            [
                ("id", pa.int64() if self.integers else text),
                ("label", pa.list_(text) if self.multi_label else text),
                ("role", pa.int8()),
                ("features", pa.binary()),
                ("note", text),
            ]
        )


def checked_nodes(batches: Iterator[Any], checks: NodeChecks) -> Iterator[Any]:
    """Good rows, and at the end one row whose `note` tells of the others."""
    notes = Notes(facts={"read": 0, "good": 0, "plain": True, "widths": {}, "unknown": {}})
    features = ColumnFeatures(checks.features, checks.widths, "other nodes") if checks.features else None
    try:
        for batch in batches:
            yield from _checked(without_ragged(batch, checks.ragged, notes, checks.on_bad), checks, features, notes)
    except GamlpError as error:
        notes.die(error)
        for _ in batches:  # Spark waits for its batches to be taken
            pass
    if features is not None:
        notes.facts |= {"widths": features.list_widths, "width": features.width()}
    yield note_batch(checks.schema(), notes)


def _checked(batch: Any, checks: NodeChecks, features: ColumnFeatures | None, notes: Notes) -> Iterator[Any]:
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
    good, values = rows.good, None
    if features is not None:
        noted_rows = noted()  # a node with a bad label and a bad feature is counted as both, as ingest does
        values = features.read_rows(noted_rows)
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
