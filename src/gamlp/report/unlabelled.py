"""What was predicted for nodes without a known label: how many of each class, and how sure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.graph import ClassType, Graph, TargetIds, arrow_classes
from gamlp.io import Place, Ranges, State, TakeTally, row_ranges, tally_here
from gamlp.propagation import HopStore
from gamlp.training import Bundle

LEVELS = (0.5, 0.7, 0.9, 0.99)  # probabilities that part the answers: below, between, from the last on
_BATCH = 1 << 16


def unlabelled_of(
    predictions: Path | Place, bundle: Bundle, store: HopStore, graph: Graph | None, take: TakeTally = tally_here
) -> dict[str, Any] | None:
    """From a run's table of predictions, read batch by batch; None where it is not that of the store's rows.

    {"nodes": rows of the table, "rows": those without a known label, "nothing": of them without an answer,
    "classes": [{class, rows, mean, levels}]}, where `levels[i]` counts answers between LEVELS[i - 1] and LEVELS[i].
    """
    try:
        files = _files(Place.of(predictions).resolved(), bundle.multi_label)
    except (OSError, pa.ArrowException):
        return None  # damaged
    if files is None or not files[-1][1] or files[-1][1] != store.stored_rows:
        return None
    ids = None if graph is None else TargetIds(graph)
    work = UnlabelledWork(tuple(files), store, ids, bundle.classes, bundle.class_type, bundle.multi_label)
    tally = UnlabelledCounts(bundle.classes, bundle.class_type, bundle.multi_label)
    for state in take(work, row_ranges(len(files), 1), "predictions of unlabelled rows"):
        if not state["whole"]:
            return None
        tally.merge(state)
    return tally.content(files[-1][1])


@dataclass(frozen=True)
class UnlabelledWork:
    """Counts of some files of a table; `files` are their places, and how many rows there are until the end of each."""

    files: tuple[tuple[Place, int], ...]
    store: HopStore
    ids: TargetIds | None
    classes: tuple[str, ...]
    class_type: ClassType
    multi_label: bool

    def __call__(self, ranges: Ranges) -> State:
        tally = UnlabelledCounts(self.classes, self.class_type, self.multi_label)
        try:
            whole = all(self._count(number, tally) for begin, end in ranges for number in range(begin, end))
        except (OSError, pa.ArrowException):
            whole = False  # damaged, or another table that happens to have these columns
        return {**tally.state(), "whole": np.array(whole)}

    def _count(self, number: int, tally: UnlabelledCounts) -> bool:
        """Whether the file's rows are those of the store, which are counted."""
        kept, at = self.store.kept, self.files[number - 1][1] if number else 0
        for batch in _batches(self.files[number][0], self.multi_label):
            end = at + len(batch)
            some = np.arange(at, end) if kept is None else np.asarray(kept[at:end])
            at = end
            if not _are_of(batch, some, self.ids):
                return False
            unknown = _unknown(self.store, some)
            if unknown.any():
                tally.add(batch.filter(pa.array(unknown)))
        return at == self.files[number][1]


def _files(place: Place, multi_label: bool) -> list[tuple[Place, int]] | None:
    """A file, or the parts of a folder in their order, each with the rows until its end; None: it is no such table."""
    found, rows = [], 0
    parts = [name for name in place.names() if name.startswith("part-") and name.endswith(".parquet")]
    alone = [place] if place.size() is not None else []
    for file in alone or [place / name for name in parts]:
        footer = _footer(file)
        if not set(_names(multi_label)) <= set(footer.schema.to_arrow_schema().names):
            return None
        rows += footer.num_rows
        found.append((file, rows))
    return found or None


def _footer(file: Place) -> Any:
    """What a Parquet file says of itself; of one elsewhere nothing else is fetched."""
    from pyarrow.parquet import read_metadata

    if file.local is not None:
        return read_metadata(file.local)
    size = file.size() or 0
    about = file.read(max(0, size - 8), size)  # the length of what is before, and the mark of such files
    return read_metadata(pa.BufferReader(file.read(max(0, size - 8 - int.from_bytes(about[:4], "little")), size)))


def _names(multi_label: bool) -> list[str]:
    return ["id", "label"] if multi_label else ["id", "label", "probability"]


def _batches(file: Place, multi_label: bool) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    with file.as_file() as path, ParquetFile(path) as opened:
        yield from opened.iter_batches(_BATCH, columns=_names(multi_label))


def _are_of(batch: pa.RecordBatch, rows: Array, named: TargetIds | None) -> bool:
    """Whether the batch is of these rows: somebody may have written other predictions over them."""
    if named is None:
        return True
    ids = named.take(rows)
    return (
        bool(batch.column("id").cast(ids.type, safe=False).equals(ids))
        if batch.column("id").type == ids.type
        else (batch.column("id").cast(pa.string()).equals(ids.cast(pa.string())))
    )


def _unknown(store: HopStore, rows: Array) -> Array:
    if not store.labelled:
        return np.ones(len(rows), bool)
    values = store.labels_at(rows)
    return np.asarray((values[:, 0] if values.ndim == 2 else values) < 0)


class UnlabelledCounts:
    """Answers by class, and by how probable they are; those of other rows are merged."""

    def __init__(self, classes: tuple[str, ...], class_type: ClassType, multi_label: bool) -> None:
        self.multi_label, self.names, count = multi_label, arrow_classes(classes, class_type), len(classes)
        self.counts, self.sums = np.zeros((count, len(LEVELS) + 1), np.int64), np.zeros(count)
        self.rows = self.nothing = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        label = batch.column("label")
        if self.multi_label:
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

    def state(self) -> State:
        """What was counted, for `merge` of another."""
        return {name: np.asarray(getattr(self, name)) for name in ("counts", "sums", "rows", "nothing")}

    def merge(self, state: State) -> None:
        """Add what was counted of other rows."""
        self.counts, self.sums = self.counts + state["counts"], self.sums + state["sums"]
        self.rows, self.nothing = self.rows + int(state["rows"]), self.nothing + int(state["nothing"])

    def content(self, nodes: int) -> dict[str, Any]:
        many, rows = self.multi_label, self.counts.sum(1)
        classes = [
            {"class": int(number), "rows": int(rows[number])}
            | ({} if many else {"mean": self.sums[number] / rows[number], "levels": self.counts[number].tolist()})
            for number in np.argsort(-rows, kind="stable")
            if rows[number]
        ]
        return {"nodes": nodes, "rows": self.rows, "nothing": self.nothing, "classes": classes}
