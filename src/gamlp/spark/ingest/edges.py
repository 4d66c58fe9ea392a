"""Edges on Spark: ids joined to rows, entries packed by block, and the CSR of every block built by a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gamlp.errors import GamlpError
from gamlp.graph import ONE_RELATION, BlockEntry, FileFacts, Join, Joins, RelationEntry
from gamlp.graph.ingest import MOST_RELATIONS, EdgeNames, OnBad, choose, stranger, too_many_relations
from gamlp.io import Place
from gamlp.progress import Progress
from gamlp.spark.ingest.block_files import CsrBlocks, Rows
from gamlp.spark.ingest.edge_checks import Chosen, EdgeChecks, End, edge_entries, rows_of_range
from gamlp.spark.ingest.notes import Notes
from gamlp.spark.ingest.sorted_ids import SortedIds
from gamlp.spark.ingest.tables import SparkTable
from gamlp.spark.tasks import answered, collect_answers, run_tasks

_NOTES = -1  # in place of a block
_PACKS = "relation string, block int, rows binary, neighbours binary, weights binary, note string"


@dataclass(frozen=True)
class TypeRows:
    """The nodes of a type: their ids in the order of rows, and blocks of rows."""

    kind: str
    ids: SortedIds
    rows: Rows

    def end(self) -> End:
        return End(self.ids.integers, self.ids.count, self.rows.size, self.kind, self.ids.is_range)


@dataclass(frozen=True)
class EdgeTable:
    """An edge table with the columns that were chosen from it; `name`: the one relation that all of it is."""

    table: SparkTable
    names: EdgeNames
    name: str | None
    weight: str | None
    relation: str | None

    @classmethod
    def of(cls, table: SparkTable, names: EdgeNames, name: str | None = None) -> EdgeTable:
        """Refuses a table that lacks a column."""
        weight = choose(table, names.weight, "weight")
        relation = None if name else choose(table, names.relation, "relation")
        table.need([names.src, names.dst])
        return cls(table, names, name, weight, relation)

    def readings(self, joins: Joins, types: Mapping[str, TypeRows], on_bad: OnBad) -> list[EdgeChecks]:
        """How the table is read: once for every pair of types that its relations join."""
        if joins.alone is not None:
            return [self._reading((joins.alone, joins.alone), None, joins, types, on_bad)]
        names = [self.name] if self.name else list(joins.declared)
        pairs: dict[tuple[str, str], list[str]] = {}
        for name in names:
            source, target = joins.declared[name]
            pairs.setdefault((source, target), []).append(name)
        any_type = next(iter(types))
        pairs = pairs or {(any_type, any_type): []}  # nothing is declared: every edge is refused
        found = []
        for number, (ends, own) in enumerate(pairs.items()):
            chosen = Chosen(tuple(own), tuple(joins.declared), first=number == 0)
            found.append(self._reading(ends, chosen, joins, types, on_bad))
        return found

    def _reading(
        self,
        ends: tuple[str, str],
        chosen: Chosen | None,
        joins: Joins,
        types: Mapping[str, TypeRows],
        on_bad: OnBad,
    ) -> EdgeChecks:
        source, target = (types[kind].end() for kind in ends)
        return EdgeChecks(
            self.table.name, self.names.src, self.names.dst, self.weight, self.relation, joins.directed, on_bad,
            source, target, self.table.ragged, self.name, chosen,
        )  # fmt: skip


@dataclass
class Relations:
    """What became of edges: relations with their blocks, files, and what was left out."""

    entries: dict[str, RelationEntry] = field(default_factory=dict)
    files: FileFacts = field(default_factory=dict)
    read: int = 0
    loops: int = 0
    merged: int = 0  # duplicates
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, other: Relations) -> None:
        self.entries |= other.entries
        self.files |= other.files
        self.read, self.loops, self.merged = (
            self.read + other.read,
            self.loops + other.loops,
            self.merged + other.merged,
        )
        for kind, count in other.bad.items():
            self.bad[kind] = self.bad.get(kind, 0) + count

    def stored(self, name: str) -> int:
        return sum(block.entries for block in self.entries[name].blocks)


@dataclass(frozen=True)
class EdgeBuild:
    """Writes the blocks of relations into a graph."""

    spark: Any
    types: Mapping[str, TypeRows]
    graph: Place
    progress: Progress

    def build(self, table: SparkTable, checks: EdgeChecks) -> Relations:
        """The relations that one reading of a table is for."""
        blocks = {False: self._blocks(checks, checks.target.kind), True: self._blocks(checks, checks.source.kind)}
        reverses = {checks.join(name).reverse for name in ([] if checks.chosen is None else checks.chosen.names)}

        def entries(batches: Iterator[Any]) -> Iterator[Any]:
            yield from edge_entries(batches, checks)

        def build(key: Any, packs: Any) -> Any:
            relation, number = key[0].as_py(), key[1].as_py()
            if number == _NOTES:
                text = Notes.merged(Notes.read(note) for note in packs.column("note").to_pylist()).json()
            else:
                into = blocks[relation in reverses]
                text = answered(lambda block: into.write(relation, block, packs), number)
            columns = [pa.array([relation], pa.string()), pa.array([number], pa.int32()), pa.array([text])]
            return pa.table(columns, names=["relation", "block", "answer"])

        most = max(into.rows.blocks for into in blocks.values())
        frame = self._with_rows(table, checks).mapInArrow(entries, _PACKS)
        frame = frame.repartition(most + 1, "relation", "block").groupBy("relation", "block")
        frame = frame.applyInArrow(build, "relation string, block int, answer string")
        stage = "edges" if checks.name is None else f"edges: {checks.name}"
        found = collect_answers(self.spark, frame, stage, most, self.progress)
        notes = Notes.merged(Notes.of(answer) for row, answer in found if row["block"] == _NOTES)
        self._tell(notes, checks)
        made = Relations(bad=dict(notes.counts))
        given = 0
        for facts in notes.facts["parts"]:
            made.read += facts.get("read", 0)
            made.loops += facts.get("loops", 0)
            given += facts.get("entries", 0)
        joins = [checks.join(name) for name in _names(notes, checks)]
        answers = {(row["relation"], row["block"]): answer for row, answer in found if row["block"] != _NOTES}
        self._gather(made, joins, answers, blocks[False], blocks[True])
        stored = sum(made.stored(join.name) for join in joins)
        made.merged = (given - stored) // (2 if checks.join("").symmetric else 1)
        return made

    def build_empty(self, joins: Sequence[Join]) -> Relations:
        """Relations that were declared and have no table."""
        made = Relations()
        for join in joins:
            blocks = [
                CsrBlocks(self.graph, self.types[kind].rows, False, None, join.inside)
                for kind in (join.target, join.source)
            ]
            self._gather(made, [join], {}, *blocks)
        return made

    def _blocks(self, checks: EdgeChecks, kind: str) -> CsrBlocks:
        inside = checks.join("").inside
        return CsrBlocks(self.graph, self.types[kind].rows, checks.weight is not None, checks.weight, inside)

    def _tell(self, notes: Notes, checks: EdgeChecks) -> None:
        """Raise what is wrong; of a node that is not of the expected type it is told which it is of."""
        said = notes.told(checks.on_bad)
        about = None if said is None else said[1].get("about")
        if said is not None and about is not None:
            others = (kind for kind in self.types if kind != about["expected"])
            other = next((kind for kind in others if self.types[kind].ids.has(about["node"])), None)
            problem = f"{said[1]['who']}: {stranger(**about, other=other)}"
            raise GamlpError(problem, file=checks.table, column=said[1]["column"], hint=said[1]["hint"])
        notes.tell(checks.table, checks.on_bad)

    def _gather(
        self,
        made: Relations,
        joins: Sequence[Join],
        answers: dict[tuple[str, int], dict[str, Any]],
        forward: CsrBlocks,
        backward: CsrBlocks,
    ) -> None:
        """Blocks without an entry are written too; then all are put together."""
        into: dict[str, CsrBlocks] = {}
        for join in joins:
            into[join.name] = forward
            if join.reverse is not None:
                into[join.reverse] = backward
        wanted = [(name, block) for name, blocks in into.items() for block in range(blocks.rows.blocks)]
        empty = [place for place in wanted if place not in answers]

        def write_empty(number: int) -> dict[str, Any]:
            name, block = empty[number]
            return into[name].write(name, block, None)

        answers = answers | dict(zip(empty, run_tasks(self.spark, write_empty, range(len(empty)))))
        for join in joins:
            ways = [(join.name, join.source, join.target, join.reverse)]
            if join.reverse is not None:
                ways.append((join.reverse, join.target, join.source, join.name))
            for name, source, target, reverse in ways:
                rows = into[name].rows
                made.entries[name] = RelationEntry(
                    source=source,
                    target=target,
                    directed=not join.symmetric,
                    weighted=into[name].weighted,
                    blocks=[_entry(rows, block, answers[name, block]["entries"]) for block in range(rows.blocks)],
                    reverse=reverse,
                )
        for place in wanted:
            made.files |= answers[place]["files"]

    def _with_rows(self, table: SparkTable, checks: EdgeChecks) -> Any:
        """Edges with `src_row` and `dst_row`, null where no node has such an id."""
        from pyspark.sql import functions, types

        names = [name for name in (checks.src, checks.dst, checks.weight, checks.relation) if name]
        keys = [(name, types.LongType() if end.integers else types.StringType()) for name, _, end in checks.ends()]
        extra = [("weight", checks.weight), ("relation", checks.relation)]
        kinds = [*keys, *((name, table.kind(column)) for name, column in extra if column), ("note", types.StringType())]
        kinds += [(f"{name}_row", types.IntegerType()) for name, _, end in checks.ends() if end.is_range]
        schema = types.StructType([types.StructField(name, kind) for name, kind in kinds])
        edges = table.map(names, lambda batches: rows_of_range(batches, checks), schema)
        for name, _, end in checks.ends():
            if not end.is_range:
                files = self._known(self.types[end.kind].ids)
                found = files.select(functions.col("known").alias(name), functions.col("row").alias(f"{name}_row"))
                edges = edges.join(found, name, "left")
        return edges

    def _known(self, ids: SortedIds) -> Any:
        """(id, row) of all nodes of a type."""

        def known(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from ids.rows(index)

        kind = "long" if ids.integers else "string"
        return self.spark.range(0, len(ids.names), 1, len(ids.names)).mapInArrow(known, f"known {kind}, row int")


def _entry(rows: Rows, block: int, entries: int) -> BlockEntry:
    start, stop = rows.bounds(block)
    return BlockEntry(start=start, stop=stop, entries=entries)


def _names(notes: Notes, checks: EdgeChecks) -> list[str]:
    """Relations of a reading: those it is for, or all that were found."""
    if checks.chosen is not None:
        return list(checks.chosen.names)
    if checks.name is not None:
        return [checks.name]
    names = sorted({name for facts in notes.facts["parts"] for name in facts.get("relations", ())})
    if len(names) > MOST_RELATIONS:
        raise too_many_relations(file=checks.table, column=checks.relation)
    return names or [ONE_RELATION]
