"""Tables of newcomers and further edges → what they add to a graph: read as ingest reads, by the graph's own rules."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamlp.arrays import Array
from gamlp.errors import GamlpError
from gamlp.graph.entries import RelationEntries
from gamlp.graph.features.encoders import FittedColumn, as_known
from gamlp.graph.folder import writing
from gamlp.graph.graph import Features, Graph, Nodes, Split
from gamlp.graph.growth.growth import GrownGraph, joined_ids
from gamlp.graph.growth.in_place import grow_folder
from gamlp.graph.ingest.build import IngestOptions, TablePlaces, TypeTable, read_nodes, without_targets
from gamlp.graph.ingest.columns import BadRows
from gamlp.graph.ingest.edges import EdgesTable
from gamlp.graph.ingest.ids import IdMap
from gamlp.graph.ingest.nodes import NodesTable
from gamlp.graph.ingest.report import IngestReport
from gamlp.graph.ingest.spilled import Spilled
from gamlp.graph.ingest.tables import Table
from gamlp.graph.ingest.wanted import EVERY, GivenSchema, WantedTypes
from gamlp.graph.opening import open_graph
from gamlp.graph.relations import DeclaredRelation, RelationEnds
from gamlp.graph.schema import match_columns, name_some
from gamlp.graph.splits import roles_by_id
from gamlp.io import available_memory
from gamlp.kernel import MOST_NODES, spread_rows
from gamlp.progress import Progress, silent

_SMALLEST_BATCH, _LARGEST_BATCH = 1 << 18, 8 << 20
_FRACTIONS = (0.6, 0.2, 0.2)  # of a graph that does not say them: those that ingest draws unless it is told others


@dataclass
class NewcomersReport(IngestReport):
    """The report of newcomers: a few nodes need not fill every part of a split, nor have every class."""

    def untrained(self, absent: Iterable[str]) -> None:
        pass

    def empty_parts(self, fractions: Iterable[float]) -> None:
        pass


@dataclass(frozen=True)
class Additions:
    """What tables add to a graph, and what was read."""

    growth: GrownGraph
    report: IngestReport
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AddedTables:
    """A graph folder that has grown: newcomers by type, and what was read."""

    graph: Graph
    new: dict[str, int]
    report: IngestReport
    notes: list[str]


def read_additions(
    base: Graph,
    nodes: TablePlaces | None,
    edges: TablePlaces | None,
    scratch: Path,
    options: IngestOptions | None = None,
    *,
    memory: int | None = None,
    progress: Progress = silent,
) -> Additions:
    """Newcomers and edges, in the graph's own types, relations, columns and rules; `scratch` is a folder that exists.

    Newcomers' arrays are mapped from the scratch folder for as long as they are used.
    """
    options = options or IngestOptions()
    if base.earlier or base.source.get("split_by") is not None:
        raise GamlpError(
            f"graph '{base.name}' is split by time, and newcomers would need its edges as they were then",
            hint="ingest all tables together: gamlp ingest --nodes N --edges E --out GRAPH",
        )
    memory = memory or available_memory() // 2
    bad = BadRows(options.on_bad)
    report = NewcomersReport(str(scratch), 0, target=base.target)
    size = min(max(memory // 16, _SMALLEST_BATCH), _LARGEST_BATCH)
    read = partial(Table, rules=options.rules())
    known = {name: IdMap(_values(one)) for name, one in base.node_types.items()}
    tables = _by_name(nodes, base.node_types, "nodes of type", "a new type of nodes")
    notes: list[str] = []
    newcomers: dict[str, Nodes] = {}
    for node_type, place in tables.items():
        one = TypeTable(read(place), options.names_of.get(node_type, options.node_names))
        one = one if node_type == base.target else without_targets(one)
        table = _nodes_table(base, one, bad, size, progress, node_type, known[node_type])
        found = _read_type(base, table, scratch / f"newcomers-{node_type}", options, report)
        newcomers[node_type] = _as_in_graph(base, found, table, notes, report.split_made)
    ids = {
        name: IdMap(_values(_joined(one, newcomers[name]))) if name in newcomers else known[name]
        for name, one in base.node_types.items()
    }
    added = _read_edges(base, edges, ids, bad, size, options, report, progress)
    report.bad_rows = dict(bad.counts)
    return Additions(GrownGraph(base, newcomers, added), report, notes)


def add_tables(
    folder: str | Path,
    nodes: TablePlaces | None = None,
    edges: TablePlaces | None = None,
    options: IngestOptions | None = None,
    *,
    memory: int | None = None,
    progress: Progress = silent,
) -> AddedTables:
    """Let a graph folder grow in place by newcomers and edges: old rows keep their numbers, new rows follow.

    The arrays are those of an ingest of all tables together, old rows first, where columns are encoded as they were.
    Killed at any moment, the old graph is there, and the same command again adds what was to be added, once.
    """
    if nodes is None and edges is None:
        raise GamlpError("nothing to add", hint="give --nodes, --edges or both")
    begun = time.monotonic()
    files = {"nodes": _files(nodes), "edges": _files(edges)}

    def read(base: Graph, scratch: Path) -> tuple[GrownGraph, Additions]:
        found = read_additions(base, nodes, edges, scratch, options, memory=memory, progress=progress)
        return found.growth, found

    grown, added = grow_folder(Path(folder), files, read, _told_apart(nodes, edges, options))
    notes = ["these tables were added before: nothing was changed"] if added is None else added.notes
    report = IngestReport(str(folder), 0) if added is None else added.report
    new = {} if added is None else {name: one.count for name, one in added.growth.nodes.items()}
    report.folder, report.seconds = str(folder), round(time.monotonic() - begun, 3)
    report.entries = {name: relation.entries for name, relation in grown.relations.items()}
    return AddedTables(grown, new, report, notes)


def _told_apart(nodes: TablePlaces | None, edges: TablePlaces | None, options: IngestOptions | None) -> Any:
    """What tells tables of the same files apart: types and relations, tables of a database, names of columns.

    None where nothing was said of them.
    """
    given, usual = options or IngestOptions(), IngestOptions()
    parts = ("node_names", "edge_names", "names_of", "edge_names_of")
    columns = {part: repr(getattr(given, part)) for part in parts if getattr(given, part) != getattr(usual, part)}
    within = {part: _within(one) for part, one in (("nodes", nodes), ("edges", edges))}
    tables = {part: found for part, found in within.items() if found is not None}
    return [tables, columns] if tables or columns else None


def _within(tables: TablePlaces | None) -> Any:
    """The table of a database, by type or relation where they are named; None of one plain table."""
    if isinstance(tables, Mapping):
        return {name: _within(place) for name, place in tables.items()}
    return None if tables is None or Path(tables).exists() else str(tables).partition("::")[2] or None


def _files(tables: TablePlaces | None) -> list[Path]:
    """Files that tables are in; one that is not there is told when it is read."""
    places = [] if tables is None else list(tables.values()) if isinstance(tables, Mapping) else [tables]
    found: list[Path] = []
    for place in places:
        path = Path(place) if Path(place).exists() else Path(str(place).partition("::")[0])
        found += sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    return [path for path in found if path.exists()]


def _by_name(given: TablePlaces | None, there: Iterable[str], what: str, new: str) -> dict[str, Path]:
    """Tables by what they hold; one without a name where the graph has one such thing."""
    there = list(there)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(there) > 1:
            raise GamlpError(f"the graph has several {what.split()[0]}: {', '.join(there)}", hint="write NAME=PATH")
        return {there[0]: Path(given)}
    for name in given:
        if name not in there:
            raise GamlpError(
                f"the graph has no {what} '{name}'; there are: {', '.join(there)}",
                hint=f"{new} needs an ingest of all tables: gamlp ingest --nodes N --edges E --out GRAPH",
            )
    return {name: Path(place) for name, place in given.items()}


def _nodes_table(
    base: Graph, one: TypeTable, bad: BadRows, size: int, progress: Progress, node_type: str, known: IdMap
) -> NodesTable:
    """A table whose columns are encoded by the states that the graph has."""
    features = base.node_types[node_type].features
    columns = None if features is None else features.columns
    wanted, schema = WantedTypes(), None
    if features is None:  # no column of the graph's own table is a feature
        wanted = WantedTypes({EVERY: "drop"})
    elif columns is not None and any(column.state is not None for column in columns):
        fitted = {column.name: FittedColumn.of(column) for column in columns}
        schema = GivenSchema({name: column.type for name, column in fitted.items()}, fitted)
    else:  # numbers as they are: of a graph without states, or whose columns have no names
        names = None if columns is None else {column.name for column in columns}
        others = [] if names is None else [name for name in one.table.all_column_names if name not in names]
        wanted = WantedTypes({EVERY: "as-is"}, others)
    return NodesTable(
        one.table, one.names, bad, size, progress, node_type, wanted=wanted, schema=schema, taken=known
    )  # fmt: skip


def _read_type(base: Graph, table: NodesTable, folder: Path, options: IngestOptions, report: IngestReport) -> Nodes:
    """Newcomers of one type, through a graph of them alone."""
    old = base.node_types[table.node_type].features
    dtype = options.dtype if old is None else old.dtype
    with writing(folder, "newcomers", target=table.node_type) as writer:
        read_nodes(replace(options, dtype=dtype), {table.node_type: table}, writer, report)
    return open_graph(folder).nodes


def _as_in_graph(base: Graph, found: Nodes, table: NodesTable, notes: list[str], drawn: bool) -> Nodes:
    """Newcomers with the features, in the order, that the graph has, and with roles by the graph's rule."""
    old = base.node_types[found.name]
    features = _features(old.features, found.features, table, notes)
    split = _split(base, found, table, drawn) if found.name == base.target else None
    if found.name == base.target and old.labels is not None and table.label is None and table.names.label is None:
        others = name_some(list(table.plan.left_out))
        notes.append(
            "newcomers have no labels: no column is called 'label'"
            + (f", and {others} left out (where one holds them, name it with --label)" if others else "")
        )
    return replace(found, features=features, split=split)


def _features(old: Features | None, new: Features | None, table: NodesTable, notes: list[str]) -> Features | None:
    file = table.table.place
    if old is None:
        if new is not None or table.plan.left_out:
            notes.append("features of newcomers are left out: the graph has none")
        return None
    if new is None:
        raise GamlpError("newcomers have no features, and nodes of the graph have", file=file, hint=_same(old))
    if old.columns is None or new.columns is None:
        if old.width != new.width:
            raise GamlpError(
                f"{new.width} features where nodes of the graph have {old.width}", file=file, hint=_same(old)
            )
        return new
    match = match_columns(as_known(new.columns, old.columns), old.columns)
    if match.missing:
        raise GamlpError(f"lacks {name_some(match.missing)}, which the graph has", file=file, hint=_same(old))
    if match.changed:
        before, now = match.changed[0]
        raise GamlpError(
            f"holds {now} where the graph has {before}", file=file, column=before.name, hint="give the same columns"
        )
    if match.ignored:
        notes.append(f"{name_some(match.ignored)} of newcomers left out: the graph was made without")
    return new if match.order is None else new.arranged(match.order, old.columns)


def _same(old: Features) -> str:
    if old.columns is None:
        return f"give {old.width} numbers a node, or a .npy file with --features"
    return f"give the columns of the graph: {name_some([one.name for one in old.columns])}"


def _split(base: Graph, found: Nodes, table: NodesTable, drawn: bool) -> Split | None:
    """A newcomer's role: that of its table; else, where the graph's split was drawn by ids, drawn by the same rule.

    A column of roles that are all empty says nothing: what reading has `drawn` then is not by the graph's rule.
    """
    if found.labels is None or (table.split is not None and not drawn):
        return found.split
    seed = base.source.get("seed")
    if base.nodes.split is None or seed is None:
        return None  # the graph's roles are somebody's own: nobody gave newcomers one
    fractions = base.source.get("fractions") or _FRACTIONS
    roles = np.zeros(found.count, np.int8)
    rows = np.flatnonzero(found.labels.known())
    roles[rows] = roles_by_id(found.ids.take(rows), fractions, int(seed))
    return Split(roles)


def _read_edges(
    base: Graph,
    edges: TablePlaces | None,
    ids: Mapping[str, IdMap],
    bad: BadRows,
    size: int,
    options: IngestOptions,
    report: IngestReport,
    progress: Progress,
) -> dict[str, RelationEntries]:
    pairs = base.relation_pairs
    alone = next(iter(base.node_types)) if len(base.node_types) == 1 else None
    ends = RelationEnds(
        {name: (base.relations[name].source, base.relations[name].target) for name in pairs}, alone=alone
    )
    gathered = {name: _Gathered() for name in base.relations}
    for name, place in _edge_tables(base, edges).items():
        table = EdgesTable(
            Table(place, options.rules()), options.edge_names_of.get(name or "", options.edge_names), ends,
            name,
        )  # fmt: skip
        if name is None and table.relation is None:
            raise GamlpError(
                f"the graph has several relations ({', '.join(pairs)}), and nothing says of which these edges are",
                file=place,
                hint="write NAME=PATH for each",
            )
        table.spill(ids, partial(_sink, base, gathered, table), bad, size, progress)
        report.edges_read += table.read
        report.self_loops_dropped += table.loops
        report.columns += table.uses()
    return {name: one.entries(base.relations[name].weighted) for name, one in gathered.items() if one.rows}


def _edge_tables(base: Graph, edges: TablePlaces | None) -> dict[str | None, Path]:
    pairs = base.relation_pairs
    if edges is not None and not isinstance(edges, Mapping) and len(pairs) > 1:
        return {None: Path(edges)}  # a column names the relation of each
    named: dict[str | None, Path] = {}
    named.update(_by_name(edges, pairs, "relation", "a new relation"))
    return named


def _sink(base: Graph, gathered: Mapping[str, _Gathered], table: EdgesTable, relation: DeclaredRelation) -> Spilled:
    """Where edges of a relation go: both ways, or into the reverse too, as the graph has them."""
    found = base.relations.get(relation.name)
    if found is None or relation.name not in base.relation_pairs:
        raise GamlpError(
            f"the graph has no relation '{relation.name}'", hint=f"there are: {', '.join(base.relation_pairs)}"
        )
    if found.weighted and table.weight is None:
        raise GamlpError("edges of the graph have weights, and these have none", hint="give a column of weights")
    if table.weight is not None and not found.weighted:
        raise GamlpError(
            f"edges of the graph have no weights, and these have the column '{table.weight}'",
            hint="leave it out: --weight ''",
        )
    declared = replace(relation, directed=found.directed)
    reverse = None if found.reverse is None else gathered[found.reverse]
    # All that it asks of where entries go is `add`.
    return Spilled(declared, table.weight, gathered[found.name], reverse)  # type: ignore[arg-type]


class _Gathered:
    """Entries of a relation in memory: they are an addition's."""

    def __init__(self) -> None:
        self.rows: list[Array] = []
        self.neighbours: list[Array] = []
        self.weights: list[Array] = []

    def add(self, rows: Array, neighbours: Array, weights: Array | None, symmetric: bool = False) -> None:
        if symmetric:  # both ways one after the other, as `Buckets` has them
            _, rows, neighbours, weights = spread_rows(
                rows, neighbours, weights, symmetric=True, width=MOST_NODES, count=1
            )
        self.rows.append(rows)
        self.neighbours.append(neighbours)
        if weights is not None:
            self.weights.append(weights)

    def entries(self, weighted: bool) -> RelationEntries:
        weights = np.concatenate(self.weights).astype(np.float32) if weighted else None
        rows, neighbours = (np.concatenate(one).astype(np.int32) for one in (self.rows, self.neighbours))
        return RelationEntries(rows, neighbours, weights)


def _joined(old: Nodes, new: Nodes) -> Nodes:
    ids = joined_ids(old.ids, new.ids)
    return replace(old, count=ids.count, ids=ids)


def _values(nodes: Nodes) -> Any:
    values = nodes.ids.values
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return np.arange(nodes.count) if values is None else values
