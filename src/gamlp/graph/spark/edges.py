"""Edges on Spark: ids joined to rows, entries packed by block, and the CSR of every block built by a task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gamlp.cluster.tasks import answered, collect_answers, run_tasks
from gamlp.graph.columns import OnBad
from gamlp.graph.edges_table import MOST_RELATIONS, EdgeNames, too_many_relations
from gamlp.graph.joins import ONE_RELATION
from gamlp.graph.nodes_table import choose
from gamlp.graph.spark.block_files import CsrBlocks, FileFacts, Rows
from gamlp.graph.spark.edge_checks import EdgeChecks, edge_entries, edge_keys, rows_of_range
from gamlp.graph.spark.notes import Notes
from gamlp.graph.spark.sorted_ids import SortedIds
from gamlp.graph.spark.tables import SparkTable
from gamlp.progress import Progress
from gamlp.storage import Place

_NOTES = -1  # in place of a block
_PACKS = "relation string, block int, rows binary, neighbours binary, weights binary, note string"


@dataclass
class Relations:
    """What became of an edge table: stored entries of every block by relation, files, and what was left out."""

    entries: dict[str, list[int]] = field(default_factory=dict)
    files: FileFacts = field(default_factory=dict)
    weighted: bool = False
    read: int = 0
    loops: int = 0
    given: int = 0  # entries before duplicates were merged
    bad: dict[str, int] = field(default_factory=dict)


def edge_checks(
    table: SparkTable, names: EdgeNames, directed: bool, on_bad: OnBad, ids: SortedIds, rows: Rows
) -> EdgeChecks:
    """Which columns are read, and how, by the rules of `gamlp ingest`."""
    weight, relation = chosen_columns(table, names)
    return EdgeChecks(
        table.name, names.src, names.dst, weight, relation, directed, on_bad, ids.integers, ids.count, rows.size,
        table.ragged,
    )  # fmt: skip


def chosen_columns(table: SparkTable, names: EdgeNames) -> tuple[str | None, str | None]:
    """Columns of weights and relations; refuses a table that lacks a column."""
    weight, relation = choose(table, names.weight, "weight"), choose(table, names.relation, "relation")
    table.need([names.src, names.dst])
    return weight, relation


def build_relations(
    spark: Any, table: SparkTable, checks: EdgeChecks, ids: SortedIds, rows: Rows, graph: Place, progress: Progress
) -> Relations:
    """Write the blocks of every relation that the table has."""
    blocks = CsrBlocks(graph, rows, checks.weight is not None, checks.weight)

    def entries(batches: Iterator[Any]) -> Iterator[Any]:
        yield from edge_entries(batches, checks)

    def build(key: Any, packs: Any) -> Any:
        relation, number = key[0].as_py(), key[1].as_py()
        if number == _NOTES:
            text = Notes.merged(Notes.read(note) for note in packs.column("note").to_pylist()).json()
        else:
            text = answered(lambda block: blocks.write(relation, block, packs), number)
        columns = [pa.array([relation], pa.string()), pa.array([number], pa.int32()), pa.array([text])]
        return pa.table(columns, names=["relation", "block", "answer"])

    frame = _with_rows(spark, table, checks, ids).mapInArrow(entries, _PACKS)
    frame = frame.repartition(rows.blocks + 1, "relation", "block").groupBy("relation", "block")
    frame = frame.applyInArrow(build, "relation string, block int, answer string")
    found = collect_answers(spark, frame, "edges", rows.blocks, progress)
    notes = Notes.merged(Notes.of(answer) for row, answer in found if row["block"] == _NOTES)
    notes.tell(table.name, checks.on_bad)
    names = sorted({name for facts in notes.facts["parts"] for name in facts.get("relations", ())})
    if len(names) > MOST_RELATIONS:
        raise too_many_relations(file=table.name, column=checks.relation)
    made = Relations(weighted=blocks.weighted, bad=dict(notes.counts))
    for facts in notes.facts["parts"]:
        made.read += facts.get("read", 0)
        made.loops += facts.get("loops", 0)
        made.given += facts.get("entries", 0)
    answers = {(row["relation"], row["block"]): answer for row, answer in found if row["block"] != _NOTES}
    _gather(spark, made, names or [ONE_RELATION], answers, blocks)
    return made


def _gather(
    spark: Any, made: Relations, names: list[str], answers: dict[tuple[str, int], dict[str, Any]], blocks: CsrBlocks
) -> None:
    """Blocks without an entry are written too; then all are put together."""
    wanted = [(name, block) for name in names for block in range(blocks.rows.blocks)]
    empty = [place for place in wanted if place not in answers]
    told = run_tasks(spark, lambda number: blocks.write(*empty[number], None), range(len(empty)))
    answers = answers | dict(zip(empty, told))
    for name, block in wanted:
        made.entries.setdefault(name, []).append(answers[name, block]["entries"])
        made.files |= answers[name, block]["files"]


def _with_rows(spark: Any, table: SparkTable, checks: EdgeChecks, ids: SortedIds) -> Any:
    """Edges with `src_row` and `dst_row`, null where no node has such an id."""
    from pyspark.sql import functions, types

    names = [name for name in (checks.src, checks.dst, checks.weight, checks.relation) if name]
    key = types.LongType() if checks.integers else types.StringType()
    extra = [("weight", checks.weight), ("relation", checks.relation)]
    kinds = [("src", key), ("dst", key), *((name, table.kind(column)) for name, column in extra if column)]
    schema = types.StructType([types.StructField(name, kind) for name, kind in [*kinds, ("note", types.StringType())]])
    if ids.is_range:
        schema = schema.add("src_row", types.IntegerType()).add("dst_row", types.IntegerType())
        return table.map(names, lambda batches: rows_of_range(batches, checks), schema)
    edges = table.map(names, lambda batches: edge_keys(batches, checks), schema)

    def known(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from ids.rows(index)

    kind = "long" if checks.integers else "string"
    files = spark.range(0, len(ids.names), 1, len(ids.names)).mapInArrow(known, f"known {kind}, row int")
    for end in ("src", "dst"):
        found = files.select(functions.col("known").alias(end), functions.col("row").alias(f"{end}_row"))
        edges = edges.join(found, end, "left")
    return edges
