"""DataFrames of nodes and edges → the graph folder that `gamlp ingest` writes, built by Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gamlp.errors import GamlpError
from gamlp.graph import (
    ONE_TYPE,
    Building,
    DeclaredRelation,
    FeaturesEntry,
    FileEntry,
    FileFacts,
    GraphManifest,
    LabelsEntry,
    NodesEntry,
    RawEntry,
    RelationEnds,
    building,
    check_fractions,
    class_type_of,
    id_files,
    id_shards,
    shard_bounds,
)
from gamlp.graph.features.encoders import SCHEMA, FittedColumn, Unseen, schema_text
from gamlp.graph.ingest import (
    EARLIER,
    Cut,
    EdgePeriods,
    GivenSchema,
    IngestOptions,
    IngestReport,
    NodeNames,
    RandomSplit,
    TimeSplit,
    WantedTypes,
    class_numbers,
    columns_schema,
    feature_columns,
    index_left_out,
    node_uses,
    resolve_relation_ends,
    tell_split,
    type_tables,
    unnamed_edges,
    unseen_sentences,
    what_was_done,
)
from gamlp.io import Place
from gamlp.kernel import FloatName
from gamlp.progress import Progress, silent
from gamlp.spark.ingest.block_files import NodeBlocks, RowBlocks, StagedPeriods, TargetFiles
from gamlp.spark.ingest.edges import BuiltRelations, EdgeBuild, EdgeTable, TypeRows
from gamlp.spark.ingest.node_checks import NodeChecks
from gamlp.spark.ingest.nodes import CheckedNodes, check_nodes, label_texts, node_checks, sort_ids, write_nodes
from gamlp.spark.ingest.sorted_ids import SortedIds
from gamlp.spark.ingest.tables import SparkTable
from gamlp.spark.tasks import run_tasks, slots, spark_failure_as_error


@dataclass(frozen=True)
class NodeBuild:
    """Writes the nodes of types into a graph; `rows` cuts so many nodes with features of a width into blocks."""

    spark: Any
    folder: Building
    dtype: FloatName
    draw: RandomSplit
    rows: Callable[[str, int, int | None], RowBlocks]
    report: IngestReport
    progress: Progress
    fitted: dict[str, Sequence[FittedColumn]] = field(default_factory=dict)  # of types whose columns are encoded

    def build(
        self, node_type: str, table: SparkTable, names: NodeNames, checks: NodeChecks
    ) -> tuple[TypeRows, NodesEntry, FileFacts]:
        """One type; the use of its columns and counts of what was left out go into the report."""
        nodes = check_nodes(self.spark, table, checks, self.folder.staging / node_type, self.progress)
        try:
            ids, repeats = sort_ids(nodes, self.progress)
            rows = self.rows(node_type, ids.count, nodes.width)
            bad = self.report.bad_rows
            for name, count in [*nodes.notes.counts.items(), *([("duplicate id", repeats)] if repeats else [])]:
                bad[name] = bad.get(name, 0) + count
            entry, files = self._files(node_type, table, nodes, ids, rows)
        finally:
            nodes.close()
        self._tell_columns(node_type, table, names, nodes)
        self.report.nodes += ids.count
        if node_type == self.report.target:
            self.report.features = nodes.width or 0
        if node_type != ONE_TYPE:
            self.report.types[node_type] = {"nodes": ids.count, "features": nodes.width or 0}
        return TypeRows(node_type, ids, rows), entry, files

    def _tell_columns(self, node_type: str, table: SparkTable, names: NodeNames, nodes: CheckedNodes) -> None:
        label, split = nodes.checks.label, nodes.checks.split
        split_by = nodes.checks.split_by
        time = None if split_by is None else split_by.column
        chosen = feature_columns(table.column_names, names, label, split, time)
        called = "nodes" if node_type == ONE_TYPE else f"nodes {node_type}"
        done = {name: ("ignored", why) for name, why in nodes.checks.left_out.items()}
        lists = nodes.list_widths
        if nodes.fitted is not None:
            lists = {}
            self.fitted[node_type] = nodes.fitted.columns
            done |= {column.name: what_was_done(column, nodes.fitted.gaps) for column in nodes.fitted.columns}
        self.report.columns += node_uses(called, names, chosen, label, split, lists, split_by, done)
        if sentence := index_left_out(chosen.index, table.name):
            self.report.warn(sentence)

    def _tell_unseen(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Of columns whose states came with a schema."""
        whole: dict[str, Unseen] = {}
        for result in results:
            for name, (values, gaps, examples) in result["unseen"].items():
                whole[name] = whole.get(name, Unseen()) + Unseen(values, gaps, tuple(examples))
        for sentence in unseen_sentences(whole):
            self.report.warn(sentence)

    def _files(
        self, node_type: str, table: SparkTable, nodes: CheckedNodes, ids: SortedIds, rows: RowBlocks
    ) -> tuple[NodesEntry, FileFacts]:
        texts, multi_label, report = label_texts(nodes, self.progress), nodes.checks.multi_label, self.report
        graph, staging = self.folder.graph, self.folder.staging / node_type
        blocks = NodeBlocks(graph, staging, rows, nodes.width, self.dtype, texts, multi_label, node_type, nodes.fitted)
        results = write_nodes(nodes, ids, blocks, self.progress)
        files: FileFacts = {name: facts for result in results for name, facts in result["files"].items()}
        entry = NodesEntry(count=ids.count)
        if nodes.width is not None:
            stops = [rows.bounds(block)[1] for block in range(rows.blocks)]
            columns = list(columns_schema(nodes.checks.features, nodes.list_widths))
            if nodes.fitted is not None:
                columns = nodes.fitted.schema()
                entry.raw = RawEntry(blocks=stops) if nodes.fitted.raw else None
                self._tell_unseen(results)
            entry.features = FeaturesEntry(width=nodes.width, dtype=self.dtype, shards=stops, columns=columns)
            report.dtype = self.dtype
        texts_kept = nodes.checks.label is not None and table.typed and table.holds_text(nodes.checks.label)
        used = np.unique([code for result in results for code in result["used"]]).astype(np.int64)
        classes, numbers = class_numbers(texts or [], used)
        made = TargetFiles(graph, staging, rows, len(classes), numbers, multi_label, node_type)
        split_by, with_role = nodes.checks.split_by, sum(result["roles"] for result in results)
        given = with_role > 0 or split_by is not None
        works: list[Callable[[], dict[str, Any]]] = []
        if not ids.is_range:
            entry.ids = "integers" if ids.integers else "strings"
            works += self._ids(entry, node_type, ids)
        if nodes.checks.label is not None:
            where = {"file": nodes.checks.table, "column": nodes.checks.label}
            known = sum(result["labelled"] for result in results)
            report.labelled(classes, known, nodes.unknown, multi_label, **where)
        if classes:
            entry.labels = LabelsEntry(
                multi_label=multi_label, classes=list(classes), class_type=class_type_of(classes, texts_kept)
            )
            works.append(made.write_labels)
        if given or classes:
            entry.split = True
            draw = partial(made.write_random_split, ids.batches, tuple(self.draw.fractions), self.draw.seed)
            works.append(made.write_given_split if given else draw)
            report.split_made = not given
            report.fractions = None if given else [float(part) for part in self.draw.fractions]
        for result in run_tasks(self.spark, lambda number: works[number](), range(len(works)), "labels", self.progress):
            files |= result["files"]
            if "split" in result:
                if split_by is None:
                    report.unlabelled(result["useless"])
                else:
                    self._tell_split(nodes, split_by, result["split"], ids.count - with_role, labelled=bool(classes))
                report.split = result["split"]
                report.untrained([classes[number] for number in result["absent"]])
                report.empty_parts(self.draw.fractions)
        return entry, files

    def _tell_split(
        self, nodes: CheckedNodes, split_by: TimeSplit, counts: Mapping[str, int], without: int, *, labelled: bool
    ) -> None:
        assert nodes.checks.times is not None
        for sentence in nodes.checks.times.notes(nodes.naive):
            self.report.warn(sentence)
        tell_split(split_by, counts, without, self.report, labelled=labelled, table=Path(nodes.checks.table))

    def _ids(self, entry: NodesEntry, node_type: str, ids: SortedIds) -> list[Callable[[], dict[str, Any]]]:
        """Work that writes them: of strings a file a task."""
        graph = self.folder.graph
        if ids.integers:
            return [partial(ids.write, graph, node_type)]
        entry.id_shards = id_shards(ids.count)
        names, bounds = id_files(node_type, entry.id_shards), shard_bounds(ids.count, entry.id_shards)
        return [partial(ids.write_shard, graph, name, *rows) for name, rows in zip(names, bounds)]


BLOCK_BYTES = 256 << 20
_ENTRY = 16  # bytes of an entry while a block is sorted


def spark_graph(
    spark: Any,
    edges: Any,
    nodes: Any,
    out: str | Path | Place,
    options: IngestOptions | None = None,
    *,
    blocks: int | None = None,
    progress: Progress = silent,
) -> IngestReport:
    """Build a graph folder from DataFrames `edges(src, dst[, weight][, relation])` and `nodes(id, …)`, or tables
    that `read_table` gave; nothing is left behind when something is wrong. Several types of nodes, or relations with
    tables of their own: a mapping of names to tables, and `joins` in the options.

    Rows are numbered by ascending id, integers by value and strings by their UTF-8 bytes, so that the result does
    not depend on how Spark partitions. Of several nodes with one id (`on_bad="skip"`) the one with the smallest
    content stays; weights of a repeated edge add up from the smallest. A random split goes by a hash of ids, and is
    that of `gamlp ingest`. `blocks`: of rows; without it edges are counted first, to choose how many.
    """
    began = time.monotonic()
    options = options or IngestOptions()
    check_fractions(options.fractions)
    place = Place.of(out).resolved()
    made = _Build(spark, _tables(edges, "edges"), _tables(nodes, "nodes"), options, blocks, progress)
    with spark_failure_as_error(), building(place) as folder:
        report = made.run(folder, place)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _tables(given: Any, name: str) -> Any:
    """One table, or several by what they hold."""
    if isinstance(given, Mapping):
        return {each: SparkTable.of(table, f"{name} {each}") for each, table in given.items()}
    return SparkTable.of(given, name)


@dataclass
class _Build:
    """One graph while it is built."""

    spark: Any
    edges: Any
    nodes: Any
    options: IngestOptions
    blocks: int | None
    progress: Progress
    _counted: dict[int, int] = field(default_factory=dict)

    def run(self, folder: Building, out: Place) -> IngestReport:
        options = self.options
        types, target = type_tables(self.nodes, options.node_names, options.names_of, options.target, lambda one: one)
        relation_ends = resolve_relation_ends(
            self.edges, options.edge_names_of, RelationEnds(options.relation_ends, directed=options.directed), types
        )
        cuts = () if options.split_by is None else options.split_by.cuts()
        tables = self._edge_tables(relation_ends, cuts)
        wanted = WantedTypes(options.columns, options.drop)
        checks = {
            node_type: node_checks(
                one.table, one.names, options.dtype, options.on_bad, node_type, wanted,
                GivenSchema.of(options.schema, node_type), options.split_by if node_type == target else None,
            )
            for node_type, one in types.items()
        }  # fmt: skip
        wanted.check_known({name: [*one.features, *one.left_out] for name, one in checks.items()})
        if options.max_rows is not None:
            for table in (*(one.table for one in types.values()), *(one.table for one in tables)):
                table.refuse_more_than(options.max_rows)
        report = IngestReport(str(out), 0, target=target)
        draw = RandomSplit(options.fractions, options.seed)

        def rows(node_type: str, count: int, width: int | None) -> RowBlocks:
            return self._rows(count, width, lambda: self._entries(node_type, tables, relation_ends))

        nodes = NodeBuild(self.spark, folder, options.dtype, draw, rows, report, self.progress)
        found = {
            node_type: nodes.build(node_type, one.table, one.names, checks[node_type])
            for node_type, one in types.items()
        }
        files: FileFacts = {name: facts for _, _, own in found.values() for name, facts in own.items()}
        type_rows = {node_type: own for node_type, (own, _, _) in found.items()}
        parts = EARLIER if cuts else ()
        build = EdgeBuild(self.spark, type_rows, folder.graph, folder.staging, self.progress, parts)
        since = {target: StagedPeriods(folder.staging / target, type_rows[target].rows)}
        made = self._relations(build, tables, relation_ends, EdgePeriods(cuts, since) if cuts else None)
        self._report_edges(report, made, relation_ends)
        report.columns += [use for table in tables for use in table.uses()]
        manifest = GraphManifest(
            name=options.name or out.name,
            target=target,
            nodes={node_type: entry for node_type, (_, entry, _) in found.items()},
            relations=made.entries,
            earlier=made.earlier,
            source=report.source(_names(self.edges), _names(self.nodes), options.seed),
            files={
                name: FileEntry(bytes=size, crc32=crc) for name, (size, crc) in sorted((files | made.files).items())
            },
        )
        if nodes.fitted:
            (folder.graph / SCHEMA).put(schema_text(nodes.fitted).encode())
        folder.manifest = manifest.to_json()
        return report

    def _edge_tables(self, relation_ends: RelationEnds, cuts: Sequence[Cut]) -> list[EdgeTable]:
        names, names_of, before = self.options.edge_names, self.options.edge_names_of, self.options.before
        cut = None if before is None else Cut.of("--before", before, included=False)
        if isinstance(self.edges, Mapping):
            return [EdgeTable.of(one, names_of.get(name, names), name, cut, cuts) for name, one in self.edges.items()]
        table = EdgeTable.of(self.edges, names, before=cut, periods=cuts)
        if relation_ends.alone is None and table.relation is None:
            raise unnamed_edges(self.edges.name)
        return [table]

    def _relations(
        self,
        build: EdgeBuild,
        tables: Sequence[EdgeTable],
        relation_ends: RelationEnds,
        periods: EdgePeriods | None,
    ) -> BuiltRelations:
        """All relations, in the order in which they are declared."""
        made = BuiltRelations()
        for table in tables:
            own = BuiltRelations()
            for checks in table.readings(relation_ends, build.types, self.options.on_bad, periods):
                own.add(build.build(table.table, checks))
            made.add(own)
            made.told += [] if table.times is None else table.times.notes(own.naive)
        declared = [relation for name in relation_ends.declared if (relation := relation_ends.of(name)) is not None]
        made.add(build.build_empty([relation for relation in declared if relation.name not in made.entries]))
        order = [name for relation in declared for name in (relation.name, relation.reverse) if name is not None]
        rest = [name for name in made.entries if name not in order]
        made.entries = {name: made.entries[name] for name in (*order, *rest)}
        made.earlier = {part: {name: own[name] for name in made.entries} for part, own in made.earlier.items()}
        return made

    def _rows(self, count: int, width: int | None, entries: Any) -> RowBlocks:
        """Blocks of equal size, so many that one fits a task."""
        wanted = self.blocks
        if wanted is None:
            item = 4 if self.options.dtype == "float32" else 2
            kept = 1 if self.options.split_by is None else 1 + len(EARLIER)  # how often edges are, at most
            need = max(entries() * _ENTRY * kept, count * (width or 0) * item)
            wanted = max(slots(self.spark), -(-need // BLOCK_BYTES))
        elif wanted < 1:
            raise GamlpError(f"{wanted} blocks are none", hint="--blocks is a number above zero")
        return RowBlocks(count, max(1, -(-count // min(wanted, count))))

    def _entries(self, node_type: str, tables: Sequence[EdgeTable], relation_ends: RelationEnds) -> int:
        """At most so many entries lead to nodes of a type."""
        total = 0
        for number, table in enumerate(tables):
            names = [table.name] if table.name else list(relation_ends.declared) or [""]
            each = max(_into(node_type, relation) for name in names if (relation := relation_ends.of(name)) is not None)
            if each and number not in self._counted:
                self._counted[number] = table.table.count()
            total += each * self._counted.get(number, 0)
        return total

    def _report_edges(self, report: IngestReport, made: BuiltRelations, relation_ends: RelationEnds) -> None:
        report.edges_read, report.self_loops_dropped = made.read, made.loops
        report.entries = {name: made.stored(name) for name in made.entries}
        report.entries_earlier = {
            part: {name: made.stored(name, part) for name in own} for part, own in made.earlier.items()
        }
        report.duplicates_merged, report.edges_later = made.merged, made.later
        for sentence in made.told:
            report.warn(sentence)
        for kind, count in made.bad.items():  # both tables may have rows with a wrong number of columns
            report.bad_rows[kind] = report.bad_rows.get(kind, 0) + count
        if not any(report.entries.values()):
            report.warn("the graph has no edges")
            return
        for name in (name for name in relation_ends.declared if not report.entries[name]):
            report.warn(f"relation '{name}' has no edges")


def _into(node_type: str, relation: DeclaredRelation) -> int:
    """Entries that an edge adds to rows of a type."""
    if relation.symmetric:
        return 2 if relation.target == node_type else 0
    return int(relation.target == node_type) + int(relation.reverse is not None and relation.source == node_type)


def _names(tables: Any) -> str | dict[str, str]:
    """Of tables the last part of their names."""
    if isinstance(tables, Mapping):
        return {name: _last(one.name) for name, one in tables.items()}
    return _last(tables.name)


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]
