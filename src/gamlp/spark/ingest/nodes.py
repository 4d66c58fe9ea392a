"""Nodes on Spark: rows are checked once, numbered by ascending id, and written block by block by tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph import ONE_TYPE
from gamlp.graph.ingest import (
    MOST_CLASSES,
    GivenSchema,
    NodeNames,
    OnBad,
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
from gamlp.spark.ingest.node_checks import NodeChecks, checked_nodes, raw_name
from gamlp.spark.ingest.notes import Notes
from gamlp.spark.ingest.partitions import SLOT, one_a_partition
from gamlp.spark.ingest.sorted_ids import SortedIds, put_sorted
from gamlp.spark.ingest.tables import SparkTable
from gamlp.spark.tasks import as_result, collect_results, run_tasks

IDS_PER_TASK = 1 << 20
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass
class CheckedNodes:
    """Good rows of a node table, kept by Spark so that the table is read once; `close` lets them go."""

    frame: Any
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
    def unknown(self) -> dict[str, int]:
        """Labels that say that they are not known."""
        whole: Counter[str] = Counter()
        for facts in self.notes.facts["parts"]:
            whole.update(facts["unknown"])
        return dict(whole)

    def good_rows(self) -> Any:
        """Good rows as they were read."""
        from pyspark.sql import functions

        return self.frame.where(functions.col("note").isNull()).drop("note")

    def rows(self) -> Any:
        """Good rows, with ids that are integers where all of them are."""
        from pyspark.sql import functions

        rows = self.good_rows()
        return rows.withColumn("id", functions.col("id").cast("long")) if self.checks.integers else rows

    def close(self) -> None:
        self.frame.unpersist()


def node_checks(
    table: SparkTable,
    names: NodeNames,
    dtype: FloatName,
    on_bad: OnBad,
    node_type: str = ONE_TYPE,
    wanted: WantedTypes | None = None,
    schema: GivenSchema | None = None,
) -> NodeChecks:
    """Which columns are read, and how, by the rules of `gamlp ingest`."""
    label, split = choose(table, names.label, "label"), choose(table, names.split, "split")
    table.need([names.id])
    if names.features is not None and names.features.endswith(".npy"):
        raise GamlpError(
            "rows of a .npy cannot be told apart on Spark", file=names.features, hint="give features as columns"
        )
    features = feature_columns(table.column_names, names, label, split).names
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
    )


def check_nodes(spark: Any, table: SparkTable, checks: NodeChecks, progress: Progress) -> CheckedNodes:
    """Read the table once; a second time only where lists differ in length, to learn which length is meant."""
    found = _checked(spark, table, checks, progress)
    lists = [name for name in checks.features if table.is_list(name)]
    if lists and (found.notes.fatal or found.notes.counts["ragged features"] or not _one_width(found)):
        found.close()
        found = _checked(spark, table, replace(checks, widths=_widths_of_first(table, checks, lists)), progress)
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
            found = _encodable(spark, found, progress)
        else:
            found.width = parts[0]["width"] if checks.features else None
    except BaseException:
        found.close()
        raise
    return found


def _checked(spark: Any, table: SparkTable, checks: NodeChecks, progress: Progress) -> CheckedNodes:
    from pyspark import StorageLevel
    from pyspark.sql import functions

    names = [name for name in (checks.id, checks.label, checks.split, *checks.features) if name]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from checked_nodes(batches, checks)

    label = "array<string>" if checks.multi_label else "string"
    kind = "long" if checks.integers else "string"
    features = "features binary"
    if checks.plan is not None:
        features = ", ".join(f"{raw_name(at)} {table.ddl_type(name)}" for at, name in enumerate(checks.features))
    frame = table.map(names, work, f"id {kind}, label {label}, role byte, {features}, note string")
    frame = frame.persist(StorageLevel.DISK_ONLY)
    try:
        notes = frame.where(functions.col("note").isNotNull()).select(functions.col("note").alias("answer"))
        parts = [Notes.of(result) for _, result in collect_results(spark, notes, "nodes", 1, progress)]
    except BaseException:
        frame.unpersist()
        raise
    return CheckedNodes(frame, checks, Notes.merged(parts))


def _encodable(spark: Any, found: CheckedNodes, progress: Progress) -> CheckedNodes:
    """The rows whose cells are all what their columns are, with the columns' states."""
    if found.checks.on_bad == "skip":
        found = _once_each(found)  # a row that will not be a node has no say in a state
    while True:
        columns = fit_columns(spark, found.good_rows(), found.checks, progress)
        refused = next((name for name, result in columns.items() if "refused" in result), None)
        if refused is None:
            break
        found = _without_wrong(spark, found, refused, columns[refused]["refused"], progress)
    found.fitted = settled(found.checks, columns)
    found.width = found.fitted.width or None
    return found


def _once_each(found: CheckedNodes) -> CheckedNodes:
    """One row of each id, the one with the smallest content."""
    from pyspark.sql import Window, functions

    rows = found.good_rows()
    repeats = found.good - rows.select("id").distinct().count()
    if not repeats:
        return found
    content = [raw_name(number) for number in range(len(found.checks.features))]
    rank = functions.row_number().over(Window.partitionBy("id").orderBy(*content, "label", "role"))
    frame = rows.withColumn("rank", rank).where("rank = 1").drop("rank").withColumn("note", functions.lit(None))
    frame = frame.withColumn("note", functions.col("note").cast("string"))
    return _instead(found, frame, found.good - repeats, {"duplicate id": repeats})


def _without_wrong(
    spark: Any, found: CheckedNodes, name: str, refused: dict[str, str], progress: Progress
) -> CheckedNodes:
    from pyspark.sql import functions

    # Ids of a CSV are text in the frame, also where all of them are integers.
    checks = replace(found.checks, integers=dict(found.frame.dtypes)["id"] == "bigint")

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from without_wrong(batches, checks, name, refused)

    frame = found.good_rows().mapInArrow(work, found.frame.schema).cache()
    try:
        told = frame.where(functions.col("note").isNotNull()).select(functions.col("note").alias("answer"))
        notes = Notes.merged([Notes.of(result) for _, result in collect_results(spark, told, "nodes", 1, progress)])
        refuse_wrong(notes, checks, name, refused)
        good = sum(facts["good"] for facts in notes.facts["parts"])
        if good == 0:
            raise GamlpError("no nodes: every row of the table is bad", file=checks.table)
        return _instead(found, frame, good, notes.counts)
    finally:
        frame.unpersist()


def _instead(found: CheckedNodes, frame: Any, good: int, left_out: Mapping[str, int]) -> CheckedNodes:
    """Fewer rows, kept in place of those that were found."""
    from pyspark import StorageLevel

    frame = frame.persist(StorageLevel.DISK_ONLY)
    frame.count()
    parts = [{**facts, "good": 0} for facts in found.notes.facts["parts"]]
    parts.append({"read": 0, "good": good, "plain": True, "widths": found.list_widths, "unknown": {}})
    notes = replace(found.notes, counts=found.notes.counts + Counter(left_out), facts={"parts": parts})
    found.close()
    return replace(found, frame=frame, notes=notes)


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


def sort_ids(spark: Any, nodes: CheckedNodes, staging: Place, progress: Progress) -> tuple[SortedIds, int]:
    """(ids in ascending order, how many were there twice): integers by value, strings by their UTF-8 bytes."""
    partitions = max(1, -(-nodes.good // IDS_PER_TASK))
    folder = staging / "ids"

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield from put_sorted(batches, folder)

    ids = nodes.rows().select("id")
    ids = ids.repartitionByRange(partitions, "id") if partitions > 1 else ids.repartition(1)
    frame = ids.sortWithinPartitions("id").mapInArrow(work, "answer string")
    results = [result for _, result in collect_results(spark, frame, "ids", partitions, progress) if result["count"]]
    results.sort(key=lambda result: result["first"])
    twice = next((result["twice"] for result in results if result["twice"] is not None), None)
    if twice is not None and nodes.checks.on_bad == "stop":
        raise GamlpError(f"node '{twice}' is there more than once", file=nodes.checks.table, column=nodes.checks.id)
    names = [result["name"] for result in results]
    if any((folder / name).size() is None for name in names):
        raise GamlpError(
            "executors write where the driver does not read", file=folder, hint="choose an --out that all of them share"
        )
    counts = [result["count"] for result in results]
    starts = [int(start) for start in np.cumsum([0, *counts[:-1]])]
    count, integers = sum(counts), nodes.checks.integers
    is_range = integers and results[0]["first"] == 0 and results[-1]["last"] == count - 1
    repeats = sum(result["repeats"] for result in results)
    return SortedIds(folder, names, starts, count, integers, is_range), repeats


def label_texts(nodes: CheckedNodes) -> list[str] | None:
    """All labels there are, sorted; None where no node has one."""
    from pyspark.sql import functions

    if nodes.checks.label is None:
        return None
    label = functions.explode("label") if nodes.checks.multi_label else functions.col("label")
    texts = nodes.rows().select(label.alias("text")).where(functions.col("text") != "").distinct()
    found = sorted(row["text"] for row in texts.limit(MOST_CLASSES + 1).collect())
    if len(found) > MOST_CLASSES:
        raise too_many_classes(nodes.checks.label)
    return found or None


def write_nodes(
    spark: Any, nodes: CheckedNodes, ids: SortedIds, blocks: NodeBlocks, progress: Progress
) -> list[dict[str, Any]]:
    """Files of every block of rows; answers of the blocks, in order."""
    bounds, keys = _bounds(spark, ids, blocks.rows), one_a_partition(blocks.rows.blocks)
    kinds = {field.name: field.dataType.simpleString() for field in nodes.rows().schema.fields}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())

    def place(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            values = batch.column(batch.schema.get_field_index("id"))
            if ids.integers:
                block = np.searchsorted(np.asarray(bounds, np.int64), values.to_numpy(), side="right")
            else:  # Python orders strings by code points, which is the order of their UTF-8 bytes
                block = np.asarray([bisect_right(bounds, value) for value in values.to_pylist()], np.int32)
            placed = batch.append_column("block", pa.array(block.astype(np.int32)))
            yield placed.append_column(SLOT, pa.array(keys[block]))

    def write(key: Any, table: Any) -> Any:
        number = key[1].as_py()
        text = as_result(lambda block: blocks.write(block, table), number)
        return pa.table({"block": pa.array([number], pa.int32()), "answer": pa.array([text])})

    frame = nodes.rows().mapInArrow(place, f"{columns}, block int, {SLOT} int").repartition(len(keys), SLOT)
    frame = frame.groupBy(SLOT, "block").applyInArrow(write, "block int, answer string")
    found = collect_results(spark, frame, "features", blocks.rows.blocks, progress)
    results = {row["block"]: result for row, result in found}
    return [results[block] for block in range(blocks.rows.blocks)]


def _bounds(spark: Any, ids: SortedIds, rows: RowBlocks) -> list[Any]:
    """First id of every block but the first."""
    if ids.is_range:
        return [rows.bounds(block)[0] for block in range(1, rows.blocks)]
    wanted = list(ids.first_of_blocks(rows).values())
    results = run_tasks(spark, lambda number: ids.at(wanted[number]), range(len(wanted)))
    return [value for result in results for value in result["ids"]]
