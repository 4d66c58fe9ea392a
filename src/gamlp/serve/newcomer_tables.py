"""Newcomers that were kept → tables as a person would have given them: of nodes by type, of edges by relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gamlp.errors import GamlpError
from gamlp.graph import FeatureColumn, FeatureSchema, Graph, class_values
from gamlp.graph.features.encoders import FittedColumn
from gamlp.graph.ingest import EdgeNames, IngestOptions, NodeNames
from gamlp.io import atomic_file, save_array
from gamlp.serve.ids import IdBook
from gamlp.serve.questions import Ends, Id, NewNode

_EXACT = 2**53  # whole numbers below it are the same as float64
_YES_OR_NO = ("category", "boolean")  # types of columns that know the words


@dataclass
class NewcomerTables:
    """Files by type and by relation, and how to read them. `notes`: what was left out.

    Nodes of a graph whose features have no names have theirs in a .npy file beside.
    """

    folder: Path
    nodes: dict[str, Path] = field(default_factory=dict)
    edges: dict[str, Path] = field(default_factory=dict)
    names: dict[str, NodeNames] = field(default_factory=dict)
    edge_names: dict[str, EdgeNames] = field(default_factory=dict)
    count: int = 0
    edge_count: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def options(self) -> IngestOptions:
        return IngestOptions(names_of=self.names, edge_names_of=self.edge_names)

    @property
    def files(self) -> dict[str, list[Path]]:
        """All of them, by what they hold."""
        beside = [Path(one.features) for one in self.names.values() if one.features]
        return {"nodes": [*self.nodes.values(), *beside], "edges": list(self.edges.values())}


def write_tables(graph: Graph, classes: Sequence[str], nodes: Sequence[NewNode], folder: Path) -> NewcomerTables:
    """Tables of newcomers of a graph, in their order.

    classes: that the model knows; a label that is none of them is left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found, ids = NewcomerTables(folder), IdBook(graph)
    by_type: dict[str, dict[Id, NewNode]] = {name: {} for name in graph.node_types}
    for node in nodes:
        node_type = node.node_type or graph.target
        assert node.id is not None
        by_type[node_type].setdefault(ids.plain(node_type, node.id), node)
    for node_type, some in by_type.items():
        if some:
            _write_nodes(found, graph, node_type, some, classes)
    _write_edges(found, graph, ids, by_type)
    return found


def _write_nodes(
    found: NewcomerTables, graph: Graph, node_type: str, nodes: Mapping[Id, NewNode], classes: Sequence[str]
) -> None:
    features = graph.node_types[node_type].features
    assert features is not None  # newcomers of a type without are refused
    names = set() if features.columns is None else {column.name for column in features.columns}
    id_name, label_name = _free("id", names), _free("label", names)
    columns: dict[str, pa.Array] = {id_name: _ids(list(nodes))}
    labels = (
        _labels(graph, [node.label for node in nodes.values()], classes, found) if node_type == graph.target else None
    )
    if labels is not None:
        columns[label_name] = labels
    beside: str | None = None
    if features.columns is None:
        place = found.folder / f"features-{node_type}.npy"
        with atomic_file(place) as new:
            save_array(new, np.asarray([node.features for node in nodes.values()], np.float32))
        beside = str(place)
    else:
        columns |= _cells(features.columns, list(nodes.values()))
    found.nodes[node_type] = _write(found.folder / f"nodes-{node_type}.parquet", columns)
    label = "" if labels is None else label_name
    found.names[node_type] = NodeNames(id_name, label, "", beside)
    found.count += len(nodes)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _ids(names: Sequence[Id]) -> pa.Array:
    """Integers where all are, else texts; a graph's own ids are then texts too."""
    try:
        return pa.array(names, pa.int64()) if all(type(name) is int for name in names) else _texts(names)
    except OverflowError:
        return _texts(names)


def _texts(names: Sequence[Id]) -> pa.Array:
    return pa.array([str(name) for name in names], pa.large_string())


def _labels(graph: Graph, given: Sequence[Any], classes: Sequence[str], found: NewcomerTables) -> pa.Array | None:
    """Names of classes, in lists where nodes have many; None where nobody has one."""
    own = graph.nodes.labels
    if own is None or all(label is None for label in given):
        return None
    known: dict[Any, str] = {name: name for name in classes}
    for name, value in zip(classes, class_values(classes, own.class_type)):
        known.setdefault((type(value), value), name)
    strange: list[Any] = []

    def name_of(label: Any) -> str | None:
        number = int(label) if type(label) is float and label.is_integer() else label
        plain = isinstance(label, str | int | float)  # a question may bring anything
        name = known.get((type(number), number), known.get(str(number))) if plain else None
        if name is None and label is not None:
            strange.append(label)
        return name

    def names_of(labels: Any) -> list[str] | None:
        if labels is None:
            return None
        several = list(labels) if isinstance(labels, list | tuple) else [labels]
        names = [name for name in map(name_of, several) if name is not None]
        return names if names or not several else None

    if own.multi_label:
        values = pa.array([names_of(label) for label in given], pa.large_list(pa.large_string()))
    else:
        values = pa.array([name_of(label) for label in given], pa.large_string())
    if strange:
        found.notes.append(
            f"labels of newcomers that are no class of the model are left out: {len(strange):,}, such as '{strange[0]}'"
        )
    return values


def _cells(columns: FeatureSchema, nodes: Sequence[NewNode]) -> dict[str, pa.Array]:
    found = {}
    for column in columns:
        cells = [node.cells.get(column.name) for node in nodes]
        found[column.name] = _encoded(column, cells) if column.state is None else _column(column, cells)
    return found


def _encoded(column: FeatureColumn, cells: Sequence[Any]) -> pa.Array:
    """Of a column that is kept as it is, and has no gaps in a table: what a question makes of each cell."""
    fitted = FittedColumn.of(column)
    rows = [fitted.apply(pa.array([cell]))[0][0] for cell in cells]
    return pa.array([float(row[0]) for row in rows] if fitted.type == "as-is" else [row.tolist() for row in rows])


def _column(column: FeatureColumn, cells: Sequence[Any]) -> pa.Array:
    """Cells of one type as they are; of several, texts that say the same."""
    kinds = {"number" if type(cell) in (int, float) else type(cell).__name__ for cell in cells if cell is not None}
    numbers = {type(cell) for cell in cells if type(cell) in (int, float)}
    large = any(type(cell) is int and abs(cell) > _EXACT for cell in cells)
    if len(kinds) < 2 and not (large and len(numbers) > 1):
        return pa.array(cells)
    return pa.array([None if cell is None else _text(column, cell) for cell in cells], pa.large_string())


def _text(column: FeatureColumn, cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower() if column.type in _YES_OR_NO else str(int(cell))
    return cell if isinstance(cell, str) else repr(cell)


def _write_edges(found: NewcomerTables, graph: Graph, ids: IdBook, by_type: Mapping[str, Mapping[Id, NewNode]]) -> None:
    rows: dict[str, _EdgeRows] = {name: _EdgeRows([], [], []) for name in graph.relation_pairs}
    for node_type, nodes in by_type.items():
        for name, node in nodes.items():
            for ends_by, leads_away in ((node.hears, False), (node.leads_to, True)):
                for relation, ends in ends_by.items():
                    key = next(iter(rows)) if relation is None else relation
                    rows[key].add(graph, ids, key, (node_type, name), ends, leads_away=leads_away)
    for key, edges in rows.items():
        if not edges.sources:
            continue
        columns = {"src": _ids(edges.sources), "dst": _ids(edges.targets)}
        weighted = graph.relations[graph.relation_pairs[key][0]].weighted
        if weighted:
            columns["weight"] = pa.array(edges.weights, pa.float64())
        found.edges[key] = _write(found.folder / f"edges-{key}.parquet", columns)
        found.edge_names[key] = EdgeNames("src", "dst", "weight" if weighted else "", "", "")
        found.edge_count += len(edges.sources)


@dataclass(frozen=True)
class _EdgeRows:
    """Ids of both ends, and weights where the relation has some."""

    sources: list[Id]
    targets: list[Id]
    weights: list[float]

    def add(self, graph: Graph, ids: IdBook, name: str, own: tuple[str, Id], ends: Ends, *, leads_away: bool) -> None:
        relation = graph.relations[graph.relation_pairs[name][0]]
        node_type, node = own
        if relation.source != relation.target:  # of two types the one that fits is meant
            leads_away = node_type == relation.source
        other = relation.target if leads_away else relation.source
        names = [ids.plain(other, one) for one in ends.ids]
        (self.targets if leads_away else self.sources).extend(names)
        (self.sources if leads_away else self.targets).extend([node] * len(names))
        self.weights.extend(ends.weights or [1.0] * len(names))


def _write(path: Path, columns: Mapping[str, pa.Array]) -> Path:
    try:
        table = pa.table(dict(columns))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # the log was edited
        raise GamlpError(f"newcomers cannot be written as a table ({error})", file=path) from error
    with atomic_file(path) as new:
        pq.write_table(table, new)
    return path
