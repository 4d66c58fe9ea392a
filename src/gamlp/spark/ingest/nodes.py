"""Nodes on Spark: rows are checked once, numbered by ascending id, and written block by block by tasks."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ONE_TYPE
from gamlp.graph.ingest import (
    MOST_CLASSES,
    GivenSchema,
    NodeNames,
    OnBad,
    TimeSplit,
    WantedTypes,
    choose,
    feature_columns,
    plain_type,
    plan_columns,
    too_many_classes,
)
from gamlp.io import Place
from gamlp.kernel import MOST_NODES, FloatName
from gamlp.progress import Progress
from gamlp.spark.ingest.block_files import NodeBlocks, RowBlocks
from gamlp.spark.ingest.fitting import FittedColumns, fit_columns, refuse_wrong, settled, without_wrong
from gamlp.spark.ingest.kept import KeptFiles, keep_good, kept_rows, refuse_unseen
from gamlp.spark.ingest.node_checks import NodeChecks, checked_nodes, raw_name
from gamlp.spark.ingest.notes import Notes
from gamlp.spark.ingest.packs import PACKED, by_place, larger, packed, sent
from gamlp.spark.ingest.parquet import Work
from gamlp.spark.ingest.partitions import one_a_partition
from gamlp.spark.ingest.sorted_ids import SortedIds, put_sorted
from gamlp.spark.ingest.table_times import TableTimes
from gamlp.spark.ingest.tables import SparkTable
from gamlp.spark.tasks import as_result, collect_results, run_tasks

IDS_PER_TASK = 1 << 20
_APART = ("id", "label", "role")  # columns that are read without features
_SAMPLED = 50  # ids of those of a task by which they are cut
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass
class CheckedNodes:
    """Good rows of a node table, kept by tasks so that the table is read once; `close` lets them go."""

    spark: Any
    staging: Place
    kept: KeptFiles
    columns: str  # as Spark calls those that are kept
    checks: NodeChecks
    notes: Notes
    width: int | None = None
    fitted: FittedColumns | None = None  # where columns are encoded

    @property
    def read(self) -> int:
        return sum(facts["read"] for facts in self.notes.facts["parts"])

    @property
    def good(self) -> int:
        return sum(facts["good"] for facts in self.notes.facts["parts"])

    @property
    def list_widths(self) -> dict[str, int]:
        """Lengths of lists by column; all tasks saw the same."""
        widths: dict[str, int] = next(facts["widths"] for facts in self.notes.facts["parts"] if facts["good"])
        return widths

    @property
    def naive(self) -> int:
        """Times that name no zone."""
        return sum(facts.get("naive", 0) for facts in self.notes.facts["parts"])

    @property
    def unknown(self) -> dict[str, int]:
        """Labels that say that they are not known."""
        whole: Counter[str] = Counter()
        for facts in self.notes.facts["parts"]:
            whole.update(facts["unknown"])
        return dict(whole)

    def as_read(self) -> Any:
        """Good rows as they were read, as Spark's own."""
        return self.kept.map(self.spark, lambda batches: batches, self.columns)

    def map(self, work: Work, schema: Any, *, alone: bool = False) -> Any:
        """A frame of what `work` makes of good rows, with ids that are integers where all of them are.

        `alone`: of ids, labels and roles.
        """
        integers = self.checks.integers

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            return work(_with_integers(batch) if integers else batch for batch in batches)

        return self.kept.map(self.spark, run, schema, alone=alone)

    def close(self) -> None:
        self.kept.remove()


def _with_integers(batch: Any) -> Any:
    """Ids of a CSV are kept as text, also where all of them are integers."""
    at = batch.schema.get_field_index("id")
    return batch.set_column(at, "id", batch.column(at).cast(pa.int64()))


def node_checks(
    table: SparkTable,
    names: NodeNames,
    dtype: FloatName,
    on_bad: OnBad,
    node_type: str = ONE_TYPE,
    wanted: WantedTypes | None = None,
    schema: GivenSchema | None = None,
    split_by: TimeSplit | None = None,
) -> NodeChecks:
    """Which columns are read, and how, by the rules of `gamlp ingest`."""
    label = choose(table, names.label, "label")
    split = choose(table, names.split, "split") if split_by is None else None
    time = None if split_by is None else split_by.column
    table.need([names.id, *([] if time is None else [time])])
    if names.features is not None and names.features.endswith(".npy"):
        raise GamlpError(
            "rows of a .npy cannot be told apart on Spark", file=names.features, hint="give features as columns"
        )
    features = feature_columns(table.column_names, names, label, split, time).names
    table.need(features)
    given = {name: table.arrow_type(name) for name in features}
    kept = {name: plain_type(arrow) for name, arrow in given.items()}
    plan = plan_columns(features, kept, wanted or WantedTypes(), node_type, schema, file=table.name)
    multi_label = label is not None and (names.separator is not None or table.is_list(label))
    integers = table.kind(names.id).typeName() in _INTEGERS
    return NodeChecks(
        table.name,
        names.id,
        label,
        split,
        list(plan.wanted),
        dtype,
        on_bad,
        names.separator,
        names.unknown,
        multi_label,
        integers,
        table.ragged,
        plan=None if plan.untouched or not plan.wanted else plan,
        arrow_types=kept,
        given_types=given,
        left_out=plan.left_out,
        split_by=split_by,
        times=None if split_by is None else TableTimes.of(table, split_by.column, split_by.cuts()),
    )


def check_nodes(spark: Any, table: SparkTable, checks: NodeChecks, staging: Place, progress: Progress) -> CheckedNodes:
    """Read the table once; a second time only where lists differ in length, to learn which length is meant."""
    found = _checked(spark, table, checks, staging, progress)
    lists = [name for name in checks.features if table.is_list(name)]
    if lists and (found.notes.fatal or found.notes.counts["ragged features"] or not _one_width(found)):
        found.close()
        found = _checked(
            spark, table, replace(checks, widths=_widths_of_first(table, checks, lists)), staging, progress
        )
    try:
        found.notes.report(table.name, checks.on_bad)
        if found.read == 0:
            raise GamlpError("no nodes: the table has no rows", file=table.name)
        if found.good == 0:
            raise GamlpError("no nodes: every row of the table is bad", file=table.name)
        if found.good > MOST_NODES:
            raise GamlpError(f"{found.good} nodes are more than this format holds", hint=f"stay below {MOST_NODES}")
        parts = [facts for facts in found.notes.facts["parts"] if facts["good"]]
        if not checks.integers and not table.typed:
            found.checks = replace(found.checks, integers=all(facts["plain"] for facts in parts))
        if checks.plan is not None:
            found = _encodable(found, progress)
        else:
            found.width = parts[0]["width"] if checks.features else None
    except BaseException:
        found.close()
        raise
    return found


def _checked(spark: Any, table: SparkTable, checks: NodeChecks, staging: Place, progress: Progress) -> CheckedNodes:
    time = None if checks.times is None else checks.times.column
    names = [name for name in (checks.id, checks.label, checks.split, time, *checks.features) if name]
    folder = KeptFiles.new_folder(staging)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from keep_good(checked_nodes(batches, checks), folder, apart=_APART)

    label = "array<string>" if checks.multi_label else "string"
    kind = "long" if checks.integers else "string"
    features = "features binary"
    if checks.plan is not None:
        features = ", ".join(f"{raw_name(at)} {table.ddl_type(name)}" for at, name in enumerate(checks.features))
    kept, notes = kept_rows(spark, table.map(names, work, "answer string"), folder, "nodes", progress, apart=True)
    return CheckedNodes(spark, staging, kept, f"id {kind}, label {label}, role byte, {features}", checks, notes)


def _encodable(found: CheckedNodes, progress: Progress) -> CheckedNodes:
    """The rows whose cells are all what their columns are, with the columns' states."""
    if found.checks.on_bad == "skip":
        found = _once_each(found, progress)  # a row that will not be a node has no say in a state
    while True:
        columns = fit_columns(found.spark, found.map, found.checks, progress)
        refused = next((name for name, result in columns.items() if "refused" in result), None)
        if refused is None:
            break
        found = _without_wrong(found, refused, columns[refused]["refused"], progress)
    found.fitted = settled(found.checks, columns)
    found.width = found.fitted.width or None
    return found


def _once_each(found: CheckedNodes, progress: Progress) -> CheckedNodes:
    """One row of each id, the one with the smallest content."""
    from pyspark.sql import Window, functions

    rows = found.as_read()
    repeats = found.good - rows.select("id").distinct().count()
    if not repeats:
        return found
    content = [raw_name(number) for number in range(len(found.checks.features))]
    rank = functions.row_number().over(Window.partitionBy("id").orderBy(*content, "label", "role"))
    frame = rows.withColumn("rank", rank).where("rank = 1").drop("rank")
    frame = frame.withColumn("note", functions.lit(None).cast("string"))
    folder = KeptFiles.new_folder(found.staging)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from keep_good(batches, folder, apart=_APART)

    kept, _ = kept_rows(found.spark, frame.mapInArrow(work, "answer string"), folder, "nodes", progress, apart=True)
    return _instead(found, kept, found.good - repeats, {"duplicate id": repeats})


def _without_wrong(found: CheckedNodes, name: str, refused: dict[str, str], progress: Progress) -> CheckedNodes:
    # Ids of a CSV are text in the files, also where all of them are integers.
    checks = replace(found.checks, integers=found.columns.startswith("id long"))
    folder = KeptFiles.new_folder(found.staging)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from keep_good(without_wrong(batches, checks, name, refused), folder, apart=_APART)

    frame = found.kept.map(found.spark, work, "answer string")
    kept, notes = kept_rows(found.spark, frame, folder, "nodes", progress, apart=True)
    refuse_wrong(notes, checks, name, refused)
    good = sum(facts["good"] for facts in notes.facts["parts"])
    if good == 0:
        raise GamlpError("no nodes: every row of the table is bad", file=checks.table)
    return _instead(found, kept, good, notes.counts)


def _instead(found: CheckedNodes, kept: KeptFiles, good: int, left_out: Mapping[str, int]) -> CheckedNodes:
    """Fewer rows, kept in place of those that were found."""
    parts = [{**facts, "good": 0} for facts in found.notes.facts["parts"]]
    parts.append({"read": 0, "good": good, "plain": True, "widths": found.list_widths, "unknown": {}})
    notes = replace(found.notes, counts=found.notes.counts + Counter(left_out), facts={"parts": parts})
    found.close()
    return replace(found, kept=kept, notes=notes)


def _one_width(found: CheckedNodes) -> bool:
    widths = [facts["widths"] for facts in found.notes.facts["parts"] if facts["good"]]
    return all(each == widths[0] for each in widths)


def _widths_of_first(table: SparkTable, checks: NodeChecks, lists: list[str]) -> dict[str, int]:
    """Of every list column the length that the node with the smallest id has."""
    from pyspark.sql import functions

    first = []
    for number, name in enumerate(lists):
        values, key = table.column(name), table.column(checks.id)
        smallest = functions.min_by(functions.size(values), functions.when(values.isNotNull(), key))
        first.append(smallest.alias(str(number)))
    row = table.frame.agg(*first).collect()[0]
    widths = {name: int(row[str(number)]) for number, name in enumerate(lists) if row[str(number)] is not None}
    empty = next((name for name, width in widths.items() if width == 0), None)
    if empty is not None:
        raise GamlpError("an empty list of features", file=table.name, column=empty)
    return widths


def sort_ids(nodes: CheckedNodes, progress: Progress) -> tuple[SortedIds, int]:
    """(ids in ascending order, how many were there twice): integers by value, strings by their UTF-8 bytes."""
    partitions = max(1, -(-nodes.good // IDS_PER_TASK))
    folder, keys, bounds = nodes.staging / "ids", one_a_partition(partitions), _even_bounds(nodes, partitions, progress)

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in larger(batch.select(["id"]) for batch in batches):
            yield packed(batch, _between(batch.column("id"), bounds), keys)

    def sort(batches: Iterator[Any]) -> Iterator[Any]:
        yield from put_sorted(batches, folder)

    frame = sent(nodes.map(place, PACKED, alone=True), keys).mapInArrow(sort, "answer string")
    found = collect_results(nodes.spark, frame, "ids", partitions, progress)
    results = [result for _, result in found if result["count"]]
    results.sort(key=lambda result: result["first"])
    twice = next((result["twice"] for result in results if result["twice"] is not None), None)
    if twice is not None and nodes.checks.on_bad == "stop":
        raise GamlpError(f"node '{twice}' is there more than once", file=nodes.checks.table, column=nodes.checks.id)
    names = [result["name"] for result in results]
    refuse_unseen(folder, names)
    counts = [result["count"] for result in results]
    starts = [int(start) for start in np.cumsum([0, *counts[:-1]])]
    count, integers = sum(counts), nodes.checks.integers
    is_range = integers and results[0]["first"] == 0 and results[-1]["last"] == count - 1
    repeats = sum(result["repeats"] for result in results)
    firsts, size = [result["first"] for result in results], sum(result["bytes"] for result in results)
    return SortedIds(folder, names, starts, count, integers, is_range, firsts, size), repeats


def _even_bounds(nodes: CheckedNodes, partitions: int, progress: Progress) -> list[Any]:
    """Ids that cut all of them into about equal parts, by a sample of them."""
    if partitions == 1:
        return []
    step = max(1, IDS_PER_TASK // _SAMPLED)

    def some(batches: Iterator[Any]) -> Iterator[Any]:
        before, found = 0, []
        for batch in batches:
            found += batch.column("id")[-before % step :: step].to_pylist()
            before += batch.num_rows
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps({"ids": found})])], names=["answer"])

    frame = nodes.map(some, "answer string", alone=True)
    results = collect_results(nodes.spark, frame, "ids", partitions, progress)
    sample = sorted(value for _, result in results for value in result["ids"])
    return [sample[number * len(sample) // partitions] for number in range(1, partitions)]


def _between(ids: Any, bounds: Sequence[Any]) -> Array:
    """Of every id how many bounds are not above it."""
    if not bounds:
        return np.zeros(len(ids), np.int32)
    if pa.types.is_integer(ids.type):
        places = np.searchsorted(np.asarray(bounds, np.int64), ids.to_numpy(), side="right")
        return np.asarray(places, np.int32)
    # Python orders strings by code points, which is the order of their UTF-8 bytes.
    return np.asarray([bisect_right(bounds, value) for value in ids.to_pylist()], np.int32)


def label_texts(nodes: CheckedNodes, progress: Progress) -> list[str] | None:
    """All labels there are, sorted; None where no node has one."""
    if nodes.checks.label is None:
        return None
    frame = (
        nodes.map(_distinct_labels, "text string", alone=True)
        .repartition(1)
        .mapInArrow(_distinct_texts, "answer string")
    )
    found = [
        text for _, result in collect_results(nodes.spark, frame, "labels", 1, progress) for text in result["texts"]
    ]
    if len(found) > MOST_CLASSES:
        raise too_many_classes(nodes.checks.label)
    return sorted(found) or None


def _distinct_labels(batches: Iterator[Any]) -> Iterator[Any]:
    """Of a part of the nodes; no more than tell that there are too many."""
    columns = (batch.column("label") for batch in batches)
    texts = _distinct(column.flatten() if pa.types.is_list(column.type) else column for column in columns)
    yield pa.RecordBatch.from_arrays([texts], names=["text"])


def _distinct_texts(batches: Iterator[Any]) -> Iterator[Any]:
    texts = _distinct(batch.column("text") for batch in batches)
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps({"texts": texts.to_pylist()})])], names=["answer"])


def _distinct(columns: Iterator[Any]) -> Any:
    found = pa.array([], pa.string())
    for column in columns:
        if len(found) <= MOST_CLASSES:
            texts = pc.unique(column).drop_null()
            found = pc.unique(pa.concat_arrays([found, texts.filter(pc.not_equal(texts, ""))]))
    return found[: MOST_CLASSES + 1]


def write_nodes(nodes: CheckedNodes, ids: SortedIds, blocks: NodeBlocks, progress: Progress) -> list[dict[str, Any]]:
    """Files of every block of rows; answers of the blocks, in order."""
    bounds, keys = _bounds(nodes.spark, ids, blocks.rows), one_a_partition(blocks.rows.blocks)

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in larger(batches):
            yield packed(batch, _between(batch.column("id"), bounds), keys)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        found = by_place(batches)
        for number in sorted(found):
            table = pa.Table.from_batches(found.pop(number))
            text = as_result(partial(blocks.write, table=table), number)
            columns = [pa.array([number], pa.int32()), pa.array([text])]
            yield pa.RecordBatch.from_arrays(columns, names=["block", "answer"])

    frame = sent(nodes.map(place, PACKED), keys).mapInArrow(write, "block int, answer string")
    answers = collect_results(nodes.spark, frame, "features", blocks.rows.blocks, progress)
    results = {row["block"]: result for row, result in answers}
    return [results[block] for block in range(blocks.rows.blocks)]


def _bounds(spark: Any, ids: SortedIds, rows: RowBlocks) -> list[Any]:
    """First id of every block but the first."""
    if ids.is_range:
        return [rows.bounds(block)[0] for block in range(1, rows.blocks)]
    wanted = list(ids.first_of_blocks(rows).values())
    results = run_tasks(spark, lambda number: ids.at(wanted[number]), range(len(wanted)))
    return [value for result in results for value in result["ids"]]
