"""Tables of nodes and edges → a graph folder, in a memory budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.folder import GraphWriter, check_name, writing
from gamlp.graph.ingest.columns import BadRows, OnBad
from gamlp.graph.ingest.edges import EdgeNames, EdgesTable
from gamlp.graph.ingest.formats import ReadingRules
from gamlp.graph.ingest.ids import IdMap
from gamlp.graph.ingest.nodes import NodeNames, NodesTable, RandomSplit, write_nodes
from gamlp.graph.ingest.report import IngestReport
from gamlp.graph.ingest.spilled import RelationsBuild, Spilled
from gamlp.graph.ingest.tables import Table
from gamlp.graph.ingest.time_split import EARLIER, EdgePeriods, TimeSplit
from gamlp.graph.ingest.times import Cut
from gamlp.graph.ingest.wanted import GivenSchema, PlainSchema, WantedTypes
from gamlp.graph.relations import ONE_RELATION, ONE_TYPE, DeclaredRelation, RelationEnds
from gamlp.graph.splits import check_fractions
from gamlp.io import available_memory
from gamlp.kernel import FloatName
from gamlp.progress import Progress, silent

TablePlaces = str | Path | Mapping[str, str | Path]  # one table, or several by what they hold
OneTable = str | Path | Table  # a file, a folder of files, or a table that is open already
ManyTables = OneTable | Mapping[str, OneTable] | TablePlaces
_ENDS_HINT = "add --join NAME=SOURCE:TARGET"


@dataclass(frozen=True)
class TypeTable:
    """The table of one node type, and which of its columns are what."""

    table: Any
    names: NodeNames


def type_tables(
    nodes: Any,
    names: NodeNames,
    names_of: Mapping[str, NodeNames],
    asked: str | None,
    read: Callable[[Any], Any] = Table,
) -> tuple[dict[str, TypeTable], str]:
    """Node tables by type, and the target: the type that is asked for, else the only one with labels.

    `nodes` is one table or several by type, each as `read` takes it.
    """
    given = dict(nodes) if isinstance(nodes, Mapping) else {ONE_TYPE: nodes}
    for node_type in given:
        check_name(node_type)
    _known("column names", names_of, given)
    if len(given) > 1 and names.features is not None and names.features.endswith(".npy"):
        raise GamlpError(
            f"'{names.features}' cannot be the features of several types", hint="write --features TYPE=FILE.npy"
        )
    found = {node_type: TypeTable(read(path), names_of.get(node_type, names)) for node_type, path in given.items()}
    target = _target(found, asked)
    tables = {node_type: one if node_type == target else without_targets(one) for node_type, one in found.items()}
    return tables, target


def edge_tables(
    edges: ManyTables,
    names: EdgeNames,
    names_of: Mapping[str, EdgeNames],
    relation_ends: RelationEnds,
    types: Mapping[str, object],
    read: Callable[[Any], Table] = Table,
    before: Cut | None = None,
    by_period: bool = False,
) -> tuple[list[EdgesTable], RelationEnds]:
    """Edge tables, and the types that their relations join."""
    relation_ends = resolve_relation_ends(edges, names_of, relation_ends, types)
    if isinstance(edges, Mapping):
        return [
            EdgesTable(read(path), names_of.get(name, names), relation_ends, name, before, by_period)
            for name, path in edges.items()
        ], relation_ends
    table = EdgesTable(read(edges), names, relation_ends, before=before, by_period=by_period)
    if relation_ends.alone is None and table.relation is None:
        raise unnamed_edges(table.table.place)
    return [table], relation_ends


def resolve_relation_ends(
    edges: object, names_of: Mapping[str, object], relation_ends: RelationEnds, types: Mapping[str, object]
) -> RelationEnds:
    """The types that the relations of all edge tables join; with one type alone that goes without saying."""
    alone = next(iter(types)) if len(types) == 1 and not relation_ends.declared else None
    declared = dict(relation_ends.declared)
    if isinstance(edges, Mapping):
        _known("column names", names_of, edges)
        for name in edges:
            check_name(name)
            if alone is not None:
                declared[name] = alone, alone
            elif name not in declared:
                raise GamlpError(f"no --join says which types relation '{name}' joins", hint=_ENDS_HINT)
    relation_ends = replace(relation_ends, declared=declared, alone=alone)
    relation_ends.check(types)
    return relation_ends


def unnamed_edges(table: str | Path) -> GamlpError:
    """What is said of edges between several types, of which it is unknown which."""
    return GamlpError(
        "edges between several types of nodes need names",
        file=table,
        hint="give a table for each relation, --edges NAME=PATH, or the column that names them, --relation COLUMN",
    )


def _target(tables: Mapping[str, TypeTable], asked: str | None) -> str:
    if asked is not None:
        if asked not in tables:
            raise GamlpError(f"--target {asked}: there are no such nodes", hint=f"there are: {', '.join(tables)}")
        return asked
    if len(tables) == 1:
        return next(iter(tables))
    labelled = [node_type for node_type, one in tables.items() if _label(one.names) in one.table.column_names]
    if len(labelled) != 1:
        message = f"types {' and '.join(labelled)} have" if labelled else "no type of nodes has"
        raise GamlpError(f"{message} a column of labels", hint="say whose labels are asked for with --target TYPE")
    return labelled[0]


def _label(names: NodeNames) -> str:
    return "label" if names.label is None else names.label


def without_targets(one: TypeTable) -> TypeTable:
    """Labels and split are those of the target alone; in other types such columns are not features either."""
    names = one.names
    left_out = (_label(names), "split" if names.split is None else names.split)
    return replace(one, names=replace(names, label="", split="", left_out=left_out))


def _known(what: str, given: Mapping[str, object], names: Mapping[str, object]) -> None:
    wrong = next((name for name in given if name not in names), None)
    if wrong is not None:
        raise GamlpError(f"{what} for '{wrong}', of which there is no table", hint=f"there are: {', '.join(names)}")


__all__ = ["IngestOptions", "IngestReport", "ingest"]

_SMALLEST_SHARE = 1 << 20  # for sorting; less would read a bucket over and over
_SMALLEST_BATCH, _LARGEST_BATCH, _LARGEST_HASHED = 1 << 18, 8 << 20, 256 << 20


@dataclass(frozen=True)
class IngestOptions:
    """How tables are read, on every engine.

    `joins`: the types (source, target) of every relation, where there are several node types. Column names of some
    tables may differ: `names_of`, `edge_names_of`.
    """

    edge_names: EdgeNames = field(default_factory=EdgeNames)
    node_names: NodeNames = field(default_factory=NodeNames)
    directed: bool = False
    dtype: FloatName = "float32"
    on_bad: OnBad = "stop"
    fractions: Sequence[float] = (0.6, 0.2, 0.2)
    seed: int = 0
    max_rows: int | None = None  # of a table; None: as many as files of such a size honestly hold
    delimiter: str | None = None  # between columns of text; None: found from the first lines
    decimal: str | None = None  # ',': numbers of text have a decimal comma; None: such numbers are refused
    name: str | None = None  # None: that of the folder
    relation_ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    target: str | None = None  # None: the only type that has labels
    names_of: Mapping[str, NodeNames] = field(default_factory=dict)
    edge_names_of: Mapping[str, EdgeNames] = field(default_factory=dict)
    before: str | None = None  # edges at this time or later are left out
    columns: Mapping[str, str] = field(default_factory=dict)  # types of feature columns; `*`: of all without a name
    drop: Sequence[str] = ()  # columns that are not features
    schema: PlainSchema | None = None  # types and states of columns: `plain_schema(read_schema(file))`
    split_by: TimeSplit | None = None  # of the target's nodes

    def rules(self) -> ReadingRules:
        """What is said of how tables are written. Labels with commas between them are no decimal commas."""
        commas = any(names.separator == "," for names in (self.node_names, *self.names_of.values()))
        return ReadingRules(self.delimiter, self.decimal or ("." if commas else None), self.max_rows)


def _read_table(place: OneTable, rules: ReadingRules) -> Table:
    return place if isinstance(place, Table) else Table(Path(place), rules)


def ingest(
    edges: ManyTables,
    nodes: ManyTables,
    out: str | Path,
    options: IngestOptions | None = None,
    *,
    memory: int | None = None,
    progress: Progress = silent,
) -> IngestReport:
    """Build a graph folder; nothing is left behind when something is wrong.

    Several node types: `nodes` by type, `edges` by relation (or one table with a column of relations). `memory`:
    bytes, None for half of what is available.
    """
    began = time.monotonic()
    options, out = options or IngestOptions(), Path(out)
    check_fractions(options.fractions)
    cuts = () if options.split_by is None else options.split_by.cuts()
    before = None if options.before is None else Cut.of("--before", options.before, included=False)
    memory = memory or available_memory() // 2
    bad = BadRows(options.on_bad)
    read = partial(_read_table, rules=options.rules())
    types, target = type_tables(nodes, options.node_names, options.names_of, options.target, read)
    given = RelationEnds(options.relation_ends, directed=options.directed)
    by_relation, relation_ends = edge_tables(
        edges, options.edge_names, options.edge_names_of, given, types, read, before, bool(cuts)
    )
    size = min(max(memory // 16, _SMALLEST_BATCH), _LARGEST_BATCH)
    wanted = WantedTypes(options.columns, options.drop)
    by_type = {
        node_type: NodesTable(
            one.table,
            one.names,
            bad,
            size,
            progress,
            node_type,
            options.split_by if node_type == target else None,
            wanted,
            GivenSchema.of(options.schema, node_type),
        )
        for node_type, one in types.items()
    }
    wanted.check_known({node_type: table.columns.names for node_type, table in by_type.items()})
    with writing(out, options.name or out.name, target=target) as writer:
        report = IngestReport(str(out), 0, target=target)
        ids, counts, since = read_nodes(options, by_type, writer, report)
        if any(known.by_hash for known in ids.values()):
            size = min(max(memory // 8, _SMALLEST_BATCH), _LARGEST_HASHED)
        relations = RelationsBuild(writer, counts, max(memory * 3 // 4, _SMALLEST_SHARE), EARLIER if cuts else ())
        periods = EdgePeriods(cuts, since) if cuts else None
        _read_edges(by_relation, relation_ends, ids, relations, bad, size, report, progress, periods)
        ids.clear()  # its memory is for sorting now
        pa.default_memory_pool().release_unused()
        relations.write(report, progress)
        report.bad_rows = dict(bad.counts)
        report.delimiters = _delimiters([*(one.table for one in types.values()), *(one.table for one in by_relation)])
        writer.source = report.source(_file_names(edges), _file_names(nodes), options.seed)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def read_nodes(
    options: IngestOptions, nodes: Mapping[str, NodesTable], writer: GraphWriter, report: IngestReport
) -> tuple[dict[str, IdMap], dict[str, int], dict[str, Array]]:
    """Rows by id and the number of nodes, type by type, and the periods of those that have times."""
    ids: dict[str, IdMap] = {}
    counts: dict[str, int] = {}
    since: dict[str, Array] = {}
    draw = RandomSplit(options.fractions, options.seed)
    for node_type, table in nodes.items():
        found = table.read(options.dtype, writer.folder / "features.reading")
        write_nodes(node_type, table, found, draw, writer, report)
        ids[node_type], counts[node_type] = IdMap(found.ids), found.count
        since |= {} if found.periods is None else {node_type: found.periods.since}
    return ids, counts, since


def _read_edges(
    tables: Sequence[EdgesTable],
    relation_ends: RelationEnds,
    ids: Mapping[str, IdMap],
    relations: RelationsBuild,
    bad: BadRows,
    size: int,
    report: IngestReport,
    progress: Progress,
    periods: EdgePeriods | None,
) -> None:
    """Relations in the order in which they are declared, others as they turn up in the table."""
    table_of = {table.name: table for table in tables}
    for name in relation_ends.declared:
        relation = relation_ends.of(name)
        assert relation is not None
        relations.declare(relation, table_of.get(name, table_of.get(None)))

    def entries_of(table: EdgesTable, relation: DeclaredRelation) -> Spilled:
        return relations.spilled.get(relation.name) or relations.declare(relation, table)

    for table in tables:
        table.spill(ids, partial(entries_of, table), bad, size, progress, periods)
        report.edges_read += table.read
        report.self_loops_dropped += table.loops
        report.edges_later += table.later
        report.columns += table.uses()
        for sentence in table.notes:
            report.warn(sentence)
    if not relations.spilled:
        relations.declare(
            DeclaredRelation(ONE_RELATION, next(iter(ids)), next(iter(ids)), relation_ends.directed), tables[0]
        )
    empty = [name for name, one in relations.spilled.items() if one.forward.entries == 0]
    if len(empty) == len(relations.spilled):
        report.warn("the graph has no edges")
    else:
        for name in (name for name in empty if name in relation_ends.declared):
            report.warn(f"relation '{name}' has no edges")


def _delimiters(tables: Sequence[Table]) -> dict[str, str]:
    """What stands between the columns of tables that are text, by their names."""
    return {table.place.name: one for table in tables for one in table.delimiters}


def _file_names(tables: ManyTables) -> str | dict[str, str]:
    if isinstance(tables, Mapping):
        return {name: _file_name(table) for name, table in tables.items()}
    return _file_name(tables)


def _file_name(table: OneTable) -> str:
    return table.place.name if isinstance(table, Table) else Path(table).name
