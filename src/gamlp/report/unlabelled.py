"""What was predicted for nodes without a known label: how many of each class, and how sure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.graph import Graph, Labels, arrow_classes
from gamlp.propagation import HopStore
from gamlp.training import Bundle

LEVELS = (0.5, 0.7, 0.9, 0.99)  # probabilities that part the answers: below, between, from the last on
_BATCH = 1 << 16


def unlabelled_of(predictions: Path, bundle: Bundle, store: HopStore, graph: Graph | None) -> dict[str, Any] | None:
    """From a run's table of predictions, read batch by batch; None where it is not that of the store's rows.

    {"nodes": rows of the table, "rows": those without a known label, "nothing": of them without an answer,
    "classes": [{class, rows, mean, levels}]}, where `levels[i]` counts answers between LEVELS[i - 1] and LEVELS[i].
    """
    try:
        return _counted(predictions, bundle, store, graph)
    except (OSError, pa.ArrowException):
        return None  # damaged, or another table that happens to have these columns


def _counted(predictions: Path, bundle: Bundle, store: HopStore, graph: Graph | None) -> dict[str, Any] | None:
    kept, labels = store.kept, store.labels
    count = store.manifest.nodes if kept is None else len(kept)
    tally = _UnlabelledCounts(bundle)
    at = 0
    for batch in _batches(predictions, bundle.multi_label):
        end = min(at + len(batch), count)
        some = np.arange(at, end) if kept is None else np.asarray(kept[at:end])
        at += len(batch)
        if len(some) < len(batch) or not _are_of(batch, some, graph):
            return None
        unknown = _unknown(labels, some)
        if unknown.any():
            tally.add(batch.filter(pa.array(unknown)))
    return tally.content(at) if at and at == count else None


def _batches(path: Path, multi_label: bool) -> Iterator[pa.RecordBatch]:
    """Of a file, or of the parts of a folder in their order; nothing where it is no such table."""
    from pyarrow.parquet import ParquetFile

    names = ["id", "label"] if multi_label else ["id", "label", "probability"]
    files = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path] if path.exists() else []
    for file in files:
        with ParquetFile(file) as opened:
            if not set(names) <= set(opened.schema_arrow.names):
                return
            yield from opened.iter_batches(_BATCH, columns=names)


def _are_of(batch: pa.RecordBatch, rows: Array, graph: Graph | None) -> bool:
    """Whether the batch is of these rows: somebody may have written other predictions over them."""
    if graph is None:
        return True
    ids = graph.nodes.ids.take(rows)
    return (
        bool(batch.column("id").cast(ids.type, safe=False).equals(ids))
        if batch.column("id").type == ids.type
        else (batch.column("id").cast(pa.string()).equals(ids.cast(pa.string())))
    )


def _unknown(labels: Labels | None, rows: Array) -> Array:
    if labels is None:
        return np.ones(len(rows), bool)
    values = labels.values[rows]
    return np.asarray((values[:, 0] if labels.multi_label else values) < 0)


class _UnlabelledCounts:
    """Answers by class, and by how probable they are."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.names = arrow_classes(bundle.classes, bundle.class_type)
        count = len(bundle.classes)
        self.counts, self.sums = np.zeros((count, len(LEVELS) + 1), np.int64), np.zeros(count)
        self.rows = self.nothing = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        label = batch.column("label")
        if self.bundle.multi_label:
            self.nothing += pc.sum(pc.equal(pc.list_value_length(label), 0)).as_py() or 0
            given = self._numbers(label.flatten())
            self.counts[:, 0] += np.bincount(given[given >= 0], minlength=len(self.counts))
            return
        given, chance = self._numbers(label), batch.column("probability").to_numpy(zero_copy_only=False)
        known = given >= 0
        self.nothing += int(np.count_nonzero(~known))
        level = np.searchsorted(LEVELS, chance[known], side="right")
        np.add.at(self.counts, (given[known], level), 1)
        np.add.at(self.sums, given[known], chance[known])

    def _numbers(self, labels: pa.Array) -> Array:
        """Places of the classes, -1 for none."""
        found = pc.index_in(labels.cast(self.names.type), value_set=self.names)
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)

    def content(self, nodes: int) -> dict[str, Any]:
        many, rows = self.bundle.multi_label, self.counts.sum(1)
        classes = [
            {"class": int(number), "rows": int(rows[number])}
            | ({} if many else {"mean": self.sums[number] / rows[number], "levels": self.counts[number].tolist()})
            for number in np.argsort(-rows, kind="stable")
            if rows[number]
        ]
        return {"nodes": nodes, "rows": self.rows, "nothing": self.nothing, "classes": classes}
