"""Edges on Spark: ids joined to rows, entries packed by block, and the CSR of every block built by a task."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph import ONE_RELATION, BlockEntry, DeclaredRelation, FileFacts, RelationEnds, RelationEntry
from gamlp.graph.ingest import (
    MOST_RELATIONS,
    ColumnUse,
    Cut,
    EdgeNames,
    EdgePeriods,
    OnBad,
    choose,
    edge_uses,
    holds_times,
    plain,
    stranger,
    time_by_name,
    too_many_relations,
)
from gamlp.io import Place
from gamlp.progress import Progress
from gamlp.spark.ingest.block_files import CsrBlocks, RowBlocks, relation_as_of
from gamlp.spark.ingest.edge_checks import EdgeChecks, EdgeEnd, ReadRelations, edge_entries, edge_rows
from gamlp.spark.ingest.kept import KeptFiles, keep_good, kept_rows
from gamlp.spark.ingest.notes import Notes
from gamlp.spark.ingest.partitions import SLOT, one_a_partition
from gamlp.spark.ingest.rounds import FILE_EDGES, encoded, fits_a_task, with_rows
from gamlp.spark.ingest.sorted_ids import SortedIds, forget_tables, table_of
from gamlp.spark.ingest.table_times import TableTimes
from gamlp.spark.ingest.tables import SparkTable
from gamlp.spark.tasks import as_result, collect_results, run_tasks

_TIMES = ("timestamp", "timestamp_ntz", "date")  # as Spark calls them
_PEEK_ROWS = 100  # of texts that are looked at to know whether they are times
_NOTES = -1  # in place of a block
_PACKS = "relation string, block int, rows binary, neighbours binary, weights binary, note string"


@dataclass(frozen=True)
class TypeRows:
    """The nodes of a type: their ids in the order of rows, and blocks of rows."""

    node_type: str
    ids: SortedIds
    rows: RowBlocks

    def end(self) -> EdgeEnd:
        return EdgeEnd(self.ids.integers, self.ids.count, self.rows.size, self.node_type, self.ids.is_range)


@dataclass(frozen=True)
class EdgeTable:
    """An edge table with the columns that were chosen from it; `name`: the one relation that all of it is."""

    table: SparkTable
    names: EdgeNames
    name: str | None
    weight: str | None
    relation: str | None
    time: str | None
    times: TableTimes | None  # where edges are left out, or kept as of earlier, by them
    before: Cut | None = None
    by_period: bool = False  # the split is by time

    @classmethod
    def of(
        cls,
        table: SparkTable,
        names: EdgeNames,
        name: str | None = None,
        before: Cut | None = None,
        periods: Sequence[Cut] = (),
    ) -> EdgeTable:
        """Refuses a table that lacks a column, or whose times cannot be compared with cuts: `before`, and `periods`
        of a split by time.
        """
        weight = choose(table, names.weight, "weight")
        relation = None if name else choose(table, names.relation, "relation")
        table.need([names.src, names.dst, *([names.time] if names.time else [])])
        taken = (names.src, names.dst, weight, relation)
        free = {column: held for column, held in table.frame.dtypes if column not in taken and column != table.ragged}
        cuts = [*([] if before is None else [before]), *periods]
        time = _time(names.time, free, table if cuts else None)
        if time is None and before is not None:
            raise GamlpError(
                "no column of times, which --before asks for", file=table.name, hint="name it with --time COLUMN"
            )
        times = None if time is None or not cuts else TableTimes.of(table, time, cuts)
        return cls(table, names, name, weight, relation, time, times, before, bool(periods))

    def uses(self) -> list[ColumnUse]:
        """What every column is used for."""
        table = "edges" if self.name is None else f"edges {self.name}"
        columns = self.table.column_names
        found = edge_uses(table, columns, self.names, self.weight, self.relation, self.name, self.time)
        told = [] if self.before is None else [str(self.before)]
        told += ["by periods of the split"] if self.by_period else []
        about = ", ".join(told) or "of no use without --before"
        return [replace(one, about=about) if one.use == "time" else one for one in found]

    def readings(
        self,
        relation_ends: RelationEnds,
        types: Mapping[str, TypeRows],
        on_bad: OnBad,
        periods: EdgePeriods | None = None,
    ) -> list[EdgeChecks]:
        """How the table is read: once for every pair of types that its relations join."""
        if relation_ends.alone is not None:
            both = relation_ends.alone, relation_ends.alone
            return [self._reading(both, None, relation_ends, types, on_bad, periods)]
        names = [self.name] if self.name else list(relation_ends.declared)
        pairs: dict[tuple[str, str], list[str]] = {}
        for name in names:
            source, target = relation_ends.declared[name]
            pairs.setdefault((source, target), []).append(name)
        any_type = next(iter(types))
        pairs = pairs or {(any_type, any_type): []}  # nothing is declared: every edge is refused
        found = []
        for number, (ends, own) in enumerate(pairs.items()):
            chosen = ReadRelations(tuple(own), tuple(relation_ends.declared), first=number == 0)
            found.append(self._reading(ends, chosen, relation_ends, types, on_bad, periods))
        return found

    def _reading(
        self,
        ends: tuple[str, str],
        chosen: ReadRelations | None,
        relation_ends: RelationEnds,
        types: Mapping[str, TypeRows],
        on_bad: OnBad,
        periods: EdgePeriods | None,
    ) -> EdgeChecks:
        source, target = (types[node_type].end() for node_type in ends)
        return EdgeChecks(
            self.table.name, self.names.src, self.names.dst, self.weight, self.relation, relation_ends.directed, on_bad,
            source, target, self.table.ragged, self.name, chosen, self.times, self.before, periods,
        )  # fmt: skip


def _time(named: str | None, free: Mapping[str, str], table: SparkTable | None) -> str | None:
    """The column of times: the one that is named, else one with a usual name, else one that holds times.

    Texts are looked at where a `table` is given.
    """
    if named is not None:
        return named or None
    if found := time_by_name(list(free)) or next((name for name, held in free.items() if held in _TIMES), None):
        return found
    if table is None:
        return None
    texts = [name for name, held in free.items() if held == "string"]
    return next((name for name in texts if holds_times(_only(table.first([name], _PEEK_ROWS)))), None)


def _only(table: Any) -> Any:
    return plain(table.column(0).combine_chunks())


@dataclass
class BuiltRelations:
    """What became of edges: relations with their blocks, files, and what was left out."""

    entries: dict[str, RelationEntry] = field(default_factory=dict)
    earlier: dict[str, dict[str, RelationEntry]] = field(default_factory=dict)  # as of the ends of parts of the split
    files: FileFacts = field(default_factory=dict)
    read: int = 0
    loops: int = 0
    merged: int = 0  # duplicates
    later: int = 0  # left out by --before
    naive: int = 0  # times that name no zone
    bad: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)  # of times

    def add(self, other: BuiltRelations) -> None:
        self.entries |= other.entries
        for part, entries in other.earlier.items():
            self.earlier.setdefault(part, {}).update(entries)
        self.files |= other.files
        self.later, self.naive = self.later + other.later, self.naive + other.naive
        self.read, self.loops, self.merged = (
            self.read + other.read,
            self.loops + other.loops,
            self.merged + other.merged,
        )
        for kind, count in other.bad.items():
            self.bad[kind] = self.bad.get(kind, 0) + count

    def stored(self, name: str, as_of: str | None = None) -> int:
        entries = self.entries if as_of is None else self.earlier[as_of]
        return sum(block.entries for block in entries[name].blocks)


@dataclass(frozen=True)
class EdgeBuild:
    """Writes the blocks of relations into a graph."""

    spark: Any
    types: Mapping[str, TypeRows]
    graph: Place
    staging: Place
    progress: Progress
    parts: tuple[str, ...] = ()  # of a split by time, at whose ends edges are kept as they were

    def build(self, table: SparkTable, checks: EdgeChecks) -> BuiltRelations:
        """The relations that one reading of a table is for."""
        blocks = {
            False: self._blocks(checks, checks.target.node_type),
            True: self._blocks(checks, checks.source.node_type),
        }
        reverses = {checks.declared(name).reverse for name in ([] if checks.chosen is None else checks.chosen.names)}

        most = max(into.rows.blocks for into in blocks.values())
        keys = one_a_partition(most + 1)

        def build(batches: Iterator[Any]) -> Iterator[Any]:
            forget_tables()
            packs: dict[tuple[Any, int], list[Any]] = {}
            for batch in batches:
                for at, place in enumerate(zip(*(batch.column(name).to_pylist() for name in ("relation", "block")))):
                    packs.setdefault(place, []).append(batch.slice(at, 1))
            for relation, number in sorted(packs, key=str):
                table = pa.Table.from_batches(packs.pop((relation, number)))
                if number == _NOTES:
                    text = Notes.merged(Notes.read(note) for note in table.column("note").to_pylist()).json()
                else:
                    into = blocks[relation.rpartition("/")[2] in reverses]
                    text = as_result(partial(into.write, relation, table=table), number)
                columns = [pa.array([relation], pa.string()), pa.array([number], pa.int32()), pa.array([text])]
                yield pa.RecordBatch.from_arrays(columns, names=["relation", "block", "answer"])

        kept = KeptFiles.new_folder(self.staging)
        frame, before = self._packs(table, checks, keys, kept)
        frame = frame.repartition(len(keys), SLOT).mapInArrow(build, "relation string, block int, answer string")
        stage = "edges" if checks.name is None else f"edges: {checks.name}"
        found = collect_results(self.spark, frame, stage, most, self.progress)
        kept.remove()
        notes = Notes.merged([before, *(Notes.of(result) for row, result in found if row["block"] == _NOTES)])
        self._tell(notes, checks)
        made = BuiltRelations(bad=dict(notes.counts))
        given = 0
        for facts in notes.facts["parts"]:
            made.read += facts.get("read", 0)
            made.loops += facts.get("loops", 0)
            made.later += facts.get("later", 0)
            made.naive += facts.get("naive", 0)
            given += facts.get("entries", 0)
        relations = [checks.declared(name) for name in _names(notes, checks)]
        results = {(row["relation"], row["block"]): result for row, result in found if row["block"] != _NOTES}
        self._gather(made, relations, results, blocks[False], blocks[True])
        stored = sum(made.stored(relation.name) for relation in relations)
        made.merged = (given - stored) // (2 if checks.declared("").symmetric else 1)
        return made

    def build_empty(self, relations: Sequence[DeclaredRelation]) -> BuiltRelations:
        """Relations that were declared and have no table."""
        made = BuiltRelations()
        for relation in relations:
            blocks = [
                CsrBlocks(self.graph, self.types[node_type].rows, False, None, relation.inside)
                for node_type in (relation.target, relation.source)
            ]
            self._gather(made, [relation], {}, *blocks)
        return made

    def _blocks(self, checks: EdgeChecks, node_type: str) -> CsrBlocks:
        inside = checks.declared("").inside
        return CsrBlocks(self.graph, self.types[node_type].rows, checks.weight is not None, checks.weight, inside)

    def _tell(self, notes: Notes, checks: EdgeChecks) -> None:
        """Raise what is wrong; of a node that is not of the expected type it is told which it is of."""
        finding = notes.finding(checks.on_bad)
        about = None if finding is None else finding[1].get("about")
        if finding is not None and about is not None:
            others = (node_type for node_type in self.types if node_type != about["expected"])
            other = next((node_type for node_type in others if self.types[node_type].ids.has(about["node"])), None)
            problem = f"{finding[1]['who']}: {stranger(**about, other=other)}"
            raise GamlpError(problem, file=checks.table, column=finding[1]["column"], hint=finding[1]["hint"])
        notes.report(checks.table, checks.on_bad)

    def _gather(
        self,
        made: BuiltRelations,
        relations: Sequence[DeclaredRelation],
        results: dict[tuple[str, int], dict[str, Any]],
        forward: CsrBlocks,
        backward: CsrBlocks,
    ) -> None:
        """Blocks without an entry are written too; then all are put together."""
        into: dict[str, CsrBlocks] = {}
        for relation in relations:
            for as_of in (None, *self.parts):
                into[relation_as_of(relation.name, as_of)] = forward
                if relation.reverse is not None:
                    into[relation_as_of(relation.reverse, as_of)] = backward
        wanted = [(name, block) for name, blocks in into.items() for block in range(blocks.rows.blocks)]
        empty = [place for place in wanted if place not in results]

        def write_empty(number: int) -> dict[str, Any]:
            name, block = empty[number]
            return into[name].write(name, block, None)

        results = results | dict(zip(empty, run_tasks(self.spark, write_empty, range(len(empty)))))
        for relation in relations:
            ways = [(relation.name, relation.source, relation.target, relation.reverse)]
            if relation.reverse is not None:
                ways.append((relation.reverse, relation.target, relation.source, relation.name))
            for (name, source, target, reverse), as_of in itertools.product(ways, (None, *self.parts)):
                key = relation_as_of(name, as_of)
                rows = into[key].rows
                entries = made.entries if as_of is None else made.earlier.setdefault(as_of, {})
                entries[name] = RelationEntry(
                    source=source,
                    target=target,
                    directed=not relation.symmetric,
                    weighted=into[key].weighted,
                    blocks=[_entry(rows, block, results[key, block]["entries"]) for block in range(rows.blocks)],
                    reverse=reverse,
                )
        for place in wanted:
            made.files |= results[place]["files"]

    def _packs(self, table: SparkTable, checks: EdgeChecks, keys: Array, kept: Place) -> tuple[Any, Notes]:
        """A frame of packs of entries, with the rows of both ends; and what was noted of edges before."""
        time = None if checks.times is None else checks.times.column
        names = [name for name in (checks.src, checks.dst, checks.weight, checks.relation, time) if name]
        ids = {name: self.types[end.node_type].ids for name, _, end in checks.ends() if not end.is_range}
        schema = f"{_PACKS}, {SLOT} int"

        def entries(edges: Iterator[Any]) -> Iterator[Any]:
            for packs in edge_entries(edges, checks):
                yield packs.append_column(SLOT, pa.array(keys[packs.column("block").to_numpy()]))  # notes: the last

        def look_up(batches: Iterator[Any]) -> Iterator[Any]:
            rows_of = {name: table_of(own) for name, own in ids.items()}
            yield from entries(edge_rows(batches, checks, rows_of))

        if fits_a_task(ids):
            return table.map(names, look_up, schema), Notes()
        ends, most = list(ids), FILE_EDGES

        def keep(batches: Iterator[Any]) -> Iterator[Any]:
            yield from keep_good(edge_rows(batches, checks), kept, lambda edges: encoded(edges, ends, most))

        frame = table.map(names, keep, "answer string")
        edges, notes = kept_rows(self.spark, frame, kept, "edges", self.progress)
        return with_rows(self.spark, edges, ids, entries, schema), notes


def _entry(rows: RowBlocks, block: int, entries: int) -> BlockEntry:
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
