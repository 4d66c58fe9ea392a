"""Tables of nodes and edges → a graph folder, in a memory budget."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from gamlp.graph.columns import BadRows, OnBad
from gamlp.graph.edges_table import EdgeNames, EdgesTable
from gamlp.graph.folder import GraphWriter, writing
from gamlp.graph.graph import FloatName
from gamlp.graph.ids import IdMap
from gamlp.graph.ingest_edges import Relations, Spilled
from gamlp.graph.ingest_nodes import RandomSplit, write_nodes
from gamlp.graph.ingest_report import IngestReport
from gamlp.graph.ingest_types import Tables, edge_tables, type_tables
from gamlp.graph.joins import ONE_RELATION, Join, Joins
from gamlp.graph.nodes_table import NodeNames, NodesTable
from gamlp.graph.splits import check_fractions
from gamlp.memory import available_memory
from gamlp.progress import Progress, silent

__all__ = ["IngestOptions", "IngestReport", "ingest"]

_SMALLEST_SHARE = 1 << 20  # for sorting; less would read a bucket over and over
_SMALLEST_BATCH, _LARGEST_BATCH, _LARGEST_HASHED = 1 << 18, 8 << 20, 256 << 20


@dataclass(frozen=True)
class IngestOptions:
    """What to read, how, and where to write it.

    Several node types: `nodes` by type, `edges` by relation (or one table with a column of relations), `joins` the
    types (source, target) of every relation. Column names of some tables may differ: `names_of`, `edge_names_of`.
    """

    edges: Tables
    nodes: Tables
    out: Path
    edge_names: EdgeNames = field(default_factory=EdgeNames)
    node_names: NodeNames = field(default_factory=NodeNames)
    directed: bool = False
    dtype: FloatName = "float32"
    memory: int | None = None  # bytes; None: half of what is available
    on_bad: OnBad = "stop"
    fractions: Sequence[float] = (0.6, 0.2, 0.2)
    stratified: bool = True
    seed: int = 0
    name: str | None = None  # None: that of the folder
    joins: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    target: str | None = None  # None: the only type that has labels
    names_of: Mapping[str, NodeNames] = field(default_factory=dict)
    edge_names_of: Mapping[str, EdgeNames] = field(default_factory=dict)


def as_paths(tables: str | Mapping[str, str]) -> Tables:
    """One table's place, or several tables' by name."""
    return Path(tables) if isinstance(tables, str) else {name: Path(place) for name, place in tables.items()}


def ingest(options: IngestOptions, progress: Progress = silent) -> IngestReport:
    """Build a graph folder; nothing is left behind when something is wrong."""
    began = time.monotonic()
    check_fractions(options.fractions)
    memory = options.memory or available_memory() // 2
    bad = BadRows(options.on_bad)
    types, target = type_tables(options.nodes, options.node_names, options.names_of, options.target)
    given = Joins(options.joins, directed=options.directed)
    edges, joins = edge_tables(options.edges, options.edge_names, options.edge_names_of, given, types)
    size = min(max(memory // 16, _SMALLEST_BATCH), _LARGEST_BATCH)
    nodes = {kind: NodesTable(one.table, one.names, bad, size, progress, kind) for kind, one in types.items()}
    with writing(options.out, options.name or options.out.name, target=target) as writer:
        report = IngestReport(str(options.out), 0, target=target)
        ids, counts = _read_nodes(options, nodes, writer, report)
        if any(known.by_hash for known in ids.values()):
            size = min(max(memory // 8, _SMALLEST_BATCH), _LARGEST_HASHED)
        relations = Relations(writer, counts, max(memory * 3 // 4, _SMALLEST_SHARE))
        _read_edges(edges, joins, ids, relations, bad, size, report, progress)
        ids.clear()  # its memory is for sorting now
        pa.default_memory_pool().release_unused()
        relations.write(report, progress)
        report.bad_rows = dict(bad.counts)
        writer.source = report.source(_file_names(options.edges), _file_names(options.nodes), options.seed)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _read_nodes(
    options: IngestOptions, nodes: Mapping[str, NodesTable], writer: GraphWriter, report: IngestReport
) -> tuple[dict[str, IdMap], dict[str, int]]:
    """Rows by id and the number of nodes, type by type."""
    ids: dict[str, IdMap] = {}
    counts: dict[str, int] = {}
    draw = RandomSplit(options.fractions, options.seed, options.stratified)
    for kind, table in nodes.items():
        found = table.read_columns()
        write_nodes(kind, table, found, options.dtype, draw, writer, report)
        ids[kind], counts[kind] = IdMap(found.ids), found.count
    return ids, counts


def _read_edges(
    tables: Sequence[EdgesTable],
    joins: Joins,
    ids: Mapping[str, IdMap],
    relations: Relations,
    bad: BadRows,
    size: int,
    report: IngestReport,
    progress: Progress,
) -> None:
    """Relations in the order in which they are declared, others as they turn up in the table."""
    table_of = {table.name: table for table in tables}
    for name in joins.declared:
        join = joins.of(name)
        assert join is not None
        relations.declare(join, table_of.get(name, table_of.get(None)))

    def entries_of(table: EdgesTable, join: Join) -> Spilled:
        return relations.spilled.get(join.name) or relations.declare(join, table)

    for table in tables:
        table.spill(ids, partial(entries_of, table), bad, size, progress)
        report.edges_read += table.read
        report.self_loops_dropped += table.loops
    if not relations.spilled:
        relations.declare(Join(ONE_RELATION, next(iter(ids)), next(iter(ids)), joins.directed), tables[0])
    empty = [name for name, one in relations.spilled.items() if one.forward.entries == 0]
    if len(empty) == len(relations.spilled):
        report.warn("the graph has no edges")
    else:
        for name in (name for name in empty if name in joins.declared):
            report.warn(f"relation '{name}' has no edges")


def _file_names(tables: Tables) -> str | dict[str, str]:
    return {name: path.name for name, path in tables.items()} if isinstance(tables, Mapping) else tables.name
