"""States of feature columns, fitted by Spark: every task sees its own rows, and partial fittings of a column are merged
by one task. The driver gets states alone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import FeatureColumn, FileFacts, block_bytes, features_files, raw_file
from gamlp.graph.features.encoders import FittedColumn, Fitting, Unseen, finish, infer, refusal_hint, unreadable
from gamlp.graph.ingest import fit_dtype, is_no, kept_raw, plain, shown
from gamlp.io import Place, put_rows
from gamlp.kernel import NUMPY_DTYPES, FloatName, cannot_hold, store_as
from gamlp.progress import Progress
from gamlp.spark.ingest.node_checks import NodeChecks, raw_name
from gamlp.spark.ingest.notes import NotedRows, Notes, id_key, note_batch
from gamlp.spark.ingest.partitions import SLOT, one_a_partition
from gamlp.spark.tasks import as_result, collect_results

RowsMap = Callable[[Callable[[Iterator[Any]], Iterator[Any]], str], Any]  # `CheckedNodes.map`
_PIECE = 32 << 20  # bytes of features that are made at a time


@dataclass(frozen=True)
class FittedColumns:
    """All columns that were read, also those that turned out to be left out; and the gaps that fitting saw."""

    checks: NodeChecks
    columns: tuple[FittedColumn, ...]
    gaps: Mapping[str, int]

    @property
    def used(self) -> list[FittedColumn]:
        return [column for column in self.columns if column.width]

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    @property
    def raw(self) -> list[str]:
        """Columns that the graph keeps as the table had them."""
        return kept_raw(list(self.columns))

    def schema(self) -> list[FeatureColumn]:
        """As the manifest keeps them."""
        assert self.checks.plan is not None
        return list(self.checks.plan.kept(self.used))

    def write(
        self, table: Any, order: Array, graph: Place, node_type: str, block: int, blocks: int, dtype: FloatName
    ) -> tuple[FileFacts, dict[str, list[Any]]]:
        """Features and raw columns of a block of nodes in this order; its files, and what states had not seen."""
        cells, places = self.checks.cells(), {name: number for number, name in enumerate(self.checks.features)}
        names = self.raw or [column.name for column in self.used]
        rows = table.select([raw_name(places[name]) for name in names]).take(pa.array(order))
        kept = pa.RecordBatch.from_arrays(
            [cells.stored(name, plain(rows.column(at).combine_chunks())) for at, name in enumerate(names)], names
        )
        files: FileFacts = {}
        if self.raw:
            data, name = block_bytes(kept), raw_file(node_type, block)
            (graph / name).put(data)
            files[name] = [len(data), zlib.crc32(data)]
        values = np.empty((len(order), self.width), NUMPY_DTYPES[dtype])
        unseen: dict[str, Unseen] = {}
        step = max(1, _PIECE // (4 * self.width))
        for begin in range(0, len(order), step):
            part = kept.slice(begin, step)
            values[begin : begin + part.num_rows] = self._encoded(part, dtype, unseen)
        name = features_files(node_type, [0] * blocks)[block]
        files[name] = put_rows(graph / name, values)
        return files, {name: [one.values, one.gaps, list(one.examples)] for name, one in unseen.items() if one}

    def _encoded(self, part: pa.RecordBatch, dtype: FloatName, unseen: dict[str, Unseen]) -> Array:
        values, at = np.empty((part.num_rows, self.width), np.float32), 0
        for column in self.used:
            own = values[:, at : at + column.width]
            at += column.width
            unseen[column.name] = unseen.get(column.name, Unseen()) + column.apply(part.column(column.name), own)[1]
            if (wrong := fit_dtype(column, own, dtype)) is not None:
                raise cannot_hold(own[wrong], dtype, file=self.checks.table, column=column.name)
        return np.asarray(store_as(values, dtype))


def partial_fittings(batches: Iterator[Any], checks: NodeChecks) -> Iterator[Any]:
    """What a task saw of every column, as plain data."""
    cells = checks.cells()
    fittings = cells.fittings()
    for batch in batches:
        for number, name in enumerate(checks.features):
            if name in fittings:
                fittings[name].add(cells.stored(name, plain(batch.column(raw_name(number)))))
    numbers = [number for number, name in enumerate(checks.features) if name in fittings]
    plains = [json.dumps(fittings[checks.features[number]].to_plain()) for number in numbers]
    yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), pa.array(plains, pa.string())], ["place", "plain"])


def merged_state(plains: Sequence[str]) -> dict[str, Any]:
    """The state of a column that several tasks saw, or why it cannot be meant."""
    whole: Fitting | None = None
    for text in plains:
        other = Fitting.from_plain(json.loads(text))
        if whole is None:
            whole = other
        else:
            whole.merge(other)
    assert whole is not None
    found = infer(whole)
    if found.refusal is not None:
        about = {"refusal": found.refusal, "type": found.type, "hint": refusal_hint(whole.name, found)}
        return {"name": whole.name, "refused": about}
    return {"name": whole.name, "gaps": whole.gaps, "fitted": finish(whole).model_dump(mode="json")}


def fit_columns(spark: Any, rows: RowsMap, checks: NodeChecks, progress: Progress) -> dict[str, dict[str, Any]]:
    """What became of every column that has no state yet, by name; `rows` maps good ones, with their raw columns."""
    names = [name for name in checks.features if checks.plan is not None and name not in checks.plan.fitted]
    if not names:
        return {}
    keys = one_a_partition(len(checks.features))

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for parts in partial_fittings(batches, checks):
            yield parts.append_column(SLOT, pa.array(keys[parts.column("place").to_numpy()]))

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        plains: dict[int, list[str]] = {}
        for batch in batches:
            for number, text in zip(*(batch.column(at).to_pylist() for at in range(2))):
                plains.setdefault(number, []).append(text)
        texts = [as_result(lambda place: merged_state(plains[place]), number) for number in plains]
        yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["answer"])

    frame = rows(work, f"place int, plain string, {SLOT} int").repartition(len(keys), SLOT)
    found = collect_results(spark, frame.mapInArrow(merge, "answer string"), "fit", len(names), progress)
    return {result["name"]: result for _, result in found}


def settled(checks: NodeChecks, found: Mapping[str, dict[str, Any]]) -> FittedColumns:
    """All columns with their states."""
    assert checks.plan is not None
    columns = tuple(
        checks.plan.fitted.get(name) or FittedColumn.model_validate(found[name]["fitted"]) for name in checks.features
    )
    return FittedColumns(checks, columns, {name: result["gaps"] for name, result in found.items()})


def without_wrong(batches: Iterator[Any], checks: NodeChecks, name: str, refused: Mapping[str, str]) -> Iterator[Any]:
    """Rows whose cell is what its column is, and at the end one row whose `note` tells of the others."""
    notes = Notes(facts={"read": 0, "good": 0, "plain": True, "widths": dict(checks.widths), "unknown": {}})
    cells, place = checks.cells(), raw_name(checks.features.index(name))
    schema = checks.schema()
    for batch in batches:
        ids, column = plain(batch.column("id")), cells.stored(name, plain(batch.column(place)))

        def row_name(row: int, ids: Any = ids) -> tuple[list[Any], str]:
            return id_key(ids[row].as_py()), f"node '{shown(ids, row)}'"

        def problem(row: int, column: Any = column) -> str:
            return f"{is_no(column, row, refused['type'])} ({refused['refusal']})"

        rows = NotedRows(batch, checks.table, notes, checks.on_bad, row_name)
        rows.refuse(f"no {refused['type']}", unreadable(column, refused["type"]), name, problem, refused["hint"])
        notes.facts["good"] += int(np.count_nonzero(rows.good))
        kept = batch.filter(pa.array(rows.good))
        yield pa.RecordBatch.from_arrays([*kept.columns, pa.nulls(kept.num_rows, pa.string())], schema=schema)
    yield note_batch(schema, notes)


def refuse_wrong(notes: Notes, checks: NodeChecks, name: str, refused: Mapping[str, str]) -> None:
    """Raise where bad rows end it, or where no row is to blame."""
    notes.report(checks.table, checks.on_bad)
    if not notes.counts:
        raise GamlpError(refused["refusal"], file=checks.table, column=name, hint=refused["hint"])
